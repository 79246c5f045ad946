// SPDX-License-Identifier: Apache-2.0
// Forms of any schema, walked at random by their rules alone: what the masks allow is a valid answer, and nothing gets stuck.
#include "form/schema/typed/open_form.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <ctime>
#include <fstream>
#include <map>
#include <numeric>

#include "form/form_testing.h"
#include "form/schema/typed/open_form_testing.h"

namespace slip {
namespace {

using test::answers_or_message;
using test::now;
using test::wrong_with;
using testing::HasSubstr;

TEST(OpenForm, WalkedAtRandomIsValid) {
  const Tokenizer t = test::character_tokenizer();
  int compiled = 0, gave_up = 0;
  for (uint64_t n = 0; n < 150; ++n) {
    const json::value schema = test::RandomSchema(n).root();
    const auto form = compile_schema(schema, "random", {&t, std::nullopt, t.size()});
    if (!form) continue;
    ++compiled;
    ASSERT_EQ(wrong_with(schema, *form, t, n, &gave_up), "") << n << "\n" << schema;
  }
  EXPECT_GT(compiled, 130);
  EXPECT_LT(gave_up, 20);
}

/// tests/fixtures/form/schemas.jsonl: 250 schemas of the kinds that people write; the share that is done is stated in the guide.
TEST(OpenForm, DoesMostOfWhatPeopleWrite) {
  const Tokenizer t = test::character_tokenizer();
  std::ifstream in(std::filesystem::path(SLIP_SOURCE_DIR) / "tests/fixtures/form/schemas.jsonl");
  std::ofstream out;
  if (const char* file = std::getenv("SLIP_ANSWERS")) out.open(file);
  std::map<std::string, std::pair<int, int>> share;  // done, of
  std::string line;
  int gave_up = 0;
  for (uint64_t n = 0; std::getline(in, line); ++n) {
    const auto entry = parse_json(line, "schemas.jsonl");
    ASSERT_TRUE(entry) << entry.error().message;
    const json::value& schema = entry->at("schema");
    auto& [done, of] = share[std::string(entry->at("kind").as_string())];
    ++of;
    const auto form = compile_schema(schema, "f", {&t, std::nullopt, t.size()});
    if (!form) {
      EXPECT_THAT(form.error().message, HasSubstr("#")) << "names a place";
      continue;
    }
    ++done;
    if (line.find("nullable") != std::string::npos) continue;  // OpenAPI's word, which validators of JSON Schema pass over
    ASSERT_EQ(wrong_with(schema, *form, t, n, &gave_up, out.is_open() ? &out : nullptr), "") << entry->at("name");
  }
  for (const auto& [kind, s] : share) {
    RecordProperty(kind, fmt::format("{} of {}", s.first, s.second));
    if (kind == "hard")
      EXPECT_GE(s.first, 17);
    else
      EXPECT_EQ(s.first, s.second) << kind;
  }
  EXPECT_LT(gave_up, 10);
}

TEST(OpenForm, DictionariesOfNamesThatAreAnEnumeration) {
  for (
      const char* text :
      {R"({"type": "object", "propertyNames": {"enum": ["left", "right"]}, "additionalProperties": {"type": "boolean"}})",
       R"({"type": "object", "propertyNames": {"$ref": "#/$defs/Side"}, "additionalProperties": {"type": "integer"}, "required": ["left"],
    "$defs": {"Side": {"enum": ["left", "right"], "type": "string"}}})",
       R"({"type": "object", "properties": {"a": {"type": "null"}, "b": {"type": "null"}}, "propertyNames": {"const": "a"}})"})
    EXPECT_EQ(answers_or_message(text), "valid") << text;
}

