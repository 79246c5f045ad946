// SPDX-License-Identifier: Apache-2.0
// JSON as text: numbers the way Python's json.dumps writes them, since that is how training data is written.
#pragma once
#include <string>
#include <string_view>

#include "base/json.h"
#include "base/json/shown.h"

namespace slip {

/// Python's repr: the shortest digits that read back as `value`, "1.5", "1e+20", "1e-05", "100000.0". Finite numbers only.
std::string python_number(double value);
/// json.dumps(ensure_ascii=False) of a plain value (no array, no object).
std::string plain_json(const json::value& value);

}  // namespace slip
