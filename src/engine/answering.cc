// SPDX-License-Identifier: Apache-2.0
// See answering.h.
#include "engine/answering.h"

#include <fmt/ranges.h>
#include <algorithm>

#include "base/clock/operation_clock.h"
#include "base/log.h"
#include "base/measure.h"
#include "decode/types/capacity.h"
#include "engine/automatic.h"
#include "engine/plan_check.h"
#include "engine/text_end.h"

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

}  // namespace

SaidPlan said_plan(const CompiledForm& form, std::span<const FieldValue> values) {
  SaidPlan out{.waypoints = {}, .path = path_of(form, values)};
  out.waypoints = out.path.empty() ? waypoints_of(form.form, values) : resampled(out.path, 1).points;
  return out;
}

// The fit is stated for any number of waypoints at 1 Hz; a path is there at every moment and needs none. A form without a trajectory has no
// plan.
Status fit_plan(const PlanFit& fit, const std::optional<EgoInput>& ego, std::span<const SaidPlan> rollouts, Plan& plan) {
  if (rollouts.empty() || rollouts.front().waypoints.size() < 2) return {};
  FitSpec spec{.fit = fit.fit, .knots = static_cast<int>(rollouts.front().waypoints.size()), .rounding_m = fit.rounding_m};
  spec.start_known = ego.has_value();
  if (!ego && spec.fit == Fit::kMinJerkV0) spec.fit = Fit::kMinJerkFree;
  spec.points = spec.knots * 4;
  SLIP_TRY(const FitMap map, FitMap::make(spec));
  Waypoint v0;
  if (ego) v0 = {ego->history.back().vx, ego->history.back().vy};
  std::vector<Trajectory> each;
  for (const SaidPlan& said : rollouts) {
    if (said.path.empty()) {
      SLIP_TRY(each.emplace_back(), map.apply(said.waypoints, v0));
    } else {
      each.push_back(resampled(said.path, spec.rate_hz));
    }
  }
  SLIP_TRY(RolloutFit average, average_of(each));
  plan.fitted = std::move(average.mean);
  plan.infeasible = why_infeasible(*plan.fitted, ego ? std::optional<Waypoint>(v0) : std::nullopt);
  plan.spread_m = std::move(average.spread_m);
  if (each.size() > 1) plan.fitted_rollouts = std::move(each);
  return {};
}

Status Answering::read_form() {
  if (request_.free_text()) return {};
  const StageScope stage("form");
  const auto start = Clock::now();
  if (asks_actions()) SLIP_TRY_(check_statistics());
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
    if (!found) {
      std::vector<std::string> known;
      for (size_t s = 0; form() && s < form()->sections().size(); ++s) known.push_back(form()->sections()[s].name);
      return bad_input("--section-temperature: expected a section of the form ({}), got {}",
                       known.empty() ? "it has none" : fmt::format("{}", fmt::join(known, ", ")), name);
    }
    if (std::count_if(request_.section_temperatures.begin(), request_.section_temperatures.end(),
                      [&name = name](const auto& other) { return other.first == name; }) > 1)
      return usage_error("--section-temperature: expected each section once, got {} twice", name);
  }
  return {};
}

void Answering::warn_of_visibility(Visibility asked) {
  if (!form() || asked == engine_.visibility() || engine_.warned_of_visibility_) return;
  engine_.warned_of_visibility_ = true;
  log(LogLevel::kWarn, "visibility: expected {}, which {} was trained for, got {}: its answers may mean nothing",
      words(engine_.visibility()), model_.folder().string(), words(asked));
}

