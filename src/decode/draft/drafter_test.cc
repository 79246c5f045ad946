// SPDX-License-Identifier: Apache-2.0
// Every drafter writes what one token at a time writes, over random models, forms and graphs, drafters that are right, wrong or of
// another vocabulary; and each does what it says: quadratic's rows, look-up's finds, what a second model and a draft head know.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

#include "base/count_allocations_testing.h"
#include "decode/draft_length/model.h"
#include "decode/draft_length/observer.h"
#include "decode/testing/drafter_testing.h"

namespace slip {
namespace {

using namespace test;  // trials and their drafters

TEST(Quadratic, WritesWhatOneAtATimeWrites) {
  for (const Path path : kPaths) {
    Statistics sum;
    for (uint64_t n = 0; n < 1200 && !testing::Test::HasFailure(); ++n) {
      const Trial t = trial_on(path, n);
      HashLm lm(t.lm);
      const Statistics s =
          expect_same(t, path, lm, method_on(path, QuadraticSpec{}, static_cast<int32_t>(1 + n % 6)), rollouts_of(n), n);
      EXPECT_EQ(s.forwards, lm.passes);
      EXPECT_EQ(s.draft_forwards, 0);
      sum.add(s);
    }
    expect_mixed(sum);
  }
}

TEST(Quadratic, WrongMasksCostPassesNeverTokens) {
  int64_t good = 0, bad = 0;
  for (const Path path : kPaths)
    for (uint64_t n = 0; n < 200 && !testing::Test::HasFailure(); ++n) {
      Trial t = trial_on(path, n);
      t.lm.habit = 0.9;
      HashLm lm(t.lm);
      good += expect_same(t, path, lm, method_on(path, QuadraticSpec{}, 4), 1, n).forwards;
      HashLm::Options spoilt = t.lm;
      spoilt.spoil_rows = true;
      HashLm other(spoilt);
      bad += expect_same(t, path, other, method_on(path, QuadraticSpec{}, 4), 1, n).forwards;
    }
  EXPECT_GT(bad, good);
}

TEST(Quadratic, KOneIsOneTokenAPass) {
  for (uint64_t n = 0; n < 100; ++n) {
    const Trial t = trial_on(Path::kText, n);
    HashLm a(t.lm), b(t.lm);
    const auto one = decode(a, t.prompt, nullptr, "ar", t.options);
    const auto two = Decoder(b, method_on(Path::kText, QuadraticSpec{}, 1)).decode(t.prompt, nullptr, t.options);
    ASSERT_TRUE(one && two);
    EXPECT_EQ(one->tokens, two->tokens);
    EXPECT_EQ(one->statistics.forwards, two->statistics.forwards);
    EXPECT_EQ(two->statistics.proposed, 0);
  }
}

bool sees(const Pass& pass, const Row& row, int32_t slot) {
  bool seen = false;
  for (uint32_t k = 0; k < row.sees_count; ++k) {
    const SlotSpan& s = pass.spans[row.sees_first + k];
    seen = seen || (s.begin <= slot && slot < s.end);
  }
  return seen;
}

TEST(Quadratic, RowsSeeWhatTheDefinitionSays) {
  for (int32_t k = 1; k <= 8; ++k) {
    for (const bool shift : {false, true}) {
      Trial t = trial_on(Path::kText, 7);
      t.lm.shift = shift;
      t.options.limit = 30;
      t.options.temperature = 0;
      HashLm model(t.lm);
      Wrapped lm(model);
      const auto n = static_cast<int32_t>(t.prompt.inputs.size());
      int passes = 0;
      lm.look = [&](const Pass& pass) {
        if (passes++ == 0) {  // prompt, then k masks that see it and each other
          ASSERT_EQ(pass.rows.size(), static_cast<size_t>(n + k));
          for (int32_t c = 0; c < k; ++c) {
            const Row& mask = pass.rows[static_cast<size_t>(n + c)];
            EXPECT_EQ(mask.position.t, t.prompt.next_position + c);
            for (const Row& other : pass.rows) EXPECT_TRUE(sees(pass, mask, other.slot));
          }
          return;
        }
        ASSERT_EQ(pass.rows.size(), static_cast<size_t>(k * k + k));
        struct Element {
          int32_t r, c;
        };
        std::vector<Element> at;  // of each row: heads first, then the groups
        for (int32_t r = 0; r < k; ++r) at.push_back({r, 0});
        for (int32_t r = 0; r < k; ++r)
          for (int32_t c = 1; c <= k; ++c) at.push_back({r, c});
        const int32_t first = pass.rows[0].position.t, cached = pass.rows[0].slot;
        for (size_t i = 0; i < pass.rows.size(); ++i) {
          const Row& row = pass.rows[i];
          EXPECT_EQ(row.position.t, first + at[i].r + at[i].c);
          if (at[i].c > 0) {
            EXPECT_EQ(std::get<TokenId>(row.input).value, 1);
          }
          for (int32_t slot = 0; slot < cached; ++slot) EXPECT_TRUE(sees(pass, row, slot)) << "what is cached is seen by all";
          for (size_t j = 0; j < pass.rows.size(); ++j) {
            const bool head = at[j].c == 0;
            const bool visible = head ? at[j].r <= at[i].r : at[j].r == at[i].r && at[i].c >= 1;
            EXPECT_EQ(sees(pass, row, pass.rows[j].slot), visible) << k << ": " << i << " " << j;
          }
        }
      };
      const auto d = Decoder(lm, method_on(Path::kText, QuadraticSpec{}, k)).decode(t.prompt, nullptr, t.options);
      ASSERT_TRUE(d);
      EXPECT_GE(passes, 2);
    }
  }
}

TEST(Quadratic, HeadsThatSeeMasksAreCaught) {
  int differ = 0;
  for (uint64_t n = 0; n < 100; ++n) {
    Trial t = trial_on(Path::kText, n);
    t.options.limit = 20;
    t.lm.habit = 0.3;
    HashLm model(t.lm);
    Wrapped lm(model);
    lm.change = [&](std::vector<Row>& rows, std::vector<SlotSpan>& spans) {
      const auto mask = std::find_if(rows.begin(), rows.end(), [](const Row& r) { return r.input == RowInput(TokenId{1}); });
      if (mask == rows.end()) return;
      for (auto r = rows.begin(); r != mask; ++r) {
        std::vector<SlotSpan> wider(spans.begin() + r->sees_first, spans.begin() + r->sees_first + r->sees_count);
        wider.push_back({mask->slot, mask->slot + 1});
        r->sees_first = static_cast<uint32_t>(spans.size());
        r->sees_count = static_cast<uint32_t>(wider.size());
        spans.insert(spans.end(), wider.begin(), wider.end());
      }
    };
    const auto slow = one_at_a_time(t, Path::kText, 1);
    const auto d = Decoder(lm, method_on(Path::kText, QuadraticSpec{}, 3)).decode(t.prompt, nullptr, t.options);
    ASSERT_TRUE(d) << d.error().message;
    differ += d->tokens != slow[0].tokens;
  }
  EXPECT_GT(differ, 60);
}

TEST(Lookup, WritesWhatOneAtATimeWrites) {
  for (const Path path : kPaths) {
    Statistics sum;
    for (uint64_t n = 0; n < 1200 && !testing::Test::HasFailure(); ++n) {
      const Trial t = trial_on(path, n);
      HashLm lm(t.lm);
      const DrafterSpec drafter = LookupSpec{static_cast<int32_t>(1 + n % 4)};
      const Statistics s = expect_same(t, path, lm, method_on(path, drafter, static_cast<int32_t>(1 + n % 7)), rollouts_of(n), n);
      EXPECT_EQ(s.forwards, lm.passes);
      sum.add(s);
    }
    EXPECT_GT(sum.accepted, 0);
    EXPECT_LT(sum.accepted, sum.tested);
  }
}

std::vector<int64_t> counts_at_pass;

TEST(Lookup, FindsWhatFollowedTheLongestRun) {
  CycleLm lm;
  const auto prompt_of = [](std::vector<int32_t> ids) {
    Prompt p;
    for (const int32_t id : ids) {
      p.positions.push_back(Position::text(static_cast<int32_t>(p.inputs.size())));
      p.inputs.emplace_back(TokenId{id});
    }
    p.next_position = static_cast<int32_t>(p.inputs.size());
    return p;
  };
  // The newest "5" is followed by 9, the run "4 5" by 6 3 4: the longer run wins.
  const Prompt p = prompt_of({4, 5, 6, 3, 4, 9, 5, 9, 4, 5});
  const auto with = [&](int32_t longest, int32_t limit) {
    auto d = Decoder(lm, method_on(Path::kText, LookupSpec{longest}, 4)).decode(p, nullptr, {.limit = limit});
    if (!d) throw std::runtime_error(d.error().message);
    return d->statistics;
  };
  EXPECT_EQ(with(2, 4).forwards, 1) << "drafted and verified in the very pass that prefills";
  EXPECT_EQ(with(2, 4).accepted, 3) << "9 was drafted after 6 3 4";
  EXPECT_GT(with(1, 4).forwards, 1) << "a run of one finds the 9 first";
  EXPECT_LE(with(4, 40).forwards, 10) << "an answer that repeats itself is copied, beyond its own end too";
}
TEST(Decoder, AllocatesNothingPerRoundAfterTheFirst) {
  for (const Path path : kPaths)
    for (const DrafterSpec& drafter : {DrafterSpec(QuadraticSpec{}), DrafterSpec(LookupSpec{})}) {
      size_t most = 0;
      for (uint64_t n = 0; n < 20; ++n) {
        Trial t = trial_on(path, n);
        t.options.limit = 40;
        t.options.end_tokens.clear();
        HashLm model(t.lm);
        Decoder decoder(model, method_on(path, drafter, 3));
        ASSERT_TRUE(decoder.decode(t.prompt, form_on(path, t), t.options));  // settles the buffers
        counts_at_pass.clear();
        counts_at_pass.reserve(1000);
        model.on_pass = [](int64_t) { counts_at_pass.push_back(allocations.load()); };
        ASSERT_TRUE(decoder.decode(t.prompt, form_on(path, t), t.options));
        most = std::max(most, counts_at_pass.size());
        if (counts_at_pass.size() < 3) continue;
        EXPECT_EQ(counts_at_pass.back() - counts_at_pass[1], 0) << static_cast<int>(path) << " " << drafter.index() << " " << n;
      }
      EXPECT_GT(most, 4u);
    }
}

/// Passes with the adapter leave keys that no exact row may see, whatever waits to be fed when they run.
TEST(DraftAdapter, ChangesDraftsAndNeverTokens) {
  for (const Path path : {Path::kText, Path::kChain, Path::kFields, Path::kOneByOne})
    for (uint64_t n = 0; n < 500; ++n) {
      Trial t = trial_on(path, n);
      t.lm.adapter = true;
      HashLm lm(t.lm);
      expect_same(t, path, lm, method_on(path, DiffusionSpec{.adapter = true}, static_cast<int32_t>(2 + n % 6)), rollouts_of(n), n);
    }
}

/// What the earlier answer drafts, and what diffusion drafts where it has missed.
TEST(Previous, ThenDiffusionWritesWhatOneAtATimeWrites) {
  for (const Path path : {Path::kText, Path::kChain, Path::kFields, Path::kOneByOne})
    for (uint64_t n = 0; n < 500; ++n) {
      Trial t = trial_on(path, n);
      Trial other = t;
      other.options.seed += n % 4;  // the same answer, and others
      const Decoded earlier = one_at_a_time(other, path, 1).front();
      const PreviousAnswer previous{t.form.name(), earlier.fields, earlier.tokens};
      t.context.previous = &previous;
      HashLm lm(t.lm);
      const Statistics s = expect_same(t, path, lm, method_on(path, PreviousSpec{.name = "", .then = DiffusionSpec{}}, 5), 1, n);
      if (n % 4 == 0) {
        EXPECT_EQ(s.accepted, s.tested) << n;
      }
    }
}

/// An earlier answer longer than this one may be, and a draft length below what it drafts: rollouts that have forked draft side by side.
TEST(Previous, ThenDiffusionKeepsRolloutsInSlotsOfTheirOwn) {
  for (uint64_t n = 0; n < 200 && !testing::Test::HasFailure(); ++n) {
    Trial t = trial_on(Path::kText, n);
    t.options.end_tokens.clear();
    t.options.temperature = 0.4F;
    t.options.section_temperature.clear();
    t.options.limit = 10;
    Trial longer = t;
    longer.options.limit = 60;
    const PreviousAnswer previous{"", {}, one_at_a_time(longer, Path::kText, 1).front().tokens};
    t.context.previous = &previous;
    HashLm hashes(t.lm);
    Wrapped lm(hashes);
    lm.look = [&](const Pass& pass) {
      std::set<int32_t> slots;
      for (const Row& r : pass.rows) slots.insert(r.slot);
      EXPECT_EQ(slots.size(), pass.rows.size()) << n << ": two rows in a slot";
    };
    expect_same(t, Path::kText, lm, method_on(Path::kText, PreviousSpec{.name = "", .then = DiffusionSpec{}}, 2), 4, n);
  }
}

/// Ids without a text and the mask, whoever drafts them.
TEST(FreeText, NeverDrawsWhatIsDenied) {
  int64_t drawn = 0;
  for (uint64_t n = 0; n < 100 && !testing::Test::HasFailure(); ++n) {
    Trial t = trial_on(Path::kText, n);
    t.options.temperature = n % 2 ? 0.8F : 0;
    const std::vector<TokenId> unbound = one_at_a_time(t, Path::kText, 1).front().tokens;
    for (const TokenId id : {TokenId{1}, TokenId{4}, TokenId{9}}) {
      drawn += std::ranges::count(unbound, id);
      t.options.denied.push_back(id);
    }
    for (const Decoded& d : one_at_a_time(t, Path::kText, 3))
      for (const TokenId id : d.tokens) ASSERT_FALSE(std::ranges::binary_search(t.options.denied, id)) << n;
    HashLm lm(t.lm);
    for (const DrafterSpec& drafter : {DrafterSpec(DiffusionSpec{}), DrafterSpec(QuadraticSpec{}), DrafterSpec(LookupSpec{2})})
      expect_same(t, Path::kText, lm, method_on(Path::kText, drafter, 4), 3, n);
  }
  EXPECT_GT(drawn, 100) << "else nothing was asked";
}

class Verifications : public DraftLengthObserver {
 public:
  void seen(const DraftFacts&, const Place&, bool) override { ++count; }
  int64_t count = 0;
};

/// Rollouts that agree on every token share all rows: they count what one of them does.
TEST(Rollouts, CountTheDraftsOfSharedRowsOnce) {
  int64_t equal = 0;
  for (const Path path : kPaths)
    for (uint64_t n = 0; n < 100; ++n) {
      Trial t = trial_on(path, n);
      t.options.temperature = 1e-3F;  // sampled, so that nothing is known to be the same beforehand
      t.options.section_temperature.clear();
      t.lm.habit = 0.8;
      const auto with = [&](int32_t count, Verifications& seen) {
        HashLm lm(t.lm);
        auto d = Decoder(lm, method_on(path, DiffusionSpec{}, 5))
                     .rollouts(t.prompt, form_on(path, t), t.options, count, {.draft_length_observer = &seen});
        if (!d) throw std::runtime_error(d.error().message);
        return std::move(*d);
      };
      Verifications of_one, of_three;
      const Decoded one = with(1, of_one).front();
      const std::vector<Decoded> three = with(3, of_three);
      EXPECT_EQ(of_three.count, three[0].statistics.tested) << n;
      if (three[1].tokens != three[0].tokens || three[2].tokens != three[0].tokens) continue;
      if (three[0].statistics.forwards != one.statistics.forwards) continue;  // they parted behind an end token
      ++equal;
      EXPECT_EQ(three[0].statistics.proposed, one.statistics.proposed) << n << " path " << static_cast<int>(path);
      EXPECT_EQ(three[0].statistics.tested, one.statistics.tested) << n;
      EXPECT_EQ(three[0].statistics.accepted, one.statistics.accepted) << n;
    }
  EXPECT_GT(equal, 100);
}

}  // namespace
}  // namespace slip
