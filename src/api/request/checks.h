// SPDX-License-Identifier: Apache-2.0
// What can be said of a request before weights are loaded: check_request says it, and so do both doors before they begin.
#pragma once
#include <optional>
#include <string_view>

#include "base/result.h"
#include "lm/visibility.h"
#include "slipstream/request.h"

namespace slip::api {

/// Settings in their ranges, words that are known, parts of a decoder that go together with each other, with the form or free text, and with who
/// sees whom; and nothing that could not act: an answer under an option is taken for what the option says. `trained_for`, `actions` (is it a
/// model of actions?): nothing where that is not known. kUsage, kUnsupported.
Status check_asked(const slipstream::Request& request, std::string_view folder, std::optional<Visibility> trained_for,
                   std::optional<bool> actions);

}  // namespace slip::api
