// SPDX-License-Identifier: Apache-2.0
// Forms of any schema: every exact preset writes the same answer, greedy and sampled, and the answer is valid for the schema by a validator
// that we did not write. tests/form/validate.py asks a second one.
#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>

#include "decode/decoder.h"
#include "decode/testing/hash_lm_testing.h"
#include "form/form_testing.h"
#include "form/schema/values.h"
#include "form/schema_testing.h"

namespace slip {
namespace {

using test::HashLm;

Prompt short_prompt() {
  Prompt p;
  for (int32_t i = 0; i < 3; ++i) {
    p.inputs.emplace_back(TokenId{65 + i});
    p.positions.push_back(Position::text(i));
  }
  p.next_position = 3;
  return p;
}

Result<Decoded> answer(const CompiledForm& form, const HashLm::Options& lm, const DecodeOptions& options, std::string_view preset) {
  HashLm model(lm);
  return decode(model, short_prompt(), &form.form, preset, options);
}

/// Schemas, models and settings at random; those that are refused are counted.
class OpenForms : public testing::Test {
 protected:
  const Tokenizer tokenizer = test::character_tokenizer();
  int compiled = 0, refused = 0, branching = 0, gave_up = 0;

  template <class Visit>
  void each(uint64_t count, Visit&& visit) {
    for (uint64_t n = 0; n < count; ++n) {
      const json::value schema = test::RandomSchema(n).root();
      auto form = compile_schema(schema, "random", {&tokenizer, std::nullopt, 259});
      if (!form) {
        ++refused;
        if (std::getenv("SLIP_SHOW_REFUSED")) printf("%llu %s\n", static_cast<unsigned long long>(n), form.error().message.c_str());
        continue;
      }
      ++compiled;
      branching += form->form.branches();
      HashLm::Options lm{.seed = n + 1, .vocab = 259, .slots = 70000, .shift = n % 2 == 0, .habit = (n % 5) / 5.0};
      DecodeOptions options;
      if (n % 3 != 0) options.temperature = 0.3F + static_cast<float>(n % 7) / 4;
      options.seed = n;
      visit(n, schema, *form, lm, options);
    }
  }
};

TEST_F(OpenForms, AnswersAreValidForTheirSchema) {
  std::ofstream out;
  if (const char* file = std::getenv("SLIP_ANSWERS")) out.open(file);
  each(100,
       [&](uint64_t n, const json::value& schema, const CompiledForm& form, const HashLm::Options& lm, const DecodeOptions& o) {
         const auto a = answer(form, lm, o, "scaffold-ar");
         ASSERT_TRUE(a) << n << " " << a.error().message;
         const std::string text = answer_text(form, a->tokens, tokenizer);
         const auto document = parse_json(text, "answer");
         ASSERT_TRUE(document) << n << " " << document.error().message << "\n" << text << "\n" << schema;
         ASSERT_EQ(test::why_invalid(schema, *document, &gave_up), "") << n << "\n" << text << "\n" << schema;
         const auto values = parse(form, a->tokens, tokenizer);
         ASSERT_TRUE(values) << n << " " << values.error().message << "\n" << text;
         const auto split = split_answer(form.form, a->tokens);
         ASSERT_TRUE(split) << n;
         ASSERT_EQ(*split, a->fields) << n << " " << text;
         ASSERT_EQ(assemble(form.form, *split), a->tokens) << n;
         if (out.is_open()) out << json::object{{"schema", schema}, {"answer", text}} << "\n";
       });
  EXPECT_GT(compiled, 80);
  EXPECT_LT(gave_up, compiled / 20);
  EXPECT_GT(branching, 40) << "shapes that depend on values";
  RecordProperty("refused", refused);
}

TEST_F(OpenForms, AllExactPresetsAlongAGraphAgree) {
  int differs = 0;
  each(40, [&](uint64_t n, const json::value& schema, const CompiledForm& form, const HashLm::Options& lm,
               const DecodeOptions& options) {
    DecodeOptions o = options;
    o.visibility = Visibility::kGraph;
    const auto a = answer(form, lm, o, "fields");
    ASSERT_TRUE(a) << n << " " << a.error().message;
    const std::string text = answer_text(form, a->tokens, tokenizer);
    const auto document = parse_json(text, "answer");
    ASSERT_TRUE(document) << n << " " << document.error().message << "\n" << text;
    ASSERT_EQ(test::why_invalid(schema, *document, &gave_up), "") << n << "\n" << text << "\n" << schema;
    for (const char* preset : {"scaffold-ar", "fields-spec"}) {
      const auto b = answer(form, lm, o, preset);
      ASSERT_TRUE(b) << n << " " << preset << " " << b.error().message;
      ASSERT_EQ(b->tokens, a->tokens) << n << " " << preset << "\n" << text << "\n" << answer_text(form, b->tokens, tokenizer);
      ASSERT_EQ(b->fields, a->fields) << n << " " << preset;
    }
    HashLm::Options spoilt = lm;
    spoilt.spoil_drafts = true;
    const auto c = answer(form, spoilt, o, "fields-spec");
    ASSERT_TRUE(c) << n;
    ASSERT_EQ(c->tokens, a->tokens) << n;
    const auto chain = answer(form, lm, options, "scaffold-ar");
    differs += chain && chain->tokens != a->tokens;
  });
  EXPECT_GT(differs, 0) << "the two visibilities are two";
}

// Every item of "a" begins with the same token, and the list may end where its first item would stand: that token is not the only one there.
TEST_F(OpenForms, ItemsThatBeginAlikeMayBeMissing) {
  const json::value schema =
      json::parse(R"({"type": "object", "required": ["a", "b"], "additionalProperties": false, "properties": {
    "a": {"type": "array", "items": {"enum": [10, 12]}, "maxItems": 2}, "b": {"type": "boolean"}}})");
  const auto form = compile_schema(schema, "alike", {&tokenizer, std::nullopt, 259});
  ASSERT_TRUE(form) << form.error().message;
  int empty = 0, filled = 0;
  for (uint64_t n = 0; n < 40; ++n) {
    const HashLm::Options lm{.seed = n + 1, .vocab = 259, .slots = 70000};
    for (const Visibility visibility : {Visibility::kChain, Visibility::kGraph}) {
      DecodeOptions o;
      o.temperature = 1;
      o.seed = n;
      o.visibility = visibility;
      const auto a = answer(*form, lm, o, "scaffold-ar");
      ASSERT_TRUE(a) << a.error().message;
      const std::string text = answer_text(*form, a->tokens, tokenizer);
      ++(text.find('1') == std::string::npos ? empty : filled);
      for (const char* preset : {"scaffold-spec", "fields", "fields-spec"}) {
        if ((preset[0] == 'f') != (visibility == Visibility::kGraph)) continue;
        const auto b = answer(*form, lm, o, preset);
        ASSERT_TRUE(b) << preset << " " << b.error().message;
        EXPECT_EQ(answer_text(*form, b->tokens, tokenizer), text) << n << " " << preset;
      }
    }
  }
  EXPECT_GT(empty, 5);
  EXPECT_GT(filled, 5);
}

