// SPDX-License-Identifier: Apache-2.0
// Schemas that people hand in: what --check says of them, and keys that stand twice.
#include <gmock/gmock.h>

#include "tests/cli/answer.h"

namespace slip::test {
namespace {

class Forms : public Small {
 protected:
  struct Wrong {
    std::string pointer, kind;
    bool operator==(const Wrong&) const = default;
  };
  std::vector<Wrong> errors_of(const std::string& file, int code, const std::vector<std::string>& more = {}) {
    std::vector<std::string> arguments{"form", file, "--check", "--json"};
    arguments.insert(arguments.end(), more.begin(), more.end());
    const Ran ran = run(arguments);
    EXPECT_EQ(ran.code, code) << ran.err;
    const auto v = parse_json(ran.out, "stdout");
    if (!v) {
      ADD_FAILURE() << v.error().message;
      return {};
    }
    EXPECT_EQ(v->at("supported").as_bool(), code == 0);
    std::vector<Wrong> out;
    for (const json::value& e : v->at("errors").as_array()) {
      EXPECT_FALSE(e.at("message").as_string().empty());
      out.push_back({std::string(e.at("pointer").as_string()), std::string(e.at("kind").as_string())});
    }
    return out;
  }
};

constexpr const char* kTwice = R"({"type": "object", "properties": {"a/b": {"enum": ["x"]},
  "c": {"enum": [{"k": 1, "\u006b": 2}, "y"]}, "a/b": {"type": "boolean"}}})";

TEST_F(Forms, AKeyThatStandsTwiceIsRefused) {
  const std::string file = write("twice.json", kTwice);
  const std::string words = "2 errors: #/properties/c/enum/0/k: expected each key once, got it again; #/properties/a~1b: expected";
  refused({"form", file}, 3, words);
  refused({"form", file, "--model", demo_model()}, 3, words);
  refused({"form", file, "--schema"}, 3, words);
  refused(request({"--form", file}), 3, words);
  const Ran piped = run(request({"--form", "-"}), kTwice);
  EXPECT_EQ(piped.code, 3);
  EXPECT_THAT(piped.err, testing::HasSubstr(words));
  EXPECT_EQ(errors_of(file, 3), (std::vector<Wrong>{{"#/properties/c/enum/0/k", "bad_input"}, {"#/properties/a~1b", "bad_input"}}));
}

TEST_F(Forms, ASchemaMayComeFromAPipe) {
  const Ran checked = run({"form", "-", "--check", "--model", demo_model()}, R"( {"enum": ["a", "b"]})");
  EXPECT_EQ(checked.code, 0) << checked.err;
  EXPECT_THAT(checked.out, testing::HasSubstr("form schema: supported, in the tokens of"));
  EXPECT_THAT(run({"form", "-"}, R"({"enum": ["yes", "no"]})").out, testing::HasSubstr("one of 2 words"));
  EXPECT_EQ(run({"form", "-"}, R"({"enum": 3})").code, 3);
  const Ran other = run({"form", "-"}, "wod-e2e");
  EXPECT_EQ(other.code, 3);
  EXPECT_THAT(other.err, testing::HasSubstr("standard input: expected a JSON Schema, an object, got 'wod-e2e'"));
}

