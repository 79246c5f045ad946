// SPDX-License-Identifier: Apache-2.0
// Fused products have the bits of the operations that they are made of; the restricted head and its statistics those of full logits.
#include <algorithm>

#include "kernels/testing/kernels_testing.h"

namespace slip {
namespace {

struct Shape {
  int64_t n, k;
};

template <class F>
void on_every_type(const F& f) {
  on_every_isa([&](Isa) {
    for (const WeightType type : kWeightTypes) {
      SCOPED_TRACE("type " + std::to_string(int(type)));
      f(type);
    }
  });
}

std::vector<float> normed(const std::vector<float>& x, int64_t rows, int64_t k, const std::vector<float>& gain, ThreadPool& pool) {
  std::vector<float> out(x.size());
  rms_norm(x.data(), rows, k, gain.data(), 1e-5F, out.data(), pool);
  return out;
}

TEST(Fused, NormAndResidualAddHaveTheBitsOfTheirComposition) {
  on_every_type([](WeightType type) {
    Workspace workspace;
    for (const auto [n, k] : {Shape{130, 77}, Shape{64, 256}, Shape{200, 301}})
      for (const int threads : {1, 3})
        for (const int64_t rows : {1, 2, 7, 33, 70}) {
          ThreadPool pool(threads);
          const auto w_NK = numbers(n * k, 41), x = plain_numbers(rows * k, 42), gain = plain_numbers(k, 43), bias = numbers(n, 44),
                     base = numbers(rows * n, 45);
          const PackedMatrix w = pack_matrix(type, n, k, w_NK.data(), pool);
          const auto y = normed(x, rows, k, gain, pool);
          std::vector<float> product(rows * n), want = base, got(rows * n), sum = base;
          matmul(w, y.data(), rows, k, bias.data(), product.data(), n, pool, workspace);
          matmul(w, {.x_TK = x.data(), .rows = rows, .ldx = k, .gain_K = gain.data(), .eps = 1e-5F},
                 {.out_TN = got.data(), .ldo = n, .bias_N = bias.data()}, pool, workspace);
          ASSERT_TRUE(same_bits(got, product)) << "n " << n << " rows " << rows;
          for (const float* b : {bias.data(), static_cast<const float*>(nullptr)}) {
            want = sum = base;
            matmul(w, x.data(), rows, k, b, product.data(), n, pool, workspace);
            add(want.data(), product.data(), rows, n, pool);
            matmul(w, {.x_TK = x.data(), .rows = rows, .ldx = k}, {.out_TN = sum.data(), .ldo = n, .bias_N = b, .accumulate = true},
                   pool, workspace);
            ASSERT_TRUE(same_bits(sum, want)) << "n " << n << " rows " << rows;
          }
        }
  });
}

TEST(Fused, SwigluHasTheBitsOfItsCompositionForAnyWidth) {
  on_every_type([](WeightType type) {
    Workspace workspace;
    for (const auto [f, k] : {Shape{64, 40}, Shape{192, 300}, Shape{76, 65}, Shape{1, 3}})
      for (const int threads : {1, 2})
        for (const int64_t rows : {1, 8, 65})
          for (const bool with_bias : {false, true}) {
            ThreadPool pool(threads);
            const auto w_NK = numbers(2 * f * k, 46), x = plain_numbers(rows * k, 47), gain = plain_numbers(k, 48),
                       bias = numbers(2 * f, 49);
            const PackedMatrix w = pack_matrix(type, 2 * f, k, w_NK.data(), pool);
            const float* b = with_bias ? bias.data() : nullptr;
            const auto y = normed(x, rows, k, gain, pool);
            const int64_t ldo = f + 5;
            std::vector<float> both(rows * 2 * f), want(rows * f), got(rows * ldo, -3.0F);
            matmul(w, y.data(), rows, k, b, both.data(), 2 * f, pool, workspace);
            swiglu(both.data(), both.data() + f, rows, f, 2 * f, want.data(), pool);
            matmul_swiglu(w, {.x_TK = x.data(), .rows = rows, .ldx = k, .gain_K = gain.data(), .eps = 1e-5F}, b, got.data(), ldo,
                          pool, workspace);
            for (int64_t t = 0; t < rows; t++) {
              ASSERT_TRUE(same_bits({&got[t * ldo], size_t(f)}, {&want[t * f], size_t(f)})) << "f " << f << " rows " << rows;
              for (int64_t c = f; c < ldo; c++) ASSERT_EQ(got[t * ldo + c], -3.0F);
            }
          }
  });
}

struct Head {
  std::vector<TokenId> best;
  std::vector<float> largest, second, log_sum_exp;
  HeadOutput output() { return {best.data(), largest.data(), second.data(), log_sum_exp.data()}; }
  explicit Head(int64_t rows) : best(rows), largest(rows), second(rows), log_sum_exp(rows) {}
};

/// Statistics of one row's logits over a list (empty: all) in double.
struct Plain {
  int64_t best = -1;
  float largest = NAN, second = -INFINITY;
  double log_sum_exp = 0;
};
Plain plain_stats(std::span<const float> logits, std::span<const TokenId> allowed) {
  std::vector<int64_t> ids;
  if (allowed.empty())
    for (size_t i = 0; i < logits.size(); i++) ids.push_back(static_cast<int64_t>(i));
  for (const TokenId id : allowed) ids.push_back(id.value);
  Plain out;
  for (const int64_t i : ids)
    if (!std::isnan(logits[i]) && (out.best < 0 || logits[i] > out.largest)) out.best = i, out.largest = logits[i];
  double sum = 0;
  for (const int64_t i : ids) {
    if (i != out.best && logits[i] > out.second) out.second = logits[i];
    sum += std::exp(double{logits[i]} - out.largest);
  }
  out.log_sum_exp = out.largest + std::log(sum);
  return out;
}

std::vector<TokenId> every(int64_t n, int64_t step, int64_t first = 0) {
  std::vector<TokenId> out;
  for (int64_t i = first; i < n; i += step) out.push_back(TokenId{static_cast<int32_t>(i)});
  return out;
}

void expect_head(const Head& got, int64_t rows, const std::vector<float>& logits, int64_t n,
                 const std::vector<std::span<const TokenId>>& lists) {
  for (int64_t t = 0; t < rows; t++) {
    const Plain want =
        plain_stats({&logits[t * n], size_t(n)}, lists.empty() ? std::span<const TokenId>{} : lists[lists.size() == 1 ? 0 : t]);
    ASSERT_EQ(got.best[t].value, want.best) << "row " << t;
    ASSERT_TRUE(same_bits({&got.largest[t], 1}, {&want.largest, 1}));
    ASSERT_EQ(got.second[t], want.second);
    // exp_s is within 2 ulp (4 u); 64 numbers and then 64 blocks are added, log adds its own.
    const double bound = gamma(4 + 2 * 64 + static_cast<double>(n) / 4096) + 2 * kRoundoff * std::fabs(want.log_sum_exp) +
                         kRoundoff * (std::fabs(want.largest) + 90);
    ASSERT_NEAR(got.log_sum_exp[t], want.log_sum_exp, bound);
  }
}

TEST(Head, StatisticsAreThoseOfTheLogitsWhateverIsAllowed) {
  on_every_type([](WeightType type) {
    ThreadPool pool(2);
    Workspace workspace;
    const int64_t n = 1003, k = 50, rows = 9;
    const auto w_NK = plain_numbers(n * k, 51), x = plain_numbers(rows * k, 52, 0.3F);
    const PackedMatrix w = pack_matrix(type, n, k, w_NK.data(), pool);
    std::vector<float> logits(rows * n);
    matmul(w, x.data(), rows, k, nullptr, logits.data(), n, pool, workspace);
    const auto few = every(n, 97, 13), one = every(n, n, 700), all = every(n, 1), near = every(520, 1, 500), none = every(0, 1);
    std::vector<std::vector<std::span<const TokenId>>> cases = {{}, {few}, {one}, {all}, {near}, {none}};
    cases.push_back({few, one, all, near, none, few, one, near, near});
    for (const auto& lists : cases) {
      Head got(rows);
      matmul_head(w, {.x_TK = x.data(), .rows = rows, .ldx = k}, lists, got.output(), pool, workspace);
      expect_head(got, rows, logits, n, lists);
    }
  });
}

TEST(Head, HasTheSameBitsAtAnyWidthThreadCountAndChoiceOfOutputs) {
  on_every_type([](WeightType type) {
    Workspace workspace;
    const int64_t n = 700, k = 33, most = 70;
    ThreadPool one(1), three(3);
    const auto w_NK = plain_numbers(n * k, 53), x = plain_numbers(most * k, 54), gain = plain_numbers(k, 55);
    const PackedMatrix w = pack_matrix(type, n, k, w_NK.data(), one);
    const auto list = every(n, 3);
    const std::vector<std::span<const TokenId>> lists = {list};
    const auto run = [&](int64_t first, int64_t rows, ThreadPool& pool, Head& out) {
      matmul_head(w, {.x_TK = &x[first * k], .rows = rows, .ldx = k, .gain_K = gain.data(), .eps = 1e-6F}, lists, out.output(),
                  pool, workspace);
    };
    Head alone(most);
    for (int64_t t = 0; t < most; t++) {
      Head row(1);
      run(t, 1, one, row);
      alone.best[t] = row.best[0], alone.largest[t] = row.largest[0], alone.second[t] = row.second[0];
      alone.log_sum_exp[t] = row.log_sum_exp[0];
    }
    for (ThreadPool* pool : {&one, &three})
      for (const int64_t rows : {2, 8, 31, 70}) {
        Head got(rows);
        run(0, rows, *pool, got);
        const size_t count = static_cast<size_t>(rows);
        ASSERT_TRUE(same_bits(got.largest, {alone.largest.data(), count}));
        ASSERT_TRUE(same_bits(got.second, {alone.second.data(), count}));
        ASSERT_TRUE(same_bits(got.log_sum_exp, {alone.log_sum_exp.data(), count}));
        for (int64_t t = 0; t < rows; t++) ASSERT_EQ(got.best[t].value, alone.best[t].value);
      }
    Head ids(most);
    matmul_head(w, {.x_TK = x.data(), .rows = most, .ldx = k, .gain_K = gain.data(), .eps = 1e-6F}, lists,
                {.best_T = ids.best.data()}, three, workspace);
    for (int64_t t = 0; t < most; t++) ASSERT_EQ(ids.best[t].value, alone.best[t].value);
  });
}

TEST(Head, TiesNanAndInfinityAreDataAndANumberThatIsNotAllowedDoesNotCount) {
  ThreadPool pool(2);
  Workspace workspace;
  on_every_isa([&](Isa) {
    const int64_t n = 200;
    std::vector<float> weights(n, 1.0F);
    weights[70] = weights[71] = weights[190] = 2.0F;
    weights[3] = NAN;
    const PackedMatrix w = pack_matrix(WeightType::kF32, n, 1, weights.data(), pool);
    const std::vector<float> x = {1, NAN, -INFINITY};
    const auto run = [&](const std::vector<TokenId>& list) {
      Head out(3);
      const std::vector<std::span<const TokenId>> lists = {list};
      matmul_head(w, {.x_TK = x.data(), .rows = 3, .ldx = 1}, lists, out.output(), pool, workspace);
      return out;
    };
    const Head all = run({});
    EXPECT_EQ(all.best[0].value, 70);
    EXPECT_EQ(all.second[0], 2);
    EXPECT_TRUE(std::isnan(all.log_sum_exp[0])) << "logit 3 is NaN";
    EXPECT_EQ(all.best[1].value, -1);
    EXPECT_TRUE(std::isnan(all.largest[1]));
    EXPECT_EQ(all.second[1], -INFINITY);
    EXPECT_EQ(all.best[2].value, 0);
    EXPECT_EQ(all.largest[2], -INFINITY);
    const Head some = run({TokenId{5}, TokenId{6}, TokenId{190}});
    EXPECT_EQ(some.best[0].value, 190);
    EXPECT_EQ(some.second[0], 1);
    EXPECT_NEAR(some.log_sum_exp[0], 2 + std::log(1 + 2 * std::exp(-1.0)), 1e-6);
    EXPECT_EQ(some.log_sum_exp[2], -INFINITY);
    const Head single = run({TokenId{3}});
    EXPECT_EQ(single.best[0].value, -1);
    const Head one = run({TokenId{9}});
    EXPECT_EQ(one.best[0].value, 9);
    EXPECT_EQ(one.second[0], -INFINITY);
    EXPECT_EQ(one.log_sum_exp[0], 1);
  });
}

}  // namespace
}  // namespace slip
