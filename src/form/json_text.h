// SPDX-License-Identifier: Apache-2.0
// JSON as text: numbers the way Python's json.dumps writes them, since that is how training data is written, and values cut
// to a length that an error message can carry.
#pragma once
#include <string>
#include <string_view>

#include "base/json.h"

namespace slip {

/// Python's repr: the shortest digits that read back as `value`, "1.5", "1e+20", "1e-05", "100000.0". Finite numbers only.
std::string python_number(double value);
/// json.dumps(ensure_ascii=False) of a plain value (no array, no object).
std::string plain_json(const json::value& value);

/// At most 60 characters of a text that somebody else wrote, "..." included where it was longer; never a part of a UTF-8 character.
std::string shown(std::string_view text);
/// The same of a value's JSON, of which no more than that is written.
std::string shown_json(const json::value& value);

}  // namespace slip
