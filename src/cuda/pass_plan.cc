// SPDX-License-Identifier: Apache-2.0
#include "cuda/pass_plan.h"

#include <algorithm>
#include <bit>

namespace slip::cuda {

void AttentionPlanner::plan(const Pass& pass, AttentionPlan& out) {
  out.items.clear();
  out.item_rows.clear();
  out.slots.clear();
  out.first_partial_T.clear();
  out.most_rows = 0;
  for (auto& rows : rows_of_) rows.clear();
  std::fill(open_.begin(), open_.end(), -1);
  int32_t partial = 0;
  for (size_t t = 0; t < pass.rows.size(); ++t) {
    out.first_partial_T.push_back(partial);
    row_slots_.clear();
    for (const SlotSpan s : pass.spans.subspan(pass.rows[t].sees_first, pass.rows[t].sees_count))
      for (int32_t slot = s.begin; slot < s.end; ++slot) row_slots_.push_back(slot);
    for (size_t first = 0; first < row_slots_.size(); first += kKeyChunk)
      add_chunk(static_cast<int32_t>(t), first / kKeyChunk,
                std::span(row_slots_).subspan(first, std::min<size_t>(kKeyChunk, row_slots_.size() - first)), partial++, out);
  }
  out.first_partial_T.push_back(partial);
  for (size_t i = 0; i < out.items.size(); ++i) {
    out.items[i].first_row = static_cast<int32_t>(out.item_rows.size());
    out.items[i].rows = static_cast<int32_t>(rows_of_[i].size());
    out.item_rows.insert(out.item_rows.end(), rows_of_[i].begin(), rows_of_[i].end());
    out.most_rows = std::max(out.most_rows, out.items[i].rows);
  }
}

void AttentionPlanner::add_chunk(int32_t row, size_t chunk, std::span<const int32_t> slots, int32_t partial, AttentionPlan& out) {
  if (open_.size() <= chunk) open_.resize(chunk + 1, -1);
  const auto sees = static_cast<int32_t>(slots.size());
  int32_t& open = open_[chunk];
  if (open >= 0) {
    Item& item = out.items[static_cast<size_t>(open)];
    const int32_t both = std::min(sees, item.slots);
    const bool last = item.first_slot + item.slots == static_cast<int32_t>(out.slots.size());
    const bool fits = std::equal(slots.begin(), slots.begin() + both, out.slots.begin() + item.first_slot);
    if (fits && (sees <= item.slots || last) && static_cast<int>(rows_of_[static_cast<size_t>(open)].size()) < most_rows_) {
      out.slots.insert(out.slots.end(), slots.begin() + both, slots.end());
      item.slots = std::max(item.slots, sees);
      rows_of_[static_cast<size_t>(open)].push_back({row, sees, partial});
      return;
    }
  }
  open = static_cast<int32_t>(out.items.size());
  out.items.push_back({static_cast<int32_t>(out.slots.size()), sees, 0, 0});
  out.slots.insert(out.slots.end(), slots.begin(), slots.end());
  if (rows_of_.size() < out.items.size()) rows_of_.emplace_back();
  rows_of_[static_cast<size_t>(open)].push_back({row, sees, partial});
}

Room room_for(size_t rows, const AttentionPlan& plan) {
  const auto power = [](size_t n, size_t least) { return static_cast<int32_t>(std::bit_ceil(std::max(n, least))); };
  Room r;
  r.rows = rows <= kRowGroup ? power(rows, 8) : static_cast<int32_t>((rows + kRowGroup - 1) / kRowGroup * kRowGroup);
  r.items = power(plan.items.size(), 16);
  r.item_rows = power(plan.item_rows.size(), 64);
  r.slots = power(plan.slots.size(), 1024);
  return r;
}

PassLayout::PassLayout(const Room& room, int32_t half) {
  size_t at = 0;
  const auto take = [&](size_t bytes) {
    const size_t here = at;
    at = (at + bytes + 255) / 256 * 256;
    return here;
  };
  const auto rows = static_cast<size_t>(room.rows), tables = rows * static_cast<size_t>(half) * sizeof(float);
  counts = take(sizeof(PassCounts));
  inputs = take(rows * sizeof(int32_t));
  slots_of_rows = take(rows * sizeof(int32_t));
  cosines = take(tables);
  sines = take(tables);
  q_scales = take(rows * sizeof(float));
  wanted = take(rows * sizeof(int32_t));
  allowed = take(rows * sizeof(int32_t));
  first_partial = take((rows + 1) * sizeof(int32_t));
  items = take(static_cast<size_t>(room.items) * sizeof(Item));
  item_rows = take(static_cast<size_t>(room.item_rows) * sizeof(ItemRow));
  slots = take(static_cast<size_t>(room.slots) * sizeof(int32_t));
  bytes = at;
}

}  // namespace slip::cuda
