// SPDX-License-Identifier: Apache-2.0
// Values that somebody else wrote, cut to a length that an error message can carry.
#pragma once
#include <string>
#include <string_view>

#include "base/json.h"

namespace slip {

/// At most 60 characters of a text that somebody else wrote, "..." included where it was longer; never a part of a UTF-8 character.
std::string shown(std::string_view text);
/// The same of a value's JSON, of which no more than that is written.
std::string shown_json(const json::value& value);

}  // namespace slip