Result<DecodeOptions> Answering::decode_options() {
  DecodeOptions options = request_.decode;
  SLIP_TRY_(take_section_temperatures(options));
  options.end_tokens = model_.config().eos;
  const auto& action = model_.config().action;
  if (!form() && !action) options.denied = denied_in_text(model_);  // actions: as published, from all rows
  if (action && !form()) {                                          // as published: as many tokens as numbers, no end token
    SLIP_TRY(const auto* statistics, choose_statistics(*action, request_.unnorm_key));
    const int numbers = static_cast<int>(statistics->second.q01.size());
    if (options.limit < numbers)  // a part of an action moves nobody
      return usage_error("--max-tokens: expected at least {}, a token for each number of the action, got {}", numbers,
                         options.limit);
    options.limit = numbers;
    options.end_tokens.clear();
  }
  if (request_.plan_first && form()) options.wanted_first = plan_fields(*form());
  options.forced = form() != nullptr;  // every exact decoder gives a form's answer the same tokens (decision 0003)
  options.visibility = request_.visibility.value_or(engine_.visibility());
  options.reuse_prompt = options.reuse_prompt || request_.reuse_prompt;
  SLIP_TRY_(check_visibility(request_.method, form() != nullptr, options.visibility));
  warn_of_visibility(options.visibility);
  return options;
}

Status Answering::fit_positions(const Prompt& prompt, DecodeOptions& options) const {
  const int32_t most = model_.config().max_positions;
  if (most <= 0) return {};
  if (form()) {
    // Along a graph every value has its own place; along the chain tokens are counted.
    const int32_t of_form = options.visibility == Visibility::kGraph ? form()->length() : form()->longest();
    if (int64_t{prompt.next_position} + of_form <= most) return {};
    if (of_form >= most)  // whatever the prompt
      return unsupported("context: expected a form of fewer than {} positions, which the model was made for, got {}", most,
                         of_form);
    return bad_input(
        "context: expected at most {} positions, which the model was made for (max_position_embeddings), got {} of the prompt "
        "and {} of the form",
        most, prompt.next_position, of_form);
  }
  if (prompt.next_position >= most)
    return bad_input(
        "context: expected at most {} positions, which the model was made for (max_position_embeddings), got {} of the prompt",
        most, prompt.next_position);
  options.limit = std::min(options.limit, most - prompt.next_position);
  return {};
}

Result<DecodeContext> Answering::decode_context(const Prompt& prompt, const DecodeOptions& options) {
  DecodeContext context = request_.context;
  if (request_.reuse_prompt && !seat_ && !context.prefix_cache) context.prefix_cache = &engine_.prefix_cache_;
  if (!form() && !request_.stop.empty())
    context.ends_text = [this](std::span<const TokenId> tokens) {
      return stop_is_complete(*model_.tokenizer(), tokens, request_.stop);
    };
  SLIP_TRY_(ask_for_keys(context, options));
  SLIP_TRY_(engine_.resources_.attach(engine_, request_, out_.form, context));
  if (request_.method.automatic) {
    SLIP_TRY(kind_, engine_.automatic_->choose(engine_, request_, out_.form, prompt, options, out_.method, context, out_.chosen));
    return context;
  }
  SLIP_TRY_(engine_.resources_.attach_draft_length(engine_, request_, out_.form, prompt, context));
  return context;
}

int64_t Answering::slots_for(const Prompt& prompt, const DecodeOptions& options) const {
  FormSize size;
  if (form()) size = {.positions = form()->length(), .fields = static_cast<int64_t>(form()->fields().size())};
  const Capacity capacity = Capacity::of(out_.method, options, form() != nullptr);
  return static_cast<int64_t>(prompt.inputs.size()) + capacity.slots_of_answers(request_.rollouts, options.limit, size);
}

