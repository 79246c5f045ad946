// SPDX-License-Identifier: Apache-2.0
// See study.h.
#include "drive/study.h"

#include <algorithm>
#include <array>

#include "drive/score/bootstrap.h"
#include "sim/record.h"

namespace slip::drive {

namespace {

/// A number of every drive, by its name in lines and tables.
struct Column {
  std::string_view name;
  double EpisodeScore::*value;
};
constexpr std::array<Column, 13> kColumns = {{{"score", &EpisodeScore::score},
                                              {"ep", &EpisodeScore::ep},
                                              {"ttc", &EpisodeScore::ttc},
                                              {"comfort", &EpisodeScore::comfort},
                                              {"nc", &EpisodeScore::nc},
                                              {"dac", &EpisodeScore::dac},
                                              {"tlc", &EpisodeScore::tlc},
                                              {"ncap", &EpisodeScore::ncap},
                                              {"latency_ms", &EpisodeScore::latency_ms},
                                              {"age_ms", &EpisodeScore::age_ms},
                                              {"passes", &EpisodeScore::passes},
                                              {"rows", &EpisodeScore::rows},
                                              {"acceptance", &EpisodeScore::acceptance}}};

json::value delay_json(const Delay& d) {
  if (!d.costs) return d.fixed_ms;
  json::array out{d.costs->encode, d.costs->row, d.costs->pass, d.costs->decode_row, d.costs->plan};
  if (d.costs->drafter_pass > 0) out.emplace_back(d.costs->drafter_pass);
  return out;
}

std::string family_name(uint32_t f) { return std::string(sim::family_names()[f]); }

}  // namespace

json::object interval_json(const Interval& i) { return {{"mean", i.mean}, {"low", i.low}, {"high", i.high}}; }

std::vector<std::string_view> critical_families() {
  return {"lead_brake",          "lead_stopped",    "red_light",          "stop_sign",  "pedestrian_crosswalk",
          "pedestrian_midblock", "cyclist_ahead",   "construction_taper", "debris",     "cut_in",
          "cross_traffic",       "animal_crossing", "night_debris",       "rain_cut_in"};
}

json::object to_json(const Drove& d, const Entrant& e) {
  json::object out{{"entrant", e.label()},
                   {"model", e.model},
                   {"mode", name_of(e.mode)},
                   {"delay", delay_json(e.delay)},
                   {"family", family_name(d.family)},
                   {"seed", d.seed}};
  for (const Column& c : kColumns) out[c.name] = d.score.*c.value;
  out["success"] = d.score.success;
  out["calls"] = d.calls;
  out["invalid"] = d.invalid;
  return out;
}

Result<Drove> drove_from(const json::object& line, std::span<const Entrant> entrants, std::string_view where) {
  Drove d;
  SLIP_TRY(const std::string label, get_string(line, "entrant", where));
  SLIP_TRY(const std::string mode, get_string(line, "mode", where));
  const auto at = std::find_if(entrants.begin(), entrants.end(),
                               [&](const Entrant& e) { return e.label() == label && name_of(e.mode) == mode; });
  if (at == entrants.end()) return bad_input("{}: expected an entrant of this study, got {} ({})", where, label, mode);
  d.entrant = static_cast<size_t>(at - entrants.begin());
  SLIP_TRY(const std::string model, get_string(line, "model", where));
  if (model != at->model) return bad_input("{}: expected a drive of model {}, got one of {}", where, at->model, model);
  const json::value* delay = line.if_contains("delay");
  if (!delay || json::serialize(*delay) != json::serialize(delay_json(at->delay)))
    return bad_input("{}: expected a drive with the delay {}, got {}", where, json::serialize(delay_json(at->delay)),
                     delay ? json::serialize(*delay) : "none");
  SLIP_TRY(const std::string family, get_string(line, "family", where));
  const auto names = sim::family_names();
  const auto known = std::find(names.begin(), names.end(), family);
  if (known == names.end()) return bad_input("{}: family: expected a scene family, got {}", where, family);
  d.family = static_cast<uint32_t>(known - names.begin());
  const json::value* seed = line.if_contains("seed");
  if (!seed || !(seed->is_uint64() || (seed->is_int64() && seed->get_int64() >= 0)))
    return bad_input("{}: seed: expected a whole number, got another", where);
  d.seed = seed->to_number<uint64_t>();
  for (const Column& c : kColumns) {
    SLIP_TRY(d.score.*c.value, get_number(line, c.name, where));
  }
  SLIP_TRY(d.score.success, get_bool(line, "success", where));
  SLIP_TRY(d.calls, get_int(line, "calls", where));
  SLIP_TRY(d.invalid, get_int(line, "invalid", where));
  return d;
}

Status Study::take(const json::object& line, std::string_view where) {
  SLIP_TRY(const Drove d, drove_from(line, entrants_, where));
  const bool of_ours = std::find(settings_.families.begin(), settings_.families.end(), d.family) != settings_.families.end() &&
                       d.seed >= settings_.first_seed && d.seed - settings_.first_seed < static_cast<uint64_t>(settings_.seeds);
  if (!of_ours) return bad_input("{}: expected a scene of this study, got {} {}", where, family_name(d.family), d.seed);
  if (!has(d.entrant, d.family, d.seed)) drives_.push_back(d);
  return {};
}

bool Study::has(size_t entrant, uint32_t family, uint64_t seed) const {
  return std::any_of(drives_.begin(), drives_.end(),
                     [&](const Drove& d) { return d.entrant == entrant && d.family == family && d.seed == seed; });
}

int64_t Study::drives() const { return static_cast<int64_t>(entrants_.size() * settings_.families.size()) * settings_.seeds; }

Status Study::run(const std::function<Result<Planner*>(const Entrant&)>& planner_of, const std::function<void(const Drove&)>& done,
                  const CancelToken& cancel) {
  const auto expert = baseline("expert");
  for (int64_t n = 0; n < settings_.seeds; ++n) {
    const uint64_t seed = settings_.first_seed + static_cast<uint64_t>(n);
    for (const uint32_t family : settings_.families) {
      std::optional<Episode> best;
      for (size_t i = 0; i < entrants_.size(); ++i) {
        if (has(i, family, seed)) continue;
        EpisodeSettings settings{.seed = seed, .family = family, .mode = Mode::kSync, .delay = {}, .reactive = settings_.reactive};
        if (!best) {
          SLIP_TRY(best, drive_episode(settings, *expert, cancel));
        }
        settings.mode = entrants_[i].mode;
        settings.delay = entrants_[i].delay;
        SLIP_TRY(Planner* const planner, planner_of(entrants_[i]));
        SLIP_TRY(const Episode e, drive_episode(settings, *planner, cancel));
        drives_.push_back({family, seed, i, score_episode(e, *best), e.calls, e.invalid});
        if (done) done(drives_.back());
      }
    }
  }
  return {};
}

/// In the order of the scenes, whatever the order in which they were driven.
std::vector<const Drove*> Study::of(size_t entrant) const {
  std::vector<const Drove*> out;
  for (const Drove& d : drives_)
    if (d.entrant == entrant) out.push_back(&d);
  std::sort(out.begin(), out.end(),
            [](const Drove* a, const Drove* b) { return std::pair(a->seed, a->family) < std::pair(b->seed, b->family); });
  return out;
}

namespace {

std::vector<double> values_of(const std::vector<const Drove*>& drives, double EpisodeScore::*value) {
  std::vector<double> out;
  out.reserve(drives.size());
  for (const Drove* d : drives) out.push_back(d->score.*value);
  return out;
}

std::vector<std::string> scenes_of(const std::vector<const Drove*>& drives) {
  std::vector<std::string> out;
  out.reserve(drives.size());
  for (const Drove* d : drives) out.push_back(fmt::format("{} {}", family_name(d->family), d->seed));
  return out;
}

double mean_of(const std::vector<double>& v) {
  double sum = 0;
  for (const double x : v) sum += x;
  return v.empty() ? 0 : sum / static_cast<double>(v.size());
}

double successes(const std::vector<const Drove*>& drives) {
  const auto n = std::count_if(drives.begin(), drives.end(), [](const Drove* d) { return d->score.success; });
  return drives.empty() ? 0 : static_cast<double>(n) / static_cast<double>(drives.size());
}

json::object by_family(const std::vector<const Drove*>& drives) {
  std::map<uint32_t, std::vector<double>> scores;
  for (const Drove* d : drives) scores[d->family].push_back(d->score.score);
  json::object out;
  for (const auto& [family, values] : scores) out[family_name(family)] = mean_of(values);
  return out;
}

}  // namespace

json::object Study::to_json() const {
  json::array rows;
  const std::vector<const Drove*> first = of(0);
  for (size_t i = 0; i < entrants_.size(); ++i) {
    const std::vector<const Drove*> drives = of(i);
    const std::vector<std::string> scenes = scenes_of(drives);
    const std::vector<double> scores = values_of(drives, &EpisodeScore::score);
    json::object row{{"entrant", entrants_[i].label()},
                     {"driver", entrants_[i].driver},
                     {"mode", name_of(entrants_[i].mode)},
                     {"scenes", drives.size()}};
    if (!drives.empty())
      row["score_interval"] =
          interval_json(interval_of(scores, scenes, Resampling::kPlain, settings_.bootstrap_seed, settings_.resamples));
    if (i > 0 && !drives.empty() && scenes == scenes_of(first))
      row["less_first"] = interval_json(paired_interval(scores, values_of(first, &EpisodeScore::score), scenes, Resampling::kPlain,
                                                        settings_.bootstrap_seed, settings_.resamples));
    for (const Column& c : kColumns) row[c.name] = mean_of(values_of(drives, c.value));
    row["success"] = successes(drives);
    row["families"] = by_family(drives);
    rows.push_back(std::move(row));
  }
  json::array families;
  for (const uint32_t f : settings_.families) families.emplace_back(family_name(f));
  return {{"families", std::move(families)}, {"first_seed", settings_.first_seed}, {"seeds", settings_.seeds},
          {"reactive", settings_.reactive},  {"seconds", kDriveSteps / 10},        {"rows", std::move(rows)}};
}

std::string Study::table() const {
  std::string out = fmt::format("{:<34} {:>6} {:>22} {:>22} {:>7} {:>6} {:>6} {:>6} {:>6} {:>6} {:>6} {:>5} {:>8} {:>7}\n",
                                "driver", "scenes", "score (95 %)", "less the first (95 %)", "success", "NC", "DAC", "TLC", "TTC",
                                "EP", "C", "NCAP", "latency", "age");
  const auto interval = [](const json::value& v) {
    const json::object& o = v.get_object();
    return fmt::format("{:.3f} [{:.3f}, {:.3f}]", o.at("mean").as_double(), o.at("low").as_double(), o.at("high").as_double());
  };
  const json::object all = to_json();
  for (const json::value& v : all.at("rows").as_array()) {
    const json::object& r = v.get_object();
    const auto number = [&](std::string_view key) { return r.at(key).to_number<double>(); };
    const bool never = number("latency_ms") > 0 && number("age_ms") == 0;  // no plan was there within the scenes
    const json::value *score = r.if_contains("score_interval"), *less = r.if_contains("less_first");
    out += fmt::format(
        "{:<34} {:>6} {:>22} {:>22} {:>7.3f} {:>6.3f} {:>6.3f} {:>6.3f} {:>6.3f} {:>6.3f} {:>6.3f} {:>5.2f} {:>5.0f} ms {:>7}\n",
        std::string_view(r.at("entrant").as_string()), r.at("scenes").to_number<int64_t>(), score ? interval(*score) : "-",
        less ? interval(*less) : "-", number("success"), number("nc"), number("dac"), number("tlc"), number("ttc"), number("ep"),
        number("comfort"), number("ncap"), number("latency_ms"), never ? "-" : fmt::format("{:.0f} ms", number("age_ms")));
  }
  return out;
}

std::string Study::csv() const {
  std::string out = "entrant,mode,scenes,score,low,high,success";
  for (const Column& c : kColumns)
    if (c.name != "score") out += fmt::format(",{}", c.name);
  out += "\n";
  const json::object all = to_json();
  for (const json::value& v : all.at("rows").as_array()) {
    const json::object& r = v.get_object();
    const json::value* i = r.if_contains("score_interval");
    const auto of_interval = [&](const char* key) { return i ? fmt::format("{:.6f}", i->at(key).as_double()) : std::string(); };
    out += fmt::format("\"{}\",{},{},{},{},{},{:.6f}", std::string_view(r.at("entrant").as_string()),
                       std::string_view(r.at("mode").as_string()), r.at("scenes").to_number<int64_t>(), of_interval("mean"),
                       of_interval("low"), of_interval("high"), r.at("success").to_number<double>());
    for (const Column& c : kColumns)
      if (c.name != "score") out += fmt::format(",{:.6f}", r.at(c.name).to_number<double>());
    out += "\n";
  }
  return out;
}

Chart Study::chart() const {
  Chart out{.title = fmt::format("Closed loop: {} scenes", settings_.families.size() * static_cast<size_t>(settings_.seeds)),
            .x_label = "latency of an answer, milliseconds",
            .y_label = "score",
            .series = {}};
  for (size_t i = 0; i < entrants_.size(); ++i) {
    const std::vector<const Drove*> drives = of(i);
    if (drives.empty()) continue;
    const Interval score = interval_of(values_of(drives, &EpisodeScore::score), scenes_of(drives), Resampling::kPlain,
                                       settings_.bootstrap_seed, settings_.resamples);
    // An answer that is priced by its own counts is a point beside the lines of injected latencies.
    const bool priced = entrants_[i].delay.costs.has_value();
    const std::string name = priced ? entrants_[i].label() : entrants_[i].driver;
    auto at = std::find_if(out.series.begin(), out.series.end(), [&](const ChartSeries& s) { return s.name == name; });
    if (at == out.series.end()) at = out.series.insert(at, {name, {}, !priced});
    at->points.push_back({mean_of(values_of(drives, &EpisodeScore::latency_ms)), score.mean, score.low, score.high});
  }
  for (ChartSeries& s : out.series)
    std::sort(s.points.begin(), s.points.end(), [](const ChartPoint& a, const ChartPoint& b) { return a.x < b.x; });
  return out;
}

}  // namespace slip::drive
