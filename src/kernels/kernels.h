// SPDX-License-Identifier: Apache-2.0
// Arithmetic of the pass: contracts of every operation. Contract W holds for each of them: what is computed for a row depends
// on that row (and, in attention, on the ordered keys that it sees), never on T, the thread count or where things lie.
//
// Layouts are row-major; a suffix names the dimensions (T rows, K inner, N outer, H query heads, G key/value heads).
// Implementations: amx (avx512 with products by the matrix unit), avx512 (bf16 dot products), avx512vnni (without them, the bits of avx2), avx2,
// neon (the bits of avx2), portable; chosen once at run time, SLIPSTREAM_ISA=portable|avx2|avx512vnni|avx512|neon|amx overrides. Nothing here allocates after set-up; scratch comes from the caller's Workspace.
#pragma once
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/ids.h"
#include "base/result.h"
#include "base/threads/threads.h"
#include "kernels/isa/spans.h"

namespace slip {

enum class Isa : uint8_t { kPortable, kAvx2, kAvx512, kNeon, kAmx, kAvx512Vnni };
constexpr Isa kIsas[] = {Isa::kPortable, Isa::kAvx2, Isa::kAvx512, Isa::kNeon, Isa::kAmx, Isa::kAvx512Vnni};
/// "avx2", as SLIPSTREAM_ISA spells it.
std::string_view word_of(Isa isa);
/// The set whose bits it has, as golden.json spells it: avx512vnni and neon have those of avx2.
std::string_view bits_of(Isa isa);
/// What runs here, and why ("avx2: SLIPSTREAM_ISA").
struct IsaChoice {
  Isa isa;
  std::string reason;
};
const IsaChoice& isa_choice();
/// Who asks for a set asks for its bits: kUsage where SLIPSTREAM_ISA names none, kUnsupported where this machine lacks it. The best one runs then.
Status check_isa_wish();
/// For tests: run everything on another path from now on. kUnsupported when this machine lacks it.
Status force_isa(Isa isa);

/// Grow-only scratch memory, 64-byte aligned; one per engine thread of control, reused by all operations of a pass.
/// Slots 0 .. 58 are the caller's, 59 .. 63 belong to the operations below.
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

enum class WeightType : uint8_t { kF32, kBF16, kI8, kI4 };
constexpr int kWeightTypeCount = 4;

/// Version of the bytes in PackedMatrix::blob(). A stored blob of another version has to be packed again.
constexpr uint32_t kPackedVersion = 2;
constexpr size_t kPackedAlignment = 64;  // of a blob in memory, and of everything inside

/// A weight matrix w_NK in the layout of the product kernels: one blob of bytes (packed_layout.h), made by pack_matrix or lying in
/// a mapped file. Copies share the blob, which nobody writes. Little-endian, the same on every instruction set.
class PackedMatrix {
 public:
  /// Size of the blob; a multiple of kPackedAlignment.
  static size_t packed_bytes(WeightType type, int64_t n, int64_t k);
  /// Uses `blob` where it lies; `owner` keeps it alive. kBadInput for n or k that this type cannot have, a wrong size, a wrong
  /// alignment, and scales that are not finite or negative (of int types; n numbers are read). The weights themselves are not
  /// read: any bytes in them are safe, and NaN among f32 and bf16 weights stays the caller's matter.
  static Result<PackedMatrix> view(WeightType type, int64_t n, int64_t k, std::span<const std::byte> blob,
                                   std::shared_ptr<const void> owner);
  int64_t n() const { return n_; }
  int64_t k() const { return k_; }
  WeightType type() const { return type_; }
  size_t bytes() const { return bytes_; }
  std::span<const std::byte> blob() const { return {base_, bytes_}; }
  const void* data() const { return base_; }
  const float* scales() const;  // kI8, kI4: per output channel, padded like the columns; null for others
  /// Row n of the stored (rounded, quantised) matrix as f32, for embeddings and tests.
  void row(int64_t n, std::span<float> out_K) const;

