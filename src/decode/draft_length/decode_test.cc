// SPDX-License-Identifier: Apache-2.0
// Draft lengths in the engine: no policy changes a token.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cmath>
#include <functional>

#include "base/philox.h"
#include "decode/draft_length/collect.h"
#include "decode/schedule/schedule.h"
#include "decode/testing/draft_length_testing.h"
#include "decode/testing/hash_lm_testing.h"
#include "decode/testing/replay_testing.h"
#include "decode/types/method.h"
#include "lm/block_pilot.h"

namespace slip {
namespace {

using namespace test;  // NOLINT: the trials' own header
using testing::HasSubstr;

TEST(MeasuredDraftLength, ChangesNoTokenUnderAnySchedule) {
  int64_t tested = 0, proposed = 0, levels = 0;
  for (uint64_t n = 0; n < 1200; ++n) {
    PhiloxStream r(n, 11);
    const HashLm::Options lm{.seed = n + 1, .vocab = kVocab, .shift = r.chance(0.5), .habit = r.uniform()};
    const Form form = random_graph(r, true);
    const Prompt prompt = short_prompt(r);
    DecodeOptions o = random_options(r, n);
    DecodeContext context;
    const DraftLengthModel model = random_model(r, &form);
    const DraftLengthModel text = random_model(r, nullptr);
    DraftLengthTracker tracker;
    context.draft_length_model = &model;
    if (r.chance(0.5)) context.draft_length_tracker = &tracker;
    PreviousAnswer previous{.form = form.name()};
    const Decoded chain = decoded(lm, prompt, &form, *method_of("scaffold-ar"), o, context);
    previous.fields = chain.fields;
    context.previous = &previous;
    const DiffusionSpec ahead{.ahead = true};
    for (const DrafterSpec& d : {DrafterSpec(ahead), DrafterSpec(PreviousSpec{"test", ahead})}) {
      DecodeOptions g = o;
      g.visibility = Visibility::kGraph;
      const Decoded graph = decoded(lm, prompt, &form, *method_of("fields"), g, context);
      const Decoded f = decoded(lm, prompt, &form, with("fields-spec", d, kMeasured), g, context);
      ASSERT_EQ(f.tokens, graph.tokens) << n;
      levels += f.statistics.accepted;
    }
    for (const DrafterSpec& d : {DrafterSpec(DiffusionSpec{}), DrafterSpec(PreviousSpec{})}) {
      const Decoded c = decoded(lm, prompt, &form, with("scaffold-spec", d, kMeasured), o, context);
      ASSERT_EQ(c.tokens, chain.tokens) << n;
      DecodeOptions g = o;
      g.visibility = Visibility::kGraph;
      const Decoded graph = decoded(lm, prompt, &form, *method_of("fields"), g, context);
      const Decoded f = decoded(lm, prompt, &form, with("fields-spec", d, kMeasured), g, context);
      ASSERT_EQ(f.tokens, graph.tokens) << n;
      const Decoded one = decoded(lm, prompt, &form, with("scaffold-spec", d, kMeasured), g, context);
      ASSERT_EQ(one.tokens, graph.tokens) << n;
      tested += f.statistics.tested + c.statistics.tested;
      proposed += f.statistics.proposed + c.statistics.proposed;
    }
    context.draft_length_model = &text;
    context.previous = nullptr;
    const Decoded a = decoded(lm, prompt, nullptr, *method_of("ar"), o, context),
                  b = decoded(lm, prompt, nullptr, with("self-spec", DiffusionSpec{}, kMeasured), o, context);
    ASSERT_EQ(a.tokens, b.tokens) << n;
  }
  EXPECT_GT(tested, 1000);
  EXPECT_GT(levels, 500);
  EXPECT_GT(proposed, tested);
}

/// Opens and keeps as dice say.
class RandomDraftLength : public DraftLengthPolicy {
 public:
  explicit RandomDraftLength(uint64_t seed) : r_(seed, 12) {}
  void open(DraftView s) override {
    const int32_t draws = r_.chance(0.5) ? kNoEnd : static_cast<int32_t>(r_.below(9));
    s.set_window(draws, s.position() + (s.rows() == 0 ? 0 : static_cast<int32_t>(r_.below(12))));
    ends_ = r_.chance(0.5);
  }
  bool window_ends_with_drafts() const override { return ends_; }
  bool chooses() const override { return true; }
  void choose(std::span<const std::span<const DraftFacts>>, std::span<int32_t> keep) override {
    for (int32_t& k : keep) k = static_cast<int32_t>(r_.below(static_cast<uint32_t>(k) + 1));
  }

