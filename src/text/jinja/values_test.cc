// SPDX-License-Identifier: Apache-2.0
// Values of chat templates that are no plain ones: functions and methods without a call, what filters give piece by piece, namespaces. What is
// expected is what Jinja2 3.1.6 gives in its immutable sandbox.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "text/jinja/jinja.h"

namespace slip {
namespace {

using testing::HasSubstr;

std::string given(std::string_view source) {
  const auto t = jinja::Template::compile(source, "f");
  if (!t) return t.error().message;
  const auto text = t->render({});
  return text ? *text : text.error().message;
}

// What the language brings is defined, and a name behind a point is Python's own before it is a key's.
TEST(TemplateValues, FunctionsAndMethodsAreThereWithoutACall) {
  EXPECT_EQ(given("{{ range is defined }} {{ namespace is callable }} {{ cycler is defined }} {{ nothing is defined }} "
                  "{{ strftime_now is defined }}"),
            "True True True False False");
  EXPECT_EQ(given("{{ 'a'.upper is defined }} {{ 'a'.upper is callable }} {{ 'a'.nothing is defined }} {{ 'a'['lower'] and 1 }}"),
            "True True False 1");
  EXPECT_EQ(given("{{ {'items': 5}.items is callable }} {{ {'items': 5}['items'] }} {{ {}['items'] is callable }} "
                  "{{ {'update': 3}.update is defined }} {{ {'update': 3}['update'] }} {{ {}['update'] is defined }}"),
            "True 5 True False 3 False");
  EXPECT_EQ(given("{{ [1].count is callable }} {{ [1].append is defined }} {{ [1]['index'] is callable }} "
                  "{{ (1,).count is callable }} {{ (1,).copy is defined }}"),
            "True False True True False");
  EXPECT_EQ(given("{% if {}.items %}yes{% endif %} {{ {}.items.type is defined }} "
                  "{{ [{'items': 1}, {}] | map(attribute='items') | select('callable') | list | length }}"),
            "yes False 1");
  EXPECT_EQ(given("{% set n = namespace(items=3) %}{{ n.items }} {{ n.keys is defined }} {{ n is mapping }} {{ n is iterable }}"),
            "3 False False False");
  const std::vector<std::pair<std::string, std::string>> refused = {
      {"'a'.upper", "expected text or a number to print, got a function that is not called"},
      {"range", "expected text or a number to print, got a function that is not called"},
      {"{}.items | list", "got a function that is not called"},
      {"(1).real", "expected no parts of numbers, got .real"},
      {"namespace(a=1) | length", "got a namespace"},
      {"namespace(a=1) | list", "got a namespace"},
      {"'a' in namespace(a=1)", "got a namespace"},
  };
  for (const auto& [expression, part] : refused)
    EXPECT_THAT(given(fmt::format("{{{{ {} }}}}", expression)), HasSubstr(part)) << expression;
  EXPECT_THAT(given("{% set range = 1 %}{{ range(2) }}"), HasSubstr("range: expected a function or macro, got an integer"));
  EXPECT_THAT(given("{% macro m() %}{% endmacro %}{{ m.name }}"), HasSubstr("expected no parts of macros, got .name"));
}

// Generators: an `if` takes them for true, and who walks over one twice has written a mistake.
TEST(TemplateValues, WhatFiltersGiveIsLazy) {
  EXPECT_EQ(given("{{ 1 if [] | selectattr('a') }}{{ 1 if [] | map('upper') }}"
                  "{{ 1 if [] | unique }}{{ 1 if [] | reverse }}{{ 1 if {} | items }}"),
            "11111");
  EXPECT_EQ(given("{{ 1 if {}.items() else 0 }}{{ 1 if [] | sort else 0 }}{{ 1 if {} | dictsort else 0 }}"
                  "{{ 1 if [] | select | list else 0 }}"),
            "0000");
  EXPECT_EQ(given("{{ ([1] | select)[0] is defined }} {{ ['a'] | map('upper') == ['A'] }} {{ 'A' in ['a'] | map('upper') }} "
                  "{{ [1] | select is iterable }} {{ [1] | select is sequence }} {{ [1] | select | first }} "
                  "{{ ([1, 2] | select | reverse)[0] }} {% for x in [1, 2] | select %}{{ loop.length }}{% endfor %}"),
            "False False True True False 1 2 22");
  EXPECT_EQ(given("{% set g = [1, 2] | select | list %}{{ g | length }}{{ g | join }}{{ g[1] }}"), "2122");
  const std::vector<std::pair<std::string, std::string>> refused = {
      {"[1] | select | length", "length: expected a list, a string or a dictionary, got a filter's elements"},
      {"[1] | select | last", "last: expected a list, got a filter's elements"},
      {"([1] | select) + [2]", "got a filter's elements"},
      {"[1] | select | tojson", "expected a value that JSON has, got a filter's elements"},
      {"([1] | select)[1:]", "to take a slice of, got a filter's elements"},
  };
  for (const auto& [expression, part] : refused)
    EXPECT_THAT(given(fmt::format("{{{{ {} }}}}", expression)), HasSubstr(part)) << expression;
  EXPECT_THAT(given("{% set g = [1, 2] | select %}{{ g | list | length }}{{ g | list | length }}"),
              HasSubstr("expected a list, got a filter's elements once more, of which nothing is left (| list keeps them)"));
}

}  // namespace
}  // namespace slip
