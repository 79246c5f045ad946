// SPDX-License-Identifier: Apache-2.0
// What APIs wrap around a schema.
#pragma once
#include <string>

#include "base/json.h"

namespace slip {

/// Where the schema lies in what APIs wrap around one: a tool of OpenAI's, Anthropic's or MCP's kind or a list of such, a response format, a
/// request. Empty: no such thing.
std::string inside_wrapper(const json::object& o);

}  // namespace slip
