// SPDX-License-Identifier: Apache-2.0
// Attention over spans on a device: a block takes one item (up to 256 slots and the rows that see them) for one key/value head, walks its
// blocks of 64 keys with a running maximum [Dao et al., FlashAttention], and leaves sums that `join` puts together in the order of chunks.
// All query heads of a group and all rows of the item share each key and value. Scores are in powers of two.
#include "cuda/gpu.h"
#include "cuda/kernels.h"
#include "cuda/numbers.h"

namespace slip::cuda {
namespace {

using namespace gpu;

constexpr int kWarps = 4, kThreads = 32 * kWarps;
constexpr int kGap = 8;                             // bf16 between rows in shared memory, so that eight rows start in eight banks
constexpr int kScoreStride = kKeyBlock + 4;         // floats
constexpr int kChanceStride = kKeyBlock + kGap;     // bf16
constexpr float kNothing = -__builtin_huge_valf();  // score of a key that is not seen

/// Shared memory of a block.
struct Room {
  Bf16 *keys, *values, *queries, *chances;
  float *scores, *top, *total, *keep;
};

__host__ __device__ inline size_t room_bytes(int queries, int padded) {
  const size_t stride = static_cast<size_t>(padded + kGap), q = static_cast<size_t>(queries);
  return 2 * (2 * kKeyBlock * stride + q * stride + q * kChanceStride) + 4 * q * (kScoreStride + 3);
}

__device__ inline Room make_room(int queries, int padded) {
  const int stride = padded + kGap;
  Room r;
  r.keys = reinterpret_cast<Bf16*>(shared());
  r.values = r.keys + kKeyBlock * stride;
  r.queries = r.values + kKeyBlock * stride;
  r.chances = r.queries + queries * stride;
  r.scores = reinterpret_cast<float*>(r.chances + queries * kChanceStride);
  r.top = r.scores + queries * kScoreStride;
  r.total = r.top + queries;
  r.keep = r.total + queries;
  return r;
}

/// Sixteen bytes of zeros or of memory.
__device__ inline void copy_or_clear(Bf16* to, const Bf16* from) {
  if (from)
    copy_16_async(to, from);
  else
    *reinterpret_cast<uint4*>(to) = uint4{0, 0, 0, 0};
}

__device__ inline void load_queries(const AttendArgs& a, const Item& item, const Room& room, int queries) {
  const int group = a.heads / a.kv_heads, chunks = a.padded / 8, stride = a.padded + kGap;
  for (int i = thread(); i < queries * chunks; i += kThreads) {
    const int q = i / chunks, c = i % chunks;
    const Bf16* from = nullptr;
    if (q < item.rows * group) {
      const size_t row = static_cast<size_t>(a.item_rows[item.first_row + q / group].row);
      from = a.q_THP +
             (row * static_cast<size_t>(a.heads) + static_cast<size_t>(block_y() * group + q % group)) *
                 static_cast<size_t>(a.padded) +
             c * 8;
    }
    copy_or_clear(room.queries + q * stride + c * 8, from);
  }
  for (int q = thread(); q < queries; q += kThreads) {
    room.top[q] = kNothing;
    room.total[q] = 0;
  }
}

__device__ inline void load_keys(const AttendArgs& a, const Item& item, const Room& room, int first) {
  const int chunks = a.padded / 8, stride = a.padded + kGap;
  for (int i = thread(); i < kKeyBlock * chunks; i += kThreads) {
    const int j = i / chunks, c = i % chunks, key = first + j;
    const Bf16 *k = nullptr, *v = nullptr;
    if (key < item.slots) {
      const size_t slot = static_cast<size_t>(a.slots[item.first_slot + key]);
      const size_t at = (slot * static_cast<size_t>(a.kv_heads) + static_cast<size_t>(block_y())) * static_cast<size_t>(a.padded) +
                        static_cast<size_t>(c * 8);
      k = a.keys_SGP + at;
      v = a.values_SGP + at;
    }
    copy_or_clear(room.keys + j * stride + c * 8, k);
    copy_or_clear(room.values + j * stride + c * 8, v);
  }
  wait_for_copies();
}

/// scores[q][j] = query q . key j; a warp has 16 keys.
template <int kColumns>
__device__ inline void score(const Room& room, int padded) {
  const int warp = thread() / 32, lane = thread() % 32, g = lane / 4, t = lane % 4, stride = padded + kGap;
  float sums[kColumns][4] = {};
  for (int s = 0; s < padded; s += kInnerStep) {
    const uint4 low = *reinterpret_cast<const uint4*>(room.keys + (16 * warp + g) * stride + s + 8 * t);
    const uint4 high = *reinterpret_cast<const uint4*>(room.keys + (16 * warp + g + 8) * stride + s + 8 * t);
#pragma unroll
    for (int n = 0; n < kColumns; ++n) {
      const uint4 b = *reinterpret_cast<const uint4*>(room.queries + (n * 8 + g) * stride + s + 8 * t);
      mma_bf16(sums[n], low.x, high.x, low.y, high.y, b.x, b.y);
      mma_bf16(sums[n], low.z, high.z, low.w, high.w, b.z, b.w);
    }
  }
#pragma unroll
  for (int n = 0; n < kColumns; ++n)
#pragma unroll
    for (int e = 0; e < 4; ++e) room.scores[(n * 8 + 2 * t + e % 2) * kScoreStride + 16 * warp + g + 8 * (e / 2)] = sums[n][e];
}

/// Scores become probabilities relative to the running maximum; a warp does one query at a time, a lane two keys.
__device__ inline void soften(const AttendArgs& a, const Item& item, const Room& room, int queries, int first) {
  const int lane = thread() % 32, group = a.heads / a.kv_heads;
  for (int q = thread() / 32; q < queries; q += kWarps) {
    const int sees = q < item.rows * group ? a.item_rows[item.first_row + q / group].sees - first : 0;
    float x[2], most = kNothing;
    for (int i = 0; i < 2; ++i) {
      const int j = lane + 32 * i;
      x[i] = j < sees ? room.scores[q * kScoreStride + j] : kNothing;
      most = x[i] > most ? x[i] : most;
    }
    for (int mask = 16; mask > 0; mask /= 2) {
      const float other = shuffle_xor(most, mask);
      most = other > most ? other : most;
    }
    const float before = room.top[q], top = most > before ? most : before;
    const bool any = top > kNothing;
    float sum = 0;
    for (int i = 0; i < 2; ++i) {
      const int j = lane + 32 * i;
      const float p = j < sees ? power_of_2(x[i] - top) : 0.0F;
      room.chances[q * kChanceStride + j] = to_bf16(p);
      sum += p;
    }
    for (int mask = 16; mask > 0; mask /= 2) sum += shuffle_xor(sum, mask);
    if (lane != 0) continue;
    const float keep = any ? power_of_2(before - top) : 1.0F;
    room.keep[q] = keep;
    room.total[q] = room.total[q] * keep + sum;
    room.top[q] = top;
  }
}

/// sums (16 head numbers x 8 queries per tile) = sums * keep + values^T chances.
template <int kTiles, int kColumns>
__device__ inline void weigh(const Room& room, int padded, float (&sums)[kTiles][kColumns][4]) {
  const int warp = thread() / 32, lane = thread() % 32, g = lane / 4, t = lane % 4, stride = padded + kGap;
#pragma unroll
  for (int m = 0; m < kTiles; ++m) {
    const int tile = warp + kWarps * m;
    if (tile * 16 >= padded) continue;  // a whole warp
#pragma unroll
    for (int n = 0; n < kColumns; ++n)
#pragma unroll
      for (int e = 0; e < 4; ++e) sums[m][n][e] *= room.keep[n * 8 + 2 * t + e % 2];
    for (int k = 0; k < kKeyBlock; k += 16) {
      uint32_t v[4];
      // Matrices: head numbers 0-7 and 8-15 of keys 0-7, then of keys 8-15.
      const int matrix = lane / 8;
      load_matrix_4_transposed(v, room.values + (k + lane % 8 + 8 * (matrix / 2)) * stride + tile * 16 + 8 * (matrix % 2));
#pragma unroll
      for (int n = 0; n < kColumns; ++n) {
        const Bf16* p = room.chances + (n * 8 + g) * kChanceStride + k + 2 * t;
        mma_bf16(sums[m][n], v[0], v[1], v[2], v[3], *reinterpret_cast<const uint32_t*>(p),
                 *reinterpret_cast<const uint32_t*>(p + 8));
      }
    }
  }
}

template <int kTiles, int kColumns>
__device__ inline void store(const AttendArgs& a, const Item& item, const Room& room, const float (&sums)[kTiles][kColumns][4]) {
  const int warp = thread() / 32, lane = thread() % 32, g = lane / 4, t = lane % 4, group = a.heads / a.kv_heads;
  const auto place_of = [&](int q) {
    const size_t partial = static_cast<size_t>(a.item_rows[item.first_row + q / group].partial);
    return partial * static_cast<size_t>(a.heads) + static_cast<size_t>(block_y() * group + q % group);
  };
#pragma unroll
  for (int m = 0; m < kTiles; ++m) {
    const int tile = warp + kWarps * m;
    if (tile * 16 >= a.padded) continue;
#pragma unroll
    for (int n = 0; n < kColumns; ++n)
#pragma unroll
      for (int e = 0; e < 4; ++e) {
        const int q = n * 8 + 2 * t + e % 2;
        if (q >= item.rows * group) continue;
        a.sums_NHP[place_of(q) * static_cast<size_t>(a.padded) + static_cast<size_t>(tile * 16 + g + 8 * (e / 2))] = sums[m][n][e];
      }
  }
  for (int q = thread(); q < item.rows * group; q += kThreads) {
    a.tops_NH[place_of(q)] = room.top[q];
    a.totals_NH[place_of(q)] = room.total[q];
  }
}

/// One block a processor at least: with more in mind the compiler spills.
template <int kTiles, int kColumns>
__global__ void __launch_bounds__(kThreads, 1) attend_kernel(AttendArgs a) {
  let_next_start();
  wait_for_previous();
  if (block_x() >= a.counts->items) return;
  const Item item = a.items[block_x()];
  const int queries = kColumns * 8;
  const Room room = make_room(queries, a.padded);
  load_queries(a, item, room, queries);
  float sums[kTiles][kColumns][4] = {};
  for (int first = 0; first < item.slots; first += kKeyBlock) {
    load_keys(a, item, room, first);
    sync_block();
    score<kColumns>(room, a.padded);
    sync_block();
    soften(a, item, room, queries, first);
    sync_block();
    weigh<kTiles, kColumns>(room, a.padded, sums);
    sync_block();
  }
  store<kTiles, kColumns>(a, item, room, sums);
}

constexpr int kMostJoinThreads = 256;  // the widest head
constexpr int kJoinChunk = 128;        // partials whose factors are made at a time

/// A thread per number of the head; every one adds the partials in their order.
__global__ void __launch_bounds__(kMostJoinThreads) join_kernel(JoinArgs a) {
  let_next_start();
  wait_for_previous();
  const int t = block_x(), h = block_y(), k = thread(), threads = (a.width + 31) / 32 * 32;
  if (t >= a.counts->rows) return;
  float *factors = reinterpret_cast<float*>(shared()), *totals = factors + kJoinChunk;
  const int first = a.first_partial_T[t], last = a.first_partial_T[t + 1];
  const auto at = [&](int i) { return static_cast<size_t>(i) * static_cast<size_t>(a.heads) + static_cast<size_t>(h); };
  float top = kNothing;
  for (int i = first; i < last; ++i) top = a.tops_NH[at(i)] > top ? a.tops_NH[at(i)] : top;
  float total = 0, sum = 0;
  for (int begin = first; begin < last; begin += kJoinChunk) {
    const int n = last - begin < kJoinChunk ? last - begin : kJoinChunk;
    sync_block();  // the last chunk's factors were used
    for (int i = k; i < n; i += threads) {
      factors[i] = power_of_2(a.tops_NH[at(begin + i)] - top);
      totals[i] = a.totals_NH[at(begin + i)];
    }
    sync_block();
    for (int i = 0; i < n; ++i) {
      total += totals[i] * factors[i];
      if (k < a.width) sum += a.sums_NHP[at(begin + i) * static_cast<size_t>(a.padded) + static_cast<size_t>(k)] * factors[i];
    }
  }
  if (k < a.width)
    a.out_TK[static_cast<size_t>(t) * static_cast<size_t>(a.ldo) + static_cast<size_t>(h * a.width + k)] = to_bf16(sum / total);
}

template <int kTiles, int kColumns>
void launch_attend(const AttendArgs& args, int items, StreamHandle stream) {
  launch(attend_kernel<kTiles, kColumns>, items, args.kv_heads, kThreads, room_bytes(kColumns * 8, args.padded),
         static_cast<Stream>(stream), args);
}

template <int kTiles>
void launch_attend_of(const AttendArgs& args, int items, int queries, StreamHandle stream) {
  if (queries <= 8) return launch_attend<kTiles, 1>(args, items, stream);
  if (queries <= 16) return launch_attend<kTiles, 2>(args, items, stream);
  if (queries <= 32) return launch_attend<kTiles, 4>(args, items, stream);
  launch_attend<kTiles, 8>(args, items, stream);
}

}  // namespace

void attend(const AttendArgs& args, int items, int queries, StreamHandle stream) {
  if (args.padded <= 64) return launch_attend_of<1>(args, items, queries, stream);
  if (args.padded <= 128) return launch_attend_of<2>(args, items, queries, stream);
  launch_attend_of<4>(args, items, queries, stream);
}

void join(const JoinArgs& args, int rows, StreamHandle stream) {
  launch(join_kernel, rows, args.heads, (args.width + 31) / 32 * 32, 2 * kJoinChunk * sizeof(float), static_cast<Stream>(stream),
         args);
}

}  // namespace slip::cuda
