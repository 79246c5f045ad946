// SPDX-License-Identifier: Apache-2.0
// Values <-> answer tokens. For canonical answers the two directions are exact inverses (values_test.cc).
#pragma once
#include <span>
#include <string>
#include <variant>
#include <vector>

#include "base/json.h"
#include "form/schema/schema.h"

namespace slip {

/// Of a field that an answer does not hold, and of one that is only a choice of what comes next.
struct NoValue {
  bool operator==(const NoValue&) const = default;
};
/// A word or text, a number, the numbers of a field that is a run of bins, a boolean, null.
using FieldValue = std::variant<std::string, double, std::vector<double>, bool, std::nullptr_t, NoValue>;
/// As JSON; null for NoValue.
json::value json_of(const FieldValue& value);

/// Content tokens of one field: no END; padded by NULL to the budget where the field has no END.
/// kBadInput names the field: a word that is not of the enum (aliases count), text with quotes or too long, a number too large.
Result<std::vector<TokenId>> render_field(const CompiledForm& form, size_t field, const FieldValue& value,
                                          const Tokenizer& tokenizer);
/// The value that content tokens stand for. NULL is stripped.
Result<FieldValue> parse_field(const CompiledForm& form, size_t field, std::span<const TokenId> content,
                               const Tokenizer& tokenizer);

/// By field: does the answer that the contents make hold it?
std::vector<uint8_t> fields_present(const Form& form, std::span<const std::vector<TokenId>> contents);
/// The answer: fixed tokens and the fields' contents in order.
std::vector<TokenId> assemble(const Form& form, std::span<const std::vector<TokenId>> contents);
/// Tokens of an answer before a form position at which a section begins or ends; contents behind it need not be there.
int32_t tokens_before(const Form& form, std::span<const std::vector<TokenId>> contents, int32_t position);
/// kBadInput: an instance that its enumeration does not name says something else than its placeholder, or anything where it is absent.
Status check_instances(const Form& form, std::span<const std::vector<TokenId>> contents);
/// The contents of an answer's fields. kBadInput where a fixed token is missing, a rule is broken, an unused instance is filled, or
/// something follows the end.
Result<std::vector<std::vector<TokenId>>> split_answer(const Form& form, std::span<const TokenId> answer);

/// The contents of the fields of an answer's text, as answer_text writes it, each in the tokens that it would be written with from its value.
/// kUnsupported for forms whose shape depends on values. kBadInput for any other text.
Result<std::vector<std::vector<TokenId>>> split_text(const CompiledForm& form, std::string_view text, const Tokenizer& tokenizer);

/// Contents of the fields; NoValue for those that are absent.
Result<std::vector<std::vector<TokenId>>> render_fields(const CompiledForm& form, std::span<const FieldValue> values,
                                                        const Tokenizer& tokenizer);
Result<std::vector<TokenId>> render(const CompiledForm& form, std::span<const FieldValue> values, const Tokenizer& tokenizer);
Result<std::vector<FieldValue>> parse(const CompiledForm& form, std::span<const TokenId> answer, const Tokenizer& tokenizer);
/// The answer as text, NULL stripped.
std::string answer_text(const CompiledForm& form, std::span<const TokenId> answer, const Tokenizer& tokenizer);

/// {"critical_objects.pedestrian": "no", ...}, numbers as numbers; and back (every field needed that may not be absent, none unknown).
json::object values_to_json(const Form& form, std::span<const FieldValue> values);
Result<std::vector<FieldValue>> values_from_json(const Form& form, const json::object& values);

/// For people: fixed tokens, fields, budgets, blocks, graph, critical path (passes, each END included).
std::string describe(const Form& form, const Tokenizer* tokenizer = nullptr);
json::object describe_json(const Form& form, const Tokenizer* tokenizer = nullptr);
/// Most passes that any chain of parents needs: per field its budget (a full field closes without drawing END).
int32_t critical_path(const Form& form);
/// Fields by the number of fields on the longest way to them: those of one wave may be decoded side by side.
std::vector<std::vector<size_t>> waves_of(const Form& form);
std::vector<std::string> parent_names(const Form& form, const Field& field);

}  // namespace slip
