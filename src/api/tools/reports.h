// SPDX-License-Identifier: Apache-2.0
// What tools have to say, put into a Report.
#pragma once
#include <string>
#include <utility>

#include "base/json.h"
#include "slipstream/form.h"
#include "text/tokenizer.h"

namespace slip::api {

/// One line of JSON in valid UTF-8: other bytes, as of a folder's name, become U+FFFD.
inline std::string line_of(const json::value& v) { return to_valid_utf8(json::serialize(v)); }

/// What the name of a decoder says of a trajectory head beside it: " trajectory-head:plans" of any/folder/plans/; nothing without one.
inline std::string head_words(std::string_view folder) {
  while (folder.ends_with('/')) folder.remove_suffix(1);
  return folder.empty() ? std::string() : fmt::format(" trajectory-head:{}", folder.substr(folder.rfind('/') + 1));
}

inline slipstream::Report report_of(const json::value& json, std::string text, Status outcome = {}) {
  return {line_of(json), std::move(text), "", std::move(outcome)};
}

}  // namespace slip::api
