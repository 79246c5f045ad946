// SPDX-License-Identifier: Apache-2.0
// Inside of decoder.h: a strand is a sequence that grows token by token: free text, the chain of a form, one field of a graph, or a
// rollout's copy of one of these. Schedules make strands, drafters propose drafts for them, rounds verify and commit them.
//
// Row i of a strand holds token i, at position first_position + i, in slot first_slot + i. It sees `context` (spans that are final:
// the prompt, what was decided before the strand began) and the strand's own rows: up to itself, or to a block's end.
// A field of a graph begins with its hand-off token, so every draw has a row before it; free text begins with its first token.
#pragma once
#include <algorithm>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "decode/sequence/cursor.h"
#include "decode/sequence/draft_view.h"
#include "decode/types/result.h"

namespace slip {

/// A draw that a drafter has proposed.
struct DraftToken {
  Place place;
  TokenId token;
  bool sure = false;     // the rules allow nothing else: no draft, no test
  int32_t row = 0;       // of the strand: its logits give the law of this draw; -1: the prompt's last row
  int32_t position = 0;  // form position (free text: number of the token)
  int32_t q = -1;        // rejection: line of the drafter's distribution (Passes::q_of), or -1: all on the token
  /// Ensemble: pass row of mask 1 in the group of the head before this draw (its own place's diffusion law), with logits; -1: no
  /// group, the law is p_ar alone. The quadratic drafter sets it in add_rows where Passes::wants_group_rows().
  int32_t group_row = -1;
  DraftFacts facts;
};

struct Strand {
  int32_t field = -1;    // graph visibility: the field
  uint32_t request = 0;  // of the uniforms
  Decoded* answer = nullptr;
  Cursor cursor;                // behind `tokens`
  std::vector<TokenId> tokens;  // rows 0 ..
  std::vector<TokenId> before;  // a branch of rollouts: the lead's tokens before row 0
  int32_t cached = 0;           // rows whose keys are final
  std::vector<SlotSpan> context;
  int32_t first_slot = 0, first_position = 0;
  int32_t first_row = 0;      // tokens of the answer before row 0 (a rollout that has left others), in its Decoded::tokens
  int32_t missed_field = -2;  // the field (-1: text) in which a draft last missed
  bool logs = false;          // DecodeOptions::log_forced
  bool behind_end = false, ahead_behind_end = false;       // the newest draw, of the tokens or of the path, was END
  std::vector<std::pair<int32_t, int32_t>> template_rows;  // then: rows of `path` that hold the template's tokens, form positions
  int32_t scratch_slot = 0;                                // rows of its own for drafts that may not overwrite its rows (quadratic)

  // ---- one round
  int32_t window_drafts = 0;    // most drafts to propose, sure ones not counted
  int32_t window_end = kNoEnd;  // form position where the window ends
  Block block{};                // of the form, where the policy goes by blocks
  int32_t block_rows_end = 0;   // rows of the draft pass, where there was one
  int32_t masks = 0;            // drafts that the verifying pass shall make for the next round
  std::vector<DraftToken> drafts;
  std::vector<TokenId> path;  // tokens, then what the draft adds; row i of the verifying pass holds path[i]
  Cursor ahead;               // behind `path`
  bool feed_last = false;     // the path's last row is needed though the strand would close (children see it)
  bool has_next = false;      // a draw behind all drafts: its pick is the round's bonus
  Place next_place;
  int32_t next_group_row = -1;  // group_row of that draw; set like it, reset by begin_path
  size_t pass_row = 0;          // of row `cached` in the pass
  int32_t fed = 0;              // rows 0 .. fed are in the arena after the verifying pass

  /// Where the verifying pass holds what its masks say of the next drafts (quadratic): the rows of a pass, from a form position on.
  struct Group {
    int64_t pass = -1;  // Statistics::forwards after it
    size_t row = 0;
    int32_t position = 0, count = 0;
  } group;

  /// Makes it new, keeping its buffers.
  void reset(Decoded& to) {
    field = -1;
    request = 0;
    answer = &to;
    cursor = {};
    tokens.clear();
    before.clear();
    cached = 0;
    context.clear();
    first_slot = first_position = scratch_slot = first_row = 0;
    window_drafts = 0;
    window_end = kNoEnd;
    block = {};
    block_rows_end = masks = 0;
    missed_field = -2;
    logs = behind_end = ahead_behind_end = false;
    template_rows.clear();
    drafts.clear();
    path.clear();
    group = {};
  }
  /// Content of a place's field (or text) before it, as the path has it up to row `row`: what history-dependent settings see.
  std::span<const TokenId> history(const Place& place, int32_t row) const {
    const auto own = std::span(path).first(static_cast<size_t>(row + 1));
    const auto n = static_cast<size_t>(place.index);
    if (n <= own.size() || before.empty()) return own.last(std::min(own.size(), n));
    const size_t more = std::min(before.size(), n - own.size());
    history_.assign(before.end() - static_cast<ptrdiff_t>(more), before.end());
    history_.insert(history_.end(), own.begin(), own.end());
    return history_;
  }
  int32_t length() const { return static_cast<int32_t>(tokens.size()); }
  bool done() const { return cursor.done(); }
  /// Appends the fixed tokens that come next.
  void take_fixed() {
    while (cursor.at_fixed()) take_fixed_once();
  }
  void take_fixed_once() {
    if (logs && cursor.fixed_field() < 0 && !behind_end) template_rows.emplace_back(length(), cursor.position());
    behind_end = false;
    tokens.push_back(cursor.fixed());
    ++answer->statistics.forced_tokens;
    if (cursor.fixed_field() >= 0) answer->fields[static_cast<size_t>(cursor.fixed_field())].push_back(tokens.back());
    cursor.take_fixed();
  }
  /// The same ahead of them, in the path.
  void walk_fixed() {
    if (logs && ahead.fixed_field() < 0 && !ahead_behind_end)
      template_rows.emplace_back(static_cast<int32_t>(path.size()), ahead.position());
    ahead_behind_end = false;
    path.push_back(ahead.fixed());
    ahead.take_fixed();
  }
  void walk(TokenId token) {
    ahead_behind_end = !ahead.take(token);
    if (!ahead_behind_end) path.push_back(token);
  }
  /// What was ahead is no more.
  void forget_ahead() {
    std::erase_if(template_rows, [&](const auto& r) { return r.first >= length(); });
  }
  void take(TokenId token) {
    const int32_t f = cursor.place().field;
    behind_end = !cursor.take(token);
    if (behind_end) return;
    tokens.push_back(token);
    if (f >= 0) answer->fields[static_cast<size_t>(f)].push_back(token);
  }

 private:
  mutable std::vector<TokenId> history_;
};

}  // namespace slip
