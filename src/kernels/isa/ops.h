// SPDX-License-Identifier: Apache-2.0
// Inside of kernels/: the table of functions that every instruction set fills in. Each works on one piece of an
// operation on the calling thread; cutting into pieces and handing them to threads is done once, above the table.
//
// The files that fill it in are compiled with their own machine flags, so nothing here may be an inline function: the
// linker keeps one copy of such a function, and that copy might need a machine that is not there.
#pragma once
#include <cstdint>

#include "kernels/isa/spans.h"

namespace slip {

/// One word of the inner dimension: 1 f32, 2 bf16 or 4 int8, so that all weight types share one loop. Aliases anything.
using Word [[gnu::may_alias]] = uint32_t;

constexpr int64_t kBlockColumns = 64;  // columns of a weight block: 4 zmm, the tile that reaches 90 % of the peak (4 rows x 4 zmm)
constexpr int64_t kGroupRows = 64;     // rows of one piece: its sums are 16 KiB, a third of the L1
constexpr int64_t kChunkSteps = 64;    // words of a chunk: 64 x 64 x 4 bytes = 16 KiB of weights stay in the L1 for all rows
constexpr int64_t kKeyBlock = 64;      // keys added between two looks at the running maximum; part of contract W's order
constexpr int64_t kMaxQueries = 128;   // query rows x heads of one piece of attention

/// sums[r][c] = sum over steps of x_r . w_c for the first `columns` of a block of 64, rows <= kGroupRows; the others may hold
/// anything, and so may rows up to a multiple of 16. `sums` holds f32, or int32 for integer weights (activations are stored as value + DotWeightI8::kOffset).
struct ProductArgs {
  const Word* x = nullptr;
  int64_t ldx = 0, chunk = kChunkSteps;  // words from a row to the next, and from kChunkSteps words of a row to its next
  int64_t rows = 0, steps = 0, columns = kBlockColumns;
  const void* w = nullptr;     // one block (packed_layout.h)
  const void* next = nullptr;  // what this thread reads after the block: prefetched; may be null
  int64_t l1_bytes = 0;        // of this processor's first-level data cache; 0: not known, small
  Word* sums = nullptr;        // [rows, up to a multiple of 16][64]
};

struct FinishArgs {
  const Word* sums = nullptr;
  int64_t rows = 0, columns = 0;  // columns <= 64 are written
  const float* bias = nullptr;    // may be null
  float* out = nullptr;
  int64_t ldo = 0;
  bool accumulate = false;          // out = out + (product + bias)
  const float* x_scales = nullptr;  // integer weights only
  const float* w_scales = nullptr;
  const int32_t* w_sums = nullptr;  // 128 * sum over k of w, taken off again where activations have an offset
};

/// words = x_TK in the words of the weight type, zero-padded to `steps` words per row (int types: scales_T too). With `gain_K` the
/// rows are what rms_norm makes of x; without it f32 needs no packing. Words of all rows stand chunk by chunk, so that what a product
/// reads at a time is contiguous: rows 4 KiB apart would share 4 of the L1's 64 sets.
struct PackArgs {
  const float* x_TK = nullptr;
  int64_t rows = 0, k = 0, ldx = 0;
  const float* gain_K = nullptr;
  float eps = 0;
  Word* words = nullptr;  // of row t: at t * kChunkSteps * x_words, then every `chunk` words
  int64_t steps = 0, chunk = 0;
  float* scales_T = nullptr;
};

/// What is known of some numbers of one row: the largest that is no NaN, where it is (-1: nowhere), the largest of the others, and
/// the sum of e^(number - largest), NaN where a number is NaN.
struct LogitStats {
  float largest = 0, second = 0, sum = 0;
  int32_t at = -1;
};
struct StatsArgs {
  const float* values = nullptr;  // [64]; reads all, uses those in `allowed`
  uint64_t allowed = 0;           // a bit per column
  bool sum = false;               // whether `sum` is wanted
  LogitStats* out = nullptr;
};

/// Rows [row_begin, row_end), query heads [head_begin, head_begin + head_count) which all read key/value head
/// `kv_head`; (row_end - row_begin) * head_count <= kMaxQueries.
struct AttendArgs {
  const float* q_THK = nullptr;
  int64_t ldq = 0;
  const void* keys_SGK = nullptr;  // float, uint16_t (bf16) in attend[1], uint8_t in attend[2]
  const void* values_SGK = nullptr;
  const float* key_scales_SG = nullptr;  // attend[2] only, as AttentionArgs
  const float* value_scales_SG = nullptr;
  float* out_THK = nullptr;
  int64_t slot_stride = 0, head_stride = 0;  // of keys and values, in numbers
  int64_t heads = 0, width = 0;
  float scale = 1;
  const RowSpans* row_spans = nullptr;
  const SlotSpan* spans = nullptr;
  const float* q_scale_T = nullptr;
  int64_t row_begin = 0, row_end = 0, head_begin = 0, head_count = 0, kv_head = 0;
  void* scratch = nullptr;  // attend_bytes[kv_type], at a multiple of 64, this call's alone; contents undefined
};

struct RotateArgs {
  float* x_THK = nullptr;
  int64_t rows = 0, ldx = 0, heads = 0, width = 0, half = 0;
  const float* cos_TK2 = nullptr;
  const float* sin_TK2 = nullptr;
};

struct Ops {
  // Indexed by WeightType: f32, bf16, int8, int4.
  void (*product[4])(const ProductArgs&);
  void (*finish[4])(const FinishArgs&);
  void (*pack_x[4])(const PackArgs&);
  int x_words[4];  // words of memory per word of packed activations
  void (*stats)(const StatsArgs&);
  /// Sum of sum_b * e^(largest_b - largest) over blocks with at >= 0, NaN where one of the sums is NaN.
  float (*sum_of_stats)(const LogitStats* stats_B, int64_t blocks, float largest);
  // By KvType. The scratch is nearly half a megabyte: too much for the stack of a caller's own thread.
  void (*attend[3])(const AttendArgs&);
  int64_t attend_bytes[3];
  /// Numbers of the key/value cache by KvType, those with a scale apart; out may lie at any multiple of a number's size.
  void (*to_kv[2])(const float* x, int64_t n, void* out);
  void (*to_bytes)(const float* x, int64_t n, bool key, uint8_t* out, float* scale);
  void (*rms_norm)(const float* x_TD, int64_t rows, int64_t width, const float* gain_D, float eps, float* out_TD);
  void (*layer_norm)(const float* x_TD, int64_t rows, int64_t width, const float* gain_D, const float* bias_D, float eps,
                     float* out_TD);
  void (*add)(float* x, const float* y, int64_t n);
  void (*swiglu)(const float* gate, const float* up, int64_t n, float* out);
  void (*gelu)(float* x, int64_t n, bool tanh_form);
  void (*rotate)(const RotateArgs&);
  /// Some sum of n words, read in four streams at full speed (probe.h); n a multiple of 256.
  Word (*fold)(const Word* words, int64_t n);
};

/// Null where the build or the machine's instruction set lacks them (no_x86.cc and no_arm.cc refuse on other processors).
const Ops* portable_ops();
const Ops* avx2_ops();
const Ops* avxvnni_ops();     // that of AVX2, with other products of integers
const Ops* avx512vnni_ops();  // the bits of AVX2
const Ops* avx512vbmi_ops();  // that of avx512vnni, with other ways to unpack int4 and to lay bytes side by side
const Ops* avx512_ops();
const Ops* amx_ops();
const Ops* neon_ops();
const Ops* i8mm_ops();  // that of NEON, with other products of integers
/// The chosen one.
const Ops& ops();

}  // namespace slip