 private:
  PhiloxStream r_;
  bool ends_ = false;
};

TEST(AnyDraftLength, ChangesNoToken) {
  for (uint64_t n = 0; n < 1000; ++n) {
    PhiloxStream r(n, 13);
    const HashLm::Options lm{.seed = n + 1, .vocab = kVocab, .shift = r.chance(0.5), .habit = r.uniform()};
    const Form form = random_graph(r, true);
    const Prompt prompt = short_prompt(r);
    const DecodeOptions o = random_options(r, n);
    const DecodeContext lent;
    for (const std::string_view preset : {"self-spec", "scaffold-spec", "fields-spec"}) {
      const Method m = *method_of(preset);
      const bool text = m.schedule == Schedule::kText;
      HashLm model(lm);
      std::vector<Decoded> answers(1);
      if (!text) answers[0].fields.resize(form.fields().size());
      Capacity capacity = Capacity::of(m, o, !text);
      capacity.widest = 16;
      Scratch scratch;
      scratch.passes.start({model, prompt, text ? nullptr : &form, o, lent, answers[0].statistics});
      const auto drafter = *make_drafter(m, model.info(), capacity, scratch.passes);
      const auto verifier = *make_verifier(m, scratch.passes);
      RandomDraftLength lengths(n);
      Rounds rounds(scratch.passes, *drafter, *verifier, lengths, false);
      ScheduleContext context{scratch, rounds, *drafter, model.info(), text ? nullptr : &form, answers, capacity};
      ASSERT_TRUE(text                             ? decode_text(context)
                  : m.schedule == Schedule::kChain ? decode_chain(context, false)
                                                   : decode_fields(context, false));
      const Decoded want = decoded(lm, prompt, text ? nullptr : &form,
                                   *method_of(text                             ? "ar"
                                              : m.schedule == Schedule::kChain ? "scaffold-ar"
                                                                               : "fields"),
                                   o);
      ASSERT_EQ(answers[0].tokens, want.tokens) << preset << " " << n;
    }
  }
}

/// Two chains of fields side by side.
Form two_chains() {
  Form::Parts p;
  p.name = "two chains";
  for (int32_t f = 0; f < 8; ++f) {
    p.pieces.emplace_back(FixedRun{{{5}, {4}, {6}}, 0});
    p.pieces.emplace_back(FieldRef{f});
    p.fields.push_back({.name = std::to_string(f), .budget = f % 4 == 0 ? 30 : 12, .end = TokenId{5}});
    if (f % 4 > 0) p.fields.back().parents = {f - 1};
  }
  p.pieces.emplace_back(FixedRun{{{5}}, 0});
  return *Form::make(std::move(p));
}

/// An answer whose drafts hold with odds that their top probability tells of.
ReplayScript honest_script(const Form& form, uint64_t n) {
  PhiloxStream r(n, 20);
  ReplayScript s;
  for (const Field& f : form.fields()) {
    ReplayScript::Field t{
        .content = std::max(1, f.budget - 8 + static_cast<int32_t>(r.below(8))), .draft = 0, .right = {}, .top = {}};
    for (int32_t i = 0; i <= f.budget; ++i) {
      const double odds = std::min(0.98, 0.2 + r.uniform());
      t.right.push_back(r.chance(odds));
      t.top.push_back(static_cast<float>(odds));
    }
    t.draft = t.content + !t.right[static_cast<size_t>(t.content)];
    s.fields.push_back(t);
  }
  return s;
}

CostTable table_of(const std::function<double(int32_t)>& ms) {
  std::vector<int32_t> rows;
  std::vector<double> times;
  for (int32_t n = 1; n <= 200; ++n) rows.push_back(n), times.push_back(ms(n));
  return *CostTable::make(rows, times, "test");
}

/// What sixty answers at a fixed draft length teach about drafts and lengths.
DraftLengthModel calibrated_on(const Form& form, Method m, const ReplayMethod& how) {
  DraftLengthModel model = DraftLengthModel::uninformed(*how.cost, &form);
  DraftLengthCollector c(&form);
  ReplayMethod watched = how;
  watched.observer = &c;
  m.draft_length = {.tokens = 16};
  for (uint64_t n = 0; n < 60; ++n) {
    c.begin(static_cast<int64_t>(n));
    const ReplayScript s = honest_script(form, n);
    replay(form, s, watched, **make_draft_length(m, &form, {}, {}));
    for (size_t f = 0; f < s.fields.size(); ++f) model.lengths.add(static_cast<int32_t>(f), s.fields[f].content);
  }
  model.survival = c.finish()->survival;
  return model;
}

/// What a measured draft length is for: on none of these machines is any fixed one quicker (docs/lab/0004-widths.md has the large form).
TEST(MeasuredDraftLength, IsQuickerThanAnyFixedWidth) {
  const Form form = two_chains();
  const CostTable machines[] = {table_of([](int32_t n) { return 30 + 0.5 * ((n + 7) / 8 * 8); }),
                                table_of([](int32_t n) { return std::max(60.0, 20 + 5.0 * ((n + 3) / 4 * 4)); }),
                                table_of([](int32_t n) { return 10.0 + 10 * n; })};
  for (const bool passes : {false, true}) {
    Method m =
        with("fields-spec", passes ? DrafterSpec(DiffusionSpec{}) : DrafterSpec(PreviousSpec{}), DraftLengthSpec{.tokens = 16});
    for (const CostTable& costs : machines) {
      const ReplayMethod how{.drafts_in_passes = passes, .cost = &costs};
      const DraftLengthModel model = calibrated_on(form, m, how);
      const auto cost_of = [&](const DraftLengthSpec& length) {
        m.draft_length = length;
        double ms = 0;
        for (uint64_t n = 1000; n < 1060; ++n)
          ms += replay(form, honest_script(form, n), how, **make_draft_length(m, &form, {}, {.draft_length_model = &model})).ms;
        return ms;
      };
      const double measured = cost_of(kMeasured);
      for (const int32_t fixed : {2, 3, 4, 6, 8, 12, 16})
        EXPECT_LT(measured, cost_of({.tokens = fixed})) << fixed << " at " << costs.ms(16) << " ms";
    }
  }
}

/// The whole decision, facts to lengths, at 30 strands of 64 draws; the yardstick is arithmetic of the same run.
TEST(MeasuredDraftLength, DecidesQuickly) {
  PhiloxStream r(3, 3);
  const DraftLengthModel model = random_model(r, nullptr);
  DecodeOptions o;
  DecodeContext context;
  context.draft_length_model = &model;
  const auto policy = *make_draft_length(with("self-spec", DiffusionSpec{}, kMeasured), nullptr, o, context);
  Decoded answer;
  std::vector<Strand> strands(30);
  std::vector<Strand*> pointers;
  std::vector<std::vector<DraftFacts>> facts(30);
  std::vector<std::span<const DraftFacts>> spans;
  for (size_t i = 0; i < 30; ++i) {
    strands[i].reset(answer);
    strands[i].cursor = Cursor::text(10);
    strands[i].tokens.assign(11, TokenId{3});
    strands[i].cached = 10;
    pointers.push_back(&strands[i]);
    for (int32_t k = 0; k < 64; ++k)
      facts[i].push_back({.top = static_cast<float>(r.uniform()), .ahead = k, .index = 10 + k, .rows = 11 + k});
    spans.emplace_back(facts[i]);
  }
  using Clock = std::chrono::steady_clock;
  const auto us = [](Clock::time_point begin) { return std::chrono::duration<double, std::micro>(Clock::now() - begin).count(); };
  double best = 1e9, yardstick = 1e9;
  std::vector<int32_t> keep(30);
  for (int n = 0; n < 50; ++n) {
    policy->open_all(DraftViews(pointers));
    std::fill(keep.begin(), keep.end(), 64);
    auto begin = Clock::now();
    policy->choose(spans, keep);
    best = std::min(best, us(begin));
    begin = Clock::now();
    double x = 0;
    for (int k = 1; k <= 30 * 64; ++k) x += std::log(k + std::sqrt(x));
    yardstick = std::min(yardstick, us(begin));
    ASSERT_GT(x, 0);
  }
  RecordProperty("microseconds", std::to_string(best));
  EXPECT_LT(best, 3 * yardstick) << best << " us against " << yardstick;
}

TEST(MeasuredDraftLength, SaysWhatItNeeds) {
  PhiloxStream r(1, 1);
  const Form form = random_graph(r, true);
  const Prompt prompt = short_prompt(r);
  HashLm lm({.vocab = kVocab});
  const auto error = [&](const DraftLengthSpec& w, const DecodeContext& context) {
    const auto d = Decoder(lm, with("fields-spec", DiffusionSpec{}, w)).decode(prompt, &form, {}, context);
    return d ? std::string() : d.error().message;
  };
  EXPECT_THAT(error(kMeasured, {}),
              HasSubstr("expected a calibration (eval --calibrate FILE, or of free text bench text --calibrate FILE, makes one)"));
  DraftLengthModel other = DraftLengthModel::uninformed(random_costs(r), &form);
  other.form = "other";
  EXPECT_THAT(error(kMeasured, {.draft_length_model = &other}), HasSubstr("got one for other"));
  EXPECT_THAT(error({.kind = DraftLengthSpec::Kind::kBlockPilot}, {}), HasSubstr("expected a classifier"));
}

TEST(DraftLengthCollector, CalibratesOnTheEnginesOwnAnswers) {
  PhiloxStream r(5, 5);
  const Form form = random_graph(r, true);
  DraftLengthCollector c(&form);
  for (uint64_t n = 0; n < 1500; ++n) {
    c.begin(static_cast<int64_t>(n / 10));
    DecodeOptions o;
    DecodeContext context;
    context.draft_length_observer = &c;
    o.temperature = 0.7F;
    o.seed = n;
    const Decoded d =
        decoded({.seed = 7, .vocab = kVocab, .habit = 0.6}, short_prompt(r), &form, *method_of("fields-spec"), o, context);
    c.answered(d);
  }
  const auto k = c.finish();
  ASSERT_TRUE(k) << k.error().message;
  EXPECT_LT(k->ece, 0.03);
  EXPECT_GT(k->tested, 2000);
}

/// A classifier over so many logits; its class is the largest of the first five above 0, the first of equal ones.
class FirstFive : public BlockPilot {
 public:
  explicit FirstFive(int32_t vocab) : vocab_(vocab) {}
  int32_t vocab() const override { return vocab_; }
  int32_t classes() const override { return 5; }
  int32_t pick(std::span<const float> logits_V) const override {
    std::array<float, 5> above{};
    for (size_t i = 0; i < above.size(); ++i) above[i] = std::max(logits_V[i], 0.0F);
    return static_cast<int32_t>(std::max_element(above.begin(), above.end()) - above.begin());
  }

