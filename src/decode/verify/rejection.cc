// SPDX-License-Identifier: Apache-2.0
// Speculative sampling with residuals [Leviathan 2211.17192; Chen 2302.01318]: the target's law, though not the tokens of plain sampling.
//
//   p  the target's distribution under its settings    q  the drafter's, under the same ones    x ~ q  the draft
// Keep x with probability min(1, p(x)/q(x)); replace the first one refused by a draw from max(p - q, 0), normalised; where all were
// kept one more token comes from p. One place: min(p, q) + (p - q)+ = p; several by induction, as p of a place is only used
// when everything before it was emitted.
//
// Obligations (docs/notes/speculation.md#rejection-sampling) and where each is met: q is the distribution that was drawn from, and
// nothing else is stored
// (1: Chooser::propose_from); p has the settings of plain sampling, drafts counted in the history (2: Rounds gives it); one uniform
// per place and purpose, and each place is tested once (3: keys); residual and ratio from the same p and q, p where p - q underflows
// (4: residual); the extra token only behind kept drafts, from the row behind them (5: Rounds::commit); keys of refused rows are
// overwritten, as a strand's next rows take their slots (6); ends and limits act on committed tokens (7: schedules); one draft per
// place, no trees (8); draft lengths see no ids (9: draft_length/policy.h); an id that the drafter's vocabulary lacks has q = 0 (10: drafters).
// A uniform drawn for a draft that was never tested may be used again: no decision depended on it.
// Tests: Rejection.* and its mutants in rejection_test.cc, Residuals.*.
#include "decode/verify/verifier.h"

namespace slip {
namespace {

class RejectionVerifier : public Verifier {
 public:
  explicit RejectionVerifier(Passes& passes) : chooser_(passes.chooser()), out_(passes.output()) {
    residual_.ids.reserve(static_cast<size_t>(passes.request().vocab()));  // the first refusal may come late
    residual_.weights.reserve(static_cast<size_t>(passes.request().vocab()));
  }
  Want want(const Strand&, const Place& place) const override {
    return chooser_.temperature_at(place) == 0 ? chooser_.want_at(place) : Want::kLogits;  // p whole, also where a draw needs less
  }
  bool samples_drafts() const override { return true; }

  Verification check(size_t row, const Strand& s, const DraftToken& draft, std::span<const TokenId> history) override {
    const Sampling settings = chooser_.sampling_at(draft.place);
    if (settings.temperature == 0) {  // p has one token: keeping with p(x)/q(x) is comparing with it
      const TokenId target = chooser_.pick_at(row, s.request, draft.place, history);
      return {.token = target, .kept = target == draft.token};
    }
    distribution(out_.logits_V(row), chooser_.allowed_at(draft.place), settings, history, p_);
    const Distribution q = draft.q ? chooser_.distributions().of(*draft.q) : Distribution{};
    if (chooser_.uniform(s.request, draft.place, Purpose::kAccept) < acceptance(p_, q, draft.token))
      return {.token = draft.token, .kept = true};
    residual(p_, q, draft.token, residual_);
    return {.token = drawn(residual_, chooser_.uniform(s.request, draft.place, Purpose::kResidual))};
  }

  TokenId draw(size_t row, const Strand& s, const Place& place, std::span<const TokenId> history, bool) override {
    return chooser_.pick_at(row, s.request, place, history);
  }

 private:
  Chooser& chooser_;
  const PassOutput& out_;
  ChoiceBuffers p_, residual_;
};

}  // namespace

std::unique_ptr<Verifier> make_rejection_verifier(Passes& passes) { return std::make_unique<RejectionVerifier>(passes); }

}  // namespace slip
