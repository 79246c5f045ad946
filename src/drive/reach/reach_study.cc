// SPDX-License-Identifier: Apache-2.0
// See reach_study.h.
#include "drive/reach/reach_study.h"

#include <algorithm>
#include <chrono>
#include <cmath>

#include "drive/score/bootstrap.h"
#include "drive/study.h"
#include "task/arm_prompt.h"

namespace slip::drive {

namespace {

void count(const Answer& a, double ms, ReachCounts& c) {
  const Statistics& n = a.decoded.statistics;
  const bool second = n.drafter_forwards > 0;  // else drafts are passes of the model itself
  ++c.actions;
  c.passes += n.forwards, c.draft_passes += n.drafter_forwards, c.rounds += n.rounds;
  c.tested += n.tested, c.accepted += n.accepted;
  c.ms += ms, c.prompt_ms += n.ms.prefill;
  c.decode_ms += n.ms.verify + (second ? 0 : n.ms.draft);
  if (second) c.draft_ms += n.ms.draft, c.draft_prompt_ms += n.ms.drafter_prompt;
}

void add(const ReachCounts& more, ReachCounts& c) {
  c.actions += more.actions, c.passes += more.passes, c.draft_passes += more.draft_passes, c.rounds += more.rounds;
  c.tested += more.tested, c.accepted += more.accepted, c.invalid += more.invalid;
  c.ms += more.ms, c.prompt_ms += more.prompt_ms, c.decode_ms += more.decode_ms;
  c.draft_ms += more.draft_ms, c.draft_prompt_ms += more.draft_prompt_ms;
}

double share(double part, double whole) { return whole > 0 ? part / whole : 0; }
double share(double part, int64_t whole) { return share(part, static_cast<double>(whole)); }

}  // namespace

Result<ReachEpisode> reach_episode(Engine& engine, const Reacher& who, uint64_t seed, const CancelToken& cancel,
                                   const std::function<void(int64_t steps)>& told) {
  ReachEpisode out;
  sim::Reach world(seed);
  while (world.waits() && out.end == sim::ReachEnd::kGoesOn) out.end = world.step(sim::kArmStays);
  while (out.end == sim::ReachEnd::kGoesOn) {
    Request request;
    request.prompt = arm_prompt(world.sight());
    request.method = who.method;
    request.decode.seed = seed * 1'000'003 + static_cast<uint64_t>(world.steps());
    request.reuse_prompt = false;  // what an answer costs does not depend on the one before
    request.context.cancel = cancel;
    const auto begin = std::chrono::steady_clock::now();
    SLIP_TRY(const Answer answer, engine.run(request));
    const double ms = std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - begin).count();
    count(answer, ms, out.counts);
    const auto* said = answer.values.empty() ? nullptr : std::get_if<std::vector<double>>(&answer.values.front());
    ReachMoment m{world.tool(),
                  world.object(),
                  world.holds(),
                  sim::kArmStays,
                  answer.decoded.statistics.forwards,
                  answer.decoded.statistics.accepted};
    if (said && said->size() == m.step.size())
      std::copy(said->begin(), said->end(), m.step.begin());
    else
      ++out.counts.invalid;  // it stays where it is for this step
    out.moments.push_back(m);
    out.end = world.step(m.step);
    if (told) told(static_cast<int64_t>(out.moments.size()));
  }
  return out;
}

void Reached::add(const ReachEpisode& e) {
  drive::add(e.counts, counts);
  successes.push_back(e.end == sim::ReachEnd::kSuccess ? 1 : 0);
  ++ends[sim::words(e.end)];
}

double Reached::alpha() const { return share(static_cast<double>(counts.accepted), counts.tested); }

ActionTimes action_times(const Reached& plain, const Reached& drafted) {
  const ReachCounts &t = plain.counts, &d = drafted.counts;
  return {.target_prefill_ms = share(t.prompt_ms, t.actions),
          .target_step_ms = share(t.decode_ms, t.passes - t.actions),
          .draft_prefill_ms = share(d.draft_prompt_ms, d.actions),
          .draft_step_ms = share(d.draft_ms - d.draft_prompt_ms, d.draft_passes - d.actions)};
}