TEST_F(OpenForms, AllExactPresetsOfAChainAgree) {
  each(40, [&](uint64_t n, const json::value&, const CompiledForm& form, const HashLm::Options& lm, const DecodeOptions& options) {
    const auto a = answer(form, lm, options, "scaffold-ar");
    ASSERT_TRUE(a) << n << " " << a.error().message;
    DecodeOptions forced = options;
    forced.forced = true;
    const auto one = answer(form, lm, forced, "ar");
    ASSERT_TRUE(one) << n << " " << one.error().message;
    ASSERT_EQ(one->tokens, a->tokens) << n;
    const auto same = [&](const char* what, const HashLm::Options& model, const Method& method) {
      HashLm hash(model);
      const auto b = Decoder(hash, method).decode(short_prompt(), &form.form, options);
      ASSERT_TRUE(b) << n << " " << what << " " << b.error().message;
      ASSERT_EQ(b->tokens, a->tokens) << n << " " << what << "\n"
                                      << tokenizer.decode(a->tokens) << "\n"
                                      << tokenizer.decode(b->tokens);
      ASSERT_EQ(b->fields, a->fields) << n << " " << what;
    };
    HashLm::Options spoilt = lm;
    spoilt.spoil_drafts = true;
    Method method = *method_of("scaffold-spec");
    same("scaffold-spec", lm, method);
    same("wrong drafts", spoilt, method);
    method.drafter = LookupSpec{.longest = 3};
    method.draft_length = {.kind = DraftLengthSpec::Kind::kFixed, .tokens = 5};
    same("lookup", lm, method);
    method.drafter = QuadraticSpec{};
    same("quadratic", lm, method);
    method.drafter = DiffusionSpec{};
    same("diffusion", lm, method);
  });
}

}  // namespace
}  // namespace slip
