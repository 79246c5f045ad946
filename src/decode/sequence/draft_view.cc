// SPDX-License-Identifier: Apache-2.0
#include "decode/sequence/draft_view.h"

#include "decode/sequence/strand.h"

namespace slip {

std::optional<int32_t> DraftView::field() const { return strand_->field; }
bool DraftView::done() const { return strand_->done(); }
int32_t DraftView::position() const { return strand_->cursor.position(); }
int32_t DraftView::index() const { return strand_->cursor.at_draw() ? strand_->cursor.place().index : 0; }
int32_t DraftView::rows() const { return strand_->length(); }
int32_t DraftView::cached() const { return strand_->cached; }
bool DraftView::drafted_to_end() const { return strand_->round.ahead.done(); }
bool DraftView::missed() const { return strand_->missed_in(strand_->cursor.place().field); }
std::optional<int32_t> DraftView::next_index() const {
  return strand_->round.next ? std::optional(strand_->round.next->place.index) : std::nullopt;
}

void DraftView::set_window(int32_t drafts, int32_t end) {
  strand_->round.window_drafts = drafts;
  strand_->round.window_end = end;
}

void DraftView::set_block(Block block) {
  strand_->round.block = block;
  strand_->round.window_end = block.end;
}

void DraftView::set_masks(int32_t masks) { strand_->round.masks = masks; }

}  // namespace slip
