// SPDX-License-Identifier: Apache-2.0
// DecodeContext::on_field: whatever decodes a form, every field is told once, with its final content, when it is decided.
#include <gtest/gtest.h>

#include "decode/testing/decode_testing.h"
#include "decode/testing/drafter_testing.h"
#include "decode/testing/keeping_lm_testing.h"

namespace slip {
namespace {

using namespace test;  // NOLINT: the trials' own headers

struct Told {
  int32_t field;
  std::vector<TokenId> content;
  int64_t passes;  // of the model, before
};

/// Decodes, listening.
std::vector<Told> listen(const Trial& t, HashLm& lm, const Method& m, const Form* form, int32_t rollouts, Decoded& first) {
  std::vector<Told> told;
  DecodeContext context = t.context;
  context.on_field = [&](int32_t field, std::span<const TokenId> content, int64_t) {
    told.push_back({field, {content.begin(), content.end()}, lm.passes});
  };
  auto d = Decoder(lm, m).rollouts(t.prompt, form, t.options, rollouts, context);
  if (!d) throw std::runtime_error(d.error().message);
  first = std::move(d->front());
  return told;
}

void expect_all(const Form& form, const std::vector<Told>& told, const Decoded& answer, const std::string& what) {
  ASSERT_EQ(told.size(), form.fields().size()) << what;
  std::vector<uint8_t> seen(told.size());
  for (const Told& x : told) {
    const auto f = static_cast<size_t>(x.field);
    ASSERT_FALSE(std::exchange(seen.at(f), uint8_t{1})) << what << ": field " << f << " twice";
    ASSERT_EQ(x.content, answer.fields[f]) << what << ": field " << f;
  }
}

TEST(FieldEvents, TellEveryFieldOnceWhateverDecodes) {
  const std::vector<DrafterSpec> drafters{NoDraftSpec{}, DiffusionSpec{}, QuadraticSpec{}, LookupSpec{2},
                                          PreviousSpec{.name = "", .then = DiffusionSpec{}}};
  int64_t placeholders = 0, early = 0;
  for (const Path path : {Path::kChain, Path::kFields, Path::kOneByOne})
    for (uint64_t n = 0; n < 600 && !testing::Test::HasFailure(); ++n) {
      Trial t = trial_on(path, n);
      t.options.activation = n % 5 != 0;
      Trial other = t;
      other.options.seed += n % 3;
      const PreviousAnswer previous{t.form.name(), one_at_a_time(other, path, 1).front().fields, {}};
      t.context.previous = &previous;
      Method m = method_on(path, drafters[n % drafters.size()], static_cast<int32_t>(2 + n % 6));
      if (path == Path::kFields && n % 7 == 1) m.drafter = DiffusionSpec{.ahead = true};
      HashLm lm(t.lm);
      Decoded answer;
      const auto told = listen(t, lm, m, &t.form, rollouts_of(n), answer);
      expect_all(t.form, told, answer, std::to_string(n) + " path " + std::to_string(static_cast<int>(path)));
      for (size_t i = 0; i < told.size(); ++i) {
        early += told[i].passes < lm.passes;
        placeholders +=
            t.form.fields()[static_cast<size_t>(told[i].field)].instance_of && told[i].content == std::vector{TokenId{10}};
        if (i > 0 && path == Path::kChain) {
          ASSERT_LT(told[i - 1].field, told[i].field) << n;
        }
        for (const int32_t parent : t.form.fields()[static_cast<size_t>(told[i].field)].parents)
          ASSERT_TRUE(path == Path::kChain || std::any_of(told.begin(), told.begin() + static_cast<ptrdiff_t>(i),
                                                          [&](const Told& x) { return x.field == parent; }))
              << n << ": a field before its parent";
      }
    }
  EXPECT_GT(placeholders, 50);
  EXPECT_GT(early, 1000) << "fields are told before the answer is complete";
}

// Logits that lie elsewhere may become unreadable in the middle of an answer: an error then, and no field is told of that the model did not say.
TEST(FieldEvents, TellOnlyWhatTheModelSaidWhenItsLogitsAreLost) {
  const std::vector<DrafterSpec> drafters{NoDraftSpec{}, DiffusionSpec{}};
  int64_t failed = 0, told = 0;
  for (const Path path : {Path::kChain, Path::kFields, Path::kOneByOne})
    for (uint64_t n = 0; n < 300; ++n) {
      Trial t = trial_on(path, n);
      const Method m = method_on(path, drafters[n % 2], static_cast<int32_t>(2 + n % 6));
      const auto want = one_at_a_time(t, path, 1).front().fields;
      HashLm model(t.lm);
      LikelyLm keeps(model, 1);
      keeps.fails_at = static_cast<int64_t>(n % 7);
      t.context.on_field = [&](int32_t field, std::span<const TokenId> content, int64_t) {
        ++told;
        EXPECT_TRUE(std::ranges::equal(content, want[static_cast<size_t>(field)])) << n;
      };
      const auto d = Decoder(keeps, m).decode(t.prompt, &t.form, t.options, t.context);
      if (d) continue;
      EXPECT_EQ(d.error().message, "the device was lost");
      ++failed;
    }
  EXPECT_GT(failed, 200);
  EXPECT_GT(told, 1000);
}

/// A field and all that it depends on.
std::vector<uint8_t> needed_for(const Form& form, int32_t field) {
  std::vector<uint8_t> out(form.fields().size());
  std::vector<int32_t> left{field};
  while (!left.empty()) {
    const int32_t f = left.back();
    left.pop_back();
    if (std::exchange(out[static_cast<size_t>(f)], uint8_t{1})) continue;
    for (const int32_t parent : form.fields()[static_cast<size_t>(f)].parents) left.push_back(parent);
  }
  return out;
}

TEST(FieldEvents, WantedFieldsAndWhatTheyNeedComeBeforeTheOthers) {
  const std::vector<DrafterSpec> drafters{NoDraftSpec{}, DiffusionSpec{}, LookupSpec{2}};
  int64_t overtaken = 0;
  for (const Path path : {Path::kFields, Path::kOneByOne})
    for (uint64_t n = 0; n < 600 && !testing::Test::HasFailure(); ++n) {
      Trial t = trial_on(path, n);
      t.options.activation = n % 5 != 0;
      const Method m = method_on(path, drafters[n % drafters.size()], static_cast<int32_t>(2 + n % 6));
      HashLm lm(t.lm), again(t.lm);
      Decoded plain, first;
      const auto before = listen(t, lm, m, &t.form, rollouts_of(n), plain);
      const auto wanted = static_cast<int32_t>(n % t.form.fields().size());
      t.options.wanted_first = {wanted};
      const auto told = listen(t, again, m, &t.form, rollouts_of(n), first);
      ASSERT_EQ(plain.tokens, first.tokens) << n;
      expect_all(t.form, told, first, std::to_string(n));
      const std::vector<uint8_t> needed = needed_for(t.form, wanted);
      const auto place = [&](const std::vector<Told>& of) {
        return std::find_if(of.begin(), of.end(), [&](const Told& x) { return x.field == wanted; });
      };
      // Of the others there is before it only what took no pass of its own: placeholders that an enumeration left over.
      for (auto x = told.begin(); x != place(told); ++x)
        ASSERT_TRUE(needed[static_cast<size_t>(x->field)] || t.form.fields()[static_cast<size_t>(x->field)].instance_of ||
                    x->content.empty())
            << n << ": field " << x->field << " before " << wanted;
      overtaken += place(told) - told.begin() < place(before) - before.begin();
    }
  EXPECT_GT(overtaken, 100);
}

TEST(FieldEvents, TellFieldsOfForcedTextAndOfSections) {
  int64_t early = 0;
  for (const std::string_view preset : {"ar", "self-spec", "self-spec-quadratic", "scaffold-spec", "section-diffusion"})
    for (uint64_t n = 0; n < 150 && !testing::Test::HasFailure(); ++n) {
      Trial t = chain_trial(n, preset != "section-diffusion" && n % 2 == 1);
      t.options.forced = true;
      HashLm lm(t.lm);
      Decoded answer;
      const auto told = listen(t, lm, *method_of(preset), &t.form, 1 + static_cast<int32_t>(n % 2), answer);
      expect_all(t.form, told, answer, std::string(preset) + " " + std::to_string(n));
      for (const Told& x : told) early += x.passes < lm.passes;
    }
  EXPECT_GT(early, 500);
}

/// Free text knows nothing of the form until it is read against it.
TEST(FieldEvents, TellFieldsOfFreeTextWhereItIsOneOfTheForms) {
  int64_t valid = 0;
  for (uint64_t n = 0; n < 300 && !testing::Test::HasFailure(); ++n) {
    Trial t = chain_trial(n, false);
    t.form = *Form::make({.name = "any",
                          .pieces = {FixedRun{{TokenId{static_cast<int32_t>(3 + n % 21)}}, 0}, FieldRef{0}},
                          .fields = {Field{.name = "a", .budget = 4}},
                          .section_names = {"all"}});
    t.options.limit = t.form.length();
    HashLm lm(t.lm);
    Decoded answer;
    const auto told = listen(t, lm, *method_of("self-spec"), &t.form, 1, answer);
    valid += answer.valid;
    if (!answer.valid)
      EXPECT_TRUE(told.empty()) << n;
    else
      expect_all(t.form, told, answer, std::to_string(n));
  }
  EXPECT_GT(valid, 2);
}

}  // namespace
}  // namespace slip
