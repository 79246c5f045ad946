// SPDX-License-Identifier: Apache-2.0
// Drafter by a head on the target's hidden states [DFlash; docs/notes/speculation.md#dflash].
//
//   taps      hidden states of the target's rows, brought by every verifying pass (the prefill travels with the first), stored by
//             slot
//   block     [anchor, mask, mask, ...] in one pass of the head: sees stored context and itself; a mask's own row predicts it
//
// The anchor, the strand's newest token, has not been in the target yet. Context of a block is what the newest row of the strand
// sees, cut down to slots whose stored row is the row that stands there: not rows of rejected drafts, not a closed ancestor's last
// token that no pass has fed, not image rows for a head that was trained without. In a form, known tokens that wait for the next
// pass stand before the masks, fixed tokens between them. Blocks of several strands share a pass of the head as far as its block
// slots go.
//
// Differs from the paper: fixed tokens in blocks, fields of a graph, and blocks narrower than the head's near the end of a form.
// Tests: DFlash.*, tests/decode/drafters_test.cc
#include <algorithm>

#include "base/check.h"
#include "decode/draft/methods.h"

namespace slip {
namespace {

class HeadDrafter : public Drafter {
 public:
  HeadDrafter(DraftHead& head, Passes& passes)
      : head_(head), info_(head.info()), passes_(passes), request_(passes.request()), chooser_(passes.chooser()) {
    const Prompt& p = passes.request().prompt;
    for (int32_t i = 0; i < passes.prefill().cached_rows(); ++i)
      if (is_context(p.inputs[static_cast<size_t>(i)])) set_stored(i);
  }

  bool wants_taps() const override { return true; }

  Status propose(std::span<Strand* const> strands) override {
    if (passes_.prefill().deferred() && !passes_.prefill().cached()) return {};  // nothing to go by yet
    const auto at_once = static_cast<size_t>(info_.block_slots / info_.block);
    for (size_t first = 0; first < strands.size(); first += at_once)
      SLIP_TRY_(propose_some(strands.subspan(first, std::min(at_once, strands.size() - first))));
    return {};
  }

  Status after_pass() override {
    slots_.clear();
    positions_.clear();
    kept_taps_NE_.clear();
    const auto& taps_NE = passes_.output().taps_NE;
    const auto width = static_cast<size_t>(info_.taps_width);
    SLIP_CHECK(taps_NE.size() == passes_.next().rows() * width, "a pass with taps brings one line for every row");
    for (size_t i = 0; i < passes_.next().rows(); ++i) {
      const Row& row = passes_.next().row(i);
      if (!is_context(row.input)) continue;
      slots_.push_back(row.slot);
      positions_.push_back(row.position.t);
      set_stored(row.slot);
      if (!info_.image_context)
        kept_taps_NE_.insert(kept_taps_NE_.end(), taps_NE.begin() + static_cast<ptrdiff_t>(i * width),
                             taps_NE.begin() + static_cast<ptrdiff_t>((i + 1) * width));
    }
    if (slots_.empty()) return {};
    return head_.store(slots_, positions_, info_.image_context ? taps_NE : kept_taps_NE_);
  }

  void committed(Strand& s, int32_t) override { forget(s, s.cached); }
  void discarded(Strand& s) override { forget(s, 0); }

 private:
  bool is_context(const RowInput& input) const { return info_.image_context || std::holds_alternative<TokenId>(input); }

  /// Rows from `first` on do not hold, or hold what the next pass writes anew.
  void forget(const Strand& s, int32_t first) {
    for (int32_t i = first; i < s.round.fed; ++i)
      if (is_stored(s.first_slot + i)) is_stored_[static_cast<size_t>(s.first_slot + i)] = 0;
  }
  bool is_stored(int32_t slot) const {
    const auto at = static_cast<size_t>(slot);
    return at < is_stored_.size() && is_stored_[at] != 0;
  }
  void set_stored(int32_t slot) {
    const auto at = static_cast<size_t>(slot);
    if (at >= is_stored_.size()) is_stored_.resize(std::max(at + 1, 2 * is_stored_.size()), 0);
    is_stored_[at] = 1;
  }

  /// A strand's block: known tokens from row `begin` on, then form positions up to `end`.
  struct Block {
    int32_t begin = 0, end = 0;
    size_t row = 0;  // of the head's pass
  };

  Block block_of(const Strand& s) const {
    const int32_t length = s.length(), position = s.cursor.position();
    Block b{.begin = length, .end = position};
    if (s.done() || s.tokens.empty() || s.round.window_drafts <= 0) return b;  // without an anchor nothing is drafted
    // Known tokens take at most half of the block, the newest ones: masks must fit.
    b.begin = std::max(s.cached, length - std::max(1, info_.block / 2));
    b.begin = std::min(b.begin, length - 1);
    int64_t last = std::min(int64_t{position} + info_.block - (length - b.begin), int64_t{s.round.window_end});
    if (s.field) last = std::min(last, int64_t{request_.field(*s.field).start} + request_.field(*s.field).budget);
    if (!s.field && request_.form) last = std::min(last, int64_t{request_.form->length()});
    for (int32_t u = position, masks = 0; u < last && masks < s.round.window_drafts; ++u) {
      if (fixed_at(s, u)) continue;
      ++masks;
      b.end = u + 1;
    }
    return b;
  }

