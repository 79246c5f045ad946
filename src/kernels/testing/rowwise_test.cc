// SPDX-License-Identifier: Apache-2.0
// Norms, gates, rotations: within the derived bound, and the same bits for any rows, threads and places in a vector.
#include <functional>

#include "kernels/testing/kernels_testing.h"

namespace slip {
namespace {

constexpr int64_t kWidths[] = {1, 7, 15, 16, 17, 40, 64, 100, 129, 1280, 2048};

/// op(x, rows, pool) -> out: every row alone must give the bits it gives among all, for 1, 2 and 4 threads.
void expect_rows_independent(int64_t rows, int64_t width,
                             const std::function<std::vector<float>(const std::vector<float>&, int64_t, ThreadPool&)>& op) {
  const auto x = numbers(rows * width, 41);
  ThreadPool one(1), two(2), four(4);
  const auto all = op(x, rows, one);
  for (ThreadPool* pool : {&two, &four}) ASSERT_TRUE(same_bits(op(x, rows, *pool), all));
  for (int64_t t = 0; t<rows; t += rows> 40 ? 29 : 1) {
    const auto row = op({x.begin() + t * width, x.begin() + (t + 1) * width}, 1, one);
    ASSERT_TRUE(same_bits(row, {&all[t * width], static_cast<size_t>(width)})) << "row " << t << " width " << width;
  }
}

TEST(RmsNorm, StaysWithinTheDerivedBound) {
  ThreadPool pool(1);
  on_every_isa([&](Isa) {
    for (const int64_t width : kWidths)
      for (const float scale : {1e-3F, 1.0F, 1e4F}) {
        const auto x = numbers(width, 42, scale), gain = numbers(width, 43);
        std::vector<float> out(width);
        rms_norm(x.data(), 1, width, gain.data(), 1e-6F, out.data(), pool);
        const auto want = rms_norm_ref(x, gain, double{1e-6F});
        for (int64_t i = 0; i < width; i++) ASSERT_TRUE(within(out[i], want[i])) << width << " " << i;
      }
  });
}

TEST(LayerNorm, StaysWithinTheDerivedBound) {
  ThreadPool pool(1);
  on_every_isa([&](Isa) {
    for (const int64_t width : kWidths)
      for (const float offset : {0.0F, 100.0F}) {
        auto x = plain_numbers(width, 44);
        for (float& v : x) v += offset;
        const auto gain = numbers(width, 45), bias = numbers(width, 46);
        std::vector<float> out(width);
        layer_norm(x.data(), 1, width, gain.data(), bias.data(), 1e-5F, out.data(), pool);
        const auto want = layer_norm_ref(x, gain, bias, double{1e-5F});
        for (int64_t i = 0; i < width; i++) ASSERT_TRUE(within(out[i], want[i])) << width << " " << i;
      }
  });
}

TEST(Norms, RowsAreIndependent) {
  on_every_isa([&](Isa) {
    for (const int64_t width : {1, 17, 129, 1280}) {
      const auto gain = numbers(width, 47), bias = numbers(width, 48);
      expect_rows_independent(300, width, [&](const std::vector<float>& x, int64_t rows, ThreadPool& pool) {
        std::vector<float> out(x.size());
        rms_norm(x.data(), rows, width, gain.data(), 1e-6F, out.data(), pool);
        return out;
      });
      expect_rows_independent(300, width, [&](const std::vector<float>& x, int64_t rows, ThreadPool& pool) {
        std::vector<float> out = x;  // in place
        layer_norm(out.data(), rows, width, gain.data(), bias.data(), 1e-6F, out.data(), pool);
        return out;
      });
    }
  });
}

TEST(Gates, StayWithinTheDerivedBound) {
  std::vector<float> x = {0.0F, -0.0F, 1e-30F, -1e-30F, 88.0F, -88.0F, -87.0F, 200.0F, -200.0F, 3e38F, -3e38F};
  for (float v = -20; v < 20; v += 0.003F) x.push_back(v);
  const int64_t n = static_cast<int64_t>(x.size());
  const std::vector<float> ones(x.size(), 1.0F);
  ThreadPool pool(1);
  on_every_isa([&](Isa) {
    std::vector<float> silu(x.size()), erf = x, tanh = x;
    swiglu(x.data(), ones.data(), 1, n, n, silu.data(), pool);
    gelu(erf.data(), 1, n, false, pool);
    gelu(tanh.data(), 1, n, true, pool);
    for (size_t i = 0; i < x.size(); i++) {
      ASSERT_TRUE(within(silu[i], silu_ref(x[i]))) << "silu " << x[i];
      ASSERT_TRUE(within(erf[i], gelu_erf_ref(x[i]))) << "gelu " << x[i];
      ASSERT_TRUE(within(tanh[i], gelu_tanh_ref(x[i]))) << "gelu tanh " << x[i];
    }
  });
}

TEST(Gates, NotANumberStaysAndInfinityIsTheLimit) {
  ThreadPool pool(1);
  on_every_isa([&](Isa) {
    for (const bool form : {false, true}) {
      std::vector<float> x = {NAN, INFINITY, -INFINITY};
      gelu(x.data(), 1, 3, form, pool);
      EXPECT_TRUE(std::isnan(x[0]));
      EXPECT_EQ(x[1], INFINITY);
    }
    const std::vector<float> gate = {NAN, INFINITY}, up = {1, 1};
    std::vector<float> out(2);
    swiglu(gate.data(), up.data(), 1, 2, 2, out.data(), pool);
    EXPECT_TRUE(std::isnan(out[0]));
    EXPECT_EQ(out[1], INFINITY);
  });
}

TEST(Gates, AnElementDoesNotDependOnItsPlaceInTheVector) {
  ThreadPool pool(1);
  on_every_isa([&](Isa) {
    for (int64_t width = 1; width <= 70; width++) {
      const auto x = numbers(width, 49), up = numbers(width, 50);
      std::vector<float> all(width), alone(width);
      const auto each = [&](const auto& op) {
        op(0, width, all.data());
        for (int64_t i = 0; i < width; i++) op(i, 1, &alone[i]);
        ASSERT_TRUE(same_bits(all, alone)) << width;
      };
      each([&](int64_t i, int64_t n, float* out) { swiglu(&x[i], &up[i], 1, n, n, out, pool); });
      for (const bool form : {false, true})
        each([&](int64_t i, int64_t n, float* out) {
          std::copy_n(&x[i], n, out);
          gelu(out, 1, n, form, pool);
        });
    }
  });
}

TEST(Swiglu, WorksInPlaceInAFusedBuffer) {
  const int64_t rows = 50, width = 1000;
  const auto both = numbers(rows * 2 * width, 51);
  ThreadPool two(2);
  on_every_isa([&](Isa) {
    std::vector<float> out(rows * width), buffer = both;
    swiglu(both.data(), both.data() + width, rows, width, 2 * width, out.data(), two);
    swiglu(buffer.data(), buffer.data() + width, rows, width, 2 * width, buffer.data(), two);
    buffer.resize(out.size());
    EXPECT_TRUE(same_bits(out, buffer));
    for (int64_t i = 0; i < width; i += 97) {
      const Bounded s = silu_ref(both[2 * width + i]);
      const double up = both[3 * width + i];
      EXPECT_TRUE(within(out[width + i], {s.value * up, std::fabs(up) * (s.bound + 2 * kRoundoff * std::fabs(s.value)) + 1e-37}));
    }
  });
}

TEST(Add, IsTheSum) {
  ThreadPool two(2);
  const auto x = numbers(40 * 1001, 52), y = numbers(40 * 1001, 53);
  on_every_isa([&](Isa) {
    auto out = x;
    add(out.data(), y.data(), 40, 1001, two);
    for (size_t i = 0; i < x.size(); i++) ASSERT_EQ(out[i], x[i] + y[i]);
  });
}

TEST(Rotate, TurnsPairsByTheirAngleAndLeavesTheRest) {
  const int64_t rows = 60, heads = 3, width = 50, half = 20, ldx = 170;
  const auto x = numbers(rows * ldx, 54);
  std::vector<float> cos(rows * half), sin(rows * half);
  const auto angle = plain_numbers(rows * half, 55);
  for (size_t i = 0; i < cos.size(); i++) cos[i] = std::cos(angle[i]), sin[i] = std::sin(angle[i]);
  ThreadPool one(1), two(2);
  on_every_isa([&](Isa) {
    auto out = x, again = x;
    rotate(out.data(), rows, ldx, heads, width, half, cos.data(), sin.data(), two);
    for (int64_t t = 0; t < rows; t++) {
      rotate(&again[t * ldx], 1, ldx, heads, width, half, &cos[t * half], &sin[t * half], one);
      for (int64_t i = 0; i < ldx; i++) {
        const int64_t k = i % width;
        const float was = x[t * ldx + i];
        if (i >= heads * width || k >= 2 * half) {
          ASSERT_EQ(out[t * ldx + i], was);
          continue;
        }
        const int64_t pair = k % half;
        const double c = cos[t * half + pair], s = sin[t * half + pair];
        const double other = x[t * ldx + (k < half ? i + half : i - half)];
        const double a = was * c, b = other * (k < half ? -s : s);
        ASSERT_TRUE(within(out[t * ldx + i], {a + b, gamma(2) * (std::fabs(a) + std::fabs(b)) + 1e-37}));
      }
    }
    EXPECT_TRUE(same_bits(out, again));
  });
}

}  // namespace
}  // namespace slip