Result<std::vector<Decoded>> Answering::decode(const Prompt& prompt) {
  const StageScope stage("commit");
  DecodeOptions options;
  DecodeContext context;
  {
    const OperationScope choosing("choice of the decoder");
    const auto start = Clock::now();
    SLIP_TRY(options, decode_options());
    SLIP_TRY_(fit_positions(prompt, options));
    SLIP_TRY(context, decode_context(prompt, options));
    SLIP_TRY(const std::vector<double> scale, action_scale());
    SLIP_TRY_(resolve_method(out_.method, out_.form.get(), scale));
    out_.stages.choice_ms = ms_since(start);
  }
  Lm* lm = &model_.lm();
  if (seat_) {
    SLIP_TRY(lm, seat_->take(prompt, slots_for(prompt, options), out_.method, context));
  }
  const OperationScope rounds("rounds");
  SLIP_TRY(auto answers, Decoder(*lm, out_.method).rollouts(prompt, form(), options, request_.rollouts, context));
  if (kind_) engine_.automatic_->ran(*kind_, answers.front(), context.previous, prompt, !seat_);
  return answers;
}

Result<std::vector<Decoded>> Answering::encode_and_decode() {
  SLIP_TRY_(take_head());
  const auto start = Clock::now();
  if (seat_) SLIP_TRY_(seat_->begin_encode());
  auto rows = [this] {
    const StageScope stage("encode");
    return encode();
  }();
  if (seat_) seat_->end_encode();
  if (!rows) return rows.error();
  out_.stages.encode_ms = ms_since(start);
  out_.prompt_rows = static_cast<int64_t>(rows->inputs.size());
  return decode(*rows);
}

// Bytes that are no text show as U+FFFD: a field whose budget ends within a character, and free text with half of one anywhere but at its
// limit, where it is left out.
void Answering::check_characters() {
  if (!form() && !model_.config().action) {
    std::string bytes;
    for (const TokenId t : out_.decoded.tokens) bytes += model_.tokenizer()->token_bytes(t);
    if (const size_t stop = first_stop(bytes, request_.stop); stop != std::string::npos) bytes.resize(stop);
    if (is_valid_utf8(out_.finish == Finish::kLength ? whole_characters(bytes) : std::string_view(bytes))) return;
    out_.decoded.valid = false;
    out_.remarks.emplace_back("text: it holds parts of characters, which show as U+FFFD");
  }
  for (size_t f = 0; f < out_.decoded.fields.size() && f < out_.values.size(); ++f) {
    if (!std::holds_alternative<std::string>(out_.values[f])) continue;
    std::string bytes;
    for (const TokenId t : out_.decoded.fields[f]) bytes += model_.tokenizer()->token_bytes(t);
    if (is_valid_utf8(bytes)) continue;
    out_.decoded.valid = false;
    out_.remarks.push_back(fmt::format("field {}: its text ends or goes on within a character", form()->fields()[f].name));
  }
}

// Why a text is over; what belongs to a stop, and half a character at a limit, is no part of it.
Finish Answering::end_text(const std::vector<TokenId>& tokens, std::string& text) const {
  const std::vector<TokenId>& ends = model_.config().eos;
  const bool ended = !tokens.empty() && std::find(ends.begin(), ends.end(), tokens.back()) != ends.end();
  const size_t stop = first_stop(text, request_.stop);
  if (stop != std::string::npos) {
    text.resize(stop);
    return Finish::kStop;
  }
  if (ended || model_.config().action) return Finish::kEnd;
  if (tokens.empty()) return Finish::kLength;
  std::string bytes;  // of the last tokens, a byte each at least
  for (size_t i = tokens.size() - std::min<size_t>(4, tokens.size()); i < tokens.size(); ++i)
    bytes += model_.tokenizer()->token_bytes(tokens[i]);
  if (whole_characters(bytes).size() == bytes.size()) return Finish::kLength;
  StreamDecoder stream(*model_.tokenizer(), true);
  for (const TokenId t : tokens) stream.push(t);
  const std::string rest = stream.flush();  // what is not certain yet: the half, or the run of byte tokens that it ends
  text.resize(text.size() - (rest.size() - std::min(rest.size(), rest.find("\xEF\xBF\xBD"))));
  return Finish::kLength;
}

