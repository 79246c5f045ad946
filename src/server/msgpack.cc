// SPDX-License-Identifier: Apache-2.0
// See msgpack.h.
#include "server/msgpack.h"

#include <bit>
#include <cstring>

#include "base/json/shown.h"

namespace slip::server {
namespace {

constexpr int kMostDepth = 32;
/// Each takes some fifty times the byte that it may have come as. Arrays of numbers are bytes, and count as one.
constexpr size_t kMostValues = 1 << 16;

class Unpacker {
 public:
  explicit Unpacker(std::string_view in) : in_(in) {}
  Result<Packed> all() {
    SLIP_TRY(Packed out, one(0));
    if (at_ != in_.size()) return bad_input("msgpack: expected {} bytes, got {}", at_, in_.size());
    return out;
  }

 private:
  bool has(size_t n) const { return in_.size() - at_ >= n; }
  uint64_t big(size_t n) {
    uint64_t out = 0;
    for (size_t i = 0; i < n; ++i) out = out << 8 | static_cast<uint8_t>(in_[at_++]);
    return out;
  }
  Error short_of(size_t n) const { return bad_input("msgpack: expected {} bytes more at {}, got {}", n, at_, in_.size() - at_); }
  Result<uint64_t> number(size_t n) {
    if (!has(n)) return short_of(n);
    return big(n);
  }
  Result<std::string> raw(uint64_t n) {
    if (!has(n)) return short_of(n);
    std::string out(in_.substr(at_, n));
    at_ += n;
    return out;
  }
  Result<Packed> text(uint64_t n) {
    SLIP_TRY(std::string s, raw(n));
    return Packed{std::move(s)};
  }
  Result<Packed> array(uint64_t n, int depth) {
    if (!has(n)) return short_of(n);  // an element is a byte at least
    PackedArray out;
    for (uint64_t i = 0; i < n; ++i) {
      SLIP_TRY(Packed x, one(depth + 1));
      out.push_back(std::move(x));
    }
    return Packed{std::move(out)};
  }
  Result<Packed> map(uint64_t n, int depth) {
    if (!has(2 * n)) return short_of(2 * n);
    PackedMap out;
    for (uint64_t i = 0; i < n; ++i) {
      SLIP_TRY(Packed key, one(depth + 1));
      SLIP_TRY(Packed value, one(depth + 1));
      out.push_back({std::move(key), std::move(value)});
    }
    return Packed{std::move(out)};
  }
  Result<Packed> one(int depth) {
    if (depth > kMostDepth) return bad_input("msgpack: expected at most {} levels, got more", kMostDepth);
    if (++values_ > kMostValues) return bad_input("msgpack: expected at most {} values, got more", kMostValues);
    if (!has(1)) return short_of(1);
    const auto b = static_cast<uint8_t>(in_[at_++]);
    if (b < 0x80) return Packed{int64_t{b}};
    if (b >= 0xE0) return Packed{int64_t{static_cast<int8_t>(b)}};
    if (b < 0x90) return map(b & 0x0F, depth);
    if (b < 0xA0) return array(b & 0x0F, depth);
    if (b < 0xC0) return text(b & 0x1F);
    return longer(b, depth);
  }
  Result<Packed> longer(uint8_t b, int depth) {
    switch (b) {
      case 0xC0:
        return Packed{};
      case 0xC2:
      case 0xC3:
        return Packed{b == 0xC3};
      case 0xC4:
      case 0xC5:
      case 0xC6: {
        SLIP_TRY(const uint64_t n, number(size_t{1} << (b - 0xC4)));
        SLIP_TRY(std::string s, raw(n));
        return Packed{Bytes{std::move(s)}};
      }
      case 0xCA: {
        SLIP_TRY(const uint64_t bits, number(4));
        return Packed{static_cast<double>(std::bit_cast<float>(static_cast<uint32_t>(bits)))};
      }
      case 0xCB: {
        SLIP_TRY(const uint64_t bits, number(8));
        return Packed{std::bit_cast<double>(bits)};
      }
      case 0xCC:
      case 0xCD:
      case 0xCE:
      case 0xCF: {
        SLIP_TRY(const uint64_t n, number(size_t{1} << (b - 0xCC)));
        if (n <= INT64_MAX) return Packed{static_cast<int64_t>(n)};
        return Packed{n};
      }
      case 0xD0:
      case 0xD1:
      case 0xD2:
      case 0xD3: {
        const size_t bytes = size_t{1} << (b - 0xD0);
        SLIP_TRY(const uint64_t n, number(bytes));
        return Packed{static_cast<int64_t>(n << (64 - 8 * bytes)) >> (64 - 8 * bytes)};
      }
      case 0xD9:
      case 0xDA:
      case 0xDB: {
        SLIP_TRY(const uint64_t n, number(size_t{1} << (b - 0xD9)));
        return text(n);
      }
      case 0xDC:
      case 0xDD: {
        SLIP_TRY(const uint64_t n, number(b == 0xDC ? 2 : 4));
        return array(n, depth);
      }
      case 0xDE:
      case 0xDF: {
        SLIP_TRY(const uint64_t n, number(b == 0xDE ? 2 : 4));
        return map(n, depth);
      }
      default:
        return bad_input("msgpack: expected a type without extensions at {}, got byte {}", at_ - 1, b);
    }
  }

