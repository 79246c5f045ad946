// SPDX-License-Identifier: Apache-2.0
// Weights in the order in which the product kernels read them (packed_layout.h). int8: one scale per column, absmax / 127. int4: the
// channel's scale maps its largest number to the largest level; per group of 32 the code with the least squared error is taken.
#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <vector>

#include "base/check.h"
#include "base/large_pages.h"
#include "core/dtype.h"
#include "kernels/kernels.h"
#include "kernels/packed_layout.h"

namespace slip {
namespace {

static_assert(std::endian::native == std::endian::little, "the blob's bytes are the words of a little-endian machine");

/// Largest side of a matrix: n * k * 4 stays far inside int64.
constexpr int64_t kMostRows = int64_t{1} << 31, kMostColumns = int64_t{1} << 28;

constexpr float kRoundBias = 12582912.0F;  // 1.5 * 2^23: adding it rounds to an integer, half to even

bool possible(WeightType type, int64_t n, int64_t k) {
  return n > 0 && k > 0 && n < kMostRows && k < kMostColumns && (!is_integer(type) || k <= kMaxInt8Inner);
}

// Magnitudes are compared as integers, which compilers vectorise; NaN counts as the largest.
float absmax(const float* w_K, int64_t k) {
  int32_t largest = 0;
  for (int64_t i = 0; i < k; i++) largest = std::max(largest, static_cast<int32_t>(std::bit_cast<uint32_t>(w_K[i]) & 0x7FFFFFFF));
  return std::bit_cast<float>(largest);
}

struct Column {
  float scale = 1;
  int32_t sum = 0;  // of the stored integers
};

// A column's words one behind the other; the rest of the last word stays as it was (zero).
void words_of_bf16(const float* w_K, int64_t k, Word* words) {
  uint16_t* out = reinterpret_cast<uint16_t*>(words);
  for (int64_t i = 0; i < k; i++) out[i] = to_bf16(w_K[i]).bits;
}

// Adding kRoundBias leaves the rounded quotient in the sum's low bits: nearbyint without a call, and no cast that NaN could break.
Column words_of_int8(const float* w_K, int64_t k, Word* words) {
  int8_t* out = reinterpret_cast<int8_t*>(words);
  const float scale = absmax(w_K, k) / 127.0F;
  if (!(scale > 0)) {
    std::fill_n(out, k, int8_t{0});
    return {scale, 0};
  }
  int32_t sum = 0;
  for (int64_t i = 0; i < k; i++) {
    const int32_t n = std::bit_cast<int32_t>(w_K[i] / scale + kRoundBias) - std::bit_cast<int32_t>(kRoundBias);
    const int32_t clamped = std::clamp(n, -127, 127);
    sum += clamped;
    out[i] = static_cast<int8_t>(clamped);
  }
  return {scale, sum};
}

/// Level of each number of a group (already in units of the channel's scale, -127 .. 127) under a code, and the squared error.
float levels_of(const float* w, int64_t n, int code, uint8_t* level) {
  const int8_t* values = kInt4Values.at + 16 * code;
  int32_t at[kInt4Group] = {};
  for (int m = 0; m < 15; m++) {
    const float middle = 0.5F * static_cast<float>(values[m] + values[m + 1]);
    for (int64_t i = 0; i < kInt4Group; i++) at[i] += w[i] > middle;  // all 32, which a compiler turns into vector code
  }
  float error = 0;
  for (int64_t i = 0; i < n; i++) {
    const float d = w[i] - static_cast<float>(values[at[i]]);
    error += d * d;
    level[i] = static_cast<uint8_t>(at[i]);
  }
  return error;
}

/// Codes worth trying: the largest number may be clipped by a quarter, or leave a third of the range empty.
int best_code(const float* w, int64_t n, uint8_t* level) {
  const float largest = absmax(w, n);
  float least = INFINITY;
  int best = 0;
  for (int code = 0; code < kInt4Codes; code++) {
    const float top = kInt4Values.at[16 * code + 15];
    if ((top < 0.75F * largest && code + 1 < kInt4Codes) || (top > 1.5F * largest && code > 0 && least < INFINITY)) continue;
    uint8_t tried[kInt4Group];
    const float error = levels_of(w, n, code, tried);
    if (error < least) {
      least = error;
      best = code;
      std::copy_n(tried, n, level);
    }
  }
  return best;
}

Column pack_int4(const float* w_K, int64_t k, int64_t c, std::byte* block) {
  const float scale = absmax(w_K, k) / 127.0F;
  if (!(scale > 0 && 1 / scale < INFINITY)) return {0, 0};
  const float inverse = 1 / scale;
  int32_t sum = 0;
  for (int64_t first = 0; first < k; first += kInt4Group) {
    const int64_t n = std::min(kInt4Group, k - first), step = first / 4, in_chunk = step % kChunkSteps;
    float scaled[kInt4Group] = {};
    uint8_t level[kInt4Group] = {};
    for (int64_t i = 0; i < n; i++) scaled[i] = w_K[first + i] * inverse;
    const int code = best_code(scaled, n, level);
    // The chunk that holds this group, and how long it is.
    const int64_t steps = (k + kInt4Group - 1) / kInt4Group * kInt4GroupSteps;
    std::byte* chunk = block + step / kChunkSteps * int4_chunk_bytes(kChunkSteps);
    std::byte* lines = chunk + int4_code_bytes(std::min(kChunkSteps, steps - (step - in_chunk)));
    chunk[in_chunk / kInt4GroupSteps * 32 + c % 32] |= static_cast<std::byte>(code << (c < 32 ? 0 : 4));
    for (int64_t i = 0; i < n; i++) {
      const int64_t s = in_chunk + i / 4;
      lines[s / 2 * 256 + 4 * c + i % 4] |= static_cast<std::byte>(level[i] << (4 * (s % 2)));
      sum += kInt4Values.at[16 * code + level[i]];
    }
  }
  return {scale, sum};
}

// Columns whose words are laid side by side at a time: 16 words are a cache line, written whole.
constexpr int64_t kTileColumns = 16;

Column words_of_column(WeightType type, const float* w_K, int64_t k, Word* words) {
  if (type == WeightType::kI8) return words_of_int8(w_K, k, words);
  if (type == WeightType::kBF16) {
    words_of_bf16(w_K, k, words);
  } else {
    std::memcpy(words, w_K, static_cast<size_t>(k) * sizeof(float));
  }
  return {};
}

float int4_number(const std::byte* block, int64_t steps, int64_t c, int64_t i) {
  const int64_t step = i / 4, in_chunk = step % kChunkSteps;
  const std::byte* chunk = block + step / kChunkSteps * int4_chunk_bytes(kChunkSteps);
  const std::byte* lines = chunk + int4_code_bytes(std::min(kChunkSteps, steps - (step - in_chunk)));
  const int code = static_cast<int>(chunk[in_chunk / kInt4GroupSteps * 32 + c % 32] >> (c < 32 ? 0 : 4)) & 7;
  const int level = static_cast<int>(lines[in_chunk / 2 * 256 + 4 * c + i % 4] >> (4 * (in_chunk % 2))) & 15;
  return kInt4Values.at[16 * code + level];
}

std::shared_ptr<std::byte> allocate(size_t bytes) {
  return {static_cast<std::byte*>(allocate_numbers(bytes)), [](std::byte* q) { std::free(q); }};
}

}  // namespace

size_t PackedMatrix::packed_bytes(WeightType type, int64_t n, int64_t k) {
  SLIP_CHECK(n > 0 && k > 0, "a weight matrix has rows and columns");
  return static_cast<size_t>(PackedLayout(type, n, k).bytes);
}

const float* PackedMatrix::scales() const {
  return is_integer(type_) ? reinterpret_cast<const float*>(base_ + PackedLayout(type_, n_, k_).scales_at) : nullptr;
}

Result<PackedMatrix> PackedMatrix::view(WeightType type, int64_t n, int64_t k, std::span<const std::byte> blob,
                                        std::shared_ptr<const void> owner) {
  if (static_cast<int>(type) >= kWeightTypeCount) return bad_input("packed matrix: expected a weight type, got {}", int(type));
  if (!possible(type, n, k))
    return bad_input("packed matrix: expected 1 to {} rows and 1 to {} columns, got {} x {}", kMostRows - 1,
                     is_integer(type) ? kMaxInt8Inner : kMostColumns - 1, n, k);
  const PackedLayout layout(type, n, k);
  if (blob.size() != static_cast<size_t>(layout.bytes))
    return bad_input("packed matrix of {} x {}: expected {} bytes, got {}", n, k, layout.bytes, blob.size());
  if (reinterpret_cast<uintptr_t>(blob.data()) % kPackedAlignment != 0)
    return bad_input("packed matrix of {} x {}: expected an address that {} divides, got {} beyond one", n, k, kPackedAlignment,
                     reinterpret_cast<uintptr_t>(blob.data()) % kPackedAlignment);
  PackedMatrix m;
  m.owner_ = std::move(owner);
  m.base_ = blob.data();
  m.bytes_ = blob.size();
  m.n_ = n;
  m.k_ = k;
  m.type_ = type;
  const float* scales = m.scales();
  for (int64_t c = 0; scales && c < n; c++)
    if (!(scales[c] >= 0 && std::isfinite(scales[c])))
      return bad_input("packed matrix of {} x {}: expected a finite scale of row {}, got {}", n, k, c, scales[c]);
  return m;
}

void pack_matrix_into(WeightType type, int64_t n, int64_t k, const void* context, void (*read_row)(const void*, int64_t, float*),
                      ThreadPool& pool, std::span<std::byte> blob) {
  SLIP_CHECK(possible(type, n, k), "the loader refuses empty matrices, and what int32 sums cannot hold");
  const PackedLayout layout(type, n, k);
  SLIP_CHECK(blob.size() == static_cast<size_t>(layout.bytes), "the caller asked packed_bytes");
  SLIP_CHECK(reinterpret_cast<uintptr_t>(blob.data()) % kPackedAlignment == 0, "blobs are aligned");
  std::memset(blob.data() + layout.sums_at, 0, static_cast<size_t>(layout.bytes - layout.sums_at));
  const auto read_column = [&](int64_t column, float* w_K, auto&& pack) {
    read_row(context, column, w_K);
    const Column packed = pack(w_K);
    if (!is_integer(type)) return;
    reinterpret_cast<int32_t*>(blob.data() + layout.sums_at)[column] = 128 * packed.sum;
    reinterpret_cast<float*>(blob.data() + layout.scales_at)[column] = packed.scale;
  };
  pool.run(layout.blocks, [&](int64_t b) {
    std::vector<float> w_K(static_cast<size_t>(k));
    std::byte* block = blob.data() + b * layout.block_bytes;
    const int64_t first = b * kBlockColumns, columns = std::min(kBlockColumns, n - first);
    if (type == WeightType::kI4) {
      std::memset(block, 0, static_cast<size_t>(layout.block_bytes));
      for (int64_t c = 0; c < columns; c++)
        read_column(first + c, w_K.data(), [&](const float* w) { return pack_int4(w, k, c, block); });
      return;
    }
    const int64_t steps = layout.steps;
    std::vector<uint32_t> tile(
        static_cast<size_t>(kTileColumns * steps));  // columns that are not there, and the last words' rest: zero
    for (int64_t t = 0; t < kBlockColumns; t += kTileColumns) {
      if (columns < t + kTileColumns) std::fill(tile.begin(), tile.end(), 0U);
      for (int64_t c = t; c < std::min(columns, t + kTileColumns); c++)
        read_column(first + c, w_K.data(),
                    [&](const float* w) { return words_of_column(type, w, k, tile.data() + (c - t) * steps); });
      Word* out = reinterpret_cast<Word*>(block) + t;
      for (int64_t s = 0; s < steps; s++, out += kBlockColumns)
        for (int64_t c = 0; c < kTileColumns; c++) out[c] = tile[static_cast<size_t>(c * steps + s)];
    }
  });
}

PackedMatrix pack_matrix(WeightType type, int64_t n, int64_t k, const void* context, void (*read_row)(const void*, int64_t, float*),
                         ThreadPool& pool) {
  const size_t bytes = PackedMatrix::packed_bytes(type, n, k);
  const std::shared_ptr<std::byte> memory = allocate(bytes);
  pack_matrix_into(type, n, k, context, read_row, pool, {memory.get(), bytes});
  PackedMatrix m;  // not through view(): scales of weights that are not finite are the caller's matter
  m.owner_ = memory;
  m.base_ = memory.get();
  m.bytes_ = bytes;
  m.n_ = n;
  m.k_ = k;
  m.type_ = type;
  return m;
}

PackedMatrix pack_matrix(WeightType type, int64_t n, int64_t k, const float* w_NK, ThreadPool& pool) {
  struct Dense {
    const float* w_NK;
    int64_t k;
  };
  const Dense dense{w_NK, k};
  return pack_matrix(
      type, n, k, &dense,
      [](const void* p, int64_t row, float* out_K) {
        const Dense& d = *static_cast<const Dense*>(p);
        std::memcpy(out_K, d.w_NK + row * d.k, static_cast<size_t>(d.k) * sizeof(float));
      },
      pool);
}

void PackedMatrix::row(int64_t n, std::span<float> out_K) const {
  SLIP_CHECK(n >= 0 && n < n_ && static_cast<int64_t>(out_K.size()) == k_, "a row of this matrix");
  const PackedLayout layout(type_, n_, k_);
  const std::byte* start = base_ + n / kBlockColumns * layout.block_bytes;
  const int64_t c = n % kBlockColumns;
  const Word* column = reinterpret_cast<const Word*>(start) + c;
  const float scale = is_integer(type_) ? scales()[n] : 1;
  for (int64_t i = 0; i < k_; i++) {
    float& out = out_K[static_cast<size_t>(i)];
    if (type_ == WeightType::kF32) {
      out = std::bit_cast<float>(static_cast<uint32_t>(column[i * kBlockColumns]));
    } else if (type_ == WeightType::kBF16) {
      out = to_float(BF16{static_cast<uint16_t>(column[i / 2 * kBlockColumns] >> (16 * (i % 2)))});
    } else if (type_ == WeightType::kI8) {
      out = static_cast<float>(static_cast<int8_t>(column[i / 4 * kBlockColumns] >> (8 * (i % 4)))) * scale;
    } else {
      out = int4_number(start, layout.steps, c, i) * scale;
    }
  }
}

}  // namespace slip
