// SPDX-License-Identifier: Apache-2.0
// See answering.h.
#include "engine/answering.h"

#include <algorithm>

#include "base/log.h"
#include "base/measure.h"

namespace slip {

namespace {

// What free text may not draw: rows of the head that no id of the tokenizer names, which nobody trained, and the mask.
std::vector<TokenId> denied_in_text(Model& model) {
  const LmInfo& info = model.lm().info();
  std::vector<TokenId> out;
  const int32_t named = std::min(model.tokenizer() ? model.tokenizer()->size() : info.vocab, info.vocab);
  if (info.rule.has_mask && info.rule.mask.value < named) out.push_back(info.rule.mask);
  for (int32_t id = named; id < info.vocab; ++id) out.push_back({id});
  return out;
}

// The fit is stated for any number of waypoints at 1 Hz; a form without a trajectory has no plan.
Status fit_plan(const Request& request, const std::vector<std::vector<Waypoint>>& rollouts, Plan& plan) {
  if (rollouts.empty() || rollouts.front().size() < 2) return {};
  FitSpec spec{.fit = request.fit, .knots = static_cast<int>(rollouts.front().size())};
  spec.points = spec.knots * 4;
  SLIP_TRY(const FitMap map, FitMap::make(spec));
  Waypoint v0;
  if (request.ego) v0 = {request.ego->history.back().vx, request.ego->history.back().vy};
  SLIP_TRY(RolloutFit fit, average_rollouts(map, rollouts, v0));
  plan.fitted = std::move(fit.mean);
  plan.spread_m = std::move(fit.spread_m);
  return {};
}

}  // namespace

Status Answering::read_form() {
  if (request_.free_text()) return {};
  const auto start = Clock::now();
  if (is_action_form(model_.config(), request_.form)) SLIP_TRY_(check_statistics());
  SLIP_TRY(out_.form, engine_.form_of(request_));
  out_.stages.form_ms = ms_since(start);
  return {};
}

Status Answering::take_section_temperatures(DecodeOptions& options) const {
  for (const auto& [name, temperature] : request_.section_temperatures) {
    bool found = false;
    for (size_t s = 0; form() && s < form()->sections().size(); ++s) {
      if (form()->sections()[s].name != name) continue;
      options.section_temperature.emplace_back(static_cast<int32_t>(s), temperature);
      found = true;
    }
    if (!found) return bad_input("--section-temperature: expected a section of the form, got {}", name);
    if (std::count_if(request_.section_temperatures.begin(), request_.section_temperatures.end(),
                      [&](const auto& other) { return other.first == name; }) > 1)
      return usage_error("--section-temperature: expected each section once, got {} twice", name);
  }
  return {};
}

Status Answering::check_visibility(const DecodeOptions& options) const {
  const Schedule schedule = request_.method.schedule;
  const bool graph = options.visibility == Visibility::kGraph;
  if (form() && schedule == Schedule::kFields && !graph)
    return unsupported("{}: expected graph visibility (a model trained for it, or --law graph), got chain visibility",
                       request_.method.preset);
  if (form() && schedule == Schedule::kSections && graph)
    return unsupported("{}: expected chain visibility (a model trained for it, or --law chain), got graph visibility",
                       request_.method.preset);
  return {};
}

Result<DecodeOptions> Answering::decode_options() {
  DecodeOptions options = request_.decode;
  SLIP_TRY_(take_section_temperatures(options));
  options.end_tokens = model_.config().eos;
  const auto& action = model_.config().action;
  if (!form() && !action) options.denied = denied_in_text(model_);  // actions: as published, from all rows
  if (action && !form()) {                                          // as published: as many tokens as numbers, no end token
    SLIP_TRY(const auto* statistics, choose_statistics(*action, request_.unnorm_key));
    options.limit = static_cast<int>(statistics->second.q01.size());
    options.end_tokens.clear();
  }
  options.forced = form() != nullptr;  // every exact decoder gives a form's answer the same tokens (decision 0003)
  options.visibility = request_.visibility.value_or(engine_.visibility());
  options.reuse_prompt = options.reuse_prompt || request_.reuse_prompt;
  SLIP_TRY_(check_visibility(options));
  return options;
}

Result<DecodeContext> Answering::decode_context(const Prompt& prompt) {
  DecodeContext context = request_.context;
  if (request_.reuse_prompt && !context.prefix_cache) context.prefix_cache = &engine_.prefix_cache_;
  SLIP_TRY_(engine_.resources_.attach(engine_, request_, out_.form, context));
  SLIP_TRY_(engine_.resources_.attach_draft_length(engine_, request_, out_.form, prompt, context));
  return context;
}

Result<std::vector<Decoded>> Answering::decode(const Prompt& prompt) {
  SLIP_TRY(const DecodeOptions options, decode_options());
  SLIP_TRY(const DecodeContext context, decode_context(prompt));
  SLIP_TRY(const std::vector<double> scale, action_scale());
  SLIP_TRY_(resolve_method(out_.method, out_.form.get(), scale));
  return Decoder(model_.lm(), out_.method).rollouts(prompt, form(), options, request_.rollouts, context);
}

Status Answering::read(std::vector<Decoded> decoded) {
  const auto start = Clock::now();
  std::vector<std::vector<Waypoint>> rollouts;
  const Tokenizer& tokenizer = *model_.tokenizer();
  for (size_t r = 0; r < decoded.size(); ++r) {
    if (!form() || !decoded[r].valid) continue;
    SLIP_TRY(std::vector<FieldValue> values, parse(*out_.form, decoded[r].tokens, tokenizer));
    rollouts.push_back(waypoints_of(*form(), values));
    if (r > 0) continue;
    out_.plan.waypoints = rollouts.front();
    out_.values = std::move(values);
  }
  out_.decoded = std::move(decoded.front());
  const std::vector<TokenId>& tokens = out_.decoded.tokens;
  out_.text = out_.form ? answer_text(*out_.form, tokens, tokenizer) : tokenizer.decode(tokens, true);
  SLIP_TRY_(fit_plan(request_, rollouts, out_.plan));
  out_.stages.plan_ms = ms_since(start);
  return read_action();
}

Result<Answer> Answering::run() {
  const auto start = Clock::now();
  out_.method = request_.method;
  if (!model_.tokenizer()) return bad_input("{}: expected a tokenizer in the folder, got none", model_.folder().string());
  SLIP_TRY_(read_form());
  std::vector<Decoded> decoded;
  {
    SLIP_TRY(const Turns::Turn turn, engine_.turns_.wait(request_.context.cancel));
    const auto encode_start = Clock::now();
    SLIP_TRY(const Prompt rows, encode());
    out_.stages.encode_ms = ms_since(encode_start);
    SLIP_TRY(decoded, decode(rows));
  }
  SLIP_TRY_(read(std::move(decoded)));
  out_.stages.total_ms = ms_since(start);
  log_reply();
  return std::move(out_);
}

void Answering::log_reply() const {
  const Statistics& n = out_.decoded.statistics;
  log(LogLevel::kDebug,
      "reply: {}: form {:.1f}, encode {:.1f}, prefill {:.1f}, draft {:.1f}, verify {:.1f}, plan {:.1f}, total {:.1f} ms; {} passes",
      out_.method.preset, out_.stages.form_ms, out_.stages.encode_ms, n.ms.prefill, n.ms.draft, n.ms.verify, out_.stages.plan_ms,
      out_.stages.total_ms, n.forwards);
  if (n.nan_rows > 0) log(LogLevel::kWarn, "reply: {} rows were not finite: the answer is not to be trusted", n.nan_rows);
}

}  // namespace slip
