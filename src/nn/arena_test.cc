// SPDX-License-Identifier: Apache-2.0
// Keys and values lie where the strides of the arena say, rounded to its type.
#include "nn/arena.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <cstring>

#include "core/dtype.h"

namespace slip {
namespace {

TEST(KvArena, LayersAreDisjointZeroedAndAligned) {
  for (const KvType type : {KvType::kF32, KvType::kBF16, KvType::kI8}) {
    auto arena = KvArena::create(3, 5, 2, 4, type);
    ASSERT_TRUE(arena);
    const size_t bytes = 5 * 2 * 4 * size_of(type);
    EXPECT_GE(arena->bytes(), 6 * bytes);
    for (int32_t layer = 0; layer < 3; ++layer) {
      for (void* memory : {arena->keys(layer), arena->values(layer)}) {
        auto* p = static_cast<unsigned char*>(memory);
        EXPECT_EQ(reinterpret_cast<uintptr_t>(p) % 64, 0U);
        for (size_t i = 0; i < bytes; ++i) EXPECT_EQ(p[i], 0);
        for (size_t i = 0; i < bytes; ++i) p[i] = 1;
      }
      for (float* scales : {arena->key_scales(layer), arena->value_scales(layer)}) {
        ASSERT_EQ(scales != nullptr, type == KvType::kI8);
        for (size_t i = 0; scales && i < 10; ++i) {
          EXPECT_EQ(scales[i], 0);
          scales[i] = 1;
        }
      }
    }
  }
}

TEST(KvArena, StoresASlotWhereItsStridesSayRoundedToItsType) {
  const float keys[4] = {1, 2, 3, 1 + 0x1p-9F}, values[4] = {-1, -2, 0.5F, 1 + 0x3p-9F};
  auto wide = KvArena::create(2, 5, 2, 2), narrow = KvArena::create(2, 5, 2, 2, KvType::kBF16);
  ASSERT_TRUE(wide && narrow);
  wide->store(1, 3, keys, values);
  narrow->store(1, 3, keys, values);
  for (int64_t g = 0; g < 2; ++g)
    for (int64_t k = 0; k < 2; ++k) {
      const int64_t at = 3 * wide->slot_stride() + g * wide->head_stride() + k, i = 2 * g + k;
      EXPECT_EQ(static_cast<float*>(wide->keys(1))[at], keys[i]);
      EXPECT_EQ(static_cast<float*>(wide->values(1))[at], values[i]);
      EXPECT_EQ(static_cast<uint16_t*>(narrow->keys(1))[at], to_bf16(keys[i]).bits);
      EXPECT_EQ(static_cast<uint16_t*>(narrow->values(1))[at], to_bf16(values[i]).bits);
    }
}

TEST(KvArena, StoresBytesWithTheirScaleWhereItsSlotsSay) {
  auto arena = KvArena::create(2, 5, 2, 4, KvType::kI8);
  ASSERT_TRUE(arena);
  const float keys[8] = {1, 2, 3, 4, 0, 0, 0, 0}, values[8] = {-1, 2, 0.5F, 127, 0, 0, 0, 1};
  arena->store(1, 3, keys, values);
  for (int64_t g = 0; g < 2; ++g) {
    uint8_t key[4], value[4];
    float key_scale = 0, value_scale = 0;
    to_kv_i8(keys + 4 * g, 4, true, key, &key_scale);
    to_kv_i8(values + 4 * g, 4, false, value, &value_scale);
    const int64_t at = 3 * arena->slot_stride() + g * arena->head_stride(), scale = 3 + g * arena->slots();
    EXPECT_EQ(scale, at / 4) << "attention finds it there";
    EXPECT_EQ(std::memcmp(static_cast<uint8_t*>(arena->keys(1)) + at, key, 4), 0);
    EXPECT_EQ(std::memcmp(static_cast<uint8_t*>(arena->values(1)) + at, value, 4), 0);
    EXPECT_EQ(arena->key_scales(1)[scale], key_scale);
    EXPECT_EQ(arena->value_scales(1)[scale], value_scale);
  }
  EXPECT_EQ(static_cast<int8_t*>(arena->values(1))[3 * arena->slot_stride() + 3], 127);
}

TEST(KvArena, LoadsWhatItStoredToItsOwnRounding) {
  constexpr int32_t kHeads = 2, kWidth = 44;  // of int8 keys blocks of 32, 8 and 4
  std::vector<float> keys, values, key(kHeads * kWidth), value(kHeads * kWidth);
  for (int i = 0; i < kHeads * kWidth; ++i) {
    keys.push_back(std::sin(3.0F * static_cast<float>(i)) * (i % 7 == 0 ? 9.0F : 1.0F));
    values.push_back(std::cos(5.0F * static_cast<float>(i)));
  }
  for (const KvType type : {KvType::kF32, KvType::kBF16, KvType::kI8}) {
    auto arena = KvArena::create(2, 5, kHeads, kWidth, type);
    ASSERT_TRUE(arena);
    arena->store(1, 3, keys.data(), values.data());
    arena->load(1, 3, key.data(), value.data());
    for (size_t i = 0; i < key.size(); ++i) {
      // int8: half a step for every number of a block of 32, and the transform keeps lengths.
      const bool bytes = type == KvType::kI8;
      const size_t head = 3 + i / kWidth * 5;
      const float key_step = bytes ? arena->key_scales(1)[head] : 0, value_step = bytes ? arena->value_scales(1)[head] : 0;
      const float relative = type == KvType::kBF16 ? 0x1p-8F : 0;
      EXPECT_NEAR(key[i], keys[i],
                  key_step * 0.5 * std::sqrt(32.0) + static_cast<double>(relative * std::fabs(keys[i])) + (bytes ? 1e-5 : 0));
      EXPECT_NEAR(value[i], values[i],
                  value_step * 0.5 + static_cast<double>(relative * std::fabs(values[i])) + (bytes ? 1e-6 : 0));
    }
  }
}

TEST(KvArena, ImpossibleSizeIsRefusedWithItsNumbers) {
  const auto none = KvArena::create(0, 5, 2, 3);
  ASSERT_FALSE(none);
  EXPECT_EQ(none.error().kind, ErrorKind::kUsage);
}

}  // namespace
}  // namespace slip
