// SPDX-License-Identifier: Apache-2.0
// MessagePack (the specification at github.com/msgpack/msgpack), as much as the openpi protocol needs: all types but extensions and
// timestamps. Why these are our own two functions: docs/decisions/0015-messagepack.md.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "base/result.h"

namespace slip::server {

struct Packed;
struct PackedEntry;
using PackedMap = std::vector<PackedEntry>;
using PackedArray = std::vector<Packed>;

struct Bytes {
  std::string data;
  bool operator==(const Bytes&) const = default;
};

struct Packed {
  std::variant<std::monostate, bool, int64_t, uint64_t, double, std::string, Bytes, PackedArray, PackedMap> value;

  /// The value under a key that is a text or bytes of these letters; null where there is none, or this is no map.
  const Packed* find(std::string_view key) const;
  /// Text or bytes; null for others.
  const std::string* text() const;
  bool is_null() const { return std::holds_alternative<std::monostate>(value); }
};

struct PackedEntry {
  Packed first, second;  // key and value
};

/// kBadInput for what ends early, goes on behind its end, is nested deeper than 32, or is an extension.
Result<Packed> unpack(std::string_view bytes);
std::string pack(const Packed& value);

/// openpi's arrays: {b"__ndarray__": true, b"data": ..., b"dtype": "<f4", b"shape": [...]}.
struct NdArray {
  std::string dtype;
  std::vector<int64_t> shape;
  std::string_view data;  // into the value
  int64_t numbers() const;
};
/// kBadInput where data and shape do not agree, or the type is none of f4, f8, u1, i4, i8.
Result<NdArray> ndarray_of(const Packed& value, std::string_view name);
Packed ndarray_f32(const std::vector<float>& numbers, std::vector<int64_t> shape);

}  // namespace slip::server
