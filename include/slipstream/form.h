// SPDX-License-Identifier: Apache-2.0
// Forms: what an answer consists of, read from JSON Schema.
#pragma once
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "slipstream/error.h"

namespace slipstream {

/// What a tool has to say: the same facts for programs and for people. `outcome` is an error where a check failed though the work was done.
struct Report {
  std::string json;     // one document; empty where the outcome left none
  std::string text;     // lines
  std::string remarks;  // lines that are no part of the result: for standard error
  Status outcome;
};

/// Names of the built-in forms.
std::vector<std::string> builtin_forms();

/// A form explained: fixed tokens, fields, budgets, blocks, graph, critical path. `form`: as Request::form, or the schema itself, an object in
/// JSON. Without a model folder the counts
/// of tokens are upper bounds. kBadInput for a schema that cannot be a form.
Result<Report> explain_form(const std::string& form, const std::string& model_folder = "", const std::string& unnorm_key = "");
/// Is a form's schema supported? All that is wrong with it, each with the JSON pointer of its place: `json` {"form", "supported", "errors":
/// [{"pointer", "message", "kind": "bad_input" or "not_supported"}]}, `text` a line for each. The outcome is an error where there are any:
/// kBadInput before kUnsupported. With a model folder it is also tried in that model's tokens; without one, alternatives that no tokenizer can
/// tell apart are not found.
Result<Report> check_form(const std::string& form, const std::string& model_folder = "");
/// The form's JSON Schema document, indented or on one line.
Result<std::string> form_schema(const std::string& form, const std::string& model_folder = "", const std::string& unnorm_key = "",
                                bool indented = true);

}  // namespace slipstream
