// SPDX-License-Identifier: Apache-2.0
// The judges that know one law and compare: exact, and relaxed [SpecVLA; OpenVLA's bins], which lets a draft stand beside it.
// Contract in judge.h. Tests: judge_test.cc, tests/decode/verifiers_test.cc.
#include "decode/verify/verifier.h"

#include <cstdlib>

namespace slip {
namespace {

class ExactJudge : public Judge {
 public:
  explicit ExactJudge(Passes& passes) : passes_(passes) {}
  Want want(const Strand&, const Place& place) const override { return passes_.want_at(place); }
  Verdict check(size_t row, const Strand& s, const Draw& draw, std::span<const TokenId> history) override {
    const TokenId law = passes_.pick_at(row, s.request, draw.place, history);
    return {.token = law, .kept = law == draw.token};
  }
  TokenId draw(size_t row, const Strand& s, const Place& place, std::span<const TokenId> history, bool) override {
    return passes_.pick_at(row, s.request, place, history);
  }

 private:
  Passes& passes_;
};

/// Lossy: errors do not add up within an action (each place is compared with the law given what was emitted before it), but
/// between steps of a closed loop they can. A radius of 9 of 256 bins over [-1, 1] lets a number move by 0.07.
class RelaxedJudge : public ExactJudge {
 public:
  RelaxedJudge(RelaxedVerifier relaxed, Passes& passes) : ExactJudge(passes), relaxed_(std::move(relaxed)) {}
  Verdict check(size_t row, const Strand& s, const Draw& draw, std::span<const TokenId> history) override {
    Verdict v = ExactJudge::check(row, s, draw, history);
    if (!v.kept && within_radius(relaxed_, draw.place.field, draw.place.index, draw.token, v.token))
      v = {.token = draw.token, .kept = true, .relaxed = true};
    return v;
  }

 private:
  RelaxedVerifier relaxed_;
};

}  // namespace

int32_t RelaxedVerifier::radius_at(int32_t field, int32_t index) const {
  const auto f = static_cast<size_t>(field), i = static_cast<size_t>(index);
  if (field >= 0 && f < radius_of_number.size() && i < radius_of_number[f].size()) return radius_of_number[f][i];
  return field >= 0 && f < radius_of_field.size() ? radius_of_field[f] : radius;
}

bool within_radius(const RelaxedVerifier& r, int32_t field, int32_t index, TokenId draft, TokenId law) {
  if (draft == law) return true;
  const auto is_bin = [&](TokenId id) { return id >= r.first && id < r.end; };
  return is_bin(draft) && is_bin(law) && std::abs(draft.value - law.value) <= r.radius_at(field, index);
}

Result<std::unique_ptr<Judge>> make_judge(const Method& method, const LmInfo&, Passes& passes, Drafting&) {
  passes.want_group_rows(std::holds_alternative<EnsembleVerifier>(method.verifier));
  if (std::holds_alternative<ExactVerifier>(method.verifier)) return std::unique_ptr<Judge>(std::make_unique<ExactJudge>(passes));
  if (std::holds_alternative<RejectionVerifier>(method.verifier)) return make_rejection_judge(passes);
  if (const auto* v = std::get_if<EnsembleVerifier>(&method.verifier)) return make_ensemble_judge(*v, passes);
  if (const auto* v = std::get_if<RelaxedVerifier>(&method.verifier)) {
    if (v->end <= v->first) return usage_error("--verifier relaxed: expected a range of bins, got none");
    return std::unique_ptr<Judge>(std::make_unique<RelaxedJudge>(*v, passes));
  }
  return unsupported("decode: expected a verifier of drafts for {}, got {}", method.preset, words_of(method).verifier);
}

}  // namespace slip
