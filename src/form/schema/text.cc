// SPDX-License-Identifier: Apache-2.0
// What is known of a form's fields before any tokenizer is asked: how long their values get, and who their parents are.
#include "form/schema/text.h"

#include <algorithm>

#include "form/json_text.h"

namespace slip {

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
