// SPDX-License-Identifier: Apache-2.0
// The table of a request's settings as the library itself uses it: what an answer tells of them.
#pragma once
#include "base/json.h"
#include "base/result.h"
#include "slipstream/request.h"

namespace slip::api {

/// Settings that the answer depends on beside question, decoder and seed, by the keys of the result object.
void add_told_options(const slipstream::Request& request, json::object& out);

/// kUsage: a number or a text that no document could have set ("request: rollouts: expected a whole number from 1 to 64 ...").
Status check_settings(const slipstream::Request& request);

/// Options that cannot act as the others stand ("--top-k 5" at temperature 0), in words.
std::vector<std::string> idle_options(const slipstream::Request& request);

}  // namespace slip::api
