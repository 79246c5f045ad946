// SPDX-License-Identifier: Apache-2.0
// Forms of alternatives (oneOf, anyOf, tags): told apart as JSON Schema counts them, and answered with what one of them takes.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "form/form_testing.h"
#include "form/schema/typed/open_form_testing.h"

namespace slip {
namespace {

using test::answers_or_message;
using test::wrong_with;
using testing::HasSubstr;

/// Pydantic writes a tag that has a default as a member that is not required. One alternative that requires it excludes the others.
TEST(OpenForm, ATagThatOneAlternativeRequiresExcludesTheOther) {
  const auto schema = parse_json(R"({"oneOf": [
      {"type": "object", "properties": {"kind": {"const": "cat", "default": "cat"}, "lives": {"type": "integer"}}, "required": ["lives"]},
      {"type": "object", "properties": {"kind": {"const": "dog"}, "good": {"type": "boolean"}}, "required": ["kind"]}]})",
                                 "tags");
  ASSERT_TRUE(schema) << schema.error().message;
  const Tokenizer t = test::character_tokenizer();
  const auto form = compile_schema(*schema, "tags", {&t, std::nullopt, t.size()});
  ASSERT_TRUE(form) << form.error().message;
  int gave_up = 0;
  for (uint64_t n = 0; n < 20; ++n) EXPECT_EQ(wrong_with(*schema, *form, t, n, &gave_up), "");
}

/// oneOf counts what its alternatives demand, not what our answers happen to hold.
TEST(OpenForm, AlternativesThatDemandNothingExcludeNothing) {
  EXPECT_THAT(answers_or_message(R"({"oneOf": [{"type": "object", "properties": {"x": {"type": "integer"}}},
    {"type": "object", "properties": {"y": {"type": "integer"}}}]})"),
              HasSubstr("#/oneOf: expected alternatives of which no value fits two"));
  for (
      const char* text :
      {R"({"oneOf": [{"type": "object", "properties": {"x": {"type": "integer"}}, "additionalProperties": false},
    {"type": "object", "properties": {"y": {"type": "integer"}}, "additionalProperties": false}]})",
       // Only where both tags are written does a value fit one alone: so they are.
       R"({"oneOf": [{"type": "object", "properties": {"kind": {"const": "cat", "default": "cat"}, "lives": {"type": "integer"}}, "required": []},
    {"type": "object", "properties": {"kind": {"const": "dog", "default": "dog"}, "good": {"type": "boolean"}}, "required": []}]})",
       R"({"oneOf": [{"type": "object", "properties": {"x": {"type": "integer"}}, "required": ["x"]},
    {"type": "object", "properties": {"y": {"type": "integer"}}, "required": ["y"]}]})"})
    EXPECT_EQ(answers_or_message(text), "valid");
}

/// Two objects of the same few names, with and without required members: refused, or answered with what one of them alone takes.
TEST(OpenForm, OneOfTwoObjectsAtRandomIsOneAlone) {
  const Tokenizer t = test::character_tokenizer();
  int compiled = 0, gave_up = 0;
  for (uint64_t n = 0; n < 300; ++n) {
    const json::value one = test::RandomSchema(2 * n).root(), other = test::RandomSchema(2 * n + 1).root();
    if (one.get_object().contains("definitions") || other.get_object().contains("definitions")) continue;
    const json::value schema{{"oneOf", {one, other}}};
    const auto form = compile_schema(schema, "random", {&t, std::nullopt, t.size()});
    if (!form) continue;
    ++compiled;
    ASSERT_EQ(wrong_with(schema, *form, t, n, &gave_up), "") << n << "\n" << schema;
  }
  EXPECT_GT(compiled, 30);
  EXPECT_LT(gave_up, 20);
}

/// A union's tag is written in every answer, also where its default makes it optional and another member would tell.
TEST(OpenForm, WritesTheTagOfAUnion) {
  const Tokenizer t = test::character_tokenizer();
  const auto schema = *parse_json(R"({"oneOf": [
    {"type": "object", "properties": {"width": {"type": "integer", "minimum": 0, "maximum": 9}, "kind": {"const": "lane", "default": "lane"}}, "required": ["width"]},
    {"type": "object", "properties": {"kind": {"const": "sign", "default": "sign"}, "text": {"type": "boolean"}}, "required": ["text"]}],
    "discriminator": {"propertyName": "kind"}})",
                                  "test");
  const auto form = compile_schema(schema, "f", {&t, std::nullopt, t.size()});
  ASSERT_TRUE(form) << form.error().message;
  PhiloxStream r(3, 1);
  for (int i = 0; i < 12; ++i)
    EXPECT_THAT(answer_text(*form, test::random_answer(form->form, r), t), testing::StartsWith("{\"kind\": \""));
}

