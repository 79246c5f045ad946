// SPDX-License-Identifier: Apache-2.0
// A strand is a sequence that grows token by token: free text, the chain of a form, one field of a graph, or a rollout's copy of one of
// these. Schedules make strands, drafters propose drafts for them, rounds verify and commit them.
//
// Row i of a strand holds token i, at position first_position + i, in slot first_slot + i. It sees `context` (spans that are final:
// the prompt, what was decided before the strand began) and the strand's own rows: up to itself, or to a block's end.
// A field of a graph begins with its hand-off token, so every draw has a row before it; free text begins with its first token.
#pragma once
#include <cstdint>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "decode/sequence/cursor.h"
#include "decode/sequence/draft_view.h"
#include "decode/types/result.h"
#include "lm/lm.h"

namespace slip {

/// A token that a drafter has proposed for a place.
struct DraftToken {
  Place place;
  TokenId token;
  bool sure = false;  // the rules allow nothing else: no draft, no test
  /// Rows of the strand before it. The last one's logits say what the target draws here; without one, those of the prompt's last row.
  int32_t rows = 0;
  int32_t position = 0;      // form position (free text: number of the token)
  std::optional<int32_t> q;  // rejection: line of the drafter's distribution (DraftDistributions); none: all of it is on the token
  /// Ensemble: pass row of mask 1 in the group of the head before this draft (its own place's p_diffusion), with logits; none:
  /// p_ar alone. The quadratic drafter sets it in add_rows where DraftNeeds::group_rows.
  std::optional<size_t> group_row;
  DraftFacts facts;
};

/// Rows of a pass whose masks say what comes at form positions from `position` on (quadratic, diffusion:ahead).
struct MaskGroup {
  size_t row = 0;
  int32_t position = 0, count = 0;
  /// Statistics::forwards while its drafts can be read: the pass is the last one, and what stood before the masks held.
  std::optional<int64_t> readable_at;
};

/// What one round holds of a strand: its window, what is drafted along it, and where the verifying pass has its rows.
struct StrandRound {
  int32_t window_drafts = 0;    // most drafts to propose, sure ones not counted
  int32_t window_end = kNoEnd;  // form position where the window ends
  Block block{};                // of the form, where the policy goes by blocks
  int32_t block_rows_end = 0;   // rows of the draft pass, where there was one
  int32_t masks = 0;            // drafts that the verifying pass shall make for the next round
  std::vector<DraftToken> drafts;
  std::vector<TokenId> path;      // the strand's tokens, then what the drafts add; row i of the verifying pass holds path[i]
  Cursor ahead;                   // behind `path`
  bool ahead_behind_end = false;  // the path's newest draft was END
  bool feed_last = false;         // the path's last row is needed though the strand would close (children see it)
  /// The place behind all drafts, where the rules leave a choice: its pick is the round's bonus.
  struct Next {
    Place place;
    std::optional<size_t> group_row;  // DraftToken::group_row of that place
  };
  std::optional<Next> next;
  size_t pass_row = 0;  // of row `cached` in the pass
  int32_t fed = 0;      // rows 0 .. fed are in the arena after the verifying pass

  int32_t path_rows() const { return static_cast<int32_t>(path.size()); }
  /// Makes it new, keeping its buffers.
  void reset();
};

struct Strand {
  std::optional<int32_t> field;  // along a graph; none: the strand is free text or a chain
  uint32_t request = 0;          // of the uniforms
  Decoded* answer = nullptr;
  Cursor cursor;                // behind `tokens`
  std::vector<TokenId> tokens;  // rows 0 ..
  std::vector<TokenId> before;  // a branch of rollouts: the lead's tokens before row 0
  int32_t cached = 0;           // rows whose keys are final
  std::vector<SlotSpan> context;
  int32_t first_slot = 0, first_position = 0;
  int32_t first_row = 0;        // tokens of the answer before row 0 (a rollout that has left others), in its Decoded::tokens
  std::optional<Place> missed;  // of the last draft that missed, where one has
  bool behind_end = false;      // the newest draw was END
  bool logs = false;            // DecodeOptions::log_forced
  std::vector<std::pair<int32_t, int32_t>>
      template_rows;         // where logs is set: rows of the path that hold fixed tokens, and their form positions
  int32_t scratch_slot = 0;  // of its own, for rows that may not overwrite its rows (Capacity::scratch)
  std::optional<MaskGroup> group;
  StrandRound round;

  /// Makes it new, keeping its buffers.
  void reset(Decoded& to);
  int32_t length() const { return static_cast<int32_t>(tokens.size()); }
  bool done() const { return cursor.done(); }
  /// Has the last draft that missed stood in this field (none: in free text)?
  bool missed_in(std::optional<int32_t> f) const { return missed && missed->field == f; }

  /// Appends the fixed tokens that come next.
  void take_fixed();
  void take_fixed_once();
  /// Appends a drawn token, or closes with an END.
  void take(TokenId token);

  /// The path begins anew with the strand's tokens; nothing is ahead of them.
  void begin_path();
  /// Keeps the first `count` drafts and drops the others.
  void crop_drafts(size_t count);
  /// The same as take_fixed_once and take ahead of the tokens, in the path.
  void walk_fixed();
  void walk(TokenId token);
  /// Drops everything that was drafted ahead of the tokens.
  void forget_ahead();
  /// Content of a place's field (or text) before it, as the path has it up to so many rows: what history-dependent settings see. Valid
  /// until the next call.
  std::span<const TokenId> history(const Place& place, int32_t rows) const;

 private:
  mutable std::vector<TokenId> history_;
};

}  // namespace slip
