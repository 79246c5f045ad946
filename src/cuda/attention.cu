// SPDX-License-Identifier: Apache-2.0
// Attention over spans on a device: a block takes one item (up to 256 slots and the rows that see them) for one key/value head. Queries are
// (row, head of the group) pairs, 16 to a warp, whose scores, probabilities and sums stay in registers [Dao, FlashAttention-2]. Keys are taken in units
// of 64: a unit's sums are relative to its own largest score, and units are folded in their order. So one warp that walks all units and four warps
// with a unit each come to the same bits; the second is for short passes. `join` folds what a row's items came to, in their order; walk.cu does both at once
// for long passes. Scores are in powers of two.
#include "cuda/attention_units.h"

namespace slip::cuda {
namespace {

/// What a block works on.
struct Job {
  Item item;
  int group, queries, head, first_value;  // query heads per key head; of the item; key head; of its values
};

template <int kSteps>
__device__ inline Job job_of(const AttendArgs& a) {
  constexpr int kParts = Sizes<kSteps>::kParts;
  Job job;
  job.item = a.items[block_x()];
  job.group = a.heads / a.kv_heads;
  job.queries = job.item.rows * job.group;
  job.head = block_y() / kParts;
  job.first_value = block_y() % kParts * kMostValues;
  return job;
}

template <int kSteps>
__device__ inline Queries<kSteps> queries_of(const AttendArgs& a, const Job& job, int first) {
  const auto item_row = [&](int q) { return a.item_rows[job.item.first_row + q / job.group]; };
  return load_queries<kSteps>(
      a.padded, first,
      [&](int q) -> const Bf16* {
        if (q >= job.queries) return nullptr;
        const size_t head = static_cast<size_t>(job.head * job.group + q % job.group);
        return a.q_THP +
               (static_cast<size_t>(item_row(q).row) * static_cast<size_t>(a.heads) + head) * static_cast<size_t>(a.padded);
      },
      [&](int q) { return item_row(q).sees; });
}

__device__ inline size_t place_of(const AttendArgs& a, const Job& job, int q) {
  const size_t partial = static_cast<size_t>(a.item_rows[job.item.first_row + q / job.group].partial);
  return partial * static_cast<size_t>(a.heads) + static_cast<size_t>(job.head * job.group + q % job.group);
}

struct AttendPlan {
  AttendArgs a;
  int32_t buffers;  // units in shared memory at a time: one or two
};

/// Up to 64 queries: a warp takes 16 and walks the units.
template <int kSteps>
__global__ void __launch_bounds__(kThreads, 2) attend_many_kernel(AttendPlan p) {
  using S = Sizes<kSteps>;
  const AttendArgs& a = p.a;
  let_next_start();
  if (block_x() >= a.counts->items) return;  // items and slots are the host's: they need not wait
  const Job job = job_of<kSteps>(a);
  Bf16* units = reinterpret_cast<Bf16*>(shared());
  int* slots = reinterpret_cast<int*>(units + p.buffers * S::kUnitNumbers);
  const int n = (job.item.slots + kKeyUnit - 1) / kKeyUnit, first = thread() / 32 * kTileQueries;
  for (int i = thread(); i < job.item.slots; i += kThreads) slots[i] = a.slots[job.item.first_slot + i];
  sync_block();
  wait_for_previous();
  const Source source = source_of(a, job.head, job.first_value);
  const auto load = [&](int u) {
    load_unit<kSteps, kThreads, 2>(source, slots + u * kKeyUnit, job.item.slots - u * kKeyUnit,
                                   units + u % p.buffers * S::kUnitNumbers, thread());
  };
  for (int u = 0; u < p.buffers && u < n; ++u) load(u);
  const Queries<kSteps> queries = queries_of<kSteps>(a, job, first);
  constexpr int kTiles = S::kValues / 8;
  float sums[kTiles][4] = {};
  Fold fold[2];
  for (int u = 0; u < n; ++u) {
    if (u + 1 < n && p.buffers > 1)
      wait_for_groups<1>();  // the next unit's
    else
      wait_for_groups<0>();
    sync_block();
    const Bf16* unit = units + u % p.buffers * S::kUnitNumbers;
    if (first < job.queries) {
      Chances chances;
      const UnitFacts facts = score<kSteps>(queries, unit, u, chances);
#pragma unroll
      for (int half = 0; half < 2; ++half) fold[half].add(facts.top[half], facts.total[half]);
      add_unit<kSteps, kTiles>(chances, unit + S::kKeyNumbers, fold, sums);
    }
    if (u + p.buffers >= n) continue;
    sync_block();
    load(u + p.buffers);
  }
  const int lane = thread() % 32, g = lane / 4, t = lane % 4;
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    const int q = first + g + 8 * half;
    if (q >= job.queries) continue;
    const size_t place = place_of(a, job, q);
#pragma unroll
    for (int i = 0; i < kTiles; ++i)
#pragma unroll
      for (int e = 0; e < 2; ++e) {
        const int k = job.first_value + 8 * i + 2 * t + e;
        if (k < a.padded) a.sums_NHP[place * static_cast<size_t>(a.padded) + static_cast<size_t>(k)] = sums[i][2 * half + e];
      }
    if (t != 0 || job.first_value != 0) continue;
    a.tops_NH[place] = fold[half].top;
    a.totals_NH[place] = fold[half].total;
  }
}

/// Of a block whose warps have a unit each, behind its units: by unit and query.
template <int kQueries>
struct Facts {
  float top[kUnits][kQueries], total[kUnits][kQueries], keep[kUnits][kQueries], by[kUnits][kQueries];
  int seen[kUnits][kQueries], slots[kKeyChunk];
  size_t place[kQueries];
};

/// Up to 16 kTiles queries: a warp takes 16 queries and a unit.
template <int kSteps, int kTiles>
__global__ void __launch_bounds__(32 * kUnits * kTiles, 1) attend_units_kernel(AttendArgs a) {
  using S = Sizes<kSteps>;
  constexpr int kQueries = kTiles * kTileQueries, kUnitThreads = 32 * kTiles, kBlockThreads = kUnits * kUnitThreads;
  constexpr int kValueTiles = S::kValues / 8, kSumStride = S::kValues + kGap;
  static_assert(kQueries * kSumStride * 2 <= S::kUnitNumbers);
  let_next_start();
  if (block_x() >= a.counts->items) return;  // items and slots are the host's: they need not wait
  const Job job = job_of<kSteps>(a);
  Bf16* units = reinterpret_cast<Bf16*>(shared());
  Facts<kQueries>& facts = *reinterpret_cast<Facts<kQueries>*>(units + kUnits * S::kUnitNumbers);
  const int n = (job.item.slots + kKeyUnit - 1) / kKeyUnit, u = thread() / kUnitThreads, me = thread() % kUnitThreads;
  const int lane = thread() % 32, g = lane / 4, t = lane % 4, first = me / 32 * kTileQueries;
  for (int i = thread(); i < job.item.slots; i += kBlockThreads) facts.slots[i] = a.slots[job.item.first_slot + i];
  if (thread() < job.queries) facts.place[thread()] = place_of(a, job, thread());
  sync_block();
  Bf16* unit = units + u * S::kUnitNumbers;
  const bool works = u < n && first < job.queries, fresh = (job.item.fresh >> u & 1) != 0;
  float sums[kValueTiles][4];
  // What was there before this pass comes in while the kernel before ends.
  const Source source = source_of(a, job.head, job.first_value);
  const auto load = [&] {
    load_unit<kSteps, kUnitThreads, 4>(source, facts.slots + u * kKeyUnit, job.item.slots - u * kKeyUnit, unit, me);
  };
  if (u < n && !fresh) load();
  wait_for_previous();
  if (u < n && fresh) load();
  Queries<kSteps> queries;
  if (works) queries = queries_of<kSteps>(a, job, first);
  wait_for_groups<0>();
  if (kTiles > 1)
    sync_block();
  else
    sync_warp();
  if (works) {
    Chances chances;
    const UnitFacts own = score<kSteps>(queries, unit, u, chances);
    weigh<kSteps>(chances, unit + S::kKeyNumbers, 0, sums);
    if (t == 0)
      for (int half = 0; half < 2; ++half) {
        facts.top[u][first + g + 8 * half] = own.top[half];
        facts.total[u][first + g + 8 * half] = own.total[half];
      }
  }
  sync_block();  // keys and values are not needed any more: the sums take their place
  if (works) {
    float* out = reinterpret_cast<float*>(unit);
#pragma unroll
    for (int i = 0; i < kValueTiles; ++i)
#pragma unroll
      for (int e = 0; e < 4; ++e) out[(first + g + 8 * (e / 2)) * kSumStride + 8 * i + 2 * t + e % 2] = sums[i][e];
  }
  if (thread() < job.queries) {
    const int q = thread();
    Fold fold;
    for (int i = 0; i < n; ++i) {
      fold.add(facts.top[i][q], facts.total[i][q]);
      facts.keep[i][q] = fold.keep;
      facts.by[i][q] = fold.by;
      facts.seen[i][q] = fold.seen;
    }
    if (job.first_value == 0) {
      a.tops_NH[facts.place[q]] = fold.top;
      a.totals_NH[facts.place[q]] = fold.total;
    }
  }
  sync_block();
  constexpr int kQuads = S::kValues / 4;
  for (int i = thread(); i < job.queries * kQuads; i += kBlockThreads) {
    const int q = i / kQuads, k = i % kQuads * 4;
    if (job.first_value + k >= a.padded) continue;
    float4 sum = {0, 0, 0, 0};
    for (int v = 0; v < n; ++v) {
      if (facts.seen[v][q] == 0) continue;
      const float4 own =
          *reinterpret_cast<const float4*>(reinterpret_cast<const float*>(units + v * S::kUnitNumbers) + q * kSumStride + k);
      const float keep = facts.keep[v][q], by = facts.by[v][q];
      sum = float4{sum.x * keep + own.x * by, sum.y * keep + own.y * by, sum.z * keep + own.z * by, sum.w * keep + own.w * by};
    }
    *reinterpret_cast<float4*>(a.sums_NHP + facts.place[q] * static_cast<size_t>(a.padded) +
                               static_cast<size_t>(job.first_value + k)) = sum;
  }
}

constexpr int kJoinThreads = 256;

/// A thread takes four numbers of a head and folds what the row's items came to, in their order.
__global__ void __launch_bounds__(kJoinThreads) join_kernel(JoinArgs a) {
  let_next_start();
  const int t = block_x(), quads = a.padded / 4, i = block_y() * kJoinThreads + thread(), h = i / quads, k = i % quads * 4;
  if (t >= a.counts->rows) return;
  const int first = a.first_partial_T[t], end = a.first_partial_T[t + 1];
  wait_for_previous();
  if (h < a.heads && k < a.width) {
    Fold fold;
    float4 sum = {0, 0, 0, 0};
#pragma unroll 4
    for (int p = first; p < end; ++p) {
      const size_t place = static_cast<size_t>(p) * static_cast<size_t>(a.heads) + static_cast<size_t>(h);
      const float top = a.tops_NH[place], total = a.totals_NH[place];
      const float4 own =
          *reinterpret_cast<const float4*>(a.sums_NHP + place * static_cast<size_t>(a.padded) + static_cast<size_t>(k));
      fold.add(top, total);
      if (fold.seen)
        sum = float4{sum.x * fold.keep + own.x * fold.by, sum.y * fold.keep + own.y * fold.by, sum.z * fold.keep + own.z * fold.by,
                     sum.w * fold.keep + own.w * fold.by};
    }
    const float v[4] = {sum.x, sum.y, sum.z, sum.w};
    for (int e = 0; e < 4 && k + e < a.width; ++e)
      *a.out_TK.at(a.first_row + t, h * a.width + k + e) = to_bf16(quotient(v[e], fold.total));
  }
  const int whole = a.heads * a.width, padding = (whole + kInnerStep - 1) / kInnerStep * kInnerStep - whole;
  if (i < padding) *a.out_TK.at(a.first_row + t, whole + i) = 0;
}

template <int kSteps, int kTiles>
bool launch_units(const AttendArgs& args, int columns, int rows, StreamHandle stream) {
  const size_t bytes = kUnits * Sizes<kSteps>::kUnitNumbers * sizeof(Bf16) + sizeof(Facts<kTiles * kTileQueries>);
  if (bytes > shared_limit()) return false;
  launch(attend_units_kernel<kSteps, kTiles>, columns, rows, 32 * kUnits * kTiles, bytes, static_cast<Stream>(stream), args);
  return true;
}

template <int kSteps>
void launch_attend(const AttendArgs& args, int items, int queries, StreamHandle stream, int typical, int most_unit_blocks) {
  using S = Sizes<kSteps>;
  const int rows = args.kv_heads * S::kParts;
  if (queries <= kFewQueries && launch_units<kSteps, 1>(args, items, rows, stream)) return;
  if constexpr (kSteps < 16)  // the widest heads would not fit the registers
    if (typical * rows <= most_unit_blocks && launch_units<kSteps, 4>(args, items, rows, stream)) return;
  constexpr size_t kUnitBytes = S::kUnitNumbers * sizeof(Bf16), kSlotBytes = kKeyChunk * sizeof(int);
  // There are more blocks than processors: several to a processor hide each other's waits.
  int buffers = kUnits / 2;
  while (buffers > 1 && static_cast<size_t>(buffers) * kUnitBytes + kSlotBytes > shared_limit()) --buffers;
  launch(attend_many_kernel<kSteps>, items, rows, kThreads, static_cast<size_t>(buffers) * kUnitBytes + kSlotBytes,
         static_cast<Stream>(stream), AttendPlan{args, buffers});
}

}  // namespace

void attend(const AttendArgs& args, int items, int queries, StreamHandle stream, int typical, int most_unit_blocks) {
  if (args.padded <= 64) return launch_attend<4>(args, items, queries, stream, typical, most_unit_blocks);
  if (args.padded <= 96) return launch_attend<6>(args, items, queries, stream, typical, most_unit_blocks);
  if (args.padded <= 128) return launch_attend<8>(args, items, queries, stream, typical, most_unit_blocks);
  launch_attend<16>(args, items, queries, stream, typical, most_unit_blocks);
}

void join(const JoinArgs& args, int rows, StreamHandle stream) {
  launch(join_kernel, rows, (args.heads * (args.padded / 4) + kJoinThreads - 1) / kJoinThreads, kJoinThreads, 0,
         static_cast<Stream>(stream), args);
}

}  // namespace slip::cuda
