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

std::string times(std::string_view s) {
  std::string out;
  for (int i = 0; i < 5000; ++i) out += s;
  return out;
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
  };
  for (const std::string& source : sources) {
    const auto t = Template::compile(source, "f");
    if (!t) continue;
    const auto text = t->render({});
    EXPECT_FALSE(text) << source.substr(0, 60);
  }
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
