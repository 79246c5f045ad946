// SPDX-License-Identifier: Apache-2.0
// Ids are types, not ints.
#pragma once
#include <compare>
#include <cstdint>

namespace slip {

/// A token of a model's vocabulary. Not constructible from an int by accident; `value` is the id.
struct TokenId {
  int32_t value = 0;
  auto operator<=>(const TokenId&) const = default;
};

/// Position of a row for rotary embedding: temporal, height, width (multimodal RoPE). Text has all three equal.
struct Position {
  int32_t t = 0, h = 0, w = 0;
  static constexpr Position text(int32_t p) { return {p, p, p}; }
  auto operator<=>(const Position&) const = default;
};

/// Half-open range of key/value slots.
struct SlotSpan {
  int32_t begin = 0, end = 0;
  bool operator==(const SlotSpan&) const = default;
};

}  // namespace slip
