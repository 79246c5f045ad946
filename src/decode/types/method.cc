// SPDX-License-Identifier: Apache-2.0
// Presets and parts as words. Contract in method.h and decode.h.
#include "decode/types/method.h"

#include <array>
#include <charconv>
#include <cmath>

namespace slip {
namespace {

constexpr std::array<std::string_view, 10> kPresets = {"ar",     "self-spec",   "self-spec-quadratic", "draft-model",
                                                       "dflash", "scaffold-ar", "scaffold-spec",       "section-diffusion",
                                                       "fields", "fields-spec"};

template <class... F>
struct Overloaded : F... {
  using F::operator()...;
};

std::string named(std::string_view kind, const std::string& name) {
  return name.empty() ? std::string(kind) : fmt::format("{}:{}", kind, name);
}

std::string diffusion_word(const DiffusionSpec& d) {
  return d.ahead ? "diffusion:ahead" : d.adapter ? "diffusion:lora" : "diffusion";
}

std::string drafter_word(const DrafterSpec& d) {
  return std::visit(
      Overloaded{
          [](const NoDraftSpec&) { return std::string("none"); }, [](const DiffusionSpec& x) { return diffusion_word(x); },
          [](const QuadraticSpec&) { return std::string("quadratic"); }, [](const LookupSpec&) { return std::string("lookup"); },
          [](const PreviousSpec& x) { return named("previous", x.name) + (x.then ? ", then " + diffusion_word(*x.then) : ""); },
          [](const ModelSpec& x) { return named(x.coupled ? "coupled" : "model", x.name); },
          [](const DFlashSpec& x) { return named("dflash", x.name); }},
      d);
}

std::string verifier_word(const VerifierSpec& v) {
  return std::visit(
      Overloaded{
          [](const ExactSpec&) { return std::string("exact"); }, [](const RejectionSpec&) { return std::string("rejection"); },
          [](const RelaxedSpec& x) { return x.units ? fmt::format("relaxed:{}u", *x.units) : fmt::format("relaxed:{}", x.radius); },
          [](const EnsembleSpec& x) { return fmt::format("ensemble:{}", x.weight); },
          [](const ConfidenceSpec& x) { return fmt::format("confidence:{}", x.threshold); },
          [](const SamplerSpec& x) { return named("sampler", x.name); }},
      v);
}

std::string width_word(const Method& m) {
  if (std::holds_alternative<NoDraftSpec>(m.drafter)) return "1";
  if (m.schedule == Schedule::kSections) return "blocks";
  switch (m.width.kind) {
    case DraftLengthSpec::Kind::kFixed:
      return fmt::format("fixed:{}", m.width.tokens);
    case DraftLengthSpec::Kind::kBlocks:
      return "blocks";
    case DraftLengthSpec::Kind::kMeasured:
      return "measured";
    case DraftLengthSpec::Kind::kBlockPilot:
      return named("blockpilot", m.width.name);
  }
  return "?";
}

}  // namespace

std::span<const std::string_view> preset_names() { return kPresets; }

Result<Method> method_of(std::string_view preset) {
  Method m{.preset = std::string(preset)};
  if (preset == "ar") return m;
  if (preset == "self-spec") {
    m.drafter = DiffusionSpec{};
  } else if (preset == "self-spec-quadratic") {
    m.drafter = QuadraticSpec{};
    m.width.tokens = 4;
  } else if (preset == "draft-model") {
    m.drafter = ModelSpec{};
    m.width.tokens = 4;
  } else if (preset == "dflash") {
    m.drafter = DFlashSpec{};
    m.width.tokens = 15;
  } else if (preset == "scaffold-ar") {
    m.schedule = Schedule::kChain;
  } else if (preset == "scaffold-spec") {
    m.schedule = Schedule::kChain;
    m.drafter = DiffusionSpec{};
    m.width.kind = DraftLengthSpec::Kind::kBlocks;
  } else if (preset == "section-diffusion") {
    m.schedule = Schedule::kSections;
    m.drafter = DiffusionSpec{};
    m.verifier = ConfidenceSpec{};
    m.width.kind = DraftLengthSpec::Kind::kBlocks;
  } else if (preset == "fields") {
    m.schedule = Schedule::kFields;
  } else if (preset == "fields-spec") {
    m.schedule = Schedule::kFields;
    m.drafter = DiffusionSpec{};
    m.width.tokens = 16;
  } else {
    return usage_error("--decoder: expected one of {}, got '{}'", fmt::join(kPresets, ", "), preset);
  }
  return m;
}

MethodWords words_of(const Method& m) {
  constexpr std::array<std::string_view, 4> kSchedules = {"text", "chain", "sections", "fields"};
  return {std::string(kSchedules[static_cast<size_t>(m.schedule)]), drafter_word(m.drafter), verifier_word(m.verifier),
          width_word(m)};
}

namespace {

struct Word {
  std::string head, rest;
  bool has_rest = false;
};
Word split(std::string_view text) {
  const size_t colon = text.find(':');
  if (colon == std::string_view::npos) return {std::string(text), "", false};
  return {std::string(text.substr(0, colon)), std::string(text.substr(colon + 1)), true};
}

Result<double> number_of(const Word& w, std::string_view flag, double least, double most) {
  double value = 0;
  const char* end = w.rest.data() + w.rest.size();
  const auto [stop, error] = std::from_chars(w.rest.data(), end, value);
  if (!w.has_rest || error != std::errc{} || stop != end || !(value >= least && value <= most))
    return usage_error("{}: expected {}:X with X from {} to {}, got {}{}{}", flag, w.head, least, most, w.head,
                       w.has_rest ? ":" : "", w.rest);
  return value;
}

Result<int32_t> whole_number_of(const Word& w, std::string_view flag, int32_t least, int32_t most) {
  SLIP_TRY(const double value, number_of(w, flag, least, most));
  if (value != std::trunc(value))
    return usage_error("{}: expected {}:N with a whole number N from {} to {}, got {}:{}", flag, w.head, least, most, w.head,
                       w.rest);
  return static_cast<int32_t>(value);
}

Status no_rest(const Word& w, std::string_view flag) {
  if (w.has_rest) return usage_error("{}: expected {} without more, got {}:{}", flag, w.head, w.head, w.rest);
  return {};
}

Status needs_rest(const Word& w, std::string_view flag, std::string_view what) {
  if (w.rest.empty()) return usage_error("{}: expected {}:{}, got no {}", flag, w.head, what, what);
  return {};
}

Result<DrafterSpec> drafter_of(std::string_view text) {
  constexpr std::string_view kFlag = "--drafter";
  const Word w = split(text);
  if (w.head == "diffusion") {
    if (w.has_rest && w.rest != "lora" && w.rest != "ahead")
      return usage_error("--drafter: expected diffusion, diffusion:lora or diffusion:ahead, got {}", text);
    return DrafterSpec(DiffusionSpec{.adapter = w.rest == "lora", .ahead = w.rest == "ahead"});
  }
  if (w.head == "none" || w.head == "quadratic") {
    SLIP_TRY_(no_rest(w, kFlag));
    return w.head == "none" ? DrafterSpec(NoDraftSpec{}) : DrafterSpec(QuadraticSpec{});
  }
  if (w.head == "lookup") {
    if (!w.has_rest) return DrafterSpec(LookupSpec{});
    SLIP_TRY(const int32_t n, whole_number_of(w, kFlag, 1, 64));
    return DrafterSpec(LookupSpec{n});
  }
  if (w.head == "previous") {
    SLIP_TRY_(needs_rest(w, kFlag, "FILE"));
    return DrafterSpec(PreviousSpec{w.rest});
  }
  if (w.head == "model" || w.head == "coupled") {
    SLIP_TRY_(needs_rest(w, kFlag, "DIR"));
    return DrafterSpec(ModelSpec{.name = w.rest, .coupled = w.head == "coupled"});
  }
  if (w.head == "dflash") {
    SLIP_TRY_(needs_rest(w, kFlag, "DIR"));
    return DrafterSpec(DFlashSpec{w.rest});
  }
  return usage_error(
      "--drafter: expected none, diffusion, diffusion:lora, diffusion:ahead, quadratic, model:DIR, coupled:DIR, dflash:DIR, lookup "
      "or "
      "previous:FILE, got {}",
      text);
}

Result<VerifierSpec> verifier_of(std::string_view text) {
  constexpr std::string_view kFlag = "--verifier";
  const Word w = split(text);
  if (w.head == "exact" || w.head == "rejection") {
    SLIP_TRY_(no_rest(w, kFlag));
    return w.head == "exact" ? VerifierSpec(ExactSpec{}) : VerifierSpec(RejectionSpec{});
  }
  if (w.head == "relaxed") {
    constexpr int32_t kMostRadius = 65536;
    RelaxedSpec relaxed{.radius = 0, .first = {}, .end = {}, .radius_of_field = {}};
    if (w.rest.ends_with('u')) {
      SLIP_TRY(relaxed.units, number_of({w.head, w.rest.substr(0, w.rest.size() - 1), w.has_rest}, kFlag, 0, kMostRadius));
    } else {
      SLIP_TRY(relaxed.radius, whole_number_of(w, kFlag, 0, kMostRadius));
    }
    return VerifierSpec(std::move(relaxed));
  }
  if (w.head == "ensemble") {
    SLIP_TRY(const double l, number_of(w, kFlag, 0, 1));
    return VerifierSpec(EnsembleSpec{static_cast<float>(l)});
  }
  if (w.head == "confidence") {
    SLIP_TRY(const double t, number_of({w.head, w.has_rest ? w.rest : "0.9", true}, kFlag, 0, 1));
    return VerifierSpec(ConfidenceSpec{static_cast<float>(t)});
  }
  if (w.head == "sampler") {
    SLIP_TRY_(needs_rest(w, kFlag, "DIR"));
    return VerifierSpec(SamplerSpec{w.rest});
  }
  return usage_error(
      "--verifier: expected exact, rejection, relaxed:R, relaxed:Xu, ensemble:L, confidence:T or sampler:DIR, got {}", text);
}

Result<DraftLengthSpec> width_of(std::string_view text, DraftLengthSpec now) {
  const Word w = split(text);
  if (w.head == "fixed") {
    SLIP_TRY(const int32_t n, whole_number_of(w, "--width", 1, 1024));
    return DraftLengthSpec{DraftLengthSpec::Kind::kFixed, n, {}};
  }
  if (w.head == "blocks") {
    SLIP_TRY_(no_rest(w, "--width"));
    return DraftLengthSpec{DraftLengthSpec::Kind::kBlocks, now.tokens, {}};
  }
  if (w.head == "measured") return DraftLengthSpec{DraftLengthSpec::Kind::kMeasured, now.tokens, w.rest};
  if (w.head == "blockpilot") {
    SLIP_TRY_(needs_rest(w, "--width", "FILE"));
    return DraftLengthSpec{DraftLengthSpec::Kind::kBlockPilot, now.tokens, w.rest};
  }
  return usage_error("--width: expected fixed:N, blocks, measured or blockpilot:FILE, got {}", text);
}

Status check_sense(const Method& m) {
  const MethodWords w = words_of(m);
  const bool none = std::holds_alternative<NoDraftSpec>(m.drafter), diffusion = std::holds_alternative<DiffusionSpec>(m.drafter);
  const bool places = std::holds_alternative<ConfidenceSpec>(m.verifier) || std::holds_alternative<SamplerSpec>(m.verifier);
  if (m.schedule == Schedule::kSections && !(places && diffusion))
    return unsupported(
        "decoder: schedule sections: expected drafter diffusion and verifier confidence:T or sampler:DIR, got {} and {}", w.drafter,
        w.verifier);
  if (m.schedule != Schedule::kSections && places)
    return unsupported("decoder: verifier {}: expected schedule sections, got {}", w.verifier, w.schedule);
  if (none && !std::holds_alternative<ExactSpec>(m.verifier))
    return unsupported("decoder: verifier {}: expected a drafter, got none", w.verifier);
  if (std::holds_alternative<EnsembleSpec>(m.verifier) && !std::holds_alternative<QuadraticSpec>(m.drafter))
    return unsupported(
        "decoder: verifier {}: expected drafter quadratic, whose masks see no draft but their own row's head, got {}", w.verifier,
        w.drafter);
  if (m.width.kind == DraftLengthSpec::Kind::kBlocks && (m.schedule == Schedule::kText || m.schedule == Schedule::kFields))
    return unsupported("decoder: width blocks: expected schedule chain or sections, got {}", w.schedule);
  return {};
}

}  // namespace

namespace {

/// Along a graph the measured width is made for masks that travel with the verifying passes: fewer passes and fewer rows than draft
/// passes (docs/lab/0011-decoders.md). Who names diffusion gets draft passes.
void draft_ahead(Method& m, std::string_view asked) {
  auto* previous = std::get_if<PreviousSpec>(&m.drafter);
  auto* own = previous && previous->then ? &*previous->then : asked.empty() ? std::get_if<DiffusionSpec>(&m.drafter) : nullptr;
  if (own && !own->adapter) own->ahead = true;
}

}  // namespace

Result<Method> with_parts(Method m, std::string_view schedule, std::string_view drafter, std::string_view verifier,
                          std::string_view width) {
  const Schedule before = m.schedule;
  if (!schedule.empty()) {
    if (schedule != "text" && schedule != "chain" && schedule != "sections" && schedule != "fields")
      return usage_error("--schedule: expected text, chain, sections or fields, got {}", schedule);
    m.schedule = schedule == "text"       ? Schedule::kText
                 : schedule == "chain"    ? Schedule::kChain
                 : schedule == "sections" ? Schedule::kSections
                                          : Schedule::kFields;
  }
  if (!drafter.empty()) {
    const auto own = m.drafter;
    SLIP_TRY(m.drafter, drafter_of(drafter));
    if (auto* previous = std::get_if<PreviousSpec>(&m.drafter))
      if (const auto* diffusion = std::get_if<DiffusionSpec>(&own)) previous->then = *diffusion;
  }
  if (!verifier.empty()) {
    SLIP_TRY(m.verifier, verifier_of(verifier));
  }
  if (!width.empty()) {
    SLIP_TRY(m.width, width_of(width, m.width));
    if (std::holds_alternative<NoDraftSpec>(m.drafter))
      return unsupported("decoder: width {}: expected a drafter, got none: one token a pass", width);
    if (m.schedule == Schedule::kSections && m.width.kind != DraftLengthSpec::Kind::kBlocks)
      return unsupported("decoder: schedule sections: expected width blocks, got {}", width);
  } else if (m.width.kind == DraftLengthSpec::Kind::kBlocks && before != m.schedule && m.schedule != Schedule::kSections &&
             m.schedule != Schedule::kChain) {
    m.width = {DraftLengthSpec::Kind::kFixed, 16, {}};
  }
  if (m.schedule == Schedule::kFields && m.width.kind == DraftLengthSpec::Kind::kMeasured) draft_ahead(m, drafter);
  SLIP_TRY_(check_sense(m));
  return m;
}

}  // namespace slip
