// SPDX-License-Identifier: Apache-2.0
// Forms of ids: OpenVLA's bins with the values that its code decodes, Alpamayo's sections.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/philox.h"
#include "form/builtin/builtin.h"
#include "form/form_testing.h"
#include "form/schema/values.h"

namespace slip {
namespace {

using testing::HasSubstr;

/// Bytes, then these as added tokens.
Tokenizer with_added(const std::vector<std::string>& added) {
  const test::TemporaryFolder folder;
  test::write_byte_vocabulary(folder.path);
  json::object list;
  for (size_t i = 0; i < added.size(); ++i)
    list[std::to_string(256 + i)] = json::object{{"content", added[i]}, {"lstrip", false},      {"normalized", false},
                                                 {"rstrip", false},     {"single_word", false}, {"special", true}};
  std::ofstream(folder.path / "tokenizer_config.json")
      << json::serialize(json::object{{"tokenizer_class", "Qwen2Tokenizer"}, {"added_tokens_decoder", list}});
  return test::load_tokenizer(folder.path);
}

std::vector<std::string> numbered(const char* pattern, int n) {
  std::vector<std::string> out;
  for (int i = 0; i < n; ++i) out.push_back(fmt::format(fmt::runtime(pattern), i));
  return out;
}

Tokenizer mini_vla() { return with_added(numbered("<|extra_{}|>", 256)); }

Tokenizer alpamayo() {
  auto added = numbered("<i{}>", 768);
  for (const char* s : {"<|cot_start|>", "<|cot_end|>", "<|meta_action_start|>", "<|meta_action_end|>", "<|traj_future_start|>",
                        "<|traj_future_end|>"})
    added.emplace_back(s);
  return with_added(added);
}

// Expected numbers: openvla's ActionTokenizer with numpy.
TEST(Bins, DecodeAsOpenVlasActionTokenizer) {
  const BinsMeaning m{.first = {31744}, .last = {31999}, .count = 7, .number = true, .descending = true, .low = -1, .high = 1};
  const auto id = [&](double x) { return m.id_of(m.bin_holding(x)).value; };
  const auto value = [&](int32_t i) { return m.value_of(m.bin_of({i})); };
  EXPECT_EQ(id(-1), 31999);
  EXPECT_EQ(id(0), 31872);
  EXPECT_EQ(id(0.5), 31808);
  EXPECT_EQ(id(1), 31744);
  EXPECT_EQ(id(7), 31744);
  EXPECT_EQ(id(-7), 31999);
  EXPECT_DOUBLE_EQ(value(31999), -0.996078431372549);
  EXPECT_NEAR(value(31872), 0, 1e-15);
  EXPECT_DOUBLE_EQ(value(31808), 0.5019607843137255);
  EXPECT_DOUBLE_EQ(value(31744), 0.996078431372549);
  EXPECT_EQ(value(31744), value(31745));
  for (int32_t i = 31745; i <= 31999; ++i) {
    ASSERT_EQ(id(value(i)), i);
    ASSERT_GT(value(i - 1), value(i) - (i == 31745 ? 1e-9 : 0));
  }
}

TEST(OpenVlaAction, IsSevenIdsOfTheRange) {
  const Tokenizer t = mini_vla();
  const auto form = openvla_action_form({&t, std::nullopt, t.size()}, {.extra_tokens = true});
  ASSERT_TRUE(form) << form.error().message;
  ASSERT_EQ(form->form.fields().size(), 1u);
  const Field& f = form->form.fields()[0];
  EXPECT_EQ(f.name, "action");
  EXPECT_EQ(f.budget, 7);
  EXPECT_FALSE(f.end);
  EXPECT_EQ(form->form.length(), 8);
  EXPECT_EQ(form->form.fixed_at(0), t.find("\u010a"));
  EXPECT_EQ(f.rules.state(0).edges.size(), 256u);
  EXPECT_EQ(f.rules.next(0, *t.find("<|extra_0|>")), 0);
  EXPECT_FALSE(f.rules.next(0, {65}));
  PhiloxStream random(2, 2);
  for (int trial = 0; trial < 300; ++trial) {
    std::vector<TokenId> answer{*form->form.fixed_at(0)};
    for (int i = 0; i < 7; ++i) answer.push_back({257 + static_cast<int32_t>(random.below(255))});  // 256 says the same as 257
    const auto values = parse(*form, answer, t);
    ASSERT_TRUE(values) << values.error().message;
    ASSERT_EQ(std::get<std::vector<double>>((*values)[0]).size(), 7u);
    ASSERT_EQ(*render(*form, *values, t), answer);
    ASSERT_EQ(*values_from_json(form->form, values_to_json(form->form, *values)), *values);
  }
  const auto why = [&](FieldValue v) {
    const auto r = render_field(*form, 0, v, t);
    return r ? std::string("rendered") : r.error().message;
  };
  EXPECT_EQ(why(std::vector<double>(7, 1.0)), "rendered");
  EXPECT_EQ(why(std::vector<double>(6, 0.0)), "form minivla-action: field action: expected 7 numbers, got 6");
  EXPECT_EQ(why(std::vector<double>(7, 1.5)), "form minivla-action: field action: expected numbers of -1 to 1, got 1.5");
  EXPECT_EQ(why("left"), "form minivla-action: field action: expected a list of numbers, got text");
}

TEST(OpenVlaAction, IsTheLast256IdsOfLlamasVocabulary) {
  const auto file = std::filesystem::path(SLIP_SHARED_DATA) / "tokenizers" / "llama2_style_tokenizer.json";
  if (!std::filesystem::exists(file)) GTEST_SKIP() << "no Llama vocabulary here";
  const test::TemporaryFolder folder;
  std::filesystem::copy_file(file, folder.path / "tokenizer.json");
  const Tokenizer t = test::load_tokenizer(folder.path);
  const auto form = openvla_action_form({&t, std::nullopt, 32064});
  ASSERT_TRUE(form) << form.error().message;
  EXPECT_EQ(form->form.fixed_at(0), TokenId{29871});
  const auto& edges = form->form.fields()[0].rules.state(0).edges;
  EXPECT_EQ(edges.front().id, TokenId{31744});
  EXPECT_EQ(edges.back().id, TokenId{31999});
  EXPECT_EQ(edges.size(), 256u);
  EXPECT_EQ((*render(*form, std::vector<FieldValue>{std::vector<double>{-1, 0, 0.5, 1, 0, 0, 0}}, t))[3], TokenId{31808});
}

TEST(AlpamayoCoc, IsSectionsBetweenSpecialTokens) {
  const Tokenizer t = alpamayo();
  const auto form = alpamayo_coc_form({&t, std::nullopt, t.size() + 8}, {.cot_budget = 128});
  ASSERT_TRUE(form) << form.error().message;
  const auto fields = form->form.fields();
  ASSERT_EQ(fields.size(), 4u);
  EXPECT_EQ(fields[0].end, t.find("<|cot_end|>"));
  EXPECT_EQ(fields[1].parents, std::vector<int32_t>{0});
  EXPECT_EQ(fields[2].parents, std::vector<int32_t>{0});
  EXPECT_EQ(fields[3].parents, (std::vector<int32_t>{1, 2}));
  EXPECT_EQ(fields[3].budget, 128);
  EXPECT_EQ(fields[3].rules.state(0).edges.size(), 768u);
  EXPECT_FALSE(fields[0].rules.next(0, *t.find("<i5>"))) << "no trajectory ids in the reasoning";
  std::vector<double> ids;
  for (int i = 0; i < 128; ++i) ids.push_back(i * 6);
  const std::vector<FieldValue> values{"Keep distance to the lead vehicle because it is slowing to turn left ahead.", "yield",
                                       "lane keeping & centering", ids};
  const auto answer = render(*form, values, t);
  ASSERT_TRUE(answer) << answer.error().message;
  EXPECT_THAT(answer_text(*form, *answer, t),
              HasSubstr("<|cot_start|>Keep distance to the lead vehicle because it is slowing to turn left ahead.<|cot_end|>"
                        "<|meta_action_start|>yield, lane keeping & centering<|meta_action_end|><|traj_future_start|><i0><i6>"));
  EXPECT_EQ(*parse(*form, *answer, t), values);
  EXPECT_EQ(*t.encode(t.decode(*answer)), *answer) << "canonical";
  ids[5] = 0.5;
  EXPECT_EQ(render_field(*form, 3, ids, t).error().message,
            "form alpamayo-coc: field trajectory: expected integers of 0 to 767, got 0.5");
}

TEST(IdForms, AreRefusedByTheTokenThatAVocabularyLacks) {
  const Tokenizer bytes = test::character_tokenizer(), mini = mini_vla();
  const auto why = [](const json::value& schema, const Tokenizer& t) {
    const auto form = compile_schema(schema, "f", {&t, std::nullopt, t.size()});
    EXPECT_TRUE(form || form.error().kind == ErrorKind::kBadInput || form.error().kind == ErrorKind::kUnsupported);
    return form ? std::string("compiled") : form.error().message;
  };
  EXPECT_EQ(why(openvla_action_schema(), bytes), "form f: expected a tokenizer with the token \"\u2581\", got one without");
  EXPECT_EQ(why(openvla_action_schema({.extra_tokens = true}), bytes),
            "form f: $.properties.action: expected a tokenizer with the token \"<|extra_0|>\", got one without");
  EXPECT_EQ(why(alpamayo_coc_schema(), mini), "form f: expected a tokenizer with the token \"<|cot_start|>\", got one without");
  EXPECT_EQ(why(alpamayo_coc_schema({.trajectory_vocab = 4000}), alpamayo()),
            "form f: $.properties.trajectory: expected a tokenizer with the token \"<i3999>\", got one without");
  const auto one = [&](const std::string& leaf, const std::string& layout = "tokens") {
    return why(*parse_json(
                   R"({"type": "object", "x-layout": ")" + layout + R"(", "properties": {"a": {"x-before": ["A"], )" + leaf + "}}}",
                   "test"),
               mini);
  };
  EXPECT_EQ(one(R"("type": "integer", "x-bins": {"first": "a", "last": "z", "count": 26})"), "compiled");
  EXPECT_EQ(one(R"("type": "integer", "x-bins": {"first": "a", "last": "z", "count": 25})"),
            "form f: $.properties.a: expected 25 ids (at least 2) from \"a\" to \"z\", got 26");
  EXPECT_THAT(one(R"("type": "integer", "x-bins": {"first": "z", "last": "a", "count": 26})"), HasSubstr("got -24"));
  EXPECT_THAT(one(R"("type": "number", "x-bins": {"first": "a", "last": "z", "count": 26})"),
              HasSubstr("$.properties.a.x-bins: key \"low\": expected a number"));
  EXPECT_THAT(one(R"("type": "number", "x-bins": {"first": "a", "last": "z", "count": 26, "low": 1, "high": 1})"),
              HasSubstr("expected low below high, got 1 and 1"));
  EXPECT_THAT(one(R"("type": "integer", "x-bins": {"first": "a", "last": "z", "count": 26, "step": 1})"), HasSubstr("got 'step'"));
  EXPECT_THAT(one(R"("type": "number", "x-format": "0")"), HasSubstr("expected x-bins in a layout of tokens"));
  EXPECT_THAT(one(R"("const": 1)"), HasSubstr("expected x-before instead of const"));
  EXPECT_THAT(one(R"("type": "string", "x-budget": 3)"), HasSubstr("expected fixed text after a value of varying length"));
  EXPECT_THAT(one(R"("type": "integer", "x-bins": {"first": "a", "last": "z", "count": 26})", "lines"),
              HasSubstr("layout of tokens"));
  EXPECT_THAT(why(*parse_json(R"({"type": "object", "x-layout": "tokens", "properties": {"a": {"type": "integer",
                   "x-bins": {"first": "a", "last": "z", "count": 26}}}})",
                              "test"),
                  mini),
              HasSubstr("field a: expected a fixed token directly before it"));
}

TEST(Builtins, AllHaveASchemaAndAName) {
  for (const std::string_view name : builtin_forms()) {
    const auto schema = builtin_schema(name);
    ASSERT_TRUE(schema) << name;
    EXPECT_EQ(std::string_view(schema->at("title").as_string()), name);
  }
  EXPECT_FALSE(builtin_schema("nothing"));
}

}  // namespace
}  // namespace slip