TEST(OpenForm, DictionariesOfAnyNames) {
  for (
      const char* text :
      {R"({"type": "object", "additionalProperties": {"type": "integer"}})",
       R"({"type": "object", "properties": {"m": {"type": "object", "additionalProperties": true}, "z": {"type": "boolean"}}, "required": ["m"]})",
       R"({"type": "object", "propertyNames": {"pattern": "^a"}, "additionalProperties": {"type": "integer"}})",
       R"({"type": "object", "propertyNames": {"$ref": "#/$defs/Name"}, "additionalProperties": {"enum": ["x", "y"]}, "minProperties": 1, "maxProperties": 3,
    "$defs": {"Name": {"type": "string", "minLength": 2, "maxLength": 5}}})",
       R"({"type": "object", "patternProperties": {"^x-": {"type": "null"}}, "additionalProperties": false})",
       R"({"type": "object", "patternProperties": {"^x-": {"type": "integer"}}, "additionalProperties": {"type": "string"}})",
       R"({"type": "object", "patternProperties": {"^x-": {"type": "integer"}}, "allOf": [{"additionalProperties": {"maximum": 5}}]})",
       R"({"type": "object", "propertyNames": {"minLength": 1}, "unevaluatedProperties": {"type": "boolean"}})",
       R"({"type": "object", "propertyNames": {"minLength": 1}, "unevaluatedProperties": false})",
       R"({"type": "object", "properties": {"abcd": {"type": "null"}, "b": {"type": "null"}}, "propertyNames": {"maxLength": 3}})",
       R"({"type": "object", "additionalProperties": {"type": "array", "items": {"type": "object", "additionalProperties": {"type": "null"}, "maxProperties": 2}, "maxItems": 2}, "maxProperties": 3})",
       R"({"type": "array", "items": {"anyOf": [{"type": "object", "additionalProperties": {"type": "integer"}}, {"type": "array", "items": {"type": "boolean"}}]}, "maxItems": 2})",
       R"({"type": "object", "maxProperties": 0})"})
    EXPECT_EQ(answers_or_message(text), "valid") << text;
  for (
      const auto& [text, why] : std::vector<std::pair<const char*, const char*>>{
          {R"({"type": "object", "additionalProperties": {"type": "null"}, "minProperties": 2})",
           "#/minProperties: expected at most 1"},
          {R"({"type": "object", "patternProperties": {"^a": {}, "b$": {"type": "null"}}})",
           "#/patternProperties: expected one pattern"},
          {R"({"type": "object", "properties": {"abcd": {"type": "null"}}, "propertyNames": {"maxLength": 3}, "required": ["abcd"]})",
           "'abcd' is required and none of the names"},
          {R"({"type": "object", "properties": {"a": {"type": "null"}}, "propertyNames": 3})",
           "#/propertyNames: expected a schema"},
          {R"({"type": "function", "function": {"name": "f", "parameters": {"type": "object"}}})",
           "take what stands at #/function/parameters"},
          {R"({"type": "json_schema", "json_schema": {"name": "f", "schema": {"type": "null"}}})",
           "take what stands at #/json_schema/schema"},
          {R"({"name": "f", "description": "d", "input_schema": {"type": "object"}})", "take what stands at #/input_schema"},
          {R"({"type": "function", "name": "f", "parameters": {"type": "object"}})", "take what stands at #/parameters"},
          {R"({"type": "object", "properties": {"x": {"type": "json_schema", "json_schema": {"schema": {}}}}})",
           "take what stands at #/properties/x/json_schema/schema"},
          {R"({"oneOf": [{"type": "object", "additionalProperties": {"type": "null"}},
                          {"type": "object", "properties": {"a": {"type": "integer"}}, "required": ["a"]}]})",
           "expected alternatives of which no value fits two"}})
    EXPECT_THAT(answers_or_message(text), HasSubstr(why)) << text;
}

TEST(OpenForm, LeavesOutNumbersHoweverTheyAreWritten) {
  for (
      const char* text :
      {R"({"type": "object", "properties": {"a": {"type": "integer", "minimum": -1, "maximum": 2, "not": {"enum": [0, 2, 1.0]}}}})",
       R"({"type": "object", "properties": {"a": {"type": "number", "minimum": 2.4, "maximum": 2.5, "multipleOf": 0.05, "not": {"enum": [2.5, 2.40, "x"]}}}})",
       R"({"type": "object", "properties": {"a": {"type": "integer", "exclusiveMinimum": true, "minimum": 5, "maximum": 6}}})",
       R"({"type": "object", "properties": {"a": {"type": "integer", "required": true}, "b": {"type": "null"}}})"})
    EXPECT_EQ(answers_or_message(text), "valid") << text;
  EXPECT_THAT(answers_or_message(R"({"type": "object", "properties": {"a": {"type": "integer", "exclusiveMinimum": true}}})"),
              HasSubstr("#/properties/a/exclusiveMinimum: expected a number, or minimum beside"));
  EXPECT_THAT(answers_or_message(R"({"type": "object", "properties": {"a": {"type": "null"}}, "dependentRequired": {"a": ["b"]}})"),
              HasSubstr("#/dependentRequired/a: expected names of properties, got 'b'"));
  EXPECT_THAT(answers_or_message(R"({"type": "object", "properties": {"a": {"pattern": "^*a"}}})"),
              HasSubstr("a repetition of a border at character 2"));
}

