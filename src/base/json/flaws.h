// SPDX-License-Identifier: Apache-2.0
// What a JSON document says and Boost.JSON does not keep: of a key that stands twice in one object it keeps the last without a word, and
// an integer of many digits becomes a double beside it. Where a person wrote the document, as they do schemas, it is refused.
#pragma once
#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"
#include "base/result.h"

namespace slip {

struct JsonFlaw {
  std::string pointer;  // JSON pointer [RFC 6901] behind `#`
  std::string message;  // "expected ..., got ..."
};
/// Keys that their object has had before, compared as what they say ("a" and "\u0061" are one), and integers that neither 64 bits nor a
/// double hold, in the order of the text; at most `most`. Where an object has more than 65,536 members, that alone. `text`: JSON that
/// parse_json takes; empty for any other.
std::vector<JsonFlaw> json_flaws(std::string_view text, size_t most = 50);
/// kBadInput with all of them: "f.json: 2 errors: #/properties/a: expected each key once, got it again; ...".
Status check_json(std::string_view text, std::string_view name);
/// read_json and check_json: a file that a person wrote.
Result<json::value> read_written_json(const std::filesystem::path& file, size_t max_bytes = size_t{16} << 20);

}  // namespace slip
