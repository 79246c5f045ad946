// SPDX-License-Identifier: Apache-2.0
// What the matrix unit adds up, held against its manual, operation by operation; where a processor has none there is nothing to hold.
#include "core/dtype.h"
#include "kernels/testing/kernels_testing.h"

namespace slip {
namespace {

/// Subnormal numbers count as zero, as operands and as results.
float flushed(float x) { return std::fpclassify(x) == FP_SUBNORMAL ? std::copysign(0.0F, x) : x; }

/// TDPBF16PS for one sum [Intel, Software Developer's Manual, volume 2]: over 16 words of two numbers, lower numbers in one chain and upper
/// ones in another, both from zero; then both together are added to the sum. Products of bf16 are exact in f32.
float panel(float sum, const float* x_32, const float* w_32) {
  float lower = 0, upper = 0;
  for (int k = 0; k < 32; k += 2) {
    lower = flushed(lower + flushed(x_32[k]) * flushed(w_32[k]));
    upper = flushed(upper + flushed(x_32[k + 1]) * flushed(w_32[k + 1]));
  }
  return flushed(sum + flushed(lower + upper));
}

/// Rows of `k` numbers in bf16, padded with zeros to whole panels.
std::vector<float> padded(const std::vector<float>& from, int64_t rows, int64_t k) {
  const int64_t whole = (k + 31) / 32 * 32;
  std::vector<float> out(static_cast<size_t>(rows * whole), 0.0F);
  for (int64_t r = 0; r < rows; r++)
    for (int64_t i = 0; i < k; i++) out[r * whole + i] = to_float(to_bf16(from[r * k + i]));
  return out;
}

TEST(Amx, SumsOfBf16AreThoseOfTheManual) {
  const Isa before = isa_choice().isa;
  if (!force_isa(Isa::kAmx)) GTEST_SKIP() << "no AMX here, or the kernel keeps it";
  ThreadPool pool(2);
  Workspace workspace;
  for (const int64_t k : {1, 31, 32, 33, 127, 128, 129, 224, 1000}) {
    constexpr int64_t kColumns = 70, kRows = 37;
    const auto weights = numbers(kColumns * k, 21), x = numbers(kRows * k, 22);
    const PackedMatrix w = pack_matrix(WeightType::kBF16, kColumns, k, weights.data(), pool);
    std::vector<float> out(kRows * kColumns), want(kRows * kColumns);
    matmul(w, x.data(), kRows, k, nullptr, out.data(), kColumns, pool, workspace);
    const int64_t whole = (k + 31) / 32 * 32;
    const auto x_bf16 = padded(x, kRows, k), w_bf16 = padded(weights, kColumns, k);
    for (int64_t t = 0; t < kRows; t++)
      for (int64_t c = 0; c < kColumns; c++) {
        float sum = 0;
        for (int64_t i = 0; i < whole; i += 32) sum = panel(sum, &x_bf16[t * whole + i], &w_bf16[c * whole + i]);
        want[t * kColumns + c] = sum;
      }
    EXPECT_TRUE(same_bits(out, want)) << "k " << k;
  }
  ASSERT_TRUE(force_isa(before));
}

TEST(Amx, TilesThatOthersHaveSetAreSetAgain) {
  // Who computes on the same thread with shapes of its own (another library in one process) must not change a number.
  const Isa before = isa_choice().isa;
  if (!force_isa(Isa::kAmx)) GTEST_SKIP() << "no AMX here, or the kernel keeps it";
#ifdef SLIP_EMULATED_TILES
  ASSERT_TRUE(force_isa(before));
  GTEST_SKIP() << "emulated tiles are nobody else's";
#endif
  ThreadPool pool(1);
  Workspace workspace;
  constexpr int64_t kColumns = 64, kInner = 96, kRows = 20;
  const auto weights = numbers(kColumns * kInner, 23), x = numbers(kRows * kInner, 24);
  for (const WeightType type : {WeightType::kBF16, WeightType::kI8, WeightType::kI4}) {
    const PackedMatrix w = pack_matrix(type, kColumns, kInner, weights.data(), pool);
    std::vector<float> first(kRows * kColumns), again(kRows * kColumns);
    const auto multiply = [&](std::vector<float>& out) {
      matmul(w, x.data(), kRows, kInner, nullptr, out.data(), kColumns, pool, workspace);
    };
    multiply(first);
#if defined(__x86_64__)
    alignas(64) uint8_t shapes[64] = {};
    shapes[0] = 1;
    for (int i = 0; i < 8; i++) shapes[16 + 2 * i] = 4, shapes[48 + i] = 2;
    asm volatile(".byte 0xc4, 0xe2, 0x78, 0x49, 0x00" ::"a"(shapes) : "memory");  // ldtilecfg [rax]
#endif
    multiply(again);
    EXPECT_TRUE(same_bits(first, again));
  }
  ASSERT_TRUE(force_isa(before));
}

}  // namespace
}  // namespace slip