// Without a model too: what no vocabulary tells apart needs none to be refused, and what nothing is held to is told.
TEST_F(Forms, CheckTellsWithoutAModelWhatNoModelDoes) {
  const auto one = [&](const char* schema, int code) { return errors_of(write("one.json", schema), code); };
  EXPECT_EQ(one(R"({"anyOf": [{"type": "object", "properties": {"a": {"type": "integer"}}}, {"type": "null"}]})", 4),
            (std::vector<Wrong>{{"#", "not_supported"}}));
  const Ran perhaps = run({"form", write("perhaps.json", R"({"type": "object", "properties": {"e": {"anyOf": [
    {"type": "object", "additionalProperties": {"type": "integer"}},
    {"type": "object", "properties": {"t": {"type": "integer"}}, "additionalProperties": false, "required": ["t"]}]}}})"),
                           "--check"});
  EXPECT_EQ(perhaps.code, 0) << "a model's tokens may tell apart what bytes do not";
  EXPECT_THAT(perhaps.out, testing::HasSubstr("note: #/properties/e: in single bytes, which tell less apart"));
  EXPECT_EQ(one(R"({"type": "object", "properties": {"a": {"type": "string", "pattern": "^b+$", "x-parents": ["a"]}}})", 3),
            (std::vector<Wrong>{{"#/properties/a", "bad_input"}}));
  EXPECT_EQ(one(R"({"type": "object", "properties": {"a": {"type": "string", "pattern": "^b+$", "x-parents": ["b"]},
     "b": {"type": "string", "pattern": "^b+$", "x-parents": ["a"]}}})",
                3),
            (std::vector<Wrong>{{"#", "bad_input"}}));
  refused({"form", path("one.json")}, 3, "expected fields without cycles, got a <- b <- a");
  EXPECT_EQ(one(R"([{"type": "function", "function": {"name": "f", "parameters": {"type": "object"}}}])", 3),
            (std::vector<Wrong>{{"#", "bad_input"}}));
  // What models take is not refused without one: an integer and a string behind a key that both alternatives share.
  EXPECT_TRUE(
      one(R"({"anyOf": [{"type": "object", "properties": {"id": {"type": "integer"}, "a": {"type": "boolean"}}, "required": ["id", "a"]},
     {"type": "object", "properties": {"id": {"type": "string"}, "c": {"type": "boolean"}}, "required": ["id", "c"]}]})",
          0)
          .empty());
  const Ran noted =
      run({"form", write("noted.json", R"({"type": "object", "properties": {"id": {"type": "string", "format": "uuid4"},
    "n": {"type": "integer", "format": "int64"}}})"),
           "--check"});
  EXPECT_EQ(noted.code, 0) << noted.err;
  EXPECT_THAT(noted.out, testing::EndsWith("\nnote: #/properties/id/format: 'uuid4' is a remark, to which no text is held\n"));
  const Ran laid_out =
      run({"form", write("optional.json", R"({"type": "object", "properties": {"a": {"type": "integer"}}, "required": []})")});
  EXPECT_EQ(laid_out.code, 0) << laid_out.err;
  EXPECT_THAT(laid_out.out, testing::HasSubstr("in single bytes; --model MODEL lays it out"));
  EXPECT_THAT(laid_out.out, testing::HasSubstr("choice(1)"));
}

TEST_F(Forms, AnIntegerThatNothingHoldsIsRefused) {
  const std::string file = write("large.json", R"({"type": "object", "properties": {"a": {"const": 123456789012345678901}}})");
  refused({"form", file}, 3, "#/properties/a/const: expected integers that 64 bits or a double hold");
  EXPECT_EQ(errors_of(file, 3), (std::vector<Wrong>{{"#/properties/a/const", "bad_input"}}));
}

