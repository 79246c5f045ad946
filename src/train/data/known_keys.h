// SPDX-License-Identifier: Apache-2.0
// A configuration's keys: one that nobody reads is a misspelt one, and is refused.
#pragma once
#include <algorithm>
#include <initializer_list>
#include <string>
#include <string_view>

#include "base/json.h"
#include "base/result.h"

namespace slip {

/// kBadInput for a key of `o` that is not among `known`.
inline Status only_keys(const json::object& o, std::initializer_list<std::string_view> known, const std::string& where) {
  for (const auto& [key, value] : o) {
    const std::string_view name(key.data(), key.size());
    if (std::find(known.begin(), known.end(), name) == known.end())
      return bad_input("{}: expected a known key, got \"{}\"", where, name);
  }
  return {};
}

}  // namespace slip
