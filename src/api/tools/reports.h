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

inline slipstream::Report report_of(const json::value& json, std::string text, Status outcome = {}) {
  return {line_of(json), std::move(text), "", std::move(outcome)};
}

}  // namespace slip::api