double action_speedup(const ActionTimes& t, int numbers, double alpha, int gamma) {
  const FiniteRun run = finite_run(numbers, alpha, gamma);
  const double plain = t.target_prefill_ms + (numbers - 1) * t.target_step_ms;
  return plain /
         (t.target_prefill_ms + t.draft_prefill_ms + (run.rounds - 1) * t.target_step_ms + run.draft_steps * t.draft_step_ms);
}

Interval wilson_interval(int64_t successes, int64_t n) {
  if (n == 0) return {0, 0, 1};
  constexpr double kZ = 1.959963984540054;  // of 97.5 %
  const auto count = static_cast<double>(n);
  const double p = static_cast<double>(successes) / count, z2 = kZ * kZ / count;
  const double middle = (p + z2 / 2) / (1 + z2), half = kZ / (1 + z2) * std::sqrt(p * (1 - p) / count + z2 / (4 * count));
  return {p, std::max(0.0, middle - half), std::min(1.0, middle + half)};
}

namespace {

/// What the formulas say, of a second model's drafts alone: another drafter's passes are priced otherwise.
void add_formulas(const Reached& plain, const Reached& r, json::object& row) {
  const ActionTimes t = action_times(plain, r);
  const double c = share(t.draft_step_ms, t.target_step_ms);
  const ReachCounts& n = r.counts;
  row["times_ms"] = json::object{{"target_prefill", t.target_prefill_ms},
                                 {"target_step", t.target_step_ms},
                                 {"draft_prefill", t.draft_prefill_ms},
                                 {"draft_step", t.draft_step_ms}};
  row["c"] = c;
  row["formula"] = speculative_speedup(r.alpha(), r.who.drafts, c);
  row["formula_of_an_action"] = action_speedup(t, sim::kArmNumbers, r.alpha(), r.who.drafts);
  // The report's code runs the target twice a round: once for its own token, once over the drafts.
  const double twice = n.ms + static_cast<double>(n.rounds) * t.target_step_ms;
  row["speed_two_passes"] = share(share(plain.counts.ms, plain.counts.actions), share(twice, n.actions));
}

json::object row_json(const Reached& plain, const Reached& r, const std::vector<std::string>& episodes) {
  const std::string_view won = sim::words(sim::ReachEnd::kSuccess);
  constexpr uint64_t kSeed = 17;
  constexpr int kResamples = 2000;
  const ReachCounts& n = r.counts;
  const auto each = [&](auto v) { return share(static_cast<double>(v), n.actions); };
  json::object row{{"decoder", r.who.decoder}, {"drafts", r.who.drafts}, {"radius_bins", r.who.radius}};
  row["episodes"] = r.successes.size();
  row["success"] =
      interval_json(wilson_interval(r.ends.contains(won) ? r.ends.at(won) : 0, static_cast<int64_t>(r.successes.size())));
  if (&plain != &r)
    row["less_the_first"] =
        interval_json(paired_interval(r.successes, plain.successes, episodes, Resampling::kPlain, kSeed, kResamples));
  row["actions"] = share(static_cast<double>(n.actions), static_cast<int64_t>(r.successes.size()));
  row["passes"] = each(n.passes), row["draft_passes"] = each(n.draft_passes), row["rounds"] = each(n.rounds);
  row["tested"] = n.tested, row["accepted"] = n.accepted, row["invalid"] = n.invalid;
  row["alpha"] = r.alpha();
  json::object ends;
  for (const auto& [word, times] : r.ends) ends[word] = times;
  row["ends"] = std::move(ends);
  row["ms"] = each(n.ms), row["prompt_ms"] = each(n.prompt_ms), row["decode_ms"] = each(n.decode_ms),
  row["draft_ms"] = each(n.draft_ms);
  row["speed"] = share(share(plain.counts.ms, plain.counts.actions), each(n.ms));
  if (r.who.second_model) add_formulas(plain, r, row);
  return row;
}

std::string radius_words(const json::object& row) {
  const int64_t radius = row.at("radius_bins").to_number<int64_t>();
  return row.at("drafts").to_number<int64_t>() == 0 ? "" : radius == 0 ? "exact" : std::to_string(radius);
}

/// A number that not every row has.
std::string some(const json::object& row, std::string_view key, int decimals) {
  const json::value* v = row.if_contains(key);
  return v ? fmt::format("{:.{}f}", v->to_number<double>(), decimals) : std::string();
}

}  // namespace