Status Answering::read(std::vector<Decoded> decoded) {
  const StageScope stage("plan");
  const auto start = Clock::now();
  std::vector<SaidPlan> rollouts;
  const Tokenizer& tokenizer = *model_.tokenizer();
  for (size_t r = 0; r < decoded.size(); ++r) {
    if (!form() || !decoded[r].valid) continue;
    SLIP_TRY(std::vector<FieldValue> values, parse(*out_.form, decoded[r].tokens, tokenizer));
    rollouts.push_back(said_plan(*out_.form, values));
    if (r > 0) continue;
    out_.plan.waypoints = rollouts.front().waypoints;
    out_.values = std::move(values);
  }
  out_.decoded = std::move(decoded.front());
  const std::vector<TokenId>& tokens = out_.decoded.tokens;
  out_.text = out_.form ? answer_text(*out_.form, tokens, tokenizer) : tokenizer.decode(tokens, true);
  if (!out_.form) out_.finish = end_text(tokens, out_.text);
  for (const auto& list : out_.decoded.top_log_probs)
    for (const auto& place : list)
      for (const Decoded::IdLogProb& one : place)
        out_.spelled.try_emplace(one.id.value, tokenizer.decode(std::span(&one.id, 1), false));
  check_characters();
  out_.texts = {out_.text};
  out_.finishes = {out_.finish};
  for (size_t r = 1; r < decoded.size(); ++r) {
    std::string text =
        out_.form ? answer_text(*out_.form, decoded[r].tokens, tokenizer) : tokenizer.decode(decoded[r].tokens, true);
    out_.finishes.push_back(out_.form ? Finish::kEnd : end_text(decoded[r].tokens, text));
    out_.texts.push_back(std::move(text));
  }
  SLIP_TRY_(fit_plan(engine_.plan_fit(request_), request_.ego, rollouts, out_.plan));
  for (size_t r = 0; rollouts.size() > 1 && r < rollouts.size(); ++r)
    out_.plan.rollouts.push_back(std::move(rollouts[r].waypoints));
  if (head_plan_) out_.own_plan = std::exchange(out_.plan, std::move(*head_plan_));
  out_.stages.plan_ms = ms_since(start);
  return read_action();
}

Result<Answer> Answering::run() {
  out_.method = request_.method;
  if (const auto tokenizer = model_.need_tokenizer(); !tokenizer) return tokenizer.error();
  SLIP_TRY_(read_form());
  std::vector<Decoded> decoded;
  if (seat_) {
    SLIP_TRY(decoded, encode_and_decode());
  } else {
    SLIP_TRY(const Turns::Turn turn, engine_.turns_.wait(request_.context.cancel));
    SLIP_TRY(decoded, encode_and_decode());
  }
  SLIP_TRY_(read(std::move(decoded)));
  out_.stages.total_ms = ms_since(begun_);
  log_reply();
  return std::move(out_);
}

void Answering::log_reply() const {
  const Statistics& n = out_.decoded.statistics;
  log(LogLevel::kDebug,
      "reply: {}: form {:.1f}, encode {:.1f}, prefill {:.1f}, draft {:.1f}, verify {:.1f}, plan {:.1f}, total {:.1f} ms; {} passes",
      out_.method.preset, out_.stages.form_ms, out_.stages.encode_ms, n.ms.prefill, n.ms.draft, n.ms.verify, out_.stages.plan_ms,
      out_.stages.total_ms, n.forwards);
  const bool always = out_.method.draft_length.kind == DraftLengthSpec::Kind::kFixed;  // others may rightly choose not to draft
  if (const auto* d = std::get_if<ModelSpec>(&out_.method.drafter);
      d && always && n.drafter_forwards == 0 && n.tokens > n.forced_tokens + 1)
    log(LogLevel::kWarn, "draft model {}: drafted nothing: what was asked or said has tokens that it does not have", d->name);
  if (n.nan_rows > 0) log(LogLevel::kWarn, "reply: {} rows were not finite: the answer is not to be trusted", n.nan_rows);
}

}  // namespace slip
