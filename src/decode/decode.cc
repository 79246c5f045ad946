// SPDX-License-Identifier: Apache-2.0
// Presets, the checks that every method relies on, and the choice of the method.
#include "decode/decode.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "decode/methods.h"
#include "form/values.h"

namespace slip {
namespace {

constexpr std::array<std::string_view, 5> kPresets = {"ar", "self-spec", "scaffold-ar", "scaffold-spec", "section-diffusion"};

bool drafts(const Method& m) { return std::holds_alternative<DiffusionDrafter>(m.drafter); }

Status check_temperature(float t) {
  if (!(t >= 0) || !std::isfinite(t)) return usage_error("decode: expected a temperature of at least 0, got {}", t);
  return {};
}

Status check_model(const LmInfo& info, const Method& m) {
  if (!drafts(m)) return {};
  if (!info.rule.has_mask)
    return unsupported("decode: expected a model with a mask token for {}, got {} without", m.preset, info.name);
  if (info.rule.mask.value < 0 || info.rule.mask.value >= info.vocab)
    return bad_input("decode: expected a mask id below {}, got {}", info.vocab, info.rule.mask.value);
  if (info.rule.block_causal_context && !m.lossy())
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
    for (const TokenRules::State& s : f.rules.states())
      for (const auto& e : s.edges)
        if (!inside(e.id))
          return bad_input("form {}: field {}: expected ids below {}, got {}", form.name(), f.name, info.vocab, e.id.value);
  }
  return {};
}

Status check_options(const Method& m, const Form* form, const DecodeOptions& o) {
  SLIP_TRY_(check_temperature(o.temperature));
  for (const auto& [section, t] : o.section_temperature) SLIP_TRY_(check_temperature(t));
  if (m.schedule == Schedule::kText && o.limit < 1)
    return usage_error("decode: expected a limit of at least 1 token, got {}", o.limit);
  if (m.schedule != Schedule::kText && form == nullptr) return usage_error("decode: expected a form for {}, got none", m.preset);
  if (m.width.tokens < 2 && m.schedule == Schedule::kText && drafts(m))
    return usage_error("decode: expected a width of at least 2, got {}", m.width.tokens);
  if (const auto* c = std::get_if<ConfidenceVerifier>(&m.verifier); c && std::isnan(c->threshold))
    return usage_error("decode: expected a threshold, got {}", c->threshold);
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

Status dispatch(Work& work, const LmInfo& info, const Method& m, const Form* form, Decoded& answer) {
  const auto* confidence = std::get_if<ConfidenceVerifier>(&m.verifier);
  const DecodeOptions& o = work.passes.options();
  if (m.schedule == Schedule::kText && !confidence) {
    if (form && o.ar_forced && !drafts(m)) return decode_scaffold(work, *form, answer);
    SLIP_TRY_(drafts(m) ? decode_text_self_spec(work, info, m, answer) : decode_text(work, info, m, answer));
    if (form) read_freely(*form, o, answer);
    return {};
  }
  if (m.schedule == Schedule::kChain && !confidence)
    return drafts(m) ? decode_scaffold_spec(work, info, *form, answer) : decode_scaffold(work, *form, answer);
  if (m.schedule == Schedule::kSections && confidence && drafts(m)) return decode_sections(work, info, *form, *confidence, answer);
  const MethodWords w = words_of(m);
  return unsupported("decode: expected a combination that is built, got schedule {}, drafter {}, verifier {}", w.schedule,
                     w.drafter, w.verifier);
}

}  // namespace

struct Decoder::Scratch {
  Work work;
};

std::span<const std::string_view> preset_names() { return kPresets; }

Result<Method> method_of(std::string_view preset) {
  Method m{.preset = std::string(preset)};
  if (preset == "ar") return m;
  if (preset == "self-spec") {
    m.drafter = DiffusionDrafter{};
  } else if (preset == "scaffold-ar") {
    m.schedule = Schedule::kChain;
  } else if (preset == "scaffold-spec") {
    m.schedule = Schedule::kChain;
    m.drafter = DiffusionDrafter{};
  } else if (preset == "section-diffusion") {
    m.schedule = Schedule::kSections;
    m.drafter = DiffusionDrafter{};
    m.verifier = ConfidenceVerifier{};
  } else {
    return usage_error("--decoder: expected one of {}, got '{}'", fmt::join(kPresets, ", "), preset);
  }
  return m;
}

MethodWords words_of(const Method& m) {
  constexpr std::array<std::string_view, 3> kSchedules = {"text", "chain", "sections"};
  const auto* confidence = std::get_if<ConfidenceVerifier>(&m.verifier);
  std::string width = !drafts(m) ? "1" : m.schedule == Schedule::kText ? fmt::format("fixed:{}", m.width.tokens) : "blocks";
  return {std::string(kSchedules[static_cast<size_t>(m.schedule)]), drafts(m) ? "diffusion" : "none",
          confidence ? fmt::format("confidence:{}", confidence->threshold) : "exact", std::move(width)};
}

Decoder::Decoder(Lm& lm, Method method) : lm_(&lm), method_(std::move(method)), scratch_(std::make_unique<Scratch>()) {}
Decoder::~Decoder() = default;
Decoder::Decoder(Decoder&&) noexcept = default;

Result<Decoded> Decoder::decode(const Prompt& prompt, const Form* form, const DecodeOptions& options) {
  const auto begin = std::chrono::steady_clock::now();
  const LmInfo& info = lm_->info();
  SLIP_TRY_(check_options(method_, form, options));
  SLIP_TRY_(check_model(info, method_));
  SLIP_TRY_(check_prompt(info, prompt));
  if (form) SLIP_TRY_(check_form(info, *form));

  Decoded answer;
  answer.lossy = method_.lossy();
  answer.tokens.reserve(
      static_cast<size_t>(form && method_.schedule != Schedule::kText ? form->length() : std::min(options.limit, info.slots)));
  if (form) {
    answer.fields.resize(form->fields().size());
    for (size_t f = 0; f < answer.fields.size(); ++f) answer.fields[f].reserve(static_cast<size_t>(form->fields()[f].budget));
  }
  scratch_->work.passes.start(*lm_, prompt, form, options, answer.statistics);
  SLIP_TRY_(dispatch(scratch_->work, info, method_, form, answer));
  answer.statistics.tokens = static_cast<int64_t>(answer.tokens.size());
  answer.statistics.ms.total = std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - begin).count();
  return answer;
}

Result<Decoded> decode(Lm& lm, const Prompt& prompt, const Form* form, std::string_view preset, const DecodeOptions& options) {
  SLIP_TRY(Method method, method_of(preset));
  return Decoder(lm, std::move(method)).decode(prompt, form, options);
}

}  // namespace slip
