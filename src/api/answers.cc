// SPDX-License-Identifier: Apache-2.0
// See answers.h; and the methods of slipstream::Answer.
#include "api/answers.h"

#include <algorithm>

#include "api/boundary.h"
#include "api/choice.h"
#include "api/requests.h"
#include "form/schema/values.h"
#include "text/tokenizer.h"

namespace slip::api {

namespace {

std::string text_of(const FieldValue& value) {
  if (const auto* text = std::get_if<std::string>(&value)) return *text;
  if (const auto* number = std::get_if<double>(&value)) return fmt::format("{}", *number);
  return fmt::format("[{}]", fmt::join(std::get<std::vector<double>>(value), ", "));
}

slipstream::Trajectory trajectory_from(const Plan& plan) {
  slipstream::Trajectory out;
  for (const Waypoint& p : plan.waypoints) out.waypoints.push_back({p.x, p.y});
  if (plan.fitted)
    for (const Waypoint& p : plan.fitted->points) out.points_4hz.push_back({p.x, p.y});
  out.spread_m = plan.spread_m;
  return out;
}

slipstream::Statistics statistics_from(const Statistics& s, const StageTimes& stages) {
  return {.forwards = s.forwards,
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
          .critical_path = s.critical_path,
          .nan_rows = s.nan_rows,
          .encode_ms = stages.encode_ms,
          .form_ms = stages.form_ms,
          .prefill_ms = s.ms.prefill,
          .draft_ms = s.ms.draft,
          .verify_ms = s.ms.verify,
          .plan_ms = stages.plan_ms,
          .total_ms = stages.total_ms};
}

slipstream::DecoderUsed decoder_from(const Method& method) {
  const MethodWords w = words_of(method);
  return {method.preset, w.schedule, w.drafter, w.verifier, w.width, method.lossy()};
}

/// Bins are ids without a spelling that says anything: their numbers do.
bool answers_in_bins(const Answer& a) {
  return a.form && a.decoded.valid && std::any_of(a.form->meanings.begin(), a.form->meanings.end(), [](const FieldMeaning& m) {
           return std::holds_alternative<BinsMeaning>(m);
         });
}

json::array section_words(const slipstream::Sampling& sampling) {
  json::array out;
  for (const auto& [section, temperature] : sampling.section_temperatures)
    out.emplace_back(fmt::format("{}={}", section, static_cast<float>(temperature)));
  return out;
}

/// What the answer depends on besides the question, the decoder and the seed: with them it can be had again.
void add_settings(const slipstream::Answer::Impl& a, json::object& out) {
  const slipstream::Request& r = a.asked;
  const bool text = is_free_text(r);
  out["dtype"] = a.model.dtype;
  out["kv"] = a.model.kv_type;
  out["device"] = a.model.device;
  if (!text) out["law"] = r.visibility.empty() ? a.model.visibility : r.visibility;
  out["temperature"] = r.sampling.temperature;
  out["section_temperatures"] = section_words(r.sampling);
  out["top_k"] = r.sampling.top_k;
  out["top_p"] = r.sampling.top_p;
  out["min_p"] = r.sampling.min_p;
  out["repetition_penalty"] = r.sampling.repetition_penalty;
  out["repetition_last"] = r.sampling.repetition_last;
  if (text) out["max_tokens"] = r.max_tokens;
  out["rollouts"] = r.rollouts;
  out["fit"] = r.fit;
  out["blank_images"] = r.blank_images;
}

}  // namespace

slipstream::FieldValue field_value(const std::string& name, const FieldValue& value) {
  const json::value as_json = std::visit([](const auto& v) { return json::value_from(v); }, value);
  return {name, to_valid_utf8(json::serialize(as_json)), text_of(value)};
}

slipstream::Answer answer_from(Answer answer, Request request, const slipstream::Request& asked,
                               const slipstream::ModelInfo& model) {
  slipstream::Answer out;
  out.text = answer.text;
  for (size_t f = 0; f < answer.values.size(); ++f)
    out.fields.push_back(field_value(answer.form->form.fields()[f].name, answer.values[f]));
  for (const TokenId t : answer.decoded.tokens) out.tokens.push_back(t.value);
  out.valid = answer.decoded.valid;
  out.trajectory = trajectory_from(answer.plan);
  if (answer.action) out.action = {answer.action->unnorm_key, answer.action->values, answer.action->normalized};
  out.decoder = decoder_from(answer.method);
  out.statistics = statistics_from(answer.decoded.statistics, answer.stages);
  auto impl =
      std::make_shared<slipstream::Answer::Impl>(slipstream::Answer::Impl{asked, std::move(request), std::move(answer), model});
  impl->asked.images.clear();
  impl->asked.videos.clear();
  impl->request.videos.clear();  // no picture shows them
  out.impl = std::move(impl);
  return out;
}

}  // namespace slip::api

namespace slipstream {

namespace api = slip::api;
namespace json = slip::json;

const FieldValue* Answer::field(std::string_view name) const {
  const auto at = std::find_if(fields.begin(), fields.end(), [&](const FieldValue& f) { return f.name == name; });
  return at == fields.end() ? nullptr : &*at;
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

Result<std::string> Answer::to_png() const {
  return api::bounded([&]() -> Result<std::string> {
    if (!impl) return slip::usage_error("picture: expected an engine's answer, got an empty one");
    SLIP_TRY(const auto bytes, slip::encode_png(api::draw_answer(*impl)));
    return std::string(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  });
}

}  // namespace slipstream
