// SPDX-License-Identifier: Apache-2.0
#include "cuda/pass_plan.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <numeric>

namespace slip::cuda {

namespace {

constexpr size_t kFewRows = 16;  // of a pass whose items are kept small

int32_t length(std::span<const SlotSpan> spans) {
  int32_t n = 0;
  for (const SlotSpan s : spans) n += s.end - s.begin;
  return n;
}

/// How many slots two sequences have in common at their beginning, as far as their spans show it.
int32_t common(std::span<const SlotSpan> a, std::span<const SlotSpan> b) {
  int32_t n = 0;
  for (size_t i = 0; i < a.size() && i < b.size() && a[i].begin == b[i].begin; ++i) {
    n += std::min(a[i].end, b[i].end) - a[i].begin;
    if (a[i].end != b[i].end) break;
  }
  return n;
}

/// Slots first .. first + n - 1 of a sequence, behind what is there.
void append(std::span<const SlotSpan> spans, int32_t first, int32_t n, std::vector<int32_t>& out) {
  for (const SlotSpan s : spans) {
    const int32_t size = s.end - s.begin, skipped = std::min(first, size), taken = std::min(size - skipped, n);
    const size_t at = out.size();
    out.resize(at + static_cast<size_t>(taken));
    std::iota(out.begin() + static_cast<ptrdiff_t>(at), out.end(), s.begin + skipped);
    n -= taken;
    first -= skipped;
  }
}

}  // namespace

void AttentionPlanner::plan(const Pass& pass, AttentionPlan& out) {
  const size_t rows = pass.rows.size();
  most_rows_ = rows_of_item(rows);
  const bool may = walks_ && rows > kRowGroup;
  cut(pass, may, out);
  // Where neighbouring rows see different things, their items share more than their walks do.
  if (may && out.walks.size() * static_cast<size_t>(most_rows_) > 2 * (rows + static_cast<size_t>(most_rows_)))
    cut(pass, false, out);
  if (!out.walks.empty()) return;  // which need neither their items' rows nor room for what items come to
  for (size_t i = 0; i < out.items.size(); ++i) {
    out.items[i].first_row = static_cast<int32_t>(out.item_rows.size());
    out.items[i].rows = static_cast<int32_t>(rows_of_[i].size());
    out.item_rows.insert(out.item_rows.end(), rows_of_[i].begin(), rows_of_[i].end());
    out.most_rows = std::max(out.most_rows, out.items[i].rows);
  }
  mark_fresh(pass, out);
}

/// Whether a row's chunks are those of the last walk, or their beginning, or go on behind them.
bool AttentionPlanner::continues_walk(std::span<const SlotSpan> sees, int32_t size, int32_t known, const AttentionPlan& out) {
  if (out.walks.empty() || out.walks.back().rows >= most_rows_) return false;
  const auto in_walk = static_cast<int32_t>(out.items.size()) - first_open_;
  for (int32_t number = 0; number < in_walk && number * kKeyChunk < size; ++number) {
    const int32_t first = number * kKeyChunk, slots = std::min(kKeyChunk, size - first);
    const Item& item = out.items[static_cast<size_t>(first_open_ + number)];
    if (!shares(sees, {0, number, first, slots, std::clamp(known - first, 0, slots), 0}, item, out)) return false;
  }
  return true;
}

void AttentionPlanner::cut(const Pass& pass, bool in_walks, AttentionPlan& out) {
  out.items.clear();
  out.item_rows.clear();
  out.slots.clear();
  out.first_partial_T.clear();
  out.sees_T.clear();
  out.walks.clear();
  out.most_rows = 0;
  for (auto& rows : rows_of_) rows.clear();
  std::fill(open_.begin(), open_.end(), -1);
  first_open_ = 0;
  int32_t partial = 0;
  std::span<const SlotSpan> before;
  for (size_t t = 0; t < pass.rows.size(); ++t) {
    out.first_partial_T.push_back(partial);
    const auto sees = pass.spans.subspan(pass.rows[t].sees_first, pass.rows[t].sees_count);
    const int32_t size = length(sees), known = common(before, sees);
    out.sees_T.push_back(size);
    if (in_walks && !continues_walk(sees, size, known, out)) {
      first_open_ = static_cast<int32_t>(out.items.size());
      out.walks.push_back({first_open_, 0, static_cast<int32_t>(t), 0});
    }
    for (int32_t first = 0; first < size; first += kKeyChunk) {
      const int32_t slots = std::min(kKeyChunk, size - first);
      add_chunk(sees, {static_cast<int32_t>(t), first / kKeyChunk, first, slots, std::clamp(known - first, 0, slots), partial++},
                out);
    }
    before = sees;
    if (!in_walks) continue;
    ++out.walks.back().rows;
    out.walks.back().items = static_cast<int32_t>(out.items.size()) - first_open_;
  }
  out.first_partial_T.push_back(partial);
}

/// Which units of 64 keys have one of this pass.
void AttentionPlanner::mark_fresh(const Pass& pass, AttentionPlan& out) {
  int32_t most = -1;
  for (const Row& row : pass.rows) most = std::max(most, row.slot);
  is_fresh_.resize(std::max(is_fresh_.size(), static_cast<size_t>(most + 1)));
  for (const Row& row : pass.rows) is_fresh_[static_cast<size_t>(row.slot)] = 1;
  fresh_places_.resize(out.slots.size());
  for (size_t i = 0; i < out.slots.size(); ++i)
    fresh_places_[i] = out.slots[i] <= most ? is_fresh_[static_cast<size_t>(out.slots[i])] : uint8_t{0};
  for (const Row& row : pass.rows) is_fresh_[static_cast<size_t>(row.slot)] = 0;
  for (Item& item : out.items) {
    item.fresh = 0;
    for (int32_t unit = 0; unit * kKeyUnit < item.slots; ++unit) {
      const auto keys = static_cast<size_t>(std::min(kKeyUnit, item.slots - unit * kKeyUnit));
      if (std::memchr(fresh_places_.data() + item.first_slot + unit * kKeyUnit, 1, keys) != nullptr) item.fresh |= 1U << unit;
    }
  }
}

/// Whether the slots of a chunk and of an item are the same as far as both go, and the longer of the two can stand where the item's do: what the chunk
/// has more is behind all slots then.
bool AttentionPlanner::shares(std::span<const SlotSpan> sees, const Chunk& chunk, const Item& item, const AttentionPlan& plan) {
  const int32_t both = std::min(chunk.slots, item.slots);
  if (chunk.slots > item.slots && item.first_slot + item.slots != static_cast<int32_t>(plan.slots.size())) return false;
  // The item holds the chunk of the row before: what that row has as well need not be compared.
  if (chunk.known >= both) return true;
  chunk_slots_.clear();
  append(sees, chunk.first, both, chunk_slots_);
  return std::equal(chunk_slots_.begin(), chunk_slots_.end(), plan.slots.begin() + item.first_slot);
}

void AttentionPlanner::add_chunk(std::span<const SlotSpan> sees, const Chunk& chunk, AttentionPlan& out) {
  const auto number = static_cast<size_t>(chunk.number);
  if (open_.size() <= number) open_.resize(number + 1, -1);
  int32_t& open = open_[number];
  const bool shared = open >= 0 && shares(sees, chunk, out.items[static_cast<size_t>(open)], out);
  const bool takes = shared && open >= first_open_ && static_cast<int>(rows_of_[static_cast<size_t>(open)].size()) < most_rows_;
  const int32_t there = shared ? std::min(chunk.slots, out.items[static_cast<size_t>(open)].slots) : 0;
  const int32_t first_slot = shared ? out.items[static_cast<size_t>(open)].first_slot : static_cast<int32_t>(out.slots.size());
  append(sees, chunk.first + there, chunk.slots - there, out.slots);
  if (takes) {
    Item& item = out.items[static_cast<size_t>(open)];
    item.slots = std::max(item.slots, chunk.slots);
  } else {
    open = static_cast<int32_t>(out.items.size());
    out.items.push_back({first_slot, chunk.slots, 0, 0, 0});
    if (rows_of_.size() < out.items.size()) rows_of_.emplace_back();
  }
  rows_of_[static_cast<size_t>(open)].push_back({chunk.row, chunk.slots, chunk.partial});
}

int AttentionPlanner::rows_of_item(size_t rows) const {
  return std::max(1, (rows <= kFewRows ? kFewQueries : kMostQueries) / heads_per_group_);
}

Room AttentionPlanner::captured_room(int32_t rows, int32_t chunks) const {
  const int32_t each = rows_of_item(static_cast<size_t>(rows)), groups = (rows + each - 1) / each;
  Room r;
  r.rows = rows;
  r.items = groups * chunks + rows;
  r.item_rows = rows * chunks;
  r.slots = r.items * kKeyChunk;
  return r;
}

Room AttentionPlanner::room(const Pass& pass, const AttentionPlan& plan) const {
  const auto power = [](size_t n, size_t least) { return static_cast<int32_t>(std::bit_ceil(std::max(n, least))); };
  const size_t rows = pass.rows.size();
  if (rows <= kRowGroup) {
    int32_t chunks = kUsualChunks;
    for (size_t t = 0; t < rows; ++t) chunks = std::max(chunks, plan.first_partial_T[t + 1] - plan.first_partial_T[t]);
    Room r = captured_room(power(rows, 8), power(static_cast<size_t>(chunks), 1));
    if (plan.items.size() > static_cast<size_t>(r.items)) {
      r.items = power(plan.items.size(), 1);
      r.slots = r.items * kKeyChunk;
    }
    return r;
  }
  Room r;
  r.rows = static_cast<int32_t>((rows + kRowGroup - 1) / kRowGroup * kRowGroup);
  r.items = power(plan.items.size(), 16);
  r.item_rows = power(plan.item_rows.size(), 64);
  r.slots = power(plan.slots.size(), 1024);
  r.walks = power(plan.walks.size(), 16);
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
  features = take(rows * sizeof(const float*));
  slots_of_rows = take(rows * sizeof(int32_t));
  cosines = take(tables);
  sines = take(tables);
  q_scales = take(rows * sizeof(float));
  wanted = take(rows * sizeof(int32_t));
  allowed = take(rows * sizeof(int32_t));
  first_partial = take((rows + 1) * sizeof(int32_t));
  sees = take(rows * sizeof(int32_t));
  walks = take(static_cast<size_t>(room.walks) * sizeof(Walk));
  items = take(static_cast<size_t>(room.items) * sizeof(Item));
  item_rows = take(static_cast<size_t>(room.item_rows) * sizeof(ItemRow));
  slots = take(static_cast<size_t>(room.slots) * sizeof(int32_t));
  bytes = at;
}

}  // namespace slip::cuda
