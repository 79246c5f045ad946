// SPDX-License-Identifier: Apache-2.0
// Rules about which members there are: a form writes exactly the sets of members that a validator accepts.
#include "form/schema/typed/presence.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

#include "form/form_testing.h"
#include "form/schema/typed/open_form.h"
#include "form/schema/typed/open_form_testing.h"

namespace slip {
namespace {

using testing::HasSubstr;

constexpr std::array kNames = {"a", "b", "c", "d"};

std::string random_names(PhiloxStream& r) {
  std::string out;
  for (const char* n : kNames)
    if (r.uniform() < 0.4) out += fmt::format("{}\"{}\"", out.empty() ? "" : ", ", n);
  return "[" + out + "]";
}

/// A schema that speaks of members alone, up to two levels deep.
std::string random_rule(PhiloxStream& r, int depth) {
  const auto pick = static_cast<int>(r.uniform() * (depth > 0 ? 10 : 5));
  const auto inner = [&] { return random_rule(r, depth - 1); };
  const auto list = [&](const char* word) {
    std::string out = inner();
    for (int i = 0; i < 2; ++i)
      if (r.uniform() < 0.7) out += ", " + inner();
    return fmt::format(R"({{"{}": [{}]}})", word, out);
  };
  switch (pick) {
    case 0:
    case 1:
      return fmt::format(R"({{"required": {}}})", random_names(r));
    case 2:
      return fmt::format(R"({{"minProperties": {}}})", static_cast<int>(r.uniform() * 3));
    case 3:
      return fmt::format(R"({{"maxProperties": {}}})", 1 + static_cast<int>(r.uniform() * 3));
    case 4:
      return fmt::format(R"({{"properties": {{"{}": false}}}})", kNames.at(static_cast<size_t>(r.uniform() * 4)));
    case 5:
      return list("anyOf");
    case 6:
      return list("oneOf");
    case 7:
      return fmt::format(R"({{"not": {}}})", inner());
    case 8:
      return fmt::format(R"({{"if": {}, "then": {}, "else": {}}})", inner(), inner(), inner());
    default:
      break;
  }
  return fmt::format(R"({{"dependencies": {{"a": {}, "{}": {}}}}})", random_names(r),
                     kNames.at(static_cast<size_t>(1 + r.uniform() * 3)), random_names(r));
}

/// The sets of members, as "ac", that a validator accepts.
std::set<std::string> accepted(const json::value& schema) {
  std::set<std::string> out;
  for (unsigned bits = 0; bits < 16; ++bits) {
    json::object answer;
    std::string name;
    for (size_t i = 0; i < kNames.size(); ++i)
      if ((bits >> i & 1U) != 0) answer[kNames.at(i)] = i % 2 == 0 ? json::value(true) : json::value(nullptr), name += kNames.at(i);
    int gave_up = 0;
    if (test::why_invalid(schema, answer, &gave_up).empty()) out.insert(name);
  }
  return out;
}

/// The sets of members of answers at random: of 300, or until all that are expected were seen.
std::set<std::string> written(const CompiledForm& form, const Tokenizer& t, uint64_t seed, size_t expected) {
  std::set<std::string> out;
  PhiloxStream r(seed, 5);
  for (int i = 0; i < 20000 && (i < 300 || out.size() < expected); ++i) {
    const auto document = parse_json(answer_text(form, test::random_answer(form.form, r), t), "answer");
    std::string name;
    for (const auto& m : document->as_object()) name += m.key();
    out.insert(name);
  }
  return out;
}

TEST(Presence, FormsWriteTheSetsThatAValidatorAccepts) {
  const Tokenizer t = test::character_tokenizer();
  int compiled = 0, nothing = 0;
  for (uint64_t n = 0; n < 250; ++n) {
    PhiloxStream r(n, 4);
    const std::string text = fmt::format(
        R"({{"type": "object", "properties": {{"a": {{"type": "boolean"}}, "b": {{"type": "null"}}, "c": {{"type": "boolean"}}, "d": {{"type": "null"}}}},
            "required": [], "additionalProperties": false, "allOf": [{}, {}]}})",
        random_rule(r, 2), random_rule(r, 1));
    const auto schema = parse_json(text, "test");
    ASSERT_TRUE(schema) << schema.error().message << text;
    const std::set<std::string> expected = accepted(*schema);
    const auto form = compile_schema(*schema, "f", {&t, std::nullopt, t.size()});
    if (expected.empty()) {
      ++nothing;
      ASSERT_FALSE(form) << text;
      EXPECT_EQ(form.error().kind, ErrorKind::kBadInput) << form.error().message << "\n" << text;
      continue;
    }
    ASSERT_TRUE(form) << form.error().message << "\n" << text;
    ++compiled;
    ASSERT_EQ(written(*form, t, n, expected.size()), expected) << text;
  }
  EXPECT_GT(compiled, 150);
  EXPECT_GT(nothing, 5);
}

