// SPDX-License-Identifier: Apache-2.0
// Forms that anybody may send: what a forecast looks at of them is bounded, and passes of others go between its own.
#include <gtest/gtest.h>

#include "base/pause.h"
#include "forecast/forecast.h"
#include "form/schema/values.h"

namespace slip {
namespace {

constexpr TokenId kEnd{3}, kNone{9}, kSeparator{4};

/// `values` of one to three tokens, of which the first tells them apart.
TokenRules words(int32_t values, int32_t budget = 3, std::vector<std::vector<TokenId>> more = {}) {
  for (int32_t i = 0; i < values; ++i) {
    more.push_back({{100 + i}});
    for (int32_t k = 0; k < i % 3; ++k) more.back().push_back({200'000 + 3 * i + k});
  }
  return TokenRules::one_of(more, std::nullopt, budget);
}

Form form_of(std::vector<Field> fields) {
  Form::Parts p{.name = "large", .section_names = {"all"}};
  for (size_t f = 0; f < fields.size(); ++f) {
    p.pieces.emplace_back(FixedRun{{kEnd}, 0});
    p.pieces.emplace_back(FieldRef{static_cast<int32_t>(f)});
  }
  p.pieces.emplace_back(FixedRun{{kEnd}, 0});
  p.fields = std::move(fields);
  return *Form::make(std::move(p));
}

Form fields_of_words(int32_t fields, int32_t values) {
  return form_of(std::vector<Field>(static_cast<size_t>(fields), Field{.budget = 3, .end = kEnd, .rules = words(values)}));
}

size_t edges(const Form& form) {
  size_t out = 0;
  for (const Field& f : form.fields())
    for (const auto& s : f.rules.states()) out += s.edges.size();
  return out;
}

TEST(LargeForms, SomeValuesStandForAll) {
  for (const Form& form : {fields_of_words(1, 20'000), fields_of_words(200, 200)}) {
    const auto small = compact(form), again = compact(form);
    ASSERT_TRUE(small && again);
    EXPECT_LE(edges(small->form), 16'384U) << "of " << edges(form);
    EXPECT_LE(small->vocab, 16'384);
    EXPECT_EQ(small->form.length(), form.length());
    EXPECT_GE(small->form.fields()[0].rules.state(0).edges.size(), 16U) << "ways on, by which rollouts part";
    std::vector<size_t> sizes(4, 0);
    for (uint64_t n = 0; n < 10; ++n) {
      PhiloxStream r(n, 1), same(n, 1);
      Lengths lengths(std::vector<int32_t>(form.fields().size(), 3));
      lengths.add(0, static_cast<int32_t>(1 + n % 3));
      const TokenId mask{small->vocab - 1};
      const Contents c = typical_contents(small->form, lengths, Survival(), small->vocab, mask, r);
      EXPECT_EQ(c, typical_contents(again->form, lengths, Survival(), small->vocab, mask, same));
      EXPECT_TRUE(split_answer(small->form, assemble(small->form, c))) << n;
      ++sizes[c[0].size()];
    }
    for (size_t n = 1; n <= 3; ++n) EXPECT_GT(sizes[n], 0U) << "values of " << n << " tokens are among them";
  }
}

TEST(LargeForms, SmallOnesAreTakenWhole) {
  const Form form = fields_of_words(4, 500);
  const auto small = compact(form);
  ASSERT_TRUE(small);
  EXPECT_EQ(edges(small->form), edges(form));
}

/// What a form says where there is nothing stays a value of it.
TEST(LargeForms, PlaceholdersStayAmongTheValues) {
  const std::vector<TokenId> none{{150'000}, {kNone}};
  Field lists{.budget = 3, .end = kEnd, .rules = words(20'000, 3, {none, {{101}, kSeparator, {102}}})};
  lists.separators = {kSeparator};
  lists.placeholder = none;
  Field says{.budget = 3, .end = kEnd, .rules = words(20'000, 3, {none}), .parents = {0}};
  says.placeholder = none;
  says.instance_of = Field::InstanceOf{0, 1};
  const auto small = compact(form_of({lists, says}));
  ASSERT_TRUE(small) << small.error().message;
  for (const Field& f : small->form.fields()) {
    EXPECT_FALSE(f.rules.unrestricted());
    EXPECT_TRUE(f.rules.state_after(f.placeholder));
  }
}

TEST(LargeForms, ValuesOfThousandsOfTokensGoAsText) {
  std::vector<std::vector<TokenId>> values(2, std::vector<TokenId>(3000, TokenId{10}));
  values[1][0] = TokenId{11};
  const auto small =
      compact(form_of({Field{.budget = 3000, .end = kEnd, .rules = TokenRules::one_of(values, std::nullopt, 3000)}}));
  ASSERT_TRUE(small);
  EXPECT_TRUE(small->form.fields()[0].rules.unrestricted());
  EXPECT_TRUE(small->form.fields()[0].end) << "it may end anywhere";
}

TEST(LargeForms, OneAnswerOfThousandsOfDrawsIsEnough) {
  const auto answers = [](int32_t budget, int32_t rollouts) {
    const Form form = form_of({Field{.budget = budget, .end = kEnd}});
    return answers_of({.form = &form, .rollouts = rollouts});
  };
  EXPECT_EQ(answers(2500, 1), 1);
  EXPECT_EQ(answers(500, 1), 4);
  EXPECT_EQ(answers(500, 16), 3);
  EXPECT_EQ(answers(3, 1), 64);
}

struct Counts final : Pausable {
  Counts() { pausable_at_work() = this; }
  ~Counts() override { pausable_at_work() = nullptr; }
  Status at_pause_point() override {
    ++pauses;
    return {};
  }
  int64_t pauses = 0;
};

TEST(LargeForms, OthersGoFirstBeforeEveryPassOfAForecast) {
  const Form form = fields_of_words(20, 50);
  DraftLengthModel model = DraftLengthModel::uninformed(*CostTable::make({1, 128}, {1, 2}, "test"), &form);
  ForecastSettings s{.form = &form, .prompt_rows = 10, .model = &model, .answers = 2};
  s.info.slots = 4096;
  s.info.vocab = 64;
  Counts counts;
  const auto plain = forecast(*method_of("scaffold-ar"), s);
  ASSERT_TRUE(plain) << plain.error().message;
  EXPECT_GT(plain->forwards, 10);
  EXPECT_GE(static_cast<double>(counts.pauses), 2 * plain->forwards);
}

}  // namespace
}  // namespace slip
