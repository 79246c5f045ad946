// SPDX-License-Identifier: Apache-2.0
#include "form/schema.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "form/builtin.h"
#include "form/test_tokenizer.h"
#include "form/values.h"

namespace slip {
namespace {

using testing::HasSubstr;

std::string message_of(std::string_view schema, const Tokenizer& t, std::optional<TokenId> null = std::nullopt) {
  const auto parsed = parse_json(schema, "test");
  if (!parsed) return parsed.error().message;
  const auto form = compile_schema(*parsed, "f", {&t, null, 300});
  return form ? "compiled" : form.error().message;
}

TEST(WodE2e, IsTheFormThatFastDDriveTrained) {
  const auto tokenizer = test::qwen_tokenizer();
  if (!tokenizer) GTEST_SKIP() << "no Qwen vocabulary here";
  const auto form = wod_e2e_form({&*tokenizer, TokenId{151666}, 151936});
  ASSERT_TRUE(form) << form.error().message;
  // 12 + 192 + 2*3 + 10*7 values in 11 blocks, answer of 404 tokens (reference: block_diffusion 4.2).
  EXPECT_EQ(form->form.length() - form->form.fixed_tokens(), 280);
  EXPECT_EQ(form->form.length(), 404);
  EXPECT_EQ(form->form.blocks().size(), 11u);
  ASSERT_EQ(form->form.sections().size(), 4u);
  EXPECT_EQ(form->form.sections()[2].name, "future_meta_behavior");
  ASSERT_EQ(form->form.fields().size(), 25u);
  EXPECT_EQ(form->form.fields()[0].budget, 1);
  EXPECT_EQ(form->form.fields()[12].name, "explanation");
  EXPECT_EQ(form->form.fields()[12].budget, 192);
  EXPECT_FALSE(form->form.fields()[12].end);
  EXPECT_EQ(form->form.fields()[12].parents.size(), 12u);
  EXPECT_EQ(form->form.fields()[13].budget, 3);
  EXPECT_EQ(form->form.fields()[15].name, "trajectory.0.0");
  EXPECT_EQ(form->form.fields()[15].parents, (std::vector<int32_t>{13, 14}));
  EXPECT_EQ(form->form.fields()[17].parents, (std::vector<int32_t>{16}));
  EXPECT_EQ(form->form.fields()[15].budget, 7);
  EXPECT_EQ(form->form.fields()[15].rules.state(0).edges.size(), 2u);
  EXPECT_EQ(form->form.fields()[15].rules.state(1).edges.size(), 10u);
  EXPECT_EQ(form->form.fields()[15].rules.state(4).edges.size(), 1u);
}

TEST(WodE2e, WritesTheAnswerAsTheDataSetDoes) {
  const auto tokenizer = test::qwen_tokenizer();
  if (!tokenizer) GTEST_SKIP() << "no Qwen vocabulary here";
  const auto form = wod_e2e_form({&*tokenizer, TokenId{151666}, 151936});
  ASSERT_TRUE(form) << form.error().message;
  std::vector<FieldValue> values(12, FieldValue("no"));
  values[0] = "yes";
  values.insert(values.end(), {"There is a vehicle ahead, roughly 20-30 meters away.", "come to stop", "straight"});
  for (const double v : {14.70, -0.04, 29.55, -0.21, 44.51, -0.56, 59.50, -1.06, 74.39, -1.69}) values.emplace_back(v);
  const auto answer = render(*form, values, *tokenizer);
  ASSERT_TRUE(answer) << answer.error().message;
  EXPECT_EQ(answer->size(), 404u);
  const std::string text = answer_text(*form, *answer, *tokenizer);
  EXPECT_EQ(text,
            R"({"critical_objects": {"nearby_vehicle": "yes", "pedestrian": "no", "cyclist": "no", "construction": "no", )"
            R"("traffic_element": "no", "weather_condition": "no", "road_hazard": "no", "emergency_vehicle": "no", "animal": "no", )"
            R"("special_vehicle": "no", "conflicting_vehicle": "no", "door_opening_vehicle": "no"}, "explanation": "There is a vehicle )"
            R"(ahead, roughly 20-30 meters away.", "future_meta_behavior": {"longitudinal": "come to stop", "lateral": "go straight"}, )"
            R"("trajectory": "[[ +014.70, -000.04], [ +029.55, -000.21], [ +044.51, -000.56], [ +059.50, -001.06], [ +074.39, -001.69]]"})");
  // With NULL in place the whole answer tokenises to the very same ids.
  const auto again = tokenizer->encode(tokenizer->decode(*answer));
  ASSERT_TRUE(again);
  EXPECT_EQ(*again, *answer);
}

TEST(WodE2e, WorksWithCharactersAndWithoutNull) {
  const auto tokenizer = test::qwen_tokenizer();
  if (!tokenizer) GTEST_SKIP() << "no Qwen vocabulary here";
  const auto form = wod_e2e_form({&*tokenizer, std::nullopt, 151936}, {.explanation_budget = 32});
  ASSERT_TRUE(form) << form.error().message;
  const Field& explanation = form->form.fields()[12];
  ASSERT_TRUE(explanation.end);
  EXPECT_EQ(*explanation.end, *form->form.fixed_at(explanation.start + explanation.budget));
  EXPECT_TRUE(form->form.fields()[13].end) << "words of one to three tokens";
  EXPECT_FALSE(form->form.fields()[0].end) << "yes and no are one token each";
  EXPECT_FALSE(form->form.fields()[15].end);
}

