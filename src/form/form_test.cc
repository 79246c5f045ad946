// SPDX-License-Identifier: Apache-2.0
#include "form/form.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/json.h"
#include "base/philox.h"
#include "form/partition.h"
#include "form/schema/values.h"

namespace slip {
namespace {

using testing::HasSubstr;

std::vector<TokenId> ids(std::initializer_list<int> list) {
  std::vector<TokenId> out;
  for (const int i : list) out.push_back({i});
  return out;
}

/// F a F b F: two fields between fixed tokens.
Form::Parts two_fields() {
  Form::Parts p;
  p.name = "two";
  p.fields = {Field{.name = "a", .budget = 3}, Field{.name = "b", .budget = 2, .parents = {0}}};
  p.pieces = {FixedRun{ids({10, 11}), 0}, FieldRef{0}, FixedRun{ids({12}), 0}, FieldRef{1}, FixedRun{ids({13}), 0}};
  return p;
}

std::string message_of(Form::Parts p) {
  const auto form = Form::make(std::move(p));
  return form ? "made" : form.error().message;
}

TEST(Form, KnowsWhatStandsAtEveryPosition) {
  const auto form = Form::make(two_fields());
  ASSERT_TRUE(form) << form.error().message;
  EXPECT_EQ(form->length(), 9);
  EXPECT_EQ(form->fixed_tokens(), 4);
  EXPECT_EQ(form->fields()[0].start, 2);
  EXPECT_EQ(form->fields()[1].start, 6);
  EXPECT_EQ(form->fixed_at(5), TokenId{12});
  EXPECT_FALSE(form->fixed_at(6));
  EXPECT_EQ(form->field_at(4), 0);
  EXPECT_EQ(form->field_at(5), std::nullopt);
  EXPECT_EQ(form->block_at(8), 0);
  EXPECT_EQ(critical_path(*form), 5);
}

TEST(Form, RefusesWhatADecoderCouldNotDecode) {
  auto p = two_fields();
  p.fields[1].budget = 0;
  EXPECT_EQ(message_of(p), "form two: field b: expected a budget of at least 1, got 0");
  p = two_fields();
  p.fields[0].parents = {1};
  EXPECT_EQ(message_of(p), "form two: expected fields without cycles, got a <- b <- a");
  p = two_fields();
  p.fields[0].parents = {7};
  EXPECT_THAT(message_of(p), HasSubstr("field a: expected parents below 2, got 7"));
  p = two_fields();
  p.pieces.erase(p.pieces.begin() + 2);
  EXPECT_THAT(message_of(p), HasSubstr("field b: expected a fixed token directly before it"));
  p = two_fields();
  p.pieces.erase(p.pieces.begin());
  EXPECT_THAT(message_of(p), HasSubstr("field a: expected a fixed token directly before it"));
  p = two_fields();
  p.pieces[3].emplace<FieldRef>(FieldRef{0});
  EXPECT_THAT(message_of(p), HasSubstr("expected field 1 next"));
  p = two_fields();
  p.pieces.resize(3);
  EXPECT_THAT(message_of(p), HasSubstr("expected 2 fields in its pieces, got 1"));
  p = two_fields();
  p.fields[1].name = "a";
  EXPECT_THAT(message_of(p), HasSubstr("used twice"));
  p = two_fields();
  p.section_names = {"x", "y"};
  p.fields[0].section = 1;
  EXPECT_THAT(message_of(p), HasSubstr("expected sections in order"));
  p = two_fields();
  p.block_size = 0;
  EXPECT_THAT(message_of(p), HasSubstr("expected a block size of at least 1"));
  p = two_fields();
  p.blocks = {{0, 4}, {5, 9}};
  EXPECT_THAT(message_of(p), HasSubstr("expected a block that begins at 4"));
  p = two_fields();
  p.blocks = {{0, 4}, {4, 8}};
  EXPECT_THAT(message_of(p), HasSubstr("expected blocks up to 9, got 8"));
}

TEST(Form, RefusesRulesThatRunDry) {
  auto p = two_fields();
  // "5" alone is allowed, once; the field needs three tokens and has no end.
  p.fields[0].rules = TokenRules(std::vector<TokenRules::State>{{.edges = {{{5}, 1}}}, {}});
  EXPECT_EQ(message_of(p), "form two: field a: expected an allowed token at index 1, got none");
  p.fields[0].end = TokenId{12};
  EXPECT_EQ(message_of(p), "made");
  p.fields[0].rules = TokenRules::one_of(std::vector<std::vector<TokenId>>{ids({5, 6, 7, 8})}, std::nullopt, 4);
  EXPECT_EQ(message_of(p), "form two: field a: expected complete values within its budget of 3, got one that goes on");
}

/// F e F i F: an enumeration separated by 5, placeholder 7 8, and its second instance.
Form::Parts two_stages() {
  auto p = two_fields();
  const auto no_five = [] { return TokenRules(std::vector<TokenRules::State>{{.any = true, .denied = ids({5})}}); };
  p.fields[0] = Field{.name = "e", .budget = 3, .end = TokenId{12}, .separators = ids({5}), .placeholder = ids({7, 8})};
  p.fields[1] = Field{.name = "i",
                      .budget = 2,
                      .rules = no_five(),
                      .parents = {0},
                      .placeholder = ids({7, 8}),
                      .instance_of = Field::InstanceOf{0, 1}};
  return p;
}

TEST(Form, ChecksBothStagesOfInstances) {
  EXPECT_EQ(message_of(two_stages()), "made");
  auto p = two_stages();
  p.fields[1].placeholder.clear();
  EXPECT_EQ(message_of(p), "form two: field i: expected a placeholder for an unused instance, got none");
  p = two_stages();
  p.fields[1].placeholder = ids({7});
  EXPECT_EQ(message_of(p), "form two: field i: expected a placeholder of 2 tokens, got 1") << "a field without END is full";
  p = two_stages();
  p.fields[0].placeholder = ids({7, 8, 9, 9});
  EXPECT_EQ(message_of(p), "form two: field e: expected a placeholder of at most 3 tokens, got 4");
  p = two_stages();
  p.fields[1].placeholder = ids({7, 5});
  EXPECT_EQ(message_of(p), "form two: field i: expected a placeholder that its rules allow, got another");
  p = two_stages();
  p.fields[0].placeholder = ids({7, 12});
  EXPECT_EQ(message_of(p), "form two: field e: expected a placeholder without the field's end, got 12 at 1")
      << "it could not be read back";
  p = two_stages();
  p.fields[1].instance_of->instance = -1;
  EXPECT_EQ(message_of(p), "form two: field i: expected an instance of at least 0, got -1");
  for (const int32_t of : {-1, 1, 2}) {
    p = two_stages();
    p.fields[1].instance_of->field = of;
    EXPECT_EQ(
        message_of(p),
        fmt::format("form two: field i: expected to be an instance of an enumeration that stands before it, got field {}", of));
  }
  p = two_stages();
  p.fields[0].separators.clear();
  EXPECT_THAT(message_of(p), HasSubstr("field i: expected to be an instance of an enumeration"));
  p = two_stages();
  p.fields[0].separators = ids({6, 5});
  EXPECT_EQ(message_of(p), "form two: field e: expected separators of at least 0 in ascending order, got others");
  p = two_stages();
  p.fields[1].parents.clear();
  EXPECT_EQ(message_of(p), "form two: field i: expected its enumeration e among its ancestors, got a graph without that");
}

TEST(Form, CountsInstancesBySeparators) {
  const auto p = two_stages();
  EXPECT_EQ(instances_in(p.fields[0], {}), 0);
  EXPECT_EQ(instances_in(p.fields[0], ids({7, 8})), 0);
  EXPECT_EQ(instances_in(p.fields[0], ids({7})), 1);
  EXPECT_EQ(instances_in(p.fields[0], ids({1, 5, 5})), 3);
}

TEST(TokenRules, OneOfFollowsTheWordsAndPadsThem) {
  const TokenId null{2};
  const auto rules = TokenRules::one_of(std::vector<std::vector<TokenId>>{ids({5}), ids({5, 6, 7}), ids({8, 9})}, null, 3);
  EXPECT_TRUE(rules.state_after(ids({5, 2, 2})));
  EXPECT_TRUE(rules.state_after(ids({5, 6, 7})));
  EXPECT_TRUE(rules.state_after(ids({8, 9, 2})));
  EXPECT_FALSE(rules.state_after(ids({8, 2}))) << "no padding inside a word";
  EXPECT_FALSE(rules.state_after(ids({5, 2, 6}))) << "once NULL only NULL follows";
  EXPECT_FALSE(rules.state_after(ids({6})));
  EXPECT_TRUE(rules.state(*rules.state_after(ids({5}))).may_end);
  EXPECT_FALSE(rules.state(*rules.state_after(ids({5, 6}))).may_end);
}

TEST(TokenRules, AnyMeansAnyButTheDenied) {
  const TokenRules rules(
      std::vector<TokenRules::State>{{.any = true, .edges = {{{2}, 1}}, .denied = ids({3, 4})}, {.edges = {{{2}, 1}}}});
  EXPECT_TRUE(rules.state_after(ids({100, 0, 2, 2})));
  EXPECT_FALSE(rules.state_after(ids({100, 3})));
  EXPECT_FALSE(rules.state_after(ids({2, 100})));
  EXPECT_TRUE(TokenRules().unrestricted());
  EXPECT_EQ(TokenRules().state_after(ids({3})), 0);
  EXPECT_EQ(TokenRules::only(ids({4, 3, 3})).state(0).edges.size(), 2u);
}

TEST(Partition, EqualsFastDDrives) {
  const auto file = read_json(std::string(SLIP_FIXTURES) + "/decode/partition.json");
  ASSERT_TRUE(file) << file.error().message;
  size_t cases = 0;
  for (const auto& v : file->at("cases").as_array()) {
    std::vector<uint8_t> values;
    std::vector<int32_t> expected;
    std::vector<SectionRange> sections;
    for (const auto& x : v.at("values").as_array()) values.push_back(static_cast<uint8_t>(x.as_int64()));
    for (const auto& x : v.at("block_ids").as_array()) expected.push_back(static_cast<int32_t>(x.as_int64()));
    for (const auto& x : v.at("sections").as_array())
      sections.push_back({static_cast<int32_t>(x.at(0).as_int64()), static_cast<int32_t>(x.at(1).as_int64())});
    const auto found = partition_ids(values, sections, static_cast<int32_t>(v.at("block_size").as_int64()));
    EXPECT_EQ(found, expected) << v.at("name");
    const auto blocks = blocks_of_ids(found);
    if (v.as_object().contains("blocks")) {
      const auto& list = v.at("blocks").as_array();
      ASSERT_EQ(blocks.size(), list.size());
      for (size_t b = 0; b < blocks.size(); ++b) {
        EXPECT_EQ(blocks[b].begin, list[b].at(0).as_int64());
        EXPECT_EQ(blocks[b].end, list[b].at(1).as_int64());
      }
    }
    ++cases;
  }
  EXPECT_GT(cases, 20u);
}

TEST(Partition, CoversEveryFormWithoutHoles) {
  PhiloxStream random(7, 1);
  for (int trial = 0; trial < 500; ++trial) {
    Form::Parts p;
    p.name = "random";
    p.block_size = 1 + static_cast<int32_t>(random.below(9));
    const auto fields = static_cast<int32_t>(random.below(6));
    int32_t section = 0;
    const auto fixed = [&] {
      std::vector<TokenId> run(1 + random.below(12), TokenId{5});
      p.pieces.emplace_back(std::in_place_type<FixedRun>, std::move(run), section);
    };
    for (int32_t f = 0; f < fields; ++f) {
      fixed();
      p.fields.push_back(
          Field{.name = std::to_string(f), .budget = 1 + static_cast<int32_t>(random.below(20)), .section = section});
      p.pieces.emplace_back(FieldRef{f});
      section += static_cast<int32_t>(random.below(3));
    }
    fixed();
    for (int32_t s = 0; s <= section; ++s) p.section_names.push_back(std::to_string(s));
    const auto form = Form::make(std::move(p));
    ASSERT_TRUE(form) << form.error().message;
    int32_t at = 0;
    for (const Block& b : form->blocks()) {
      ASSERT_EQ(b.begin, at);
      ASSERT_LT(b.begin, b.end);
      int32_t values = 0;
      for (int32_t u = b.begin; u < b.end; ++u) values += form->fixed_at(u) ? 0 : 1;
      ASSERT_LE(values, form->parts().block_size);
      at = b.end;
    }
    ASSERT_EQ(at, form->length());
  }
}

}  // namespace
}  // namespace slip
