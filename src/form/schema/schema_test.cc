// SPDX-License-Identifier: Apache-2.0
#include "form/schema/schema.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstdlib>

#include "base/philox.h"
#include "form/builtin/builtin.h"
#include "form/form_testing.h"
#include "form/json_text.h"
#include "form/schema/values.h"

namespace slip {
namespace {

using testing::HasSubstr;

std::string message_of(std::string_view schema, const Tokenizer& t, std::optional<TokenId> null = std::nullopt) {
  const auto parsed = parse_json(schema, "test");
  if (!parsed) return parsed.error().message;
  const auto form = compile_trained(*parsed, "f", {&t, null, 300});
  return form ? "compiled" : form.error().message;
}

TEST(WodE2e, IsTheFormThatFastDDriveTrained) {
  const auto tokenizer = test::qwen_tokenizer();
  if (!tokenizer) GTEST_SKIP() << "no Qwen vocabulary here";
  const auto form = wod_e2e_form({&*tokenizer, TokenId{151666}, 151936});
  ASSERT_TRUE(form) << form.error().message;
  // 12 + 192 + 2*3 + 10*7 values in 11 blocks, answer of 404 tokens (docs/notes/block-diffusion.md#scaffold-and-blocks).
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
  EXPECT_EQ(
      text,
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
    "f": {"type": "boolean"}, "c": {"const": true}}})",
                                 "test");
  ASSERT_TRUE(schema) << schema.error().message;
  const auto form = compile_trained(*schema, "toy", {&t, test::kNull, 300});
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
  EXPECT_THAT(message_of(R"({"type": "object", "properties": {"a": {"anyOf": []}}})", t),
              HasSubstr("$.properties.a: expected 'type', 'enum' or 'const'"));
  EXPECT_THAT(message_of(R"({"type": "object", "properties": {"a": {"type": "string"}}})", t),
              HasSubstr("$.properties.a: expected x-budget, got none"));
  EXPECT_THAT(message_of(R"({"type": "object", "properties": {"a": {"type": "number", "x-format": "0."}}})", t),
              HasSubstr("expected an x-format like"));
  EXPECT_THAT(message_of(R"({"type": "object", "properties": {"a": {"type": "array", "items": {}, "minItems": 1}}})", t),
              HasSubstr("minItems equal to maxItems"));
  EXPECT_THAT(message_of(R"({"type": "object", "properties": {"a": {"enum": ["yes", 3]}}})", t),
              HasSubstr("expected strings in enum, got 3"));
  EXPECT_THAT(message_of(R"({"type": "object", "properties": {"a": {"enum": ["yes"], "x-aliases": {"y": "ya"}}}})", t),
              HasSubstr("expected x-aliases to lead"));
  EXPECT_THAT(message_of(R"({"type": "object", "properties": {"a": {"enum": ["yes", "no"], "x-parents": ["b"]}}})", t),
              HasSubstr("expected names of fields in x-parents, got 'b'"));
  EXPECT_THAT(
      message_of(
          R"({"type": "object", "properties": {"a": {"enum": ["yes", "no"], "x-parents": ["b"]}, "b": {"enum": ["x"], "x-parents": ["a"]}}})",
          t),
      HasSubstr("expected fields without cycles, got a <- b <- a"));
  EXPECT_THAT(message_of(R"({"type": "object", "properties": {}, "required": ["a"]})", t), HasSubstr("required"));
  EXPECT_THAT(message_of("[]", t), HasSubstr("expected an object"));
}

