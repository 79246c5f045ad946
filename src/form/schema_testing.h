// SPDX-License-Identifier: Apache-2.0
// For tests: schemas as people write them, at random, and a validator that we did not write (valijson).
#pragma once
#define VALIJSON_USE_EXCEPTIONS 1
#include <valijson/adapters/boost_json_adapter.hpp>
#include <valijson/schema.hpp>
#include <valijson/schema_parser.hpp>
#include <valijson/validation_results.hpp>
#include <valijson/validator.hpp>

#include <string>

#include "base/json.h"
#include "base/philox.h"

namespace slip::test {

/// The lists of 2020-12 in the words of draft 7, which valijson knows: `prefixItems` was `items`, and `items` beside it `additionalItems`.
inline json::value as_draft_7(const json::value& schema) {
  if (const json::array* list = schema.if_array()) {
    json::array out;
    for (const json::value& v : *list) out.push_back(as_draft_7(v));
    return out;
  }
  const json::object* o = schema.if_object();
  if (o == nullptr) return schema;
  const bool prefix = o->contains("prefixItems");
  json::object out;
  for (const auto& [key, v] : *o)
    out[key == "prefixItems" ? "items" : prefix && key == "items" ? "additionalItems" : std::string_view(key)] = as_draft_7(v);
  return out;
}

/// Empty where the document is valid for the schema, else the first reason. `gave_up`: valijson 1.0 throws on some valid schemas.
inline std::string why_invalid(const json::value& schema, const json::value& document, int* gave_up = nullptr) try {
  valijson::Schema compiled;
  valijson::SchemaParser parser;
  const json::value old = as_draft_7(schema);
  const valijson::adapters::BoostJsonAdapter schema_adapter(old);
  parser.populateSchema(schema_adapter, compiled);
  valijson::Validator validator;
  valijson::ValidationResults results;
  if (validator.validate(compiled, valijson::adapters::BoostJsonAdapter(document), &results)) return {};
  valijson::ValidationResults::Error error;
  return results.popError(error) ? error.description : "invalid";
} catch (const std::exception& e) {
  if (gave_up == nullptr) return e.what();
  ++*gave_up;
  return {};
}

/// A random schema of at most `depth` levels, of what forms can be. valijson knows draft 7: no prefixItems.
class RandomSchema {
 public:
  explicit RandomSchema(uint64_t seed) : r_(seed, 77) {}

  json::value root() {
    json::object o = object(3);
    if (r_.chance(0.3)) o["title"] = "T";
    if (!defs_.empty()) o["definitions"] = defs_;
    return json::parse(json::serialize(o));  // valijson's adapter takes no unsigned numbers
  }

 private:
  json::value any(int depth) {
    if (depth > 0 && r_.chance(0.4)) return structured(depth);
    return scalar();
  }

  json::value structured(int depth) {
    switch (r_.below(7)) {
      case 0:
        return object(depth - 1);
      case 5:
        return several_types(depth - 1);
      case 6:
        return alike_at_first(depth - 1);
      case 1:
        return array(depth - 1);
      case 2:
        return alternatives(depth - 1);
      case 3:
        return referred(depth - 1);
      default:
        return nullable(depth - 1);
    }
  }

  json::value scalar() {
    switch (r_.below(13)) {
      case 0:
        return {{"type", "boolean"}};
      case 1:
        return {{"type", "null"}};
      case 2:
        return {{"type", {"string", "null"}}, {"maxLength", 4}};
      case 3:
        return integer();
      case 4:
        return number();
      case 5:
        return {{"type", "string"}, {"minLength", 1 + r_.below(3)}, {"maxLength", 3 + r_.below(9)}};
      case 6:
        return {{"type", "string"}, {"pattern", pattern()}};
      case 7:
        return {{"enum", {"red", "green", "a \"quoted\" word", 3, nullptr, true, 2.5}}};
      case 8:
        return {{"enum", {"left", "right", "straight on"}}};
      case 9:
        return {{"const", constant()}};
      case 10:
        return {{"type", {"integer", "boolean"}}};
      case 11:
        return {{"type", "string"}, {"x-budget", 6 + r_.below(6)}, {"minLength", r_.below(3)}};
      default:
        return {{"type", "string"}, {"format", format()}};
    }
  }

