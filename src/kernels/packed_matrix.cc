// SPDX-License-Identifier: Apache-2.0
// Weights in the order in which the product kernels read them: blocks of 64 columns (output channels), inside a block
// one 256-byte line of 64 words per step of the inner dimension, a word being 1 f32, 2 bf16 or 4 int8 of one column.
// Padding is zero. int8 blocks are followed by 128 * sum_k w per column, which takes off the activations' offset
// (ops.h).
#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <vector>

#include "base/check.h"
#include "core/dtype.h"
#include "kernels/kernels.h"
#include "kernels/packed_layout.h"

namespace slip {
namespace {

template <class T>
T* aligned_zeros(size_t count) {
  const size_t bytes = std::max<size_t>((count * sizeof(T) + 63) / 64 * 64, 64);
  void* p = std::aligned_alloc(64, bytes);
  if (p == nullptr) throw std::bad_alloc();
  return static_cast<T*>(std::memset(p, 0, bytes));
}

/// Column c of a block from one row of w; returns the scale (int8) and adds up the stored numbers.
float pack_column(WeightType type, const float* w_K, int64_t k, int64_t c, Word* block, int32_t& sum) {
  if (type == WeightType::kF32) {
    for (int64_t i = 0; i < k; i++) block[i * kBlockColumns + c] = std::bit_cast<uint32_t>(w_K[i]);
    return 1;
  }
  if (type == WeightType::kBF16) {
    for (int64_t i = 0; i < k; i++) block[i / 2 * kBlockColumns + c] |= static_cast<Word>(to_bf16(w_K[i]).bits) << (16 * (i % 2));
    return 1;
  }
  float largest = 0;
  for (int64_t i = 0; i < k; i++) largest = std::max(largest, std::fabs(w_K[i]));
  const float scale = largest / 127.0F;
  for (int64_t i = 0; i < k; i++) {
    const float q = scale > 0 ? std::nearbyint(w_K[i] / scale) : 0.0F;
    const int32_t n = static_cast<int32_t>(std::clamp(q, -127.0F, 127.0F));
    sum += n;
    block[i / 4 * kBlockColumns + c] |= static_cast<Word>(static_cast<uint8_t>(n)) << (8 * (i % 4));
  }
  return scale;
}

}  // namespace

void PackedMatrix::Free::operator()(void* p) const { std::free(p); }

PackedMatrix pack_matrix(WeightType type, int64_t n, int64_t k, const void* context, void (*read_row)(const void*, int64_t, float*),
                         ThreadPool& pool) {
  SLIP_CHECK(n > 0 && k > 0, "a weight matrix has rows and columns");
  SLIP_CHECK(type != WeightType::kI8 || k <= kMaxInt8Inner, "the loader refuses what int32 sums cannot hold");
  const PackedLayout layout(type, n, k);
  PackedMatrix m;
  m.n_ = n;
  m.k_ = k;
  m.type_ = type;
  Word* words = aligned_zeros<Word>(static_cast<size_t>(layout.words));
  m.data_.reset(words);
  m.bytes_ = static_cast<size_t>(layout.words) * sizeof(Word);
  float* scales = nullptr;
  if (type == WeightType::kI8) {
    scales = aligned_zeros<float>(static_cast<size_t>(layout.blocks * kBlockColumns));
    m.scales_.reset(scales);
    m.bytes_ += static_cast<size_t>(layout.blocks * kBlockColumns) * sizeof(float);
  }
  pool.run(layout.blocks, [&](int64_t b) {
    std::vector<float> w_K(static_cast<size_t>(k));
    for (int64_t c = 0; c < kBlockColumns && b * kBlockColumns + c < n; c++) {
      const int64_t column = b * kBlockColumns + c;
      read_row(context, column, w_K.data());
      int32_t sum = 0;
      const float scale = pack_column(type, w_K.data(), k, c, words + b * layout.block_words, sum);
      if (type == WeightType::kI8) {
        scales[column] = scale;
        reinterpret_cast<int32_t*>(words + layout.sums_at)[column] = 128 * sum;
      }
    }
  });
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
  const Word* block = static_cast<const Word*>(data()) + n / kBlockColumns * layout.block_words + n % kBlockColumns;
  for (int64_t i = 0; i < k_; i++) {
    float& out = out_K[static_cast<size_t>(i)];
    if (type_ == WeightType::kF32) {
      out = std::bit_cast<float>(static_cast<uint32_t>(block[i * kBlockColumns]));
    } else if (type_ == WeightType::kBF16) {
      out = to_float(BF16{static_cast<uint16_t>(block[i / 2 * kBlockColumns] >> (16 * (i % 2)))});
    } else {
      out = static_cast<float>(static_cast<int8_t>(block[i / 4 * kBlockColumns] >> (8 * (i % 4)))) * scales()[n];
    }
  }
}

}  // namespace slip
