// SPDX-License-Identifier: Apache-2.0
// What validators say of random answers of a form.
#pragma once
#include <gtest/gtest.h>

#include <ctime>
#include <ostream>
#include <string>

#include "base/philox.h"
#include "form/schema/random_answer_testing.h"
#include "form/schema/values.h"
#include "form/schema_testing.h"

namespace slip::test {

/// Empty, or what is wrong with one of five random answers, which go to `out` as lines for tests/form/validate.py.
inline std::string wrong_with(const json::value& schema, const CompiledForm& form, const Tokenizer& t, uint64_t seed, int* gave_up,
                              std::ostream* out = nullptr) {
  PhiloxStream r(seed, 3);
  for (int k = 0; k < 5; ++k) {
    const auto tokens = random_answer(form.form, r);
    const std::string text = answer_text(form, tokens, t);
    if (out) *out << json::object{{"schema", schema}, {"answer", text}} << "\n";
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

/// A schema whose random answers are valid, or the message with which it is refused.
inline std::string answers_or_message(std::string_view text) {
  const Tokenizer t = test::character_tokenizer();
  const auto schema = parse_json(text, "test");
  EXPECT_TRUE(schema) << schema.error().message;
  const auto form = compile_schema(*schema, "f", {&t, std::nullopt, t.size()});
  if (!form) return form.error().message;
  int gave_up = 0;
  for (uint64_t n = 0; n < 20; ++n) EXPECT_EQ(wrong_with(*schema, *form, t, n, &gave_up), "") << text;
  return "valid";
}

struct Outcome {
  std::optional<ErrorKind> kind;  // nothing: a form was made
  std::string message;            // of the error, or what is wrong with an answer
};

/// Of a schema; its random answers are held to `oracle`, for words of JSON Schema that valijson does not know.
inline Outcome outcome_of(const std::string& text, const std::string& oracle) {
  const Tokenizer t = character_tokenizer();
  const auto schema = parse_json(text, "test");
  if (!schema) return {schema.error().kind, schema.error().message};
  const auto form = compile_schema(*schema, "f", {&t, std::nullopt, t.size()});
  if (!form) return {form.error().kind, form.error().message};
  int gave_up = 0;
  for (const uint64_t seed : {3, 4, 5, 6})
    if (const std::string wrong = wrong_with(*parse_json(oracle, "test"), *form, t, seed, &gave_up); !wrong.empty())
      return {std::nullopt, wrong};
  return {};
}
inline Outcome outcome_of(const std::string& text) { return outcome_of(text, text); }

/// Of an object whose member `v` has the schema.
inline std::string with_member(const std::string& schema) {
  return R"({"type": "object", "required": ["v"], "properties": {"v": )" + schema + "}}";
}
inline Outcome member(const std::string& schema) { return outcome_of(with_member(schema)); }
inline Outcome member(const std::string& schema, const std::string& oracle) {
  return outcome_of(with_member(schema), with_member(oracle));
}

/// Seconds of this thread's own: what other programs take does not count.
inline double now() {
  timespec t{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
  return static_cast<double>(t.tv_sec) + static_cast<double>(t.tv_nsec) * 1e-9;
}

}  // namespace slip::test
