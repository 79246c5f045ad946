// SPDX-License-Identifier: Apache-2.0
// The blob of a packed matrix: one and the same however it came to be, refused when it cannot be one, and int4's error.
#include <cstddef>
#include <cstring>
#include <limits>
#include <numeric>

#include "kernels/isa/int4.h"
#include "kernels/testing/kernels_testing.h"

namespace slip {
namespace {

/// Bytes at an address that 64 divides, plus `shift`.
struct Copy {
  explicit Copy(std::span<const std::byte> bytes, size_t shift = 0) : memory(bytes.size() + 128) {
    const size_t past = reinterpret_cast<uintptr_t>(memory.data()) % kPackedAlignment;
    at = memory.data() + (kPackedAlignment - past) + shift;
    std::copy(bytes.begin(), bytes.end(), at);
  }
  std::vector<std::byte> memory;
  std::byte* at;
};

TEST(PackedMatrix, ViewOfACopiedBlobGivesTheSameBits) {
  ThreadPool pool(2);
  Workspace workspace;
  for (const WeightType type : kWeightTypes)
    for (const auto& [n, k] : {std::pair{int64_t{130}, int64_t{77}}, {64, 256}, {1, 1}, {200, 300}}) {
      const auto weights = numbers(n * k, 31), x = numbers(5 * k, 32);
      const PackedMatrix w = pack_matrix(type, n, k, weights.data(), pool);
      EXPECT_EQ(w.blob().size(), PackedMatrix::packed_bytes(type, n, k));
      EXPECT_EQ(w.bytes() % kPackedAlignment, 0U);
      Copy copy(w.blob());
      auto owner = std::make_shared<int>(1);
      auto view = PackedMatrix::view(type, n, k, {copy.at, w.bytes()}, owner);
      ASSERT_TRUE(view) << view.error().message;
      EXPECT_EQ(owner.use_count(), 2);
      std::vector<float> a(5 * n), b(5 * n);
      matmul(w, x.data(), 5, k, nullptr, a.data(), n, pool, workspace);
      matmul(*view, x.data(), 5, k, nullptr, b.data(), n, pool, workspace);
      EXPECT_TRUE(same_bits(a, b));
    }
}

TEST(PackedMatrix, PackingIntoMemoryWritesEveryByteOfTheSameBlob) {
  ThreadPool pool(2);
  const int64_t n = 131, k = 300;
  const auto weights = numbers(n * k, 33);
  struct Rows {
    const float* w;
    int64_t k;
  } rows{weights.data(), k};
  const auto read = [](const void* p, int64_t row, float* out) {
    const Rows& r = *static_cast<const Rows*>(p);
    std::copy_n(r.w + row * r.k, r.k, out);
  };
  for (const WeightType type : kWeightTypes) {
    const PackedMatrix w = pack_matrix(type, n, k, weights.data(), pool);
    std::vector<std::byte> dirt(w.bytes(), std::byte{0xa5});
    Copy copy(dirt);
    pack_matrix_into(type, n, k, &rows, read, pool, {copy.at, w.bytes()});
    EXPECT_EQ(std::memcmp(copy.at, w.blob().data(), w.bytes()), 0);
  }
}

TEST(PackedMatrix, RefusesABlobThatCannotBeOne) {
  ThreadPool pool(1);
  const int64_t n = 70, k = 40;
  const auto weights = numbers(n * k, 34);
  for (const WeightType type : kWeightTypes) {
    const PackedMatrix w = pack_matrix(type, n, k, weights.data(), pool);
    const auto kind = [&](int64_t rows, int64_t columns, std::span<const std::byte> blob) {
      const auto view = PackedMatrix::view(type, rows, columns, blob, nullptr);
      return view ? ErrorKind::kInternal : view.error().kind;
    };
    Copy good(w.blob()), shifted(w.blob(), 4);
    EXPECT_EQ(kind(n, k, {good.at, w.bytes() - 64}), ErrorKind::kBadInput);
    EXPECT_EQ(kind(n + 64, k, {good.at, w.bytes()}), ErrorKind::kBadInput);
    EXPECT_EQ(kind(n, k, {shifted.at, w.bytes()}), ErrorKind::kBadInput);
    EXPECT_EQ(kind(0, k, {good.at, 0}), ErrorKind::kBadInput);
    EXPECT_EQ(kind(n, -1, {good.at, w.bytes()}), ErrorKind::kBadInput);
    EXPECT_EQ(kind(std::numeric_limits<int64_t>::max(), std::numeric_limits<int64_t>::max(), {good.at, w.bytes()}),
              ErrorKind::kBadInput);
    if (w.scales() == nullptr) continue;
    EXPECT_EQ(kind(n, kMaxInt8Inner + 1, {good.at, w.bytes()}), ErrorKind::kBadInput);
    for (const float bad : {NAN, INFINITY, -1.0F}) {
      Copy broken(w.blob());
      const ptrdiff_t at = reinterpret_cast<const std::byte*>(w.scales() + n - 1) - w.blob().data();
      std::memcpy(broken.at + at, &bad, sizeof bad);
      EXPECT_EQ(kind(n, k, {broken.at, w.bytes()}), ErrorKind::kBadInput);
    }
  }
}

TEST(PackedMatrix, AnyBytesOfInt4AreSafeAndGiveTheSameBitsOnEveryInstructionSet) {
  ThreadPool pool(2);
  Workspace workspace;
  const int64_t n = 100, k = 333;
  const size_t bytes = PackedMatrix::packed_bytes(WeightType::kI4, n, k);
  std::vector<std::byte> noise(bytes);
  std::mt19937 engine(35);
  for (std::byte& b : noise) b = static_cast<std::byte>(engine());
  Copy copy(noise);
  std::vector<float> scales(128, 0.5F);
  std::memcpy(copy.at + bytes - scales.size() * 4, scales.data(), scales.size() * 4);
  const auto w = PackedMatrix::view(WeightType::kI4, n, k, {copy.at, bytes}, nullptr);
  ASSERT_TRUE(w) << w.error().message;
  // The sums of the columns are right: an instruction set whose activations have no offset does not read them.
  for (int64_t c = 0; c < n; c++) {
    std::vector<float> row(k);
    w->row(c, row);
    // Weights behind the last count as well; they meet zeros, stored with the offset or without.
    const auto sum = static_cast<int32_t>(128 * 2 * std::accumulate(row.begin(), row.end(), 0.0F));
    std::memcpy(copy.at + bytes - 2 * scales.size() * 4 + c * 4, &sum, sizeof sum);
  }
  const auto x = plain_numbers(70 * k, 36);
  std::vector<float> first;
  on_every_isa([&](Isa) {
    for (const int64_t rows : {1, 5, 8, 9, 70}) {
      std::vector<float> out(rows * n);
      matmul(*w, x.data(), rows, k, nullptr, out.data(), n, pool, workspace);
      if (first.empty()) {
        first.resize(70 * n);
        matmul(*w, x.data(), 70, k, nullptr, first.data(), n, pool, workspace);
      }
      EXPECT_TRUE(same_bits(out, {first.data(), out.size()}));
    }
  });
}

TEST(Int4, ValuesAscendAndFitInt8) {
  for (int code = 0; code < kInt4Codes; code++)
    for (int level = 0; level < 16; level++) {
      const int value = kInt4Values.at[16 * code + level];
      EXPECT_LE(std::abs(value), 127);
      if (level > 0) {
        EXPECT_GT(value, kInt4Values.at[16 * code + level - 1]);
      }
      if (code > 0 && level > 7) {
        EXPECT_GE(value, kInt4Values.at[16 * (code - 1) + level]);
      }
    }
}

/// Root of the mean square error over that of the numbers, of the stored matrix, and of plain absmax groups of 32 with f32 scales.
std::pair<double, double> int4_errors(const std::vector<float>& w, int64_t n, int64_t k) {
  ThreadPool pool(2);
  const PackedMatrix packed = pack_matrix(WeightType::kI4, n, k, w.data(), pool);
  std::vector<float> row(k);
  double ours = 0, plain = 0, size = 0;
  for (int64_t r = 0; r < n; r++) {
    packed.row(r, row);
    for (int64_t first = 0; first < k; first += kInt4Group) {
      const float* x = &w[r * k + first];
      float largest = 0;
      for (int64_t i = 0; i < kInt4Group; i++) largest = std::max(largest, std::fabs(x[i]));
      const float step = largest / 7;
      for (int64_t i = 0; i < kInt4Group; i++) {
        const double d = x[i] - row[first + i], p = x[i] - std::nearbyint(x[i] / step) * step;
        ours += d * d, plain += p * p, size += double{x[i]} * x[i];
      }
    }
  }
  return {std::sqrt(ours / size), std::sqrt(plain / size)};
}

TEST(Int4, IsCloserToNormalAndHeavyTailedWeightsThanAbsmaxGroups) {
  const int64_t n = 40, k = 2048;
  const auto normal = int4_errors(plain_numbers(n * k, 37), n, k);
  std::mt19937 engine(38);
  std::student_t_distribution<float> student(5);
  std::vector<float> tails(n * k);
  for (float& x : tails) x = student(engine);
  const auto heavy = int4_errors(tails, n, k);
  RecordProperty("normal", std::to_string(normal.first) + " against " + std::to_string(normal.second));
  RecordProperty("heavy", std::to_string(heavy.first) + " against " + std::to_string(heavy.second));
  EXPECT_LT(normal.first, 0.90 * normal.second);
  EXPECT_LT(heavy.first, 0.85 * heavy.second);
}

TEST(Int4, AChannelOfZerosIsZerosAndOneOfTinyNumbersFinite) {
  ThreadPool pool(1);
  Workspace workspace;
  const int64_t k = 64;
  std::vector<float> w(3 * k, 0.0F), x(k, 1.0F), out(3), row(k);
  for (int64_t i = 0; i < k; i++) w[k + i] = 1e-42F, w[2 * k + i] = i % 2 ? 1e30F : -1e30F;
  const PackedMatrix m = pack_matrix(WeightType::kI4, 3, k, w.data(), pool);
  matmul(m, x.data(), 1, k, nullptr, out.data(), 3, pool, workspace);
  EXPECT_EQ(out[0], 0);
  EXPECT_TRUE(std::isfinite(out[1]) && std::isfinite(out[2]));
  m.row(2, row);
  EXPECT_NEAR(row[1], 1e30F, 1e25F);
}

}  // namespace
}  // namespace slip
