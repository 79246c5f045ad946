// SPDX-License-Identifier: Apache-2.0
// Inside of schema.h: a schema read into pieces of text, before any tokenizer is asked.
#pragma once
#include <string>
#include <variant>
#include <vector>

#include "form/schema.h"

namespace slip {

struct ChoiceSpec {
  std::vector<std::string> words;
  std::map<std::string, std::string> aliases;
};
struct TextSpec {};

struct FieldSpec {
  std::string name, path;  // "future_meta_behavior.lateral", "$.properties.future..."
  std::variant<ChoiceSpec, TextSpec, NumberFormat> kind;
  int32_t budget = 0;  // 0: as long as the longest value
  bool null_pad = false, end = false;
  bool has_parents = false, in_array = false, first_in_array = false;
  std::vector<std::string> parent_names;
  int32_t section = 0;
};

/// A run of fixed text, or the place of a field.
struct TextPiece {
  std::string text;
  int32_t field = -1;  // >= 0: text is empty
  int32_t section = 0;
};

struct FormText {
  std::vector<TextPiece> pieces;
  std::vector<FieldSpec> fields;
  std::vector<std::string> section_names;
  int32_t block_size = 32;
  bool any_parents = false;
};

Result<FormText> read_schema(const json::value& schema, std::string_view form_name);
/// "[space][+]0..0[.0..0]"
Result<NumberFormat> parse_number_format(std::string_view spelled, std::string_view where);

}  // namespace slip
