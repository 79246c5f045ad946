// SPDX-License-Identifier: Apache-2.0
// What may be chosen, and how: field_mask of places that are decided in any order, lists of allowed ids, draws.
#include "decode/pass/choice.h"

#include <gtest/gtest.h>

#include <cmath>

#include "decode/pass/allowed_lists.h"
#include "decode/pass/field_mask.h"
#include "decode/testing/decode_testing.h"

namespace slip {
namespace {

using namespace test;  // NOLINT: the trials' own header

/// Many ids go four at a time in single precision: against the definition in double, with ties, infinities, and what is no number.
TEST(TopTwo, AndTheGreedyChoiceAreThoseOfTheirDefinitions) {
  PhiloxStream r(11, 2);
  const float inf = std::numeric_limits<float>::infinity();
  for (int trial = 0; trial < 3000; ++trial) {
    std::vector<float> logits(1 + r.below(150));
    for (float& x : logits) {
      x = static_cast<float>((r.uniform() - 0.5) * (r.chance(0.1) ? 400 : 20));
      if (r.chance(0.02)) x = r.chance(0.5) ? -inf : std::nanf("");
      if (r.chance(0.1)) x = 3;
    }
    if (r.chance(0.02)) logits[r.below(static_cast<uint32_t>(logits.size()))] = inf;
    const bool by_bits = r.chance(0.5);
    std::vector<TokenId> denied, listed;
    std::vector<uint64_t> bits((logits.size() + 63) / 64 - (logits.size() > 64 && r.chance(0.1) ? 1 : 0));
    for (int32_t id = 0; id < static_cast<int32_t>(logits.size()) + 3; ++id) {
      if (r.chance(0.1)) denied.push_back({id});
      if (r.chance(0.05)) listed.push_back({id});
      if (r.chance(0.8) && id / 64 < static_cast<int32_t>(bits.size()))
        bits[static_cast<size_t>(id / 64)] |= uint64_t{1} << (id % 64);
    }
    const Allowed allowed = by_bits ? Allowed{.any = false, .denied = {}, .listed = {}, .bits = bits}
                                    : Allowed{.any = true, .denied = denied, .listed = listed, .bits = {}};
    TokenId best{-1}, lowest{-1};
    double top = -inf, sum = 0, first = 0, second = 0;
    for_each_allowed(allowed, static_cast<int32_t>(logits.size()), [&](TokenId id) {
      const float x = logits[static_cast<size_t>(id.value)];
      if (lowest.value < 0) lowest = id;
      if (!std::isnan(x) && (best.value < 0 || x > top)) best = id, top = x;
    });
    for_each_allowed(allowed, static_cast<int32_t>(logits.size()), [&](TokenId id) {
      const double w = std::exp(logits[static_cast<size_t>(id.value)] - top);
      if (std::isnan(w)) return;
      sum += w;
      second = std::max(second, std::min(first, w)), first = std::max(first, w);
    });
    if (lowest.value >= 0) {
      ASSERT_EQ(greedy_choice(logits, allowed), best.value >= 0 ? best : lowest) << trial;
    }
    const TopTwo two = top_two(logits, allowed);
    ASSERT_NEAR(two.first, sum > 0 ? first / sum : 0, 1e-6) << trial;
    ASSERT_NEAR(two.second, sum > 0 ? second / sum : 0, 1e-6) << trial;
  }
}

/// Logits, some of them equal or no numbers, and what is allowed of them.
struct RandomChoice {
  std::vector<float> logits_V;
  std::vector<TokenId> denied, listed;
  std::vector<uint64_t> bits;
  Allowed allowed;

