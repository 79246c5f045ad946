// SPDX-License-Identifier: Apache-2.0
// Products on the emulated device against sums in double, and a row's bits whatever the rows beside it: run by run, tile by tile, blocks of 8 to
// 192 rows.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <random>
#include <vector>

#include "core/dtype.h"
#include "cuda/device/gpu_emulated.h"
#include "cuda/kernels.h"

namespace slip::cuda {
namespace {

struct Case {
  int tiles, steps, rows;
  bool bytes = false;
};

void PrintTo(const Case& c, std::ostream* out) {
  *out << c.tiles << " tiles of " << c.steps << " steps, " << c.rows << " rows" << (c.bytes ? ", bytes" : "");
}

class Products : public testing::TestWithParam<Case> {
 protected:
  void SetUp() override {
    const Case c = GetParam();
    std::mt19937 random(5);
    std::normal_distribution<float> normal(0, 1);
    k_ = c.steps * kInnerStep - 3;  // the last step is not full
    n_ = c.tiles * kTileChannels - 5;
    weights_.resize(static_cast<size_t>(c.tiles * c.steps) * kTileNumbers);
    bytes_.resize(weights_.size(), kByteZero);
    scales_.resize(static_cast<size_t>(c.tiles * kTileChannels), 0);
    for (int n = 0; n < n_; ++n) {
      scales_[static_cast<size_t>(n)] = 0.001F * static_cast<float>(1 + n % 7);
      for (int k = 0; k < k_; ++k) {
        weights_[place(n, k)] = to_bf16(normal(random)).bits;
        bytes_[place_of_byte(n, k)] = static_cast<uint8_t>((n * 31 + k * 57 + n * k) % 256);
      }
    }
    x_TK_.resize(static_cast<size_t>(c.rows * k_));
    for (uint16_t& x : x_TK_) x = to_bf16(normal(random)).bits;
    bias_.resize(static_cast<size_t>(n_));
    for (float& b : bias_) b = normal(random);
  }

  size_t place(int n, int k) const {
    const size_t tile = static_cast<size_t>(n / kTileChannels * GetParam().steps + k / kInnerStep);
    const int line = n % kTileChannels;
    return tile * kTileNumbers + static_cast<size_t>(line * kInnerStep + line_place(line, k % kInnerStep));
  }

  size_t place_of_byte(int n, int k) const {
    const size_t tile = static_cast<size_t>(n / kTileChannels * GetParam().steps + k / kInnerStep);
    return tile * kTileNumbers + static_cast<size_t>(byte_place(n % kTileChannels, k % kInnerStep));
  }

  double weight(int n, int k) const {
    if (GetParam().bytes) return (bytes_[place_of_byte(n, k)] - kByteZero) * double{scales_[static_cast<size_t>(n)]};
    return to_float(BF16{weights_[place(n, k)]});
  }

  /// Rows first .. first + rows - 1 in one product.
  std::vector<float> multiply(int first, int rows, bool early = false) {
    const int room = (rows + 7) / 8 * 8;
    std::vector<uint16_t> tiles(static_cast<size_t>(GetParam().steps * room + 192) * kInnerStep, 0);
    const RowTiles x{tiles.data(), room};
    for (int t = 0; t < rows; ++t)
      for (int k = 0; k < k_; ++k) *x.at(t, k) = x_TK_[static_cast<size_t>((first + t) * k_ + k)];
    std::vector<float> out(static_cast<size_t>(rows * n_), -1), shares(share_numbers(rows));
    std::vector<int32_t> arrivals(static_cast<size_t>(GetParam().tiles), 0);
    ProductArgs args{};
    args.count = &rows;
    args.w = {weights_.data(), n_, k_, GetParam().tiles, GetParam().steps, nullptr};
    if (GetParam().bytes) args.w.data = bytes_.data(), args.w.scale_N = scales_.data();
    args.x_TK = x;
    args.bias_N = bias_.data();
    args.then = Then::kStore;
    args.out = out.data();
    args.ldo = n_;
    args.shares = {shares.data(), arrivals.data()};
    const std::vector<uint16_t> written = tiles;
    if (early) gpu::overlap_with([&] { std::fill(tiles.begin(), tiles.end(), 0x7fc0); }, [&] { tiles = written; });
    product(args, rows, nullptr);
    gpu::overlap_with({}, {});
    EXPECT_EQ(arrivals, std::vector<int32_t>(arrivals.size(), 0)) << "left for the next product";
    return out;
  }

