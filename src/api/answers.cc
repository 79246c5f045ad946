// SPDX-License-Identifier: Apache-2.0
// See answers.h; and the methods of slipstream::Answer.
#include "api/answers.h"

#include <fmt/ranges.h>
#include <algorithm>

#include "api/boundary.h"
#include "api/choice.h"
#include "api/request/request_options.h"
#include "api/request/requests.h"
#include "form/json_text.h"
#include "form/schema/values.h"
#include "text/tokenizer.h"

namespace slip::api {

namespace {

std::string text_of(const FieldValue& value) {
  if (const auto* text = std::get_if<std::string>(&value)) return *text;
  const json::value written = json_of(value);
  if (!written.is_array()) return plain_json(written);
  std::vector<std::string> numbers;
  for (const json::value& x : written.get_array()) numbers.push_back(plain_json(x));
  return fmt::format("[{}]", fmt::join(numbers, ", "));
}

slipstream::Statistics statistics_from(const Statistics& s, const StageTimes& stages, int64_t head_forwards) {
  return {.prompt_rows = 0,
          .forwards = s.forwards,
          .draft_forwards = s.draft_forwards,
          .drafter_forwards = s.drafter_forwards,
          .rounds = s.rounds,
          .rows = s.rows,
          .reused_rows = s.reused_rows,
          .tokens = s.tokens,
          .forced_tokens = s.forced_tokens,
          .proposed = s.proposed,
          .tested = s.tested,
          .accepted = s.accepted,
          .relaxed_accepts = s.relaxed_accepts,
          .discarded = s.discarded,
          .all_tokens = s.all_tokens,
          .accepted_at = s.accepted_at,
          .critical_path = s.critical_path,
          .head_forwards = head_forwards,
          .nan_rows = s.nan_rows,
          .encode_ms = stages.encode_ms,
          .form_ms = stages.form_ms,
          .prefill_ms = s.ms.prefill,
          .draft_ms = s.ms.draft,
          .verify_ms = s.ms.verify,
          .plan_ms = stages.plan_ms,
          .total_ms = stages.total_ms,
          .head_ms = stages.head_ms,
          .choice_ms = stages.choice_ms};
}

slipstream::DecoderUsed decoder_from(const Answer& a) {
  const MethodWords w = words_of(a.method);
  return {a.method.preset, w.schedule, w.drafter, w.verifier, w.draft_length, a.method.lossy(), a.method.exact(), a.chosen.why};
}

/// Bins are ids without a spelling that says anything: their numbers do.
bool answers_in_bins(const Answer& a) {
  return a.form && a.decoded.valid && std::any_of(a.form->meanings.begin(), a.form->meanings.end(), [](const FieldMeaning& m) {
           return std::holds_alternative<BinsMeaning>(m);
         });
}

/// What the answer depends on besides the question, the decoder and the seed: with them it can be had again.
void add_settings(const slipstream::Answer::Impl& a, json::object& out) {
  const slipstream::Request& r = a.asked;
  const bool text = is_free_text(r);
  out["dtype"] = a.model.dtype;
  out["kv"] = a.model.kv_type;
  out["device"] = a.model.device;
  add_told_options(r, out);
  if (!text && r.visibility.empty()) out["law"] = a.model.visibility;
  for (const char* of_text : {"max_tokens", "stop"})
    if (!text) out.erase(of_text);
  if (text) out.erase("law");
  if (!text) out["visibility"] = out["law"];  // its newer name
  if (!a.remarks.empty()) out["remarks"] = json::value_from(a.remarks);
}

std::vector<slipstream::LogProbs> log_probs_from(const Answer& answer) {
  std::vector<slipstream::LogProbs> out;
  const auto& lists = answer.decoded.log_probs;
  for (size_t f = 0; f < lists.size(); ++f) {
    out.push_back({answer.form ? answer.form->form.fields()[f].name : "", 0, lists[f], {}});
    for (const double p : lists[f]) out.back().sum += p;
    if (answer.decoded.top_log_probs.empty()) continue;
    for (const auto& place : answer.decoded.top_log_probs[f])
      for (out.back().top.emplace_back(); const auto& one : place) out.back().top.back().push_back({one.id.value, one.log_prob});
  }
  return out;
}

// What a person should know of the request beside its answer.
std::vector<std::string> remarks_on(const Answer& answer, const slipstream::Request& asked, const slipstream::ModelInfo& model) {
  constexpr size_t kCameras = 3;  // of the driving task (task/prompt.h)
  std::vector<std::string> out = idle_options(asked);
  const std::string form = answer.form ? answer.form->form.name() : "none";
  const bool drives = model.form == "wod-e2e" || model.form == "drive-cot";
  if ((drives || model.form == "action") && form != model.form)
    out.push_back(
        fmt::format("the model was trained for form {}, and is asked for {}", model.form, answer.form ? form : "free text"));
  if (drives && model.vision && asked.videos.empty() && asked.images.size() != kCameras)
    out.push_back(fmt::format("the model was trained on {} cameras (front left, front, front right), and sees {} image{}", kCameras,
                              asked.images.size(), asked.images.size() == 1 ? "" : "s"));
  out.insert(out.end(), answer.remarks.begin(), answer.remarks.end());
  return out;
}

}  // namespace

slipstream::Trajectory trajectory_from(const Plan& plan) {
  slipstream::Trajectory out;
  for (const Waypoint& p : plan.waypoints) out.waypoints.push_back({p.x, p.y});
  if (plan.fitted)
    for (const Waypoint& p : plan.fitted->points) out.points_4hz.push_back({p.x, p.y});
  out.spread_m = plan.spread_m;
  out.infeasible = plan.infeasible;
  for (const auto& rollout : plan.rollouts)
    for (out.rollouts.emplace_back(); const Waypoint& p : rollout) out.rollouts.back().push_back({p.x, p.y});
  return out;
}

slipstream::FieldValue field_value(const std::string& name, const FieldValue& value) {
  return {name, to_valid_utf8(json::serialize(json_of(value))), text_of(value)};
}

namespace {

void take_plans(const Answer& answer, slipstream::Answer& out) {
  out.trajectory = trajectory_from(answer.plan);
  if (answer.plan.fitted || answer.own_plan) out.plan_source = answer.own_plan ? "head" : "answer";
  if (answer.own_plan) out.own_trajectory = trajectory_from(*answer.own_plan);
  for (const HeadPlan& p : answer.early_plans)
    out.early_plans.push_back({trajectory_from(p.plan), p.after_section, p.forwards, p.ms});
}

}  // namespace

slipstream::Answer answer_from(Answer answer, Request request, slipstream::Request asked, const slipstream::ModelInfo& model) {
  slipstream::Answer out;
  out.text = answer.text;
  out.texts = answer.texts;
  for (size_t f = 0; f < answer.values.size(); ++f)
    if (!std::holds_alternative<NoValue>(answer.values[f]))
      out.fields.push_back(field_value(answer.form->form.fields()[f].name, answer.values[f]));
  for (const TokenId t : answer.decoded.tokens) out.tokens.push_back(t.value);
  out.valid = answer.decoded.valid;
  if (!answer.form) out.finish = word_of(answer.finish);
  for (const Finish f : answer.finishes)
    if (!answer.form) out.finishes.emplace_back(word_of(f));
  out.log_probs = log_probs_from(answer);
  out.remarks = remarks_on(answer, asked, model);
  take_plans(answer, out);
  if (answer.action) out.action = {answer.action->unnorm_key, answer.action->values, answer.action->normalized};
  out.decoder = decoder_from(answer);
  out.statistics = statistics_from(answer.decoded.statistics, answer.stages, answer.head_forwards);
  out.statistics.prompt_rows = answer.prompt_rows;
  auto impl = std::make_shared<slipstream::Answer::Impl>(
      slipstream::Answer::Impl{std::move(asked), std::move(request), std::move(answer), model, out.remarks});
  impl->asked.images.clear();
  impl->asked.videos.clear();
  impl->asked.previous_answer.clear();
  impl->asked.previous = nullptr;  // which would hold the one before it, and so on
  impl->asked.prediction.clear();
  impl->request.videos.clear();  // no picture shows them
  impl->request.previous = nullptr;
  out.impl = std::move(impl);
  return out;
}

}  // namespace slip::api