TEST(OpenForm, WhatIsNotAnythingIsNothing) {
  for (const char* nothing : {"{}", "true"})
    EXPECT_THAT(answers_or_message(
                    fmt::format(R"({{"type": "object", "properties": {{"a": {{"not": {}}}}}, "required": ["a"]}})", nothing)),
                HasSubstr("nothing is valid here"));
  for (const char* text : {R"({"type": "object", "properties": {"a": {"not": {}}, "b": {"type": "null"}}, "required": ["b"]})",
                           R"({"type": "object", "properties": {"a": {"type": "boolean", "not": {"const": true}}}})",
                           R"({"type": "object", "properties": {"a": {"type": "string", "maxLength": 1, "not": {"const": ""}}}})"})
    EXPECT_EQ(answers_or_message(text), "valid") << text;
}

/// additionalProperties and items speak of what their own schema does not name, whatever stands beside it in allOf, anyOf or $ref.
TEST(OpenForm, WhatIsClosedIsClosedByItsOwnSchema) {
  for (
      const char* text :
      {R"({"allOf": [{"type": "object", "properties": {"a": {"type": "boolean"}}, "required": ["a"], "additionalProperties": false},
    {"type": "object", "properties": {"b": {"type": "boolean"}}, "required": []}]})",
       R"({"allOf": [{"type": "object", "properties": {"a": {"type": "boolean"}}, "additionalProperties": {"type": "integer", "maximum": 3}},
    {"type": "object", "properties": {"b": {"type": "integer", "minimum": 0}}}]})",
       R"({"allOf": [{"type": "array", "prefixItems": [{"type": "boolean"}], "items": {"type": "integer", "minimum": 0, "maximum": 9}, "minItems": 2, "maxItems": 3},
    {"prefixItems": [true, {"type": "integer", "minimum": 5}]}]})",
       R"({"type": "object", "properties": {"k": {"enum": ["a", "b"]}}, "required": ["k"], "additionalProperties": false,
    "if": {"properties": {"k": {"const": "a"}}}, "then": {"properties": {"n": {"type": "boolean"}}, "required": []}})",
       R"({"type": "object", "allOf": [{"propertyNames": {"enum": ["a", "b"]}}, {"propertyNames": {"enum": ["b", "c"]}}], "additionalProperties": {"type": "boolean"}})",
       R"({"type": "object", "propertyNames": {"enum": ["a"]}, "additionalProperties": {"type": "integer", "maximum": 9}, "allOf": [{"additionalProperties": {"minimum": 7}}]})"})
    EXPECT_EQ(answers_or_message(text), "valid") << text;
  for (
      const char* nothing :
      {R"({"allOf": [{"type": "object", "properties": {"a": {"type": "boolean"}}, "required": ["a"], "additionalProperties": false},
    {"type": "object", "properties": {"b": {"type": "boolean"}}, "required": ["b"]}]})",
       R"({"$ref": "#/$defs/Base", "properties": {"b": {"type": "boolean"}}, "required": ["b"],
    "$defs": {"Base": {"type": "object", "properties": {"a": {"type": "boolean"}}, "additionalProperties": false}}})",
       R"({"type": "object", "properties": {"id": {"type": "boolean"}}, "required": ["id"],
    "oneOf": [{"type": "object", "properties": {"k": {"const": "a"}}, "required": ["k"], "additionalProperties": false}]})"})
    EXPECT_THAT(answers_or_message(nothing), HasSubstr("nothing is valid here")) << nothing;
}

