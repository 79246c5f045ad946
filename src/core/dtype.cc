// SPDX-License-Identifier: Apache-2.0
// Narrowing f32 to f16 and the two OCP FP8 formats, by one routine over (exponent bits, mantissa bits).
#include "core/dtype.h"

namespace slip {

namespace {

// The magnitude of f as an unsigned number in the narrow format's own order: exponent field, then mantissa, rounded to
// nearest even. The carry out of the mantissa runs into the exponent by itself; it may exceed the format's largest.
uint32_t narrow_magnitude(float f, int exponent_bits, int mantissa_bits) {
  const uint32_t u = std::bit_cast<uint32_t>(f) & 0x7fffffff;
  const int bias = (1 << (exponent_bits - 1)) - 1;
  const int exponent = static_cast<int>(u >> 23) - 127 + bias;  // in the narrow format
  const int drop = 23 - mantissa_bits + (exponent < 1 ? 1 - exponent : 0);
  if (drop > 24) return 0;  // less than half of the smallest subnormal
  const uint32_t significand = (u & 0x7fffff) | (u >= 0x800000 ? 0x800000 : 0);
  const uint32_t half = uint32_t{1} << (drop - 1);
  const uint32_t odd = (significand >> drop) & 1;
  const uint32_t rounded = (significand + half - 1 + odd) >> drop;
  if (exponent < 1) return rounded;
  return (static_cast<uint32_t>(exponent - 1) << mantissa_bits) + rounded;  // rounded brings the hidden bit
}

bool is_nan(float f) { return f != f; }
uint32_t sign_of(float f) { return std::bit_cast<uint32_t>(f) >> 31; }

}  // namespace

std::optional<DType> dtype_named(std::string_view name) {
  for (int i = 0; i <= static_cast<int>(DType::kF8E5M2); ++i) {
    if (name_of(static_cast<DType>(i)) == name) return static_cast<DType>(i);
  }
  return std::nullopt;
}

uint16_t float_to_f16(float f) {
  const uint32_t m = is_nan(f) ? 0x7e00 : narrow_magnitude(f, 5, 10);
  return static_cast<uint16_t>((!is_nan(f) && m > 0x7c00 ? 0x7c00 : m) | (sign_of(f) << 15));
}

uint8_t float_to_f8_e4m3(float f) {
  const uint32_t m = is_nan(f) ? 0x7f : narrow_magnitude(f, 4, 3);
  return static_cast<uint8_t>((m > 0x7f ? 0x7f : m) | (sign_of(f) << 7));
}

}  // namespace slip
