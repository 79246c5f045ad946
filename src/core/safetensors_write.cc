// SPDX-License-Identifier: Apache-2.0
// Writing a safetensors file: header by hand (its order is the data's order), padded so that data starts on a cache line.
#include <fmt/ranges.h>
#include <set>

#include "base/check.h"
#include "base/json.h"
#include "core/safetensors.h"
#include "core/safetensors_header.h"

namespace slip {

namespace {

constexpr size_t kDataAlignment = 64;

std::string json_string(std::string_view s) { return json::serialize(json::string_view(s.data(), s.size())); }

}  // namespace

std::string write_safetensors_header(const SafetensorsHeader& header) {
  std::string out(sizeof(uint64_t), '\0');
  const auto begin_key = [&](std::string_view key) {
    if (out.back() != '{') out += ',';
    out += json_string(key) + ':';
  };
  out += '{';
  if (!header.metadata.empty()) {
    begin_key("__metadata__");
    out += '{';
    for (const auto& [key, value] : header.metadata) {
      begin_key(key);
      out += json_string(value);
    }
    out += '}';
  }
  for (const HeaderEntry& t : header.entries) {
    begin_key(t.name);
    out += fmt::format("{{\"dtype\":\"{}\",\"shape\":[{}],\"data_offsets\":[{},{}]}}", name_of(t.dtype), fmt::join(t.shape, ","),
                       t.begin, t.end);
  }
  out += '}';
  out.append((kDataAlignment - out.size() % kDataAlignment) % kDataAlignment, ' ');
  const uint64_t length = out.size() - sizeof length;
  for (size_t i = 0; i < sizeof length; ++i) out[i] = static_cast<char>(length >> (8 * i));
  return out;
}

Status write_safetensors(const std::filesystem::path& file, std::span<const TensorToWrite> tensors,
                         const std::map<std::string, std::string, std::less<>>& metadata) {
  SafetensorsHeader header{.entries = {}, .metadata = metadata};
  std::set<std::string_view> names;
  uint64_t at = 0;
  for (const TensorToWrite& t : tensors) {
    SLIP_CHECK(t.name != "__metadata__" && names.insert(t.name).second, "writers name each tensor once");
    uint64_t bytes = size_of(t.dtype);
    for (const int64_t n : t.shape) bytes *= static_cast<uint64_t>(n);
    SLIP_CHECK(bytes == t.bytes.size(), "a tensor's bytes are its shape times its element size");
    header.entries.push_back({.name = t.name, .dtype = t.dtype, .shape = t.shape, .begin = at, .end = at + bytes});
    at += bytes;
  }
  const std::string beginning = write_safetensors_header(header);
  SLIP_TRY(AtomicFile out, AtomicFile::create(file));
  SLIP_TRY_(out.write(beginning.data(), beginning.size()));
  for (const TensorToWrite& t : tensors) SLIP_TRY_(out.write(t.bytes.data(), t.bytes.size()));
  return out.commit();
}

}  // namespace slip