/// Values of an enum are compared as JSON Schema compares them; what else is said of their insides is not looked at, and refused.
TEST(OpenForm, ValuesAreEqualByValue) {
  for (const char* text :
       {R"({"type": "object", "properties": {"a": {"enum": [1, 1.5, 2], "not": {"const": 1.0}}}})",
        R"({"type": "object", "properties": {"a": {"allOf": [{"enum": [1, 2]}, {"enum": [2.0, 3]}]}}})",
        R"({"type": "object", "properties": {"k": {"enum": [1, 2]}, "v": {"type": "boolean"}}, "required": ["k", "v"],
    "if": {"properties": {"k": {"const": 1.0}}}, "then": {"properties": {"v": {"const": true}}}, "else": {"properties": {"v": {"const": false}}}})"})
    EXPECT_EQ(answers_or_message(text), "valid") << text;
  EXPECT_THAT(answers_or_message(R"({"oneOf": [{"const": {"x": 1, "y": 2}}, {"const": {"y": 2.0, "x": 1}}]})"),
              HasSubstr("no value fits two"));
  EXPECT_THAT(answers_or_message(R"({"enum": [{"k": 1}, {"k": "x"}], "properties": {"k": {"type": "integer"}}})"),
              HasSubstr("without other keywords of them"));
}

/// Bounds beyond the digits that forms write are not supported; bounds without a number between them are a mistake.
TEST(OpenForm, BoundsBeyondOurDigitsAreNoContradiction) {
  const auto of = [](const char* limits) {
    const Tokenizer t = test::character_tokenizer();
    const auto schema = *parse_json(fmt::format(R"({{"type": "object", "properties": {{"a": {{{}}}}}}})", limits), "test");
    const auto form = compile_schema(schema, "f", {&t, std::nullopt, t.size()});
    return form ? std::optional<ErrorKind>() : form.error().kind;
  };
  for (const char* limits :
       {R"("type": "integer", "minimum": 1e15)", R"("type": "integer", "maximum": -1000000000000000)",
        R"("type": "number", "minimum": 1e-9, "maximum": 1e-8)", R"("type": "number", "exclusiveMinimum": 1e16)",
        R"("type": "integer", "minimum": 1e17, "multipleOf": 7)"})
    EXPECT_EQ(of(limits), ErrorKind::kUnsupported) << limits;
  for (const char* limits :
       {R"("type": "integer", "minimum": 0.2, "maximum": 0.8)",
        R"("type": "integer", "exclusiveMinimum": 1, "exclusiveMaximum": 2)", R"("type": "number", "minimum": 2, "maximum": 1)",
        R"("type": "number", "minimum": 2, "exclusiveMaximum": 2)",
        R"("type": "integer", "minimum": 8, "maximum": 13, "multipleOf": 7)"})
    EXPECT_EQ(of(limits), ErrorKind::kBadInput) << limits;
  EXPECT_EQ(answers_or_message(R"({"type": "object", "properties": {"a": {"type": "number", "minimum": 1e11}}})"), "valid");
}