  int k_ = 0, n_ = 0;
  std::vector<uint16_t> weights_, x_TK_;
  std::vector<uint8_t> bytes_;
  std::vector<float> bias_, scales_;
};

TEST_P(Products, AreTheSumsInDoubleUpToRounding) {
  const int rows = GetParam().rows;
  const std::vector<float> out = multiply(0, rows);
  for (int t = 0; t < rows; t += 7)
    for (int n = 0; n < n_; n += 11) {
      double sum = bias_[static_cast<size_t>(n)], size = 0;
      for (int k = 0; k < k_; ++k) {
        const double term = weight(n, k) * to_float(BF16{x_TK_[static_cast<size_t>(t * k_ + k)]});
        sum += term;
        size += std::abs(term);
      }
      ASSERT_NEAR(out[static_cast<size_t>(t * n_ + n)], sum, 1e-6 * size) << t << " " << n;
    }
}

TEST_P(Products, GiveARowTheSameBitsInAnyCompany) {
  const int rows = GetParam().rows;
  const std::vector<float> whole = multiply(0, rows);
  for (const int each : {150, 128, 64, 32, 16, 8, 1}) {
    const int first = each < rows ? (rows - each) / 2 : 0, n = std::min(each, rows);
    const std::vector<float> part = multiply(first, n);
    EXPECT_EQ(std::memcmp(part.data(), whole.data() + static_cast<ptrdiff_t>(first) * n_, part.size() * sizeof(float)), 0) << each;
  }
}

// Weights come in while the kernel before still writes the rows.
TEST_P(Products, WaitForTheirRows) {
  const int rows = GetParam().rows;
  for (const int n : {rows, 64, 9, 1}) EXPECT_EQ(multiply(0, std::min(n, rows), true), multiply(0, std::min(n, rows))) << n;
}

// Rings are not written before what was in them is multiplied, however quick those are that fill them.
TEST_P(Products, WaitForTheirRings) {
  const int rows = std::min(GetParam().rows, 200);
  for (const int n : {rows, 9}) {
    const std::vector<float> usual = multiply(0, std::min(n, rows));
    for (const int warps : {3, 4}) {  // that fills rows, and that with the one that fills weights
      gpu::hurry_last_warps(warps);
      EXPECT_EQ(multiply(0, std::min(n, rows)), usual) << n << " rows, the last " << warps << " warps";
      gpu::hurry_last_warps(0);
    }
  }
}

// 132 tiles and 384 rows: one round of blocks of 192 rows, two of blocks of 128.
INSTANTIATE_TEST_SUITE_P(OfAllKinds, Products,
                         testing::Values(Case{132, 1, 384}, Case{4, 9, 200}, Case{70, 3, 130}, Case{2, 5, 70},
                                         Case{132, 1, 384, true}, Case{4, 9, 200, true}, Case{70, 3, 130, true},
                                         Case{2, 5, 70, true}));

// Every byte is the number that it stands for, to the bit.
TEST(Widen, GivesTheNumberOfEveryByte) {
  for (uint32_t b = 0; b < 256; ++b) {
    uint32_t even = 0, odd = 0;
    gpu::widen(b | (255 - b) << 8 | (b ^ 85) << 16 | 7U << 24, even, odd);
    const auto number = [](uint32_t byte) {
      return static_cast<uint32_t>(to_bf16(static_cast<float>(static_cast<int>(byte) - 128)).bits);
    };
    EXPECT_EQ(even, number(b) | number(b ^ 85) << 16);
    EXPECT_EQ(odd, number(255 - b) | number(7) << 16);
  }
}

// A tile's bytes have 4,096 places, each one byte's.
TEST(BytePlace, IsEachBytesOwn) {
  std::vector<bool> taken(kTileNumbers);
  for (int channel = 0; channel < kTileChannels; ++channel)
    for (int k = 0; k < kInnerStep; ++k) {
      const int place = byte_place(channel, k);
      ASSERT_TRUE(place >= 0 && place < kTileNumbers && !taken[static_cast<size_t>(place)]) << channel << " " << k;
      taken[static_cast<size_t>(place)] = true;
    }
}

}  // namespace
}  // namespace slip::cuda
