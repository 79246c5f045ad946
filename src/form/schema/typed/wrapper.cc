// SPDX-License-Identifier: Apache-2.0
#include "form/schema/typed/wrapper.h"

#include <algorithm>
#include <array>

#include "form/schema/typed/reader.h"

namespace slip {
namespace {

/// The same of what stands at a key, an object or the first of a list.
std::string inside_wrapper_at(const json::object& o, std::string_view key) {
  const json::value* v = o.if_contains(key);
  const json::array* list = v ? v->if_array() : nullptr;
  const std::string at = list ? fmt::format("/{}/0", key) : fmt::format("/{}", key);
  if (list) v = list->empty() ? nullptr : &list->front();
  const json::object* inner = v ? v->if_object() : nullptr;
  const std::string inside = inner ? inside_wrapper(*inner) : std::string();
  return inside.empty() ? inside : at + inside;
}

}  // namespace

std::string inside_wrapper(const json::object& o) {
  for (const char* key : {"tools", "functionDeclarations", "function_declarations", "response_format", "format", "text",
                          "output_config", "generationConfig", "generation_config"})
    if (std::string inside = inside_wrapper_at(o, key); !inside.empty()) return inside;
  const auto object_at = [](const json::object& in, std::string_view key) {
    const json::value* v = in.if_contains(key);
    return v ? v->if_object() : nullptr;
  };
  if (const json::object* f = object_at(o, "function"); f && object_at(*f, "parameters")) return "/function/parameters";
  if (const json::object* f = object_at(o, "json_schema"); f && object_at(*f, "schema")) return "/json_schema/schema";
  for (const char* key : {"response_schema", "responseSchema", "guided_json", "response_json_schema", "responseJsonSchema"})
    if (object_at(o, key)) return fmt::format("/{}", key);
  if (o.size() == 1)
    for (const char* key : {"json_schema", "schema"})
      if (object_at(o, key)) return fmt::format("/{}", key);
  static constexpr std::array<std::string_view, 4> kTypes = {"function", "json_schema", "json_object", "custom"};
  const json::value* type = o.if_contains("type");
  const bool own_type =
      type && !(type->is_string() && std::find(kTypes.begin(), kTypes.end(), view(type->get_string())) != kTypes.end());
  if (!o.contains("name") || own_type || o.contains("properties")) return {};
  for (const char* key : {"parameters", "input_schema", "inputSchema", "schema"})
    if (object_at(o, key)) return fmt::format("/{}", key);
  return {};
}

}  // namespace slip