/// What people and generators write at the borders: large counts, names of any kind, anchors, large constants, Pydantic's Decimal.
TEST(OpenForm, TakesWhatGeneratorsWriteAtTheBorders) {
  for (
      const char* text :
      {R"({"type": "object", "properties": {"a": {"type": "string", "maxLength": 2147483647}, "b": {"type": "array", "items": {"type": "boolean"}, "maxItems": 9007199254740991}}})",
       R"({"type": "object", "properties": {"a": {"type": "boolean"}}, "propertyNames": {"type": "string"}})",
       R"({"type": "object", "properties": {"a": {"type": "boolean"}}, "propertyNames": true, "minProperties": 1})",
       R"({"type": "object", "properties": {"a": {"$ref": "#flag"}}, "$defs": {"f": {"$anchor": "flag", "type": "boolean"}}})",
       R"({"$id": "https://ex.org/a.json", "type": "object", "properties": {"a": {"$ref": "https://ex.org/a.json#/$defs/f"}}, "$defs": {"f": {"type": "boolean"}}})",
       R"({"type": "object", "x-internal": true, "properties": {"a": {"type": "integer", "minimum": 0, "maximum": 9, "x-go-type": "uint8"}}})",
       R"({"components": {"schemas": {"f": {"type": "boolean"}}}, "type": "object", "properties": {"a": {"$ref": "#/components/schemas/f"}}})",
       R"({"type": "object", "properties": {"a": {"const": 1e308}, "b": {"enum": [-1e305, 2]}}})",
       R"({"type": "object", "properties": {"a": {"type": "string", "pattern": "^(?!^[-+.]*$)[+-]?0*(?:\\d{0,6}|(?=[\\d.]{1,9}0*$)\\d{0,6}\\.\\d{0,2}0*$)$"}}})"})
    EXPECT_EQ(answers_or_message(text), "valid") << text;
  const auto kind_of = [](std::string_view text) {
    const Tokenizer t = test::character_tokenizer();
    const auto form = compile_schema(*parse_json(text, "test"), "f", {&t, std::nullopt, t.size()});
    return form ? std::optional<ErrorKind>() : form.error().kind;
  };
  for (const char* text : {R"({"type": "object", "properties": {"a": {"type": "integer", "multipleOf": 25000}}})",
                           R"({"type": "object", "properties": {"a": {"type": "number", "multipleOf": 99.99}}})",
                           R"({"type": "object", "properties": {"a": {"type": "boolean"}}, "minProperties": 2})"})
    EXPECT_EQ(kind_of(text).value_or(ErrorKind::kUnsupported), ErrorKind::kUnsupported) << text;
  EXPECT_EQ(
      kind_of(R"({"type": "object", "properties": {"a": {"type": "boolean"}}, "additionalProperties": false, "minProperties": 2})"),
      ErrorKind::kBadInput);
  EXPECT_EQ(kind_of(R"({"type": "object", "properties": {"a": {"type": "boolean"}}, "required": ["a", "c"]})"), std::nullopt);
  EXPECT_EQ(
      kind_of(
          R"({"properties": {"b": {"type": ["string", "integer"], "maximum": 2}}, "required": ["b"], "additionalProperties": false,
    "type": "object", "oneOf": [{"properties": {"b": {"type": "string", "maxLength": 3}, "c": {"type": "boolean"}}, "required": []},
    {"properties": {"b": {"type": "integer", "minimum": 0.5}, "c": {"enum": [0, "xx", {}, "x"]}}, "required": []}]})"),
      ErrorKind::kUnsupported);
  EXPECT_THAT(answers_or_message(R"({"type": "array", "prefixItems": [{"type": "boolean"}], "items": false, "minItems": 2})"),
              HasSubstr("minItems 2 is above"));
  std::string chain = R"({"$ref": "#/$defs/s0", "$defs": {)";
  for (int i = 0; i < 300; ++i) chain += fmt::format(R"("s{}": {{"$ref": "#/$defs/s{}"}}, )", i, i + 1);
  EXPECT_THAT(answers_or_message(chain + R"("s300": {"type": "array", "items": {"type": "boolean"}}}})"),
              HasSubstr("at most 64 references one behind another"));
}

/// Members that an answer may leave out count once along the longest way, not once on each.
TEST(OpenForm, ALongestAnswerIsTheLongestWay) {
  const Tokenizer t = test::character_tokenizer();
  const auto one = *parse_json(R"({"oneOf": [{"type": "object", "properties": {"k": {"const": "a"}, "v": {"type": "boolean"}}},
    {"type": "object", "properties": {"k": {"const": "b"}, "w": {"type": "string", "maxLength": 20}}}]})",
                               "test");
  const auto form = compile_schema(one, "f", {&t, std::nullopt, t.size()});
  ASSERT_TRUE(form) << form.error().message;
  EXPECT_LT(form->form.longest(), form->form.length());
  PhiloxStream r(3, 1);
  for (int i = 0; i < 20; ++i) EXPECT_LE(static_cast<int32_t>(test::random_answer(form->form, r).size()), form->form.longest());
}

std::vector<std::string> cells_of(const std::string& row) {
  std::vector<std::string> out;
  for (size_t at = row.find('|'); at != std::string::npos;) {
    const size_t next = row.find(" | ", at + 1);
    const size_t end = next == std::string::npos ? row.rfind(" |") : next;
    if (end <= at + 1 || end == std::string::npos) break;
    out.push_back(row.substr(at + 2, end - at - 2));
    at = next == std::string::npos ? next : next + 1;
  }
  return out;
}

