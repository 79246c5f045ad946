// SPDX-License-Identifier: Apache-2.0
// The template language against Jinja2 itself (tests/fixtures/text/templates), its refusals, and templates that would not end.
#include "text/jinja/jinja.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>

#include "base/file.h"
#include "base/json.h"
#include "text/chat.h"

namespace slip {
namespace {

using jinja::Template;
using testing::HasSubstr;
const std::filesystem::path kTemplates = std::filesystem::path(SLIP_FIXTURES) / "text/templates";

std::string text_of(const json::value& v) { return std::string(v.as_string()); }

ChatMessage message_of(const json::value& v) {
  ChatMessage m{text_of(v.at("role")), {}};
  if (v.at("content").is_string()) {
    m.content.push_back(TextItem{text_of(v.at("content"))});
    return m;
  }
  for (const json::value& item : v.at("content").as_array()) {
    if (item.at("type") == "image") {
      m.content.push_back(ImageItem{});
    } else {
      m.content.push_back(TextItem{text_of(item.at("text"))});
    }
  }
  return m;
}

TEST(ChatTemplates, RenderAsJinja2DoesInEveryFamilysStyle) {
  const auto file = read_json(kTemplates / "cases.json");
  ASSERT_TRUE(file) << file.error().message;
  std::vector<std::pair<std::string, std::string>> tokens;
  for (const auto& [name, token] : file->at("tokens").as_object()) tokens.emplace_back(name, text_of(token));
  int cases = 0;
  for (const json::value& c : file->at("cases").as_array()) {
    SCOPED_TRACE(text_of(c.at("template")) + " " + text_of(c.at("name")));
    const auto source = read_file(kTemplates / text_of(c.at("template")));
    ASSERT_TRUE(source);
    const auto chat = ChatTemplate::compile(*source, "t", tokens);
    ASSERT_TRUE(chat) << chat.error().message;
    std::vector<ChatMessage> messages;
    for (const json::value& m : c.at("messages").as_array()) messages.push_back(message_of(m));
    const json::object& o = c.as_object();
    ChatOptions options;
    if (o.contains("add_generation_prompt")) options.add_generation_prompt = o.at("add_generation_prompt").as_bool();
    if (o.contains("enable_thinking")) options.enable_thinking = o.at("enable_thinking").as_bool();
    if (o.contains("date")) options.date = text_of(o.at("date"));
    const auto text = chat->render(messages, options);
    ++cases;
    if (o.contains("raises")) {
      ASSERT_FALSE(text) << *text;
      EXPECT_EQ(text.error().kind, ErrorKind::kBadInput);
      EXPECT_THAT(text.error().message, HasSubstr(fmt::format("got its refusal: {}", text_of(o.at("raises")))));
      EXPECT_THAT(text.error().message, HasSubstr("t: chat_template: line "));
    } else {
      ASSERT_TRUE(text) << text.error().message;
      EXPECT_EQ(*text, text_of(o.at("text")));
    }
  }
  EXPECT_GE(cases, 100);
}

std::string rendered(std::string_view source, const jinja::Dict& context = {}) {
  const auto t = Template::compile(source, "f");
  if (!t) return t.error().message;
  const auto text = t->render(context);
  return text ? *text : text.error().message;
}

TEST(ChatTemplates, WhatIsNotDoneIsRefusedWithItsLineWhenRead) {
  const std::vector<std::pair<std::string, std::string>> cases = {
      {"\n{% include 'x' %}", "line 2: expected one of if, for, set, macro, generation, break, continue, got include"},
      {"{% extends 'x' %}", "got extends"},
      {"{% call f() %}{% endcall %}", "got call"},
      {"{% raw %}{% endraw %}", "got raw"},
      {"{{ x | urlize }}", "line 1: expected a filter that is done, got urlize"},
      {"{{ x is escaped }}", "expected a test that is done, got escaped"},
      {"{{ x.encode() }}", "expected a method that is done, got encode"},
      {"{{ cycler(1) }}", "expected a function that is done, got cycler"},
      {"{% for x in y recursive %}{% endfor %}", "got recursive"},
      {"{% set x | upper %}a{% endset %}", "got a filter"},
      {"{{ f(*x) }}", "expected a function that is done, got f"},
      {"{{ dict(**x) }}", "expected arguments one by one, got **"},
      {"{{ x.y.z()() }}", "got z"},
  };
  for (const auto& [source, part] : cases) {
    const auto t = Template::compile(source, "f");
    ASSERT_FALSE(t) << source;
    EXPECT_EQ(t.error().kind, ErrorKind::kUnsupported) << source << ": " << t.error().message;
    EXPECT_THAT(t.error().message, HasSubstr(part)) << source;
    EXPECT_THAT(t.error().message, testing::StartsWith("f: line ")) << source;
  }
}

TEST(ChatTemplates, WhatIsNoTemplateIsBadInputWithItsLine) {
  for (const char* source : {"{{",
                             "{{ 'a }}",
                             "{% if %}",
                             "{% if x %}",
                             "{% endif %}",
                             "{{ (1 }}",
                             "{{ 1) }}",
                             "{{ }}",
                             "{% for in x %}{% endfor %}",
                             "{{ 1 2 }}",
                             "{% set = 1 %}",
                             "{% break %}",
                             "{{ '\\ud800' }}",
                             "{{ '\\u12' }}",
                             "{# x",
                             "{{ a.1b }}",
                             "{{ a[1:2:3:4] }}",
                             "{{ a[] }}",
                             "{{ 12345678901234567890 }}",
                             "{{ \xC3\xA9 }}",
                             "{% macro f(a=1, b) %}{% endmacro %}",
                             "{{ x is }}",
                             "{% for x in y %}{% else %}"}) {
    const auto t = Template::compile(source, "f");
    ASSERT_FALSE(t) << source;
    EXPECT_EQ(t.error().kind, ErrorKind::kBadInput) << source << ": " << t.error().message;
    EXPECT_THAT(t.error().message, testing::StartsWith("f: line ")) << source;
  }
}

TEST(ChatTemplates, WhatCannotBeComputedNamesTheLine) {
  EXPECT_THAT(rendered("\n\n{{ 1 + 'a' }}"),
              HasSubstr("f: line 3: expected two strings, two lists or two numbers for +, got an integer"));
  EXPECT_THAT(rendered("{{ [1] }}"), HasSubstr("expected text or a number to print, got a list"));
  EXPECT_THAT(rendered("{{ x.y.z }}"), HasSubstr("got an undefined value"));
  EXPECT_THAT(rendered("{{ 1 // 0 }}"), HasSubstr("expected a divisor other than 0"));
  EXPECT_THAT(rendered("{{ 'É'.lower() }}"), HasSubstr("expected ASCII letters"));
  EXPECT_THAT(rendered("{{ 9000000000000000000 + 9000000000000000000 }}"), HasSubstr("got"));
  EXPECT_THAT(rendered("{% set x.y = 1 %}"), HasSubstr("expected a namespace"));
  EXPECT_THAT(rendered("{{ 1 < 'a' }}"), HasSubstr("expected two numbers or two strings"));
  EXPECT_THAT(rendered("{{ strftime_now('%H') }}"), HasSubstr("expected a format of days, months and years"));
}

std::string times(std::string_view s, int n = 5000) {
  std::string out;
  for (int i = 0; i < n; ++i) out += s;
  return out;
}

// A macro that calls itself below so many loops and operators: each alone is within its limit, together they took 25 MB of stack.
std::string recursion(int loops, std::string_view chain, int links) {
  return fmt::format("{{% macro m() %}}{}{{{{ m(){} }}}}{}{{% endmacro %}}{{{{ m() }}}}", times("{% for i in [1] %}", loops),
                     times(chain, links), times("{% endfor %}", loops));
}

TEST(ChatTemplates, HostileOnesComeToAnEnd) {
  const std::vector<std::string> sources = {
      "{{ 'a' * 1000000000000 }}",
      "{% for i in range(1000000000) %}x{% endfor %}",
      "{% for i in range(99999) %}{% for j in range(99999) %}{% endfor %}{% endfor %}",
      "{% set n = namespace(x='aaaaaaaa') %}{% for i in range(60) %}{% set n.x = n.x + n.x %}{% endfor %}",
      "{% set n = namespace(x=[1]) %}{% for i in range(60) %}{% set n.x = [n.x, n.x] %}{% endfor %}{{ n.x | tojson }}",
      "{% set n = namespace(x=[1]) %}{% for i in range(60) %}{% set n.x = [n.x, n.x] %}{% endfor %}{{ n.x == [n.x] }}",
      "{% set n = namespace() %}{% set n.x = n %}",
      "{% macro f() %}{{ f() }}{% endmacro %}{{ f() }}",
      "{% macro f() %}{{ f() }}{{ f() }}{% endmacro %}{{ f() }}",
      "{{ ('a' * 1000).replace('a', 'b' * 1000000) }}",
      fmt::format("{{{{ {}1{} }}}}", times("("), times(")")),
      fmt::format("{{{{ {}1 }}}}", times("-")),
      fmt::format("{{{{ 1{} }}}}", times("+1")),
      fmt::format("{{{{ x{} }}}}", times(".a")),
      times("{% if x %}"),
      fmt::format("{{% if x %}}{}{{% endif %}}", times("{% elif x %}")),
      recursion(20, " ~ 1", 240),
      recursion(180, " or x", 240),
  };
  for (const std::string& source : sources) {
    const auto t = Template::compile(source, "f");
    if (!t) continue;
    const auto text = t->render({});
    EXPECT_FALSE(text) << source.substr(0, 60);
  }
}

TEST(ChatTemplates, BlocksCallsAndExpressionsAreCountedTogether) {
  EXPECT_THAT(rendered(recursion(20, " ~ 1", 240)),
              HasSubstr("expected at most 400 blocks, calls and expressions inside of each other, got more"));
  EXPECT_EQ(rendered(fmt::format("{{{{ 1{} }}}}", times(" + 1", 240))), "241");
  EXPECT_EQ(rendered(fmt::format("{}x{}", times("{% for i in [1] %}", 190), times("{% endfor %}", 190))), "x");
}

// Values are compared, looked through and freed by recursion.
TEST(ChatTemplates, ValuesAreAtMostAHundredLevelsDeep) {
  const auto nested = [](std::string_view how, int levels) {
    return rendered(
        fmt::format("{{% set n = namespace(x=1) %}}{{% for i in range({}) %}}{{% set n.x = {} %}}{{% endfor %}}done", levels, how));
  };
  for (const char* how : {"[n.x]", "{'a': n.x}", "dict(a=n.x)", "[1, n.x][:]"}) {
    EXPECT_EQ(nested(how, 99), "done") << how;
    EXPECT_THAT(nested(how, 101),
                HasSubstr("f: line 1: expected at most 100 lists and dictionaries inside of each other, got more"))
        << how;
    EXPECT_THAT(nested(how, 50'000), HasSubstr("inside of each other")) << how;
  }
  std::string sets = "{% set x = [] %}";
  for (int i = 0; i < 20'000; ++i) sets += "{% set x = [x] %}";
  EXPECT_THAT(rendered(sets), HasSubstr("inside of each other"));
}

TEST(ChatTemplates, SearchesAreNotFree) {
  const std::string late = "got one that takes too long or writes too much";
  const std::string texts = "{% set t = 'a' * 300000 %}{% set p = 'a' * 150000 ~ 'b' %}";
  for (const char* search : {"p in t", "t.find(p)", "t.rfind(p)", "t.count(p)", "t.split(p)", "t.rsplit(p)", "t.replace(p, '')"})
    EXPECT_THAT(rendered(fmt::format("{}{{% set x = {} %}}", texts, search)), HasSubstr(late)) << search;
  EXPECT_EQ(rendered("{% set t = 'a' * 100000 ~ 'b' %}{{ 'ab' in t }} {{ t.find('b') }} {{ t.split('b') | length }}"),
            "True 100000 2");
  std::string names, entries = "{% set n = namespace() %}";
  for (int i = 0; i < 20'000; ++i) {
    names += fmt::format("{{% set a{} = 1 %}}", i);
    entries += fmt::format("{{% set n.a{} = 1 %}}", i);
  }
  EXPECT_THAT(rendered(names), HasSubstr(late));
  EXPECT_THAT(rendered(entries), HasSubstr(late));
}

TEST(ChatTemplates, ComparisonsPayForLongTexts) {
  const std::string late = "got one that takes too long or writes too much";
  const std::string texts =
      "{% set s = 'a' * 1000000 %}{% set t = 'a' * 999999 ~ 'b' %}{% set n = namespace(x=[[s, {s: 1}]]) %}"
      "{% for i in range(15) %}{% set n.x = n.x + n.x %}{% endfor %}";
  for (const char* compared :
       {"n.x | select('eq', [t, {}])", "n.x | map('last') | map(attribute=t)", "n.x | map('last') | select('eq', {t: 1})"})
    EXPECT_THAT(rendered(fmt::format("{}{{% set y = {} | list %}}", texts, compared)), HasSubstr(late)) << compared;
  EXPECT_EQ(rendered("{{ 'a' * 100000 < 'a' * 100001 }} {{ 'a' * 100000 == 'a' * 100000 }} {{ 'b' >= 'a' }} {{ 'b' <= 'a' }}"),
            "True True True False");
}

TEST(ChatTemplates, IntegersAreComparedExactly) {
  const std::string two = "{% set a = 9007199254740993 %}{% set b = 9007199254740992 %}";
  EXPECT_EQ(
      rendered(two +
               "{{ a == b }} {{ a > b }} {{ b < a }} {{ a <= b }} {{ a == 9007199254740992.0 }} {{ a > 9007199254740992.0 }}"),
      "False True True False False True");
  EXPECT_EQ(
      rendered(
          "{{ 1 == 1.0 }} {{ 1 < 1.5 }} {{ -1 > -1.5 }} {{ 1.5 > 1 }} {{ true == 1 }} {{ 1 < 1000000000000.0 * 1000000000000 }}"),
      "True True True True True True");
}

TEST(ChatTemplates, CopiesOfListsPayForTheirTexts) {
  const std::string late = "got one that takes too long or writes too much";
  const std::string doubled =
      "{% set n = namespace(x=['a' * 1000000]) %}{% for i in range(10) %}{% set n.x = n.x + n.x %}{% endfor %}";
  EXPECT_THAT(rendered(doubled), HasSubstr(late));
  const std::string again = "{% set x = ['a' * 1000000, 'b'] %}{% for i in range(20) %}";
  EXPECT_THAT(rendered(again + "{% set y = x[::-1] %}{% endfor %}"), HasSubstr(late));
  EXPECT_THAT(rendered(again + "{% for t in x %}{% endfor %}{% endfor %}"), HasSubstr(late));
  EXPECT_EQ(rendered("{% set x = ['a' * 1000, 'b'] + ['c'] %}{{ x[::-1][0] }}{{ x | length }}"), "c3");
}

TEST(ChatTemplates, CopiesInListsAndJsonPayForTheirTexts) {
  const std::string late = "got one that takes too long or writes too much";
  const std::string text = "{% set s = 'a' * 1000000 %}";
  for (const char* list :
       {"range(100000) | map(attribute='x', default=s) | list", "range(20000) | map(attribute='x') | map('default', s) | list",
        "[{'k': s}] | map(attribute='k') | list"})
    EXPECT_THAT(rendered(fmt::format("{}{{% set n = namespace(x=0) %}}{{% for i in range(40) %}}{{% set x = {} %}}{{% endfor %}}",
                                     text, list)),
                HasSubstr(late))
        << list;
  const std::string references =
      text + "{% set n = namespace(x=[{'k': s, s: 1}]) %}{% for i in range(15) %}{% set n.x = n.x + n.x %}{% endfor %}";
  for (const char* list : {"n.x | map('list') | list", "n.x | tojson", "n.x | map('items') | list", "n.x | map('dictsort') | list",
                           "n.x | sort(attribute='k') | list"})
    EXPECT_THAT(rendered(fmt::format("{}{{% set y = {} %}}", references, list)), HasSubstr(late)) << list;
  EXPECT_EQ(rendered(references + "{{ n.x | length }}"), "32768");
}

TEST(ChatTemplates, BlanksOfIndentsAreNotFree) {
  const std::string late = "got one that takes too long or writes too much";
  EXPECT_THAT(rendered("{% set s = ('a\n' * 2000000) | indent(64) %}"), HasSubstr(late));
  std::string deep = "1";
  for (int i = 0; i < 80; ++i) deep = "[" + deep + "]";
  EXPECT_THAT(
      rendered(fmt::format("{{% set n = namespace(x=[{}]) %}}{{% for i in range(9) %}}{{% set n.x = n.x + n.x %}}{{% endfor %}}"
                           "{{% set x = n.x | tojson(indent=16) %}}",
                           deep)),
      HasSubstr(late));
}

// As Python's str.isspace and str.splitlines have them: an ideographic space, U+001F, U+0085, U+2028.
TEST(ChatTemplates, BlanksAreUnicodes) {
  EXPECT_EQ(rendered("<{{ '\\u3000\\u001f a\\u00a0b \\u2003'.strip() }}>"), "<a\u00a0b>");
  EXPECT_EQ(rendered("<{{ '\\u3000a\\u3000'.lstrip() }}><{{ '\\u3000a\\u3000'.rstrip() }}><{{ '\\u3000a\\u3000' | trim }}>"),
            "<a\u3000><\u3000a><a>");
  EXPECT_EQ(rendered("{{ '\\u3000a\\u2003 b\\u001cc\\u0085'.split() | join(',') }}"), "a,b,c");
  EXPECT_EQ(rendered("{{ 'a\\u2028b\\r\\nc\\u001ed\\u001fe\\n'.splitlines() | join(',') }}"), "a,b,c,d\u001fe");
  EXPECT_EQ(rendered("<{{ ' \\u3000 '.strip() }}>{{ ' \\u3000 '.split() | length }}"), "<>0");
}

// What Jinja's filters and that of transformers give where Python's methods of the same name give something else.
TEST(ChatTemplates, FiltersMeanWhatJinjasMean) {
  EXPECT_EQ(rendered("{{ \"it's a-b (c) {d} [e] <f> g_h 1x\" | title }}"), "It's A-B (C) {D} [E] <F> G_h 1x");
  EXPECT_EQ(rendered("{{ \"it's\".title() }}"), "It'S");
  EXPECT_EQ(rendered("{{ ['a', 'B', 'A', 'b'] | unique | join }} {{ ['a', 'A', 'a'] | unique(true) | join }}"), "aB aA");
  EXPECT_EQ(rendered("{{ [{'n': 'x'}, {'n': 'X'}] | unique(attribute='n') | list | length }}"), "1");
  EXPECT_THAT(rendered("{{ [[1]] | unique }}"), HasSubstr("unique: expected plain values, got a list"));
  EXPECT_EQ(rendered("{{ ' 42 ' | int }} {{ '42.9' | int }} {{ '-1e2' | int }} {{ '1_000' | int }} {{ '+7' | int }}"),
            "42 42 -100 1000 7");
  EXPECT_EQ(rendered("{{ '1__0' | int }} {{ 'x' | int(5) }} {{ 'nan' | int('no') }} {{ none | int }} {{ 9007199254740993 | int }}"),
            "0 5 no 0 9007199254740993");
  EXPECT_THAT(rendered("{{ 'ff' | int(0, 16) }}"), HasSubstr("int: expected numbers of base 10"));
  EXPECT_THAT(rendered("{{ '99999999999999999999' | int }}"), HasSubstr("int: expected a number of at most 63 bits"));
  EXPECT_THAT(rendered("{{ '1e30' | int }}"), HasSubstr("int: expected a number of at most 63 bits"));
  EXPECT_EQ(rendered("{{ ['\\u00e9\xF0\x9F\x98\x80\\u007f'] | tojson(ensure_ascii=true) }}"), R"(["\u00e9\ud83d\ude00\u007f"])");
  EXPECT_EQ(rendered("{{ ['\\u00e9'] | tojson }} {{ ['\\u00e9'] | tojson(true) }}"), "[\"\u00e9\"] [\"\\u00e9\"]");
  EXPECT_EQ(rendered("{{ [1] | tojson(false, 1) }} {{ [1] | tojson(indent=none) }}"), "[\n 1\n] [1]");
  EXPECT_THAT(rendered("{{ [1] | tojson(sort_keys=true) }}"), HasSubstr("tojson: expected arguments that are done, got sort_keys"));
  EXPECT_THAT(rendered("{{ [1] | tojson(indent='  ') }}"), HasSubstr("tojson: expected an indent of 0 to 16, got a string"));
}

TEST(ChatTemplates, ArgumentsAreDoneOrRefused) {
  EXPECT_EQ(rendered("{{ 'abcabc'.find('a', 1) }} {{ 'abcabc'.count('a', 1) }} {{ 'abcabc'.index('a', 1) }} "
                     "{{ 'abcabc'.rfind('a', 0, 2) }} {{ 'abc'.startswith('b', 1) }} {{ 'abc'.endswith('b', 0, -1) }}"),
            "3 1 3 0 True True");
  EXPECT_EQ(rendered("{{ 'abc'.find('', 4) }} {{ 'abc'.count('', 3) }} {{ 'abc'.count('', 4) }} {{ 'abc'.startswith('', 4) }} "
                     "{{ '\u00e9a\u00e9'.find('\u00e9', 1) }} {{ 'abc'.find('c', none, 99) }} {{ 'abc'.find('a', -9, -1) }}"),
            "-1 1 0 False 2 2 0");
  EXPECT_EQ(rendered("{{ 'a\\nb\\r\\nc'.splitlines(true) | join('|') }}"), "a\n|b\r\n|c");
  EXPECT_EQ(rendered("{{ 'a\nb' | indent(width='--') }} {{ 'a\n' | indent(2, blank=true) }}| {{ 'a\\r\\n\\r\\nb' | indent(1) }}"),
            "a\n--b a\n  | a\n\n b");
  const std::vector<std::pair<std::string, std::string>> refused = {
      {"'a' | upper(1)", "upper: expected at most 0 arguments, got 1"},
      {"'a'.upper(1)", "upper: expected at most 0 arguments, got 1"},
      {"'a'.find('a', start=1)", "find: expected arguments that are done, got start"},
      {"'a'.find('a', 'b')", "find: expected an integer, got a string"},
      {"'a,b'.split(',', '1')", "split: expected an integer, got a string"},
      {"[[2], [1]] | sort(attribute=0)", "sort: expected an attribute's name, got an integer"},
      {"'a' | indent(none)", "indent: expected a width or a string, got none"},
      {"x is defined(1)", "defined: expected 0 arguments, got 1"},
      {"4 is divisibleby", "divisibleby: expected 1 arguments, got 0"},
  };
  for (const auto& [expression, part] : refused)
    EXPECT_THAT(rendered(fmt::format("{{{{ {} }}}}", expression)), HasSubstr(part)) << expression;
}

TEST(ChatTemplates, ScopesAreJinjas) {
  EXPECT_EQ(rendered("{% set x %}{% set y = 1 %}{% endset %}{{ y }}|"), "|");
  EXPECT_EQ(rendered("{% for x in [] %}{% else %}{% set y = 1 %}{% endfor %}{{ y }}|"), "|");
  EXPECT_EQ(rendered("{% generation %}{% set y = 1 %}{% endgeneration %}{{ y }}|"), "|");
  EXPECT_EQ(rendered("{% macro m(a, b=a) %}{{ b }}{% endmacro %}{{ m(3) }}"), "3");
  EXPECT_EQ(rendered("{% set a = 7 %}{% macro m(b=a) %}{{ b }}{% endmacro %}{% for a in [1] %}{{ m() }}{% endfor %}"), "7");
  EXPECT_EQ(rendered("{% macro m(a='d') %}[{{ a }}]{% endmacro %}{{ m(x) }}{{ m() }}{{ m(a=x) }}"), "[][d][]");
  EXPECT_EQ(
      rendered("{% for i in [1, 2] %}{% macro m() %}{{ i }}{% endmacro %}{% for i in [9] %}{{ m() }}{% endfor %}{% endfor %}"),
      "12");
  EXPECT_EQ(rendered("{% macro f(a) %}{% macro g(b) %}{{ a }}{{ b }}{% endmacro %}{{ g(2) }}{% endmacro %}{{ f(1) }}"), "12");
  EXPECT_EQ(rendered("{% set q = 1 %}{% macro m() %}{{ q }}{% endmacro %}{% set q = 2 %}{{ m() }}"), "2");
  EXPECT_EQ(
      rendered("{% for i in [1] %}{{ loop.depth }}{% for j in [1] %}{{ loop.depth }}{{ loop.depth0 }}{% endfor %}{% endfor %}"),
      "110");
  EXPECT_THAT(rendered("{% macro m(a) %}{% endmacro %}{{ m(1, a=2) }}"), HasSubstr("m: expected one argument a, got two"));
  EXPECT_THAT(rendered("{% for i in [1] %}{% set x %}{% break %}{% endset %}{% endfor %}"), HasSubstr("expected a loop around it"));
  EXPECT_THAT(
      rendered("{% set n = namespace() %}{% for i in [1] %}{% macro m() %}{{ i }}{% endmacro %}{% set n.m = m %}{% endfor %}"
               "{% for i in [2] %}{% set m = n.m %}{{ m() }}{% endfor %}"),
      HasSubstr("m: expected a macro of a block that has not ended, got one of a block that has"));
}

TEST(ChatTemplates, EscapesAreDecodedOrRefused) {
  EXPECT_EQ(rendered("{{ '\\0' | length }} {{ '\\101' }} {{ '\\1018' }} {{ '\\400' }} {{ '\\U0001F600' }} {{ '\\8\\q' }}"),
            "1 A A8 \u0100 \U0001F600 \\8\\q");
  EXPECT_THAT(rendered("{{ '\\N{BULLET}' }}"), HasSubstr("f: line 1: expected an escape that is done, got \\N"));
  EXPECT_THAT(rendered("{{ '\\\u00e9' }}"), HasSubstr("f: line 1: expected an escape that is done"));
  EXPECT_THAT(rendered("{{ '\\U00110000' }}"), HasSubstr("expected a character of at most U+10FFFF, got U+110000"));
}

TEST(ChatTemplates, TagsTakeUnicodesBlanksOff) {
  EXPECT_EQ(rendered("a\u3000{{- 1 -}}\u2028\x1f b"), "a1b");
  EXPECT_EQ(rendered("a\n \u3000\x1f{% if true %}x{% endif %}"), "a\nx");
  EXPECT_EQ(rendered("a \u3000{#- c -#} \u2003b"), "ab");
}

TEST(ChatTemplates, ValuesAreComparedAsPythons) {
  EXPECT_EQ(rendered("{{ '1' is lower }} {{ '' is upper }} {{ 'a1' is lower }} {{ 'aB' is upper }} {{ 1 is lower }}"),
            "False False True False False");
  EXPECT_EQ(rendered("{{ (1, 2) == [1, 2] }} {{ (1, 2) == (1, 2) }} {{ () == [] }} {{ (1, 2)[:1] == (1,) }} "
                     "{{ {'a': 1}.items() | list == [('a', 1)] }} {{ (1,) + (2,) == (1, 2) }} {{ (1, 2) | list == [1, 2] }}"),
            "False True False True True True True");
  EXPECT_EQ(
      rendered("{{ 1 is sameas true }} {{ 1 is sameas 1 }} {{ none is sameas none }} {{ 1.0 is sameas 1 }} {{ x is sameas x }}"),
      "False True True False False");
  EXPECT_EQ(rendered("{{ '12'.isdigit() }} {{ ''.isdigit() }} {{ '\u00e9a'.isdigit() }}"), "True False False");
  EXPECT_THAT(rendered("{{ '1\u00b2'.isdigit() }}"), HasSubstr("isdigit: expected ASCII characters, got others"));
  EXPECT_EQ(
      rendered("{{ [[1, 2]] | map(attribute='1') | join }} {{ [{'a': ['xy']}] | map(attribute='a.0.1') | join }} "
               "{{ [[1]] | map(attribute='5', default=9) | join }} {{ [{'0': 1}] | map(attribute='0', default='no') | join }}"),
      "2 y 9 no");
  EXPECT_THAT(rendered("{{ [{}] | map(attribute='a.b') | join }}"),
              HasSubstr("expected something to have .b, got an undefined value"));
  EXPECT_EQ(rendered("{{ 7 % -3.5 }} {{ 5.3 % 0.1 }} {{ -1.5 % 1 }} {{ -7.5 // 2 }} {{ 5.3 // 0.1 }}"),
            "-0.0 0.09999999999999953 0.5 -4.0 52.0");
}

TEST(ChatTemplates, IntegersDoNotOverflow) {
  const std::string ends = "{% set most = 922337203685477580 * 10 + 7 %}{% set m = 0 - most - 1 %}";
  EXPECT_EQ(rendered(ends + "{{ 5 % most }} {{ -5 % most }} {{ 7 % -3 }} {{ -7 % 3 }} {{ -6 % 3 }}"),
            "5 9223372036854775802 -2 2 0");
  EXPECT_EQ(rendered(ends + "{{ m // 3 }} {{ m % 3 }} {{ m // most }} {{ -7 // 2 }} {{ 7 // -2 }} {{ m % -1 }}"),
            "-3074457345618258603 1 -2 -4 -4 0");
  for (const char* text : {"{{ -m }}", "{{ m | abs }}", "{{ m // -1 }}"})
    EXPECT_THAT(rendered(ends + text), HasSubstr("expected numbers of at most 63 bits, got more")) << text;
  EXPECT_EQ(rendered(ends + "{{ range(most - 7, most, 5) | join(' ') }}"), "9223372036854775800 9223372036854775805");
  EXPECT_EQ(rendered(ends + "{{ 'a-b-c'.split('-', m) | length }} {{ 'aa'.replace('a', 'b', m) }}"), "3 bb");
}

// Templates with bytes changed, cut and doubled: an error or a text, nothing else.
TEST(ChatTemplates, MutatedOnesGiveAnErrorOrAText) {
  std::mt19937 random(7);
  std::vector<std::string> sources;
  for (const auto& entry : std::filesystem::directory_iterator(kTemplates))
    if (entry.path().extension() == ".jinja") sources.push_back(*read_file(entry.path()));
  std::sort(sources.begin(), sources.end());
  const std::vector<ChatMessage> messages = {
      {"system", {TextItem{"s"}}}, {"user", {TextItem{"a"}}}, {"assistant", {TextItem{"b"}}}};
  int compiled = 0, texts = 0;
  for (int i = 0; i < 2000; ++i) {
    std::string s = sources[random() % sources.size()];
    for (int k = 0; k < 3; ++k) {
      const size_t at = random() % s.size(), n = std::min<size_t>(random() % 20, s.size() - at);
      switch (random() % 4) {
        case 0:
          s[at] = "{}%#'\"()[]|.-+ \nx0"[random() % 18];
          break;
        case 1:
          s.erase(at, n);
          break;
        case 2:
          s.insert(at, s.substr(random() % s.size(), n));
          break;
        default:
          s.insert(at, sources[random() % sources.size()].substr(0, n));
          break;
      }
      if (s.empty()) s = "x";
    }
    const auto chat = ChatTemplate::compile(s, "f");
    if (!chat) continue;
    ++compiled;
    texts += chat->render(messages).has_value();
  }
  EXPECT_GT(compiled, 100);
  EXPECT_GT(texts, 10);
}

}  // namespace
}  // namespace slip
