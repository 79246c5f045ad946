// SPDX-License-Identifier: Apache-2.0
// The header of one safetensors file, written and read: event by event, so that a hostile one costs no more memory than its own entries
// and a key that comes twice is seen. Offsets are checked against the data by the caller.
#pragma once
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/result.h"
#include "core/dtype.h"

namespace slip {

struct HeaderEntry {
  std::string name;
  DType dtype{};
  std::vector<int64_t> shape;
  uint64_t begin = 0, end = 0;  // relative to the byte after the header
  std::string unread = {};      // its type's name where that is none of ours (dtype means nothing then)
};

struct SafetensorsHeader {
  std::vector<HeaderEntry> entries;  // in the header's order
  std::map<std::string, std::string, std::less<>> metadata;
};

/// Parses the JSON text of a header. Checks types, names, dtypes, signs and that end - begin = product(shape) * size; a type that
/// is not known ("F4", "U16") is kept by name, its size as the offsets say: not every tensor of a file is needed.
/// `file` opens the error message.
Result<SafetensorsHeader> parse_safetensors_header(std::string_view text, std::string_view file);
/// The beginning of a file up to its data: length and header, padded with spaces so that data starts on a cache line.
std::string write_safetensors_header(const SafetensorsHeader& header);

}  // namespace slip
