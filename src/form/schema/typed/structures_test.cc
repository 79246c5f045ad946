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
           {R"("allOf": [{"properties": {"a": {"type": "null"}}}, {"required": ["x", "a"]}])",
            R"("properties": {"a": {"type": "null"}})"},
           {R"("properties": {"a": {"type": "null"}}, "required": ["x"], "anyOf": [{"required": ["a"]}, {"required": ["x"]}])",
            R"("properties": {"a": {"type": "null"}})"}}) {
    const Outcome o = outcome_of(R"({"type": "object", "unevaluatedProperties": )" + digit + ", " + schema + "}",
                                 R"({"additionalProperties": )" + digit + (oracle.empty() ? "" : ", ") + oracle + "}");
    EXPECT_EQ(o.message, "") << schema;
  }
  const Outcome closed =
      outcome_of(R"({"type": "object", "unevaluatedProperties": false, "patternProperties": {"^a": {"type": "null"}},
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

/// Also where properties name a member that propertyNames forbid, and the object has any names then.
TEST(PatternProperties, AreOfNamesThatTheirPatternFits) {
  const std::string keywords =
      R"("additionalProperties": {"enum": [1, 2]}, "patternProperties": {"b$": {"type": "array", "maxItems": 0}},
                                  "propertyNames": {"pattern": "^a"})";
  for (const char* properties : {R"("properties": {"c": {}}, )", ""})
    EXPECT_EQ(outcome_of(R"({"type": "object", )" + std::string(properties) + keywords + "}").message, "") << properties;
}

/// What is no object has no member that an `if` speaks of: `if` holds for it, and `then` has to.
TEST(Conditions, HoldForWhatIsNoObject) {
  const std::string members = R"("properties": {"k": {"enum": ["a", "b"]}}, "if": {"properties": {"k": {"const": "a"}}}, )";
  for (const std::string types : {R"("type": ["integer", "object"], )", R"("type": ["object", "integer"], )"})
    EXPECT_EQ(
        member("{" + types + members + R"("minimum": 0, "maximum": 9, "then": {"maximum": 3}, "else": {"minimum": 5}})").message,
        "");
  EXPECT_EQ(
      member("{" + members + R"("type": ["integer", "object"], "then": {"type": "object"}, "else": {"type": "integer"}})").message,
      "");
  EXPECT_EQ(member(R"({"type": ["integer", "object"], "properties": {"k": {"enum": ["a", "b"]}}, "minimum": 0, "maximum": 9,
                       "if": {"type": "object", "properties": {"k": {"const": "a"}}}, "then": {}, "else": {"minimum": 5}})")
                .message,
            "")
      << "it asks for an object: else holds for others";
  EXPECT_EQ(member(R"({"type": ["integer", "object"], "properties": {"k": {"enum": ["a", "b"]}}, "minimum": 0, "maximum": 9,
                       "if": {"type": ["object", "integer"], "properties": {"k": {"const": "a"}}}, "then": {"maximum": 3}})")
                .message,
            "");
}

/// An answer says which way a condition goes, but what has no such member is valid as well: it is in two alternatives here.
TEST(Conditions, AskForNoMember) {
  const Outcome o = member(R"({"oneOf": [{"type": "object", "properties": {"z": {"const": 1}}, "required": ["z"]},
      {"type": "object", "properties": {"k": {"enum": [1, 2]}}, "if": {"properties": {"k": {"const": 1}}},
       "then": {"properties": {"n": {"const": 1}}}, "else": {"properties": {"n": {"const": 2}}}}]})");
  EXPECT_EQ(o.kind, ErrorKind::kUnsupported) << o.message;
}

/// Nothing is made of `then` where the member has no value for it; objects without the member are valid for it.
TEST(Conditions, OfWhichNoBranchIsMadeHoldForObjectsWithoutTheMember) {
  const Outcome o = member(R"({"oneOf": [{"type": "object", "properties": {"z": {"const": 1}}, "required": ["z"]},
      {"type": "object", "properties": {"k": {"enum": ["b"]}}, "if": {"properties": {"k": {"const": "a"}}},
       "else": {"required": ["m"], "properties": {"m": {"const": 1}}}}]})");
  EXPECT_EQ(o.kind, ErrorKind::kUnsupported) << o.message;
}

