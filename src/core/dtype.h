// SPDX-License-Identifier: Apache-2.0
// Element types of stored tensors, and the two conversions that everything needs.
#pragma once
#include <bit>
#include <cstddef>
#include <cstdint>
#include <string_view>

namespace slip {

enum class DType : uint8_t { kF64, kF32, kF16, kBF16, kI64, kI32, kI16, kI8, kU8, kBool, kF8E4M3, kF8E5M2 };

constexpr size_t size_of(DType t) {
  switch (t) {
    case DType::kF64: case DType::kI64: return 8;
    case DType::kF32: case DType::kI32: return 4;
    case DType::kF16: case DType::kBF16: case DType::kI16: return 2;
    default: return 1;
  }
}

/// safetensors' spelling: "BF16", "F8_E4M3", ...
constexpr std::string_view name_of(DType t) {
  switch (t) {
    case DType::kF64: return "F64";
    case DType::kF32: return "F32";
    case DType::kF16: return "F16";
    case DType::kBF16: return "BF16";
    case DType::kI64: return "I64";
    case DType::kI32: return "I32";
    case DType::kI16: return "I16";
    case DType::kI8: return "I8";
    case DType::kU8: return "U8";
    case DType::kBool: return "BOOL";
    case DType::kF8E4M3: return "F8_E4M3";
    case DType::kF8E5M2: return "F8_E5M2";
  }
  return "?";
}

/// bfloat16 as its 16 bits.
struct BF16 {
  uint16_t bits = 0;
};
constexpr float to_float(BF16 b) { return std::bit_cast<float>(uint32_t{b.bits} << 16); }
/// Round to nearest even; NaN stays NaN (quiet).
constexpr BF16 to_bf16(float f) {
  const uint32_t u = std::bit_cast<uint32_t>(f);
  if ((u & 0x7fffffff) > 0x7f800000) return {static_cast<uint16_t>((u >> 16) | 0x40)};
  return {static_cast<uint16_t>((u + 0x7fff + ((u >> 16) & 1)) >> 16)};
}

}  // namespace slip
