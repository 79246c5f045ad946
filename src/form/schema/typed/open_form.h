// SPDX-License-Identifier: Apache-2.0
// Inside of schema.h: forms of any schema (typed.h), whose shape may depend on values.
#pragma once
#include <string_view>

#include "base/json.h"
#include "form/compiled_form.h"

namespace slip {

/// outline.h's check_told_apart.
Status try_in_bytes(const json::value& schema, std::string_view name);

/// As compile_schema, for schemas of the typed kind.
Result<CompiledForm> compile_open(const json::value& schema, std::string_view name, const FormTokens& tokens);

}  // namespace slip
