// SPDX-License-Identifier: Apache-2.0
// Exactness as a property: thousands of random forms on a model of hashes.
#include "decode/decoder.h"

#include <gtest/gtest.h>

#include "decode/testing/decode_testing.h"
#include "form/schema/values.h"
#include "limits/speed_of_light.h"

namespace slip {
namespace {

using namespace test;  // NOLINT: the trials' own header

TEST(ScaffoldSpec, CommitsTheSameTokensAsOneAtATime) {
  int64_t accepted = 0, tested = 0, one = 0, spec = 0;
  for (uint64_t n = 0; n < 3000; ++n) {
    const Trial t = chain_trial(n, n % 2 == 1);
    const Decoded a = run(t, "scaffold-ar"), b = run(t, "scaffold-spec");
    ASSERT_EQ(a.tokens, b.tokens) << n;
    ASSERT_EQ(a.fields, b.fields) << n;
    ASSERT_EQ(a.statistics.forced_tokens, b.statistics.forced_tokens) << n;
    ASSERT_LE(b.statistics.accepted, b.statistics.tested);
    ASSERT_LE(b.statistics.tested, b.statistics.proposed);
    const auto split = split_answer(t.form, a.tokens);
    ASSERT_TRUE(split) << n << " " << split.error().message;
    accepted += b.statistics.accepted;
    tested += b.statistics.tested;
    one += a.statistics.forwards;
    spec += b.statistics.forwards;
  }
  EXPECT_GT(accepted * 5, tested) << "drafts that never hold would prove nothing";
  EXPECT_LT(accepted, tested) << "nor would drafts that always hold";
  RecordProperty("ar_passes", static_cast<int>(one));
  RecordProperty("spec_passes", static_cast<int>(spec));
}

TEST(ScaffoldSpec, AWrongDrafterCostsPassesNeverTokens) {
  int64_t good = 0, bad = 0;
  for (uint64_t n = 0; n < 500; ++n) {
    const Trial t = chain_trial(n, n % 2 == 1);
    HashLm::Options spoilt = t.lm;
    spoilt.spoil_drafts = true;
    const Decoded a = run(t, "scaffold-ar"), b = run(t, "scaffold-spec"), c = run(t, "scaffold-spec", spoilt);
    ASSERT_EQ(c.tokens, a.tokens) << n;
    good += b.statistics.forwards;
    bad += c.statistics.forwards;
  }
  EXPECT_GT(bad, good);
}

TEST(ScaffoldSpec, AVerifierOffByOneIsCaught) {
  int differ = 0;
  for (uint64_t n = 0; n < 200; ++n) {
    const Trial t = chain_trial(n, false);
    HashLm::Options mutant = t.lm;
    mutant.verify_off_by_one = true;
    differ += run(t, "scaffold-ar", mutant).tokens != run(t, "scaffold-spec", mutant).tokens;
  }
  EXPECT_GT(differ, 100);
}

TEST(Ar, ForcedCostsAPassPerTokenAndChangesNone) {
  for (uint64_t n = 0; n < 300; ++n) {
    Trial t = chain_trial(n, n % 2 == 1);
    const Decoded a = run(t, "scaffold-ar");
    t.options.forced = true;
    const Decoded b = run(t, "ar");
    ASSERT_EQ(a.tokens, b.tokens);
    ASSERT_GE(b.statistics.forwards, b.statistics.tokens);  // END draws cost passes too, and are no tokens
    ASSERT_GE(b.statistics.forwards, a.statistics.forwards);
  }
}

TEST(Ar, WithAFormIsReadAgainstIt) {
  int valid = 0;
  for (uint64_t seed = 0; seed < 1000; ++seed) {
    Form::Parts p;
    p.name = "short";
    p.pieces = {FixedRun{{{4}}, 0}, FieldRef{0}};
    p.fields = {Field{.name = "f", .budget = 1}};
    const Form form = *Form::make(std::move(p));
    HashLm model({.seed = seed, .vocab = 8});
    const auto d = decode(model, {{TokenId{3}}, {Position::text(0)}, {}, 1}, &form, "ar", {.limit = 2});
    ASSERT_TRUE(d);
    ASSERT_EQ(d->valid, d->tokens[0] == TokenId{4});
    valid += d->valid;
  }
  EXPECT_GT(valid, 0);
}

TEST(Ar, WhatIsNotTheFormIsMarked) {
  const Trial t = chain_trial(3, false);
  HashLm model(t.lm);
  const auto d = decode(model, t.prompt, &t.form, "ar", {.end_tokens = {{0}}, .limit = 30});
  ASSERT_TRUE(d);
  EXPECT_FALSE(d->valid) << "a model of hashes does not write forms";
}

TEST(SelfSpec, CommitsTheSameTokensAsOneAtATime) {
  int64_t accepted = 0;
  for (uint64_t n = 0; n < 1000; ++n) {
    Trial t = chain_trial(n, false);
    t.options.end_tokens = {{0}};
    t.options.limit = static_cast<int32_t>(1 + n % 40);
    HashLm one(t.lm), two(t.lm);
    Method spec = *method_of("self-spec");
    spec.draft_length.tokens = static_cast<int32_t>(2 + n % 11);
    const auto a = decode(one, t.prompt, nullptr, "ar", t.options);
    const auto b = Decoder(two, spec).decode(t.prompt, nullptr, t.options);
    ASSERT_TRUE(a && b);
    ASSERT_EQ(a->tokens, b->tokens) << n;
    accepted += b->statistics.accepted;
  }
  EXPECT_GT(accepted, 1000);
}

TEST(SectionDiffusion, GivesAnswersThatTheFormAllows) {
  for (uint64_t n = 0; n < 1000; ++n) {
    const Trial t = chain_trial(n, false);
    HashLm model(t.lm);
    Method m = *method_of("section-diffusion");
    m.verifier = ConfidenceSpec{n % 3 == 0 ? 0.0F : 0.3F};
    const auto d = Decoder(model, m).decode(t.prompt, &t.form, t.options);
    ASSERT_TRUE(d) << d.error().message;
    const auto split = split_answer(t.form, d->tokens);
    ASSERT_TRUE(split) << n << " " << split.error().message;
    ASSERT_EQ(*split, d->fields);
    ASSERT_TRUE(d->lossy);
  }
}

/// Whoever looks into a block changes nothing, and a search for the fewest passes finds the answer that a place a pass writes.
TEST(SectionDiffusion, LetsABlockBeLookedInto) {
  int64_t places = 0, commits = 0;
  for (uint64_t n = 0; n < 200; ++n) {
    const Trial t = chain_trial(n, false);
    HashLm one(t.lm), two(t.lm);
    Method m = *method_of("section-diffusion");
    m.verifier = ConfidenceSpec{1};
    const auto plain = Decoder(one, m).decode(t.prompt, &t.form, t.options);
    std::vector<TokenId> searched;
    DecodeContext context;
    context.on_block = [&](std::span<const std::optional<TokenId>> start, const BlockModel& ask) -> Status {
      SLIP_TRY(const SpeedOfLight light, speed_of_light(start, ask, {.budget = 200}));
      EXPECT_LE(light.commits.size(), light.serial.size());
      places += static_cast<int64_t>(light.serial.size());
      commits += static_cast<int64_t>(light.commits.size());
      searched.insert(searched.end(), light.block.begin(), light.block.end());
      return {};
    };
    const auto looked = Decoder(two, m).decode(t.prompt, &t.form, t.options, context);
    ASSERT_TRUE(plain && looked) << n;
    ASSERT_EQ(plain->tokens, looked->tokens) << n;
    std::vector<TokenId> written;
    for (const Block& b : t.form.blocks()) {
      bool drawn = false;
      for (int32_t u = b.begin; u < b.end; ++u) drawn = drawn || !t.form.fixed_at(u);
      if (drawn) written.insert(written.end(), plain->tokens.begin() + b.begin, plain->tokens.begin() + b.end);
    }
    ASSERT_EQ(searched, written) << n;
  }
  EXPECT_LT(commits, places) << "something could be committed together";
}

}  // namespace
}  // namespace slip
