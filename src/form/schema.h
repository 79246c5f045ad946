// SPDX-License-Identifier: Apache-2.0
// JSON Schema -> Form. The answer's text is `json.dumps(ensure_ascii=False)` of the document, properties in the schema's order;
// what is fixed becomes scaffold, what may vary becomes fields.
//
//   {"type": "object", "properties": {...}}          members in order
//   {"enum": ["yes", "no"]}                          one of these strings; x-budget, x-null-pad, x-aliases {"alias": "word"}
//   {"type": "boolean"}                              true or false
//   {"type": "string", "x-budget": 192}              text without quotes, backslashes, control characters; x-null-pad
//   {"type": "number", "x-format": " +000.00"}       [space][+] digits [. digits]: every digit one token; a sign and more than one
//                                                    digit before the point inside x-content alone, since JSON's numbers have neither
//   {"type": "array", "items": S, "minItems": 5, "maxItems": 5}   x-separator (default ", "; outside x-content a comma and spaces)
//   {"type": "string", "x-content": S}               the text of S inside quotes
//   {"const": x}                                     fixed; numbers as Python writes them
// x-section (a top-level member and those after it), x-parents (names of fields or of what holds them; without any in the whole
// schema each field's parent is the one before), x-block-size (root), x-end: true (close by END even where NULL exists).
// A field closes by NULL padding where x-null-pad is set and the model has NULL, needs no closing where all its values are of one
// length, and otherwise ends by END = the fixed token after it. Array items are a chain: each has the one before as parent.
// Canonical tokens: a schema whose values merge with the fixed text around them is refused (kBadInput), except that free text may
// begin or end in a character that the tokenizer would merge: there the cut is forced.
#pragma once
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "base/json.h"
#include "base/result.h"
#include "form/form.h"
#include "text/tokenizer.h"

namespace slip {

/// What a form needs to know of the model. `tokenizer` is only used while compiling.
struct FormTokens {
  const Tokenizer* tokenizer = nullptr;
  std::optional<TokenId> null_token;  // |NULL|, where the checkpoint was trained with it
  int32_t vocab = 0;                  // rows of the model's head; ids beyond the tokenizer are denied in free text
};

/// " +000.00": a leading space, a forced sign, digits before and after the point.
struct NumberFormat {
  bool space = false, sign = false;
  int32_t integer_digits = 1, decimals = 0;
  std::string spelled;
  /// Characters of a rendered number: space, sign, digits, point.
  std::string render(double value) const;
  /// |value| that still fits, e.g. 999.99.
  double largest() const;
};

/// A field's values and their tokens in place.
struct ChoiceMeaning {
  std::vector<std::string> words;
  std::vector<std::vector<TokenId>> ids;  // content tokens of each word, without NULL
  std::map<std::string, std::string> aliases;
};
struct TextMeaning {};
struct NumberMeaning {
  NumberFormat format;
  int32_t skip = 0;                          // leading characters that went into the scaffold (a space that is its own token)
  std::vector<std::map<char, TokenId>> ids;  // per content token; keyed by its last character
};
using FieldMeaning = std::variant<ChoiceMeaning, TextMeaning, NumberMeaning>;

/// A form together with what its fields mean; meanings are in the order of form.fields().
struct CompiledForm {
  Form form;
  std::vector<FieldMeaning> meanings;
  std::optional<TokenId> null_token;
};

/// kUnsupported: a keyword that is not done here; kBadInput: a schema that contradicts itself or the tokenizer. Messages name the
/// place as a JSON path: "form wod-e2e: $.properties.explanation: expected x-budget, got none".
Result<CompiledForm> compile_schema(const json::value& schema, std::string_view name, const FormTokens& tokens);

}  // namespace slip