TEST_F(Forms, CheckSaysAllThatIsWrong) {
  const std::string file =
      write("wrong.json", R"({"type": "object", "properties": {"speed": {"type": "integer", "minimum": 9, "maximum": 3},
    "x": {"type": "array", "items": {"type": "integer"}, "contains": {"const": 1}}, "gear": {"type": "string", "const": 4}}})");
  const Ran ran = run({"form", file, "--check"});
  EXPECT_EQ(ran.code, 3);
  EXPECT_EQ(std::count(ran.out.begin(), ran.out.end(), '\n'), 3) << ran.out;
  for (const char* place : {"#/properties/speed: ", "#/properties/x/contains: ", "#/properties/gear: "})
    EXPECT_TRUE(ran.out.starts_with(place) || ran.out.find(std::string("\n") + place) != std::string::npos) << place << ran.out;
  EXPECT_THAT(ran.err, testing::HasSubstr("expected a schema that is supported, got one with 3 errors"));
  EXPECT_THAT(errors_of(file, 3), testing::UnorderedElementsAre(Wrong{"#/properties/speed", "bad_input"},
                                                                Wrong{"#/properties/x/contains", "not_supported"},
                                                                Wrong{"#/properties/gear", "bad_input"}));
  const std::string contains =
      write("contains.json", R"({"type": "array", "items": {"type": "integer"}, "contains": {"const": 1}})");
  EXPECT_EQ(errors_of(contains, 4), (std::vector<Wrong>{{"#/contains", "not_supported"}}));
  EXPECT_EQ(errors_of(write("cut.json", R"({"type": )"), 3), (std::vector<Wrong>{{"#", "bad_input"}}));
  const std::string trained =
      write("trained.json", R"({"type": "object", "x-layout": "lines", "properties": {"a": {"type": "string", "minLength": 2}}})");
  EXPECT_EQ(errors_of(trained, 4), (std::vector<Wrong>{{"#/properties/a", "not_supported"}}));
}

TEST_F(Forms, AModelOfTextHasNoFormOfItsOwn) {
  refused({"form", "model", "--model", SLIP_SOURCE_DIR "/models/tri"}, 3, "expected a model that was trained for a form");
}

TEST_F(Forms, CheckTakesWhatIsSupported) {
  const std::string open = write("open.json", R"({"type": "object", "properties": {"id": {"type": "string", "format": "uuid"},
    "next": {"anyOf": [{"type": "null"}, {"type": "integer", "minimum": 0}]}}, "required": ["id"]})");
  for (const std::string& form : {open, std::string("wod-e2e"), std::string("drive-cot")}) {
    EXPECT_THAT(run({"form", form, "--check"}).out, testing::HasSubstr("supported"));
    EXPECT_TRUE(errors_of(form, 0).empty()) << form;
    EXPECT_TRUE(errors_of(form, 0, {"--model", demo_model()}).empty()) << form;
  }
  // What only a tokenizer can tell: two alternatives whose values begin alike.
  const std::string alike = write(
      "alike.json", R"({"anyOf": [{"type": "object", "properties": {"a": {"type": "string", "maxLength": 9}, "b": {"const": 1}}},
    {"type": "object", "properties": {"a": {"type": "string"}, "c": {"const": 1}}}]})");
  EXPECT_EQ(errors_of(alike, 4, {"--model", demo_model()}).size(), 1U);
  refused({"form", path("none.json"), "--check"}, 3, "none.json");
  refused({"form", "unheard-of", "--check"}, 3, "expected a built-in");
}

TEST_F(Forms, ListsOfListsOfListsAreSupportedWithFewerItems) {
  const std::string file = write(
      "lists.json", R"({"type": "array", "items": {"type": "array", "items": {"type": "array", "items": {"type": "boolean"}}}})");
  EXPECT_TRUE(errors_of(file, 0).empty());
  EXPECT_TRUE(errors_of(file, 0, {"--model", demo_model()}).empty());
}

TEST_F(Forms, AnAnswerThatFitsNoRequestToAModelIsSaid) {
  const std::string file =
      write("long.json", R"({"type": "object", "properties": {"a": {"type": "array", "minItems": 60, "maxItems": 60,
    "items": {"type": "string", "maxLength": 100, "x-budget": 60}}}})");
  EXPECT_TRUE(errors_of(file, 0).empty());
  EXPECT_EQ(errors_of(file, 4, {"--model", demo_model()}), (std::vector<Wrong>{{"#", "not_supported"}}));
  EXPECT_THAT(run({"form", file, "--check", "--model", demo_model()}).out,
              testing::HasSubstr("longest answer of fewer than 2048 tokens"));
}

}  // namespace
}  // namespace slip::test