/// docs/guide/forms.md, the table against others: each row has a schema, and says of it yes or no in our column.
TEST(OpenForm, ListsOfListsAreShorterWhereTheModelHasFewPositions) {
  const Tokenizer t = test::character_tokenizer();
  const auto schema = parse_json(R"({"type": "object", "required": ["items"], "properties": {"items": {"type": "array", "items": {
      "type": "object", "required": ["name", "tags"], "properties": {"name": {"type": "string"}, "tags": {"type": "array", "items": {"type": "string"}}}}}}})",
                                 "test");
  ASSERT_TRUE(schema);
  const auto made = [&](int32_t positions, bool graph = false) {
    return compile_schema(*schema, "f", {&t, std::nullopt, t.size(), positions, graph});
  };
  const auto any = made(0), few = made(2048), least = made(100), side_by_side = made(2048, true);
  ASSERT_TRUE(any && few && least && side_by_side);
  EXPECT_GT(any->form.longest(), 2048);
  EXPECT_LE(few->form.longest(), 1536) << "a quarter is the prompt's";
  EXPECT_GT(few->form.longest(), 400) << "and no less than has to be";
  EXPECT_LE(side_by_side->form.length(), 1536) << "along a graph every value has positions of its own";
  EXPECT_EQ(least->form.longest(), any->form.longest())
      << "where nothing fits, what is usual stays, and is refused with its length";
  int gave_up = 0;
  for (uint64_t n = 0; n < 10; ++n) EXPECT_EQ(wrong_with(*schema, *few, t, n, &gave_up), "");
}

TEST(OpenForm, ListsOfListsOfListsHaveFewerItems) {
  EXPECT_EQ(answers_or_message(
                R"({"type": "array", "items": {"type": "array", "items": {"type": "array", "items": {"type": "boolean"}}}})"),
            "valid");
}

TEST(OpenForm, DoesWhatTheGuidesTableSays) {
  const Tokenizer t = test::character_tokenizer();
  std::ifstream in(std::filesystem::path(SLIP_SOURCE_DIR) / "docs/guide/forms.md");
  int yes = 0, no = 0, gave_up = 0;
  for (std::string line; std::getline(in, line);) {
    const auto cells = cells_of(line);
    if (cells.size() != 6 || !cells[1].starts_with("`{")) continue;
    const auto schema = parse_json(cells[1].substr(1, cells[1].size() - 2), cells[0]);
    ASSERT_TRUE(schema) << schema.error().message;
    const auto form = compile_schema(*schema, "row", {&t, std::nullopt, t.size()});
    if (cells[2].starts_with("yes")) {
      ++yes;
      ASSERT_TRUE(form) << cells[0] << ": " << form.error().message;
      for (uint64_t seed = 0; seed < 8; ++seed) ASSERT_EQ(wrong_with(*schema, *form, t, seed, &gave_up), "") << cells[0];
    } else {
      ++no;
      ASSERT_TRUE(cells[2].starts_with("no")) << cells[0];
      ASSERT_FALSE(form) << cells[0];
      EXPECT_EQ(form.error().kind, ErrorKind::kUnsupported) << cells[0] << ": " << form.error().message;
    }
  }
  EXPECT_GE(yes, 18);
  EXPECT_GE(no, 5);
  EXPECT_LT(gave_up, 16);
}

std::string message_of(std::string_view schema) {
  const Tokenizer t = test::character_tokenizer();
  const auto form = compile_schema(*parse_json(schema, "test"), "f", {&t, std::nullopt, 300});
  return form ? "compiled" : form.error().message;
}