/// Models that begin with the same key and go on with other types, as an untagged union of Pydantic's, in either order.
TEST(OpenForm, UntaggedUnionsGoInEitherOrder) {
  const std::string_view values[] = {R"({"type": "string"})",   R"({"type": "integer"})",
                                     R"({"type": "boolean"})",  R"({"type": "array", "items": {"type": "integer"}})",
                                     R"({"enum": ["x", "y"]})", R"({"type": "number"})"};
  const auto t = Tokenizer::load(std::filesystem::path(SLIP_SOURCE_DIR) / "models" / "tri");
  ASSERT_TRUE(t) << t.error().message;
  int gave_up = 0, supported = 0;
  for (const std::string_view a : values)
    for (const std::string_view b : values) {
      const auto of = [&](std::string_view x, std::string_view y) {
        const auto schema = *parse_json(
            fmt::format(
                R"({{"anyOf": [{{"type": "object", "properties": {{"c": {}}}}}, {{"type": "object", "properties": {{"c": {}}}}}]}})",
                x, y),
            "test");
        const auto form = compile_schema(schema, "f", {&*t, std::nullopt, t->size()});
        if (form) {
          EXPECT_EQ(test::wrong_with(schema, *form, *t, 5, &gave_up), "") << x << y;
        }
        return form.has_value();
      };
      const bool one = of(a, b);
      supported += one;
      EXPECT_EQ(one, of(b, a)) << a << b;
    }
  EXPECT_GE(supported, 20) << "of 36";
}

/// Alternatives that no constant tells apart: by how their values begin, or behind what they share.
TEST(OpenForm, TellsAlternativesApartByHowTheyBegin) {
  std::vector<std::pair<std::string, Tokenizer>> vocabularies;
  vocabularies.emplace_back("characters", test::character_tokenizer());
  auto demo = Tokenizer::load(std::filesystem::path(SLIP_SOURCE_DIR) / "models/demo");
  ASSERT_TRUE(demo);
  vocabularies.emplace_back("demo", std::move(*demo));
  if (auto qwen = test::qwen_tokenizer()) vocabularies.emplace_back("qwen", std::move(*qwen));
  constexpr const char* kList = R"({"type": "array", "items": {"type": "boolean"}, "maxItems": 2})";
  const std::vector<std::string> unions{
      R"({"anyOf": [{"type": "integer"}, LIST]})",
      R"({"anyOf": [LIST, {"type": "number"}, {"type": "null"}]})",
      R"({"anyOf": [{"type": "string", "maxLength": 5}, LIST, {"type": "integer"}]})",
      R"({"anyOf": [{"type": "array", "items": {"type": "integer"}, "maxItems": 2}, {"type": "array", "items": {"type": "string", "maxLength": 3}, "maxItems": 2}]})",
      R"({"anyOf": [{"type": "integer"}, {"type": "number", "maximum": 1}, {"type": "object", "properties": {"x": {"type": "integer"}}}]})",
      R"({"anyOf": [{"const": "auto"}, {"type": "string", "maxLength": 4}, LIST]})",
      R"({"anyOf": [{"const": 0}, {"type": "integer", "minimum": 10}, LIST]})",
      R"({"anyOf": [{"type": "object", "properties": {"id": {"type": "integer"}, "paw": {"type": "boolean"}}, "required": ["id", "paw"]},
                    {"type": "object", "properties": {"id": {"type": "integer"}, "fin": {"type": "string", "maxLength": 3}}, "required": ["id", "fin"]}]})",
      R"({"anyOf": [{"type": "object", "properties": {"n": {"type": "string", "maxLength": 3}, "a": {"type": "integer"}}, "required": ["n"]},
                    {"type": "object", "properties": {"n": {"type": "string", "maxLength": 3}, "b": LIST}, "required": ["n"]},
                    {"type": "object", "properties": {"n": {"type": "string", "maxLength": 3}, "a": {"type": "integer"}, "c": {"type": "null"}}, "required": ["n", "c"]}]})"};
  int gave_up = 0;
  for (const auto& [name, tokenizer] : vocabularies)
    for (std::string text : unions) {
      for (size_t at = text.find("LIST"); at != std::string::npos; at = text.find("LIST")) text.replace(at, 4, kList);
      for (const std::string& whole : {R"({"type": "object", "properties": {"a": )" + text + "}}",
                                       R"({"type": "object", "properties": {"z": {"type": "boolean"}, "a": )" + text +
                                           R"(, "b": {"type": "integer"}}, "required": ["b"]})",
                                       R"({"type": "array", "items": )" + text + R"(, "maxItems": 2})"}) {
        const auto schema = parse_json(whole, "test");
        ASSERT_TRUE(schema) << schema.error().message << whole;
        const auto form = compile_schema(*schema, "f", {&tokenizer, std::nullopt, tokenizer.size()});
        ASSERT_TRUE(form) << name << ": " << form.error().message << "\n" << whole;
        for (uint64_t seed = 0; seed < 4; ++seed)
          ASSERT_EQ(wrong_with(*schema, *form, tokenizer, seed, &gave_up), "") << name << "\n" << whole;
      }
    }
  EXPECT_LT(gave_up, 9);
}

}  // namespace
}  // namespace slip
