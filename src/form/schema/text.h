// SPDX-License-Identifier: Apache-2.0
// Inside of schema.h: a schema read into pieces of text, before any tokenizer is asked.
#pragma once
#include <optional>
#include <span>
#include <string>
#include <variant>
#include <vector>

#include "form/schema/schema.h"

namespace slip {

struct ChoiceSpec {
  std::vector<std::string> words;
  std::map<std::string, std::string> aliases;
};
struct TextSpec {};
/// Ids from `first` to `last`, as the vocabulary spells them.
struct BinsSpec {
  std::string first, last;
  int64_t ids = 0;    // how many lie in the range
  int32_t count = 0;  // of an array; 0: a value by itself
  bool number = false, descending = false;
  double low = 0, high = 0;
};

/// json: json.dumps. lines: "label: content". tokens: vocabulary spellings around values.
enum class Layout { kJson, kLines, kTokens };

struct FieldSpec {
  std::string name, path;  // "future_meta_behavior.lateral", "$.properties.future..."
  std::variant<ChoiceSpec, TextSpec, NumberFormat, BinsSpec> kind;
  int32_t budget = 0;  // 0: as long as the longest value
  bool null_pad = false, end = false;
  std::vector<std::string> parent_names;
  std::optional<std::vector<int32_t>> after;  // in an array: the fields before it that are its parents, whatever the names say
  int32_t field_before = -1;                  // the parent where the whole schema names none
  bool on_line = false;                       // stands behind "label:"
  bool space = false;                         // its content begins with a space that is no part of the value
  int32_t instances = 0;                      // an enumeration of at most that many
  char separator = 0;
  std::string placeholder;
  bool leaves_out = false;  // of an enumeration: Field::leaves_out
  bool optional = false;    // an instance of such a one
  std::optional<Field::InstanceOf> instance_of;
  int32_t section = 0;
};

/// A run of fixed text, or the place of a field.
struct TextPiece {
  std::string text;
  int32_t field = -1;  // >= 0: text is empty
  int32_t section = 0;
  std::vector<std::string> tokens;  // in a layout of tokens: what `text` is made of
};

struct FormText {
  std::vector<TextPiece> pieces;
  std::vector<FieldSpec> fields;
  std::vector<std::string> section_names;
  int32_t block_size = 32;
  bool any_parents = false;
  Layout layout = Layout::kJson;
};

Result<FormText> read_schema(const json::value& schema, std::string_view form_name);
/// Upper bound of a value's tokens: the bytes of the longest one, or the number of ids where the value is a run of ids. 1 for free text,
/// whose length is its budget.
int64_t longest_value(const FieldSpec& spec);
/// Is the piece a field that may be absent, or the text before one?
bool is_optional(const FormText& text, size_t piece);
/// Fills `parents` of the fields, which are those of the text in order. kBadInput for a name that no field has.
Status link_parents(const FormText& text, std::string_view form_name, std::span<Field> fields);
/// "[space][+]0..0[.0..0]"
Result<NumberFormat> parse_number_format(std::string_view spelled, std::string_view where);

}  // namespace slip
