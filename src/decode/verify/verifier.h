// SPDX-License-Identifier: Apache-2.0
// A verifier says what is committed at a place. The exact one keeps a draft exactly when it is the target's token, which the target's
// distribution and the place's uniform give, so that the answer does not depend on drafts, their number or schedules. Verifiers read the last
// pass's rows. p: the target's distribution; q: the drafter's.
//
//   exact      t from p with kToken                        keep x where x = t, else t
//   rejection  keep x where kAccept < min(1, p(x)/q(x))    else from max(p - q, 0) with kResidual      rejection.cc
//   relaxed    as exact; also within a radius of bins      lossy
//   ensemble   as exact, p = (1 - w) p_diffusion + w p_ar  lossy                                       ensemble.cc
#pragma once
#include <memory>
#include <span>

#include "decode/draft/drafter.h"
#include "decode/pass/passes.h"

namespace slip {

struct Verification {
  TokenId token;      // what is committed
  bool kept = false;  // the draft held
  bool relaxed = false;
};

class Verifier {
 public:
  virtual ~Verifier() = default;
  /// What a row must deliver for a draw at this place.
  virtual Want want(const Strand& strand, const Place& place) const = 0;
  /// A draft was there. `pass_row`: row of the pass before the draw; `history`: content of the field (or text) so far.
  virtual Verification check(size_t pass_row, const Strand& strand, const DraftToken& draft, std::span<const TokenId> history) = 0;
  /// Nothing was drafted. `after_drafts`: the round's drafts before this place all held.
  virtual TokenId draw(size_t pass_row, const Strand& strand, const Place& place, std::span<const TokenId> history,
                       bool after_drafts) = 0;
  /// Drafts must be drawn from the drafter's distribution (purpose kDraft), not taken greedily.
  virtual bool samples_drafts() const { return false; }
  /// Mask 1 of every group must deliver logits, and drafts be told of it (DraftToken::group_row).
  virtual bool wants_group_rows() const { return false; }
};

/// Does a relaxed verifier let the draft stand where the target's token is another? Both must be bins and no further apart than the place's
/// radius, in free text RelaxedSpec::radius; ids outside [first, end) need equality.
bool within_radius(const RelaxedSpec& relaxed, const Place& place, TokenId draft, TokenId target);

/// Speculative sampling: its obligations (docs/notes/speculation.md#rejection-sampling) are named in the file.
std::unique_ptr<Verifier> make_rejection_verifier(Passes& passes);
std::unique_ptr<Verifier> make_ensemble_verifier(const EnsembleSpec& verifier, Passes& passes);

/// The verifier of a method that has drafts verified. kUsage: relaxed without bins; kUnsupported: one of blocks (sections).
Result<std::unique_ptr<Verifier>> make_verifier(const Method& method, Passes& passes);

}  // namespace slip
