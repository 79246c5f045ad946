// SPDX-License-Identifier: Apache-2.0
// The checks that every method relies on, and the putting together of its parts.
#include "decode/decoder.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "decode/draft/methods.h"
#include "decode/schedule/schedule.h"
#include "form/schema/values.h"
#include "lm/block_pilot.h"
#include "lm/draft_head.h"

namespace slip {
namespace {

Status check_temperature(float t) {
  if (!(t >= 0) || !std::isfinite(t)) return usage_error("decode: expected a temperature of at least 0, got {}", t);
  return {};
}

Status check_model(const LmInfo& info, const Method& m) {
  if (!m.diffusion() && !std::holds_alternative<QuadraticSpec>(m.drafter)) return {};  // nothing is drafted from masks
  if (!info.rule.has_mask)
    return unsupported("decode: expected a model with a mask token for {}, got {} without", m.preset, info.name);
  if (info.rule.mask.value < 0 || info.rule.mask.value >= info.vocab)
    return bad_input("decode: expected a mask id below {}, got {}", info.vocab, info.rule.mask.value);
  const auto* diffusion = std::get_if<DiffusionSpec>(&m.drafter);
  if (diffusion && diffusion->adapter && !info.has_draft_adapter)
    return unsupported(
        "decode: expected a model with a draft adapter (linear_spec_lora) for drafter diffusion:lora, got {} without", info.name);
  if (info.rule.block_causal_context && m.schedule != Schedule::kSections)
    return unsupported("decode: expected a token-causal model, which can verify itself, for {}, got {} with block-causal context",
                       m.preset, info.name);
  return {};
}

Status check_prompt(const LmInfo& info, const Prompt& prompt) {
  if (prompt.inputs.empty()) return bad_input("decode: expected a prompt of at least one row, got none");
  if (prompt.inputs.size() != prompt.positions.size())
    return bad_input("decode: expected {} positions in the prompt, got {}", prompt.inputs.size(), prompt.positions.size());
  for (const RowInput& input : prompt.inputs)
    if (const auto* id = std::get_if<TokenId>(&input); id && (id->value < 0 || id->value >= info.vocab))
      return bad_input("decode: expected prompt ids below {}, got {}", info.vocab, id->value);
  return {};
}

Status check_form(const LmInfo& info, const Form& form) {
  const auto inside = [&](TokenId id) { return id.value >= 0 && id.value < info.vocab; };
  for (int32_t u = 0; u < form.length(); ++u)
    if (form.fixed_at(u) && !inside(*form.fixed_at(u)))
      return bad_input("form {}: expected ids below the model's {}, got {}", form.name(), info.vocab, form.fixed_at(u)->value);
  for (const Field& f : form.fields()) {
    if (f.end && !inside(*f.end))
      return bad_input("form {}: field {}: expected an end below {}, got {}", form.name(), f.name, info.vocab, f.end->value);
    for (const Exit& e : f.exits)
      if (!inside(e.end))
        return bad_input("form {}: field {}: expected an end below {}, got {}", form.name(), f.name, info.vocab, e.end.value);
    for (const TokenRules::State& s : f.rules.states())
      for (const auto& e : s.edges)
        if (!inside(e.id))
          return bad_input("form {}: field {}: expected ids below {}, got {}", form.name(), f.name, info.vocab, e.id.value);
  }
  return {};
}

Status check_sampling(const Sampling& s) {
  if (s.top_k < 0) return usage_error("decode: expected a top_k of at least 0, got {}", s.top_k);
  if (!(s.top_p > 0)) return usage_error("decode: expected a top_p above 0, got {}", s.top_p);
  if (!(s.min_p >= 0 && s.min_p <= 1)) return usage_error("decode: expected a min_p from 0 to 1, got {}", s.min_p);
  if (!(s.repetition > 0) || !std::isfinite(s.repetition))
    return usage_error("decode: expected a repetition penalty above 0, got {}", s.repetition);
  if (s.repetition_last < 0)
    return usage_error("decode: expected a repetition history of at least 0 tokens, got {}", s.repetition_last);
  return {};
}

}  // namespace

Status check_choice(const Method& m, bool form, const DecodeOptions& o) {
  if (m.automatic) return unsupported("decode: expected a decoder with its parts, got auto, which an engine resolves");
  SLIP_TRY_(check_temperature(o.temperature));
  for (const auto& [section, t] : o.section_temperature) SLIP_TRY_(check_temperature(t));
  SLIP_TRY_(check_sampling(o.sampling));
  if (m.schedule == Schedule::kText && o.limit < 1)
    return usage_error("decode: expected a limit of at least 1 token, got {}", o.limit);
  if (m.schedule != Schedule::kText && !form) return usage_error("decode: expected a form for {}, got none", m.preset);
  if (!std::ranges::is_sorted(o.denied)) return usage_error("decode: expected denied ids in ascending order, got another");
  if (diffuses_text(m) && form)
    return unsupported("decode: expected free text for {}, got a form: section-diffusion decodes forms", m.preset);
  if (o.log_forced && m.schedule == Schedule::kSections)
    return unsupported("decode: log of forced tokens: expected schedule text, chain or fields, got sections");
  if (o.log_probs && (!std::holds_alternative<ExactSpec>(m.verifier) || m.schedule == Schedule::kSections))
    return unsupported("decode: log-probabilities: expected verifier exact, which draws by the model's own law, got {}",
                       words_of(m).verifier);
  const bool diffusion = std::holds_alternative<DiffusionSpec>(m.drafter);
  const int32_t least = diffusion ? 2 : 1;  // a block holds the newest row too
  if (m.drafts() && m.draft_length.kind == DraftLengthSpec::Kind::kFixed && m.schedule != Schedule::kSections &&
      m.draft_length.tokens < least)
    return usage_error("decode: expected a draft length of at least {}, got {}", least, m.draft_length.tokens);
  if (const auto* c = std::get_if<ConfidenceSpec>(&m.verifier); c && std::isnan(c->threshold))
    return usage_error("decode: expected a threshold, got {}", c->threshold);
  return {};
}

Status check_visibility(const Method& m, bool form, Visibility visibility) {
  const bool graph = visibility == Visibility::kGraph;
  if (form && m.schedule == Schedule::kFields && !graph)
    return unsupported("{}: expected graph visibility (a model trained for it, or --visibility graph), got chain visibility",
                       m.preset);
  if (form && m.schedule == Schedule::kSections && graph)
    return unsupported("{}: expected chain visibility (a model trained for it, or --visibility chain), got graph visibility",
                       m.preset);
  return {};
}

namespace {

/// A classifier reads as many logits as it has inputs; a padded head may have more.
Status check_pilot(const LmInfo& info, const Method& m, const BlockPilot* pilot) {
  if (!m.drafts() || m.draft_length.kind != DraftLengthSpec::Kind::kBlockPilot || !pilot || pilot->vocab() <= info.vocab) return {};
  return bad_input("--width {}: expected a classifier of at most the model's {} logits, got one of {}", words_of(m).draft_length,
                   info.vocab, pilot->vocab());
}

Status check_previous(const Method& m, const Form& form, const PreviousAnswer* previous) {
  if (!std::holds_alternative<PreviousSpec>(m.drafter) || !previous) return {};
  if (previous->form != form.name() || previous->fields.size() != form.fields().size())
    return bad_input("--drafter previous: expected an answer of form {} with {} fields, got one of {} with {}", form.name(),
                     form.fields().size(), previous->form, previous->fields.size());
  return {};
}

/// Reads a freely decoded answer against the form; the end token is not part of it.
void read_freely(const Form& form, const DecodeOptions& options, Decoded& answer) {
  size_t n = answer.tokens.size();
  if (n > 0 && std::find(options.end_tokens.begin(), options.end_tokens.end(), answer.tokens.back()) != options.end_tokens.end())
    --n;
  auto fields = split_answer(form, std::span(answer.tokens).first(n));
  answer.valid = fields.has_value();
  if (fields) answer.fields = std::move(*fields);
}

/// Does the position stand behind a field that closed with its END? A draft that filled the field and did not hold may have been looked at.
bool behind_end(const Form& form, const std::vector<std::vector<TokenId>>& contents, int32_t position) {
  for (size_t f = 0; f < contents.size(); ++f) {
    const Field& x = form.fields()[f];
    if (x.start + x.budget != position || static_cast<int32_t>(contents[f].size()) == x.budget) continue;
    return !is_unused(form, contents, f);
  }
  return false;
}

/// The prompt in a pass of its own, its last row's logits for the draft length policy. Its rows stay known: no schedule runs them again.
Status show_prompt(Passes& p, Drafter& drafter, DraftLengthPolicy& lengths) {
  p.prefill().defer(true);
  p.begin();
  p.next().want(p.prefill().last_row(), Want::kLogits);
  if (drafter.wants_taps()) p.next().want_taps();
  SLIP_TRY_(p.run(PassKind::kPrefill));
  SLIP_TRY_(drafter.after_pass());
  lengths.prompt_logits(p.output().logits_V(p.prefill().last_row()));
  return {};
}

/// `form`: what the answers are decoded by, or, along the route of free text, read against.
Status dispatch(Scratch& scratch, const Method& m, const Form* form, const Capacity& capacity, std::vector<Decoded>& answers) {
  Passes& p = scratch.passes;
  const DecodeRequest& request = p.request();
  const LmInfo& info = request.lm.info();
  if ((capacity.route == Route::kSections || capacity.route == Route::kChain) && form->leaves_out())
    return unsupported("decode: form {}: expected graph visibility, under which an instance that is not named takes no row, got {}",
                       form->name(), m.preset);
  if (capacity.route == Route::kSections) return decode_sections(scratch, info, *form, m, answers[0]);
  if (capacity.route == Route::kTextBlocks) {
    SLIP_TRY_(decode_text_blocks(scratch, info, m, answers[0]));
    return {};
  }
  SLIP_TRY(const auto drafter, make_drafter(m, info, capacity, p));
  SLIP_TRY(const auto verifier, make_verifier(m, p));
  SLIP_TRY(const auto lengths, make_draft_length(m, request.form, request.options, request.context));
  if (lengths->wants_prompt_logits()) SLIP_TRY_(show_prompt(p, *drafter, *lengths));
  Rounds rounds(p, *drafter, *verifier, *lengths, !m.drafts());
  ScheduleContext context{scratch,      rounds,  *drafter, info,
                          request.form, answers, capacity, !std::holds_alternative<ExactSpec>(m.verifier)};
  if (capacity.route == Route::kGraph) return decode_fields(context, m.schedule != Schedule::kFields);
  if (capacity.route == Route::kChain) return decode_chain(context, m.schedule == Schedule::kText && !m.drafts());
  SLIP_TRY_(decode_text(context));
  if (form)
    for (Decoded& answer : answers) read_freely(*form, request.options, answer);
  if (form && answers[0].valid)
    for (size_t f = 0; f < answers[0].fields.size(); ++f) request.field_done(static_cast<int32_t>(f), answers[0].fields[f]);
  return {};
}

}  // namespace

Decoder::Decoder(Lm& lm, Method method) : lm_(&lm), method_(std::move(method)), scratch_(std::make_unique<Scratch>()) {}
Decoder::~Decoder() = default;
Decoder::Decoder(Decoder&&) noexcept = default;

Result<Decoded> Decoder::decode(const Prompt& prompt, const Form* form, const DecodeOptions& options,
                                const DecodeContext& context) {
  SLIP_TRY(auto answers, rollouts(prompt, form, options, 1, context));
  return std::move(answers.front());
}

Result<std::vector<Decoded>> Decoder::rollouts(const Prompt& prompt, const Form* form, const DecodeOptions& options, int32_t count,
                                               const DecodeContext& context) {
  const auto begin = std::chrono::steady_clock::now();
  const LmInfo& info = lm_->info();
  if (count < 1) return usage_error("decode: expected at least 1 rollout, got {}", count);
  SLIP_TRY_(check_choice(method_, form != nullptr, options));
  SLIP_TRY_(check_model(info, method_));
  SLIP_TRY_(check_pilot(info, method_, context.block_pilot));
  SLIP_TRY_(check_prompt(info, prompt));
  if (form) SLIP_TRY_(check_form(info, *form));
  if (form) SLIP_TRY_(check_previous(method_, *form, context.previous));
  if (std::holds_alternative<DFlashSpec>(method_.drafter) && context.draft_head)
    SLIP_TRY_(lm_->set_taps(context.draft_head->info().tap_layers));

  std::vector<Decoded> answers(static_cast<size_t>(count));
  for (Decoded& answer : answers) {
    answer.lossy = method_.lossy();
    answer.tokens.reserve(
        static_cast<size_t>(form && method_.schedule != Schedule::kText ? form->length() : std::min(options.limit, info.slots)));
    if (!form) continue;
    answer.fields.resize(form->fields().size());
    for (size_t f = 0; f < answer.fields.size(); ++f) answer.fields[f].reserve(static_cast<size_t>(form->fields()[f].budget));
  }
  if (count > 1 && (method_.schedule == Schedule::kSections || diffuses_text(method_))) {
    SLIP_TRY_(one_after_another(prompt, form, options, context, answers));
  } else {
    const Capacity capacity = Capacity::of(method_, options, form != nullptr);
    const bool free = capacity.route == Route::kText || capacity.route == Route::kTextBlocks;
    const Form* decoded_by = free ? nullptr : form;
    scratch_->passes.start({*lm_, prompt, decoded_by, options, context, answers[0].statistics, &answers[0].passes});
    SLIP_TRY_(dispatch(*scratch_, method_, form, capacity, answers));
    answers[0].forced = scratch_->passes.forced_log();
    if (options.log_probs) answers[0].log_probs = scratch_->passes.chooser().log_probs(answers[0]);
    if (options.log_probs && options.top_log_probs > 0)
      answers[0].top_log_probs = scratch_->passes.chooser().top_log_probs(answers[0]);
    if (form)
      std::erase_if(answers[0].forced.misses, [&](const auto& m) { return behind_end(*form, answers[0].fields, m.position); });
  }
  int64_t all_tokens = 0;
  for (Decoded& answer : answers) {
    answer.statistics.tokens = answer.statistics.all_tokens = static_cast<int64_t>(answer.tokens.size());
    all_tokens += answer.statistics.tokens;
  }
  answers[0].statistics.all_tokens = all_tokens;
  answers[0].statistics.ms.total = std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - begin).count();
  return answers;
}

/// Diffusion over sections has no strands to fork: a request after the other, behind one prefill.
Status Decoder::one_after_another(const Prompt& prompt, const Form* form, const DecodeOptions& options,
                                  const DecodeContext& context, std::vector<Decoded>& answers) {
  DecodeOptions each = options;
  DecodeContext lent = context;
  for (size_t r = 0; r < answers.size(); ++r) {
    if (r > 0) lent.on_field = {};
    each.request = options.request + static_cast<uint32_t>(r);
    each.reuse_prompt = options.reuse_prompt || r > 0;
    SLIP_TRY(answers[r], decode(prompt, form, each, lent));
    if (r > 0) answers[0].statistics.add(answers[r].statistics);
  }
  return {};
}

Result<Decoded> decode(Lm& lm, const Prompt& prompt, const Form* form, std::string_view preset, const DecodeOptions& options,
                       const DecodeContext& context) {
  SLIP_TRY(Method method, method_of(preset));
  return Decoder(lm, std::move(method)).decode(prompt, form, options, context);
}

}  // namespace slip