 private:
  friend PackedMatrix pack_matrix(WeightType, int64_t, int64_t, const void*, void (*)(const void*, int64_t, float*), ThreadPool&);
  std::shared_ptr<const void> owner_;
  const std::byte* base_ = nullptr;
  int64_t n_ = 0, k_ = 0;
  size_t bytes_ = 0;
  WeightType type_{};
};

/// Packs w_NK; `read_row(context, n, out_K)` delivers one row as f32 (called from many threads).
PackedMatrix pack_matrix(WeightType type, int64_t n, int64_t k, const void* context, void (*read_row)(const void*, int64_t, float*),
                         ThreadPool& pool);
/// The same from a dense f32 matrix.
PackedMatrix pack_matrix(WeightType type, int64_t n, int64_t k, const float* w_NK, ThreadPool& pool);
/// The same into `blob` (a mapped output file, say): packed_bytes long, aligned to kPackedAlignment; every byte is written.
void pack_matrix_into(WeightType type, int64_t n, int64_t k, const void* context, void (*read_row)(const void*, int64_t, float*),
                      ThreadPool& pool, std::span<std::byte> blob);

/// out_TN = x_TK * w_NK^T + bias_N. f32: f32 fma over ascending k. bf16: x is rounded to bf16, pairs of products added in f32 in
/// one fixed order over k. i8: x quantised per row (absmax/127), exact integer sums, scaled at the end. i4: the same; a weight is
/// channel scale * one of 128 small integers (packed_layout.h). bias may be null.
/// out must not alias x. ldx, ldo: row strides in elements. Error bounds: testing/reference_testing.h.
void matmul(const PackedMatrix& w, const float* x_TK, int64_t rows, int64_t ldx, const float* bias_N, float* out_TN, int64_t ldo,
            ThreadPool& pool, Workspace& workspace);

/// Fused forms. Each has, bit for bit, the result of the plain operations that it names, at every width and thread count.

/// Rows for a product: x_TK (stride ldx) as they are, or, with gain_K, rms_norm(x, gain, eps) computed on the way in; the normed
/// rows are never stored as f32 where the weights are narrower.
struct ProductInput {
  const float* x_TK = nullptr;
  int64_t rows = 0, ldx = 0;
  const float* gain_K = nullptr;
  float eps = 0;
};
/// Where a product goes: out = xw + bias, or (accumulate) out = out + (xw + bias), the residual add.
struct ProductOutput {
  float* out_TN = nullptr;
  int64_t ldo = 0;
  const float* bias_N = nullptr;
  bool accumulate = false;
};
/// [rms_norm,] matmul [, add]. out may not alias x, except that with accumulate and without gain nothing but x itself is shared.
void matmul(const PackedMatrix& w, const ProductInput& x, const ProductOutput& out, ThreadPool& pool, Workspace& workspace);
/// [rms_norm,] matmul, swiglu: out_TF = silu(gate) * up, where rows 0 .. F-1 of gate_up are the gate's and rows F .. 2F-1 up's
/// (bias_N2F likewise, or null). Any F; gate and up are stored nowhere when F is a multiple of 64.
void matmul_swiglu(const PackedMatrix& gate_up, const ProductInput& x, const float* bias_2F, float* out_TF, int64_t ldo,
                   ThreadPool& pool, Workspace& workspace);

/// Per row of a head's logits; any pointer may be null. NaN logits lose, as in argmax().
struct HeadOutput {
  TokenId* best_T = nullptr;       // lowest id among the largest; -1 where nothing but NaN is allowed
  float* largest_T = nullptr;      // its logit; NaN with -1
  float* second_T = nullptr;       // largest logit of the other ids (equal to largest_T on a tie); -inf where there is none
  float* log_sum_exp_T = nullptr;  // over the allowed ids; NaN where one of them is NaN. One order: 64 columns, then blocks
};
/// [rms_norm,] head product, argmax and statistics over the allowed ids, without storing logits. `allowed_T`: empty (every id, every
/// row), one list for all rows, or one list per row; a list is ascending without repetition, and an empty list allows every id.
/// Computes only the blocks of 64 columns in which some row's list has an id: a list of few neighbours costs next to nothing. The
/// logits are those of matmul, whatever is allowed, so restricting changes no bit of what stays.
void matmul_head(const PackedMatrix& w, const ProductInput& x, std::span<const std::span<const TokenId>> allowed_T,
                 const HeadOutput& out, ThreadPool& pool, Workspace& workspace);

/// out_T = id of the largest of x_TK * w_NK^T per row, lowest id on ties; never writes the logits (fused head). NaN logits lose.
/// best_T (may be null) gets the largest value. Equal, bit for bit, to matmul followed by argmax.
void matmul_argmax(const PackedMatrix& w, const float* x_TK, int64_t rows, int64_t ldx, TokenId* out_T, float* best_T,
                   ThreadPool& pool, Workspace& workspace);
/// Largest element's index, lowest on ties, NaN loses; -1 only when all are NaN.
int64_t argmax(std::span<const float> x);

/// Numbers of the key/value cache. kI8: bytes and a scale per slot and head, keys spread (body/attention_quads.h).
enum class KvType : uint8_t { kF32, kBF16, kI8 };
constexpr size_t size_of(KvType type) { return type == KvType::kF32 ? 4 : type == KvType::kBF16 ? 2 : 1; }

/// out_THK = softmax(scale * q_THK . keys) values, grouped heads: query head h reads key/value head h * G / H.
/// keys and values: slot s, head g at base + s * slot_stride + g * head_stride, numbers of kv_type. Softmax in f32 with running maximum
/// per key block.
/// bf16: head_width even; q * scale and probabilities are rounded to bf16, sums are f32 (body/attention_pairs.h has the order,
/// attention_test.cc the bound). i8: head_width and strides multiples of 4, slot_stride and head_stride of head_width; q and the
/// probabilities of a block are quantised, sums of a block exact; the same bits on every instruction set (body/attention_quads.h).
/// A row that sees nothing gets zeros. out may not alias q.
struct AttentionArgs {
  const float* q_THK = nullptr;
  int64_t ldq = 0;  // row stride of q; 0: heads * head_width
  KvType kv_type = KvType::kF32;
  const void* keys_SGK = nullptr;
  const void* values_SGK = nullptr;
  const float* key_scales_SG = nullptr;  // i8: of slot s, head g at (s * slot_stride + g * head_stride) / head_width
  const float* value_scales_SG = nullptr;
  int64_t slot_stride = 0, head_stride = 0;  // of keys and values; 0: kv_heads * head_width and head_width
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

/// What follows the product with q, k and v: per row RMSNorm of every head of q and k (where gains are given), rotation of q and k in
/// place (pairs (i, i + half) of every head, as `rotate`), and k and v into the cache at the row's slot (bf16: rounded to nearest even;
/// i8: as to_kv_i8).
struct RotateStoreArgs {
  float* qkv_TE = nullptr;  // rows of H + 2 G heads: q, k, v
  int64_t rows = 0;
  int32_t heads = 0, kv_heads = 0, head_width = 0, half = 0;
  const float* cos_TK2 = nullptr;
  const float* sin_TK2 = nullptr;
  const float* q_gain_K = nullptr;  // both or neither
  const float* k_gain_K = nullptr;
  float eps = 0;
  KvType kv_type = KvType::kF32;
  void* keys = nullptr;
  void* values = nullptr;
  float* key_scales = nullptr;  // i8
  float* value_scales = nullptr;
  int64_t slot_stride = 0, head_stride = 0;  // as AttentionArgs, given
  const int32_t* slots_T = nullptr;
};
void rotate_store(const RotateStoreArgs& args, ThreadPool& pool);
/// f32 or bf16 numbers = x, rounded.
void to_kv(KvType type, const float* x, int64_t n, void* out);
/// i8: one head's key or value in bytes, and its scale: x (a key: spread) = scale * q, |q| <= 127, halves to even. Keys are stored as
/// q + 128. 0 and all but 0 (below 2^-100): scale 0; a number that is not finite: scale NaN. n <= kMaxHeadWidth.
void to_kv_i8(const float* x, int64_t n, bool key, uint8_t* out, float* scale);

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