 private:
  int32_t vocab_;
};

TEST(BlockPilot, SetsTheWidthOnceFromThePrompt) {
  const FirstFive pilot(kVocab);
  std::vector<int> widths(8, 0);
  for (uint64_t n = 0; n < 300; ++n) {
    PhiloxStream r(n, 16);
    const HashLm::Options lm{.seed = n + 1, .vocab = kVocab, .shift = r.chance(0.5), .habit = 0.9};
    const Form form = random_graph(r, true);
    const Prompt prompt = short_prompt(r);
    DecodeOptions o = random_options(r, n);
    DecodeContext context;
    context.block_pilot = &pilot;
    o.trace = true;
    for (const std::string_view preset : {"self-spec", "scaffold-spec", "fields-spec"}) {
      const bool text = preset == "self-spec";
      const Method m = with(preset, DiffusionSpec{}, DraftLengthSpec{.kind = DraftLengthSpec::Kind::kBlockPilot, .tokens = 5});
      const Decoded d = decoded(lm, prompt, text ? nullptr : &form, m, o, context);
      ASSERT_EQ(d.tokens, decoded(lm, prompt, text ? nullptr : &form,
                                  *method_of(text                        ? "ar"
                                             : preset == "scaffold-spec" ? "scaffold-ar"
                                                                         : "fields"),
                                  o, context)
                              .tokens);
      size_t widest = 0;
      for (const Round& round : d.rounds) widest = std::max(widest, round.draft.size());
      ASSERT_LE(widest, 6u);
      ++widths[widest];
    }
  }
  for (size_t w = 2; w <= 6; ++w) EXPECT_GT(widths[w], 0) << w;
}

TEST(BlockPilot, SaysHowManyMasksTravelAhead) {
  const FirstFive pilot(kVocab);
  int64_t accepted = 0;
  for (uint64_t n = 0; n < 100; ++n) {
    PhiloxStream r(n, 19);
    const HashLm::Options lm{.seed = n + 1, .vocab = kVocab, .shift = r.chance(0.5), .habit = 0.9};
    const Form form = random_graph(r, true);
    const Prompt prompt = short_prompt(r);
    DecodeOptions o = random_options(r, n);
    DecodeContext context;
    o.visibility = Visibility::kGraph;
    context.block_pilot = &pilot;
    o.trace = true;
    const Method m =
        with("fields-spec", DiffusionSpec{.ahead = true}, DraftLengthSpec{.kind = DraftLengthSpec::Kind::kBlockPilot, .tokens = 5});
    const Decoded d = decoded(lm, prompt, &form, m, o, context);
    ASSERT_EQ(d.tokens, decoded(lm, prompt, &form, *method_of("fields"), o, context).tokens) << n;
    ASSERT_EQ(d.statistics.draft_forwards, 0);
    for (const Round& round : d.rounds) ASSERT_LE(round.draft.size(), 6u) << n;
    accepted += d.statistics.accepted;
  }
  EXPECT_GT(accepted, 50);
}

TEST(BlockPilot, RefusesOneThatReadsMoreLogitsThanThereAre) {
  PhiloxStream r(1, 18);
  const FirstFive pilot(kVocab + 8);
  DecodeOptions o;
  DecodeContext context;
  context.block_pilot = &pilot;
  HashLm lm({.vocab = kVocab});
  const auto d =
      Decoder(lm, with("self-spec", DiffusionSpec{}, DraftLengthSpec{.kind = DraftLengthSpec::Kind::kBlockPilot, .tokens = 5}))
          .decode(short_prompt(r), nullptr, o, context);
  ASSERT_FALSE(d);
  EXPECT_EQ(d.error().kind, ErrorKind::kBadInput);
  EXPECT_THAT(d.error().message, HasSubstr("at most the model's 12 logits, got one of 20"));
}

/// Where the earlier answer has missed, diffusion drafts, and free text has no end that would bound its block.
TEST(AnyDraftLength, BoundsTheBlocksBehindAnEarlierAnswer) {
  const FirstFive pilot(kVocab);
  int64_t passes = 0;
  for (uint64_t n = 0; n < 100; ++n) {
    PhiloxStream r(n, 17);
    const HashLm::Options lm{.seed = n + 1, .vocab = kVocab, .shift = r.chance(0.5), .habit = 0.8};
    const Prompt prompt = short_prompt(r);
    const DraftLengthModel model = random_model(r, nullptr);
    DecodeOptions o;
    DecodeContext context;
    o.seed = n;
    o.temperature = n % 2 ? 0.7F : 0;
    o.limit = 30;
    context.draft_length_model = &model;
    context.block_pilot = &pilot;
    const Decoded slow = decoded(lm, prompt, nullptr, *method_of("ar"), o, context);
    PreviousAnswer previous{.form = "", .fields = {}, .tokens = slow.tokens};
    for (size_t i = 4; i < previous.tokens.size(); i += 5) previous.tokens[i] = random_id(r, kVocab);
    context.previous = &previous;
    for (const DraftLengthSpec& w :
         {kMeasured, DraftLengthSpec{.kind = DraftLengthSpec::Kind::kBlockPilot, .tokens = 5}, DraftLengthSpec{.tokens = 5}}) {
      const Decoded d = decoded(lm, prompt, nullptr, with("self-spec", PreviousSpec{"test", DiffusionSpec{}}, w), o, context);
      ASSERT_EQ(d.tokens, slow.tokens) << n;
      const auto most = static_cast<int64_t>(prompt.inputs.size()) + o.limit + kLongestDraft;
      ASSERT_LE(d.statistics.rows, d.statistics.forwards * most) << n;
      passes += d.statistics.draft_forwards;
    }
  }
  EXPECT_GT(passes, 100);
}

}  // namespace
}  // namespace slip