  explicit RandomChoice(PhiloxStream& r) : logits_V(1 + r.below(150)) {
    const double spread = r.chance(0.5) ? 6 : 30;
    for (float& x : logits_V) {
      x = static_cast<float>((r.uniform() - 0.5) * spread);
      if (r.chance(0.01)) x = r.chance(0.5) ? -std::numeric_limits<float>::infinity() : std::nanf("");
      if (r.chance(0.05)) x = static_cast<float>(spread / 3);
    }
    const double shown = r.chance(0.3) ? 0.8 : 0.05;
    bits.resize((logits_V.size() + 63) / 64);
    for (int32_t id = 0; id < static_cast<int32_t>(logits_V.size()); ++id) {
      if (r.chance(0.1)) denied.push_back({id});
      if (r.chance(shown)) listed.push_back({id});
      if (r.chance(shown)) bits[static_cast<size_t>(id / 64)] |= uint64_t{1} << (id % 64);
    }
    const uint32_t kind = r.below(4);
    allowed = kind == 0   ? Allowed{}
              : kind == 1 ? Allowed{.any = true, .denied = denied, .listed = {}, .bits = {}}
              : kind == 2 ? Allowed{.any = false, .denied = {}, .listed = listed, .bits = {}}
                          : Allowed{.any = false, .denied = {}, .listed = {}, .bits = bits};
  }
};

// What the largest logits say must be what all of them say, or nothing.
TEST(Likely, SaysWhatAllLogitsSayOrNothing) {
  PhiloxStream r(12, 2);
  int64_t first = 0, facts = 0, none = 0;
  for (int trial = 0; trial < 6000; ++trial) {
    const RandomChoice c(r);
    std::vector<KeptLogits::Likely> likely;
    for (size_t i = 0; i < c.logits_V.size(); ++i)
      if (!std::isnan(c.logits_V[i])) likely.push_back({TokenId{static_cast<int32_t>(i)}, c.logits_V[i]});
    std::ranges::stable_sort(likely, [](const auto& a, const auto& b) { return a.logit > b.logit; });
    likely.resize(std::min<size_t>(likely.size(), 1 + r.below(24)));
    if (const auto said = first_allowed(likely, c.allowed)) {
      ASSERT_EQ(*said, greedy_choice(c.logits_V, c.allowed)) << trial;
      ++first;
    }
    const auto said = top_two(likely, choose_from(c.logits_V, {}).statistics.log_sum_exp, c.allowed);
    if (!said) {
      ++none;
      continue;
    }
    const TopTwo whole = top_two(c.logits_V, c.allowed);
    ASSERT_NEAR(said->first, whole.first, 0.0205 * whole.first) << trial;
    ASSERT_NEAR(said->second, whole.second, 0.0205 * whole.first) << trial;
    ++facts;
  }
  EXPECT_GT(first, 3000);
  EXPECT_GT(facts, 1000);
  EXPECT_GT(none, 1000);
}

TEST(Likely, BitsAreTheAllowedIds) {
  PhiloxStream r(13, 2);
  std::vector<uint64_t> buffer;
  for (int trial = 0; trial < 2000; ++trial) {
    const RandomChoice c(r);
    const auto vocab = static_cast<int32_t>(c.logits_V.size());
    std::vector<TokenId> ids, by_bits;
    for_each_allowed(c.allowed, vocab, [&](TokenId id) { ids.push_back(id); });
    const auto bits = bits_of(c.allowed, vocab, buffer);
    ASSERT_EQ(bits.empty(), c.allowed.all());
    for_each_allowed(Allowed{.any = bits.empty(), .denied = {}, .listed = {}, .bits = bits}, vocab,
                     [&](TokenId id) { by_bits.push_back(id); });
    ASSERT_EQ(ids, by_bits);
    ASSERT_EQ(has_one_choice(c.allowed, vocab), ids.size() == 1);
    ASSERT_EQ(has_one_choice({.any = bits.empty(), .denied = {}, .listed = {}, .bits = bits}, vocab), ids.size() == 1);
    for (int32_t id = 0; id < vocab; ++id) ASSERT_EQ(c.allowed.has({id}), std::ranges::binary_search(ids, TokenId{id}));
  }
}

TEST(FieldMask, AllowExactlyWhatCanStillBeCompleted) {
  PhiloxStream r(9, 2);
  for (int trial = 0; trial < 400; ++trial) {
    Field f{.name = "f", .budget = static_cast<int32_t>(1 + r.below(4))};
    f.rules = chain_rules(r, f.budget, true);
    // All complete contents by enumeration over a small alphabet of ids; the oracle is "some complete content has it there".
    std::vector<std::vector<TokenId>> complete;
    std::vector<TokenId> content;
    const auto enumerate = [&](auto&& self) -> void {
      if (static_cast<int32_t>(content.size()) == f.budget) {
        const auto s = f.rules.state_after(content);
        if (s && (f.rules.unrestricted() || f.rules.state(*s).may_end)) complete.push_back(content);
        return;
      }
      for (int32_t id = 0; id < 12; ++id) {
        content.push_back({id});
        if (f.rules.state_after(content)) self(self);
        content.pop_back();
      }
    };
    enumerate(enumerate);
    if (complete.empty()) continue;
    std::vector<std::optional<TokenId>> decided(static_cast<size_t>(f.budget));
    const auto& one = complete[r.below(static_cast<uint32_t>(complete.size()))];
    for (size_t i = 0; i < decided.size(); ++i)
      if (r.chance(0.4)) decided[i] = one[i];
    FieldMask field_mask;
    field_mask.update(f, decided);
    for (size_t i = 0; i < decided.size(); ++i) {
      if (decided[i]) continue;
      std::vector<bool> listed(kTrialVocab, false);
      for_each_allowed(field_mask.at(static_cast<int32_t>(i)), kTrialVocab,
                       [&](TokenId id) { listed[static_cast<size_t>(id.value)] = true; });
      for (int32_t id = 0; id < 12; ++id) {
        bool possible = false;
        for (const auto& c : complete) {
          bool fits = c[i].value == id;
          for (size_t j = 0; j < c.size(); ++j) fits = fits && (!decided[j] || *decided[j] == c[j]);
          possible |= fits;
        }
        // Words may use ids beyond the enumerated alphabet: what is possible must be allowed, what is allowed must agree with allows().
        if (possible) {
          ASSERT_TRUE(field_mask.allows(static_cast<int32_t>(i), {id}));
        }
        ASSERT_EQ(field_mask.allows(static_cast<int32_t>(i), {id}), listed[static_cast<size_t>(id)]);
      }
    }
  }
}

TEST(AllowedLists, AreWhatTheRulesAllowWhereThatIsFew) {
  int64_t few = 0, none = 0;
  AllowedLists lists;
  for (uint64_t n = 0; n < 300; ++n) {
    const Trial t = chain_trial(n, n % 2 == 1);
    lists.start(&t.form, kTrialVocab);
    EXPECT_EQ(lists.at({}), std::nullopt) << "free text";
    for (size_t f = 0; f < t.form.fields().size(); ++f) {
      const Field& field = t.form.fields()[f];
      for (int32_t state = 0; state < std::max(1, static_cast<int32_t>(field.rules.size())); ++state) {
        const Place place{.field = static_cast<int32_t>(f), .state = state};
        std::vector<TokenId> buffer, ids;
        const Allowed allowed = allowed_in(field, state, buffer);
        for_each_allowed(allowed, kTrialVocab, [&](TokenId id) { ids.push_back(id); });
        const bool listed = !allowed.any && !ids.empty() && ids.size() <= kTrialVocab / 2;
        const std::optional<int32_t> number = lists.at(place);
        ASSERT_EQ(number.has_value(), listed);
        ASSERT_EQ(lists.at(place), number);
        (listed ? few : none) += 1;
        if (!listed) continue;
        const auto list = lists.lists()[static_cast<size_t>(*number)];
        ASSERT_EQ(std::vector<TokenId>(list.begin(), list.end()), ids);
      }
    }
  }
  EXPECT_GT(few, 300);
  EXPECT_GT(none, 100);
}

TEST(Choice, DrawsFollowTheProbabilities) {
  const std::vector<float> logits{0, 1, 2, std::nanf("")};
  EXPECT_EQ(greedy_choice(logits, {}).value, 2);
  EXPECT_EQ(greedy_choice(std::vector<float>{1, 1}, {}).value, 0) << "lowest id on ties";
  double total = 0;
  for (int id = 0; id < 3; ++id) total += probability_of(logits, {}, {id});
  EXPECT_NEAR(total, 1, 1e-15);
  const double p0 = probability_of(logits, {}, {0}), p1 = probability_of(logits, {}, {1});
  EXPECT_EQ(keyed_draw(logits, {}, 1, p0 - 1e-9).value, 0);
  EXPECT_EQ(keyed_draw(logits, {}, 1, p0 + 1e-9).value, 1);
  EXPECT_EQ(keyed_draw(logits, {}, 1, p0 + p1 + 1e-9).value, 2);
  EXPECT_EQ(keyed_draw(logits, {}, 1, 1 - 1e-17).value, 2) << "never an id of probability 0";
}

}  // namespace
}  // namespace slip
