// SPDX-License-Identifier: Apache-2.0
// A pass as the device gets it: one block of memory with everything that changes from pass to pass, laid out by a few capacities, so that
// passes of like size share one captured graph; and attention's work cut into items that share keys among rows.
#pragma once
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "cuda/kernels.h"
#include "kernels/rope.h"
#include "lm/lm.h"

namespace slip::cuda {

/// Attention's work: a row's keys in chunks of 256 along what it sees. Neighbouring rows whose chunks are equal, or the beginning of one
/// another, share an item: rows of a block behind one prompt, or rows of a prefill, read a key once for all. Items of short passes have 16
/// queries at most, so that there are enough of them.
struct AttentionPlan {
  std::vector<Item> items;
  std::vector<ItemRow> item_rows;        // an item's rows side by side; none where there are walks
  std::vector<int32_t> slots;            // lists that items name; items may name one, or the beginning of one
  std::vector<int32_t> first_partial_T;  // rows + 1 numbers
  std::vector<int32_t> sees_T;           // how many slots a row sees
  std::vector<Walk> walks;               // of a long pass whose neighbours see mostly the same: all rows, side by side; else none
  int most_rows = 0;                     // of an item
};

/// Capacities of a pass's block of memory.
struct Room {
  int32_t rows = 0, items = 0, item_rows = 0, slots = 0, walks = 0;
  auto operator<=>(const Room&) const = default;
};

class AttentionPlanner {
 public:
  /// `walks`: whether long passes may have walks.
  explicit AttentionPlanner(int heads_per_group, bool walks) : heads_per_group_(heads_per_group), walks_(walks) {}
  /// Allocates only while sizes grow.
  void plan(const Pass& pass, AttentionPlan& out);
  /// Room for a pass. Of up to 64 rows: 8, 16, 32 or 64 of them, behind up to 4,096 keys or a power of two, so that few captured graphs serve all that
  /// an answer needs; of more, what it takes, in powers of two.
  Room room(const Pass& pass, const AttentionPlan& plan) const;
  /// The most of an item of a pass of so many rows.
  int queries(size_t rows) const { return rows_of_item(rows) * heads_per_group_; }
  /// Room for any pass of up to 64 rows behind up to 4,096 keys whose rows share what they see, but for the last chunk of each.
  Room usual() const { return captured_room(kRowGroup, kUsualChunks); }

 private:
  /// Slots first .. first + slots - 1 of what a row sees, for its partial; `known`: how many of them the row before has as well.
  struct Chunk {
    int32_t row, number, first, slots, known, partial;
  };
  static constexpr int32_t kUsualChunks = 4096 / kKeyChunk;
  int rows_of_item(size_t rows) const;
  Room captured_room(int32_t rows, int32_t chunks) const;
  void cut(const Pass& pass, bool in_walks, AttentionPlan& out);
  bool continues_walk(std::span<const SlotSpan> sees, int32_t size, int32_t known, const AttentionPlan& out);
  void mark_fresh(const Pass& pass, AttentionPlan& out);
  bool shares(std::span<const SlotSpan> sees, const Chunk& chunk, const Item& item, const AttentionPlan& plan);
  void add_chunk(std::span<const SlotSpan> sees, const Chunk& chunk, AttentionPlan& out);
  int heads_per_group_, most_rows_ = 1;
  bool walks_;
  int32_t first_open_ = 0;  // items before it take no more rows
  std::vector<int32_t> chunk_slots_;
  std::vector<uint8_t> is_fresh_;              // by slot: 1 where it is a row's; between passes all zero
  std::vector<uint8_t> fresh_places_;          // by place in AttentionPlan::slots
  std::vector<int32_t> open_;                  // per chunk number: the item that may take more rows, or -1
  std::vector<std::vector<ItemRow>> rows_of_;  // per item
};

/// Byte offsets in the block. Slots come last: a pass sends only those that it has.
struct PassLayout {
  PassLayout(const Room& room, int32_t half);
  size_t used(const AttentionPlan& plan) const { return slots + plan.slots.size() * sizeof(int32_t); }
  size_t counts, inputs, features, slots_of_rows, cosines, sines, q_scales, wanted, allowed, first_partial, sees, walks, items,
      item_rows, slots, bytes;
};

}  // namespace slip::cuda
