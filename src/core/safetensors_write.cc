// SPDX-License-Identifier: Apache-2.0
// Writing a safetensors file: header by hand (its order is the data's order), padded so that data starts on a cache line.
#include <fmt/ranges.h>
#include <set>

#include "base/check.h"
#include "base/json.h"
#include "core/safetensors.h"

namespace slip {

namespace {

constexpr size_t kDataAlignment = 64;

std::string json_string(std::string_view s) { return json::serialize(json::string_view(s.data(), s.size())); }

}  // namespace

Status write_safetensors(const std::filesystem::path& file, std::span<const TensorToWrite> tensors,
                         const std::map<std::string, std::string, std::less<>>& metadata) {
  std::string header = "{";
  if (!metadata.empty()) {
    header += "\"__metadata__\":{";
    for (const auto& [key, value] : metadata) {
      if (header.back() != '{') header += ',';
      header += json_string(key) + ':' + json_string(value);
    }
    header += '}';
  }
  std::set<std::string_view> names;
  uint64_t at = 0;
  for (const TensorToWrite& t : tensors) {
    SLIP_CHECK(t.name != "__metadata__" && names.insert(t.name).second, "writers name each tensor once");
    uint64_t bytes = size_of(t.dtype);
    for (const int64_t n : t.shape) bytes *= static_cast<uint64_t>(n);
    SLIP_CHECK(bytes == t.bytes.size(), "a tensor's bytes are its shape times its element size");
    if (header.size() > 1) header += ',';
    header += fmt::format("{}:{{\"dtype\":\"{}\",\"shape\":[{}],\"data_offsets\":[{},{}]}}", json_string(t.name), name_of(t.dtype),
                          fmt::join(t.shape, ","), at, at + bytes);
    at += bytes;
  }
  header += '}';
  header.append((kDataAlignment - (8 + header.size()) % kDataAlignment) % kDataAlignment, ' ');

  unsigned char length[8];
  for (int i = 0; i < 8; ++i) length[i] = static_cast<unsigned char>(uint64_t{header.size()} >> (8 * i));
  SLIP_TRY(AtomicFile out, AtomicFile::create(file));
  SLIP_TRY_(out.write(length, sizeof length));
  SLIP_TRY_(out.write(header.data(), header.size()));
  for (const TensorToWrite& t : tensors) SLIP_TRY_(out.write(t.bytes.data(), t.bytes.size()));
  return out.commit();
}

}  // namespace slip
