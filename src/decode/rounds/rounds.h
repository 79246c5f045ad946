// SPDX-License-Identifier: Apache-2.0
// One round over any number of strands: the drafter proposes, one pass verifies, the strands commit.
#pragma once
#include <memory>
#include <span>
#include <vector>

#include "decode/draft/drafter.h"
#include "decode/draft_length/policy.h"
#include "decode/verify/verifier.h"

namespace slip {

class Rounds {
 public:
  Rounds(Passes& passes, Drafter& drafter, Verifier& verifier, DraftLengthPolicy& lengths, bool drafts_nothing);

  Passes& passes() { return passes_; }
  /// All of a round for strands that are ready and do not depend on each other. A strand at a fixed token takes it first.
  Status run(std::span<Strand* const> strands);

  // ---- the steps of run, for schedules that start children in between
  /// Without `drafts` the drafter is not asked: a token per strand.
  Status propose(std::span<Strand* const> strands, bool drafts = true);
  /// Do drafts pay for rollouts that have forked?
  bool forks_draft() const { return lengths_.forks_draft(); }
  /// Shall a field start on its parents' drafts?
  bool starts(int32_t field) { return lengths_.starts(field); }
  /// Drafts for a strand that starts on its parents' drafts.
  void propose_child(Strand& strand);
  /// Clears the pass and lays out rows of strands: parents before children.
  void begin_verify();
  void add(Strand& strand);
  Status run_verify_pass(std::span<Strand* const> strands);
  /// What an answer picks along a strand's drafts, up to its first miss or to the place behind them all. Equal picks: equal tokens.
  struct Picks {
    std::vector<TokenId> tokens;
    bool held = true;  // else the last one replaces a draft
    bool operator==(const Picks&) const = default;
  };
  /// Verifies a strand's drafts with an answer's uniforms, the lead's or those of one that shares the strand so far, and commits nothing
  /// yet. Drafts that share rows count once: statistics and the policy on draft lengths hear of the lead's verifications alone.
  void verify_for(Strand& strand, uint32_t request, Picks& picks, bool leads);
  /// Commits a strand's round; true if every draft held.
  bool commit(Strand& strand);
  bool commit(Strand& strand, const Picks& picks);
  /// Commits a copy of a strand for an answer that forks with picks of its own, before the strand's own commit; how many drafts it kept.
  int32_t commit_beside(Strand& copy, const Picks& picks);
  /// Drops a child's round: its parent turned out otherwise than drafted.
  void discard(Strand& strand);

 private:
  void compare(const Strand& strand, int32_t end);
  void trace(const Strand& strand, int32_t cached, int32_t before, int32_t kept, bool discarded);
  void cut(std::span<Strand* const> strands);
  void choose_without_looking_ahead();
  size_t pass_row(const Strand& strand, int32_t rows) const;

  Passes& passes_;
  const DecodeRequest& request_;
  PassBuilder& next_;
  Chooser& chooser_;
  Drafter& drafter_;
  Verifier& verifier_;
  DraftLengthPolicy& lengths_;
  Statistics& statistics_;
  bool drafts_nothing_;
  std::vector<DraftFacts> facts_;
  std::vector<std::span<const DraftFacts>> fact_spans_, shown_;
  std::vector<int32_t> keep_, kept_;
  Picks picks_;
};

}  // namespace slip
