// SPDX-License-Identifier: Apache-2.0
// Keywords that speak of each other's members, conditions and references: what each of them holds for.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "form/form_testing.h"
#include "form/schema/typed/open_form_testing.h"

namespace slip {
namespace {

using test::member;
using test::Outcome;
using test::outcome_of;
using testing::HasSubstr;

/// A member that `required` or propertyNames alone name is not evaluated. valijson does not know the keyword: additionalProperties say the
/// same where one schema names all members.
TEST(UnevaluatedProperties, HoldForMembersThatNothingElseNames) {
  const std::string digit = R"({"enum": [0, 1, 2, 3]})";
  for (const auto& [schema, oracle] : std::vector<std::pair<std::string, std::string>>{
           {R"("required": ["x"])", ""},
           {R"("propertyNames": {"enum": ["x", "y"]})", R"("propertyNames": {"enum": ["x", "y"]})"},
           {R"("patternProperties": {"^a": {"type": "null"}}, "required": ["ab", "x"])",
            R"("patternProperties": {"^a": {"type": "null"}})"},
           {R"("allOf": [{"properties": {"a": {"type": "null"}}}, {"required": ["x", "a"]}])", R"("properties": {"a": {"type": "null"}})"},
           {R"("properties": {"a": {"type": "null"}}, "required": ["x"], "anyOf": [{"required": ["a"]}, {"required": ["y"]}])",
            R"("properties": {"a": {"type": "null"}})"}}) {
    const Outcome o = outcome_of(R"({"type": "object", "unevaluatedProperties": )" + digit + ", " + schema + "}",
                                 R"({"additionalProperties": )" + digit + (oracle.empty() ? "" : ", ") + oracle + "}");
    EXPECT_TRUE(!o.kind || o.kind == ErrorKind::kUnsupported) << schema << o.message;
    if (!o.kind) EXPECT_EQ(o.message, "") << schema;
  }
  const Outcome closed = outcome_of(R"({"type": "object", "unevaluatedProperties": false, "patternProperties": {"^a": {"type": "null"}},
                                        "properties": {"b": {"type": "null"}}, "required": ["x"]})");
  EXPECT_EQ(closed.kind, ErrorKind::kBadInput) << "x is required and no member may have it";
  const Outcome all = outcome_of(R"({"type": "object", "additionalProperties": {"type": "null"}, "required": ["x"],
                                     "unevaluatedProperties": {"type": "boolean"}})");
  EXPECT_EQ(all.message, "") << "additionalProperties evaluate all";
}

/// What an `if` that does not hold speaks of is not evaluated by it.
TEST(UnevaluatedProperties, OfAConditionAreThoseThatItsBranchDoesNotName) {
  const std::string condition = R"("if": {"properties": {"k": {"const": "a"}}}, "then": {"properties": {"n": {"const": 1}}},
                                   "else": {"properties": {"m": {"const": 2}}})";
  const Outcome o = outcome_of(R"({"type": "object", "unevaluatedProperties": false, )" + condition + "}",
                               R"({"additionalProperties": false, "properties": {"k": {"const": "a"}, "n": {"const": 1}}})");
  EXPECT_EQ(o.message, "");
  const Outcome named = outcome_of(
      R"({"type": "object", "properties": {"k": {"enum": ["a", "b"]}}, "unevaluatedProperties": false, )" + condition + "}",
      R"({"additionalProperties": false, "properties": {"k": {"enum": ["a", "b"]}, "n": {"const": 1}, "m": {"const": 2}}, )" +
          condition + "}");
  EXPECT_EQ(named.message, "");
}

/// Alternatives that a pattern, or members of other alternatives, leave open share values.
TEST(UnevaluatedProperties, CloseNoAlternativeThatPatternsOpen) {
  const Outcome o = member(R"({"oneOf": [{"type": "object", "properties": {"ab": {"const": 1}}, "required": ["ab"]},
      {"type": "object", "properties": {"c": {"const": 2}}, "patternProperties": {"^a": {"const": 1}}, "unevaluatedProperties": false}]})");
  EXPECT_EQ(o.kind, ErrorKind::kUnsupported) << o.message;
}

}  // namespace
}  // namespace slip
