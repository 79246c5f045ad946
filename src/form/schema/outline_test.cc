// SPDX-License-Identifier: Apache-2.0
#include "form/schema/outline.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "form/builtin/builtin.h"
#include "form/form_testing.h"
#include "form/schema/values.h"

namespace slip {
namespace {

using testing::HasSubstr;

std::string message_of(const std::string& properties) {
  const auto schema = parse_json(R"({"type": "object", "properties": {)" + properties + "}}", "test");
  const auto text = outline(*schema, "f");
  return text ? *text : text.error().message;
}

TEST(Outline, BoundsWhatATokenizerMakesOfTheForm) {
  const Tokenizer bytes = test::character_tokenizer();
  const json::value schema = *builtin_schema("drive-cot");
  const auto form = compile_schema(schema, "drive-cot", {&bytes, std::nullopt, bytes.size()});
  ASSERT_TRUE(form) << form.error().message;
  const auto shown = outline_json(schema, "drive-cot");
  ASSERT_TRUE(shown) << shown.error().message;
  const json::object made = describe_json(form->form, &bytes);
  EXPECT_EQ(shown->at("waves"), made.at("waves"));
  EXPECT_EQ(shown->at("positions"), made.at("positions")) << "a byte is a token there";
  for (size_t f = 0; f < form->form.fields().size(); ++f) {
    const int64_t most = shown->at("fields").at(f).at("budget").as_int64(), is = form->form.fields()[f].budget;
    EXPECT_EQ(most, is) << f;
  }
  EXPECT_EQ(shown->at("critical_path"), made.at("critical_path"));
}

TEST(Outline, CountsAnEntryOfTheVocabularyAsOneToken) {
  const auto vla = outline_json(*builtin_schema("openvla-action"), "openvla-action");
  ASSERT_TRUE(vla) << vla.error().message;
  EXPECT_EQ(vla->at("fixed_tokens").as_int64(), 1);
  EXPECT_EQ(vla->at("critical_path").as_int64(), 7);
  EXPECT_EQ(vla->at("pieces").at(0).at("text"), "\u2581");
  EXPECT_EQ(vla->at("fields").at(0).at("kind"), "7 of 256 bins");
  const auto coc = outline_json(*builtin_schema("alpamayo-coc"), "alpamayo-coc");
  ASSERT_TRUE(coc) << coc.error().message;
  EXPECT_EQ(coc->at("pieces").at(0).at("text"), "<|cot_start|>");
}

TEST(Outline, SaysWhatAFieldIs) {
  const std::string text = message_of(R"("e": {"type": "string", "x-budget": 24, "x-instances": 3},
    "y": {"type": "string", "x-budget": 2, "x-instance-of": "e", "x-instance": 1}, "w": {"enum": ["yes", "no"]},
    "n": {"type": "number", "x-format": "0.00"})");
  EXPECT_THAT(text, HasSubstr("critical path at most 33\n"));
  EXPECT_THAT(text, HasSubstr("field  e  enumeration of at most 3  budget 24  parents -\n"));
  EXPECT_THAT(text, HasSubstr("field  y  text  budget 2  parents e  instance 1 of e\n"));
  EXPECT_THAT(text, HasSubstr("field  w  one of 2 words  budget 3  parents y\n"));
  EXPECT_THAT(text, HasSubstr("field  n  number \"0.00\"  budget 4  parents w\n"));
  EXPECT_THAT(text, HasSubstr("fixed  \"{\\\"e\\\": \\\"\"\n"));
}

/// Three numbers side by side: the space of the next is what stands between them.
TEST(Outline, TakesANumbersSpaceForFixedText) {
  const std::string text = message_of(R"("p": {"type": "string", "x-content": {"type": "array", "minItems": 3, "maxItems": 3,
    "x-separator": "", "items": {"type": "number", "x-format": " 0.0"}}})");
  EXPECT_THAT(text, HasSubstr("field  p.0  number \" 0.0\"  budget 3  parents -\n"));
  EXPECT_THAT(text, HasSubstr("fixed  \" \"\n"));
}

TEST(Outline, RefusesWhatNoTokenizerCouldMend) {
  EXPECT_THAT(message_of(R"("a": {"type": "banana"})"), HasSubstr("banana"));
  EXPECT_THAT(message_of(R"("a": {"type": "string", "x-budget": 4, "x-parents": ["c"]})"), HasSubstr("x-parents, got 'c'"));
  EXPECT_THAT(message_of(R"("a": {"type": "string", "x-budget": 4, "x-parents": ["b"]},
    "b": {"type": "string", "x-budget": 4, "x-parents": ["a"]})"),
              HasSubstr("expected fields without cycles, got a <- b <- a"));
}

}  // namespace
}  // namespace slip
