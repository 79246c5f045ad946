// SPDX-License-Identifier: Apache-2.0
// The key/value arena; contracts in arena.h.
#include "nn/arena.h"

#include <sys/mman.h>

#include <cerrno>
#include <cmath>
#include <cstring>

#include "core/dtype.h"

namespace slip {
namespace {

size_t whole_lines(size_t bytes) { return (bytes + 63) / 64 * 64; }

// Each layer's keys and values, and the scales of bytes behind them, start on a cache line of their own.
size_t layer_bytes(int32_t slots, int32_t kv_heads, int32_t head_width, KvType type) {
  const size_t heads = static_cast<size_t>(slots) * static_cast<size_t>(kv_heads),
               numbers = heads * static_cast<size_t>(head_width);
  return whole_lines(numbers * size_of(type)) + (type == KvType::kI8 ? whole_lines(heads * sizeof(float)) : 0);
}

// Attention reads thousands of lines per layer in the order of slots: with pages of 2 MB a fifth faster at one row. Smaller arenas
// fit the translation buffers anyway, and would pay for whole large pages.
constexpr size_t kHugePage = 2 << 20, kLargeArena = 32 << 20;

}  // namespace

void KvArena::Unmap::operator()(std::byte* p) const { ::munmap(p, bytes); }

size_t KvArena::bytes_needed(int32_t layers, int32_t slots, int32_t kv_heads, int32_t head_width, KvType type) {
  return layer_bytes(slots, kv_heads, head_width, type) * 2 * static_cast<size_t>(layers);
}

Result<KvArena> KvArena::create(int32_t layers, int32_t slots, int32_t kv_heads, int32_t head_width, KvType type) {
  if (layers < 1 || slots < 1 || kv_heads < 1 || head_width < 1)
    return usage_error("key/value cache: expected at least one layer, slot, head and column, got {} {} {} {}", layers, slots,
                       kv_heads, head_width);
  const size_t bytes = bytes_needed(layers, slots, kv_heads, head_width, type);
  void* p = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (p == MAP_FAILED)
    return resource_error("key/value cache: expected {} bytes for {} slots, got: {}", bytes, slots, std::strerror(errno));
#ifdef MADV_HUGEPAGE
  if (bytes >= kLargeArena)
    ::madvise(p, bytes / kHugePage * kHugePage, MADV_HUGEPAGE);  // advice: nothing is lost where it is refused
#endif
  return KvArena(std::unique_ptr<std::byte, Unmap>(static_cast<std::byte*>(p), Unmap{bytes}),
                 layer_bytes(slots, kv_heads, head_width, type), slots, kv_heads, head_width, type);
}

void KvArena::store(int32_t layer, int64_t slot, const float* keys_GK, const float* values_GK) const {
  for (int64_t g = 0; g < kv_heads_; ++g) {
    const int64_t number = slot * slot_stride() + g * head_stride(), at = number * static_cast<int64_t>(size_of(type_));
    if (type_ == KvType::kI8) {
      const int64_t scale = slot + g * slots_;
      to_kv_i8(keys_GK + g * head_width_, head_width_, true, static_cast<uint8_t*>(keys(layer)) + at, key_scales(layer) + scale);
      to_kv_i8(values_GK + g * head_width_, head_width_, false, static_cast<uint8_t*>(values(layer)) + at,
               value_scales(layer) + scale);
      continue;
    }
    to_kv(type_, keys_GK + g * head_width_, head_width_, static_cast<std::byte*>(keys(layer)) + at);
    to_kv(type_, values_GK + g * head_width_, head_width_, static_cast<std::byte*>(values(layer)) + at);
  }
}

namespace {

/// The orthonormal Walsh-Hadamard transform of to_kv_i8, which undoes itself: of the largest power of two, then of the rest.
void unspread(float* x, int64_t width) {
  for (int64_t n = 1; width > 0; x += n, width -= n) {
    for (n = 1; 2 * n <= width;) n *= 2;
    for (int64_t half = 1; half < n; half *= 2)
      for (int64_t i = 0; i < n; ++i) {
        if (i & half) continue;
        const float a = x[i], b = x[i + half];
        x[i] = a + b;
        x[i + half] = a - b;
      }
    const float scale = 1 / std::sqrt(static_cast<float>(n));
    for (int64_t i = 0; i < n; ++i) x[i] *= scale;
  }
}

}  // namespace

void KvArena::load(int32_t layer, int64_t slot, float* keys_GK, float* values_GK) const {
  const auto number = [&](const void* base, int64_t at) {
    if (type_ == KvType::kF32) return static_cast<const float*>(base)[at];
    return to_float(BF16{static_cast<const uint16_t*>(base)[at]});
  };
  for (int64_t g = 0; g < kv_heads_; ++g) {
    const int64_t first = slot * slot_stride() + g * head_stride(), scale = slot + g * slots_;
    float *key = keys_GK + g * head_width_, *value = values_GK + g * head_width_;
    for (int64_t k = 0; k < head_width_; ++k) {
      if (type_ == KvType::kI8) {
        key[k] = key_scales(layer)[scale] * static_cast<float>(static_cast<const uint8_t*>(keys(layer))[first + k] - 128);
        value[k] = value_scales(layer)[scale] * static_cast<float>(static_cast<const int8_t*>(values(layer))[first + k]);
        continue;
      }
      key[k] = number(keys(layer), first + k);
      value[k] = number(values(layer), first + k);
    }
    if (type_ == KvType::kI8) unspread(key, head_width_);
  }
}

float* KvArena::scales(void* numbers_SGK) const {
  if (type_ != KvType::kI8) return nullptr;
  return reinterpret_cast<float*>(static_cast<std::byte*>(numbers_SGK) + whole_lines(numbers()));
}

size_t KvArena::bytes() const { return memory_.get_deleter().bytes; }

}  // namespace slip