std::string message_of(std::string_view text) {
  const Tokenizer t = test::character_tokenizer();
  const auto form = compile_schema(*parse_json(text, "test"), "f", {&t, std::nullopt, t.size()});
  return form ? "" : form.error().message;
}

TEST(Presence, SaysWhatCannotBeHeld) {
  const std::string two = R"({"type": "object", "properties": {"a": {"type": "integer"}, "b": {"type": "string"}}, )";
  EXPECT_EQ(message_of(two + R"("anyOf": [{"required": ["a"]}, {"required": ["b"]}]})"), "");
  EXPECT_EQ(message_of(two + R"("not": {"required": ["x"]}})"), "") << "a member that is never written";
  EXPECT_THAT(message_of(two + R"("anyOf": [{"required": ["a"]}, {"required": ["x"]}]})"),
              HasSubstr("#/anyOf: expected names of properties, got 'x'"));
  EXPECT_THAT(message_of(two + R"("required": ["a"], "not": {"required": ["a"]}})"), HasSubstr("no set of members"));
  EXPECT_THAT(message_of(R"({"type": "object", "anyOf": [{"required": ["a"]}, {"required": ["b"]}]})"),
              HasSubstr("#/anyOf: expected rules about members that properties names"));
  std::string many = R"({"type": "object", "maxProperties": 150, "properties": {)";
  for (int i = 0; i < 300; ++i) many += fmt::format(R"({}"m{}": {{"type": "null"}})", i > 0 ? ", " : "", i);
  EXPECT_THAT(message_of(many + "}}"), HasSubstr("expected at most 256 members"));
  std::string pairs = R"({"type": "object", "required": [], "properties": {)",
              rules;  // of m and m + 30 exactly one: 2^30 states between
  for (int i = 0; i < 60; ++i) pairs += fmt::format(R"({}"m{}": {{"type": "null"}})", i > 0 ? ", " : "", i);
  for (int i = 0; i < 30; ++i)
    rules += fmt::format(R"({}{{"oneOf": [{{"required": ["m{}"]}}, {{"required": ["m{}"]}}]}})", i > 0 ? ", " : "", i, i + 30);
  EXPECT_THAT(message_of(pairs + "}, \"allOf\": [" + rules + "]}"), HasSubstr("which members there are in fewer cases"));
}

/// What is no object is not held to them; but for `not`, which it does not pass.
TEST(Presence, SpeaksOfObjectsAlone) {
  const Tokenizer t = test::character_tokenizer();
  for (const char* how : {R"("anyOf": [{"required": ["a"]}, {"required": ["b"]}])", R"("not": {"required": ["a", "b"]})"}) {
    const auto schema =
        parse_json(fmt::format(R"({{"type": "array", "minItems": 1, "maxItems": 1, "items": {{"type": ["object", "null"],
        "properties": {{"a": {{"type": "null"}}, "b": {{"type": "null"}}}}, {}}}}})",
                               how),
                   "test");
    const auto form = compile_schema(*schema, "f", {&t, std::nullopt, t.size()});
    ASSERT_TRUE(form) << form.error().message;
    std::set<std::string> seen;
    PhiloxStream r(3, 1);
    for (int i = 0; i < 100; ++i) seen.insert(answer_text(*form, test::random_answer(form->form, r), t));
    EXPECT_EQ(seen.contains("[null]"), std::string_view(how).starts_with("\"anyOf")) << how;
    EXPECT_EQ(seen.size(), std::string_view(how).starts_with("\"anyOf") ? 4U : 3U) << how;
  }
}

TEST(PresenceDiagram, CountsAndForces) {
  const std::vector<std::string> names{"a", "b", "c", "d", "e"};
  const auto two = Presence::make(*all_of({member_count(2, 2), has_member("c")}), names);
  ASSERT_TRUE(two);
  for (size_t i = 0; i < names.size(); ++i) EXPECT_EQ(two->forces(i), names[i] == "c");
  int sets = 0;
  for (unsigned bits = 0; bits < 32; ++bits) {
    int32_t state = two->start();
    for (size_t i = 0; i < names.size(); ++i) state = two->next(state, i, (bits >> i & 1U) != 0);
    sets += state == Presence::kAlways;
  }
  EXPECT_EQ(sets, 4);
  EXPECT_EQ(Presence::make(*all_of({has_member("a"), not_of(has_member("a"))}), names)->start(), Presence::kNever);
  EXPECT_EQ(*Presence::make(*not_of(any_of({has_member("a"), has_member("b")})), names),
            *Presence::make(*all_of({not_of(has_member("b")), not_of(has_member("a"))}), names));
}

}  // namespace
}  // namespace slip
