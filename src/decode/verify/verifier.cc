// SPDX-License-Identifier: Apache-2.0
// The verifiers that compare with the target's token: exact, and relaxed [SpecVLA; OpenVLA's bins], which lets a draft stand beside it.
// Contract in verifier.h. Tests: verifier_test.cc, tests/decode/verifiers_test.cc.
#include "decode/verify/verifier.h"

#include <cstdlib>

namespace slip {
namespace {

class ExactVerifier : public Verifier {
 public:
  explicit ExactVerifier(Passes& passes) : chooser_(passes.chooser()) {}
  Want want(const Strand&, const Place& place) const override { return chooser_.want_at(place); }
  Verification check(size_t row, const Strand& s, const DraftToken& draft, std::span<const TokenId> history) override {
    const TokenId target = chooser_.pick_at(row, s.request, draft.place, history);
    return {.token = target, .kept = target == draft.token};
  }
  TokenId draw(size_t row, const Strand& s, const Place& place, std::span<const TokenId> history, bool) override {
    return chooser_.pick_at(row, s.request, place, history);
  }

 private:
  Chooser& chooser_;
};

/// Lossy: errors do not add up within an action (each place is compared with the target's token behind what was emitted before it), but
/// between steps of a closed loop they can. A radius of 9 of 256 bins over [-1, 1] lets a number move by 0.07.
class RelaxedVerifier : public ExactVerifier {
 public:
  RelaxedVerifier(RelaxedSpec relaxed, Passes& passes) : ExactVerifier(passes), relaxed_(std::move(relaxed)) {}
  Verification check(size_t row, const Strand& s, const DraftToken& draft, std::span<const TokenId> history) override {
    Verification v = ExactVerifier::check(row, s, draft, history);
    if (!v.kept && within_radius(relaxed_, draft.place, draft.token, v.token))
      v = {.token = draft.token, .kept = true, .relaxed = true};
    return v;
  }

 private:
  RelaxedSpec relaxed_;
};

}  // namespace

bool within_radius(const RelaxedSpec& r, const Place& place, TokenId draft, TokenId target) {
  if (draft == target) return true;
  const auto is_bin = [&](TokenId id) { return id >= r.first && id < r.end; };
  return is_bin(draft) && is_bin(target) && std::abs(draft.value - target.value) <= r.radius_at(place.field, place.index);
}

Result<std::unique_ptr<Verifier>> make_verifier(const Method& method, Passes& passes) {
  if (std::holds_alternative<ExactSpec>(method.verifier)) return std::unique_ptr<Verifier>(std::make_unique<ExactVerifier>(passes));
  if (std::holds_alternative<RejectionSpec>(method.verifier)) return make_rejection_verifier(passes);
  if (const auto* v = std::get_if<EnsembleSpec>(&method.verifier)) return make_ensemble_verifier(*v, passes);
  if (const auto* v = std::get_if<RelaxedSpec>(&method.verifier)) {
    if (v->end <= v->first) return usage_error("--verifier relaxed: expected a range of bins, got none");
    return std::unique_ptr<Verifier>(std::make_unique<RelaxedVerifier>(*v, passes));
  }
  return unsupported("decode: expected a verifier of drafts for {}, got {}", method.preset, words_of(method).verifier);
}

}  // namespace slip
