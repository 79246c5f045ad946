// SPDX-License-Identifier: Apache-2.0
#include "form/schema/values.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "base/philox.h"
#include "form/builtin/builtin.h"
#include "form/form_testing.h"

namespace slip {
namespace {

CompiledForm toy(const Tokenizer& t, bool null) {
  const auto schema = parse_json(R"({"type": "object", "properties": {
    "o": {"enum": ["yes", "no", "none"], "x-null-pad": true}, "e": {"type": "string", "x-budget": 12, "x-null-pad": true},
    "p": {"type": "string", "x-content": {"type": "array", "minItems": 2, "maxItems": 2, "items": {"type": "number", "x-format": "+00.00"}}},
    "k": {"type": "string", "x-content": {"type": "integer", "x-format": "000"}}}})",
                                 "toy");
  auto form = compile_schema(*schema, "toy", {&t, null ? std::optional(test::kNull) : std::nullopt, 300});
  EXPECT_TRUE(form) << form.error().message;
  return std::move(*form);
}

/// Of an answer as text: the contents that it was written from.
void expect_split_again(const CompiledForm& form, std::span<const TokenId> answer, const Tokenizer& t) {
  const auto contents = split_text(form, answer_text(form, answer, t), t);
  ASSERT_TRUE(contents) << contents.error().message;
  EXPECT_EQ(assemble(form.form, *contents), std::vector<TokenId>(answer.begin(), answer.end()));
}

std::vector<FieldValue> random_values(const CompiledForm& form, PhiloxStream& random) {
  std::vector<FieldValue> values;
  for (size_t i = 0; i < form.meanings.size(); ++i) {
    if (const auto* c = std::get_if<ChoiceMeaning>(&form.meanings[i])) {
      values.emplace_back(c->words[random.below(static_cast<uint32_t>(c->words.size()))]);
    } else if (const auto* n = std::get_if<NumberMeaning>(&form.meanings[i])) {
      const double unit = std::pow(10.0, n->format.decimals);
      const double whole = random.below(static_cast<uint32_t>(n->format.largest() * unit + 1.5));
      values.emplace_back(n->format.sign && random.chance(0.5) ? -(whole / unit) : whole / unit);
    } else {
      std::string text;
      for (uint32_t k = random.below(static_cast<uint32_t>(form.form.fields()[i].budget) + 1); k > 0; --k)
        text += "abcdefgh kn."[random.below(12)];
      values.emplace_back(text);
    }
  }
  return values;
}

/// Every section begins with a fixed token, which stands where the tokens before it end.
void expect_sections_begin_where_counted(const CompiledForm& form, std::span<const TokenId> answer) {
  const auto contents = split_answer(form.form, answer);
  ASSERT_TRUE(contents);
  for (const Section& s : form.form.sections())
    ASSERT_EQ(answer[static_cast<size_t>(tokens_before(form.form, *contents, s.begin))], form.form.fixed_at(s.begin)) << s.name;
  ASSERT_EQ(tokens_before(form.form, *contents, form.form.length()), static_cast<int32_t>(answer.size()));
}

void expect_round_trips(const CompiledForm& form, const Tokenizer& t, int trials) {
  PhiloxStream random(3, 1);
  for (int i = 0; i < trials; ++i) {
    const auto values = random_values(form, random);
    const auto answer = render(form, values, t);
    ASSERT_TRUE(answer) << answer.error().message;
    const auto back = parse(form, *answer, t);
    ASSERT_TRUE(back) << back.error().message;
    ASSERT_EQ(*back, values);
    for (size_t f = 0; f < values.size(); ++f)
      if (const auto* v = std::get_if<double>(&values[f])) {
        ASSERT_EQ(std::signbit(*v), std::signbit(std::get<double>((*back)[f])));
      }
    const auto again = render(form, *back, t);
    ASSERT_TRUE(again);
    ASSERT_EQ(*again, *answer);
    expect_split_again(form, *answer, t);
    expect_sections_begin_where_counted(form, *answer);
    const auto named = values_from_json(form.form, values_to_json(form.form, values));
    ASSERT_TRUE(named);
    ASSERT_EQ(*named, values);
  }
}

