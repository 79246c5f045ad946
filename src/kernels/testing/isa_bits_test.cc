// SPDX-License-Identifier: Apache-2.0
// That NEON and AVX-512 without products of bf16 have the bits of AVX2: one table of hashes, recorded on AVX2, which each must reproduce, so that a vehicle's answer can
// be computed again on a workstation. Inputs are made of integers alone: no library function whose last bit may differ takes part.
#include <algorithm>
#include <array>
#include <bit>
#include <limits>

#include "kernels/testing/kernels_testing.h"

namespace slip {
namespace {

/// Numbers j * 2^-16, |j| < 2^16, one in eight scaled by up to 2^7 or down to 2^-20.
std::vector<float> dyadic_numbers(int64_t n, uint64_t seed) {
  std::vector<float> out(static_cast<size_t>(n));
  uint64_t state = seed * 0x9e3779b97f4a7c15u + 1;
  const auto next = [&] { return static_cast<uint32_t>((state = state * 6364136223846793005u + 1442695040888963407u) >> 33); };
  for (float& x : out) {
    const auto j = static_cast<int32_t>(next() % 131071) - 65535;
    const uint32_t odd = next() % 8, power = next() % 28;
    x = std::ldexp(static_cast<float>(j), odd == 0 ? static_cast<int>(power) - 36 : -16);
  }
  return out;
}

/// FNV-1a of the bits; every NaN counts as one, as processors differ in theirs.
uint64_t hash_of(std::span<const float> x, uint64_t hash = 0xcbf29ce484222325u) {
  for (const float v : x) {
    uint32_t u;
    std::memcpy(&u, &v, 4);
    if (std::isnan(v)) u = 0x7fc00000u;
    for (int i = 0; i < 4; i++) hash = (hash ^ (u >> (8 * i) & 255)) * 0x100000001b3u;
  }
  return hash;
}

/// So many rows through a matrix of n x k, with bias; with rms_norm on the way in for `normed`.
uint64_t product_of(WeightType type, int64_t n, int64_t k, bool normed, std::span<const int64_t> row_counts, uint64_t hash) {
  ThreadPool pool(1);
  Workspace workspace;
  const int64_t most = *std::ranges::max_element(row_counts);
  const auto weights = dyadic_numbers(n * k, 1), x = dyadic_numbers(most * k, 2), bias = dyadic_numbers(n, 3),
             gain = dyadic_numbers(k, 4);
  const PackedMatrix w = pack_matrix(type, n, k, weights.data(), pool);
  for (const int64_t rows : row_counts) {
    std::vector<float> out(rows * n);
    matmul(w, ProductInput{.x_TK = x.data(), .rows = rows, .ldx = k, .gain_K = normed ? gain.data() : nullptr, .eps = 1e-6F},
           ProductOutput{.out_TN = out.data(), .ldo = n, .bias_N = bias.data()}, pool, workspace);
    hash = hash_of(out, hash);
  }
  return hash;
}
uint64_t products(WeightType type, bool normed) {
  constexpr int64_t kRows[] = {1, 2, 5, 9};
  return product_of(type, 64, 640, normed, kRows, product_of(type, 130, 333, normed, kRows, 1));
}
/// Rows that share tiles as few rows do not, and a last block of 40 columns.
uint64_t many_rows(WeightType type) {
  constexpr int64_t kRows[] = {6, 7, 12, 13, 16, 23, 33, 64, 65};
  return product_of(type, 104, 640, true, kRows, product_of(type, 64, 333, true, kRows, 1));
}

/// 150 keys for 3 rows and more, every third behind a gap; heads of 40 and 64 numbers. With `odd` some keys and values are infinite, zero of
/// either sign, and no numbers.
uint64_t attention_of(KvType type, int64_t rows = 3, bool odd = false) {
  constexpr int64_t kSlots = 160;
  constexpr int32_t kHeads = 4, kKvHeads = 2;
  ThreadPool pool(1);
  Workspace workspace;
  uint64_t hash = 1;
  for (const int32_t width : {40, 64}) {
    auto keys = dyadic_numbers(kSlots * kKvHeads * width, 5), values = dyadic_numbers(kSlots * kKvHeads * width, 6);
    if (odd) {
      const int64_t slot = kKvHeads * width;
      keys[91 * slot] = values[92 * slot] = std::numeric_limits<float>::infinity();
      keys[3 * slot + 1] = values[4 * slot + 1] = -0.0F;
      keys[120 * slot + 2] = values[121 * slot + 2] = std::bit_cast<float>(0xffffffffU);
    }
    const auto q = dyadic_numbers(rows * kHeads * width, 7);
    std::vector<float> keys_as(keys.size()), values_as(keys.size()), out(q.size());
    to_kv(type, keys.data(), static_cast<int64_t>(keys.size()), keys_as.data());
    to_kv(type, values.data(), static_cast<int64_t>(keys.size()), values_as.data());
    const std::array<SlotSpan, 3> spans{SlotSpan{0, 150}, SlotSpan{0, 77}, SlotSpan{90, 151}};
    std::vector<RowSpans> row_spans;
    for (int64_t t = 0; t < rows; t++)
      row_spans.push_back(t % 3 == 0 ? RowSpans{0, 1} : t % 3 == 1 ? RowSpans{1, 1} : RowSpans{1, 2});
    AttentionArgs args;
    args.q_THK = q.data();
    args.kv_type = type;
    args.keys_SGK = keys_as.data();
    args.values_SGK = values_as.data();
    args.out_THK = out.data();
    args.rows = rows;
    args.heads = kHeads;
    args.kv_heads = kKvHeads;
    args.head_width = width;
    args.scale = 0.125F;
    args.row_spans = row_spans;
    args.spans = spans;
    attention(args, pool, workspace);
    hash = hash_of(out, hash);
  }
  return hash;
}

uint64_t rows_of_numbers() {
  constexpr int64_t kRows = 2, kWidth = 107;
  ThreadPool pool(1);
  const auto x = dyadic_numbers(kRows * kWidth, 8), y = dyadic_numbers(kRows * kWidth, 9), gain = dyadic_numbers(kWidth, 10);
  std::vector<float> out(x.size());
  rms_norm(x.data(), kRows, kWidth, gain.data(), 1e-6F, out.data(), pool);
  uint64_t hash = hash_of(out);
  layer_norm(x.data(), kRows, kWidth, gain.data(), gain.data(), 1e-6F, out.data(), pool);
  hash = hash_of(out, hash);
  swiglu(x.data(), y.data(), kRows, kWidth, kWidth, out.data(), pool);
  hash = hash_of(out, hash);
  for (const bool tanh_form : {false, true}) {
    out = x;
    gelu(out.data(), kRows, kWidth, tanh_form, pool);
    hash = hash_of(out, hash);
  }
  return hash;
}

uint64_t head_statistics() {
  constexpr int64_t n = 300, k = 96, kRows = 3;
  ThreadPool pool(1);
  Workspace workspace;
  const auto weights = dyadic_numbers(n * k, 11), x = dyadic_numbers(kRows * k, 12);
  const PackedMatrix w = pack_matrix(WeightType::kBF16, n, k, weights.data(), pool);
  std::array<TokenId, kRows> best;
  std::array<float, 3 * kRows> out;
  matmul_head(w, ProductInput{.x_TK = x.data(), .rows = kRows, .ldx = k}, {},
              HeadOutput{best.data(), out.data(), out.data() + kRows, out.data() + 2 * kRows}, pool, workspace);
  return hash_of(out);
}

struct Recorded {
  const char* name;
  uint64_t (*compute)();
  uint64_t hash;
};
constexpr Recorded kRecorded[] = {
    {"f32", [] { return products(WeightType::kF32, false); }, 0x0a0255419f9759f2u},
    {"bf16", [] { return products(WeightType::kBF16, false); }, 0xf5166d242cc6d0d8u},
    {"f32 normed", [] { return products(WeightType::kF32, true); }, 0xcdbdbe6b90c63f5au},
    {"bf16 normed", [] { return products(WeightType::kBF16, true); }, 0xa2822baa19b73c0au},
    {"int8 normed", [] { return products(WeightType::kI8, true); }, 0x7629139946d47a97u},
    {"int4 normed", [] { return products(WeightType::kI4, true); }, 0xf01f28a7b54fac86u},
    {"attention f32", [] { return attention_of(KvType::kF32); }, 0x773fa3b3ef527a93u},
    {"attention bf16", [] { return attention_of(KvType::kBF16); }, 0x6505a43d27401f2eu},
    {"f32, many rows", [] { return many_rows(WeightType::kF32); }, 0xf16fbc7883e230c0u},
    {"bf16, many rows", [] { return many_rows(WeightType::kBF16); }, 0x1666c1d62742b257u},
    {"int8, many rows", [] { return many_rows(WeightType::kI8); }, 0x779bf4ea70d87ed3u},
    {"int4, many rows", [] { return many_rows(WeightType::kI4); }, 0x00824157083d7b20u},
    {"attention f32, many rows", [] { return attention_of(KvType::kF32, 23); }, 0x4f42206b2f4351d5u},
    {"attention bf16, many rows", [] { return attention_of(KvType::kBF16, 23); }, 0x23ab9163c9126e6bu},
    {"attention f32, odd numbers", [] { return attention_of(KvType::kF32, 3, true); }, 0x153876383d8e43c6u},
    {"attention bf16, odd numbers", [] { return attention_of(KvType::kBF16, 3, true); }, 0x8191c1657277be1eu},
    {"rows", rows_of_numbers, 0xb5b83439a047fe5cu},
    {"head", head_statistics, 0x7a91d086ca22b413u},
};

TEST(IsaBits, ThoseOfAvx2AreTheRecordedOnes) {
  on_every_isa([](Isa isa) {
    if (bits_of(isa) != "avx2") return;
    for (const Recorded& r : kRecorded) EXPECT_EQ(r.compute(), r.hash) << r.name;
  });
}

TEST(IsaBits, ProductsOfIntegersHaveTheRecordedOnesEverywhere) {
  on_every_isa([](Isa) {
    EXPECT_EQ(products(WeightType::kI8, false), 0xe48cf5ddec5ca2bdu);
    EXPECT_EQ(products(WeightType::kI4, false), 0x0369f8bc040eea59u);
  });
}

}  // namespace
}  // namespace slip
