// SPDX-License-Identifier: Apache-2.0
// Products: right within the derived bound, the same bits whatever travels along, and argmax equal to what it fuses.
#include <limits>

#include "core/dtype.h"
#include "kernels/testing/kernels_testing.h"

namespace slip {
namespace {

struct Case {
  int64_t n, k;
};
constexpr Case kCases[] = {{1, 1}, {3, 5}, {64, 64}, {65, 77}, {130, 64}, {200, 129}, {70, 513}, {129, 896}};

std::vector<float> product(const PackedMatrix& w, const std::vector<float>& x, int64_t rows, const float* bias, ThreadPool& pool,
                           int64_t ldx = 0) {
  Workspace workspace;
  std::vector<float> out(static_cast<size_t>(rows * w.n()), NAN);
  matmul(w, x.data(), rows, ldx ? ldx : w.k(), bias, out.data(), w.n(), pool, workspace);
  return out;
}

TEST(Matmul, StaysWithinTheDerivedBound) {
  ThreadPool pool(2);
  on_every_isa([&](Isa) {
    for (const WeightType type : kWeightTypes)
      for (const auto [n, k] : kCases) {
        const auto weights = numbers(n * k, 1), bias = numbers(n, 2);
        const PackedMatrix w = pack_matrix(type, n, k, weights.data(), pool);
        for (const int64_t rows : {1, 2, 3, 4, 7, 66}) {
          const auto x = numbers(rows * k, 3);
          const auto out = product(w, x, rows, bias.data(), pool);
          std::vector<float> w_K(static_cast<size_t>(k));
          for (int64_t c = 0; c < n; c++) {
            w.row(c, w_K);
            for (int64_t t = 0; t < rows; t++)
              ASSERT_TRUE(within(out[t * n + c], matmul_ref(type, {&x[t * k], static_cast<size_t>(k)}, w_K, bias[c])))
                  << "type " << int(type) << " n " << n << " k " << k << " row " << t << " of " << rows << " column " << c;
          }
        }
      }
  });
}

TEST(Matmul, GivesARowTheSameBitsAmongAnyNumberOfRowsAndThreads) {
  on_every_isa([&](Isa) {
    for (const WeightType type : kWeightTypes) {
      const int64_t n = 150, k = 211, most = 300;
      ThreadPool one(1), two(2), four(4);
      const auto weights = numbers(n * k, 4), bias = numbers(n, 5), x = numbers(most * k, 6);
      const PackedMatrix w = pack_matrix(type, n, k, weights.data(), two);
      std::vector<float> alone;
      for (int64_t t = 0; t < most; t++) {
        const auto row = product(w, {x.begin() + t * k, x.begin() + (t + 1) * k}, 1, bias.data(), one);
        alone.insert(alone.end(), row.begin(), row.end());
      }
      for (int64_t rows = 1; rows <= most; rows += rows < 70 ? 1 : 23)
        for (ThreadPool* pool : {&one, &two, &four})
          ASSERT_TRUE(same_bits(product(w, x, rows, bias.data(), *pool), {alone.data(), static_cast<size_t>(rows * n)}))
              << "type " << int(type) << " rows " << rows << " threads " << pool->threads();
      ASSERT_TRUE(same_bits(product(w, x, most, bias.data(), four), alone));
    }
  });
}

TEST(Matmul, DoesNotDependOnStridesOrOnWhereARowStands) {
  ThreadPool pool(2);
  on_every_isa([&](Isa) {
    for (const WeightType type : kWeightTypes) {
      const int64_t n = 100, k = 75, rows = 9, ldx = 91, ldo = 117;
      const auto weights = numbers(n * k, 7), x = numbers(rows * k, 8);
      const PackedMatrix w = pack_matrix(type, n, k, weights.data(), pool);
      const auto dense = product(w, x, rows, nullptr, pool);
      std::vector<float> wide(rows * ldx, NAN), out(rows * ldo, -7.0F);
      for (int64_t t = 0; t < rows; t++) std::copy_n(&x[t * k], k, &wide[(rows - 1 - t) * ldx]);
      Workspace workspace;
      matmul(w, wide.data(), rows, ldx, nullptr, out.data(), ldo, pool, workspace);
      for (int64_t t = 0; t < rows; t++) {
        ASSERT_TRUE(same_bits({&out[(rows - 1 - t) * ldo], static_cast<size_t>(n)}, {&dense[t * n], static_cast<size_t>(n)}));
        for (int64_t c = n; c < ldo; c++) ASSERT_EQ(out[t * ldo + c], -7.0F) << "wrote past the last column";
      }
    }
  });
}

TEST(Matmul, BitComparisonNoticesAnotherOrderOfAddition) {
  // The mutant: the same sums from the last k to the first. If it had the same bits, the tests above could not fail.
  const int64_t k = 211;
  const auto x = numbers(k, 9), y = numbers(k, 10);
  ThreadPool pool(1);
  on_every_isa([&](Isa) {
    const auto forward = product(pack_matrix(WeightType::kF32, 1, k, y.data(), pool), x, 1, nullptr, pool);
    const std::vector<float> rx(x.rbegin(), x.rend()), ry(y.rbegin(), y.rend());
    const auto backward = product(pack_matrix(WeightType::kF32, 1, k, ry.data(), pool), rx, 1, nullptr, pool);
    EXPECT_FALSE(same_bits(forward, backward));
  });
}

TEST(Matmul, FastPathsAgreeWithThePortableOneWithinTheBoundOnRandomShapes) {
  ThreadPool pool(2);
  std::mt19937 engine(11);
  const auto up_to = [&](int64_t n) { return 1 + static_cast<int64_t>(engine() % static_cast<uint32_t>(n)); };
  for (int round = 0; round < 60; round++) {
    const int64_t n = up_to(200), k = up_to(300), rows = up_to(80);
    const WeightType type = kWeightTypes[engine() % 4];
    const auto weights = numbers(n * k, engine()), x = numbers(rows * k, engine());
    const PackedMatrix w = pack_matrix(type, n, k, weights.data(), pool);
    const Isa before = isa_choice().isa;
    ASSERT_TRUE(force_isa(Isa::kPortable));
    const auto plain = product(w, x, rows, nullptr, pool);
    ASSERT_TRUE(force_isa(before));
    const auto fast = product(w, x, rows, nullptr, pool);
    if (type == WeightType::kI8 || type == WeightType::kI4) {
      ASSERT_TRUE(same_bits(plain, fast)) << "integer sums are exact";
    }
    std::vector<float> w_K(static_cast<size_t>(k));
    for (int64_t c = 0; c < n; c += 13) {
      w.row(c, w_K);
      for (int64_t t = 0; t < rows; t++) {
        const Bounded b = matmul_ref(type, {&x[t * k], static_cast<size_t>(k)}, w_K, 0);
        ASSERT_LE(std::fabs(double{plain[t * n + c]} - fast[t * n + c]), 2 * b.bound);
      }
    }
  }
}

TEST(Matmul, KeepsWhatIsNotFiniteInsideItsRow) {
  ThreadPool pool(1);
  on_every_isa([&](Isa) {
    for (const WeightType type : kWeightTypes) {
      const int64_t n = 66, k = 33;
      const auto weights = numbers(n * k, 12);
      auto x = plain_numbers(5 * k, 13);
      const PackedMatrix w = pack_matrix(type, n, k, weights.data(), pool);
      const auto clean = product(w, x, 5, nullptr, pool);
      x[1 * k + 4] = NAN;
      x[3 * k + 32] = INFINITY;
      const auto out = product(w, x, 5, nullptr, pool);
      for (int64_t c = 0; c < n; c++) {
        EXPECT_TRUE(std::isnan(out[1 * n + c]));
        EXPECT_FALSE(std::isfinite(out[3 * n + c]));
      }
      for (const int64_t t : {0, 2, 4}) EXPECT_TRUE(same_bits({&out[t * n], size_t(n)}, {&clean[t * n], size_t(n)}));
    }
  });
}

TEST(Matmul, Int8RowOfZerosGivesTheBias) {
  ThreadPool pool(1);
  on_every_isa([&](Isa) {
    const auto weights = numbers(70 * 33, 14), bias = numbers(70, 15);
    const PackedMatrix w = pack_matrix(WeightType::kI8, 70, 33, weights.data(), pool);
    EXPECT_TRUE(same_bits(product(w, std::vector<float>(33), 1, bias.data(), pool), bias));
  });
}

// One row has ways of its own (body/int4.h): numbers so large that four products do not fit 16 bits, in both signs, beside chunks in which they do.
TEST(Matmul, Int4RowOfTheLargestNumbersIsExact) {
  const int64_t n = 70, k = 1025, rows = 9;
  ThreadPool pool(1);
  const auto weights = numbers(n * k, 13);
  const PackedMatrix w = pack_matrix(WeightType::kI4, n, k, weights.data(), pool);
  std::mt19937 engine(14);
  std::vector<float> x(static_cast<size_t>(rows * k));
  for (size_t i = 0; i < x.size(); i++) {
    const bool large = i / 256 % 2 == 0;
    x[i] = (engine() % 2 ? 1.0F : -1.0F) * (large ? 127.0F : static_cast<float>(engine() % 8));
  }
  for (int64_t t = 0; t < rows; t++) x[static_cast<size_t>(t * k)] = 127;  // so that a row's scale is 1
  on_every_isa([&](Isa) {
    const auto together = product(w, x, rows, nullptr, pool);
    std::vector<float> w_K(static_cast<size_t>(k));
    for (int64_t t = 0; t < rows; t++) {
      const auto alone = product(w, {x.begin() + t * k, x.begin() + (t + 1) * k}, 1, nullptr, pool);
      ASSERT_TRUE(same_bits(alone, {together.data() + t * n, static_cast<size_t>(n)})) << "row " << t;
      for (int64_t c = 0; c < n; c++) {
        w.row(c, w_K);
        const double scale = w.scales()[c];
        double sum = 0;
        for (int64_t i = 0; i < k; i++) sum += std::round(w_K[static_cast<size_t>(i)] / scale) * x[static_cast<size_t>(t * k + i)];
        ASSERT_EQ(alone[static_cast<size_t>(c)], static_cast<float>(sum) * w.scales()[c]) << "row " << t << " column " << c;
      }
    }
  });
}

TEST(PackedMatrix, GivesBackWhatWasStored) {
  ThreadPool pool(2);
  const int64_t n = 131, k = 45;
  const auto weights = numbers(n * k, 16);
  std::vector<float> row(k);
  for (const WeightType type : kWeightTypes) {
    const PackedMatrix w = pack_matrix(type, n, k, weights.data(), pool);
    EXPECT_GE(w.bytes(), static_cast<size_t>(n * k *
                                             (type == WeightType::kF32    ? 8
                                              : type == WeightType::kBF16 ? 4
                                              : type == WeightType::kI8   ? 2
                                                                          : 1) /
                                             2));
    for (int64_t r = 0; r < n; r++) {
      w.row(r, row);
      float largest = 0;
      for (int64_t i = 0; i < k; i++) largest = std::max(largest, std::fabs(weights[r * k + i]));
      for (int64_t i = 0; i < k; i++) {
        const float want = weights[r * k + i];
        const float stored = type == WeightType::kBF16 ? to_float(to_bf16(want)) : want;
        // int4: half the widest step between levels, 28 / 127, or what the next smaller code may cut off.
        const float slack = type == WeightType::kI8 ? largest / 127 * 0.5001F : type == WeightType::kI4 ? largest * 0.26F : 0;
        ASSERT_LE(std::fabs(row[i] - stored), slack);
      }
    }
  }
}

TEST(MatmulArgmax, EqualsProductThenArgmax) {
  on_every_isa([&](Isa) {
    for (const WeightType type : kWeightTypes)
      for (const int threads : {1, 2, 4}) {
        ThreadPool pool(threads);
        const int64_t n = 333, k = 50;
        const auto weights = numbers(n * k, 17), x = numbers(70 * k, 18);
        const PackedMatrix w = pack_matrix(type, n, k, weights.data(), pool);
        for (const int64_t rows : {1, 5, 64, 70}) {
          const auto logits = product(w, x, rows, nullptr, pool);
          std::vector<TokenId> ids(rows);
          std::vector<float> best(rows);
          Workspace workspace;
          matmul_argmax(w, x.data(), rows, k, ids.data(), best.data(), pool, workspace);
          for (int64_t t = 0; t < rows; t++) {
            const int64_t want = argmax({&logits[t * n], size_t(n)});
            ASSERT_EQ(ids[t].value, want);
            ASSERT_TRUE(same_bits({&best[t], 1}, {&logits[t * n + want], 1}));
          }
        }
      }
  });
}

TEST(MatmulArgmax, TiesGoToTheLowestIdAcrossBlocksAndNanLoses) {
  ThreadPool pool(2);
  on_every_isa([&](Isa) {
    const int64_t n = 200;
    std::vector<float> weights(n, 1.0F);
    weights[70] = weights[71] = weights[190] = 2.0F;
    weights[3] = NAN;
    const PackedMatrix w = pack_matrix(WeightType::kF32, n, 1, weights.data(), pool);
    const std::vector<float> x = {1, -1, NAN, 0};
    std::vector<TokenId> ids(4);
    std::vector<float> best(4);
    Workspace workspace;
    matmul_argmax(w, x.data(), 4, 1, ids.data(), best.data(), pool, workspace);
    EXPECT_EQ(ids[0].value, 70);
    EXPECT_EQ(ids[1].value, 0);
    EXPECT_EQ(ids[2].value, -1);
    EXPECT_EQ(ids[3].value, 0);
    EXPECT_EQ(best[0], 2);
    EXPECT_EQ(best[1], -1);
    EXPECT_TRUE(std::isnan(best[2]));
  });
}

TEST(Argmax, NanLosesAndMinusInfinityIsANumber) {
  const float inf = std::numeric_limits<float>::infinity();
  EXPECT_EQ(argmax(std::vector<float>{NAN, -inf, -inf}), 1);
  EXPECT_EQ(argmax(std::vector<float>{NAN, NAN}), -1);
  EXPECT_EQ(argmax(std::vector<float>{}), -1);
  EXPECT_EQ(argmax(std::vector<float>{1, NAN, inf, inf}), 2);
  EXPECT_EQ(argmax(std::vector<float>{-0.0F, 0.0F}), 0);
}

TEST(Isa, PortableIsAlwaysThere) {
  const Isa before = isa_choice().isa;
  ASSERT_TRUE(force_isa(Isa::kPortable));
  EXPECT_EQ(isa_choice().isa, Isa::kPortable);
  ASSERT_TRUE(force_isa(before));
}

TEST(Workspace, GrowsAndKeepsAlignment) {
  Workspace w;
  void* p = w.get(3, 100);
  EXPECT_EQ(reinterpret_cast<uintptr_t>(p) % 64, 0U);
  EXPECT_EQ(w.get(3, 50), p);
  EXPECT_NE(w.get(0, 1), nullptr);
  w.get(3, 100000);
  EXPECT_GE(w.bytes(), 100000U);
}

}  // namespace
}  // namespace slip
