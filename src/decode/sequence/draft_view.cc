// SPDX-License-Identifier: Apache-2.0
#include "decode/sequence/draft_view.h"

#include "decode/sequence/strand.h"

namespace slip {

int32_t WidthView::field() const { return strand_->field; }
bool WidthView::done() const { return strand_->done(); }
int32_t WidthView::position() const { return strand_->cursor.position(); }
int32_t WidthView::index() const { return strand_->cursor.at_draw() ? strand_->cursor.place().index : 0; }
int32_t WidthView::rows() const { return strand_->length(); }
int32_t WidthView::cached() const { return strand_->cached; }
bool WidthView::missed() const { return strand_->missed_field == strand_->cursor.place().field; }
bool WidthView::has_next() const { return strand_->has_next; }
int32_t WidthView::next_index() const { return strand_->next_place.index; }

void WidthView::set_window(int32_t draws, int32_t end) {
  strand_->window_draws = draws;
  strand_->window_end = end;
}

void WidthView::set_block(Block block) {
  strand_->block = block;
  strand_->window_end = block.end;
}

void WidthView::set_masks(int32_t masks) { strand_->masks = masks; }

}  // namespace slip