  std::optional<TokenId> fixed_at(const Strand& s, int32_t u) const {
    return !s.field && request_.form ? request_.form->fixed_at(u) : std::nullopt;
  }

  Status propose_some(std::span<Strand* const> strands) {
    rows_.clear();
    spans_.clear();
    blocks_.clear();
    for (Strand* s : strands) {
      blocks_.push_back(block_of(*s));
      if (blocks_.back().end > s->cursor.position()) add_block(*s, blocks_.back(), static_cast<int32_t>(blocks_.size()) - 1);
    }
    if (rows_.empty()) return {};
    SLIP_TRY_(request_.poll());
    const auto begin = std::chrono::steady_clock::now();
    SLIP_TRY_(head_.forward({rows_, spans_}, out_));
    const double ms = std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - begin).count();
    request_.record(TimedPass::Kind::kDrafter, begin, ms, rows_.size());
    request_.statistics.ms.draft += ms;
    ++request_.statistics.drafter_forwards;
    for (size_t i = 0; i < strands.size(); ++i) read_block(*strands[i], blocks_[i]);
    return {};
  }

  void add_block(const Strand& s, Block& b, int32_t number) {
    const auto first = static_cast<uint32_t>(spans_.size());
    for (const SlotSpan& span : s.context) add_stored(span, first);
    add_stored({s.first_slot, s.first_slot + b.begin}, first);
    const int32_t length = s.length(), position = s.cursor.position(), slot = info_.context_slots + number * info_.block;
    spans_.push_back({slot, slot + length - b.begin + b.end - position});
    const auto count = static_cast<uint32_t>(spans_.size()) - first;
    b.row = rows_.size();
    const auto add = [&](TokenId token, int32_t i, Want want) {
      rows_.push_back({token, Position::text(s.first_position + i), slot + i - b.begin, first, count, want});
    };
    for (int32_t i = b.begin; i < length; ++i) add(s.tokens[static_cast<size_t>(i)], i, Want::kNothing);
    for (int32_t u = position; u < b.end; ++u) {
      const auto fixed = fixed_at(s, u);
      const auto f = !s.field && request_.form ? request_.form->field_at(u) : s.field;
      add(fixed.value_or(info_.mask), length + u - position, fixed ? Want::kNothing : chooser_.draft_want(f));
    }
  }

  /// The parts of a span that are stored.
  void add_stored(const SlotSpan& span, uint32_t first) {
    for (int32_t slot = span.begin; slot < span.end; ++slot) {
      if (!is_stored(slot)) continue;
      if (spans_.size() > first && spans_.back().end == slot)
        ++spans_.back().end;
      else
        spans_.push_back({slot, slot + 1});
    }
  }

  void read_block(Strand& s, const Block& b) {
    const int32_t position = s.cursor.position(), length = s.length();
    if (b.end <= position) return;
    propose_along(s, [&](const Cursor& at, DraftToken& draft) -> std::optional<TokenId> {
      if (at.position() >= b.end) return std::nullopt;
      const size_t row = b.row + static_cast<size_t>(length - b.begin + at.position() - position);
      if (out_.logits_row[row] < 0) return out_.argmax[row];
      if (!says_anything(out_.logits_V(row), chooser_.allowed_at(draft.place))) return std::nullopt;
      return chooser_.propose_from(out_.logits_V(row), s, draft);
    });
  }

  DraftHead& head_;
  const DraftHeadInfo& info_;
  Passes& passes_;
  const DecodeRequest& request_;
  Chooser& chooser_;
  // By slot: the head's context there is of the row that the target has there. Slots behind its end were never stored: an arena may have millions.
  std::vector<uint8_t> is_stored_;
  std::vector<Row> rows_;
  std::vector<SlotSpan> spans_;
  std::vector<Block> blocks_;
  std::vector<int32_t> slots_, positions_;
  std::vector<float> kept_taps_NE_;
  PassOutput out_;
};

}  // namespace

Result<std::unique_ptr<Drafter>> make_head_drafter(DraftHead* head, const LmInfo& target, Passes& passes) {
  if (head == nullptr) return usage_error("--drafter dflash: expected a draft head (dflash:DIR), got none");
  const DraftHeadInfo& info = head->info();
  if (info.vocab != target.vocab)
    return bad_input("draft head {}: expected one for a target of {} ids, got {}", info.name, target.vocab, info.vocab);
  const int64_t width = static_cast<int64_t>(info.tap_layers.size()) * target.hidden_size;
  if (info.taps_width != width || target.tap_layers != info.tap_layers)
    return bad_input("draft head {}: expected one that reads {} numbers per row of {} layers, got {}", info.name, width,
                     info.tap_layers.size(), info.taps_width);
  if (info.block < 2) return bad_input("draft head {}: expected a block of at least 2 rows, got {}", info.name, info.block);
  if (info.context_slots < target.slots || info.block_slots < info.block)
    return resource_error("draft head {}: expected an arena of at least {} slots and {} for a block, got {} and {}", info.name,
                          target.slots, info.block, info.context_slots, info.block_slots);
  return std::unique_ptr<Drafter>(std::make_unique<HeadDrafter>(*head, passes));
}

}  // namespace slip
