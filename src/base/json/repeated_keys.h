// SPDX-License-Identifier: Apache-2.0
// Keys that stand twice in one object. Boost.JSON keeps the last without a word; where a person wrote the document, as they do schemas,
// the other one was meant as well, so that it is refused there.
#pragma once
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace slip {

/// Places of keys that an object has had before, as JSON pointers [RFC 6901] behind `#`, in the order of the text; at most `most`. Keys
/// are compared as what they say: "a" and "\u0061" are one. `text`: JSON that parse_json takes; empty for any other.
std::vector<std::string> repeated_keys(std::string_view text, size_t most = 50);
/// kBadInput with all of them: "f.json: 2 errors: #/properties/a: expected each key once, got it again; ...".
Status check_keys(std::string_view text, std::string_view name);

}  // namespace slip
