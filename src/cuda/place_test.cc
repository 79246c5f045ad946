// SPDX-License-Identifier: Apache-2.0
// Heads are normed, turned and stored on the emulated device as plain loops in double do it, and to the same bits in short passes and long ones: heads
// whose lanes have two pairs each, and all others.
#include <gtest/gtest.h>

#include <cmath>
#include <random>
#include <vector>

#include "core/dtype.h"
#include "cuda/device/gpu_emulated.h"
#include "cuda/kernels.h"

namespace slip::cuda {
namespace {

struct Case {
  int heads, kv_heads, width, half;
  bool norm = false;
};

void PrintTo(const Case& c, std::ostream* out) {
  *out << c.heads << " heads on " << c.kv_heads << " of " << c.width << ", " << c.half << " pairs turn"
       << (c.norm ? ", normed" : "");
}

constexpr int kRows = 80, kSlots = 100;
constexpr float kEps = 1e-6F, kFactor = 0.3F;

class Place : public testing::TestWithParam<Case> {
 protected:
  struct Placed {
    std::vector<uint16_t> q_THP, keys_SGP, values_SGP;
  };

  void SetUp() override {
    const Case c = GetParam();
    padded_ = (c.width + 31) / 32 * 32;
    std::mt19937 random(3);
    std::normal_distribution<float> normal(0, 1);
    const auto fill = [&](std::vector<float>& to, int n) {
      to.resize(static_cast<size_t>(n));
      for (float& x : to) x = normal(random);
    };
    fill(qkv_TE_, kRows * heads() * c.width);
    fill(q_norm_K_, c.width);
    fill(k_norm_K_, c.width);
    fill(scale_T_, kRows);
    for (int i = 0; i < kRows * c.half; ++i) {
      cos_TK2_.push_back(std::cos(static_cast<float>(i)));
      sin_TK2_.push_back(std::sin(static_cast<float>(i)));
    }
    for (int t = 0; t < kRows; ++t) slots_T_.push_back((t * 7 + 3) % kSlots);
  }

  int heads() const { return GetParam().heads + 2 * GetParam().kv_heads; }

  Placed placed(int rows) const {
    const Case c = GetParam();
    constexpr uint16_t kUntouched = 0x7fff;
    const auto numbers = [&](int lines) { return std::vector<uint16_t>(static_cast<size_t>(lines * padded_), kUntouched); };
    Placed out{numbers(rows * c.heads), numbers(kSlots * c.kv_heads), numbers(kSlots * c.kv_heads)};
    const PassCounts counts{.rows = rows};
    place({&counts, qkv_TE_.data(), cos_TK2_.data(), sin_TK2_.data(), c.norm ? q_norm_K_.data() : nullptr,
           c.norm ? k_norm_K_.data() : nullptr, kEps, scale_T_.data(), kFactor, slots_T_.data(), c.heads, c.kv_heads, c.width,
           c.half, padded_, out.q_THP.data(), out.keys_SGP.data(), out.values_SGP.data()},
          rows, nullptr);
    return out;
  }

  /// What head h of row t comes to, padded with zeros: first all queries' heads, then keys, then values.
  std::vector<double> expected(int t, int h) const {
    const Case c = GetParam();
    const float* x = qkv_TE_.data() + (t * heads() + h) * c.width;
    std::vector<double> v(x, x + c.width), out(static_cast<size_t>(padded_), 0);
    const bool is_q = h < c.heads, is_value = h >= c.heads + c.kv_heads;
    if (is_value) {
      std::copy(v.begin(), v.end(), out.begin());
      return out;
    }
    if (c.norm) {
      double squares = 0;
      for (const double e : v) squares += e * e;
      const std::vector<float>& gain_K = is_q ? q_norm_K_ : k_norm_K_;
      for (size_t k = 0; k < v.size(); ++k) v[k] *= gain_K[k] / std::sqrt(squares / c.width + double{kEps});
    }
    const double factor = is_q ? double{kFactor} * scale_T_[static_cast<size_t>(t)] : 1;
    for (int k = 0; k < c.width; ++k) out[static_cast<size_t>(k)] = v[static_cast<size_t>(k)] * factor;
    for (int k = 0; k < c.half; ++k) {
      const auto low = static_cast<size_t>(k), high = static_cast<size_t>(k + c.half), at = static_cast<size_t>(t * c.half + k);
      out[low] = (v[low] * cos_TK2_[at] - v[high] * sin_TK2_[at]) * factor;
      out[high] = (v[high] * cos_TK2_[at] + v[low] * sin_TK2_[at]) * factor;
    }
    return out;
  }

  int padded_ = 0;
  std::vector<float> qkv_TE_, q_norm_K_, k_norm_K_, scale_T_, cos_TK2_, sin_TK2_;
  std::vector<int32_t> slots_T_;
};

TEST_P(Place, TurnsHeadsAsLoopsInDoubleDo) {
  const Case c = GetParam();
  const Placed got = placed(kRows);
  for (int t = 0; t < kRows; t += 3)
    for (int h = 0; h < heads(); ++h) {
      const bool is_q = h < c.heads, is_value = h >= c.heads + c.kv_heads;
      const int line = is_q ? t * c.heads + h : slots_T_[static_cast<size_t>(t)] * c.kv_heads + (h - c.heads) % c.kv_heads;
      const auto& of = is_q ? got.q_THP : is_value ? got.values_SGP : got.keys_SGP;
      const std::vector<double> want = expected(t, h);
      for (int k = 0; k < padded_; ++k) {
        const double number = to_float(BF16{of[static_cast<size_t>(line * padded_ + k)]});
        ASSERT_NEAR(number, want[static_cast<size_t>(k)], 0.005 * std::abs(want[static_cast<size_t>(k)]) + 1e-6)
            << "row " << t << " head " << h << " number " << k;
      }
    }
}

TEST_P(Place, GivesARowTheSameBitsInShortPassesAndLong) {
  const Placed long_one = placed(kRows), short_one = placed(8);
  EXPECT_TRUE(std::equal(short_one.q_THP.begin(), short_one.q_THP.end(), long_one.q_THP.begin()));
  const auto line = static_cast<size_t>(GetParam().kv_heads * padded_);
  for (size_t t = 0; t < 8; ++t) {
    const auto at = static_cast<ptrdiff_t>(static_cast<size_t>(slots_T_[t]) * line), end = at + static_cast<ptrdiff_t>(line);
    EXPECT_TRUE(std::equal(short_one.keys_SGP.begin() + at, short_one.keys_SGP.begin() + end, long_one.keys_SGP.begin() + at)) << t;
    EXPECT_TRUE(std::equal(short_one.values_SGP.begin() + at, short_one.values_SGP.begin() + end, long_one.values_SGP.begin() + at))
        << t;
  }
}

INSTANTIATE_TEST_SUITE_P(OfAllKinds, Place,
                         testing::Values(Case{6, 2, 128, 64, true}, Case{16, 16, 80, 40}, Case{7, 1, 64, 32},
                                         Case{5, 3, 12, 6, true}, Case{2, 1, 256, 128, true}, Case{4, 2, 24, 4}, Case{3, 1, 6, 3},
                                         Case{4, 4, 40, 10, true}));

}  // namespace
}  // namespace slip::cuda
