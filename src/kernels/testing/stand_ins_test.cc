// SPDX-License-Identifier: Apache-2.0
// AVX-VNNI stands in for AVX2, i8mm for NEON's dot products and VBMI for what AVX-512 permutes without it, without names of their own: they must
// have the same sums.
#if defined(__aarch64__) && defined(__linux__)
#include <asm/hwcap.h>
#include <sys/auxv.h>
#endif

#include "kernels/isa/ops.h"
#include "kernels/packed_layout.h"
#include "kernels/testing/kernels_testing.h"

namespace slip {
namespace {

constexpr int64_t kRows = 19, kRoom = 32;  // rows of sums, up to a multiple of 16

/// The words of kRows rows as `ops` packs them.
std::vector<uint32_t> packed(const Ops& ops, int type, const std::vector<float>& x, int64_t k, int64_t steps) {
  const int64_t line = kChunkSteps * ops.x_words[type], chunks = (steps + kChunkSteps - 1) / kChunkSteps;
  std::vector<uint32_t> words(static_cast<size_t>(kRows * line * chunks));
  std::vector<float> scales(kRows);
  ops.pack_x[type]({.x_TK = x.data(),
                    .rows = kRows,
                    .k = k,
                    .ldx = k,
                    .words = words.data(),
                    .steps = steps,
                    .chunk = kRows * line,
                    .scales_T = scales.data()});
  return words;
}

void expect_same_sums(const Ops& plain, const Ops& other) {
  ThreadPool pool(1);
  for (const WeightType type : {WeightType::kI8, WeightType::kI4})
    for (const int64_t k : {5, 64, 333, 1000, 1004}) {
      const int t = static_cast<int>(type);
      // The largest magnitudes too: a row and a column of one sign, where 16 bits would not hold a pair of products.
      auto weights = numbers(64 * k, 31), x = numbers(kRows * k, 32);
      std::fill_n(weights.begin(), k, -3.0F);
      std::fill_n(x.begin(), k, 5.0F);
      const PackedMatrix w = pack_matrix(type, 64, k, weights.data(), pool);
      const PackedLayout layout(type, 64, k);
      const std::vector<uint32_t> words = packed(plain, t, x, k, layout.steps);
      ASSERT_EQ(plain.x_words[t], other.x_words[t]);
      ASSERT_EQ(words, packed(other, t, x, k, layout.steps));
      const int64_t line = kChunkSteps * plain.x_words[t];
      for (int64_t rows = 1; rows <= kRows; rows++) {
        std::vector<uint32_t> sums(kRoom * kBlockColumns), sums_other(kRoom * kBlockColumns);
        ProductArgs args{.x = words.data(), .ldx = line, .chunk = kRows * line, .rows = rows, .steps = layout.steps, .w = w.data()};
        args.sums = sums.data();
        plain.product[t](args);
        args.sums = sums_other.data();
        other.product[t](args);
        sums.resize(rows * kBlockColumns), sums_other.resize(rows * kBlockColumns);
        EXPECT_EQ(sums, sums_other) << "type " << t << " k " << k << " rows " << rows;
      }
    }
}

/// Two heads of 20 numbers and three rows, of which one sees a gap, over keys and values of bytes.
std::vector<float> attended(const Ops& ops) {
  constexpr int64_t kSlots = 70, kWidth = 20, kQueries = 3;
  const auto q = plain_numbers(kQueries * 2 * kWidth, 41), keys = plain_numbers(kSlots * kWidth, 42),
             values = numbers(kSlots * kWidth, 43);
  std::vector<uint8_t> key_bytes(keys.size()), value_bytes(values.size());
  std::vector<float> key_scales(kSlots), value_scales(kSlots), out(q.size());
  for (int64_t s = 0; s < kSlots; s++) {
    ops.to_bytes(&keys[s * kWidth], kWidth, true, &key_bytes[s * kWidth], &key_scales[s]);
    ops.to_bytes(&values[s * kWidth], kWidth, false, &value_bytes[s * kWidth], &value_scales[s]);
  }
  const SlotSpan spans[] = {{0, 69}, {0, 33}, {40, 70}};
  const RowSpans row_spans[] = {{0, 1}, {1, 1}, {1, 2}};
  std::vector<char> memory(static_cast<size_t>(ops.attend_bytes[2]) + 64);
  const auto past = reinterpret_cast<uintptr_t>(memory.data()) % 64;
  ops.attend[2]({.q_THK = q.data(),
                 .ldq = 2 * kWidth,
                 .keys_SGK = key_bytes.data(),
                 .values_SGK = value_bytes.data(),
                 .key_scales_SG = key_scales.data(),
                 .value_scales_SG = value_scales.data(),
                 .out_THK = out.data(),
                 .slot_stride = kWidth,
                 .head_stride = kWidth,
                 .heads = 2,
                 .width = kWidth,
                 .scale = 0.25F,
                 .row_spans = row_spans,
                 .spans = spans,
                 .row_end = kQueries,
                 .head_count = 2,
                 .scratch = memory.data() + (64 - past) % 64});
  return out;
}

TEST(StandIns, WithoutVbmiSumsAreThoseWithIt) {
#if defined(__x86_64__)
  __builtin_cpu_init();
  if (!__builtin_cpu_supports("avx512vbmi") || !__builtin_cpu_supports("avx512vnni"))
    GTEST_SKIP() << "no AVX-512 with vnni and vbmi here";
  expect_same_sums(*avx512vbmi_ops(), *avx512vnni_ops());
  EXPECT_TRUE(same_bits(attended(*avx512vbmi_ops()), attended(*avx512vnni_ops())));
#else
  GTEST_SKIP() << "no x86-64";
#endif
}

TEST(StandIns, AvxVnniHasTheSumsOfAvx2) {
#if defined(__x86_64__)
  __builtin_cpu_init();
  unsigned a = 7, b = 0, c = 1, d = 0;
  asm volatile("cpuid" : "+a"(a), "=b"(b), "+c"(c), "=d"(d));
  if (!__builtin_cpu_supports("avx2") || !__builtin_cpu_supports("fma") || (a & 1u << 4) == 0) GTEST_SKIP() << "no AVX-VNNI here";
  expect_same_sums(*avx2_ops(), *avxvnni_ops());
#else
  GTEST_SKIP() << "no x86-64";
#endif
}

TEST(StandIns, I8mmHasTheSumsOfDotProducts) {
#if defined(__aarch64__) && defined(__linux__)
  if ((getauxval(AT_HWCAP2) & HWCAP2_I8MM) == 0) GTEST_SKIP() << "no i8mm here";
  expect_same_sums(*neon_ops(), *i8mm_ops());
#else
  GTEST_SKIP() << "no 64-bit ARM";
#endif
}

}  // namespace
}  // namespace slip
