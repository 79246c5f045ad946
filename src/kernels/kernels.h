// SPDX-License-Identifier: Apache-2.0
// Arithmetic of the pass: contracts of every operation. Contract W holds for each of them: what is computed for a row depends
// on that row (and, in attention, on the ordered keys that it sees), never on T, the thread count or where things lie.
//
// Layouts are row-major; a suffix names the dimensions (T rows, K inner, N outer, H query heads, G key/value heads).
// Implementations: avx512 (bf16 dot products), avx2, portable; chosen once at run time, SLIPSTREAM_ISA=portable|avx2|avx512
// overrides. Nothing here allocates after set-up; scratch comes from the caller's Workspace.
#pragma once
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/ids.h"
#include "base/result.h"
#include "base/threads.h"
#include "kernels/spans.h"

namespace slip {

enum class Isa : uint8_t { kPortable, kAvx2, kAvx512 };
/// What runs here, and why ("avx512: cpu has avx512f bw vl bf16 vnni").
struct IsaChoice {
  Isa isa;
  std::string reason;
};
const IsaChoice& isa_choice();
/// For tests: run everything on another path from now on. kUnsupported when this machine lacks it.
Status force_isa(Isa isa);

/// Grow-only scratch memory, 64-byte aligned; one per engine thread of control, reused by all operations of a pass.
/// Slots 0 .. 59 are the caller's, 60 .. 63 belong to the operations below.
class Workspace {
 public:
  /// At least `bytes`, contents undefined; valid until the next call with the same `slot`.
  void* get(int slot, size_t bytes);
  template <class T>
  T* get(int slot, size_t count) {
    return static_cast<T*>(get(slot, count * sizeof(T)));
  }
  size_t bytes() const;

 private:
  struct Free {
    void operator()(void* p) const;
  };
  struct Buffer {
    std::unique_ptr<void, Free> memory;
    size_t bytes = 0;
  };
  std::vector<Buffer> buffers_;
};

enum class WeightType : uint8_t { kF32, kBF16, kI8 };

/// A weight matrix w_NK in the layout of the product kernels; made once at load.
class PackedMatrix {
 public:
  int64_t n() const { return n_; }
  int64_t k() const { return k_; }
  WeightType type() const { return type_; }
  size_t bytes() const { return bytes_; }
  const void* data() const { return data_.get(); }
  const float* scales() const { return scales_.get(); }  // kI8: per output channel, padded like the columns
  /// Row n of the stored (rounded, quantised) matrix as f32, for embeddings and tests.
  void row(int64_t n, std::span<float> out_K) const;

 private:
  friend PackedMatrix pack_matrix(WeightType, int64_t, int64_t, const void*, void (*)(const void*, int64_t, float*), ThreadPool&);
  struct Free {
    void operator()(void* p) const;
  };
  std::unique_ptr<void, Free> data_;
  std::unique_ptr<float, Free> scales_;
  int64_t n_ = 0, k_ = 0;
  size_t bytes_ = 0;
  WeightType type_{};
};

/// Packs w_NK; `read_row(context, n, out_K)` delivers one row as f32 (called from many threads).
PackedMatrix pack_matrix(WeightType type, int64_t n, int64_t k, const void* context, void (*read_row)(const void*, int64_t, float*),
                         ThreadPool& pool);
/// The same from a dense f32 matrix.
PackedMatrix pack_matrix(WeightType type, int64_t n, int64_t k, const float* w_NK, ThreadPool& pool);

/// out_TN = x_TK * w_NK^T + bias_N. f32: f32 fma over ascending k. bf16: x is rounded to bf16, pairs of products added in f32 in
/// one fixed order over k. i8: x quantised per row (absmax/127), exact integer sums, scaled at the end. bias may be null.
/// out must not alias x. ldx, ldo: row strides in elements. Error bounds: reference.h.
void matmul(const PackedMatrix& w, const float* x_TK, int64_t rows, int64_t ldx, const float* bias_N, float* out_TN, int64_t ldo,
            ThreadPool& pool, Workspace& workspace);

/// out_T = id of the largest of x_TK * w_NK^T per row, lowest id on ties; never writes the logits (fused head). NaN logits lose.
/// best_T (may be null) gets the largest value. Equal, bit for bit, to matmul followed by argmax.
void matmul_argmax(const PackedMatrix& w, const float* x_TK, int64_t rows, int64_t ldx, TokenId* out_T, float* best_T,
                   ThreadPool& pool, Workspace& workspace);
/// Largest element's index, lowest on ties, NaN loses; -1 only when all are NaN.
int64_t argmax(std::span<const float> x);

/// out_THK = softmax(scale * q_THK . keys) values, grouped heads: query head h reads key/value head h * G / H.
/// keys and values: slot s, head g at base + (s * G + g) * K. f32. Softmax in f32 with running maximum per key block. A row that
/// sees nothing gets zeros. out may not alias q.
struct AttentionArgs {
  const float* q_THK = nullptr;
  const float* keys_SGK = nullptr;
  const float* values_SGK = nullptr;
  float* out_THK = nullptr;
  int64_t rows = 0;
  int32_t heads = 0, kv_heads = 0, head_width = 0;
  float scale = 1;
  std::span<const RowSpans> row_spans;  // one per row
  std::span<const SlotSpan> spans;
  const float* q_scale_T = nullptr;  // optional factor per row on q (Ministral 3)
  // head_width at most kMaxHeadWidth, scale positive.
};
void attention(const AttentionArgs& args, ThreadPool& pool, Workspace& workspace);

/// out_TD = x_TD * rsqrt(mean_d(x^2) + eps) * gain_D. out may alias x.
void rms_norm(const float* x_TD, int64_t rows, int64_t width, const float* gain_D, float eps, float* out_TD, ThreadPool& pool);
/// out_TD = (x - mean) * rsqrt(var + eps) * gain + bias (biased variance). out may alias x.
void layer_norm(const float* x_TD, int64_t rows, int64_t width, const float* gain_D, const float* bias_D, float eps, float* out_TD,
                ThreadPool& pool);
/// x_TD += y_TD.
void add(float* x_TD, const float* y_TD, int64_t rows, int64_t width, ThreadPool& pool);
/// out_TF = silu(gate_TF) * up_TF; out (stride width) may alias either. ldg: stride of gate and up (fused gate|up output; in place
/// there it runs on the caller alone).
void swiglu(const float* gate_TF, const float* up_TF, int64_t rows, int64_t width, int64_t ldg, float* out_TF, ThreadPool& pool);
/// GELU, exact (erf) and tanh form, in place.
void gelu(float* x_TF, int64_t rows, int64_t width, bool tanh_form, ThreadPool& pool);

/// Rotates the first 2 * half elements of every head in place: pairs (i, i + half) by angle cos/sin_T(half). x: rows x heads x
/// head_width with row stride ldx. cos and sin tables are built by rope.h (default, multimodal, YaRN, llama3, 2-D vision).
void rotate(float* x_THK, int64_t rows, int64_t ldx, int32_t heads, int32_t head_width, int32_t half, const float* cos_TK2,
            const float* sin_TK2, ThreadPool& pool);

}  // namespace slip