// Expected spellings are what Python's json.dumps prints.
TEST(JsonText, WritesNumbersAsPythonDoes) {
  for (const auto& [value, text] : std::vector<std::pair<double, const char*>>{{1.5, "1.5"},
                                                                               {1e20, "1e+20"},
                                                                               {100000.0, "100000.0"},
                                                                               {1e16, "1e+16"},
                                                                               {9999999999999998.0, "9999999999999998.0"},
                                                                               {0.1, "0.1"},
                                                                               {-0.0, "-0.0"},
                                                                               {0.0, "0.0"},
                                                                               {0.0001, "0.0001"},
                                                                               {0.00001, "1e-05"},
                                                                               {-1.25e-7, "-1.25e-07"},
                                                                               {1.7976931348623157e308, "1.7976931348623157e+308"},
                                                                               {5e-324, "5e-324"},
                                                                               {123456.789, "123456.789"},
                                                                               {2.0, "2.0"},
                                                                               {0.1 + 0.2, "0.30000000000000004"},
                                                                               {1.5e300, "1.5e+300"}})
    EXPECT_EQ(python_number(value), text);
  PhiloxStream r(1, 7);
  for (int i = 0; i < 20000; ++i) {
    const double x = std::bit_cast<double>(uint64_t{r.bits()} << 32 | r.bits());
    if (!std::isfinite(x)) continue;
    ASSERT_EQ(std::strtod(python_number(x).c_str(), nullptr), x) << python_number(x);
  }
}

TEST(JsonText, ShowsNoMoreThanSixtyCharactersAndNoHalfOnes) {
  EXPECT_EQ(shown(std::string(60, 'a')), std::string(60, 'a'));
  EXPECT_EQ(shown(std::string(61, 'a')), std::string(57, 'a') + "...");
  std::string umlauts;
  for (int i = 0; i < 100; ++i) umlauts += "\u00e4";
  EXPECT_EQ(shown(umlauts), umlauts.substr(0, 114) + "...");
  EXPECT_EQ(shown_json(json::array(200000, 7)).size(), 60u);
  EXPECT_EQ(shown_json(json::value{1, "b"}), R"([1,"b"])");
}

std::string text_of(std::string_view schema, std::vector<FieldValue> values) {
  const Tokenizer t = test::character_tokenizer();
  const auto form = compile_trained(*parse_json(schema, "test"), "f", {&t, std::nullopt, 300});
  if (!form) return form.error().message;
  const auto answer = render(*form, values, t);
  return answer ? answer_text(*form, *answer, t) : answer.error().message;
}

TEST(Schema, WritesConstantsAsJsonDumpsDoes) {
  EXPECT_EQ(
      text_of(
          R"({"type": "object", "properties": {"a": {"const": 1.5}, "b": {"const": 1e20}, "c": {"const": -7}, "d": {"const": null},
    "e": {"const": "\u00fc"}, "f": {"const": 18446744073709551615}, "g": {"const": 0.00001}}})",
          {}),
      R"({"a": 1.5, "b": 1e+20, "c": -7, "d": null, "e": "ü", "f": 18446744073709551615, "g": 1e-05})");
}

TEST(Schema, WritesNothingButJsonOutsideStrings) {
  const Tokenizer t = test::character_tokenizer();
  EXPECT_THAT(message_of(R"({"type": "object", "properties": {"b": {"type": "number", "x-format": "000"}}})", t),
              HasSubstr("$.properties.b: expected an x-format with one digit before the point outside x-content"));
  EXPECT_THAT(message_of(R"({"type": "object", "properties": {"b": {"type": "number", "x-format": "+0.0"}}})", t),
              HasSubstr("$.properties.b: expected an x-format without '+' outside x-content"));
  EXPECT_THAT(message_of(R"({"type": "array", "minItems": 2, "maxItems": 2, "x-separator": "; ", "items": {"const": 1}})", t),
              HasSubstr("$: expected an x-separator of one comma and spaces"));
  const std::string text = text_of(R"({"type": "object", "properties": {"b": {"type": "number", "x-format": "0.0"},
    "c": {"type": "array", "minItems": 2, "maxItems": 2, "x-separator": ",", "items": {"type": "number", "x-format": "0"}},
    "d": {"type": "string", "x-content": {"type": "number", "x-format": "+000"}}}})",
                                   {0.5, 1.0, 2.0, 3.0});
  EXPECT_EQ(text, R"({"b": 0.5, "c": [1,2], "d": "+003"})");
  EXPECT_TRUE(parse_json(text, "answer"));
}

