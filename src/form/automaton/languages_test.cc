// SPDX-License-Identifier: Apache-2.0
// Automata over bytes: regular expressions and numbers.
#include <gtest/gtest.h>

#include <string>

#include "base/philox.h"
#include "form/automaton/numbers.h"
#include "form/automaton/regex.h"

namespace slip {
namespace {

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
  const char* decimal = "^(?!^[-+.]*$)[+-]?0*\\d*\\.?\\d*$";  // as Pydantic writes it
  for (const char* text : {"1.5", "-007", "+.5", "3."}) EXPECT_TRUE(matches(decimal, text)) << text;
  for (const char* text : {"", "-", ".", "+.", "1e3", "1.2.3"}) EXPECT_FALSE(matches(decimal, text)) << text;
  EXPECT_TRUE(matches("^(?=.*\\d)(?!0)[a-z0-9]{3,5}$", "ab1"));
  EXPECT_FALSE(matches("^(?=.*\\d)(?!0)[a-z0-9]{3,5}$", "abc"));
  EXPECT_FALSE(matches("^(?=.*\\d)(?!0)[a-z0-9]{3,5}$", "0bc"));
  // Pydantic's Decimal of at most 8 digits, 2 of them behind the point.
  const char* digits = "^(?!^[-+.]*$)[+-]?0*(?:\\d{0,6}|(?=[\\d.]{1,9}0*$)\\d{0,6}\\.\\d{0,2}0*$)$";
  for (const char* text : {"1", "-123456", "123456.78", "000001.5", "+.25", "7.100"}) EXPECT_TRUE(matches(digits, text)) << text;
  for (const char* text : {"", "-", "1234567", "1.234", "12a", "1234567.8"}) EXPECT_FALSE(matches(digits, text)) << text;
  EXPECT_TRUE(matches("^a(?=b).*$", "abc"));
  EXPECT_FALSE(matches("^a(?=b).*$", "acb"));
  EXPECT_TRUE(matches("^a+(?!b)[a-c]c$", "aacc"));
  EXPECT_FALSE(matches("^a+(?!b)[b-c]c$", "aabc"));
  EXPECT_TRUE(matches("^a(?=b)", "abc"));
  EXPECT_FALSE(matches("^a(?=b)", "a"));
  EXPECT_TRUE(matches("^(^a$)$", "a"));
  EXPECT_FALSE(matches("^(^a$)$", "aa"));
  for (const char* pattern : {"(?=a)", "a(?=b)", "^(?!a)b|c", "^(?!a)*b", "^(?!a", "^(?!(a)b"})
    EXPECT_FALSE(compile_regex(pattern)) << pattern;
  EXPECT_FALSE(compile_regex("(a)\\1"));
  EXPECT_FALSE(compile_regex("a**"));
  EXPECT_FALSE(compile_regex("((((a{4000}){4000}){4000}){4000})"));
  EXPECT_FALSE(compile_regex("(a|b)*a(a|b){20}"));
  const auto quoted = compile_regex("^\"\\n$");
  ASSERT_TRUE(quoted);
  EXPECT_TRUE(quoted->matches("\\\"\\n")) << "as JSON writes it";
}

TEST(Regex, TakesManyTurnsOfAnyCharacter) {
  for (const auto& [pattern, most] : {std::pair{"^.{1,400}$", 400}, {"^[^<>]{1,60}$", 60}, {"^[^\"]{1,100}$", 100}}) {
    const auto d = compile_regex(pattern, false);
    ASSERT_TRUE(d) << pattern << ": " << d.error().message;
    std::string text;
    for (int i = 0; i < most; ++i) text += "\u00e4";
    EXPECT_TRUE(d->matches(text)) << pattern;
    EXPECT_FALSE(d->matches(text + "a")) << pattern;
    EXPECT_FALSE(d->matches("")) << pattern;
    EXPECT_LE(d->size(), static_cast<size_t>(25 * most)) << "sets that differ in nothing that follows are one state";
  }
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
      if (text == "-0") continue;
      ASSERT_EQ(d->matches(text), in) << text << " from " << l.least << " to " << l.most;
    }
    EXPECT_FALSE(d->matches("007"));
  }
}

}  // namespace
}  // namespace slip
