// SPDX-License-Identifier: Apache-2.0
// The service's parts with a model of hashes: whoever shares the arena, the passes and the prompts, and in whatever slices, each decoder
// commits the tokens that it would commit alone. A hash sees every slot, position and order, so that one stale key changes an answer.
#include <gtest/gtest.h>

#include <algorithm>
#include <deque>
#include <memory>
#include <utility>

#include "decode/decoder.h"
#include "decode/pass/prefix_cache.h"
#include "decode/testing/decode_testing.h"
#include "decode/testing/keeping_lm_testing.h"
#include "decode/types/capacity.h"
#include "lm/features_testing.h"
#include "service/fiber.h"
#include "service/schedule.h"
#include "service/session_lm.h"

namespace slip {
namespace {

using test::HashLm;

/// Costs of a machine on which rows cost: a millisecond, and a hundredth for every row.
CostTable costs() { return *CostTable::make({1, 101}, {1.0, 2.0}, "test"); }

/// One request on a fiber.
struct Guest {
  Prompt prompt;
  const Form* form = nullptr;
  DecodeOptions options;
  Method method;
  CancelToken cancel;
  Result<Decoded> result = Error{};
  std::unique_ptr<Fiber> fiber;
  PassJob* job = nullptr;
  uint64_t since = 0;
  int32_t known = 0;
};

struct House {
  /// `largest` > 0: the model keeps its logits elsewhere and tells so many of them.
  explicit House(HashLm::Options o, size_t largest = 0)
      : hashes(o), keeps(hashes, largest), lm(largest > 0 ? static_cast<Lm&>(keeps) : hashes), pages(o.slots) {}
  HashLm hashes;
  test::LikelyLm keeps;
  Lm& lm;
  SlotPages pages;
  PassMerger merger;
  uint64_t since = 1;
  std::deque<Guest> guests;