/// Alternatives that a pattern, or members of other alternatives, leave open share values.
TEST(UnevaluatedProperties, CloseNoAlternativeThatPatternsOpen) {
  const auto inside = [](const std::string& schema) {
    return R"({"type": "object", "required": ["m"], "properties": {"m": {"type": "object", )" + schema + "}}}";
  };
  const Outcome o = member(R"({"oneOf": [)" + inside(R"("properties": {"ab": {"const": 1}}, "required": ["ab"])") + ", " +
                           inside(R"("properties": {"c": {"const": 2}}, "patternProperties": {"^a": {"const": 1}},
                                     "unevaluatedProperties": false)") +
                           "]}");
  EXPECT_EQ(o.kind, ErrorKind::kUnsupported) << o.message;
  EXPECT_THAT(o.message, HasSubstr("expected alternatives of which no value fits two"));
}

/// A schema with an $id of its own is read against that [2020-12, 8.2.1]; an $id of a fragment alone is an anchor of older drafts.
TEST(References, InSchemasWithAnIdOfTheirOwnAreRefused) {
  const auto refer = [](const std::string& id, const std::string& to) {
    return outcome_of(R"({"$defs": {"A": {)" + id + R"("$defs": {"q": {"const": "one"}}, "$ref": ")" + to +
                      R"("}, "q": {"const": "two", "$anchor": "q"}}, "$ref": "#/$defs/A"})");
  };
  for (const char* to : {"#/$defs/q", "#q", "#"}) {
    const Outcome o = refer(R"("$id": "http://e.org/a", )", to);
    EXPECT_EQ(o.kind, ErrorKind::kUnsupported) << to;
    EXPECT_THAT(o.message, HasSubstr("#/$defs/A/$ref: expected no reference in a schema with an $id of its own")) << to;
  }
  for (const char* id : {"", R"("$id": "#A", )"}) EXPECT_EQ(refer(id, "#/$defs/q").message, "") << id;
  EXPECT_EQ(outcome_of(R"({"$id": "http://e.org/r", "$ref": "#/$defs/q", "$defs": {"q": {"$id": "q", "const": "two"}}})").message,
            "");
  EXPECT_EQ(outcome_of(R"({"$defs": {"A": {"$id": "a", "$defs": {"q": {"$anchor": "q"}}}}, "$ref": "#q"})").kind,
            ErrorKind::kBadInput)
      << "an anchor of another schema";
}

TEST(PropertyNames, MayReferToTrueOrFalse) {
  const auto names = [](const std::string& value) {
    return outcome_of(R"({"type": "object", "properties": {"a": {"type": "null"}}, "propertyNames": {"$ref": "#/$defs/any"},
                          "$defs": {"any": )" +
                      value + "}}");
  };
  EXPECT_EQ(names("true").message, "");
  EXPECT_EQ(names("false").message, "");
}

TEST(Refusals, AlternativesBesideEachOtherHaveABound) {
  std::string all;
  for (int i = 0; i < 60; ++i) all += fmt::format(R"({}{{"anyOf": [{{"maxLength": {}}}]}})", i > 0 ? ", " : "", 5 + i);
  const Outcome o = member(R"({"type": "string", "allOf": [)" + all + "]}");
  EXPECT_EQ(o.kind, ErrorKind::kUnsupported);
  EXPECT_THAT(o.message, HasSubstr("#/properties/v: expected at most 48 levels of alternatives, got more"));
}

/// Members that no properties name could meet a rule, which is no mistake then.
TEST(Refusals, RulesThatMoreMembersMeetAreNotDone) {
  const std::string one = R"({"properties": {"a": {"type": "null"}}, "type": "object", )";
  for (const char* rule : {R"("anyOf": [{"minProperties": 2}]})", R"("not": {"maxProperties": 1}})"}) {
    const Outcome o = outcome_of(one + rule);
    EXPECT_EQ(o.kind, ErrorKind::kUnsupported) << rule << o.message;
    EXPECT_THAT(o.message,
                HasSubstr("expected rules that members which properties names meet, got one that takes more than these 1"))
        << rule;
  }
  for (const char* rule : {R"("anyOf": [{"minProperties": 2}], "maxProperties": 1})",
                           R"("anyOf": [{"minProperties": 2}], "additionalProperties": false})",
                           R"("anyOf": [{"minProperties": 2}], "propertyNames": {"enum": ["a"]}})"})
    EXPECT_EQ(outcome_of(one + rule).kind, ErrorKind::kBadInput) << rule;
}

}  // namespace
}  // namespace slip
