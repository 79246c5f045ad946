// SPDX-License-Identifier: Apache-2.0
// Protocol buffers' wire format, read and written without their library (whose ABI would have to live beside libtorch's): a message is a run
// of fields, each a varint key (number << 3 | type) and a value. Types 0 varint, 1 eight bytes, 2 length and bytes, 5 four bytes; the
// groups of old (3, 4) are refused. Source: protobuf.dev, "Encoding".
#pragma once
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "import/crc.h"

namespace slip {

enum class WireType : uint8_t { kVarint = 0, kEight = 1, kBytes = 2, kFour = 5 };

struct WireField {
  uint32_t number = 0;
  WireType type{};
  uint64_t value = 0;  // of the types that are numbers, as bits
  Bytes bytes;         // of kBytes
};

class WireReader {
 public:
  /// The bytes outlive the reader; `name` opens messages.
  WireReader(Bytes message, std::string_view name) : message_(message), name_(name) {}
  /// The next field, or nothing at the end. kBadInput for a varint beyond ten bytes, a field number 0, another wire type, and a field that
  /// is longer than its message.
  Result<std::optional<WireField>> next();

 private:
  Result<uint64_t> varint();
  Bytes message_;
  std::string_view name_;
  size_t at_ = 0;
};

/// A float field, packed or not, at the end of `out`; likewise doubles. kBadInput for another type and for a broken packing.
Status append_floats(const WireField& field, std::vector<float>& out, std::string_view name);
Status append_doubles(const WireField& field, std::vector<double>& out, std::string_view name);
/// A varint's value; kBadInput for another type.
Result<int64_t> varint_of(const WireField& field, std::string_view name);
/// Bytes of a string or message; kBadInput for another type.
Result<Bytes> bytes_of(const WireField& field, std::string_view name);

/// A message under construction. Numbers ascend as they are added.
class WireWriter {
 public:
  void varint(uint32_t number, uint64_t value);
  void bytes(uint32_t number, std::string_view value);
  void floats(uint32_t number, std::span<const float> values);  // packed
  void four(uint32_t number, float value);
  const std::string& text() const { return out_; }

 private:
  void raw(uint64_t value);
  std::string out_;
};

}  // namespace slip