  void seat(Guest& g, bool share = true) {
    g.fiber = std::make_unique<Fiber>([this, &g, share] {
      const FormSize size{.positions = g.form->length(), .fields = static_cast<int64_t>(g.form->fields().size())};
      const int64_t slots = static_cast<int64_t>(g.prompt.inputs.size()) +
                            Capacity::of(g.method, g.options, true).slots_of_answers(1, g.options.limit, size);
      auto held = pages.hold(rows_of(g.prompt, lm.info().hidden_size), slots, share);
      while (!held) {
        g.fiber->pause();
        held = pages.hold(rows_of(g.prompt, lm.info().hidden_size), slots, share);
      }
      SessionLm view(lm, pages, std::move(*held), g.prompt, [this, &g](PassJob& job) {
        g.job = &job;
        g.since = since++;
        g.fiber->pause();
        g.job = nullptr;
      });
      PrefixCache known;
      known.know(g.prompt, g.known = view.known_rows());
      DecodeContext context;
      context.cancel = g.cancel;
      context.prefix_cache = &known;
      g.options.reuse_prompt = true;
      g.result = Decoder(view, g.method).decode(g.prompt, g.form, g.options, context);
    });
  }
  /// Until all are done: passes of random budgets.
  void run(PhiloxStream& r) {
    for (bool left = true; left;) {
      left = false;
      for (Guest& g : guests) {
        if (g.fiber->done()) continue;
        const bool ran = g.job && (g.job->done == g.job->rows.size() || g.cancel.cancelled());
        if (ran && g.job->done < g.job->rows.size()) g.job->status = g.cancel.check("decode", 0, "passes");
        if (!g.job || ran) g.fiber->resume();
        left |= !g.fiber->done();
      }
      std::vector<PassCandidate> candidates;
      for (Guest& g : guests)
        if (g.job && g.job->done < g.job->rows.size()) candidates.push_back({.job = g.job, .since = g.since});
      if (candidates.empty()) continue;
      const auto parts =
          plan_pass(candidates, costs(), {.ms = r.uniform(1, 3), .least_slice = static_cast<int32_t>(1 + r.below(8))});
      ASSERT_FALSE(parts.empty());
      merger.run(lm, parts);
    }
  }
};

constexpr const char* kPresets[] = {"scaffold-ar", "scaffold-spec", "self-spec", "ar", "self-spec-quadratic", "section-diffusion"};

Guest guest_of(const test::Trial& t, const char* preset, PhiloxStream& r) {
  Guest g;
  g.prompt = t.prompt;
  g.form = &t.form;
  g.options = t.options;
  g.options.forced = true;
  g.method = *method_of(preset);
  if (r.chance(0.3) && std::string_view(preset) == "scaffold-spec")
    g.method.draft_length = {.kind = DraftLengthSpec::Kind::kFixed, .tokens = 5};
  return g;
}

/// A longer prompt of which several may share the beginning.
void lengthen(Prompt& p, PhiloxStream& r, int32_t shared) {
  p = {};
  const auto n = static_cast<int32_t>(shared + static_cast<int32_t>(r.below(90)));
  for (int32_t i = 0; i < n; ++i) {
    p.positions.push_back(Position::text(i));
    const int32_t id = i < shared ? 3 + i % 7 : static_cast<int32_t>(3 + r.below(9));
    if (i % 5 == 4) {
      p.inputs.emplace_back(Feature{static_cast<int32_t>(p.features.numbers_ND.size() / 2)});
      p.features.numbers_ND.push_back(static_cast<float>(i < shared ? 1 : id));
      p.features.numbers_ND.push_back(static_cast<float>(i));
    } else {
      p.inputs.emplace_back(TokenId{id});
    }
  }
  p.next_position = n;
  if (!r.chance(0.5)) return;
  // Some lie elsewhere, those of the shared rows in a block of their own.
  test::hold_first(p.features, shared / 5, 2);
  if (const auto rest = static_cast<int32_t>(p.features.numbers_ND.size()) / 2; rest > 0)
    test::hold_first(p.features, static_cast<int32_t>(r.below(static_cast<uint32_t>(rest))) + 1, 2);
}

TEST(SessionsInOnePass, CommitWhatEachCommitsAlone) {
  int64_t known = 0, merged = 0, cancelled = 0, lines = 0, read_whole = 0;
  for (uint64_t number = 0; number < 60; ++number) {
    PhiloxStream r(number, 77);
    std::deque<test::Trial> trials;
    HashLm::Options shared = test::chain_trial(number, true).lm;
    shared.slots = 1024;
    House house(shared, number % 2 == 0 ? 0 : number % 5 + 1);
    for (int i = 0; i < 9; ++i) {
      const bool ends = r.chance(0.7);
      trials.push_back(test::chain_trial(number * 100 + static_cast<uint64_t>(i), ends));
      if (r.chance(0.7)) lengthen(trials.back().prompt, r, 70);
      const char* preset = kPresets[r.below(ends ? 5 : 6)];
      house.guests.push_back(guest_of(trials.back(), preset, r));
      if (r.chance(0.15)) house.guests.back().cancel.cancel();
      house.seat(house.guests.back(), r.chance(0.9));
    }
    house.run(r);
    for (Guest& g : house.guests) {
      known += g.known;
      if (g.cancel.cancelled()) {
        ++cancelled;
        EXPECT_FALSE(g.result);
        continue;
      }
      HashLm alone(shared);
      DecodeOptions options = g.options;
      options.reuse_prompt = false;
      const auto want = Decoder(alone, g.method).decode(g.prompt, g.form, options);
      ASSERT_EQ(want.has_value(), g.result.has_value())
          << number << " " << (want ? g.result.error().message : want.error().message);
      if (!want) continue;
      EXPECT_EQ(want->tokens, g.result->tokens) << number << " " << g.method.preset;
      merged += want->statistics.forwards;
    }
    EXPECT_EQ(house.pages.held(), 0) << "nothing is held by those who are gone";
    merged -= house.merger.passes();
    lines += house.keeps.lines, read_whole += house.keeps.read_whole;
  }
  EXPECT_GT(known, 500) << "prompts were shared";
  EXPECT_GT(merged, 1000) << "passes were shared";
  EXPECT_GT(cancelled, 20);
  EXPECT_GT(lines, 1000);
  EXPECT_GT(read_whole, 50);
}

// Rows of a part that is not a request's last are read behind other passes, when a model keeps no logits of theirs any more.
TEST(SessionsInOnePass, RowsOfEarlierPartsHaveTheirLogits) {
  HashLm::Options o;
  o.vocab = 30;
  o.slots = 64;
  House house(o, 3);
  std::vector<PassJob> jobs(2);
  std::vector<PassOutput> outs(2);
  for (int j = 0; j < 2; ++j) {
    PassJob& job = jobs[static_cast<size_t>(j)];
    job.out = &outs[static_cast<size_t>(j)];
    for (int32_t i = 0; i < 12; ++i) {
      const int32_t slot = 20 * j + i;
      job.rows.push_back({TokenId{3 + (i * 7 + j) % 20}, Position::text(i), slot, static_cast<uint32_t>(i), 1, Want::kLikely});
      job.spans.push_back({20 * j, slot + 1});
    }
  }
  const auto run = [&](size_t first, size_t second) {
    std::vector<JobPart> parts;
    for (size_t j = 0; j < 2; ++j)
      if (const size_t rows = j == 0 ? first : second; rows > 0) parts.push_back({&jobs[j], jobs[j].done, rows});
    house.merger.run(house.lm, parts);
  };
  run(5, 12);
  run(4, 0);
  run(3, 0);
  HashLm alone(o);
  for (size_t j = 0; j < 2; ++j) {
    ASSERT_TRUE(jobs[j].status);
    ASSERT_EQ(jobs[j].done, 12u);
    PassOutput want;
    ASSERT_TRUE(alone.forward({jobs[j].rows, jobs[j].spans}, want));
    for (size_t i = 0; i < 12; ++i) {
      EXPECT_EQ(outs[j].argmax[i], want.argmax[i]);
      const auto line = outs[j].kept_line_of(i);
      if (j == 1) {
        EXPECT_FALSE(outs[j].logits_row[i] >= 0);
        continue;  // that pass is over
      }
      ASSERT_EQ(line.has_value(), i >= 9);
      const auto have = line ? *outs[j].kept->all(*line) : std::as_const(outs[j]).logits_V(i);
      EXPECT_TRUE(std::ranges::equal(have, want.logits_V(i))) << i;
    }
  }
}

TEST(SessionsInOnePass, WouldNoticeAStaleKey) {
  // A mutant of the model: what was first written to a slot stays there. Slots are used by one request after another.
  bool differs = false;
  for (uint64_t number = 0; number < 10 && !differs; ++number) {
    PhiloxStream r(number, 78);
    HashLm::Options o = test::chain_trial(number, true).lm;
    o.slots = 80;  // room for one or two at a time
    o.keeps_first = true;
    House house(o);
    std::deque<test::Trial> trials;
    for (int i = 0; i < 6; ++i) {
      trials.push_back(test::chain_trial(number * 100 + static_cast<uint64_t>(i), true));
      house.guests.push_back(guest_of(trials.back(), "scaffold-ar", r));
      house.seat(house.guests.back(), false);
    }
    house.run(r);
    o.keeps_first = false;
    for (Guest& g : house.guests) {
      HashLm alone(o);
      DecodeOptions options = g.options;
      options.reuse_prompt = false;
      const auto want = Decoder(alone, g.method).decode(g.prompt, g.form, options);
      differs |= want && g.result && want->tokens != g.result->tokens;
    }
  }
  EXPECT_TRUE(differs);
}

TEST(SlotPages, ShareBeginningsAndCountWhoHoldsThem) {
  SlotPages pages(16 * 10);
  std::vector<PromptRow> prompt;
  for (int i = 0; i < 40; ++i) prompt.push_back({.low = static_cast<uint64_t>(i), .position = Position::text(i)});
  auto a = pages.hold(prompt, 60);
  ASSERT_TRUE(a);
  EXPECT_EQ(a->known, 0);
  pages.publish(*a, 40);
  auto b = pages.hold(prompt, 60);
  ASSERT_TRUE(b);
  EXPECT_EQ(b->known, 32) << "whole pages, and never the last row";
  EXPECT_EQ(b->pages[0], a->pages[0]);
  EXPECT_NE(b->pages[2], a->pages[2]);
  auto other = prompt;
  other[20].low = 99;
  auto c = pages.hold(other, 60);
  ASSERT_TRUE(c);
  EXPECT_EQ(c->known, 16);
  EXPECT_EQ(pages.held(), 4 + 2 + 3);
  EXPECT_FALSE(pages.hold(prompt, 16 * 4 + 1)) << "two shared, three more wanted, one free";
  pages.release(std::move(*a));
  EXPECT_EQ(pages.held(), 2 + 2 + 3);
  pages.release(std::move(*b));
  pages.release(std::move(*c));
  EXPECT_EQ(pages.held(), 0);
  EXPECT_EQ(pages.kept(), 2);
  auto all = pages.hold({}, 160);
  ASSERT_TRUE(all) << "what nobody holds gives way";
  EXPECT_EQ(pages.kept(), 0);
  pages.release(std::move(*all));
  EXPECT_TRUE(pages.fits(160));
  EXPECT_FALSE(pages.fits(161));
}

PassJob causal(int32_t rows) {
  PassJob job;
  for (int32_t i = 0; i < rows; ++i) {
    job.spans.push_back({0, i + 1});
    job.rows.push_back({TokenId{1}, Position::text(i), i, static_cast<uint32_t>(i), 1, Want::kNothing});
  }
  return job;
}

TEST(Cuts, StandWhereNoRowBeforeSeesOneBehind) {
  PassJob job = causal(100);
  find_cuts(job, 64);
  ASSERT_EQ(job.cuts.size(), 100U);
  job.spans[10] = {0, 31};  // row 10 sees what row 30 writes
  find_cuts(job, 64);
  EXPECT_EQ(job.cuts[9], 10);
  EXPECT_EQ(job.cuts[10], 31);
  job = causal(64);
  find_cuts(job, 64);
  EXPECT_EQ(job.cuts, std::vector<int32_t>{64}) << "short passes stay whole";
}

TEST(PlanPass, TakesSlicesOfPromptsBehindThoseWhoDecode) {
  PassJob prompt = causal(1000), one = causal(20), two = causal(20);
  for (PassJob* j : {&prompt, &one, &two}) find_cuts(*j, 64);
  const auto now = Clock::now();
  const std::vector<PassCandidate> all = {{&prompt, false, Clock::time_point::max(), 1},
                                          {&one, false, now + std::chrono::seconds(2), 2},
                                          {&two, false, now + std::chrono::seconds(1), 3}};
  auto parts = plan_pass(all, costs(), {.ms = 3});  // 201 rows
  ASSERT_EQ(parts.size(), 3U);
  EXPECT_EQ(parts[0].job, &two) << "the earliest deadline first";
  EXPECT_EQ(parts[1].job, &one);
  EXPECT_EQ(parts[2].job, &prompt);
  EXPECT_EQ(parts[2].rows, 161U);
  parts = plan_pass(all, costs(), {.ms = 0.1, .least_slice = 8});
  ASSERT_EQ(parts.size(), 2U);
  EXPECT_EQ(parts[1].rows, 8U) << "a prompt goes on whatever the load";
  two.asked.draft_adapter = true;
  parts = plan_pass(all, costs(), {.ms = 3});
  ASSERT_EQ(parts.size(), 2U) << "another kind of pass waits for its own";
}

TEST(PlanPass, TakesBatchLastUnlessItHasWaitedLongest) {
  PassJob batch = causal(60), here = causal(60), there = causal(60);
  const auto soon = Clock::now() + std::chrono::seconds(1);
  const auto order = [&](uint64_t batch_since) {
    const std::vector<PassCandidate> all = {{&batch, true, soon, batch_since},
                                            {&here, false, Clock::time_point::max(), 2},
                                            {&there, false, Clock::time_point::max(), 3}};
    std::vector<const PassJob*> out;
    for (const JobPart& p : plan_pass(all, costs(), {.ms = 2.5})) out.push_back(p.job);  // 151 rows: two of three
    return out;
  };
  EXPECT_EQ(order(4), (std::vector<const PassJob*>{&here, &there})) << "whatever its deadline";
  EXPECT_EQ(order(1), (std::vector<const PassJob*>{&here, &there, &batch})) << "nobody is passed over for ever";
}

TEST(PlanPass, ItsTimeIsNoMoreThanWhatIsLeftToADeadline) {
  const auto now = Clock::now();
  std::vector<PassCandidate> all(2);
  EXPECT_EQ(budget_ms(all, 50, now), 50);
  all[1].deadline = now + std::chrono::milliseconds(20);
  EXPECT_EQ(budget_ms(all, 50, now), 20);
  EXPECT_EQ(budget_ms(all, 10, now), 10);
  all[0].deadline = now - std::chrono::milliseconds(5);
  EXPECT_EQ(budget_ms(all, 50, now), 1) << "a prompt goes on, by its least slice";
}

TEST(FairShares, KeysThatHaveHadLessGoFirstAndRestSavesNothing) {
  FairShares shares;
  const std::vector<std::string> both = {"a", "b"};
  shares.used("a", 100);
  EXPECT_LT(shares.of("b"), shares.of("a"));
  for (int i = 0; i < 10; ++i) shares.used("b", 50);
  shares.level(both);
  EXPECT_EQ(shares.of("c"), 100) << "a new key begins level with the one that has had least";
}

TEST(Prediction, IsTheBacklogAndItsOwnAndNoSoonerThanAlone) {
  EXPECT_EQ(predicted_ms({.machine_ms = 10, .alone_ms = 30}, 0), 30);
  EXPECT_EQ(predicted_ms({.machine_ms = 10, .alone_ms = 30}, 100), 110);
}

TEST(Experience, AShortRequestIsNotTakenForTheLongOnesBeforeIt) {
  const CostTable costs = *CostTable::make({1, 128}, {1, 128}, "test");
  const auto now = Clock::now();
  Experience long_ones;
  for (int i = 0; i < 30; ++i) long_ones.seen({"text", 4000}, {{1020, 1020}, 1000, 0}, costs, now);
  EXPECT_NEAR(long_ones.expected({"text", 4000}, costs).alone_ms, 1020, 1);
  EXPECT_NEAR(long_ones.expected({"text", 40}, costs).alone_ms, 30, 1) << "ten rows, and what was behind the prompt";
  Experience short_ones;
  for (int i = 0; i < 30; ++i) short_ones.seen({"text", 40}, {{30, 30}, 10, 0}, costs, now);
  EXPECT_NEAR(short_ones.expected({"text", 4000}, costs).alone_ms, 1020, 1);
  EXPECT_EQ(short_ones.expected({"another", 40}, costs).alone_ms, 0) << "nothing is known";
}

// The table was measured when the machine was four times as quick, or half as quick.
TEST(Experience, RowsCostWhatAnswersShow) {
  const CostTable costs = *CostTable::make({1, 128}, {1, 128}, "test");
  for (const double slower : {4.0, 0.5})
    for (const bool long_first : {false, true}) {
      SCOPED_TRACE(fmt::format("{} times, {} first", slower, long_first ? "long ones" : "short ones"));
      Experience e;
      const auto some = [&](bool longer) {
        const double ms = slower * (longer ? 1020 : 30);
        for (int i = 0; i < 16; ++i) e.seen({"text", longer ? 4000 : 40}, {{ms, ms}, longer ? 1000 : 10, 0}, costs, Clock::now());
      };
      some(long_first);
      some(!long_first);
      EXPECT_NEAR(e.expected({"text", 40}, costs).alone_ms, slower * 30, slower * 25);
      EXPECT_NEAR(e.expected({"text", 4000}, costs).machine_ms, slower * 1020, slower * 50);
    }
}

// The first answer found a cold machine, and the next ones are longer: longer prompts are not cheaper for that.
TEST(Experience, AColdFirstAnswerMakesNoLongPromptCheap) {
  const CostTable costs = *CostTable::make({1, 128}, {1, 128}, "test");
  Experience e;
  e.seen({"text", 40}, {{450, 450}, 10, 0}, costs, Clock::now());
  for (int i = 0; i < 32; ++i) {
    e.seen({"text", 160}, {{60, 60}, 40, 0}, costs, Clock::now());
    EXPECT_GT(e.expected({"text", 4000}, costs).alone_ms, 900) << i;
  }
}

// Ten answers of nearly one length say next to nothing of rows, whatever chance there is in them.
TEST(Experience, WhereLengthsAreAlikeTheTableHolds) {
  const CostTable costs = *CostTable::make({1, 128}, {1, 128}, "test");
  Experience e;
  for (int i = 0; i < 10; ++i)
    e.seen({"text", 400 + 4 * (i % 2)}, {{300.0 + 20 * (i % 2), 300.0 + 20 * (i % 2)}, 100 + i % 2, 0}, costs, Clock::now());
  EXPECT_NEAR(e.expected({"text", 4000}, costs).alone_ms, 1210, 150);
}

TEST(Experience, KeptRowsOfAPromptCostNothing) {
  const CostTable costs = *CostTable::make({1, 128}, {1, 128}, "test");
  Experience e;
  for (int i = 0; i < 30; ++i) e.seen({"scene", 0}, {{44, 44}, 430, 400}, costs, Clock::now());
  EXPECT_NEAR(e.expected({"scene", 0}, costs).machine_ms, 44, 1);
}

TEST(Experience, OneSlowAnswerIsForgottenSoon) {
  const CostTable costs = *CostTable::make({1, 128}, {1, 128}, "test");
  const RequestKind kind{"text", 40};
  Experience cold;  // the machine stood still during the first
  cold.seen(kind, {{450, 450}, 10, 0}, costs, Clock::now());
  for (int i = 0; i < 3; ++i) cold.seen(kind, {{30, 30}, 10, 0}, costs, Clock::now());
  EXPECT_LT(cold.expected(kind, costs).alone_ms, 100);
  Experience warm;
  for (int i = 0; i < 20; ++i) warm.seen(kind, {{30, 30}, 10, 0}, costs, Clock::now());
  warm.seen(kind, {{1600, 1600}, 10, 0}, costs, Clock::now());
  EXPECT_LT(warm.expected(kind, costs).alone_ms, 40);
  for (int i = 0; i < 60; ++i) warm.seen(kind, {{120, 120}, 10, 0}, costs, Clock::now());
  EXPECT_GT(warm.expected(kind, costs).alone_ms, 100) << "and what lasts is learned";
}

TEST(Experience, ARefusalDoesNotLastForEver) {
  const CostTable costs = *CostTable::make({1, 128}, {1, 128}, "test");
  const auto now = Clock::now();
  Experience e;
  EXPECT_FALSE(e.stale("text", now)) << "of what nothing is known nothing is refused";
  e.seen({"text", 40}, {{30, 30}, 10, 0}, costs, now);
  EXPECT_FALSE(e.stale("text", now + std::chrono::seconds(1)));
  EXPECT_TRUE(e.stale("text", now + std::chrono::seconds(3)));
  e.tried("text", now + std::chrono::seconds(3));
  EXPECT_FALSE(e.stale("text", now + std::chrono::seconds(4))) << "one at a time";
}

TEST(Fibers, GoOnWhereTheyStoodStill) {
  std::vector<int> seen;
  Fiber* self = nullptr;
  Fiber fiber([&] {
    for (int i = 0; i < 3; ++i) {
      seen.push_back(i);
      self->pause();
    }
  });
  self = &fiber;
  for (int i = 0; i < 4; ++i) fiber.resume();
  EXPECT_TRUE(fiber.done());
  EXPECT_EQ(seen, (std::vector<int>{0, 1, 2}));
  Fiber never([] {});
}

}  // namespace
}  // namespace slip
