// SPDX-License-Identifier: Apache-2.0
// Narrow floats: every code point decodes to its closed form, and narrowing picks the nearest one, ties to even.
#include "core/dtype.h"

#include <gtest/gtest.h>

#include <cmath>

#include "base/philox.h"

namespace slip {
namespace {

// The value by definition: (-1)^s 2^(e - bias) (1 + m / 2^M), subnormal below.
double by_definition(uint32_t bits, int exponent_bits, int mantissa_bits) {
  const uint32_t m = bits & ((1u << mantissa_bits) - 1);
  const int e = static_cast<int>(bits >> mantissa_bits & ((1u << exponent_bits) - 1));
  const int bias = (1 << (exponent_bits - 1)) - 1;
  const double sign = bits >> (exponent_bits + mantissa_bits) & 1 ? -1 : 1;
  if (e == 0) return sign * std::ldexp(m, 1 - bias - mantissa_bits);
  return sign * std::ldexp(m + std::ldexp(1, mantissa_bits), e - bias - mantissa_bits);
}

TEST(DType, EveryNameIsFoundAgain) {
  for (int i = 0; i <= static_cast<int>(DType::kF8E5M2); ++i) {
    EXPECT_EQ(dtype_named(name_of(static_cast<DType>(i))), static_cast<DType>(i));
  }
  EXPECT_FALSE(dtype_named("F4"));
  EXPECT_FALSE(dtype_named("?"));
}

TEST(DType, EveryF16DecodesToItsDefinitionAndComesBack) {
  for (uint32_t b = 0; b < 65536; ++b) {
    const uint16_t h = static_cast<uint16_t>(b);
    const float f = f16_to_float(h);
    if ((b & 0x7c00) == 0x7c00) {
      EXPECT_EQ(std::isinf(f), (b & 0x3ff) == 0);
      EXPECT_EQ(std::isnan(f), (b & 0x3ff) != 0);
      EXPECT_TRUE(std::signbit(f) == (b >> 15 != 0));
      if (std::isnan(f)) {
        EXPECT_TRUE(std::isnan(f16_to_float(float_to_f16(f))));
        continue;
      }
    } else {
      ASSERT_EQ(f, by_definition(b, 5, 10)) << b;
    }
    ASSERT_EQ(float_to_f16(f), h);
  }
}

TEST(DType, EveryF8DecodesToItsDefinitionAndComesBack) {
  for (uint32_t b = 0; b < 256; ++b) {
    const uint8_t v = static_cast<uint8_t>(b);
    const float e4 = f8_e4m3_to_float(v), e5 = f8_e5m2_to_float(v);
    if ((b & 0x7f) == 0x7f) {
      EXPECT_TRUE(std::isnan(e4));
    } else {
      EXPECT_EQ(e4, by_definition(b, 4, 3)) << b;
    }
    EXPECT_EQ(float_to_f8_e4m3(e4), v);
    if ((b & 0x7c) == 0x7c) {
      EXPECT_EQ(std::isinf(e5), (b & 3) == 0);
      EXPECT_EQ(std::isnan(e5), (b & 3) != 0);
    } else {
      EXPECT_EQ(e5, by_definition(b, 5, 2)) << b;
    }
  }
}

TEST(DType, NarrowingPicksTheNearestTiesToEven) {
  PhiloxStream random(1, 0);
  for (int i = 0; i < 100'000; ++i) {
    const float f = std::bit_cast<float>(random.bits());
    if (std::isnan(f)) continue;
    const float back = f16_to_float(float_to_f16(f));
    if (std::fabs(f) >= 65520) {  // half way to the next that there is not
      EXPECT_TRUE(std::isinf(back));
      continue;
    }
    const uint16_t h = float_to_f16(f);
    const double error = std::fabs(double{back} - f);
    for (const int step : {-1, 1}) {
      const uint16_t neighbour = static_cast<uint16_t>(h + step);
      if ((neighbour & 0x7c00) == 0x7c00) continue;
      const double other = std::fabs(double{f16_to_float(neighbour)} - f);
      ASSERT_LE(error, other) << f;
      if (error == other) {
        ASSERT_EQ(h & 1, 0) << f;
      }
    }
  }
  EXPECT_EQ(float_to_f16(0x1p-25F), 0);         // tie between 0 and the smallest
  EXPECT_EQ(float_to_f16(0x1.000002p-25F), 1);  // just above it
  EXPECT_EQ(float_to_f16(1.0F + 0x1p-11F), 0x3c00);
  EXPECT_EQ(float_to_f16(1.0F + 0x3p-11F), 0x3c02);
  EXPECT_EQ(float_to_f8_e4m3(464.0F), 0x7e);
  EXPECT_EQ(float_to_f8_e4m3(465.0F), 0x7f);
  EXPECT_EQ(float_to_f8_e4m3(-1e30F), 0xff);
}

TEST(DType, Bf16RoundsToNearestEvenAndKeepsNan) {
  EXPECT_EQ(to_bf16(1.0F).bits, 0x3f80);
  EXPECT_EQ(to_bf16(1.0F + 0x1p-8F).bits, 0x3f80);
  EXPECT_EQ(to_bf16(1.0F + 0x3p-8F).bits, 0x3f82);
  EXPECT_TRUE(std::isnan(to_float(to_bf16(std::bit_cast<float>(0x7f800001u)))));
}

}  // namespace
}  // namespace slip
