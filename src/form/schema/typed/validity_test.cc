// SPDX-License-Identifier: Apache-2.0
// What a schema says nothing of is valid for it; and what is refused says why, in the right place.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "form/form_testing.h"
#include "form/schema/typed/open_form.h"
#include "form/schema/typed/open_form_testing.h"

namespace slip {
namespace {

using testing::HasSubstr;

struct Outcome {
  std::optional<ErrorKind> kind;
  std::string message;
};

Outcome outcome_of(const std::string& text) {
  const Tokenizer t = test::character_tokenizer();
  const auto schema = parse_json(text, "test");
  if (!schema) return {schema.error().kind, schema.error().message};
  const auto form = compile_schema(*schema, "f", {&t, std::nullopt, t.size()});
  if (!form) return {form.error().kind, form.error().message};
  int gave_up = 0;
  return {std::nullopt, test::wrong_with(*schema, *form, t, 3, &gave_up)};
}

Outcome member(const std::string& schema) {
  return outcome_of(R"({"type": "object", "required": ["v"], "properties": {"v": )" + schema + "}}");
}

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

TEST(Untyped, KeywordsOfATypeThatIsLeftOutSayNothing) {
  EXPECT_EQ(member(R"({"not": {"type": "string"}, "maxLength": 3})").message, "");
  EXPECT_EQ(member(R"({"type": "array", "maxItems": 2})").message, "") << "of any scalars";
}

TEST(UniqueItems, AreRefusedWhereTheyCouldNotBeWritten) {
  std::string words;
  for (int i = 0; i < 40; ++i) words += fmt::format(R"({}"w{}")", i > 0 ? ", " : "", i);
  const std::string unique = fmt::format(R"({{"type": "array", "uniqueItems": true, "items": {{"enum": [{}]}})", words);
  EXPECT_EQ(member(unique + "}").kind, ErrorKind::kUnsupported);
  EXPECT_EQ(member(unique + R"(, "maxItems": 1})").message, "");
  EXPECT_EQ(member(R"({"type": "array", "uniqueItems": true, "items": {"enum": ["a", "b", "c"]}})").message, "");
}

TEST(Formats, AddressesMayBeShort) {
  for (const char* bound : {R"("maxLength": 8)", R"("minLength": 30)", R"("pattern": "^::")", R"("pattern": "::$")"})
    EXPECT_EQ(member(fmt::format(R"({{"type": "string", "format": "ipv6", {}}})", bound)).message, "") << bound;
}

}  // namespace
}  // namespace slip
