// SPDX-License-Identifier: Apache-2.0
// The reply: an Answer as the JSON object that tools rely on.
#include <algorithm>
#include <cmath>

#include "engine/engine.h"

namespace slip {

namespace {

json::array points_json(std::span<const Waypoint> points) {
  json::array out;
  for (const Waypoint& p : points) out.push_back(json::array{p.x, p.y});
  return out;
}

json::object trajectory_json(const Plan& plan) {
  json::object out{{"waypoints", points_json(plan.waypoints)}, {"rate_hz", 1}};
  if (plan.fitted) out["fit"] = {{"rate_hz", plan.fitted->rate_hz}, {"points", points_json(plan.fitted->points)}};
  json::array spread;
  for (const double s : plan.spread_m) spread.emplace_back(s);
  out["spread_m"] = std::move(spread);
  out["infeasible"] = json::value_from(plan.infeasible);
  if (plan.rollouts.empty()) return out;
  json::array each;
  for (const std::vector<Waypoint>& rollout : plan.rollouts) each.emplace_back(points_json(rollout));
  out["rollouts"] = std::move(each);
  return out;
}

/// Where a trajectory head has planned: whose plan `trajectory` is, the answer's own, and what was planned before.
void add_head_plans(const Answer& a, const Request& request, json::object& out) {
  out["plan_source"] = a.own_plan ? "head" : "answer";
  if (request.trajectory_head.empty()) return;
  out["trajectory_head"] = request.trajectory_head;
  if (a.own_plan) out["answer_trajectory"] = trajectory_json(*a.own_plan);
  if (!request.fast_plan) return;
  json::array early;
  for (const HeadPlan& p : a.early_plans)
    early.emplace_back(json::object{
        {"after_section", p.after_section}, {"forwards", p.forwards}, {"ms", p.ms}, {"trajectory", trajectory_json(p.plan)}});
  out["early_plans"] = std::move(early);
}

json::object action_json(const DecodedAction& a) {
  json::array tokens, is_action;
  for (const TokenId t : a.tokens) tokens.emplace_back(t.value);
  for (const bool b : a.is_action) is_action.emplace_back(b);
  return {{"unnorm_key", a.unnorm_key},
          {"values", json::value_from(a.values)},
          {"normalized", json::value_from(a.normalized)},
          {"tokens", std::move(tokens)},
          {"is_action", std::move(is_action)}};
}

// Tokens of the template that the model would not have drawn: by the field that they stand before ("": behind the last) and how many
// positions before it.
json::object forced_json(const ForcedLog& log, const Form& form) {
  json::array misses;
  for (const ForcedLog::Miss& m : log.misses) {
    const auto& fields = form.fields();
    const auto next = std::find_if(fields.begin(), fields.end(), [&](const Field& f) { return f.start > m.position; });
    json::object miss{{"position", m.position}, {"field", next == fields.end() ? "" : next->name}};
    if (next != fields.end()) miss["before"] = next->start - m.position;
    miss["forced"] = m.forced.value;
    miss["own"] = m.own.value;
    miss["p_forced"] = m.p_forced;
    miss["p_own"] = m.p_own;
    misses.push_back(std::move(miss));
  }
  return {{"compared", log.compared}, {"count", log.misses.size()}, {"misses", std::move(misses)}};
}

// Per field of bins and per dimension of it: how far a kept draft may lie from the target's token, in bins and in physical units
// (un-normalised where the model's statistics do that).
json::object relaxed_json(const RelaxedSpec& v, const CompiledForm& form) {
  json::object out;
  for (size_t f = 0; f < form.meanings.size(); ++f) {
    const auto* bins = std::get_if<BinsMeaning>(&form.meanings[f]);
    if (!bins || bins->first < v.first || bins->last >= v.end) continue;
    if (f >= v.unit_of_number.size()) continue;
    json::array radii, units;
    for (size_t i = 0; i < v.unit_of_number[f].size(); ++i) {
      const int32_t radius = v.radius_at(static_cast<int32_t>(f), static_cast<int32_t>(i));
      radii.emplace_back(radius);
      units.emplace_back(radius * v.unit_of_number[f][i]);
    }
    out[form.form.fields()[f].name] = {{"bins", std::move(radii)}, {"units", std::move(units)}};
  }
  return out;
}

json::object log_probs_of(const Answer& a, size_t list) {
  const Decoded& decoded = a.decoded;
  const std::vector<double>& tokens = decoded.log_probs[list];
  json::array each;
  double sum = 0;
  for (const double p : tokens) {
    each.push_back(std::isfinite(p) ? json::value(p) : json::value(nullptr));
    sum += p;
  }
  json::object out{{"sum", std::isfinite(sum) ? json::value(sum) : json::value(nullptr)}, {"tokens", std::move(each)}};
  if (decoded.top_log_probs.empty()) return out;
  json::array top;
  for (const auto& place : decoded.top_log_probs[list]) {
    json::array likely;
    for (const Decoded::IdLogProb& one : place)
      likely.emplace_back(json::object{{"id", one.id.value},
                                       {"text", to_valid_utf8(a.spelled.at(one.id.value))},
                                       {"log_prob", std::isfinite(one.log_prob) ? json::value(one.log_prob) : json::value()}});
    top.emplace_back(std::move(likely));
  }
  out["top"] = std::move(top);
  return out;
}

// By field, or free text's own.
json::object log_probs_json(const Answer& a) {
  const auto& lists = a.decoded.log_probs;
  if (!a.form) return log_probs_of(a, 0);
  json::object out;
  for (size_t f = 0; f < lists.size(); ++f) out[a.form->form.fields()[f].name] = log_probs_of(a, f);
  return out;
}

}  // namespace

std::string_view word_of(Finish finish) { return finish == Finish::kEnd ? "end" : finish == Finish::kStop ? "stop" : "length"; }

namespace {

json::object chosen_json(const ChosenDecoder& c) {
  json::object considered;
  for (const auto& [name, ms] : c.considered) considered[name] = ms;
  return {{"decoder", c.name},
          {"why", c.why},
          {"expected_ms", c.expected_ms},
          {"costs", c.costs},
          {"calibrated", c.calibrated},
          {"considered_ms", std::move(considered)}};
}

}  // namespace

json::object decoder_json(const Method& method, const CompiledForm* form, const ChosenDecoder* chosen) {
  const MethodWords w = words_of(method);
  json::object out{{"preset", method.preset}, {"schedule", w.schedule},  {"drafter", w.drafter},   {"verifier", w.verifier},
                   {"width", w.draft_length}, {"lossy", method.lossy()}, {"exact", method.exact()}};
  const auto* relaxed = std::get_if<RelaxedSpec>(&method.verifier);
  if (relaxed && form) out["relaxed"] = relaxed_json(*relaxed, *form);
  if (chosen && !chosen->name.empty()) out["chosen"] = chosen_json(*chosen);
  return out;
}

json::object statistics_json(const Answer& a) {
  const Statistics& s = a.decoded.statistics;
  return {{"forwards", s.forwards},
          {"draft_forwards", s.draft_forwards},
          {"drafter_forwards", s.drafter_forwards},
          {"rounds", s.rounds},
          {"rows", s.rows},
          {"tokens", s.tokens},
          {"forced_tokens", s.forced_tokens},
          {"proposed", s.proposed},
          {"tested", s.tested},
          {"accepted", s.accepted},
          {"accepted_at", json::value_from(s.accepted_at)},
          {"relaxed_accepts", s.relaxed_accepts},
          {"discarded", s.discarded},
          {"critical_path", s.critical_path},
          {"reused_rows", s.reused_rows},
          {"nan_rows", s.nan_rows},
          {"head_forwards", a.head_forwards},
          {"ms",
           {{"encode", a.stages.encode_ms},
            {"form", a.stages.form_ms},
            {"choice", a.stages.choice_ms},
            {"prefill", s.ms.prefill},
            {"draft", s.ms.draft},
            {"verify", s.ms.verify},
            {"plan", a.stages.plan_ms},
            {"trajectory_head", a.stages.head_ms},
            {"total", a.stages.total_ms}}}};
}

json::object answer_json(const Answer& a, const Request& request, std::string_view model) {
  json::array tokens;
  for (const TokenId t : a.decoded.tokens) tokens.emplace_back(t.value);
  json::object out{{"answer", a.text},
                   {"fields", a.form ? values_to_json(a.form->form, a.values) : json::object{}},
                   {"tokens", std::move(tokens)}};
  if (a.form) out["form"] = a.form->form.name();
  if (a.form) out["trajectory"] = trajectory_json(a.plan);
  if (a.form && (a.plan.fitted || a.own_plan)) add_head_plans(a, request, out);
  if (a.action) out["action"] = action_json(*a.action);
  out["valid"] = a.decoded.valid;
  if (!a.form) out["finish"] = word_of(a.finish);
  if (!a.form && a.finishes.size() > 1) {
    json::array& each = out["finishes"].emplace_array();
    for (const Finish f : a.finishes) each.emplace_back(word_of(f));
    json::array& texts = out["answers"].emplace_array();
    for (const std::string& text : a.texts) texts.emplace_back(text);
  }
  if (!a.decoded.log_probs.empty()) out["log_probs"] = log_probs_json(a);
  out["decoder"] = decoder_json(a.method, a.form.get(), &a.chosen);
  if (request.decode.log_forced && a.form) out["forced"] = forced_json(a.decoded.forced, a.form->form);
  out["statistics"] = statistics_json(a);
  out["model"] = model;
  out["seed"] = request.decode.seed;
  return out;
}

}  // namespace slip
