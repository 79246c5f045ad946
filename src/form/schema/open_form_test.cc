// SPDX-License-Identifier: Apache-2.0
// Forms of any schema, walked at random by their rules alone: what the masks allow is a valid answer, and nothing gets stuck.
#include "form/schema/open_form.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <map>

#include "base/philox.h"
#include "form/automaton/numbers.h"
#include "form/automaton/regex.h"
#include "form/automaton/token_automaton.h"
#include "form/form_testing.h"
#include "form/schema/values.h"
#include "form/schema_testing.h"

namespace slip {
namespace {

using testing::HasSubstr;

std::vector<TokenId> allowed(const Field& f, int32_t state) {
  std::vector<TokenId> out;
  if (const TokenAutomaton* a = f.rules.automaton()) {
    const TokenMask& m = a->mask(state);
    if (m.bits.empty()) return m.listed;
    for (int32_t id = 0; id < static_cast<int32_t>(m.bits.size()) * 64; ++id)
      if (m.contains({id})) out.push_back({id});
    return out;
  }
  for (const auto& e : f.rules.state(state).edges) out.push_back(e.id);
  if (f.exits.empty() && f.end && f.rules.may_end(state)) out.push_back(*f.end);
  for (const Exit& e : f.exits)
    if (e.at_start ? state == 0 : f.rules.may_end(state)) out.push_back(e.end);
  return out;
}

/// One field's content, and the piece that it leads to where it has exits.
int32_t walk_field(const Field& f, PhiloxStream& r, std::vector<TokenId>& tokens) {
  int32_t state = 0;
  for (int32_t i = 0; !f.exits.empty() || i < f.budget; ++i) {
    const auto choices = allowed(f, state);
    if (choices.empty() || i > f.budget) {
      ADD_FAILURE() << f.name << " is stuck at " << i;
      return -1;
    }
    const TokenId id = choices[r.below(static_cast<uint32_t>(choices.size()))];
    if (ends(f, state, id)) {
      const std::vector<TokenId> content(state == 0 ? 1 : 2, id);
      return f.exits.empty() ? -1 : exit_piece(f, content);
    }
    tokens.push_back(id);
    state = f.rules.next(state, id);
    EXPECT_GE(state, 0) << f.name << ": the mask allows what the rules do not";
    if (state < 0 || (f.closes && f.rules.complete(state))) return -1;
  }
  return -1;
}

std::vector<TokenId> random_answer(const Form& form, PhiloxStream& r) {
  std::vector<TokenId> tokens;
  for (int32_t at = 0; at < static_cast<int32_t>(form.pieces().size());) {
    const Piece& piece = form.pieces()[static_cast<size_t>(at)];
    int32_t next = -1;
    if (const auto* run = std::get_if<FixedRun>(&piece))
      tokens.insert(tokens.end(), run->ids.begin(), run->ids.end());
    else
      next = walk_field(form.fields()[static_cast<size_t>(std::get<FieldRef>(piece).field)], r, tokens);
    at = next >= 0 ? next : form.next_piece(at);
  }
  return tokens;
}

/// Empty, or what is wrong with one of five random answers.
std::string wrong_with(const json::value& schema, const CompiledForm& form, const Tokenizer& t, uint64_t seed, int* gave_up) {
  PhiloxStream r(seed, 3);
  for (int k = 0; k < 5; ++k) {
    const auto tokens = random_answer(form.form, r);
    const std::string text = answer_text(form, tokens, t);
    const auto document = parse_json(text, "answer");
    if (!document) return document.error().message + "\n" + text;
    if (const std::string why = test::why_invalid(schema, *document, gave_up); !why.empty()) return why + "\n" + text;
    const auto contents = split_answer(form.form, tokens);
    if (!contents) return contents.error().message + "\n" + text;
    if (assemble(form.form, *contents) != tokens) return "assembled otherwise\n" + text;
    if (const auto values = parse(form, tokens, t); !values) return values.error().message + "\n" + text;
  }
  return {};
}

TEST(OpenForm, WalkedAtRandomIsValid) {
  const Tokenizer t = test::character_tokenizer();
  int compiled = 0, gave_up = 0;
  for (uint64_t n = 0; n < 150; ++n) {
    const json::value schema = test::RandomSchema(n).root();
    const auto form = compile_schema(schema, "random", {&t, std::nullopt, t.size()});
    if (!form) continue;
    ++compiled;
    ASSERT_EQ(wrong_with(schema, *form, t, n, &gave_up), "") << n << "\n" << schema;
  }
  EXPECT_GT(compiled, 130);
  EXPECT_LT(gave_up, 20);
}

/// tests/fixtures/form/schemas.jsonl: 250 schemas of the kinds that people write; the share that is done is stated in the guide.
TEST(OpenForm, DoesMostOfWhatPeopleWrite) {
  const Tokenizer t = test::character_tokenizer();
  std::ifstream in(std::filesystem::path(SLIP_SOURCE_DIR) / "tests/fixtures/form/schemas.jsonl");
  std::map<std::string, std::pair<int, int>> share;  // done, of
  std::string line;
  int gave_up = 0;
  for (uint64_t n = 0; std::getline(in, line); ++n) {
    const auto entry = parse_json(line, "schemas.jsonl");
    ASSERT_TRUE(entry) << entry.error().message;
    const json::value& schema = entry->at("schema");
    auto& [done, of] = share[std::string(entry->at("kind").as_string())];
    ++of;
    const auto form = compile_schema(schema, "f", {&t, std::nullopt, t.size()});
    if (!form) {
      EXPECT_THAT(form.error().message, HasSubstr("#")) << "names a place";
      continue;
    }
    ++done;
    if (line.find("nullable") != std::string::npos) continue;  // OpenAPI's word, which validators of JSON Schema pass over
    ASSERT_EQ(wrong_with(schema, *form, t, n, &gave_up), "") << entry->at("name");
  }
  for (const auto& [kind, s] : share) {
    RecordProperty(kind, fmt::format("{} of {}", s.first, s.second));
    if (kind == "hard")
      EXPECT_GT(s.first, 5);
    else
      EXPECT_EQ(s.first, s.second) << kind;
  }
  EXPECT_LT(gave_up, 10);
}

std::string message_of(std::string_view schema) {
  const Tokenizer t = test::character_tokenizer();
  const auto form = compile_schema(*parse_json(schema, "test"), "f", {&t, std::nullopt, 300});
  return form ? "compiled" : form.error().message;
}

TEST(OpenForm, RefusesContradictionsAndSaysAllErrors) {
  EXPECT_THAT(message_of(R"({"type": "object", "properties": {"a": {"const": 12, "type": "string"}}})"),
              HasSubstr("no value of 12 is valid"));
  EXPECT_THAT(message_of(R"({"type": "object", "properties": {"a": {"type": "integer", "minimum": 3, "maximum": 2}}})"),
              HasSubstr("no integer is valid for its bounds"));
  EXPECT_THAT(
      message_of(R"({"type": "object", "properties": {"a": {"type": "integer", "x-format": "0.0"}, "b": {"type": "boolean"}}})"),
      HasSubstr("no integer is valid"));
  const std::string two =
      message_of(R"({"type": "object", "properties": {"a": {"type": "strin"}, "b/c": {"type": "string", "pattern": "("}}})");
  EXPECT_THAT(two, HasSubstr("2 errors"));
  EXPECT_THAT(two, HasSubstr("#/properties/a/type: expected string, number"));
  EXPECT_THAT(two, HasSubstr("#/properties/b~1c/pattern: expected a regular expression, got a group without ')'"));
}

TEST(Regex, FindsWhatEcmaScriptFinds) {
  const auto matches = [](std::string_view pattern, std::string_view text) {
    const auto d = compile_regex(pattern, false);
    EXPECT_TRUE(d) << d.error().message;
    return d && d->matches(text);
  };
  EXPECT_TRUE(matches("b", "abc"));
  EXPECT_FALSE(matches("^b", "abc"));
  EXPECT_TRUE(matches("^a|c$", "xc"));
  EXPECT_FALSE(matches("^(a|c)$", "xc"));
  EXPECT_TRUE(matches("^a{2,3}$", "aaa"));
  EXPECT_FALSE(matches("^a{2,3}$", "aaaa"));
  EXPECT_TRUE(matches("^[^a-c]\\d\\s$", "\u00fc7 "));
  EXPECT_TRUE(matches("^.$", "\U0001F697"));
  EXPECT_FALSE(matches("^.$", "\n"));
  EXPECT_TRUE(matches("^\\u00e4\\x41$", "\u00e4A"));
  EXPECT_FALSE(compile_regex("(?=a)"));
  EXPECT_FALSE(compile_regex("(a)\\1"));
  EXPECT_FALSE(compile_regex("a**"));
  EXPECT_FALSE(compile_regex("((((a{4000}){4000}){4000}){4000})"));
  EXPECT_FALSE(compile_regex("(a|b)*a(a|b){20}"));
  const auto quoted = compile_regex("^\"\\n$");
  ASSERT_TRUE(quoted);
  EXPECT_TRUE(quoted->matches("\\\"\\n")) << "as JSON writes it";
}

TEST(Numbers, KeepToBoundsAndMultiples) {
  PhiloxStream r(5, 5);
  for (int trial = 0; trial < 60; ++trial) {
    NumberLimits l{.integer = r.chance(0.5)};
    l.least = (static_cast<int>(r.below(4000)) - 2000) / 8.0;
    l.most = l.least + r.below(3000) / 8.0;
    l.above_least = r.chance(0.3);
    l.below_most = r.chance(0.3);
    if (r.chance(0.3)) l.multiples = {l.integer ? 1.0 + r.below(9) : 0.25};
    const auto d = numbers(l);
    ASSERT_TRUE(d) << d.error().message;
    for (int i = -20000; i <= 20000; i += 3) {
      const double x = l.integer ? i : i / 8.0;
      const std::string text = fmt::format("{}", x);
      bool in = (l.above_least ? x > l.least : x >= l.least) && (l.below_most ? x < l.most : x <= l.most);
      for (const double m : l.multiples) in = in && std::remainder(x, m) == 0;
      if (text != "-0") ASSERT_EQ(d->matches(text), in) << text << " from " << l.least << " to " << l.most;
    }
    EXPECT_FALSE(d->matches("007"));
  }
}

}  // namespace
}  // namespace slip
