// SPDX-License-Identifier: Apache-2.0
// What an answer tells beside its tokens: log-probabilities (the same whatever decodes, and those of the rows' own logits), where a caller's
// text ends, and every pass in its own time.
#include <gtest/gtest.h>

#include <cmath>

#include "decode/pass/choice.h"
#include "decode/testing/decode_testing.h"
#include "decode/testing/drafter_testing.h"

namespace slip {
namespace {

using namespace test;  // NOLINT: the trials' own headers

Decoded decoded_by(const Trial& t, const Method& m, const Form* form) {
  HashLm lm(t.lm);
  auto d = Decoder(lm, m).decode(t.prompt, form, t.options, t.context);
  if (!d) throw std::runtime_error(d.error().message);
  return std::move(*d);
}

TEST(LogProbs, AreTheSameWhateverDecodes) {
  int64_t drawn = 0;
  for (const Path path : {Path::kChain, Path::kFields, Path::kOneByOne})
    for (uint64_t n = 0; n < 300 && !testing::Test::HasFailure(); ++n) {
      Trial t = trial_on(path, n);
      t.options.log_probs = true;
      const Decoded slow = decoded_by(t, method_on(path, NoDraftSpec{}, 1), &t.form);
      for (const DrafterSpec& drafter : {DrafterSpec{DiffusionSpec{}}, DrafterSpec{QuadraticSpec{}}, DrafterSpec{LookupSpec{2}}}) {
        t.options.trace = n % 2 == 0;  // tells what rows behind a miss would have drawn, too
        const Decoded fast = decoded_by(t, method_on(path, drafter, static_cast<int32_t>(2 + n % 6)), &t.form);
        ASSERT_EQ(slow.tokens, fast.tokens);
        ASSERT_EQ(slow.log_probs, fast.log_probs) << n << " path " << static_cast<int>(path);
      }
      ASSERT_EQ(slow.log_probs.size(), t.form.fields().size());
      for (size_t f = 0; f < slow.log_probs.size(); ++f) {
        const size_t content = slow.fields[f].size();
        ASSERT_GE(slow.log_probs[f].size(), content);
        ASSERT_LE(slow.log_probs[f].size(), content + 1) << "an END at most";
        for (const double p : slow.log_probs[f]) {
          ASSERT_LE(p, 0);
          drawn += p < 0;
        }
      }
    }
  EXPECT_GT(drawn, 1000);
}

TEST(LogProbs, TheLikeliestBesideThemAreInOrderAndHoldTheGreedyOne) {
  int64_t places = 0;
  for (const Path path : {Path::kChain, Path::kFields})
    for (uint64_t n = 0; n < 200 && !testing::Test::HasFailure(); ++n) {
      Trial t = trial_on(path, n);
      t.options.temperature = 0;
      t.options.section_temperature.clear();
      t.options.sampling = {};
      t.options.log_probs = true;
      t.options.top_log_probs = 1 + static_cast<int32_t>(n % 4);
      const Decoded slow = decoded_by(t, method_on(path, NoDraftSpec{}, 1), &t.form);
      t.options.trace = n % 2 == 0;
      const Decoded fast = decoded_by(t, method_on(path, LookupSpec{2}, static_cast<int32_t>(2 + n % 6)), &t.form);
      ASSERT_EQ(slow.top_log_probs.size(), slow.log_probs.size());
      for (size_t f = 0; f < slow.log_probs.size(); ++f) {
        ASSERT_EQ(slow.top_log_probs[f].size(), slow.log_probs[f].size());
        for (size_t i = 0; i < slow.log_probs[f].size(); ++i) {
          const auto &top = slow.top_log_probs[f][i], &other = fast.top_log_probs[f][i];
          ASSERT_EQ(top.size(), other.size());
          ASSERT_LE(top.size(), static_cast<size_t>(t.options.top_log_probs));
          for (size_t k = 0; k < top.size(); ++k) {
            ASSERT_EQ(top[k].id, other[k].id);
            ASSERT_EQ(top[k].log_prob, other[k].log_prob) << "the same bits whatever decodes";
            ASSERT_TRUE(k == 0 || top[k].log_prob <= top[k - 1].log_prob);
          }
          if (top.empty()) continue;  // nothing else was allowed
          ++places;
          ASSERT_EQ(top[0].log_prob, slow.log_probs[f][i]) << "greedy draws the likeliest";
          if (i < slow.fields[f].size()) {
            ASSERT_EQ(top[0].id, slow.fields[f][i]) << n;
          }
        }
      }
    }
  EXPECT_GT(places, 1000);
}

TEST(LogProbs, OfFreeTextAreThoseOfOnePassOverAllOfIt) {
  for (uint64_t n = 0; n < 100; ++n) {
    Trial t = chain_trial(n, false);
    t.options.log_probs = true;
    t.options.limit = 12;
    t.options.denied = {{1}, {2}};
    const Decoded d = decoded_by(t, *method_of("self-spec"), nullptr);
    ASSERT_EQ(d.log_probs.size(), 1U);
    ASSERT_EQ(d.log_probs[0].size(), d.tokens.size());
    HashLm lm(t.lm);
    std::vector<Row> rows;
    std::vector<SlotSpan> spans;
    const auto add = [&](RowInput input, Position position) {
      const auto i = static_cast<int32_t>(rows.size());
      spans.push_back({0, i + 1});
      rows.push_back({input, position, i, static_cast<uint32_t>(i), 1, Want::kLogits});
    };
    for (size_t i = 0; i < t.prompt.inputs.size(); ++i) add(t.prompt.inputs[i], t.prompt.positions[i]);
    for (size_t i = 0; i < d.tokens.size(); ++i) add(d.tokens[i], Position::text(t.prompt.next_position + static_cast<int32_t>(i)));
    PassOutput out;
    ASSERT_TRUE(lm.forward({rows, spans, t.prompt.features}, out));
    for (size_t i = 0; i < d.tokens.size(); ++i) {
      const auto logits = out.logits_V(t.prompt.inputs.size() - 1 + i);
      double sum = 0;
      for (size_t id = 0; id < logits.size(); ++id)
        if (id != 1 && id != 2) sum += std::exp(static_cast<double>(logits[id]));
      const double own = static_cast<double>(logits[static_cast<size_t>(d.tokens[i].value)]) - std::log(sum);
      EXPECT_NEAR(d.log_probs[0][i], own, 1e-9) << n << " " << i;
    }
  }
}

TEST(LogProbs, AreRefusedWhereTheLawIsNotWhatDraws) {
  Trial t = chain_trial(3, false);
  t.options.log_probs = true;
  HashLm lm(t.lm);
  Method m = *method_of("scaffold-spec");
  m.verifier = RejectionSpec{};
  const auto d = Decoder(lm, m).decode(t.prompt, &t.form, t.options, t.context);
  ASSERT_FALSE(d);
  EXPECT_EQ(d.error().kind, ErrorKind::kUnsupported);
}

TEST(FreeText, EndsWhereTheCallerSays) {
  for (uint64_t n = 0; n < 200; ++n) {
    Trial t = chain_trial(n, false);
    t.options.limit = 20;
    const std::vector<TokenId> whole = decoded_by(t, *method_of("ar"), nullptr).tokens;
    const size_t at = n % whole.size();
    // Ends behind the first token that is the one at `at`.
    t.context.ends_text = [&](std::span<const TokenId> tokens) { return tokens.back() == whole[at]; };
    const auto first = static_cast<size_t>(std::find(whole.begin(), whole.end(), whole[at]) - whole.begin());
    for (const char* preset : {"ar", "self-spec", "self-spec-quadratic"}) {
      const Decoded d = decoded_by(t, *method_of(preset), nullptr);
      ASSERT_EQ(d.tokens, std::vector<TokenId>(whole.begin(), whole.begin() + static_cast<ptrdiff_t>(first) + 1))
          << preset << " " << n;
    }
  }
}

TEST(TimedPasses, AreAllPassesInOrderAndRoundsKnowTheirs) {
  for (const Path path : {Path::kChain, Path::kFields})
    for (uint64_t n = 0; n < 50; ++n) {
      Trial t = trial_on(path, n);
      t.options.trace = true;
      const Decoded d = decoded_by(t, method_on(path, DiffusionSpec{}, 4), &t.form);
      ASSERT_EQ(static_cast<int64_t>(d.passes.size()), d.statistics.forwards + d.statistics.drafter_forwards);
      double before = 0, sum = 0;
      int64_t rows = 0;
      for (const TimedPass& pass : d.passes) {
        EXPECT_GE(pass.begin_ms, before);
        before = pass.begin_ms + pass.ms;
        sum += pass.ms;
        rows += pass.rows;
      }
      EXPECT_EQ(rows, d.statistics.rows);
      EXPECT_LE(sum, d.statistics.ms.total + 1e-6);
      int32_t last = 0;
      for (const Round& r : d.rounds) {
        ASSERT_TRUE(r.pass);
        ASSERT_GE(*r.pass, last);
        ASSERT_LT(*r.pass, static_cast<int32_t>(d.passes.size()));
        EXPECT_NE(d.passes[static_cast<size_t>(*r.pass)].kind, TimedPass::Kind::kDraft);
        last = *r.pass;
      }
      t.options.trace = false;
      EXPECT_TRUE(decoded_by(t, method_on(path, DiffusionSpec{}, 4), &t.form).passes.empty());
    }
}

}  // namespace
}  // namespace slip