  std::string_view in_;
  size_t at_ = 0, values_ = 0;
};

class Packer {
 public:
  std::string out;
  void put(const Packed& p) {
    std::visit([this](const auto& v) { this->write(v); }, p.value);
  }

 private:
  void big(uint64_t n, size_t bytes) {
    for (size_t i = bytes; i-- > 0;) out.push_back(static_cast<char>(n >> (8 * i) & 0xFF));
  }
  void head(uint8_t small, uint64_t most_small, uint8_t first, bool bytes, uint64_t n) {
    if (n <= most_small && most_small > 0) return out.push_back(static_cast<char>(small | n));
    int size = n <= 0xFF && bytes ? 0 : n <= 0xFFFF ? 1 : 2;
    out.push_back(static_cast<char>(first + size - (bytes ? 0 : 1)));
    big(n, size_t{1} << size);
  }
  void write(std::monostate) { out.push_back(static_cast<char>(0xC0)); }
  void write(bool b) { out.push_back(static_cast<char>(b ? 0xC3 : 0xC2)); }
  void write(int64_t n) {
    if (n >= 0 && n < 128) return out.push_back(static_cast<char>(n));
    if (n < 0 && n >= -32) return out.push_back(static_cast<char>(n));
    out.push_back(static_cast<char>(0xD3));
    big(static_cast<uint64_t>(n), 8);
  }
  void write(uint64_t n) {
    out.push_back(static_cast<char>(0xCF));
    big(n, 8);
  }
  void write(double x) {
    out.push_back(static_cast<char>(0xCB));
    big(std::bit_cast<uint64_t>(x), 8);
  }
  void write(const std::string& s) {
    head(0xA0, 31, 0xD9, true, s.size());
    out += s;
  }
  void write(const Bytes& b) {
    head(0, 0, 0xC4, true, b.data.size());
    out += b.data;
  }
  void write(const PackedArray& a) {
    head(0x90, 15, 0xDC, false, a.size());
    for (const Packed& p : a) put(p);
  }
  void write(const PackedMap& m) {
    head(0x80, 15, 0xDE, false, m.size());
    for (const auto& [key, value] : m) {
      put(key);
      put(value);
    }
  }
};

int64_t width_of(std::string_view dtype) {
  if (dtype.size() == 3 && (dtype[0] == '<' || dtype[0] == '|' || dtype[0] == '=')) dtype.remove_prefix(1);
  if (dtype == "f4" || dtype == "i4" || dtype == "float32" || dtype == "int32") return 4;
  if (dtype == "f8" || dtype == "i8" || dtype == "float64" || dtype == "int64") return 8;
  if (dtype == "u1" || dtype == "uint8") return 1;
  return 0;
}

}  // namespace

const std::string* Packed::text() const {
  if (const auto* s = std::get_if<std::string>(&value)) return s;
  const auto* b = std::get_if<Bytes>(&value);
  return b ? &b->data : nullptr;
}

const Packed* Packed::find(std::string_view key) const {
  const auto* map = std::get_if<PackedMap>(&value);
  if (!map) return nullptr;
  for (const auto& [k, v] : *map)
    if (const std::string* s = k.text(); s && *s == key) return &v;
  return nullptr;
}

Result<Packed> unpack(std::string_view bytes) { return Unpacker(bytes).all(); }

std::string pack(const Packed& value) {
  Packer p;
  p.put(value);
  return std::move(p.out);
}

int64_t NdArray::numbers() const {
  int64_t n = 1;
  for (const int64_t side : shape) n *= side;
  return n;
}

Result<NdArray> ndarray_of(const Packed& value, std::string_view name) {
  const Packed *data = value.find("data"), *dtype = value.find("dtype"), *shape = value.find("shape");
  if (!value.find("__ndarray__") || !data || !data->text() || !dtype || !dtype->text() || !shape ||
      !std::get_if<PackedArray>(&shape->value))
    return bad_input("{}: expected an array of openpi's msgpack_numpy, got another value", name);
  NdArray out{*dtype->text(), {}, *data->text()};
  const int64_t width = width_of(out.dtype);
  if (width == 0)
    return bad_input("{}: expected numbers of type f4, f8, u1, i4 or i8, got {}", name, shown_json(json::value(out.dtype)));
  int64_t bytes = width;
  for (const Packed& side : std::get<PackedArray>(shape->value)) {
    const auto* n = std::get_if<int64_t>(&side.value);
    if (!n || *n < 0 || *n > (int64_t{1} << 24) || out.shape.size() >= 8)
      return bad_input("{}: expected a shape, got another value", name);
    out.shape.push_back(*n);
    bytes = bytes > (int64_t{1} << 34) ? bytes : bytes * *n;
  }
  if (bytes != static_cast<int64_t>(out.data.size()))
    return bad_input("{}: expected {} bytes for its shape, got {}", name, bytes, out.data.size());
  return out;
}

Packed ndarray_f32(const std::vector<float>& numbers, std::vector<int64_t> shape) {
  std::string data(numbers.size() * sizeof(float), '\0');
  if (!numbers.empty()) std::memcpy(data.data(), numbers.data(), data.size());
  PackedArray sides;
  for (const int64_t n : shape) sides.push_back({n});
  return {PackedMap{{{Bytes{"__ndarray__"}}, {true}},
                    {{Bytes{"data"}}, {Bytes{std::move(data)}}},
                    {{Bytes{"dtype"}}, {std::string("<f4")}},
                    {{Bytes{"shape"}}, {std::move(sides)}}}};
}

}  // namespace slip::server
