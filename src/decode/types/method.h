// SPDX-License-Identifier: Apache-2.0
// A method: the choice of a decoder's four parts (docs/design.md). A schedule says which positions may be worked on, a drafter
// proposes tokens there, a verifier says what is committed, a draft length says how many tokens a round looks at. Presets (presets.h) name
// common choices; with_parts puts any other together from words (words.h).
#pragma once
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "base/ids.h"
#include "base/result.h"
#include "lm/visibility.h"

namespace slip {

/// Which positions may be worked on now.
enum class Schedule : uint8_t { kText, kChain, kSections, kFields };

struct NoDraftSpec {};
/// The model itself, masks in a block; with `adapter` its low-rank draft adapter is on in draft passes. `ahead`, along a graph: no
/// draft passes, masks travel behind the verifying passes' last rows (draft/ahead.cc).
struct DiffusionSpec {
  bool adapter = false;
  bool ahead = false;
};
/// k rows of one head and k masks in every pass; draft length: k.
struct QuadraticSpec {};
/// The longest run of last tokens, at most `longest`, that occurred before in prompt or answer: what followed it then.
struct LookupSpec {
  int32_t longest = 4;
};
/// What an earlier answer said at the same place of the same field (DecodeContext::previous).
struct PreviousSpec {
  std::string name;                   // file, for words
  std::optional<DiffusionSpec> then;  // drafts the rest of a field in which the earlier answer has missed
};
/// Another, smaller model (DecodeContext::draft_model).
struct ModelSpec {
  std::string name;      // folder, for words
  bool coupled = false;  // draws with the verifier's own uniforms in place of the argmax
};
/// A head on tapped hidden states (DecodeContext::draft_head).
struct DFlashSpec {
  std::string name;
};
using DrafterSpec = std::variant<NoDraftSpec, DiffusionSpec, QuadraticSpec, LookupSpec, PreviousSpec, ModelSpec, DFlashSpec>;

struct ExactSpec {};  // the target's token
/// Speculative sampling with residuals: the same distribution, not the same tokens. Drafts are drawn from the drafter's distribution.
struct RejectionSpec {};
/// Lossy: a draft within `radius` bins of the target's token is kept, where both are ids in [first, end).
struct RelaxedSpec {
  int32_t radius = 0;
  TokenId first{}, end{};
  std::vector<int32_t> radius_of_field;  // in bins; where empty `radius` holds for all
  /// Asked for in physical units (relaxed:Xu) in place of `radius`: each number of a field gets the bins that are no further.
  std::optional<double> units = {};
  /// By field and number in it, where whoever knows the form has filled them: the radius, and what a bin is in physical units.
  std::vector<std::vector<int32_t>> radius_of_number = {};
  std::vector<std::vector<double>> unit_of_number = {};

  int32_t radius_at(std::optional<int32_t> field, int32_t index) const;
};
/// Lossy: tokens are drawn from (1 - weight) p_diffusion + weight p_ar [Nemotron-Labs-Diffusion].
struct EnsembleSpec {
  float weight = 0.5F;
};
struct ConfidenceSpec {
  float threshold = 0.9F;
};
/// Lossy: a small network says which places of a block are right (DecodeContext::commit_sampler).
struct SamplerSpec {
  std::string name;
  std::optional<float> threshold = {};  // empty: what the sampler's folder advises
};
using VerifierSpec = std::variant<ExactSpec, RejectionSpec, RelaxedSpec, EnsembleSpec, ConfidenceSpec, SamplerSpec>;

/// How many tokens a round looks at. kFixed: `tokens`, anchor included where the drafter is diffusion (a block of that many rows),
/// drafts otherwise; k for quadratic. kBlocks: the form's blocks. kMeasured: from costs and calibrated survival (draft_length/model.h).
/// kBlockPilot: chosen once per request by a classifier.
struct DraftLengthSpec {
  enum class Kind : uint8_t { kFixed, kBlocks, kMeasured, kBlockPilot };
  Kind kind = Kind::kFixed;
  int32_t tokens = 8;
  std::string name;  // file of a classifier or table
};

struct Method {
  std::string preset;
  /// The quickest exact one is yet to be chosen, by whoever has the request (forecast/automatic.h); a drafter named is what it may use.
  bool automatic = false;
  Schedule schedule = Schedule::kText;
  DrafterSpec drafter;
  VerifierSpec verifier;
  DraftLengthSpec draft_length;
  bool drafts() const { return !std::holds_alternative<NoDraftSpec>(drafter); }
  /// The model itself as the drafter, alone or behind an earlier answer; null: another one, or none.
  const DiffusionSpec* diffusion() const;
  /// Gives the tokens that the model draws one at a time.
  bool exact() const { return std::holds_alternative<ExactSpec>(verifier); }
  /// May give others than the model's law does. Rejection is neither: the law is the model's, the tokens are others.
  bool lossy() const { return !exact() && !std::holds_alternative<RejectionSpec>(verifier); }
};

/// Free text by block diffusion: no token is verified, and the rows of a block are not causal.
bool diffuses_text(const Method& method);
/// kUsage with the list of presets for an unknown name.
Result<Method> method_of(std::string_view preset);
/// "chain", "diffusion", "exact", "blocks": the words of a result's `decoder` object.
struct MethodWords {
  std::string schedule, drafter, verifier, draft_length;
};
MethodWords words_of(const Method& method);

/// Replaces parts of a preset; an empty word leaves the preset's. kUsage for a word that is none, kUnsupported with the reason for a
/// combination that makes no sense (sections without diffusion and a lossy verifier, rejection without drafts, ...).
Result<Method> with_parts(Method method, std::string_view schedule, std::string_view drafter, std::string_view verifier,
                          std::string_view draft_length);

}  // namespace slip
