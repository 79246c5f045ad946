// SPDX-License-Identifier: Apache-2.0
// What is known of a form before any tokenizer is asked: whose it is, how long its values get, and who their parents are.
#include "form/schema/text.h"

#include <algorithm>

#include "form/json_text.h"
#include "form/schema/typed/trained_keywords.h"

namespace slip {
namespace {

/// Does any object in the document have one of the keys?
bool mentions(const json::value& v, std::span<const std::string_view> keys) {
  if (const json::array* list = v.if_array())
    return std::any_of(list->begin(), list->end(), [&](const json::value& x) { return mentions(x, keys); });
  const json::object* o = v.if_object();
  if (o == nullptr) return false;
  for (const auto& m : *o)
    if (std::find(keys.begin(), keys.end(), std::string_view(m.key())) != keys.end() || mentions(m.value(), keys)) return true;
  return false;
}

}  // namespace

bool is_trained_form(const json::value& schema) { return mentions(schema, kTrainedKeywords); }

bool is_optional(const FormText& text, size_t piece) {
  while (piece < text.pieces.size() && text.pieces[piece].field < 0) ++piece;
  return piece < text.pieces.size() && text.fields[static_cast<size_t>(text.pieces[piece].field)].optional;
}

int64_t longest_value(const FieldSpec& spec) {
  size_t longest = 1;
  if (const auto* choice = std::get_if<ChoiceSpec>(&spec.kind))
    for (const std::string& word : choice->words) longest = std::max(longest, word.size());
  if (const auto* number = std::get_if<NumberFormat>(&spec.kind)) longest = number->spelled.size();
  if (const auto* bins = std::get_if<BinsSpec>(&spec.kind)) longest = static_cast<size_t>(std::max(bins->count, 1));
  return static_cast<int64_t>(longest);
}

Status link_parents(const FormText& text, std::string_view form_name, std::span<Field> fields) {
  for (size_t i = 0; i < text.fields.size(); ++i) {
    const FieldSpec& spec = text.fields[i];
    auto& parents = fields[i].parents;
    if (spec.after)
      parents = *spec.after;
    else if (!text.any_parents && spec.field_before >= 0)
      parents = {spec.field_before};
    if (spec.after || !text.any_parents) continue;
    for (const std::string& name : spec.parent_names) {
      bool found = false;
      for (size_t j = 0; j < text.fields.size(); ++j) {
        const std::string& other = text.fields[j].name;
        if (other != name && !other.starts_with(name + ".")) continue;
        found = true;
        if (std::find(parents.begin(), parents.end(), static_cast<int32_t>(j)) == parents.end())
          parents.push_back(static_cast<int32_t>(j));
      }
      if (!found)
        return bad_input("form {}: {}: expected names of fields in x-parents, got '{}'", form_name, spec.path, shown(name));
    }
  }
  return {};
}

}  // namespace slip
