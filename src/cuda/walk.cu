// SPDX-License-Identifier: Apache-2.0
// Attention of long passes: a block takes up to 64 queries of neighbouring rows for one key head and walks all that they see, a unit of 64 keys after the
// other. Units are folded into their chunk of 256 keys and chunks into the row, as attention.cu's items and `join` do it, so that a row's bits are the same
// by both; what lies between, a chunk's sums, does not leave the processor.
#include "cuda/attention_units.h"

namespace slip::cuda {
namespace {

constexpr int kBuffers = 2;  // units in shared memory at a time

template <int kSteps>
struct WalkSizes {
  using S = Sizes<kSteps>;
  static constexpr int kTiles = S::kValues / 8;
  static constexpr size_t kUnitBytes = kBuffers * S::kUnitNumbers * sizeof(Bf16);
  static constexpr size_t kRowBytes =
      static_cast<size_t>(kTiles + 1) * kThreads * sizeof(float4);  // what the chunks before came to
  static constexpr size_t kBytes = kUnitBytes + kRowBytes + 2 * kKeyChunk * sizeof(int);
};

/// What a block works on.
struct Path {
  Walk walk;
  int group, queries, head, units, slots;  // query heads per key head; of the walk; key head; of keys; of all units
};

__device__ inline Path path_of(const WalkArgs& a) {
  Path path;
  path.walk = a.walks[a.counts->walks - 1 - block_x()];  // of a prompt, those with the most keys first
  path.group = a.heads / a.kv_heads;
  path.queries = path.walk.rows * path.group;
  path.head = block_y();
  path.slots =
      path.walk.items == 0 ? 0 : (path.walk.items - 1) * kKeyChunk + a.items[path.walk.first_item + path.walk.items - 1].slots;
  path.units = (path.slots + kKeyUnit - 1) / kKeyUnit;
  return path;
}

/// Asks for a chunk's slots, which go to one of the two places for them.
__device__ inline void load_slots(const WalkArgs& a, const Path& path, int chunk, int* places) {
  if (chunk >= path.walk.items) return;
  const Item& item = a.items[path.walk.first_item + chunk];
  for (int i = thread(); i < item.slots; i += kThreads)
    copy_4_async(places + chunk % 2 * kKeyChunk + i, a.slots + item.first_slot + i);
}

template <int kSteps>
__device__ inline Queries<kSteps> queries_of(const WalkArgs& a, const Path& path, int first) {
  const auto row_of = [&](int q) { return path.walk.first_row + q / path.group; };
  return load_queries<kSteps>(
      a.padded, first,
      [&](int q) -> const Bf16* {
        if (q >= path.queries) return nullptr;
        const size_t row = static_cast<size_t>(a.first_row + row_of(q)),
                     head = static_cast<size_t>(path.head * path.group + q % path.group);
        return a.q_THP + (row * static_cast<size_t>(a.heads) + head) * static_cast<size_t>(a.padded);
      },
      [&](int q) { return a.sees_T[row_of(q)]; });
}

/// A chunk into what those before it came to, which lies in shared memory where no register holds it meanwhile, and back: `sums` are all that was seen so
/// far.
template <int kTiles>
__device__ inline void add_chunk(const Fold (&chunk)[2], bool first, float4* row, float (&sums)[kTiles][4]) {
  float4& facts = row[kTiles * kThreads + thread()];
  Fold fold[2];
  if (!first) fold[0].top = facts.x, fold[0].total = facts.y, fold[1].top = facts.z, fold[1].total = facts.w;
#pragma unroll
  for (int half = 0; half < 2; ++half) fold[half].add(chunk[half].top, chunk[half].total);
  facts = float4{fold[0].top, fold[0].total, fold[1].top, fold[1].total};
#pragma unroll
  for (int i = 0; i < kTiles; ++i) {
    float4& before = row[i * kThreads + thread()];
    float all[4] = {0, 0, 0, 0};
    if (!first) all[0] = before.x, all[1] = before.y, all[2] = before.z, all[3] = before.w;
#pragma unroll
    for (int e = 0; e < 4; ++e) {
      const Fold& f = fold[e / 2];
      sums[i][e] = all[e] * f.keep + sums[i][e] * f.by;
    }
    before = float4{sums[i][0], sums[i][1], sums[i][2], sums[i][3]};
  }
}

template <int kTiles>
__device__ inline void store_queries(const WalkArgs& a, const Path& path, int first, const float4& facts,
                                     const float (&sums)[kTiles][4]) {
  const int lane = thread() % 32, g = lane / 4, t = lane % 4;
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    const int q = first + g + 8 * half;
    const float total = half == 0 ? facts.y : facts.w;
    if (q >= path.queries) continue;
    const int row = a.first_row + path.walk.first_row + q / path.group, h = path.head * path.group + q % path.group;
#pragma unroll
    for (int i = 0; i < kTiles; ++i) {
      const int k = 8 * i + 2 * t;
      if (k >= a.width) continue;
      *reinterpret_cast<uint32_t*>(a.out_TK.at(row, h * a.width + k)) =
          pair_of(quotient(sums[i][2 * half], total), quotient(sums[i][2 * half + 1], total));
    }
  }
}

/// Zeros behind the last number of a row, by the blocks of the first key head.
__device__ inline void store_padding(const WalkArgs& a, const Path& path) {
  const int whole = a.heads * a.width, padding = (whole + kInnerStep - 1) / kInnerStep * kInnerStep - whole;
  if (block_y() != 0) return;
  for (int i = thread(); i < path.walk.rows * padding; i += kThreads)
    *a.out_TK.at(a.first_row + path.walk.first_row + i / padding, whole + i % padding) = 0;
}

template <int kSteps>
__global__ void __launch_bounds__(kThreads, 2) walk_kernel(WalkArgs a) {
  using S = Sizes<kSteps>;
  using W = WalkSizes<kSteps>;
  let_next_start();
  if (block_x() >= a.counts->walks) return;  // walks, items and slots are the host's: they need not wait
  const Path path = path_of(a);
  Bf16* units = reinterpret_cast<Bf16*>(shared());
  float4* row = reinterpret_cast<float4*>(shared() + W::kUnitBytes);
  int* slots = reinterpret_cast<int*>(shared() + W::kUnitBytes + W::kRowBytes);
  const int first = thread() / 32 * kTileQueries;
  load_slots(a, path, 0, slots);
  commit_copies();
  wait_for_groups<0>();
  sync_block();
  wait_for_previous();
  const Source source = source_of(a, path.head, 0);
  const auto load = [&](int u) {
    load_unit<kSteps, kThreads, 2>(source, slots + u % (2 * kUnits) * kKeyUnit, path.slots - u * kKeyUnit,
                                   units + u % kBuffers * S::kUnitNumbers, thread());
  };
  if (path.units > 0) load(0);
  const Queries<kSteps> queries = queries_of<kSteps>(a, path, first);
  float sums[W::kTiles][4] = {};
  Fold chunk[2];
  for (int u = 0; u < path.units; ++u) {
    wait_for_groups<0>();
    sync_block();  // the unit is there; nobody reads the one before any more
    if (u % kUnits == 0) load_slots(a, path, u / kUnits + 1, slots);
    if (u + 1 < path.units) load(u + 1);
    if (first >= path.queries) continue;
    Chances chances;
    const Bf16* unit = units + u % kBuffers * S::kUnitNumbers;
    const UnitFacts facts = score<kSteps>(queries, unit, u, chances);
#pragma unroll
    for (int half = 0; half < 2; ++half) chunk[half].add(facts.top[half], facts.total[half]);
    add_unit<kSteps, W::kTiles>(chances, unit + S::kKeyNumbers, chunk, sums);
    if ((u + 1) % kUnits != 0 && u + 1 < path.units) continue;
    add_chunk<W::kTiles>(chunk, u < kUnits, row, sums);
    if (u + 1 == path.units) continue;
    chunk[0] = chunk[1] = Fold{};
#pragma unroll
    for (auto& tile : sums)
#pragma unroll
      for (float& sum : tile) sum = 0;
  }
  if (first < path.queries)
    store_queries<W::kTiles>(a, path, first, path.units > 0 ? row[W::kTiles * kThreads + thread()] : float4{0, 0, 0, 0}, sums);
  store_padding(a, path);
}

template <int kSteps>
void launch_walk(const WalkArgs& args, int walks, StreamHandle stream) {
  static_assert(Sizes<kSteps>::kParts == 1);
  launch(walk_kernel<kSteps>, walks, args.kv_heads, kThreads, WalkSizes<kSteps>::kBytes, static_cast<Stream>(stream), args);
}

constexpr int kMostWidth = 128;

size_t bytes_for(int width) {
  return width <= 64 ? WalkSizes<4>::kBytes : width <= 96 ? WalkSizes<6>::kBytes : WalkSizes<8>::kBytes;
}

}  // namespace

bool may_walk(int width) { return width <= kMostWidth && width % 2 == 0 && bytes_for(width) <= shared_limit(); }

void walk(const WalkArgs& args, int walks, StreamHandle stream) {
  if (args.padded <= 64) return launch_walk<4>(args, walks, stream);
  if (args.padded <= 96) return launch_walk<6>(args, walks, stream);
  launch_walk<8>(args, walks, stream);
}

}  // namespace slip::cuda