TEST(Schema, BoundsTheWholeFormWhileItIsRead) {
  const Tokenizer t = test::character_tokenizer();
  const auto nested = [](const std::string& leaf, int levels) {
    std::string s = leaf;
    for (int i = 0; i < levels; ++i) s = R"({"type": "array", "minItems": 4096, "maxItems": 4096, "items": )" + s + "}";
    return s;
  };
  for (const char* leaf :
       {R"({"type": "number", "x-format": "0"})", R"({"enum": ["yes", "no"]})", R"({"type": "string", "x-budget": 60000})",
        R"({"const": 1})", R"({"type": "object", "properties": {}})"}) {
    const auto form = compile_trained(*parse_json(nested(leaf, 3), "test"), "f", {&t, std::nullopt, 300});
    ASSERT_FALSE(form) << leaf;
    EXPECT_EQ(form.error().kind, ErrorKind::kBadInput);
    EXPECT_THAT(form.error().message, HasSubstr("form f: $.items.items")) << leaf;
    EXPECT_THAT(form.error().message, HasSubstr("in the whole form, got more"));
  }
  std::string words;
  for (int i = 0; i < 4000; ++i) words += (i ? ", \"" : "\"") + std::to_string(100000 + i) + "\"";
  const std::string object = R"({"type": "object", "properties": {"w": {"enum": [)" + words + R"(]}, "c": {"const": ")" +
                             std::string(20000, 'x') + "\"}}}";
  EXPECT_THAT(message_of(object, t), HasSubstr("$.properties.w: expected 4000 values to be tried in at most"));
  EXPECT_THAT(message_of(R"({"enum": [)" + words + ", \"a\", " + words + "]}", t),
              HasSubstr("$: expected at most 4096 words in enum, got 8001"));
}

TEST(Schema, CutsWhatItEchoes) {
  const Tokenizer t = test::character_tokenizer();
  const std::string longest(100000, 'k');
  json::array huge(200000, 7);
  const auto message = [&](const json::value& schema) {
    const auto form = compile_trained(schema, "f", {&t, std::nullopt, 300});
    return form ? std::string("compiled") : form.error().message;
  };
  const json::value list(huge);
  for (const json::value& schema : std::vector<json::value>{
           list, json::object{{"const", list}}, json::object{{"enum", {list, 1}}}, json::object{{"type", longest}},
           json::object{{"type", "string"}, {longest, 1}}, json::object{{"enum", {longest, longest}}},
           json::object{{"type", "object"}, {"properties", json::object{{longest, list}}}},
           json::object{{"type", "object"}, {"properties", json::object{}}, {"required", {list, 1}}},
           json::object{{"type", "object"}, {"properties", json::object{}}, {"additionalProperties", list}},
           json::object{{"enum", {"a", "b"}}, {"x-parents", {list, 1}}},
           json::object{{"enum", {"a", "b"}}, {"x-aliases", json::object{{"c", list}}}},
           json::object{{"type", "object"},
                        {"properties", json::object{{longest, json::object{{"enum", {"a", "b"}}, {"x-parents", {longest}}}}}}},
           json::object{{"type", "number"}, {"x-format", longest}}}) {
    const std::string said = message(schema);
    EXPECT_NE(said, "compiled");
    EXPECT_LT(said.size(), 300u) << said.substr(0, 300);
  }
}

TEST(Schema, NamesTheFieldThatTheTokenizerCannotMeet) {
  const Tokenizer t = test::character_tokenizer();
  EXPECT_EQ(message_of(R"({"type": "object", "properties": {"a": {"enum": ["yes", "nothing"], "x-budget": 5}}})", t),
            "form f: $.properties.a: expected at most 5 tokens for \"nothing\", got 7");
  const auto qwen = test::qwen_tokenizer();
  if (!qwen) GTEST_SKIP() << "no Qwen vocabulary here";
  // A separator of brackets merges with what stands beside the digits; "."-words merge with the closing quote.
  EXPECT_THAT(message_of(R"({"type": "object", "properties": {"a": {"enum": ["e.g.", "no"]}}})", *qwen),
              HasSubstr("$.properties.a: expected"));
  EXPECT_THAT(
      message_of(
          R"({"type": "object", "properties": {"a": {"type": "string", "x-content": {"type": "number", "x-format": "+00.0"}}}})",
          *qwen),
      HasSubstr("$.properties.a.x-content: expected"));
}

}  // namespace
}  // namespace slip