namespace slipstream {

namespace api = slip::api;
namespace json = slip::json;

std::string Trajectory::to_json() const {
  const auto list = [](const std::vector<Point>& of) {
    json::array out;
    for (const Point& p : of) out.push_back(json::array{p[0], p[1]});
    return out;
  };
  json::object out{{"waypoints", list(waypoints)}, {"rate_hz", 1}};
  if (!points_4hz.empty()) out["fit"] = {{"rate_hz", 4.0}, {"points", list(points_4hz)}};
  out["spread_m"] = json::value_from(spread_m);
  out["infeasible"] = json::value_from(infeasible);
  for (const auto& rollout : rollouts) {
    if (!out.contains("rollouts")) out["rollouts"].emplace_array();
    out["rollouts"].as_array().emplace_back(list(rollout));
  }
  return json::serialize(out);
}

const FieldValue* Answer::field(std::string_view name) const {
  const auto at = std::find_if(fields.begin(), fields.end(), [&](const FieldValue& f) { return f.name == name; });
  return at == fields.end() ? nullptr : &*at;
}

namespace {

/// What stands beside the drawn tokens, `of_field` by field, put beside all tokens of the answer; T{} for those that the form writes.
template <class T>
std::vector<T> beside_tokens(const slip::Answer& a, size_t tokens, const std::vector<const std::vector<T>*>& of_field) {
  std::vector<T> out;
  const auto take = [&](const std::vector<T>& of, size_t n) {
    for (size_t i = 0; i < n; ++i) out.push_back(i < of.size() ? of[i] : T{});
  };
  if (!a.form) {
    take(*of_field.front(), tokens);
    return out;
  }
  const slip::Form& form = a.form->form;
  const auto pieces = form.pieces();
  for (int32_t p = 0; static_cast<size_t>(p) < pieces.size();) {
    const auto optional = form.optional_field(p);
    if (optional && slip::is_absent(form, a.decoded.fields, static_cast<size_t>(*optional))) {
      p = form.next_piece(p);
      continue;
    }
    if (const auto* run = std::get_if<slip::FixedRun>(&pieces[static_cast<size_t>(p)])) {
      out.resize(out.size() + run->ids.size());
      p = form.next_piece(p);
      continue;
    }
    const auto f = static_cast<size_t>(std::get<slip::FieldRef>(pieces[static_cast<size_t>(p)]).field);
    const auto& content = a.decoded.fields[f];
    // An END that says what comes next stands behind the content, and is no part of the text.
    const auto exit = slip::exit_piece(form.fields()[f], content);
    take(*of_field[f], content.size() - (exit ? 1 : 0));
    p = exit.value_or(form.next_piece(p));
  }
  return out.size() == tokens ? out : std::vector<T>();
}

}  // namespace

std::vector<double> Answer::token_log_probs() const {
  if (!impl || log_probs.empty()) return {};
  std::vector<const std::vector<double>*> each;
  for (const LogProbs& of : log_probs) each.push_back(&of.tokens);
  return beside_tokens(impl->answer, tokens.size(), each);
}

std::vector<std::vector<LikelyToken>> Answer::token_top_log_probs() const {
  if (!impl || log_probs.empty() || impl->answer.decoded.top_log_probs.empty()) return {};
  std::vector<const std::vector<std::vector<LikelyToken>>*> each;
  for (const LogProbs& of : log_probs) each.push_back(&of.top);
  return beside_tokens(impl->answer, tokens.size(), each);
}

std::string Answer::to_json() const {
  if (!impl) return "{}";
  json::object out = slip::answer_json(impl->answer, impl->request, impl->model.folder);
  api::add_settings(*impl, out);
  return slip::to_valid_utf8(json::serialize(out));
}

std::string Answer::to_text() const {
  std::string out = text + "\n";
  if (impl && !action && api::answers_in_bins(impl->answer))
    out += json::serialize(slip::values_to_json(impl->answer.form->form, impl->answer.values)) + "\n";
  if (action) out += fmt::format("{}: {:.6f}\n", action->unnorm_key, fmt::join(action->values, " "));
  return out;
}

std::string Answer::trace_json() const { return impl ? json::serialize(api::trace_of(impl->answer)) : "{}"; }

namespace {
Result<std::string> picture_of(const Answer::Impl* impl, slip::FigureFormat format) {
  return api::bounded([&]() -> Result<std::string> {
    if (!impl) return slip::usage_error("picture: expected an engine's answer, got an empty one");
    return api::draw_answer(*impl, format);
  });
}
}  // namespace

Result<std::string> Answer::to_png() const { return picture_of(impl.get(), slip::FigureFormat::kPng); }

Result<std::string> Answer::to_svg() const { return picture_of(impl.get(), slip::FigureFormat::kSvg); }

}  // namespace slipstream