TEST(Values, RoundTripWithNullPadding) {
  const Tokenizer t = test::character_tokenizer();
  expect_round_trips(toy(t, true), t, 400);
}

TEST(Values, RoundTripWithEnds) {
  const Tokenizer t = test::character_tokenizer();
  expect_round_trips(toy(t, false), t, 400);
}

TEST(Values, RoundTripInQwensVocabulary) {
  const auto t = test::qwen_tokenizer();
  if (!t) GTEST_SKIP() << "no Qwen vocabulary here";
  for (const bool null : {true, false}) {
    const auto form = wod_e2e_form({&*t, null ? std::optional(TokenId{151666}) : std::nullopt, 151936});
    ASSERT_TRUE(form) << form.error().message;
    expect_round_trips(*form, *t, 50);
  }
}

TEST(Values, IntegersAreIntegersInJson) {
  const auto text = [](double x) { return json::serialize(json_of(FieldValue(x))); };
  EXPECT_EQ(text(0), "0");
  EXPECT_EQ(text(-17), "-17");
  EXPECT_EQ(text(244442151449144), "244442151449144");
  EXPECT_EQ(parse_json(text(0.5), "half")->as_double(), 0.5);
  EXPECT_EQ(parse_json(text(1e300), "large")->as_double(), 1e300);
  EXPECT_TRUE(std::signbit(parse_json(text(-0.0), "zero")->to_number<double>()));
}

TEST(Values, AreRefusedByFieldWhereTheyDoNotFit) {
  const Tokenizer t = test::character_tokenizer();
  const CompiledForm form = toy(t, true);
  const auto why = [&](size_t f, FieldValue v) {
    const auto r = render_field(form, f, v, t);
    return r ? std::string("rendered") : r.error().message;
  };
  EXPECT_EQ(why(0, "perhaps"), "form toy: field o: expected one of \"yes\", \"no\", \"none\", got \"perhaps\"");
  EXPECT_EQ(why(1, "abcdefghijklm"), "form toy: field e: expected at most 12 tokens, got 13");
  EXPECT_THAT(why(1, "a\"b"), testing::HasSubstr("field e: expected text without quotes"));
  EXPECT_THAT(why(1, "a<|NULL|>"), testing::HasSubstr("field e: expected text without quotes"));
  EXPECT_EQ(why(2, 99.994), "rendered");
  EXPECT_THAT(why(2, 99.996), testing::HasSubstr("field p.0: expected a number that fits \"+00.00\""));
  EXPECT_THAT(why(2, std::nan("")), testing::HasSubstr("field p.0: expected a number"));
  EXPECT_THAT(why(4, -1.0), testing::HasSubstr("field k: expected a number"));
  EXPECT_EQ(why(0, 3.0), "form toy: field o: expected text, got a number");
}

TEST(Values, AnswersAreCheckedTokenByToken) {
  const Tokenizer t = test::character_tokenizer();
  const CompiledForm form = toy(t, true);
  const auto answer = render(form, std::vector<FieldValue>{"no", "a", 1.0, -2.0, 7.0}, t);
  ASSERT_TRUE(answer) << answer.error().message;
  auto cut = *answer;
  cut.pop_back();
  EXPECT_FALSE(parse(form, cut, t));
  auto longer = *answer;
  longer.push_back({5});
  EXPECT_FALSE(parse(form, longer, t));
  // Every single changed token is noticed, or changes a value.
  const auto values = *parse(form, *answer, t);
  for (size_t i = 0; i < answer->size(); ++i) {
    auto other = *answer;
    other[i].value = other[i].value == 20 ? 21 : 20;
    const auto parsed = parse(form, other, t);
    EXPECT_TRUE(!parsed || *parsed != values) << i;
  }
}

TEST(Values, DescribeShowsEveryField) {
  const Tokenizer t = test::character_tokenizer();
  const CompiledForm form = toy(t, true);
  const std::string text = describe(form.form, &t);
  for (const Field& f : form.form.fields()) EXPECT_THAT(text, testing::HasSubstr(f.name));
  EXPECT_EQ(describe_json(form.form, &t).at("fields").as_array().size(), 5u);
  EXPECT_EQ(describe_json(form.form).at("critical_path").as_int64(), 4 + 12 + 6 + 6 + 3);
}

}  // namespace
}  // namespace slip