  json::value constant() {
    switch (r_.below(4)) {
      case 0:
        return "v";
      case 1:
        return 7;
      case 2:
        return nullptr;
      default:
        return json::array{1, "x", json::object{{"y", false}}};
    }
  }
  const char* format() {
    static constexpr const char* kFormats[] = {"date", "time", "date-time", "uuid", "ipv4", "email", "hostname"};
    return kFormats[r_.below(7)];
  }
  const char* pattern() {
    static constexpr const char* kPatterns[] = {"^[A-Z]{2}-[0-9]{3}$", "^(yes|no|maybe)$",     "^[ !#-~]{1,3}$",
                                                "^[a-z]*[0-9][ -~]?$", "^\\d+(\\.\\d{1,2})?$", "^a*b?$",
                                                "^\\w{1,8}$",          "^[ -~]{0,3}x$",        "^[ -~]{0,4}$"};
    return kPatterns[r_.below(9)];
  }
  json::value integer() {
    json::object o{{"type", "integer"}};
    if (r_.chance(0.6)) o["minimum"] = static_cast<int>(r_.below(400)) - 200;
    if (r_.chance(0.6)) o["maximum"] = 250 + static_cast<int>(r_.below(5000));
    if (r_.chance(0.3)) o["multipleOf"] = 1 + r_.below(12);
    return o;
  }
  json::value number() {
    json::object o{{"type", "number"}};
    if (r_.chance(0.6)) o[r_.chance(0.5) ? "minimum" : "exclusiveMinimum"] = (static_cast<int>(r_.below(400)) - 200) / 8.0;
    if (r_.chance(0.6)) o[r_.chance(0.5) ? "maximum" : "exclusiveMaximum"] = 60 + r_.below(4000) / 16.0;
    if (r_.chance(0.2)) o["multipleOf"] = 0.25;
    return o;
  }
  json::object object(int depth) {
    json::object properties;
    json::array required;
    const uint32_t n = 1 + r_.below(4);
    for (uint32_t i = 0; i < n; ++i) {
      static constexpr const char* kKeys[] = {"name", "kind", "speed_mps", "a b", "\u00fc", "ident", "x"};
      const char* key = kKeys[r_.below(7)];
      if (properties.contains(key)) continue;
      properties[key] = any(depth);
      if (r_.chance(0.6)) required.emplace_back(key);
    }
    json::object o{{"type", "object"}, {"properties", properties}};
    if (r_.chance(0.8)) o["required"] = required;
    if (r_.chance(0.5)) o["additionalProperties"] = r_.chance(0.5);
    return o;
  }
  json::value array(int depth) {
    json::object o{{"type", "array"}, {"items", any(depth)}};
    const uint32_t least = r_.below(3);
    if (r_.chance(0.6)) o["minItems"] = least;
    o["maxItems"] = least + 1 + r_.below(3);
    return o;
  }
  json::value alternatives(int depth) {
    json::array list;
    static constexpr const char* kKinds[] = {"stop", "go", "turn", "yield"};
    const uint32_t n = 2 + r_.below(3);
    for (uint32_t i = 0; i < n; ++i) {
      json::object o = object(depth);
      json::object properties{{"type", {{"const", kKinds[i]}}}};
      for (const auto& m : o["properties"].get_object()) properties[m.key()] = m.value();
      json::array required{"type"};
      if (o.contains("required"))
        for (const auto& v : o["required"].get_array()) required.push_back(v);
      o["properties"] = properties;
      o["required"] = required;
      list.push_back(o);
    }
    return {{r_.chance(0.5) ? "oneOf" : "anyOf", list}};
  }
  /// Two or three types, told apart by how their values begin.
  json::value several_types(int depth) {
    json::array list;
    for (uint32_t type = r_.below(2); type < 6; type += 1 + r_.below(3)) switch (type) {
        case 0:
          list.push_back(integer());
          break;
        case 1:
          list.push_back(json::value{{"type", "string"}, {"maxLength", 1 + r_.below(5)}});
          break;
        case 2:
          list.push_back(json::value{{"type", "boolean"}});
          break;
        case 3:
          list.push_back(array(depth));
          break;
        case 4:
          list.push_back(object(depth));
          break;
        default:
          list.push_back(json::value{{"type", "null"}});
      }
    return {{"anyOf", list}};
  }
  /// Objects that begin with the same free value.
  json::value alike_at_first(int depth) {
    const json::value id = r_.chance(0.5) ? integer() : json::value{{"type", "string"}, {"maxLength", 3}};
    json::array list;
    for (const char* key : {"left", "right"}) {
      json::object properties{{"id", id}, {key, any(depth)}};
      json::array required{key};
      if (r_.chance(0.8)) required.insert(required.begin(), "id");
      list.push_back(json::value{{"type", "object"}, {"properties", properties}, {"required", required}});
    }
    return {{"anyOf", list}};
  }
  json::value nullable(int depth) {
    return {{"anyOf", {r_.chance(0.5) ? json::value(object(depth)) : array(depth), {{"type", "null"}}}}};
  }
  json::value referred(int depth) {
    const std::string name = "D" + std::to_string(defs_.size());
    json::object o = object(depth);
    if (r_.chance(0.3)) {  // a recursion through an optional member
      o["properties"].get_object()["next"] = json::object{{"$ref", "#/definitions/" + name}};
      if (!o.contains("required")) o["required"] = json::array{};
    }
    defs_[name] = o;
    return {{"allOf", {{{"$ref", "#/definitions/" + name}}}}};
  }

  PhiloxStream r_;
  json::object defs_;
};

}  // namespace slip::test
