// SPDX-License-Identifier: Apache-2.0
// Draft lengths as arithmetic: the choice against brute force, calibration against known odds, files.
#include "decode/draft_length/policy.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <cmath>
#include <filesystem>

#include "base/file.h"
#include "base/philox.h"
#include "decode/draft_length/choice.h"
#include "decode/draft_length/collect.h"
#include "decode/draft_length/model_file.h"
#include "decode/sequence/cursor.h"
#include "decode/testing/hash_lm_testing.h"

namespace slip {
namespace {

using testing::HasSubstr;

CostTable table_of(int32_t most, const std::function<double(int32_t)>& ms) {
  std::vector<int32_t> rows;
  std::vector<double> times;
  for (int32_t n = 1; n <= most; ++n) {
    rows.push_back(n);
    times.push_back(ms(n));
  }
  return *CostTable::make(rows, times, "test");
}

/// Rises by jumps of any size at any place, and falls here and there: nothing is promised but that it is above 0.
CostTable random_stairs(PhiloxStream& r, int32_t most) {
  double now = r.uniform(0.5, 5);
  return table_of(most, [&](int32_t) {
    if (r.chance(0.2)) now = std::max(0.1, now + r.uniform(-0.5, 4));
    return now;
  });
}

struct Scene {
  std::vector<std::vector<DrawValue>> drafts;
  std::vector<StrandValues> strands;
};
Scene random_scene(PhiloxStream& r, size_t strands, uint32_t most_drafts, bool wide_rows) {
  Scene s;
  s.drafts.resize(strands);
  for (auto& d : s.drafts) {
    float gain = static_cast<float>(r.uniform(0.3, 1));
    for (uint32_t n = r.below(most_drafts + 1); n > 0; --n) {
      gain *= static_cast<float>(r.chance(0.1) ? 1 : r.uniform(0.2, 1));
      d.push_back({gain, wide_rows ? static_cast<float>(1 + r.below(5)) : 1.0F, 1});
    }
  }
  for (auto& d : s.drafts) s.strands.push_back({d, static_cast<float>(r.uniform(0.3, 1)), 1, 0});
  return s;
}
double rate_of(const Scene& s, std::span<const int32_t> take, const RoundCost& cost) {
  double gain = 0, verify = 0, draft = 0;
  int32_t longest = 0;
  for (size_t i = 0; i < s.strands.size(); ++i) {
    gain += s.strands[i].gain;
    verify += s.strands[i].verify_rows;
    for (int32_t k = 0; k < take[i]; ++k) {
      gain += s.drafts[i][static_cast<size_t>(k)].gain;
      verify += s.drafts[i][static_cast<size_t>(k)].verify_rows;
      draft += s.drafts[i][static_cast<size_t>(k)].draft_rows;
    }
    longest = std::max(longest, take[i]);
  }
  return gain / cost.ms(verify, draft, static_cast<int32_t>(s.strands.size()), longest);
}
double best_rate(const Scene& s, const RoundCost& cost) {
  std::vector<int32_t> take(s.strands.size(), 0);
  double best = 0;
  while (true) {
    best = std::max(best, rate_of(s, take, cost));
    size_t i = 0;
    while (i < take.size() && take[i] == static_cast<int32_t>(s.drafts[i].size())) take[i++] = 0;
    if (i == take.size()) return best;
    ++take[i];
  }
}

TEST(DraftLengthChoice, IsTheBestOfAllOnAnyStaircase) {
  PhiloxStream r(1, 1);
  DraftLengthChoice choice;
  for (int n = 0; n < 3000; ++n) {
    const CostTable pass = random_stairs(r, 40), draft = random_stairs(r, 40);
    const Scene s = random_scene(r, 1 + r.below(3), 6, false);
    const RoundCost cost{
        .pass = &pass, .draft = &draft, .drafts = r.chance(0.5) ? RoundCost::Drafts::kRows : RoundCost::Drafts::kPaid};
    std::vector<int32_t> take(s.strands.size());
    choice.choose(s.strands, cost, 1000, take);
    ASSERT_NEAR(rate_of(s, take, cost), best_rate(s, cost), 1e-6) << n;
  }
}

TEST(DraftLengthChoice, IsTheBestOfOneStrandWhoseDrawsBringRowsAlong) {
  PhiloxStream r(2, 1);
  DraftLengthChoice choice;
  for (int n = 0; n < 1000; ++n) {
    const CostTable pass = random_stairs(r, 80);
    const Scene s = random_scene(r, 1, 15, true);
    const RoundCost cost{.pass = &pass};
    int32_t take[1];
    choice.choose(s.strands, cost, 1000, take);
    ASSERT_NEAR(rate_of(s, take, cost), best_rate(s, cost), 1e-6) << n;
  }
}

TEST(DraftLengthChoice, AFirstFallIsNotTheEnd) {  // what a greedy stop gets wrong
  const CostTable pass = table_of(16, [](int32_t n) { return n <= 1 ? 1.0 : 2.2; });
  std::vector<DrawValue> draws;
  for (float s = 0.9F; draws.size() < 15; s *= 0.9F) draws.push_back({s, 1, 1});
  const StrandValues strand{draws, 1, 1, 0};
  int32_t take[1];
  DraftLengthChoice().choose({&strand, 1}, {.pass = &pass}, 64, take);
  EXPECT_EQ(take[0], 15);
}

TEST(DraftLengthChoice, FlatCostsTakeEverything) {
  PhiloxStream r(3, 1);
  const CostTable flat = table_of(64, [](int32_t) { return 7.0; });
  for (int n = 0; n < 200; ++n) {
    const Scene s = random_scene(r, 1 + r.below(30), 12, false);
    std::vector<int32_t> take(s.strands.size());
    DraftLengthChoice().choose(s.strands, {.pass = &flat}, 100000, take);
    for (size_t i = 0; i < take.size(); ++i) ASSERT_EQ(take[i], static_cast<int32_t>(s.drafts[i].size()));
  }
}

TEST(DraftLengthChoice, LinearCostsTakeWhatIsAboveTheMarginalRate) {
  PhiloxStream r(4, 1);
  for (int n = 0; n < 500; ++n) {
    const double a = r.uniform(0.5, 10), b = r.uniform(0.1, 1);
    const CostTable linear = table_of(200, [&](int32_t rows) { return a + b * rows; });
    const Scene s = random_scene(r, 1 + r.below(8), 12, false);
    std::vector<int32_t> take(s.strands.size());
    const RoundCost cost{.pass = &linear};
    DraftLengthChoice().choose(s.strands, cost, 1000, take);
    const double rate = rate_of(s, take, cost);
    for (size_t i = 0; i < take.size(); ++i)
      for (size_t k = 0; k < s.drafts[i].size(); ++k) {
        const double marginal = static_cast<double>(s.drafts[i][k].gain) / b;
        if (static_cast<int32_t>(k) < take[i])
          ASSERT_GE(marginal, rate - 1e-6);
        else
          ASSERT_LE(marginal, rate + 1e-6);
      }
  }
}

TEST(DraftLengthChoice, KeepsTheCapOnRows) {
  PhiloxStream r(5, 1);
  const CostTable flat = table_of(64, [](int32_t) { return 7.0; });
  for (int32_t most = 1; most < 60; ++most) {
    const Scene s = random_scene(r, 10, 12, true);
    std::vector<int32_t> take(10);
    DraftLengthChoice choice;
    choice.choose(s.strands, {.pass = &flat}, most, take);
    EXPECT_LE(choice.verify_rows(), std::max(10, most));
  }
}

/// 64 draws in each of 30 strands. Steps: one per draw looked at, each a heap of 30; and the time, against a loop of as many square
/// roots and logarithms in this run, which a machine that is busy slows down alike.
TEST(DraftLengthChoice, IsQuick) {
  PhiloxStream r(6, 1);
  const CostTable pass = table_of(256, [](int32_t n) { return 5 + (n + 15) / 16; });
  Scene s;
  s.drafts.resize(30);
  for (auto& d : s.drafts)
    for (float g = 0.9F; d.size() < 64; g *= static_cast<float>(r.uniform(0.9, 1))) d.push_back({g, 1, 1});
  for (auto& d : s.drafts) s.strands.push_back({d, 1, 1, 0});
  std::vector<int32_t> take(30);
  DraftLengthChoice choice;
  choice.choose(s.strands, {.pass = &pass}, 256, take);
  EXPECT_LE(choice.operations(), 256 + 30);
  using Clock = std::chrono::steady_clock;
  double best = 1e9, yardstick = 1e9;
  for (int n = 0; n < 50; ++n) {
    auto begin = Clock::now();
    choice.choose(s.strands, {.pass = &pass}, 256, take);
    best = std::min(best, std::chrono::duration<double, std::micro>(Clock::now() - begin).count());
    begin = Clock::now();
    double x = 0;
    for (int k = 1; k <= 1920; ++k) x += std::log(k + std::sqrt(x));
    yardstick = std::min(yardstick, std::chrono::duration<double, std::micro>(Clock::now() - begin).count());
    ASSERT_GT(x, 0);
  }
  RecordProperty("microseconds", std::to_string(best));
  EXPECT_LT(best, 2 * yardstick) << "as quick as a few dozen microseconds of arithmetic: " << best << " us against " << yardstick;
}

TEST(CostTable, GoesThroughItsPointsAndOn) {
  const CostTable t = *CostTable::make({1, 4, 8}, {2, 5, 3}, "x");
  EXPECT_EQ(t.ms(0), 0);
  EXPECT_EQ(t.ms(1), 2);
  EXPECT_EQ(t.ms(2), 3);
  EXPECT_EQ(t.ms(4), 5);
  EXPECT_EQ(t.ms(8), 3);
  EXPECT_EQ(t.ms(20), 3) << "a table that falls does not fall below 0 behind its end";
  EXPECT_EQ(CostTable::make({1, 4, 8}, {2, 4, 8}, "x")->ms(12), 12);
  EXPECT_THAT(CostTable::make({2, 2}, {1, 1}, "here").error().message, HasSubstr("here: expected ascending"));
  EXPECT_THAT(CostTable::make({2}, {-1}, "here").error().message, HasSubstr("above 0, got -1"));
  EXPECT_FALSE(CostTable::make({}, {}, "x"));
}

TEST(CostTable, IsMeasured) {
  test::HashLm lm({.slots = 512});
  const CostTable t = *measure_costs(lm, {.visible = 64, .budget_ms = 20});
  EXPECT_EQ(t.rows().front(), 1);
  EXPECT_EQ(t.rows().back(), 128);
  EXPECT_GT(t.ms(128), t.ms(1));
  EXPECT_EQ(measure_costs(lm, {.visible = 500}).error().kind, ErrorKind::kResource);
}

/// Odds that depend on field, draws ahead and top, as an engine's would; a collector sees two thousand requests.
double true_odds(const DraftFacts& f) {
  const double x = -1 + 3.5 * static_cast<double>(f.top) - 0.12 * f.ahead +
                   (f.field == 1   ? 0.8
                    : f.field == 2 ? -0.9
                                   : 0) +
                   (f.index == 0 ? 0.4 : 0);
  return 1 / (1 + std::exp(-x));
}
Form three_fields() {
  Form::Parts p;
  p.name = "three";
  for (int32_t f = 0; f < 3; ++f) {
    p.pieces.emplace_back(FixedRun{{{4}, {5}}, 0});
    p.pieces.emplace_back(FieldRef{f});
    p.fields.push_back({.name = std::string(1, static_cast<char>('a' + f)), .budget = 12, .end = TokenId{5}});
  }
  p.pieces.emplace_back(FixedRun{{{5}}, 0});
  return *Form::make(std::move(p));
}
DraftFacts random_facts(PhiloxStream& r) {
  return {.top = static_cast<float>(std::sqrt(r.uniform())),
          .ahead = static_cast<int32_t>(r.below(14)),
          .field = static_cast<int32_t>(r.below(3)),
          .index = static_cast<int32_t>(r.below(12))};
}
DraftLengthCollector collected(const Form& form, int requests, uint64_t seed, double shift = 0) {
  DraftLengthCollector c(&form);
  PhiloxStream r(seed, 7);
  for (int n = 0; n < requests; ++n) {
    c.begin(n / 20);
    for (int k = 0; k < 12; ++k) {
      const DraftFacts f = random_facts(r);
      c.seen(f, {f.field, f.index, 0}, r.chance(std::clamp(true_odds(f) + shift, 0.0, 1.0)));
    }
    Decoded d;
    d.fields.assign(3, std::vector<TokenId>(1 + r.below(4)));
    c.answered(d);
  }
  return c;
}

TEST(Calibration, HoldsOnDrivesThatWereHeldOut) {  // gate 20
  const Form form = three_fields();
  const Calibration k = *collected(form, 2000, 1).finish();
  EXPECT_LT(k.ece, 0.03);
  EXPECT_EQ(k.tested, 24000);
  EXPECT_EQ(k.held_out, 12000);
  PhiloxStream r(8, 8);
  double worst = 0, mean = 0;
  for (int n = 0; n < 3000; ++n) {
    const DraftFacts f = random_facts(r);
    const double gap = std::abs(k.survival.kept(f) - true_odds(f));
    worst = std::max(worst, gap);
    mean += gap / 3000;
  }
  EXPECT_LT(mean, 0.05) << "bins of the top probability are a tenth to three tenths wide";
  EXPECT_LT(worst, 0.35);
  // Other odds than those that it was made with are seen.
  CalibrationError wrong;
  for (int n = 0; n < 5000; ++n) {
    const DraftFacts f = random_facts(r);
    wrong.add(k.survival.kept(f), r.chance(true_odds(f) * 0.7));
  }
  EXPECT_GT(wrong.value(), 0.1);
  EXPECT_THAT(collected(form, 20, 1).finish().error().message, HasSubstr("expected at least 200 tested drafts"));
}

TEST(Calibration, FewTestsLeanOnTheOthers) {
  Survival s(4);
  s.add({.field = 0, .top = 5}, {900, 1000});
  s.add({.field = 1, .top = 5}, {0, 1});
  s.fit();
  const auto at = [&](int32_t field) { return s.kept({.top = 1, .field = field}); };
  EXPECT_NEAR(at(0), 0.9, 0.01);
  EXPECT_NEAR(at(2), 0.9, 0.02) << "never seen: as the others";
  EXPECT_LT(at(1), at(2));
  EXPECT_GT(at(1), 0.7) << "one miss is no proof";
  EXPECT_NEAR(s.kept({.top = 1, .field = 77}), 0.9, 0.02) << "a field that it does not know";
}

TEST(Lengths, TellHowFarAFieldGoes) {
  const int32_t budgets[] = {6, 4};
  Lengths l(budgets);
  EXPECT_EQ(l.at_least(0, 6, 0), 1);
  EXPECT_EQ(l.mean(0, 0, 3.5), 3.5);
  l.add(0, 2, 60);
  l.add(0, 4, 40);
  EXPECT_NEAR(l.at_least(0, 3, 0), 0.4, 0.01);
  EXPECT_NEAR(l.at_least(0, 4, 3), 1, 1e-12);
  EXPECT_NEAR(l.at_least(0, 5, 3), 0, 0.02);
  EXPECT_NEAR(l.mean(0, 0, 0), 2.8, 1e-9);
  EXPECT_EQ(l.at_least(1, 4, 0), 1);
}

TEST(DraftLengthTracker, FollowsTheDriveAndKnowsWhenItIsLost) {
  const Form form = three_fields();
  const Calibration k = *collected(form, 2000, 1).finish();
  PhiloxStream r(9, 9);
  const auto drive = [&](DraftLengthTracker& t, int draws, double factor) {
    int lost = 0;
    for (int n = 0; n < draws; ++n) {
      const DraftFacts f = random_facts(r);
      const double p = t.corrected(f.field, k.survival.kept(f));
      t.seen(f.field, p, r.chance(true_odds(f) * factor));
      lost += t.drifted();
    }
    return lost;
  };
  DraftLengthTracker t;
  EXPECT_EQ(drive(t, 20000, 1), 0) << "a calibrated drive is never taken for a lost one";
  EXPECT_GT(drive(t, 600, 0.3), 0) << "where drafts suddenly miss, the static length takes over";
  drive(t, 3000, 0.3);
  EXPECT_FALSE(t.drifted()) << "and the correction brings it back";
  CalibrationError after;
  for (int n = 0; n < 4000; ++n) {
    const DraftFacts f = random_facts(r);
    const double p = t.corrected(f.field, k.survival.kept(f));
    const bool kept = r.chance(true_odds(f) * 0.3);
    after.add(p, kept);
    t.seen(f.field, p, kept);
  }
  EXPECT_LT(after.value(), 0.08) << "a factor on odds is no shift of log-odds: fields are right on average, tops are not";
}

std::filesystem::path scratch(const std::string& name) {
  const auto p = std::filesystem::temp_directory_path() / ("slip_width_test_" + std::to_string(::getpid()) + "_" + name);
  return p;
}

TEST(WidthFile, ReadsWhatItWrote) {
  const Form form = three_fields();
  DraftLengthModel m = DraftLengthModel::uninformed(*CostTable::make({1, 8, 64}, {10.001, 11.5, 80}, "x"), &form);
  const Calibration k = *collected(form, 500, 1).finish();
  m.survival = k.survival;
  m.lengths = k.lengths;
  m.model = "demo";
  m.drafter = "diffusion";
  m.draft = *CostTable::make({1, 2}, {1, 1.5}, "x");
  m.ece = 0.0125;
  const auto file = scratch("a.json");
  ASSERT_TRUE(write_draft_length_model(m, file));
  const auto back = read_draft_length_model(file);
  ASSERT_TRUE(back) << back.error().message;
  EXPECT_EQ(back->model, "demo");
  EXPECT_EQ(back->fields, m.fields);
  EXPECT_EQ(back->ece, 0.0125);
  EXPECT_TRUE(check_draft_length_model(*back, &form));
  PhiloxStream r(3, 3);
  for (int n = 0; n < 200; ++n) {
    const DraftFacts f = random_facts(r);
    ASSERT_EQ(back->survival.kept(f), m.survival.kept(f));
    ASSERT_EQ(back->lengths.at_least(1, f.ahead, 0), m.lengths.at_least(1, f.ahead, 0));
  }
  for (const int32_t rows : {1, 5, 8, 64, 100}) EXPECT_DOUBLE_EQ(back->pass.ms(rows), m.pass.ms(rows));
  EXPECT_EQ(back->draft.ms(2), 1.5);

  EXPECT_THAT(check_draft_length_model(*back, nullptr).error().message,
              HasSubstr("expected one for free text, got one for form three"));
  Form::Parts parts = form.parts();
  parts.name = "other";
  const Form renamed = *Form::make(parts);
  EXPECT_THAT(check_draft_length_model(*back, &renamed).error().message,
              HasSubstr("expected one for form other, got one for three"));
  parts.name = "three";
  parts.fields[1].budget = 3;
  const Form changed = *Form::make(parts);
  EXPECT_THAT(check_draft_length_model(*back, &changed).error().message, HasSubstr("fields and budgets of form three"));
  const std::string text = *read_file(file);
  const auto broken = [&](std::string_view from, std::string_view to) {
    std::string s = text;
    s.replace(s.find(from), from.size(), to);
    EXPECT_TRUE(write_file(file, s));
    auto got = read_draft_length_model(file);
    EXPECT_FALSE(got) << from;
    return got ? std::string() : got.error().message;
  };
  EXPECT_THAT(broken("slipstream-width", "slipstream-wide"), HasSubstr("expected format slipstream-width version 1"));
  EXPECT_THAT(broken("10001", "-1"), HasSubstr("pass.microseconds: expected whole numbers"));
  EXPECT_THAT(broken("\"static_width\": 8", "\"static_width\": 800"),
              HasSubstr("static_width: expected a number from 1 to 64, got 800"));
  EXPECT_THAT(broken("\"name\": \"a\"", "\"name\": 3"), HasSubstr("fields[0]"));
  std::filesystem::remove(file);
}

/// Nothing that a policy is shown after the drafts is a token: the members of DraftFacts, one by one. A further member fails here.
TEST(DraftLengthPolicy, NeverSeesIds) {
  [[maybe_unused]] auto [top, margin, ahead, field, index, rows, sure] = DraftFacts{};
  static_assert(std::is_same_v<decltype(top), float> && std::is_same_v<decltype(margin), float> &&
                std::is_same_v<decltype(ahead), int32_t> && std::is_same_v<decltype(rows), int32_t> &&
                std::is_same_v<decltype(sure), bool>);
  static_assert(std::is_same_v<decltype(field), std::optional<int32_t>> && std::is_same_v<decltype(index), int32_t>);
  static_assert(!std::is_convertible_v<TokenId, int32_t>);
}

}  // namespace
}  // namespace slip
