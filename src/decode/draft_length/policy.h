// SPDX-License-Identifier: Apache-2.0
// The draft length: how many tokens a round looks at. A policy is given what passes cost and how drafts came about, never the drafted ids:
// a draft that is dropped because of its own value would bias what is sampled (docs/notes/speculation.md#cutting-drafts). The types see
// to it: a policy gets views of strands (sequence/draft_view.h) and facts of drafts.
//
// Where the verifier tests drafts that were drawn (rejection, ensemble), even the facts of later draws tell of earlier ids: what a
// drafter says next depends on what it said. There a policy decides before the drafts only (chooses() is false).
#pragma once
#include <memory>
#include <span>

#include "decode/sequence/draft_view.h"
#include "decode/types/context.h"
#include "decode/types/method.h"
#include "decode/types/options.h"

namespace slip {

class DraftLengthPolicy {
 public:
  virtual ~DraftLengthPolicy() = default;
  /// Before the drafts: sets the strand's window.
  virtual void open(DraftView strand) = 0;
  /// The same for all strands of a round. Strands that start on their parents' drafts are opened one by one behind it.
  virtual void open_all(DraftViews strands) {
    for (const DraftView s : strands) open(s);
  }
  /// The window bounds what is drafted; fixed tokens behind it are verified along (else they wait for the next round).
  virtual bool window_ends_with_drafts() const { return false; }
  /// Whether rollouts that have forked go on drafting, all in one pass. Only a policy with measured costs may say yes: sampled drafts hold
  /// less long than the calibration says, so they pay only where rows are cheap beside a pass.
  virtual bool forks_draft() const { return false; }
  /// After the drafts: how many of each strand's drafts go to the verifier. `facts`: per strand, per draft (sure ones have top = 1);
  /// `keep`: comes in as the number of drafts, may only go down. Default: all of them.
  virtual void choose(std::span<const std::span<const DraftFacts>> /*facts*/, std::span<int32_t> /*keep*/) {}
  virtual bool chooses() const { return false; }
  /// Facts cost rows of logits in place of argmaxes.
  virtual bool wants_facts() const { return chooses(); }
  /// May this field start on its parents' drafts in this round? Asked before its strand is opened.
  virtual bool starts(int32_t /*field*/) { return true; }
  /// Before the verifying pass: how many masks each strand gets, for drafters that draft in it.
  virtual void lay_masks(DraftViews /*strands*/) {}
  /// After the verification: what was seen of each tested draft (for calibration that follows the drive).
  virtual void seen(const DraftFacts&, bool /*kept*/) {}
  /// Once per answer, before its first round: the logits of the prompt's last row, for a pass more.
  virtual bool wants_prompt_logits() const { return false; }
  virtual void prompt_logits(std::span<const float> /*logits_V*/) {}
};

/// kUsage where DecodeContext lacks what the draft length needs, kBadInput where that is of another form.
Result<std::unique_ptr<DraftLengthPolicy>> make_draft_length(const Method& method, const Form* form, const DecodeOptions& options,
                                                             const DecodeContext& context);

}  // namespace slip
