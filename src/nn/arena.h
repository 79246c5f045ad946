// SPDX-License-Identifier: Apache-2.0
// The key/value cache: a flat arena of slots, f32, bf16 or int8. Slot s of layer l, head g: keys(l) + s * slot_stride() + g * head_stride(),
// values likewise. A head's slots lie one behind the other: a thread that works on one head reads memory in one stream, without the
// other heads' lines between (2.3 times faster at one row and width 128).
// What a slot means is the owner's business: a sequence is a list of spans, forking copies the list, cropping shortens it.
#pragma once
#include <cstddef>
#include <cstdint>
#include <memory>

#include "base/result.h"
#include "kernels/kernels.h"

namespace slip {

/// What keys and values are stored as beside weights of a type unless asked otherwise: f32 stays the oracle, int8 is a choice
/// (docs/decisions/0011-int8-keys.md).
constexpr KvType kv_type_of(WeightType weights) { return weights == WeightType::kF32 ? KvType::kF32 : KvType::kBF16; }

/// Keys and values of all layers, mapped once: zeroed, page-aligned, and committed by the system only where written.
class KvArena {
 public:
  /// kResource when the system refuses bytes_needed.
  static Result<KvArena> create(int32_t layers, int32_t slots, int32_t kv_heads, int32_t head_width, KvType type = KvType::kF32);
  static size_t bytes_needed(int32_t layers, int32_t slots, int32_t kv_heads, int32_t head_width, KvType type = KvType::kF32);

  /// float, uint16_t (bf16) or bytes.
  void* keys(int32_t layer) const { return memory_.get() + static_cast<size_t>(2 * layer) * layer_bytes_; }
  void* values(int32_t layer) const { return memory_.get() + static_cast<size_t>(2 * layer + 1) * layer_bytes_; }
  /// int8: of slot s, head g at s + g * slots(), behind the numbers; else null.
  float* key_scales(int32_t layer) const { return scales(keys(layer)); }
  float* value_scales(int32_t layer) const { return scales(values(layer)); }
  /// One slot of a layer, all heads: rounded to the arena's type.
  void store(int32_t layer, int64_t slot, const float* keys_GK, const float* values_GK) const;
  /// The numbers that a slot of a layer stands for, as attention sees them; of int8 keys with their transform undone.
  void load(int32_t layer, int64_t slot, float* keys_GK, float* values_GK) const;
  KvType type() const { return type_; }
  int64_t slot_stride() const { return head_width_; }
  int64_t head_stride() const { return int64_t{slots_} * head_width_; }
  int32_t slots() const { return slots_; }
  size_t bytes() const;

 private:
  size_t numbers() const { return static_cast<size_t>(kv_heads_) * static_cast<size_t>(head_stride()); }
  float* scales(void* numbers_SGK) const;
  struct Unmap {
    size_t bytes = 0;
    void operator()(std::byte* p) const;
  };
  KvArena(std::unique_ptr<std::byte, Unmap> memory, size_t layer_bytes, int32_t slots, int32_t kv_heads, int32_t head_width,
          KvType type)
      : memory_(std::move(memory)),
        layer_bytes_(layer_bytes),
        slots_(slots),
        kv_heads_(kv_heads),
        head_width_(head_width),
        type_(type) {}
  std::unique_ptr<std::byte, Unmap> memory_;
  size_t layer_bytes_;
  int32_t slots_, kv_heads_, head_width_;
  KvType type_;
};

}  // namespace slip