TEST(Schema, CompilesWithACharacterTokenizer) {
  const Tokenizer t = test::character_tokenizer();
  const auto schema = parse_json(R"({"type": "object", "x-block-size": 4, "properties": {
    "o": {"enum": ["yes", "no"], "x-null-pad": true, "x-budget": 4, "x-section": "one"},
    "n": {"type": "string", "x-section": "two", "x-content": {"type": "number", "x-format": " +00.0"}},
    "w": {"type": "string", "x-budget": 9},
    "f": {"type": "boolean"}, "c": {"const": true}}})", "test");
  ASSERT_TRUE(schema) << schema.error().message;
  const auto form = compile_schema(*schema, "toy", {&t, test::kNull, 300});
  ASSERT_TRUE(form) << form.error().message;
  const auto fields = form->form.fields();
  ASSERT_EQ(fields.size(), 4u);
  EXPECT_EQ(fields[0].budget, 4);
  EXPECT_FALSE(fields[0].end);
  EXPECT_EQ(fields[1].budget, 5) << "the space is a token of its own and belongs to the scaffold";
  EXPECT_EQ(fields[2].end, t.find("\""));
  EXPECT_EQ(fields[3].end, t.find(","));
  EXPECT_EQ(fields[3].parents, std::vector<int32_t>{2});
  const auto answer = render(*form, std::vector<FieldValue>{"no", -3.5, "go on", "false"}, t);
  ASSERT_TRUE(answer) << answer.error().message;
  EXPECT_EQ(answer_text(*form, *answer, t), R"({"o": "no", "n": " -03.5", "w": "go on", "f": false, "c": true})");
}

TEST(Schema, NamesWhatItDoesNotDo) {
  const Tokenizer t = test::character_tokenizer();
  EXPECT_EQ(message_of(R"({"type": "object", "properties": {"a": {"type": "string", "x-budget": 3, "pattern": "b"}}})", t),
            "form f: $.properties.a: expected a keyword that forms know here, got 'pattern'");
  EXPECT_THAT(message_of(R"({"type": "object", "properties": {"a": {"anyOf": []}}})", t), HasSubstr("$.properties.a: expected 'type', 'enum' or 'const'"));
  EXPECT_THAT(message_of(R"({"type": "object", "properties": {"a": {"type": "string"}}})", t), HasSubstr("$.properties.a: expected x-budget, got none"));
  EXPECT_THAT(message_of(R"({"type": "object", "properties": {"a": {"type": "number", "x-format": "0."}}})", t), HasSubstr("expected an x-format like"));
  EXPECT_THAT(message_of(R"({"type": "object", "properties": {"a": {"type": "array", "items": {}, "minItems": 1}}})", t), HasSubstr("minItems equal to maxItems"));
  EXPECT_THAT(message_of(R"({"type": "object", "properties": {"a": {"enum": ["yes", 3]}}})", t), HasSubstr("expected strings in enum, got 3"));
  EXPECT_THAT(message_of(R"({"type": "object", "properties": {"a": {"enum": ["yes"], "x-aliases": {"y": "ya"}}}})", t), HasSubstr("expected x-aliases to lead"));
  EXPECT_THAT(message_of(R"({"type": "object", "properties": {"a": {"enum": ["yes", "no"], "x-parents": ["b"]}}})", t), HasSubstr("expected names of fields in x-parents, got 'b'"));
  EXPECT_THAT(message_of(R"({"type": "object", "properties": {"a": {"enum": ["yes", "no"], "x-parents": ["b"]}, "b": {"enum": ["x"], "x-parents": ["a"]}}})", t),
              HasSubstr("expected fields without cycles, got a <- b <- a"));
  EXPECT_THAT(message_of(R"({"type": "object", "properties": {}, "required": ["a"]})", t), HasSubstr("required"));
  EXPECT_THAT(message_of("[]", t), HasSubstr("expected an object"));
}

TEST(Schema, NamesTheFieldThatTheTokenizerCannotMeet) {
  const Tokenizer t = test::character_tokenizer();
  EXPECT_EQ(message_of(R"({"type": "object", "properties": {"a": {"enum": ["yes", "nothing"], "x-budget": 5}}})", t),
            "form f: $.properties.a: expected at most 5 tokens for \"nothing\", got 7");
  const auto qwen = test::qwen_tokenizer();
  if (!qwen) GTEST_SKIP() << "no Qwen vocabulary here";
  // A separator of brackets merges with what stands beside the digits; "."-words merge with the closing quote.
  EXPECT_THAT(message_of(R"({"type": "object", "properties": {"a": {"enum": ["e.g.", "no"]}}})", *qwen), HasSubstr("$.properties.a: expected"));
  EXPECT_THAT(message_of(R"({"type": "object", "properties": {"a": {"type": "number", "x-format": "+00.0"}}})", *qwen), HasSubstr("$.properties.a: expected"));
}

}  // namespace
}  // namespace slip
