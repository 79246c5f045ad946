// SPDX-License-Identifier: Apache-2.0
// AVX-VNNI stands in for AVX2 without a name of its own, so it must have the same sums.
#include "kernels/isa/ops.h"
#include "kernels/packed_layout.h"
#include "kernels/testing/kernels_testing.h"

namespace slip {
namespace {

TEST(AvxVnni, HasTheSumsOfAvx2) {
#if defined(__x86_64__)
  __builtin_cpu_init();
  unsigned a = 7, b = 0, c = 1, d = 0;
  asm volatile("cpuid" : "+a"(a), "=b"(b), "+c"(c), "=d"(d));
  if (!__builtin_cpu_supports("avx2") || !__builtin_cpu_supports("fma") || (a & 1u << 4) == 0) GTEST_SKIP() << "no AVX-VNNI here";
  const Ops &plain = *avx2_ops(), &vnni = *avxvnni_ops();
  ThreadPool pool(1);
  for (const WeightType type : {WeightType::kI8, WeightType::kI4})
    for (const int64_t k : {5, 64, 333, 1000}) {
      const int t = static_cast<int>(type);
      // The largest magnitudes too: -127 and 127 in rows and columns of one sign, where 16 bits would not hold a pair of products.
      auto weights = numbers(64 * k, 31), x = numbers(9 * k, 32);
      std::fill_n(weights.begin(), k, -3.0F);
      std::fill_n(x.begin(), k, 5.0F);
      const PackedMatrix w = pack_matrix(type, 64, k, weights.data(), pool);
      const PackedLayout layout(type, 64, k);
      ASSERT_EQ(plain.x_words[t], vnni.x_words[t]);
      const int64_t line = kChunkSteps * plain.x_words[t], chunks = (layout.steps + kChunkSteps - 1) / kChunkSteps;
      std::vector<Word> words(static_cast<size_t>(9 * line * chunks)), words_vnni(words.size());
      std::vector<float> scales(9);
      for (auto* out : {&words, &words_vnni})
        (out == &words ? plain : vnni)
            .pack_x[t]({.x_TK = x.data(),
                        .rows = 9,
                        .k = k,
                        .ldx = k,
                        .words = out->data(),
                        .steps = layout.steps,
                        .chunk = 9 * line,
                        .scales_T = scales.data()});
      ASSERT_EQ(words, words_vnni);
      for (int64_t rows = 1; rows <= 9; rows++) {
        std::vector<Word> sums(16 * kBlockColumns), sums_vnni(16 * kBlockColumns);
        ProductArgs args{.x = words.data(), .ldx = line, .chunk = 9 * line, .rows = rows, .steps = layout.steps, .w = w.data()};
        args.sums = sums.data();
        plain.product[t](args);
        args.sums = sums_vnni.data();
        vnni.product[t](args);
        EXPECT_EQ(sums, sums_vnni) << "type " << t << " k " << k << " rows " << rows;
      }
    }
#else
  GTEST_SKIP() << "no x86-64";
#endif
}

}  // namespace
}  // namespace slip