TEST(OpenForm, RefusesContradictionsAndSaysAllErrors) {
  EXPECT_THAT(message_of(R"({"type": "object", "properties": {"a": {"const": 12, "type": "string"}}})"),
              HasSubstr("12 is not valid beside the other keywords"));
  EXPECT_THAT(message_of(R"({"type": "object", "properties": {"a": {"type": "integer", "minimum": 3, "maximum": 2}}})"),
              HasSubstr("no integer is valid for its bounds"));
  EXPECT_THAT(
      message_of(R"({"type": "object", "properties": {"a": {"type": "integer", "x-format": "0.0"}, "b": {"type": "boolean"}}})"),
      HasSubstr("no integer is valid"));
  EXPECT_THAT(message_of(R"({"type": "object", "properties": {"a": {"type": []}}})"),
              HasSubstr("/type: expected at least one type"));
  const std::string two =
      message_of(R"({"type": "object", "properties": {"a": {"type": "strin"}, "b/c": {"type": "string", "pattern": "("}}})");
  EXPECT_THAT(two, HasSubstr("2 errors"));
  EXPECT_THAT(two, HasSubstr("#/properties/a/type: expected string, number"));
  EXPECT_THAT(two, HasSubstr("#/properties/b~1c/pattern: expected a regular expression, got a group without ')'"));
}

/// Schemas that ask for far more than any answer needs: refused, or done, in seconds of this thread.
TEST(OpenForm, BoundsTheTimeOfBombs) {
  const Tokenizer t = test::character_tokenizer();
  std::vector<std::pair<std::string, std::string>> bombs;
  std::string doubled = R"({"$ref": "#/$defs/d0", "$defs": {)";
  for (int i = 0; i < 40; ++i)
    doubled += fmt::format(
        R"("d{0}": {{"type": "object", "properties": {{"a": {{"$ref": "#/$defs/d{1}"}}, "b": {{"$ref": "#/$defs/d{1}"}}}}}}, )", i,
        i + 1);
  bombs.emplace_back("references that double", doubled + R"("d40": {"type": "integer"}}})");
  std::string both = R"({"allOf": [)", alike = R"({"anyOf": [)", bounds = R"({"type": "object", "properties": {)",
              chain = R"({"anyOf": [)";
  for (int i = 0; i < 30; ++i)
    both += fmt::format(
        R"({}{{"anyOf": [{{"type": "object", "properties": {{"a{}": {{"type": "integer"}}}}}}, {{"type": "object", "properties": {{"b{}": {{"type": "integer"}}}}}}]}})",
        i ? ", " : "", i, i);
  bombs.emplace_back("alternatives that multiply", both + "]}");
  for (int i = 0; i < 250; ++i)
    alike += fmt::format(
        R"({}{{"type": "object", "properties": {{"id": {{"type": "string", "pattern": "^(a|b)*c{{1,200}}(x|y)*$"}}, "k{}": {{"type": "integer"}}}}}})",
        i ? ", " : "", i);
  bombs.emplace_back("many that begin alike", alike + "]}");
  for (int i = 0; i < 2000; ++i)
    bounds += fmt::format(R"({}"p{}": {{"type": "string", "minLength": {}, "maxLength": 250}})", i ? ", " : "", i, i % 249);
  bombs.emplace_back("many different lengths", bounds + "}}");
  for (int i = 1; i < 90; ++i) {
    chain += std::string(i > 1 ? ", " : "") + R"({"type": "object", "properties": {)";
    for (int j = 0; j < i; ++j) chain += fmt::format(R"("s{}": {{"type": "string"}}, )", j);
    chain += fmt::format(R"("k{}": {{"type": "null"}}}}}})", i);
  }
  bombs.emplace_back("alternatives that part one behind another", chain + "]}");
  std::string product = R"({"allOf": [)";
  for (int i = 0; i < 8; ++i) {
    product += i ? R"(, {"oneOf": [)" : R"({"oneOf": [)";
    for (int j = 0; j < 10; ++j)
      product += fmt::format(R"({}{{"type": "object", "properties": {{"a{}": {{"const": {}}}}}}})", j ? ", " : "", i, j);
    product += "]}";
  }
  bombs.emplace_back("eight times one of ten", product + "]}");
  for (const auto& [name, text] : bombs) {
    const auto schema = parse_json(text, name);
    ASSERT_TRUE(schema) << name << schema.error().message;
    const double begin = now();
    const auto form = compile_schema(*schema, "bomb", {&t, std::nullopt, t.size()});
    EXPECT_LT(now() - begin, 8) << name << ": " << (form ? "done" : form.error().message);
  }
}

}  // namespace
}  // namespace slip
