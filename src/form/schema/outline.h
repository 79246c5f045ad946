// SPDX-License-Identifier: Apache-2.0
// A form as its schema alone tells it, before any tokenizer is asked: text, fields, sections, graph. Counts of tokens are the most
// that any tokenizer makes: a field's budget where the schema gives one, otherwise the bytes of its longest value; a byte of fixed
// text is a token, and so is an entry of x-before and x-after. Blocks are places in tokens, so there are none here.
#pragma once
#include <string>
#include <vector>

#include "base/json.h"

namespace slip {

/// Errors as compile_schema's for what the schema's reader and the graph refuse; what depends on tokens is found when it is compiled.
Result<std::string> outline(const json::value& schema, std::string_view name);
/// Keys as describe_json's (values.h), counts at most, and "at_most": true; fields with their "kind", pieces with their "text".
Result<json::object> outline_json(const json::value& schema, std::string_view name);
/// All that is wrong with a schema whatever the tokenizer, one by one; of a trained form's schema the first. Empty: nothing is.
std::vector<Error> errors_of_form(const json::value& schema, std::string_view name);
/// What no vocabulary makes a form of, of a schema whose own errors are none: alternatives that not even Tokenizer::of_bytes tells apart, parents
/// that are no fields. Sizes, which depend on tokens, are not looked at.
Status check_told_apart(const json::value& schema, std::string_view name);
/// What such a schema says and nothing is held to: formats that are remarks, by their pointers.
std::vector<std::string> notes_of_form(const json::value& schema, std::string_view name);

}  // namespace slip
