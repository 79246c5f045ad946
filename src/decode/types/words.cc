// SPDX-License-Identifier: Apache-2.0
#include "decode/types/words.h"

#include <fmt/ranges.h>
#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <optional>
#include <span>

#include "base/check.h"
#include "decode/types/presets.h"

namespace slip {
namespace {

/// A text at its first colon.
struct Word {
  std::string_view head, rest;
  bool has_rest = false;
};
Word split(std::string_view text) {
  const size_t colon = text.find(':');
  if (colon == std::string_view::npos) return {text, "", false};
  return {text.substr(0, colon), text.substr(colon + 1), true};
}

/// A row of a table. `plain`: the word alone. `read`: with what stands behind it; null where nothing may. `written`: the text of a value
/// of this row, which begins with `head`; nothing for a value of another row.
template <class Spec>
struct Row {
  std::string_view usage, help;
  Spec (*plain)();
  Result<Spec> (*read)(const Word& word);
  std::optional<std::string> (*written)(const Spec& spec, std::string_view head);
  std::string_view head() const { return usage.substr(0, usage.find_first_of(":[")); }
};

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

/// A folder or file that must be named.
Result<std::string> name_of(const Word& w, std::string_view flag, std::string_view what) {
  if (w.rest.empty()) return usage_error("{}: expected {}:{}, got no {}", flag, w.head, what, what);
  return std::string(w.rest);
}

std::string joined(std::string_view head, std::string_view rest) {
  return rest.empty() ? std::string(head) : fmt::format("{}:{}", head, rest);
}

template <class T, class Spec>
std::optional<std::string> write_head(const Spec& spec, std::string_view head) {
  return std::holds_alternative<T>(spec) ? std::optional(std::string(head)) : std::nullopt;
}
template <class T, class Spec>
std::optional<std::string> write_name(const Spec& spec, std::string_view head) {
  const auto* x = std::get_if<T>(&spec);
  return x ? std::optional(joined(head, x->name)) : std::nullopt;
}

// ---- schedules

constexpr Row<Schedule> kSchedules[] = {
    {"text", "free text; a form is read or forced", [] { return Schedule::kText; }, nullptr, nullptr},
    {"chain", "a form from its beginning to its end", [] { return Schedule::kChain; }, nullptr, nullptr},
    {"sections", "a form's blocks, places in any order", [] { return Schedule::kSections; }, nullptr, nullptr},
    {"fields", "a form's fields along their graph", [] { return Schedule::kFields; }, nullptr, nullptr},
};

// ---- drafters

std::string diffusion_word(const DiffusionSpec& d) {
  return d.ahead ? "diffusion:ahead" : d.adapter ? "diffusion:lora" : "diffusion";
}

Result<DrafterSpec> read_diffusion(const Word& w) {
  if (w.has_rest && w.rest != "lora" && w.rest != "ahead")
    return usage_error("--drafter: expected diffusion, diffusion:lora or diffusion:ahead, got {}:{}", w.head, w.rest);
  return DrafterSpec(DiffusionSpec{.adapter = w.rest == "lora", .ahead = w.rest == "ahead"});
}
std::optional<std::string> write_diffusion(const DrafterSpec& spec, std::string_view) {
  const auto* d = std::get_if<DiffusionSpec>(&spec);
  return d ? std::optional(diffusion_word(*d)) : std::nullopt;
}

Result<DrafterSpec> read_lookup(const Word& w) {
  if (!w.has_rest) return DrafterSpec(LookupSpec{});
  SLIP_TRY(const int32_t n, whole_number_of(w, "--drafter", 1, 64));
  return DrafterSpec(LookupSpec{n});
}

Result<DrafterSpec> read_previous(const Word& w) {
  SLIP_TRY(std::string name, name_of(w, "--drafter", "FILE"));
  return DrafterSpec(PreviousSpec{std::move(name), {}});
}
std::optional<std::string> write_previous(const DrafterSpec& spec, std::string_view head) {
  const auto* p = std::get_if<PreviousSpec>(&spec);
  if (!p) return std::nullopt;
  return joined(head, p->name) + (p->then ? ", then " + diffusion_word(*p->then) : "");
}

template <bool kCoupled>
Result<DrafterSpec> read_model(const Word& w) {
  SLIP_TRY(std::string name, name_of(w, "--drafter", "DIR"));
  return DrafterSpec(ModelSpec{.name = std::move(name), .coupled = kCoupled});
}
template <bool kCoupled>
std::optional<std::string> write_model(const DrafterSpec& spec, std::string_view head) {
  const auto* m = std::get_if<ModelSpec>(&spec);
  return m && m->coupled == kCoupled ? std::optional(joined(head, m->name)) : std::nullopt;
}

Result<DrafterSpec> read_dflash(const Word& w) {
  if (!w.has_rest) return DrafterSpec(DFlashSpec{});
  SLIP_TRY(std::string name, name_of(w, "--drafter", "DIR"));
  return DrafterSpec(DFlashSpec{std::move(name)});
}

constexpr Row<DrafterSpec> kDrafters[] = {
    {"none", "no drafts: one token a pass", [] { return DrafterSpec(NoDraftSpec{}); }, nullptr, write_head<NoDraftSpec>},
    {"diffusion[:lora|:ahead]", "the model fills masks; with its draft adapter; in the verifying passes themselves",
     [] { return DrafterSpec(DiffusionSpec{}); }, read_diffusion, write_diffusion},
    {"quadratic", "masks behind every draft of the verifying pass", [] { return DrafterSpec(QuadraticSpec{}); }, nullptr,
     write_head<QuadraticSpec>},
    {"lookup[:N]", "what followed the last tokens, at most N, where they occurred before", [] { return DrafterSpec(LookupSpec{}); },
     read_lookup, write_head<LookupSpec>},
    {"previous:FILE", "an earlier answer", [] { return DrafterSpec(PreviousSpec{}); }, read_previous, write_previous},
    {"model:DIR", "another model's likeliest tokens", [] { return DrafterSpec(ModelSpec{}); }, read_model<false>,
     write_model<false>},
    {"coupled:DIR", "another model that draws with the verifier's uniforms",
     [] { return DrafterSpec(ModelSpec{.name = "", .coupled = true}); }, read_model<true>, write_model<true>},
    {"dflash[:DIR]", "a head on the model's hidden states; without DIR the model's own", [] { return DrafterSpec(DFlashSpec{}); },
     read_dflash, write_name<DFlashSpec>},
};

// ---- verifiers

Result<VerifierSpec> read_relaxed(const Word& w) {
  constexpr int32_t kMostRadius = 65536;
  RelaxedSpec relaxed{.radius = 0, .first = {}, .end = {}, .radius_of_field = {}};
  if (w.rest.ends_with('u')) {
    SLIP_TRY(relaxed.units, number_of({w.head, w.rest.substr(0, w.rest.size() - 1), w.has_rest}, "--verifier", 0, kMostRadius));
  } else {
    SLIP_TRY(relaxed.radius, whole_number_of(w, "--verifier", 0, kMostRadius));
  }
  return VerifierSpec(std::move(relaxed));
}
std::optional<std::string> write_relaxed(const VerifierSpec& spec, std::string_view head) {
  const auto* r = std::get_if<RelaxedSpec>(&spec);
  if (!r) return std::nullopt;
  return r->units ? fmt::format("{}:{}u", head, *r->units) : fmt::format("{}:{}", head, r->radius);
}

Result<VerifierSpec> read_ensemble(const Word& w) {
  SLIP_TRY(const double weight, number_of(w, "--verifier", 0, 1));
  return VerifierSpec(EnsembleSpec{static_cast<float>(weight)});
}
std::optional<std::string> write_ensemble(const VerifierSpec& spec, std::string_view head) {
  const auto* e = std::get_if<EnsembleSpec>(&spec);
  return e ? std::optional(fmt::format("{}:{}", head, e->weight)) : std::nullopt;
}

Result<VerifierSpec> read_confidence(const Word& w) {
  SLIP_TRY(const double threshold, number_of({w.head, w.has_rest ? w.rest : "0.9", true}, "--verifier", 0, 1));
  return VerifierSpec(ConfidenceSpec{static_cast<float>(threshold)});
}
std::optional<std::string> write_confidence(const VerifierSpec& spec, std::string_view head) {
  const auto* c = std::get_if<ConfidenceSpec>(&spec);
  return c ? std::optional(fmt::format("{}:{}", head, c->threshold)) : std::nullopt;
}

Result<VerifierSpec> read_sampler(const Word& w) {
  SLIP_TRY(std::string name, name_of(w, "--verifier", "DIR"));
  return VerifierSpec(SamplerSpec{std::move(name), {}});
}

constexpr Row<VerifierSpec> kVerifiers[] = {
    {"exact", "the target's token, and no other", [] { return VerifierSpec(ExactSpec{}); }, nullptr, write_head<ExactSpec>},
    {"rejection", "speculative sampling: the same distribution, other tokens", [] { return VerifierSpec(RejectionSpec{}); },
     nullptr, write_head<RejectionSpec>},
    {"relaxed:R|Xu", "lossy: keeps drafts that are R bins, or X physical units, from the target's token",
     [] { return VerifierSpec(RelaxedSpec{}); }, read_relaxed, write_relaxed},
    {"ensemble:L", "lossy: what the model says causally with weight L, and by diffusion with the rest",
     [] { return VerifierSpec(EnsembleSpec{}); }, read_ensemble, write_ensemble},
    {"confidence[:T]", "lossy: commits places above this probability", [] { return VerifierSpec(ConfidenceSpec{}); },
     read_confidence, write_confidence},
    {"sampler:DIR", "lossy: a small network says which places are right", [] { return VerifierSpec(SamplerSpec{}); }, read_sampler,
     write_name<SamplerSpec>},
};

// ---- draft lengths

using Kind = DraftLengthSpec::Kind;

Result<DraftLengthSpec> read_fixed(const Word& w) {
  SLIP_TRY(const int32_t n, whole_number_of(w, "--width", 1, 1024));
  return DraftLengthSpec{Kind::kFixed, n, {}};
}
std::optional<std::string> write_fixed(const DraftLengthSpec& w, std::string_view head) {
  return w.kind == Kind::kFixed ? std::optional(fmt::format("{}:{}", head, w.tokens)) : std::nullopt;
}
template <Kind kKind>
std::optional<std::string> write_kind(const DraftLengthSpec& w, std::string_view head) {
  return w.kind == kKind ? std::optional(std::string(head)) : std::nullopt;
}
Result<DraftLengthSpec> read_measured(const Word& w) {
  return DraftLengthSpec{.kind = Kind::kMeasured, .name = std::string(w.rest)};
}
Result<DraftLengthSpec> read_block_pilot(const Word& w) {
  SLIP_TRY(std::string name, name_of(w, "--width", "FILE"));
  return DraftLengthSpec{.kind = Kind::kBlockPilot, .name = std::move(name)};
}
std::optional<std::string> write_block_pilot(const DraftLengthSpec& w, std::string_view head) {
  return w.kind == Kind::kBlockPilot ? std::optional(joined(head, w.name)) : std::nullopt;
}

constexpr Row<DraftLengthSpec> kDraftLengths[] = {
    {"fixed:N", "N tokens a round", [] { return DraftLengthSpec{}; }, read_fixed, write_fixed},
    {"blocks", "the form's blocks", [] { return DraftLengthSpec{.kind = Kind::kBlocks, .name = {}}; }, nullptr,
     write_kind<Kind::kBlocks>},
    {"measured[:FILE]", "by what passes cost here and how often drafts hold",
     [] { return DraftLengthSpec{.kind = Kind::kMeasured, .name = {}}; }, read_measured, write_kind<Kind::kMeasured>},
    {"blockpilot:FILE", "by a classifier, once per request", [] { return DraftLengthSpec{.kind = Kind::kBlockPilot, .name = {}}; },
     read_block_pilot, write_block_pilot},
};

// ---- any of them

template <class Spec>
std::vector<PartWord> words_in(std::span<const Row<Spec>> rows) {
  std::vector<PartWord> out;
  for (const Row<Spec>& row : rows) out.push_back({row.usage, row.help});
  return out;
}

/// "a, b or c" of "a, b, c".
std::string or_in_place_of_the_last_comma(std::string words) {
  if (const size_t comma = words.rfind(", "); comma != std::string::npos) words.replace(comma, 2, " or ");
  return words;
}

template <class Spec>
Result<Spec> read(std::span<const Row<Spec>> rows, std::string_view flag, Part part, std::string_view text) {
  const Word w = split(text);
  const auto row = std::find_if(rows.begin(), rows.end(), [&](const Row<Spec>& r) { return r.head() == w.head; });
  if (row == rows.end()) return usage_error("{}: expected {}, got {}", flag, or_in_place_of_the_last_comma(part_usage(part)), text);
  if (row->read) return row->read(w);
  if (w.has_rest) return usage_error("{}: expected {} without more, got {}", flag, w.head, text);
  return row->plain();
}

template <class Spec>
Spec named(std::span<const Row<Spec>> rows, std::string_view word) {
  const auto row = std::find_if(rows.begin(), rows.end(), [&](const Row<Spec>& r) { return r.head() == word; });
  SLIP_CHECK(row != rows.end(), "presets are spelled in words of the tables");
  return row->plain();
}

template <class Spec>
std::string written(std::span<const Row<Spec>> rows, const Spec& spec) {
  for (const Row<Spec>& row : rows)
    if (const auto text = row.written(spec, row.head())) return *text;
  SLIP_CHECK(false, "every value is some row's");
  return {};
}

}  // namespace

std::vector<PartWord> part_words(Part part) {
  switch (part) {
    case Part::kSchedule:
      return words_in<Schedule>(kSchedules);
    case Part::kDrafter:
      return words_in<DrafterSpec>(kDrafters);
    case Part::kVerifier:
      return words_in<VerifierSpec>(kVerifiers);
    case Part::kDraftLength:
      break;
  }
  return words_in<DraftLengthSpec>(kDraftLengths);
}

std::string part_usage(Part part) {
  std::vector<std::string_view> usages;
  for (const PartWord& w : part_words(part)) usages.push_back(w.usage);
  return fmt::format("{}", fmt::join(usages, ", "));
}

std::string preset_usage() {
  std::vector<std::string_view> names{kAutomatic};
  for (const Preset& p : kPresets) names.push_back(p.name);
  return fmt::format("{}", fmt::join(names, ", "));
}

std::vector<std::string> presets_of_model_alone(std::optional<Visibility> visibility) {
  const std::string_view schedule = visibility == Visibility::kGraph ? "fields" : "chain";
  std::vector<std::string> names{std::string(kAutomatic)};
  for (const Preset& p : kPresets) {
    const bool alone = p.drafter == "none" || p.drafter == "diffusion";
    if (!p.lossy && alone && (!visibility || p.name == "ar" || p.schedule == schedule)) names.emplace_back(p.name);
  }
  return names;
}

Result<Schedule> read_schedule(std::string_view text) { return read<Schedule>(kSchedules, "--schedule", Part::kSchedule, text); }
Result<DrafterSpec> read_drafter(std::string_view text) { return read<DrafterSpec>(kDrafters, "--drafter", Part::kDrafter, text); }
Result<VerifierSpec> read_verifier(std::string_view text) {
  return read<VerifierSpec>(kVerifiers, "--verifier", Part::kVerifier, text);
}
Result<DraftLengthSpec> read_draft_length(std::string_view text) {
  return read<DraftLengthSpec>(kDraftLengths, "--width", Part::kDraftLength, text);
}

DrafterSpec drafter_named(std::string_view word) { return named<DrafterSpec>(kDrafters, word); }
VerifierSpec verifier_named(std::string_view word) { return named<VerifierSpec>(kVerifiers, word); }

std::string_view word_of(Schedule schedule) {
  return std::find_if(std::begin(kSchedules), std::end(kSchedules), [&](const auto& r) { return r.plain() == schedule; })->usage;
}
std::string word_of(const DrafterSpec& drafter) { return written<DrafterSpec>(kDrafters, drafter); }
std::string word_of(const VerifierSpec& verifier) { return written<VerifierSpec>(kVerifiers, verifier); }
std::string word_of(const DraftLengthSpec& draft_length) { return written<DraftLengthSpec>(kDraftLengths, draft_length); }

}  // namespace slip
