// SPDX-License-Identifier: Apache-2.0
#include "decode/types/method.h"

#include <algorithm>

#include "decode/types/capacity.h"
#include "decode/types/presets.h"
#include "decode/types/words.h"

namespace slip {

Result<Method> method_of(std::string_view preset) {
  if (preset == kAutomatic)
    return Method{.preset = std::string(preset), .automatic = true, .schedule = Schedule::kChain, .drafter = {}, .verifier = {}};
  const auto at = std::find_if(kPresets.begin(), kPresets.end(), [&](const Preset& p) { return p.name == preset; });
  if (at == kPresets.end()) return usage_error("--decoder: expected one of {}, got '{}'", preset_usage(), preset);
  Method m{.preset = std::string(preset), .drafter = drafter_named(at->drafter), .verifier = verifier_named(at->verifier)};
  SLIP_TRY(m.schedule, read_schedule(at->schedule));
  if (!at->draft_length.empty()) {
    SLIP_TRY(m.draft_length, read_draft_length(at->draft_length));
  }
  return m;
}

const DiffusionSpec* Method::diffusion() const {
  if (const auto* previous = std::get_if<PreviousSpec>(&drafter)) return previous->then ? &*previous->then : nullptr;
  return std::get_if<DiffusionSpec>(&drafter);
}

int32_t RelaxedSpec::radius_at(std::optional<int32_t> field, int32_t index) const {
  if (!field) return radius;
  const auto f = static_cast<size_t>(*field), i = static_cast<size_t>(index);
  if (f < radius_of_number.size() && i < radius_of_number[f].size()) return radius_of_number[f][i];
  return f < radius_of_field.size() ? radius_of_field[f] : radius;
}

MethodWords words_of(const Method& m) {
  if (m.automatic) return {std::string(kAutomatic), std::string(kAutomatic), "exact", std::string(kAutomatic)};
  const bool sections = m.schedule == Schedule::kSections;
  return {std::string(word_of(m.schedule)), word_of(m.drafter), word_of(m.verifier),
          !m.drafts() ? "1"
          : sections  ? "blocks"
                      : word_of(m.draft_length)};
}

bool diffuses_text(const Method& m) {
  const bool places = std::holds_alternative<ConfidenceSpec>(m.verifier) || std::holds_alternative<SamplerSpec>(m.verifier);
  return m.schedule == Schedule::kText && places && std::holds_alternative<DiffusionSpec>(m.drafter);
}

namespace {

Status check_sense(const Method& m) {
  const MethodWords w = words_of(m);
  const bool diffusion = std::holds_alternative<DiffusionSpec>(m.drafter);
  const bool places = std::holds_alternative<ConfidenceSpec>(m.verifier) || std::holds_alternative<SamplerSpec>(m.verifier);
  if (m.schedule == Schedule::kSections && !(places && diffusion))
    return unsupported(
        "decoder: schedule sections: expected drafter diffusion and verifier confidence:T or sampler:DIR, got {} and {}", w.drafter,
        w.verifier);
  if (m.schedule != Schedule::kSections && places && !diffuses_text(m))
    return unsupported("decoder: verifier {}: expected drafter diffusion and schedule sections, or text, got {} and {}", w.verifier,
                       w.drafter, w.schedule);
  if (diffuses_text(m) && m.draft_length.kind != DraftLengthSpec::Kind::kFixed)
    return unsupported("decoder: verifier {} over text: expected width fixed:N, the rows of a block, got {}", w.verifier,
                       w.draft_length);
  if (!m.drafts() && !std::holds_alternative<ExactSpec>(m.verifier))
    return unsupported("decoder: verifier {}: expected a drafter, got none", w.verifier);
  if (std::holds_alternative<EnsembleSpec>(m.verifier) && !std::holds_alternative<QuadraticSpec>(m.drafter))
    return unsupported(
        "decoder: verifier {}: expected drafter quadratic, whose masks see no draft but their own row's head, got {}", w.verifier,
        w.drafter);
  if (m.draft_length.kind == DraftLengthSpec::Kind::kBlocks && (m.schedule == Schedule::kText || m.schedule == Schedule::kFields))
    return unsupported("decoder: width blocks: expected schedule chain or sections, got {}", w.schedule);
  return {};
}

/// Along a graph the measured draft length is made for masks that travel with the verifying passes: fewer passes and fewer rows than draft
/// passes (docs/lab/0011-decoders.md). Who names diffusion gets draft passes.
void draft_ahead(Method& m, std::string_view asked) {
  auto* previous = std::get_if<PreviousSpec>(&m.drafter);
  auto* own = previous && previous->then ? &*previous->then : asked.empty() ? std::get_if<DiffusionSpec>(&m.drafter) : nullptr;
  if (own && !own->adapter) own->ahead = true;
}

/// `auto` chooses its parts; an earlier answer may be lent to it.
Result<Method> automatic_with(Method m, std::string_view schedule, std::string_view drafter, std::string_view verifier,
                              std::string_view draft_length) {
  const auto refused = [](std::string_view flag, std::string_view word) {
    return usage_error("{}: expected none beside --decoder auto, which chooses it, got {}", flag, word);
  };
  if (!schedule.empty()) return refused("--schedule", schedule);
  if (!verifier.empty()) return refused("--verifier", verifier);
  if (!draft_length.empty()) return refused("--width", draft_length);
  if (drafter.empty()) return m;
  SLIP_TRY(m.drafter, read_drafter(drafter));
  if (!std::holds_alternative<PreviousSpec>(m.drafter))
    return usage_error("--drafter: expected previous:FILE or none beside --decoder auto, which chooses it, got {}", drafter);
  return m;
}

}  // namespace

Result<Method> with_parts(Method m, std::string_view schedule, std::string_view drafter, std::string_view verifier,
                          std::string_view draft_length) {
  if (m.automatic) return automatic_with(std::move(m), schedule, drafter, verifier, draft_length);
  const Schedule before = m.schedule;
  if (!schedule.empty()) {
    SLIP_TRY(m.schedule, read_schedule(schedule));
  }
  if (!drafter.empty()) {
    const auto own = m.drafter;
    SLIP_TRY(m.drafter, read_drafter(drafter));
    if (auto* previous = std::get_if<PreviousSpec>(&m.drafter))
      if (const auto* diffusion = std::get_if<DiffusionSpec>(&own)) previous->then = *diffusion;
  }
  if (!verifier.empty()) {
    SLIP_TRY(m.verifier, read_verifier(verifier));
  }
  if (!draft_length.empty()) {
    const int32_t tokens = m.draft_length.tokens;  // what lengths without a number begin with
    SLIP_TRY(m.draft_length, read_draft_length(draft_length));
    if (m.draft_length.kind != DraftLengthSpec::Kind::kFixed) m.draft_length.tokens = tokens;
    if (!m.drafts()) return unsupported("decoder: width {}: expected a drafter, got none: one token a pass", draft_length);
    if (m.schedule == Schedule::kSections && m.draft_length.kind != DraftLengthSpec::Kind::kBlocks)
      return unsupported("decoder: schedule sections: expected width blocks, got {}", draft_length);
  } else if (m.draft_length.kind == DraftLengthSpec::Kind::kBlocks && before != m.schedule && m.schedule != Schedule::kSections &&
             m.schedule != Schedule::kChain) {
    m.draft_length = {DraftLengthSpec::Kind::kFixed, 16, {}};
  }
  if (m.schedule == Schedule::kFields && m.draft_length.kind == DraftLengthSpec::Kind::kMeasured) draft_ahead(m, drafter);
  SLIP_TRY_(check_sense(m));
  return m;
}

}  // namespace slip