json::object reach_json(const std::vector<Reached>& all) {
  json::array rows;
  std::vector<std::string> episodes;
  for (size_t i = 0; i < all.front().successes.size(); ++i) episodes.push_back(std::to_string(i));
  for (const Reached& r : all) rows.emplace_back(row_json(all.front(), r, episodes));
  return {{"numbers", sim::kArmNumbers}, {"rows", std::move(rows)}};
}

std::string reach_table(const json::object& study) {
  std::string out =
      fmt::format("{:<20} {:>6} {:>6} {:>21} {:>6} {:>7} {:>6} {:>8} {:>6} {:>10} {:>10} {:>11}\n", "decoder", "drafts", "radius",
                  "success (95 %)", "steps", "passes", "alpha", "ms", "speed", "foretold", "long run", "two passes");
  for (const json::value& v : study.at("rows").as_array()) {
    const json::object& r = v.get_object();
    const auto number = [&](std::string_view key) { return r.at(key).to_number<double>(); };
    const json::object& s = r.at("success").as_object();
    const int64_t drafts = r.at("drafts").to_number<int64_t>();
    out += fmt::format(
        "{:<20} {:>6} {:>6} {:>21} {:>6.1f} {:>7.2f} {:>6} {:>8.3f} {:>6.2f} {:>10} {:>10} {:>11}\n",
        std::string_view(r.at("decoder").as_string()), drafts > 0 ? std::to_string(drafts) : "", radius_words(r),
        fmt::format("{:.3f} [{:.3f}, {:.3f}]", s.at("mean").as_double(), s.at("low").as_double(), s.at("high").as_double()),
        number("actions"), number("passes"), drafts > 0 ? some(r, "alpha", 3) : "", number("ms"), number("speed"),
        some(r, "formula_of_an_action", 2), some(r, "formula", 2), some(r, "speed_two_passes", 2));
  }
  return out;
}

std::string reach_csv(const json::object& study) {
  std::string out =
      "decoder,drafts,radius_bins,episodes,success,low,high,actions,passes,draft_passes,rounds,alpha,ends,ms,prompt_ms,decode_ms,"
      "draft_ms,speed,formula_of_an_action,formula,c,speed_two_passes\n";
  for (const json::value& v : study.at("rows").as_array()) {
    const json::object& r = v.get_object();
    const auto number = [&](std::string_view key) { return r.at(key).to_number<double>(); };
    const json::object& s = r.at("success").as_object();
    std::string ends;
    for (const auto& [word, times] : r.at("ends").as_object())
      ends += fmt::format("{}{} {}", ends.empty() ? "" : "; ", times.to_number<int64_t>(), std::string_view(word));
    out += fmt::format(
        "{},{},{},{},{:.4f},{:.4f},{:.4f},{:.2f},{:.4f},{:.4f},{:.4f},{:.4f},{},{:.4f},{:.4f},{:.4f},{:.4f},{:.3f},{},{},{},{}\n",
        std::string_view(r.at("decoder").as_string()), number("drafts"), radius_words(r), number("episodes"),
        s.at("mean").as_double(), s.at("low").as_double(), s.at("high").as_double(), number("actions"), number("passes"),
        number("draft_passes"), number("rounds"), number("alpha"), ends, number("ms"), number("prompt_ms"), number("decode_ms"),
        number("draft_ms"), number("speed"), some(r, "formula_of_an_action", 3), some(r, "formula", 3), some(r, "c", 4),
        some(r, "speed_two_passes", 3));
  }
  return out;
}

json::object replay_json(const ReachEpisode& e, const Reacher& who, uint64_t seed) {
  const auto pose = [](const sim::ToolPose& p) { return json::array{p.x, p.y, p.z, p.roll, p.pitch, p.yaw}; };
  json::array steps;
  for (const ReachMoment& m : e.moments) {
    json::array action(m.step.begin(), m.step.end());
    steps.emplace_back(json::object{{"tool", pose(m.tool)},
                                    {"object", pose(m.object)},
                                    {"holds", m.holds},
                                    {"action", std::move(action)},
                                    {"passes", m.passes},
                                    {"accepted", m.accepted}});
  }
  return {{"seed", seed},
          {"decoder", who.decoder},
          {"drafts", who.drafts},
          {"radius_bins", who.radius},
          {"end", sim::words(e.end)},
          {"wait_steps", sim::kArmWaitSteps},
          {"steps", std::move(steps)}};
}

}  // namespace slip::drive
