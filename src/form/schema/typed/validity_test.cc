// SPDX-License-Identifier: Apache-2.0
// What a schema says nothing of is valid for it; and what is refused says why, in the right place.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

#include "form/form_testing.h"
#include "form/schema/typed/open_form.h"
#include "form/schema/typed/open_form_testing.h"
#include "form/schema/typed/typed.h"

namespace slip {
namespace {

using test::member;
using test::Outcome;
using test::outcome_of;
using testing::HasSubstr;

/// {"maxLength": 3} is valid for null and for 5, {} for everything: beside such an alternative of oneOf the others' answers may fit two.
TEST(OneOf, WhatAnUntypedAlternativeSaysNothingOfFitsIt) {
  for (const char* two :
       {R"({"maxLength": 3}, {"type": "null"})", R"({"minimum": 3}, {"type": "boolean"})", R"({"minimum": 3}, {"maxLength": 3})",
        R"({"pattern": "^\\d+$"}, {"type": "integer"})", R"({"format": "date"}, {"type": "integer"})",
        R"({"enum": ["auto", 1]}, {"maxLength": 3})", R"({"properties": {"name": {"type": "boolean"}}}, {"type": "null"})",
        R"({}, {"type": "object", "properties": {"a": {"type": "null"}}})"}) {
    const Outcome o = member(fmt::format(R"({{"oneOf": [{}]}})", two));
    EXPECT_EQ(o.kind, ErrorKind::kUnsupported) << two;
    EXPECT_THAT(o.message, HasSubstr("expected alternatives of which no value fits two")) << two;
    const Outcome any = member(fmt::format(R"({{"anyOf": [{}]}})", two));
    EXPECT_EQ(any.message, "") << two;
  }
  for (const char* two :
       {R"({"type": "string", "maxLength": 3}, {"type": "null"})", R"({"minimum": 3, "type": "integer"}, {"type": "boolean"})",
        R"({"maxLength": 2}, {"minLength": 3, "type": "string", "maxLength": 4})"}) {
    const Outcome o = member(fmt::format(R"({{"oneOf": [{}]}})", two));
    EXPECT_EQ(o.message, "") << two;
  }
}

/// Also where the untyped one stands inside of an anyOf, or makes nothing of the type that it speaks of.
TEST(OneOf, WhatAnAlternativeTakesAndDoesNotWriteFitsIt) {
  for (const char* two :
       {R"({"anyOf": [{"maxLength": 3}, {"minLength": 5, "maxLength": 7}]}, {"type": "null"})",
        R"({"anyOf": [{"maxLength": 3}, {"required": ["a"], "properties": {"a": {"const": 1}}}]}, {"type": "null"})",
        R"({"anyOf": [{"enum": ["a", "b"]}, {"minimum": 3, "maximum": 0}]}, {"type": "null"})",
        R"({"enum": ["a", "b"]}, {"minimum": 3, "maximum": 0})", R"({"enum": ["a", 1]}, {"minLength": 2, "maxLength": 1})",
        R"({"minLength": 2, "maxLength": 1}, {"const": 1})",
        R"({"enum": ["a", 1]}, {"required": ["b"], "propertyNames": {"enum": ["c"]}})",
        R"({"type": "array", "uniqueItems": true, "items": {"enum": [1, 2, 3, 4, 5, 6]}}, {"const": [1, 2, 3, 4, 5, 6]})",
        R"({"uniqueItems": true, "items": {"enum": [1, 2]}}, {"type": "null"})"}) {
    const Outcome o = member(fmt::format(R"({{"oneOf": [{}]}})", two));
    EXPECT_EQ(o.kind, ErrorKind::kUnsupported) << two << o.message;
    EXPECT_THAT(o.message, HasSubstr("expected alternatives of which no value fits two")) << two;
  }
  for (const char* two :
       {R"({"enum": ["a", "b"]}, {"minimum": 3, "maximum": 0, "type": "integer"})", R"({"const": 1}, {"minimum": 3, "maximum": 0})",
        R"({"type": "array", "uniqueItems": true, "items": {"enum": [1, 2, 3]}}, {"const": [1, 1]})"})
    EXPECT_EQ(member(fmt::format(R"({{"oneOf": [{}]}})", two)).message, "") << two;
}

TEST(Refusals, NameThePlaceAndTheBound) {
  const auto say = [](const std::string& schema) { return member(schema).message; };
  EXPECT_THAT(say(R"({"type": "string", "pattern": "^a{1}{2}$"})"), HasSubstr("a repetition of a repetition"));
  EXPECT_EQ(say(R"({"type": "string", "pattern": "^a{b$"})"), "") << "a brace before a letter is a character";
  std::string ahead = "^";
  for (int i = 0; i < 9; ++i) ahead += "(?!a)";
  EXPECT_THAT(say(fmt::format(R"({{"type": "string", "pattern": "{}b$"}})", ahead)), HasSubstr("at most 8 look-aheads"));
  EXPECT_THAT(say(R"({"type": "string", "x-budget": 1000000000000})"), HasSubstr("a budget of 1 to 65536, got 1000000000000"));
  EXPECT_THAT(outcome_of(R"({"type": "object", "properties": {"a": {"type": "boolean"}}, "x-block-size": 1000000000})").message,
              HasSubstr("#/x-block-size: expected a block size of 1 to 65536, got 1000000000"));
  EXPECT_THAT(outcome_of(R"({"type": "object", "patternProperties": {"^a": {"type": "integer", "minimum": 1e17, "maximum": 1e18}},
                             "additionalProperties": false})")
                  .message,
              HasSubstr("#/patternProperties/^a: expected bounds"));
  EXPECT_THAT(say(R"({"type": "string", "x-buget": 4})"), HasSubstr("got 'x-buget' (did you mean x-budget?)"));
  const Outcome uri = member(R"({"type": "string", "format": "uri", "maxLength": 9})");
  EXPECT_EQ(uri.kind, ErrorKind::kUnsupported) << "a shorter one than forms write is one";
  EXPECT_THAT(uri.message, HasSubstr("as forms write it"));
}

/// One mistake hides no other, wherever it stands.
TEST(Refusals, TellAllErrorsBesideEachOther) {
  const auto places = [](const std::string& text) {
    std::set<std::string> out;
    for (const Error& e : errors_of_schema(*parse_json(text, "test"), "f")) out.insert(e.message.substr(0, e.message.find(": ")));
    return out;
  };
  const std::string bad = R"("b": {"type": "strnig"})";
  for (const auto& [beside, place] : std::vector<std::pair<std::string, std::string>>{
           {R"("properties": {"name": {"type": "null"}, )" + bad + R"(}, "required": ["nmae"])", "#/required"},
           {R"("properties": {)" + bad + R"(}, "patternProperties": {"(": {}})", "#/patternProperties/("},
           {R"("properties": {)" + bad + R"(}, "propertyNames": {"pattern": "("})", "#/propertyNames/pattern"},
           {R"("properties": {"a": {"allOf": [{"type": "integer"}, {"type": "string"}]}, )" + bad + R"(}, "required": ["a"])",
            "#/properties/a"},
           {R"("properties": {)" + bad + R"(}, "allOf": [{"type": "integer"}])", "#"},
           {R"("properties": {)" + bad + R"(}, "required": ["q"], "additionalProperties": false)", "#"},
           {R"("properties": {"a": false, "c": {"contains": {}}, )" + bad + R"(}, "required": ["a"])", "#/properties/c/contains"},
           {R"("properties": {)" + bad + R"(}, "patternProperties": {"^(": {}}, "additionalProperties": false)",
            "#/patternProperties/^("},
           {R"("properties": {"a": {"$ref": "#/$defs/none"}, )" + bad +
                R"(}, "required": ["a"], "$defs": {"none": {"minLength": 3, "maxLength": 1}})",
            "#/properties/a"},
           {R"("properties": {"a": {"type": "array", "prefixItems": [{"enum": []}, {"type": 3}], "minItems": 2}, )" + bad + "}",
            "#/properties/a/prefixItems/1/type"},
           {R"("properties": {"a": {"type": "object", "properties": {"in": {"minimum": "x"}, "out": {}}, "required": ["inn"]}, )" +
                bad + "}",
            "#/properties/a/properties/in/minimum"}}) {
    const auto said = places("{\"type\": \"object\", " + beside + "}");
    EXPECT_TRUE(said.contains("#/properties/b/type")) << beside;
    EXPECT_TRUE(said.contains(place)) << beside << " " << testing::PrintToString(said);
  }
}

/// A member that may be left out is no place for a contradiction, unless a way is closed there on purpose.
TEST(Refusals, ContradictionsOfOptionalMembersAreMistakes) {
  const auto optional = [](const std::string& schema) {
    return outcome_of(R"({"type": "object", "required": ["k"], "properties": {"k": {"enum": ["a"]}, "b": )" + schema + "}}");
  };
  for (const char* schema :
       {R"({"type": "array", "items": {"type": "integer"}, "minItems": 3, "maxItems": 1})",
        R"({"allOf": [{"type": "integer"}, {"type": "string"}]})",
        R"({"type": "array", "prefixItems": [{"type": "null"}, {"type": "null"}], "minItems": 2, "maxItems": 1})",
        R"({"type": "array", "minItems": 1, "items": {"type": "string", "minLength": 3, "maxLength": 1}})",
        R"({"type": "object", "properties": {"z": {"minimum": 3, "maximum": 1, "type": "integer"}}, "required": ["z"]})"}) {
    const Outcome o = optional(schema);
    EXPECT_EQ(o.kind, ErrorKind::kBadInput) << schema;
    EXPECT_THAT(o.message, HasSubstr("#/properties/b")) << schema;
  }
  const Outcome referred =
      outcome_of(R"({"type": "object", "required": ["k"], "properties": {"k": {"enum": ["a"]}, "b": {"$ref": "#/$defs/D"}},
    "$defs": {"D": {"type": "integer", "minimum": 5, "maximum": 1}}})");
  EXPECT_EQ(referred.kind, ErrorKind::kBadInput);
  EXPECT_THAT(referred.message, HasSubstr("#/properties/b: expected a schema that some value is valid for"));
  for (const char* schema : {"false", R"({"not": {}})", R"({"allOf": [false]})"}) EXPECT_EQ(optional(schema).message, "") << schema;
}

/// What `required` alone names is there, with whatever value the other keywords allow.
TEST(Required, MayNameWhatNoPropertiesName) {
  EXPECT_EQ(outcome_of(R"({"type": "object", "properties": {"a": {"type": "null"}}, "required": ["a", "other"]})").message, "");
  EXPECT_EQ(outcome_of(R"({"type": "object", "required": ["z"], "additionalProperties": {"type": "integer"}})").message, "");
  EXPECT_EQ(
      outcome_of(
          R"({"type": "object", "required": ["x_a"], "patternProperties": {"^x_": {"type": "null"}}, "additionalProperties": false})")
          .message,
      "");
  EXPECT_EQ(outcome_of(R"({"type": "object", "properties": {"x": {"type": "null"}}, "required": ["x", "y"]})").message, "")
      << "x is meant where it stands";
  EXPECT_THAT(outcome_of(R"({"type": "object", "required": ["z"], "additionalProperties": false})").message,
              HasSubstr("'z' is required and no member"));
  for (const char* names : {R"({"maxLength": 2})", R"({"pattern": "^[a-y]+$"})", R"({"not": {"enum": ["zed"]}})",
                            R"({"type": "string", "allOf": [{"maxLength": 2}]})"})
    for (const char* properties : {R"("properties": {"a": {"type": "null"}}, )", ""}) {
      const Outcome o = outcome_of(R"({"type": "object", )" + std::string(properties) +
                                   R"("required": ["zed"], "propertyNames": )" + names + "}");
      EXPECT_EQ(o.kind, ErrorKind::kBadInput) << names;
      EXPECT_THAT(o.message, HasSubstr("'zed' is required and none of the names of propertyNames")) << names;
    }
  const Outcome three = outcome_of(
      R"({"type": "object", "required": ["zed"], "propertyNames": {"maxLength": 3}, "patternProperties": {"^z": {"type": "null"}}})");
  EXPECT_EQ(three.message, "");
  EXPECT_THAT(
      outcome_of(R"({"type": "object", "properties": {"speed": {"type": "integer"}, "b": {"type": "null"}}, "required": ["sped"]})")
          .message,
      HasSubstr("#/required: expected names of properties, got 'sped' (did you mean 'speed'?)"));
}

/// What nothing is valid for asks for nothing to be done: only what is wrong in it is told.
TEST(Refusals, ADeadAlternativeAsksForNothing) {
  for (
      const char* dead :
      {R"({"type": "object", "properties": {"x": {"contains": {}}}})",
       R"({"type": "array", "prefixItems": [{"allOf": [{"type": "null"}, {"type": "integer"}]}, {"contains": {}}], "minItems": 2})"})
    EXPECT_EQ(
        member(R"({"anyOf": [{"type": "string", "maxLength": 3}, {"allOf": [{"type": "string"}, )" + std::string(dead) + "]}]}")
            .message,
        "")
        << dead;
}

TEST(Refusals, NameKeywordsThatAreNone) {
  for (const auto& [schema, why] : std::vector<std::pair<const char*, const char*>>{
           {R"({"type": "object", "propertes": {}})",
            "/propertes: expected a keyword that forms know here, got 'propertes' (did you mean 'properties'?)"},
           {R"({"type": "object", "properties": {"a": {}}, "additionalProperties": "false"})",
            "/additionalProperties: expected a schema, got \"false\""},
           {R"({"type": "object", "properties": {"a": {}}, "unevaluatedProperties": 5})",
            "/unevaluatedProperties: expected a schema, got 5"},
           {R"({"type": "array", "prefixItems": {}})", "/prefixItems: expected schemas, got {}"},
           {R"({"type": "array", "uniqueItems": "yes"})", "/uniqueItems: expected true or false, got \"yes\""},
           {R"({"type": "object", "properties": {"a": {}}, "dependentRequired": {"a": "b"}})",
            "/dependentRequired/a: expected names, got \"b\""}}) {
    EXPECT_THAT(member(schema).message, HasSubstr(why)) << schema;
  }
  EXPECT_THAT(outcome_of(R"({"type": "object", "properties": {"a": {}}, "required": true})").message,
              HasSubstr("#/required: expected names, got true"));
  EXPECT_THAT(outcome_of(R"({"$defs": {"A": {"type": "null"}}})").message, HasSubstr("got definitions alone"));
  EXPECT_THAT(outcome_of(R"({"components": {"schemas": {"A": {}}}})").message, HasSubstr("#/components/schemas/NAME"));
  const auto one = parse_json(R"({"type": "object", "properties": {"v": {"not": {"type": "w"}}}})", "test");
  EXPECT_EQ(errors_of_schema(*one, "f").size(), 1U);
  EXPECT_THAT(outcome_of(R"({"openapi": "3.1.0", "paths": {}})").message, HasSubstr("got an OpenAPI document"));
  for (const auto& [schema, where] : std::vector<std::pair<const char*, const char*>>{
           {R"({"tools": [{"type": "function", "function": {"name": "f", "parameters": {"type": "object"}}}]})",
            "#/tools/0/function/parameters"},
           {R"({"response_format": {"type": "json_schema", "json_schema": {"name": "f", "schema": {}}}})",
            "#/response_format/json_schema/schema"},
           {R"({"format": {"type": "json_schema", "name": "f", "schema": {}}})", "#/format/schema"},
           {R"({"generationConfig": {"response_schema": {"type": "object"}}})", "#/generationConfig/response_schema"},
           {R"({"guided_json": {"type": "object"}})", "#/guided_json"}})
    EXPECT_THAT(outcome_of(schema).message, HasSubstr(where)) << schema;
  EXPECT_THAT(member(R"({"type": "string", "pattern": "^\\07$"})").message, HasSubstr("octal escapes"));
  EXPECT_THAT(member(R"({"type": "string", "pattern": "^\\c$"})").message, HasSubstr("a control escape without its letter"));
  EXPECT_FALSE(member(R"({"type": "string", "pattern": "^\\0a$"})").kind) << "taken; valijson's own patterns do not know it";
}

/// Each of a hundred lists of a hundred lists of a hundred: refused before it is written out.
TEST(Refusals, SmallSchemasOfLargeAnswersTakeNoTime) {
  std::string schema = R"({"const": 1})";
  for (int i = 0; i < 3; ++i) schema = R"({"type": "array", "minItems": 100, "maxItems": 100, "items": )" + schema + "}";
  double before = test::now();
  EXPECT_THAT(member(schema).message, HasSubstr("expected at most 32768 values that every answer has, got 1000000"));
  EXPECT_LT(test::now() - before, 0.2);
  // Thousands of names that nearly none of hundreds is.
  std::string properties, required;
  PhiloxStream r(7, 1);
  const auto name = [&] {
    std::string s;
    for (int i = 0; i < 60; ++i) s += static_cast<char>('a' + r.below(26));
    return s;
  };
  for (int i = 0; i < 256; ++i) properties += fmt::format("{}\"{}\": {{\"type\": \"null\"}}", i > 0 ? ", " : "", name());
  for (int i = 0; i < 15'000; ++i) required += fmt::format("{}\"{}\"", i > 0 ? ", " : "", name());
  before = test::now();
  EXPECT_EQ(outcome_of(fmt::format(R"({{"type": "object", "properties": {{{}}}, "required": [{}]}})", properties, required)).kind,
            ErrorKind::kUnsupported);
  EXPECT_LT(test::now() - before, 3);
}

TEST(Untyped, KeywordsOfATypeThatIsLeftOutSayNothing) {
  EXPECT_EQ(member(R"({"not": {"type": "string"}, "maxLength": 3})").message, "");
  EXPECT_EQ(member(R"({"type": "array", "maxItems": 2})").message, "") << "of any scalars";
}

/// A text of 32,768 bytes is more than an automaton holds: it is refused where it would have to become one.
TEST(Refusals, WordsThatNoAutomatonHoldsAreTold) {
  const std::string word = "\"" + std::string(40'000, 'a') + "\"";
  for (const std::string& schema :
       {R"({"type": "string", "not": {"const": )" + word + "}}", R"({"anyOf": [{"const": )" + word + R"(}, {"type": "string"}]})",
        R"({"anyOf": [{"const": )" + word + R"(}, {"enum": ["a", "b"]}, {"type": "string"}]})",
        R"({"anyOf": [{"const": )" + word + R"(}, {"type": "string"}, {"type": "array", "items": {"const": 1}}]})"}) {
    const Outcome o = member(schema);
    EXPECT_EQ(o.kind, ErrorKind::kUnsupported) << schema.substr(0, 60);
    EXPECT_THAT(o.message, HasSubstr("#/properties/v: expected ")) << schema.substr(0, 60);
  }
  EXPECT_THAT(member(R"({"type": "string", "not": {"enum": ["b", )" + word + "]}}").message,
              HasSubstr("expected strings of at most 16384 bytes in `not`, got one of 40000"));
}

TEST(UniqueItems, AreRefusedWhereTheyCouldNotBeWritten) {
  std::string words;
  for (int i = 0; i < 40; ++i) words += fmt::format(R"({}"w{}")", i > 0 ? ", " : "", i);
  const std::string unique = fmt::format(R"({{"type": "array", "uniqueItems": true, "items": {{"enum": [{}]}})", words);
  EXPECT_EQ(member(unique + "}").kind, ErrorKind::kUnsupported);
  EXPECT_EQ(member(unique + R"(, "maxItems": 1})").message, "");
  EXPECT_EQ(member(R"({"type": "array", "uniqueItems": true, "items": {"enum": ["a", "b", "c"]}})").message, "");
}

/// Keywords that were once read and held nothing to account: a form that is made keeps to them, or is refused by name.
TEST(Negation, OfObjectsAndArraysIsRefusedWhereOnesAreWritten) {
  const std::string object = R"("type": "object", "properties": {"a": {"enum": [1, 2]}}, "required": ["a"])";
  for (const auto& [schema, kind] : std::vector<std::pair<std::string, std::string>>{
           {"{" + object + R"(, "not": {"const": {"a": 1}}})", "objects"},
           {"{" + object + R"(, "not": {"enum": [3, {"a": 1}]}})", "objects"},
           {R"({"type": "array", "items": {"enum": [1, 2]}, "maxItems": 1, "not": {"const": [1]}})", "arrays"}}) {
    const Outcome o = member(schema);
    EXPECT_EQ(o.kind, ErrorKind::kUnsupported) << schema;
    EXPECT_THAT(o.message, HasSubstr("expected plain values alone to be left out beside " + kind)) << schema;
  }
  EXPECT_EQ(member(R"({"type": "array", "items": {"enum": [1, 2]}, "maxItems": 1, "not": {"const": {"a": 1}}})").message, "");
  EXPECT_EQ(member(R"({"type": "string", "maxLength": 3, "not": {"enum": [[], {}, "a"]}})").message, "");
}

TEST(Enums, AreHeldToThePatternsBesideThem) {
  for (const char* values : {R"("enum": ["a", "b"])", R"("const": "a")"}) {
    const Outcome broken = member(fmt::format(R"({{{}, "pattern": "(a"}})", values));
    EXPECT_EQ(broken.kind, ErrorKind::kBadInput) << values;
    EXPECT_THAT(broken.message, HasSubstr("#/properties/v/pattern: ")) << values;
    const Outcome backwards = member(fmt::format(R"({{{}, "pattern": "(a)\\1"}})", values));
    EXPECT_EQ(backwards.kind, ErrorKind::kUnsupported) << values;
    EXPECT_EQ(member(fmt::format(R"({{{}, "pattern": "^a$"}})", values)).message, "") << values;
  }
  EXPECT_THAT(member(R"({"const": "a", "pattern": "^b$"})").message, HasSubstr("\"a\" is not valid beside the other keywords"));
}

/// Ours is a part of a format; who writes a value beside it knows that it is of the format.
TEST(Enums, AreNotHeldToOurPartOfAFormat) {
  EXPECT_EQ(member(R"({"type": "string", "format": "uri", "const": "ftp://example.org/a"})").message, "");
  const Tokenizer t = test::character_tokenizer();
  const auto schema = parse_json(R"({"type": "string", "format": "date", "enum": ["0999-01-01", "2024-02-29"]})", "test");
  const auto form = compile_schema(*schema, "f", {&t, std::nullopt, t.size()});
  ASSERT_TRUE(form) << form.error().message;
  std::set<std::string> seen;
  PhiloxStream r(5, 1);
  for (int i = 0; i < 40; ++i) seen.insert(answer_text(*form, test::random_answer(form->form, r), t));
  EXPECT_EQ(seen, (std::set<std::string>{R"("0999-01-01")", R"("2024-02-29")"}));
}

TEST(PropertyNames, KeepWhatStandsBesideAnEnum) {
  for (const char* names : {R"({"enum": ["ab", "c"], "maxLength": 1})", R"({"enum": ["ab", "c"], "pattern": "^c"})",
                            R"({"const": "ab", "maxLength": 1})", R"({"enum": ["ab", "c"], "not": {"const": "ab"}})",
                            R"({"enum": ["ab", "c"], "const": "c"})", R"({"$ref": "#/$defs/N", "maxLength": 1})"}) {
    const Outcome o = outcome_of(fmt::format(
        R"({{"type": "object", "properties": {{"ab": {{"type": "null"}}}}, "required": ["ab"], "propertyNames": {},
             "$defs": {{"N": {{"enum": ["ab", "c"]}}}}}})",
        names));
    EXPECT_EQ(o.kind, ErrorKind::kBadInput) << names;
    EXPECT_THAT(o.message, HasSubstr("'ab' is required and none of the names of propertyNames")) << names;
    EXPECT_EQ(outcome_of(fmt::format(R"({{"type": "object", "additionalProperties": {{"type": "null"}}, "propertyNames": {},
             "$defs": {{"N": {{"enum": ["ab", "c"]}}}}}})",
                                     names))
                  .message,
              "")
        << names;
  }
  EXPECT_EQ(outcome_of(R"({"type": "object", "additionalProperties": {"type": "null"},
                           "allOf": [{"propertyNames": {"enum": ["ab", "c"]}}, {"propertyNames": {"maxLength": 1}}]})")
                .message,
            "");
}

TEST(AdditionalItems, AreThoseBehindAListOfItems) {
  EXPECT_EQ(member(R"({"type": "array", "items": [{"type": "null"}], "additionalItems": {"enum": ["x"]}, "minItems": 3})").message,
            "");
  EXPECT_THAT(
      member(R"({"type": "array", "items": [{"type": "null"}], "additionalItems": {"type": "strnig"}, "minItems": 2})").message,
      HasSubstr("#/properties/v/additionalItems/type"));
  EXPECT_EQ(member(R"({"type": "array", "items": {"type": "null"}, "additionalItems": {"enum": ["x"]}, "minItems": 2})").message,
            "")
      << "beside a schema of all items it says nothing";
}

/// A text of a format that is not among ours, or a longer one, is valid too: it may fit another alternative.
TEST(OneOf, TextsThatAreValidAndNeverWrittenCount) {
  for (const std::string& two :
       {std::string(R"({"type": "string", "format": "uri"}, {"const": "ftp://example.org/"})"),
        std::string(R"({"type": "string", "maxLength": 300}, {"type": "string", "minLength": 280, "maxLength": 290})"),
        std::string(R"({"type": "string", "format": "uri"}, {"type": "string", "pattern": "^ftp://[a-z]{3}$"})"),
        std::string(R"({"type": "array", "items": {"const": 0}}, {"type": "array", "items": {"const": 0}, "minItems": 9})")}) {
    const Outcome o = member(fmt::format(R"({{"oneOf": [{}]}})", two));
    EXPECT_EQ(o.kind, ErrorKind::kUnsupported) << two;
    EXPECT_THAT(o.message, HasSubstr("expected alternatives of which no value fits two")) << two;
  }
  for (const char* two :
       {R"({"type": "string", "format": "date"}, {"type": "null"})", R"({"type": "string", "format": "date"}, {"const": 3})",
        R"({"type": "array", "items": {"const": 0}, "maxItems": 2}, {"type": "array", "items": {"const": 0}, "minItems": 3})"})
    EXPECT_EQ(member(fmt::format(R"({{"oneOf": [{}]}})", two)).message, "") << two;
}

TEST(Formats, AddressesMayBeShort) {
  for (const char* bound : {R"("maxLength": 8)", R"("minLength": 30)", R"("pattern": "^::")", R"("pattern": "::$")"})
    EXPECT_EQ(member(fmt::format(R"({{"type": "string", "format": "ipv6", {}}})", bound)).message, "") << bound;
}

}  // namespace
}  // namespace slip
