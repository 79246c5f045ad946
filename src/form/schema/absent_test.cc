// SPDX-License-Identifier: Apache-2.0
// Two stages whose unused instances are absent (x-unused): no line, no value, no placeholder.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/must_testing.h"
#include "form/form_testing.h"
#include "form/schema/outline.h"
#include "form/schema/values.h"

namespace slip {
namespace {

using testing::HasSubstr;

/// Single bytes, and the demo model's.
std::vector<Tokenizer> tokenizers() {
  std::vector<Tokenizer> out;
  out.push_back(test::character_tokenizer());
  out.push_back(must(Tokenizer::load(std::filesystem::path(SLIP_SOURCE_DIR) / "models/demo")));
  return out;
}

std::string instance(int number) {
  return R"(, "x-parents": ["e"], "x-instance-of": "e", "x-instance": )" + std::to_string(number);
}

/// e names at most three of x (a word and a text), y and z; s depends on what z and x say.
std::string members(const std::string& unused = "absent") {
  const std::string text = R"({"type": "string", "x-budget": 12)";
  return R"("e": {"type": "string", "x-budget": 24, "x-parents": [], "x-instances": 3, "x-unused": ")" + unused +
         R"("}, "x": {"type": "object")" + instance(0) + R"(, "properties": {"t": {"enum": ["car", "truck"]}, "j": )" + text +
         R"(, "x-parents": ["x.t"]}}}, "y": )" + text + instance(1) + R"(}, "z": {"enum": ["yes", "no"])" + instance(2) +
         R"(}, "s": )" + text + R"(, "x-parents": ["x", "z"]})";
}

json::value schema_of(const std::string& members, const std::string& layout = "lines") {
  return must(parse_json(R"({"type": "object", "x-layout": ")" + layout + R"(", "properties": {)" + members + "}}", "test"));
}

Result<CompiledForm> compiled(const std::string& members, const Tokenizer& t, const std::string& layout = "lines") {
  return compile_schema(schema_of(members, layout), "f", {&t, test::kNull, t.size() + 7});
}

TEST(AbsentInstances, TakeTheTextBeforeThemAlongAndNeedNoPlaceholder) {
  for (const Tokenizer& t : tokenizers()) {
    const CompiledForm form = must(compiled(members(), t));
    const auto fields = form.form.fields();
    for (size_t f = 0; f < fields.size(); ++f) {
      EXPECT_EQ(form.form.may_be_absent(static_cast<int32_t>(f)), f > 0 && f < 5) << f;
      EXPECT_EQ(fields[f].placeholder.empty(), f > 0) << f;
      std::vector<TokenId> before;
      for (int32_t u = fields[f].start - fields[f].hand_off; u < fields[f].start; ++u) before.push_back(*form.form.fixed_at(u));
      const char* const lines[] = {":", "\nx t:", "\nx j:", "\ny:", "\nz:", ":"};
      EXPECT_EQ(t.decode(before), lines[f]);
    }
    EXPECT_EQ(std::get<ChoiceMeaning>(form.meanings[1]).words, (std::vector<std::string>{"car", "truck"}));
    EXPECT_THAT(describe(form.form, &t), HasSubstr("instance 1 of e, absent where not named"));
    EXPECT_EQ(must(compiled(members("placeholder"), t)).form.fields()[3].hand_off, 1);
  }
  EXPECT_THAT(must(outline(schema_of(members()), "f")), HasSubstr("instance 1 of e, absent where not named"));
}

TEST(AbsentInstances, AnswersRoundTripWithAnyNumberOfThem) {
  for (const Tokenizer& t : tokenizers()) {
    const CompiledForm form = must(compiled(members(), t));
    for (int32_t n = 0; n < 4; ++n) {
      const std::string named[] = {"N/A", "ab", "ab; c", "ab; c; m n"};
      const std::vector<FieldValue> full{named[n], "car", "a b", "cc", "no", "m"};
      std::vector<FieldValue> values = full;
      for (size_t f = 1; f < 5; ++f)
        if (form.form.fields()[f].instance_of->instance >= n) values[f] = NoValue{};
      const auto answer = must(render(form, values, t));
      const std::string text = answer_text(form, answer, t), lines[] = {"", "\nx t: car\nx j: a b", "\ny: cc", "\nz: no"};
      EXPECT_EQ(text, "e: " + named[n] + lines[n > 0 ? 1 : 0] + lines[n > 1 ? 2 : 0] + lines[n > 2 ? 3 : 0] + "\ns: m\n");
      EXPECT_EQ(must(parse(form, answer, t)), values);
      const auto contents = must(split_answer(form.form, answer));
      EXPECT_EQ(must(split_text(form, text, t)), contents);
      const json::object shown = values_to_json(form.form, values);
      const size_t members[] = {2, 4, 5, 6};
      EXPECT_EQ(shown.size(), members[n]);
      EXPECT_EQ(must(values_from_json(form.form, shown)), values);
      EXPECT_EQ(tokens_before(form.form, contents, form.form.length()), static_cast<int32_t>(answer.size()));
      // What is not named may not be said, and what is named may not be left out.
      const auto otherwise = [&](int32_t said) {
        std::string other = text;
        return split_text(form, other.replace(0, 3 + named[n].size(), "e: " + named[said]), t);
      };
      for (int32_t other = 0; other < 4; ++other) EXPECT_EQ(otherwise(other).has_value(), other == n) << n << " " << other;
      if (n < 3) {
        EXPECT_THAT(render(form, full, t).error().message, HasSubstr("expected nothing of an unused instance"));
      }
      values[1] = NoValue{};
      if (n > 0) {
        EXPECT_THAT(render(form, values, t).error().message, HasSubstr("expected text, got nothing"));
      }
    }
  }
}

TEST(AbsentInstances, AreRefusedWhereNoLineCanBeLeftOut) {
  const Tokenizer t = test::character_tokenizer();
  const auto error = [&](const std::string& members, const std::string& layout = "lines") {
    return compiled(members, t, layout).error().message;
  };
  const std::string own = R"("type": "string", "x-budget": 24, "x-unused": "absent")";
  const std::string e = R"("e": {"x-parents": [], "x-instances": 3, )" + own + "}, ";
  EXPECT_THAT(error(members(), "json"), HasSubstr("expected x-layout lines beside x-unused 'absent'"));
  EXPECT_THAT(error(members("gone")), HasSubstr("expected an x-unused of 'placeholder' or 'absent', got 'gone'"));
  EXPECT_THAT(error(R"("e": {)" + own + "}"), HasSubstr("expected x-unused beside x-instances"));
  EXPECT_THAT(error(R"("e": {"x-instances": 1, )" + own + "}"), HasSubstr("expected x-parents beside x-unused 'absent'"));
  EXPECT_THAT(error(e + R"("c": {"const": "of all"}, "y": {"enum": ["a"])" + instance(0) + "}"),
              HasSubstr("on a line of its own, directly behind another field's, got it behind \"\\nc: of all\\ny:\""));
  EXPECT_THAT(error(e + R"("y": {"const": "of one")" + instance(0) + "}"), HasSubstr("that may be absent, got a constant"));
}

}  // namespace
}  // namespace slip
