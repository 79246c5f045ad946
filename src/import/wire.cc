// SPDX-License-Identifier: Apache-2.0
// See wire.h.
#include "import/wire.h"

#include <cstring>

namespace slip {

Result<uint64_t> WireReader::varint() {
  uint64_t value = 0;
  for (int shift = 0; shift < 70; shift += 7) {
    if (at_ == message_.size())
      return bad_input("{}: expected a whole number, got a message that ends in it at byte {}", name_, at_);
    const auto byte = static_cast<uint64_t>(message_[at_++]);
    value |= (byte & 0x7FU) << std::min(shift, 63);
    if (byte < 0x80U) return value;
  }
  return bad_input("{}: expected a number of at most ten bytes, got a longer one before byte {}", name_, at_);
}

Result<std::optional<WireField>> WireReader::next() {
  if (at_ == message_.size()) return std::optional<WireField>{};
  const size_t begin = at_;
  SLIP_TRY(const uint64_t key, varint());
  WireField f{.number = static_cast<uint32_t>(key >> 3), .type = static_cast<WireType>(key & 7U), .value = 0, .bytes = {}};
  if (f.number == 0 || key >> 3 > 0x1FFFFFFFU)
    return bad_input("{}: expected a field number of 1 to 536870911 at byte {}, got {}", name_, begin, key >> 3);
  if (f.type == WireType::kVarint) {
    SLIP_TRY(f.value, varint());
    return std::optional(f);
  }
  uint64_t length = 0;
  if (f.type == WireType::kBytes) {
    SLIP_TRY(length, varint());
  } else if (f.type == WireType::kEight || f.type == WireType::kFour) {
    length = f.type == WireType::kEight ? 8 : 4;
  } else {
    return bad_input("{}: expected wire type 0, 1, 2 or 5 of field {} at byte {}, got {}", name_, f.number, begin, key & 7U);
  }
  if (length > message_.size() - at_)
    return bad_input("{}: expected {} bytes of field {} at byte {}, got a message that ends after {}", name_, length, f.number,
                     begin, message_.size() - at_);
  f.bytes = message_.subspan(at_, length);
  at_ += length;
  if (f.type != WireType::kBytes) std::memcpy(&f.value, f.bytes.data(), length);
  return std::optional(f);
}

namespace {

template <class T>
Status append(const WireField& f, WireType alone, std::vector<T>& out, std::string_view name) {
  if (f.type == alone || (f.type == WireType::kBytes && f.bytes.size() % sizeof(T) == 0)) {
    const size_t n = f.bytes.size() / sizeof(T);
    out.resize(out.size() + n);
    if (n > 0) std::memcpy(out.data() + out.size() - n, f.bytes.data(), f.bytes.size());
    return {};
  }
  if (f.type == WireType::kBytes)
    return bad_input("{}: expected field {} to pack numbers of {} bytes, got {} bytes", name, f.number, sizeof(T), f.bytes.size());
  return bad_input("{}: expected field {} to be numbers of {} bytes, got wire type {}", name, f.number, sizeof(T),
                   static_cast<int>(f.type));
}

}  // namespace

Status append_floats(const WireField& f, std::vector<float>& out, std::string_view name) {
  return append(f, WireType::kFour, out, name);
}
Status append_doubles(const WireField& f, std::vector<double>& out, std::string_view name) {
  return append(f, WireType::kEight, out, name);
}

Result<int64_t> varint_of(const WireField& f, std::string_view name) {
  if (f.type == WireType::kVarint) return static_cast<int64_t>(f.value);
  return bad_input("{}: expected field {} to be a whole number, got wire type {}", name, f.number, static_cast<int>(f.type));
}

Result<Bytes> bytes_of(const WireField& f, std::string_view name) {
  if (f.type == WireType::kBytes) return f.bytes;
  return bad_input("{}: expected field {} to be bytes, got wire type {}", name, f.number, static_cast<int>(f.type));
}

void WireWriter::raw(uint64_t value) {
  for (; value >= 0x80U; value >>= 7) out_.push_back(static_cast<char>(static_cast<uint8_t>(value) | 0x80U));
  out_.push_back(static_cast<char>(value));
}
void WireWriter::varint(uint32_t number, uint64_t value) {
  raw(uint64_t{number} << 3);
  raw(value);
}
void WireWriter::bytes(uint32_t number, std::string_view value) {
  raw(uint64_t{number} << 3 | 2U);
  raw(value.size());
  out_.append(value);
}
void WireWriter::floats(uint32_t number, std::span<const float> values) {
  bytes(number, {reinterpret_cast<const char*>(values.data()), values.size_bytes()});
}
void WireWriter::four(uint32_t number, float value) {
  raw(uint64_t{number} << 3 | 5U);
  out_.append(reinterpret_cast<const char*>(&value), sizeof value);
}

}  // namespace slip
