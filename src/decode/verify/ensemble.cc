// SPDX-License-Identifier: Apache-2.0
// Ensemble of a model's two readings [Nemotron-Labs-Diffusion; docs/notes/speculation.md#ensemble]: every head's next token has a causal law,
// p_ar, and, from mask 1 of the head's group, a diffusion law, p_diffusion. The law is (1 - w) p_diffusion + w p_ar. As the masks of
// a group see no draft but their own head and what is before it, this is a proper law of the next token for a fixed number of masks;
// it is not p_ar: lossy.
//
// Differs from the published code, which adds logits: the paper mixes probabilities. Where a place has no group (the first token behind
// a prompt that ran without masks) the law is p_ar alone.
// Tests: Ensemble.*
#include "base/check.h"
#include "decode/verify/verifier.h"

namespace slip {
namespace {

class EnsembleVerifier : public Verifier {
 public:
  EnsembleVerifier(const EnsembleSpec& verifier, Passes& passes)
      : weight_(verifier.weight), chooser_(passes.chooser()), out_(passes.output()) {}
  Want want(const Strand&, const Place&) const override { return Want::kLogits; }
  bool wants_group_rows() const override { return true; }

  Verification check(size_t row, const Strand& s, const DraftToken& draft, std::span<const TokenId> history) override {
    const TokenId target = pick(row, draft.group_row, s.request, draft.place, history);
    return {.token = target, .kept = target == draft.token};
  }

  TokenId draw(size_t row, const Strand& s, const Place& place, std::span<const TokenId> history, bool) override {
    return pick(row, group_row_at(s, place), s.request, place, history);
  }

 private:
  /// The trace asks for draws' own picks, too.
  static std::optional<size_t> group_row_at(const Strand& s, const Place& place) {
    for (const DraftToken& d : s.round.drafts)
      if (d.place.field == place.field && d.place.index == place.index) return d.group_row;
    return s.round.next ? s.round.next->group_row : std::nullopt;
  }

  TokenId pick(size_t row, std::optional<size_t> group_row, uint32_t request, const Place& place,
               std::span<const TokenId> history) {
    if (!group_row) return chooser_.pick_at(row, request, place, history);
    SLIP_CHECK(out_.logits_row[*group_row] >= 0, "a drafter asks for logits of group rows (DraftNeeds)");
    const Sampling settings = chooser_.sampling_at(place);
    mixture(out_.logits_V(*group_row), out_.logits_V(row), weight_, chooser_.allowed_at(place), settings, history, scratch_, law_);
    return drawn(law_, settings.temperature == 0 ? 0 : chooser_.uniform(request, place, Purpose::kToken));
  }

  double weight_;
  Chooser& chooser_;
  const PassOutput& out_;
  ChoiceBuffers scratch_, law_;
};

}  // namespace

std::unique_ptr<Verifier> make_ensemble_verifier(const EnsembleSpec& verifier, Passes& passes) {
  return std::make_unique<EnsembleVerifier>(verifier, passes);
}

}  // namespace slip
