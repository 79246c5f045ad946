// SPDX-License-Identifier: Apache-2.0
#include "forecast/forecast.h"

#include <gtest/gtest.h>

#include "base/pause.h"
#include "decode/testing/draft_length_testing.h"
#include "decode/testing/random_testing.h"
#include "forecast/automatic.h"
#include "form/schema/values.h"

namespace slip {
namespace {

using namespace test;  // NOLINT: the trials' own header

LmInfo info_with_mask(int32_t vocab = 64, bool shift = true) {
  LmInfo info;
  info.name = "stand-in";
  info.vocab = vocab;
  info.hidden_size = 1;
  info.slots = 4096;
  info.rule = {.shift = shift, .has_mask = true, .mask = TokenId{vocab - 1}};
  return info;
}

CostTable costs(double pass, double row) {
  std::vector<int32_t> rows{1, 128};
  return *CostTable::make(rows, {pass + row, pass + 128 * row}, "test");
}

void sure(Survival& s, int64_t kept, int64_t tested) {
  for (int32_t t = 0; t < Survival::kTop; ++t) s.add({.top = t}, {kept, tested});
  s.fit();
}

Form two_fields(bool ends, bool listed = false) {
  Form::Parts p{.name = "two", .section_names = {"all"}};
  p.pieces = {FixedRun{{{5}, {6}}, 0}, FieldRef{0}, FixedRun{{{7}}, 0}, FieldRef{1}, FixedRun{{{8}}, 0}};
  p.fields = {Field{.name = "a", .budget = 20}, Field{.name = "b", .budget = 12, .parents = {0}}};
  if (ends) p.fields[0].end = p.fields[1].end = TokenId{3};
  if (listed) p.fields[0].rules = p.fields[1].rules = TokenRules::only({{10}, {11}, {12}, {13}, {14}, {15}, {16}, {17}});
  return *Form::make(std::move(p));
}

TEST(TypicalContents, AreLegalAnswersOfTheForm) {
  for (uint64_t n = 0; n < 300; ++n) {
    PhiloxStream r(n, 3);
    const Form form = n % 2 ? random_graph(r, true) : random_absent_form(r);
    std::vector<int32_t> budgets;
    for (const Field& f : form.fields()) budgets.push_back(f.budget);
    const Contents contents = typical_contents(form, Lengths(budgets), Survival(), kVocab, TokenId{1}, r);
    const auto back = split_answer(form, assemble(form, contents));
    ASSERT_TRUE(back) << n;
    EXPECT_EQ(*back, contents) << n;
  }
}

TEST(EarlierOf, AFieldStaysWithItsParents) {
  const Form form = two_fields(false);
  const StandInAnswer answer{.target = std::vector<TokenId>(64, TokenId{10}), .other = std::vector<TokenId>(64, TokenId{11})};
  const Contents contents{std::vector<TokenId>(20, TokenId{10}), std::vector<TokenId>(12, TokenId{10})};
  PhiloxStream r(1, 2);
  std::array<double, 2> stays{}, of{};  // of the child, by whether the parent changed
  for (int n = 0; n < 20'000; ++n) {
    const PreviousAnswer earlier = earlier_of(&form, contents, answer, {0.8, 0.3}, r);
    const bool changed = earlier.fields[0] != contents[0];
    ++of[changed], stays[changed] += earlier.fields[1] == contents[1];
  }
  EXPECT_NEAR(of[1] / 20'000, 0.2, 0.02);
  EXPECT_NEAR(stays[0] / of[0], 0.8, 0.02);
  EXPECT_NEAR(stays[1] / of[1], 0.3, 0.04);
}

TEST(TypicalContents, OfACompactFormTakeTheSameLawsAndCounts) {
  for (uint64_t n = 0; n < 100; ++n) {
    PhiloxStream r(n, 5);
    const Form form = n % 2 ? random_graph(r, true) : random_absent_form(r);
    const auto small = compact(form);
    ASSERT_TRUE(small) << small.error().message;
    ASSERT_EQ(small->form.length(), form.length());
    ASSERT_EQ(small->form.blocks().size(), form.blocks().size());
    for (size_t f = 0; f < form.fields().size(); ++f) {
      EXPECT_EQ(small->form.fields()[f].budget, form.fields()[f].budget);
      EXPECT_EQ(small->form.fields()[f].parents, form.fields()[f].parents);
      EXPECT_EQ(small->form.fields()[f].end.has_value(), form.fields()[f].end.has_value());
    }
    PhiloxStream draws(n, 6);
    const Contents c = typical_contents(small->form, Lengths(), Survival(), small->vocab, TokenId{small->vocab - 1}, draws);
    EXPECT_TRUE(split_answer(small->form, assemble(small->form, c))) << n;
  }
}

TEST(TypicalContents, AreAsLongAsCalibrationSaw) {
  const Form form = two_fields(true);
  Lengths lengths(std::vector<int32_t>{20, 12});
  lengths.add(0, 7, 3);
  lengths.add(1, 2, 1);
  PhiloxStream r(1, 1);
  for (int n = 0; n < 20; ++n) {
    const Contents c = typical_contents(form, lengths, Survival(), 64, TokenId{63}, r);
    EXPECT_EQ(c[0].size(), 7U);
    EXPECT_EQ(c[1].size(), 2U);
  }
}

/// Text that is padded to its budget: what it says before the padding is drafted and tested, and the padding's first token.
TEST(TypicalContents, SayAsMuchBeforeTheirPaddingAsWasTested) {
  constexpr TokenId kNull{9};
  Form::Parts p{.name = "padded", .section_names = {"all"}};
  p.pieces = {FixedRun{{{5}}, 0}, FieldRef{0}, FixedRun{{{8}}, 0}};
  std::vector<TokenRules::State> states(2);
  states[0].any = true;
  states[0].edges = {{kNull, 1}};
  states[1].edges = {{kNull, 1}};
  p.fields = {Field{.name = "a", .budget = 20, .rules = TokenRules(std::move(states))}};
  const Form form = *Form::make(std::move(p));
  Lengths lengths(std::vector<int32_t>{20});
  lengths.add(0, 20, 10);
  Survival survival(1);
  survival.add({.field = 0, .top = 3}, {60, 80});
  PhiloxStream r(1, 1);
  for (const bool calibrated : {true, false}) {
    const Contents c =
        typical_contents(form, calibrated ? lengths : Lengths(), calibrated ? survival : Survival(), 64, TokenId{63}, r);
    ASSERT_EQ(c[0].size(), 20U);
    EXPECT_EQ(std::count(c[0].begin(), c[0].end(), kNull),
              calibrated ? 13 : 6);  // 80 tests in 10 answers; seven tenths of the budget
    EXPECT_TRUE(std::is_sorted(c[0].begin(), c[0].end(), [&](TokenId a, TokenId b) { return a != kNull && b == kNull; }));
  }
}

TEST(Forecast, CountsThePassesOfDecodingWithoutDrafts) {
  for (const bool graph : {false, true}) {
    const Form form = two_fields(true);
    DraftLengthModel model = DraftLengthModel::uninformed(costs(4, 1), &form);
    model.lengths.add(0, 7, 1);
    model.lengths.add(1, 2, 1);
    ForecastSettings s{.info = info_with_mask(), .form = &form, .prompt_rows = 10, .model = &model};
    s.options.visibility = graph ? Visibility::kGraph : Visibility::kChain;
    const auto f = forecast(*method_of(graph ? "fields" : "scaffold-ar"), s);
    ASSERT_TRUE(f) << f.error().message;
    // 7 + END and 2 + END draws, one a pass; the first comes from the pass that carries the prompt.
    EXPECT_NEAR(f->forwards, 11, 1e-9) << graph;
    EXPECT_NEAR(f->ms, 11 * 4 + f->rows, 1e-9) << graph;
    EXPECT_NEAR(f->first_rows, 10 + (graph ? 4 : 2), 1e-9) << "the whole scaffold of a graph, the first run of a chain";
    EXPECT_NEAR(f->first_ms, 4 + f->first_rows, 1e-9) << graph;
  }
}

TEST(Forecast, DraftsThatAlwaysHoldTakeAPassABlock) {
  const Form form = two_fields(false);
  DraftLengthModel model = DraftLengthModel::uninformed(costs(10, 1), &form);
  sure(model.survival, 100000, 100000);
  ForecastSettings s{.info = info_with_mask(), .form = &form, .prompt_rows = 10, .model = &model, .answers = 2};
  for (const bool shift : {true, false}) {
    s.info = info_with_mask(64, shift);
    const auto spec = forecast(*method_of("scaffold-spec"), s);
    ASSERT_TRUE(spec) << spec.error().message;
    EXPECT_EQ(spec->accepted, spec->tested) << shift;
    EXPECT_LE(spec->forwards, 2 * static_cast<double>(form.blocks().size()) + 2) << shift;
    const auto plain = forecast(*method_of("scaffold-ar"), s);
    EXPECT_LT(spec->ms, plain->ms) << shift;
  }
}

TEST(Forecast, AcceptanceIsWhatWasCalibrated) {
  for (const bool ends : {false, true})
    for (const std::string_view preset : {"scaffold-spec", "fields-spec"}) {
      const Form form = two_fields(ends);
      DraftLengthModel model = DraftLengthModel::uninformed(costs(10, 1), &form);
      model.lengths.add(0, 17, 1);
      model.lengths.add(1, 9, 1);
      sure(model.survival, 80000, 100000);
      ForecastSettings s{.info = info_with_mask(), .form = &form, .prompt_rows = 10, .model = &model, .answers = 400};
      s.options.visibility = preset == "fields-spec" ? Visibility::kGraph : Visibility::kChain;
      const auto f = forecast(*method_of(preset), s);
      ASSERT_TRUE(f) << f.error().message;
      // 400 answers of some 26 tests: 10,400 Bernoulli draws, standard error .004; five of them.
      EXPECT_NEAR(f->accepted / f->tested, 0.8, 0.02) << preset << ends;
    }
}

/// Drafts in fields with rules are picked from logits, and most real ones have tops below one half.
TEST(Forecast, DraftsThatHoldAreTakenWhateverTheirTops) {
  const Form form = two_fields(false, true);
  for (int32_t top = 0; top < Survival::kTop; ++top) {
    DraftLengthModel model = DraftLengthModel::uninformed(costs(10, 1), &form);
    model.survival = Survival(2);
    model.survival.add({.top = top}, {100000, 100000});
    model.survival.fit();
    const ForecastSettings s{.info = info_with_mask(), .form = &form, .prompt_rows = 10, .model = &model, .answers = 20};
    const auto f = forecast(*method_of("scaffold-spec"), s);
    ASSERT_TRUE(f) << f.error().message;
    EXPECT_GT(f->accepted, 0.99 * f->tested) << top;
  }
}

/// The first draft of a round is sure, the third holds in two of ten: tops that only the third has say nothing of the first.
TEST(Forecast, TopsAreThoseOfDraftsSoFarAhead) {
  const Form form = two_fields(false, true);
  DraftLengthModel model = DraftLengthModel::uninformed(costs(10, 1), &form);
  model.survival = Survival(2);
  for (int32_t field = 0; field < 2; ++field)
    for (int32_t index = 0; index < Survival::kIndex; ++index)
      for (int32_t ahead = 0; ahead < Survival::kAhead; ++ahead)
        model.survival.add({.field = field, .ahead = ahead, .index = index, .top = ahead < 2 ? 5 : 0},
                           {ahead < 2 ? 100000 : 20000, 100000});
  model.survival.fit();
  const ForecastSettings s{.info = info_with_mask(), .form = &form, .prompt_rows = 10, .model = &model, .answers = 60};
  const auto f = forecast(*method_of("scaffold-spec"), s);
  ASSERT_TRUE(f) << f.error().message;
  // Two, then one in five, then as many again: 2.25 kept of about 3.25 tested, but where a block ends.
  EXPECT_NEAR(f->accepted / f->tested, 2.25 / 3.25, 0.06);
}

/// 20 tokens that are greedy and 12 that are drawn, each of eight ids: four rollouts are one strand up to the 20th token and up to four behind it.
TEST(Forecast, RolloutsShareWhatIsGreedyAndDraftOnBehindItOnlyAsTheirDecoderDoes) {
  Form::Parts p{.name = "two", .section_names = {"greedy", "drawn"}};
  p.pieces = {FixedRun{{{5}}, 0}, FieldRef{0}, FixedRun{{{7}}, 1}, FieldRef{1}, FixedRun{{{8}}, 1}};
  const TokenRules ids = TokenRules::only({{10}, {11}, {12}, {13}, {14}, {15}, {16}, {17}});
  p.fields = {Field{.name = "a", .budget = 20, .rules = ids},
              Field{.name = "b", .budget = 12, .rules = ids, .parents = {0}, .section = 1}};
  const Form form = *Form::make(std::move(p));
  DraftLengthModel model = DraftLengthModel::uninformed(costs(10, 1), &form);
  sure(model.survival, 100000, 100000);
  DraftLengthModel of_head = DraftLengthModel::uninformed(costs(10, 1), &form);
  sure(of_head.survival, 90000, 100000);  // so that strands are not all at one place
  of_head.draft = costs(1, 0.1);
  for (const bool graph : {false, true}) {
    ForecastSettings s{.info = info_with_mask(), .form = &form, .prompt_rows = 10, .model = &model, .answers = 20};
    s.options.section_temperature = {{1, 0.5F}};
    s.options.visibility = graph ? Visibility::kGraph : Visibility::kChain;
    s.head = OwnHead{.folder = "model/dflash", .block = 12, .model = &of_head};
    const auto of = [&](std::string_view preset, std::string_view drafter, int32_t rollouts) {
      s.rollouts = rollouts;
      const auto f = forecast(*with_parts(*method_of(preset), "", drafter, "", drafter.empty() ? "" : "fixed:8"), s);
      EXPECT_TRUE(f) << f.error().message;
      return f ? *f : Forecast{};
    };
    const std::string_view ar = graph ? "fields" : "scaffold-ar", spec = graph ? "fields-spec" : "scaffold-spec";
    const Forecast one = of(ar, "", 1), four = of(ar, "", 4);
    EXPECT_NEAR(one.forwards, 32, 1e-9) << graph;
    EXPECT_NEAR(four.forwards, 32, 1e-9) << graph << ": in the same passes";
    // Of four that draw from eight 3.31 differ, so that 2.31 have 11 more rows; the standard error of 20 answers is 1.5.
    EXPECT_NEAR(four.rows, one.rows + 2.31 * 11, 6) << graph;
    const Forecast drafted = of(spec, "", 1), parted = of(spec, "", 4);
    s.options.section_temperature = {{1, 60.0F}};
    EXPECT_TRUE(of(spec, "", 4) == parted) << "however warm what parts them is drawn";
    s.options.section_temperature = {{1, 0.5F}};
    EXPECT_LT(drafted.forwards, 14) << graph;
    EXPECT_GE(parted.forwards, drafted.forwards + 7) << graph << ": drafts that take passes stop where rollouts part";
    if (graph) continue;
    s.answers = 400;
    const Forecast head = of(ar, "dflash:model/dflash", 1), heads = of(ar, "dflash:model/dflash", 4);
    EXPECT_LE(heads.forwards, head.forwards + 4) << "a head drafts on";
    EXPECT_GT(heads.drafter_ms, head.drafter_ms);
    // Some 52 tests an answer, of which that at the fork holds once in eight and nine in ten of the others: .885, its standard error .002.
    EXPECT_NEAR(heads.accepted / heads.tested, 0.885, 0.01) << "what stands behind a fork is known of every strand";
  }
}

TEST(Automatic, TakesNoDraftsWhereARowIsAPassAndManyWhereARowIsNothing) {
  const Form form = two_fields(false);
  for (const bool graph : {false, true}) {
    const auto chosen = [&](double pass, double row, int64_t kept) {
      DraftLengthModel model = DraftLengthModel::uninformed(costs(pass, row), &form);
      sure(model.survival, kept, 100000);
      ForecastSettings s{.info = info_with_mask(), .form = &form, .prompt_rows = 10, .model = &model};
      s.options.visibility = graph ? Visibility::kGraph : Visibility::kChain;
      const auto a = AutomaticChoice::make(s, false, {});
      EXPECT_TRUE(a) << a.error().message;
      return a->best();
    };
    EXPECT_TRUE(std::holds_alternative<NoDraftSpec>(chosen(0.01, 1, 90000).method.drafter)) << graph;
    EXPECT_TRUE(std::holds_alternative<NoDraftSpec>(chosen(50, 1, 0).method.drafter)) << graph;
    const Candidate quick = chosen(50, 1, 95000);
    EXPECT_FALSE(std::holds_alternative<NoDraftSpec>(quick.method.drafter)) << graph;
    EXPECT_FALSE(quick.method.lossy());
  }
}

TEST(Automatic, GoesByWhatWasForetoldOfTheSameCandidates) {
  const Form form = two_fields(false);
  DraftLengthModel model = DraftLengthModel::uninformed(costs(50, 1), &form);
  sure(model.survival, 95000, 100000);
  ForecastSettings s{.info = info_with_mask(), .form = &form, .prompt_rows = 10, .model = &model};
  const auto own = AutomaticChoice::make(s, false, {});
  ASSERT_TRUE(own);
  Foretold kept = own->foretold();
  EXPECT_EQ(kept.prompt_rows, 10);
  ASSERT_GE(kept.candidates.size(), own->candidates().size());
  const auto again = AutomaticChoice::make(s, false, {}, &kept);
  ASSERT_TRUE(again);
  EXPECT_EQ(again->why(), own->why());
  s.prompt_rows = 110;
  const auto longer = AutomaticChoice::make(s, false, {}, &kept);
  ASSERT_TRUE(longer);
  EXPECT_NEAR(longer->expected_ms(longer->best()), own->expected_ms(own->best()) + 100, 1e-9) << "a row is a millisecond";
  s.prompt_rows = 10;
  s.head = OwnHead{.folder = "head", .model = &model, .prompt_ms = 7};
  model.draft = costs(1, 0.1);
  const auto with_head = AutomaticChoice::make(s, false, {});
  ASSERT_TRUE(with_head);
  s.head->prompt_ms = 9;  // of a longer prompt
  const Foretold of_head = with_head->foretold();
  const auto longer_head = AutomaticChoice::make(s, false, {}, &of_head);
  ASSERT_TRUE(longer_head);
  for (size_t i = 0; i < with_head->candidates().size(); ++i) {
    const bool heads = std::holds_alternative<DFlashSpec>(with_head->candidates()[i].method.drafter);
    EXPECT_NEAR(longer_head->candidates()[i].expected.ms, with_head->candidates()[i].expected.ms + (heads ? 2 : 0), 1e-9);
  }
  s.head.reset();
  ASSERT_EQ(kept.candidates.front().first, own->candidates().front().name);
  kept.candidates.front().second->ms = 12;  // beside 60 passes of 50
  const auto believed = AutomaticChoice::make(s, false, {}, &kept);
  ASSERT_TRUE(believed);
  EXPECT_EQ(believed->best().name, kept.candidates.front().first);
  kept.candidates.back().first = "another";
  const auto other = AutomaticChoice::make(s, false, {}, &kept);
  ASSERT_TRUE(other);
  EXPECT_EQ(other->why(), own->why()) << "of other candidates";
  EXPECT_TRUE(other->foretold() == own->foretold());
}

TEST(Automatic, AsksMoreOfDraftsWherePassesAreShared) {
  const Form form = two_fields(false);
  const auto least_pass = [&](bool shared) {  // in rows, from which on drafts are taken
    for (double pass = 0.3;; pass *= 1.06) {
      DraftLengthModel model = DraftLengthModel::uninformed(costs(pass, 1), &form);
      sure(model.survival, 90000, 100000);
      const ForecastSettings s{.info = info_with_mask(), .form = &form, .prompt_rows = 10, .model = &model, .shared = shared};
      const auto a = AutomaticChoice::make(s, false, {});
      EXPECT_TRUE(a);
      if (!a || pass > 100 || !std::holds_alternative<NoDraftSpec>(a->best().method.drafter)) return pass;
    }
  };
  const double alone = least_pass(false), shared = least_pass(true);
  EXPECT_LT(alone, 50);
  EXPECT_GT(shared, alone);
  EXPECT_LT(shared, 2 * alone);
}

TEST(Automatic, LeavesACandidateWhoseAnswersTakeMoreThanWasExpected) {
  const Form form = two_fields(false);
  DraftLengthModel model = DraftLengthModel::uninformed(costs(50, 1), &form);
  sure(model.survival, 95000, 100000);
  ForecastSettings s{.info = info_with_mask(), .form = &form, .prompt_rows = 10, .model = &model};
  auto a = AutomaticChoice::make(s, false, {});
  ASSERT_TRUE(a);
  const std::string first = a->best().name;
  Statistics slow;  // as many passes as one token at a time takes, and more rows
  slow.forwards = 60;
  slow.rows = 400;
  int answers = 0;
  for (; answers < 12 && a->best().name == first; ++answers) a->ran(slow, 10);
  EXPECT_NE(a->best().name, first) << a->why();
  EXPECT_GT(answers, 0);
  EXPECT_NE(a->why().find(first), std::string::npos);
}

/// Free text of which so many of 100,000 drafts held; `model` outlives it.
Result<AutomaticChoice> over_text(DraftLengthModel& model, int64_t kept) {
  model = DraftLengthModel::uninformed(costs(4, 1), nullptr);
  sure(model.survival, kept, 100000);
  return AutomaticChoice::make({.info = info_with_mask(), .prompt_rows = 10, .model = &model}, false, {});
}

TEST(Automatic, LearnsOfTextWhatATokenTakes) {
  DraftLengthModel model;
  auto a = over_text(model, 10000);
  ASSERT_TRUE(a);
  const Candidate& plain = a->best();
  ASSERT_TRUE(std::holds_alternative<NoDraftSpec>(plain.method.drafter)) << a->why();
  const double expected = a->expected_ms(plain);
  for (const int tokens : {9, 400, 9, 400}) {  // each in as many passes of one row, the first token in the prompt's
    Statistics one_by_one;
    one_by_one.tokens = one_by_one.forwards = tokens;
    one_by_one.rows = 10 + tokens - 1;
    a->ran(one_by_one, 10);
    EXPECT_TRUE(std::holds_alternative<NoDraftSpec>(a->best().method.drafter)) << a->why();
  }
  EXPECT_NEAR(a->expected_ms(a->best()) / expected, 1, 0.1);
}

TEST(Automatic, ForetellsTextsAsLongAsTheyWere) {
  DraftLengthModel model;
  auto a = over_text(model, 90000);
  ASSERT_TRUE(a);
  const std::string first = a->best().name;
  ASSERT_FALSE(std::holds_alternative<NoDraftSpec>(a->best().method.drafter)) << a->why();
  ASSERT_EQ(a->best().expected.tokens, 48);
  Statistics as_foretold;  // what a text of 48 tokens takes, twice
  as_foretold.tokens = 48;
  as_foretold.forwards = static_cast<int64_t>(a->best().expected.forwards);
  as_foretold.rows = static_cast<int64_t>(a->best().expected.rows);
  for (int i = 0; i < 2; ++i) {
    a->ran(as_foretold, 10);
    ASSERT_TRUE(a->follow_lengths());
    EXPECT_EQ(a->best().name, first) << a->why();
  }
  Statistics a_word;  // its block was drafted, and two tokens of it were the answer
  a_word.tokens = 2;
  a_word.forwards = 2;
  a_word.rows = 10 + 16;
  for (int i = 0; i < 30; ++i) {
    a->ran(a_word, 10);
    ASSERT_TRUE(a->follow_lengths());
  }
  EXPECT_LT(a->best().expected.tokens, 5);
  EXPECT_TRUE(std::holds_alternative<NoDraftSpec>(a->best().method.drafter)) << a->why();
}

/// Lets so many pieces of work begin, and ends what comes then.
struct EndsAfter final : Pausable {
  explicit EndsAfter(int pieces) : left(pieces) { pausable_at_work() = this; }
  ~EndsAfter() override { pausable_at_work() = nullptr; }
  Status at_pause_point() override { return left-- > 0 ? Status{} : Status{Error{ErrorKind::kCancelled, "nobody waits"}}; }
  int left;
};

TEST(Automatic, AForecastThatIsEndedChangesNothing) {
  DraftLengthModel model;
  auto a = over_text(model, 90000);
  ASSERT_TRUE(a);
  Statistics a_word;
  a_word.tokens = a_word.forwards = 2;
  a_word.rows = 10 + 16;
  for (int i = 0; i < 30; ++i) a->ran(a_word, 10);
  ASSERT_GT(a->candidates().size(), 3U);
  const auto tokens = [&] {
    std::vector<double> out;
    for (const Candidate& c : a->candidates()) out.push_back(c.expected.tokens);
    return out;
  };
  const std::vector<double> before = tokens();
  {
    const EndsAfter some(2);
    const Status ended = a->follow_lengths();
    ASSERT_FALSE(ended);
    EXPECT_EQ(ended.error().kind, ErrorKind::kCancelled);
  }
  EXPECT_EQ(tokens(), before);
  ASSERT_TRUE(a->follow_lengths());
  for (const double n : tokens()) EXPECT_LT(n, 5) << "all are foretold as long as texts were, by the next who asks";
}

/// A model whose own drafts seldom hold, with a head whose drafts hold so often and whose round costs so much.
Result<AutomaticChoice> beside_a_head(const Form& form, DraftLengthModel& of_head, int64_t kept, double round_ms, bool calibrated,
                                      double prompt_ms = 0) {
  static DraftLengthModel model;
  model = DraftLengthModel::uninformed(costs(50, 1), &form);
  sure(model.survival, 20000, 100000);
  of_head = DraftLengthModel::uninformed(costs(50, 1), &form);
  of_head.draft = costs(round_ms, 0.01);
  of_head.most_drafts = 11;
  sure(of_head.survival, kept, 100000);
  ForecastSettings s{.info = info_with_mask(), .form = &form, .prompt_rows = 10, .model = &model};
  s.head = OwnHead{.folder = "model/dflash", .block = 12, .model = &of_head, .calibrated = calibrated, .prompt_ms = prompt_ms};
  return AutomaticChoice::make(s, false, {});
}

TEST(Automatic, TakesTheModelsOwnHeadWhereItsRoundsAreCheapAndItsDraftsHold) {
  const Form form = two_fields(false);
  DraftLengthModel of_head;
  const auto by_head = [&](int64_t kept, double round_ms, bool calibrated = true) {
    const auto a = beside_a_head(form, of_head, kept, round_ms, calibrated);
    EXPECT_TRUE(a) << a.error().message;
    return std::holds_alternative<DFlashSpec>(a->best().method.drafter);
  };
  EXPECT_TRUE(by_head(95000, 1));
  EXPECT_FALSE(by_head(95000, 500)) << "its rounds take longer than the passes that they save";
  EXPECT_FALSE(by_head(0, 1));
  const auto a = beside_a_head(form, of_head, 95000, 1, true);
  ASSERT_TRUE(a) << a.error().message;
  const Forecast& x = a->best().expected;
  EXPECT_GT(x.drafter_forwards, 0);
  EXPECT_GT(x.drafter_ms, 0);
  // What drafts from the head are worth is nearly nothing where nobody calibrated them: then it must win by more.
  int32_t sure_of = 0, in_doubt = 0;
  for (double round_ms = 1; round_ms < 500; round_ms *= 1.3) {
    sure_of += by_head(95000, round_ms);
    in_doubt += by_head(95000, round_ms, false);
  }
  EXPECT_LT(in_doubt, sure_of);
  EXPECT_GT(in_doubt, 0);
}

TEST(Automatic, AnswersAsForetoldSayNothingOfWhatAHeadMakesOfThePrompt) {
  const Form form = two_fields(false);
  DraftLengthModel of_head;
  auto a = beside_a_head(form, of_head, 95000, 1, true, 300);
  ASSERT_TRUE(a) << a.error().message;
  const Candidate& head = a->best();
  ASSERT_TRUE(std::holds_alternative<DFlashSpec>(head.method.drafter)) << a->why();
  const std::string name = head.name;
  const double expected = a->expected_ms(head);
  Statistics as_foretold;
  as_foretold.tokens = static_cast<int64_t>(std::lround(head.expected.tokens));
  as_foretold.forwards = static_cast<int64_t>(std::lround(head.expected.forwards));
  as_foretold.rows = static_cast<int64_t>(std::lround(head.expected.rows));
  as_foretold.drafter_forwards = static_cast<int64_t>(std::lround(head.expected.drafter_forwards));
  for (int i = 0; i < 20; ++i) a->ran(as_foretold, 10);
  const auto same = std::ranges::find(a->candidates(), name, &Candidate::name);
  EXPECT_NEAR(a->expected_ms(*same) / expected, 1, 0.05);
}

TEST(Automatic, LearnsWhatAnEarlierAnswerIsWorth) {
  const Form form = two_fields(false);
  DraftLengthModel model = DraftLengthModel::uninformed(costs(4, 1), &form);
  sure(model.survival, 30000, 100000);
  ForecastSettings s{.info = info_with_mask(), .form = &form, .prompt_rows = 10, .model = &model};
  auto a = AutomaticChoice::make(s, true, {});
  ASSERT_TRUE(a) << a.error().message;
  const auto drafts_from_earlier = [&] { return std::holds_alternative<PreviousSpec>(a->best().method.drafter); };
  ASSERT_TRUE(a->persist({0.02, 0.02}));
  EXPECT_FALSE(drafts_from_earlier()) << a->why();
  ASSERT_TRUE(a->persist({0.99, 0.99}));
  EXPECT_TRUE(drafts_from_earlier()) << a->why();
}

TEST(Automatic, EveryCandidateIsExactAndAModelWithoutAMaskHasNoneThatNeedsOne) {
  for (const bool form : {false, true})
    for (const Visibility v : {Visibility::kChain, Visibility::kGraph})
      for (const bool earlier : {false, true}) {
        const OwnHead head{.folder = "model/dflash", .block = 12};
        for (const Candidate& c : exact_candidates(info_with_mask(), form, v, earlier, &head)) {
          EXPECT_FALSE(c.method.lossy()) << c.name;
          EXPECT_TRUE(std::holds_alternative<ExactSpec>(c.method.verifier)) << c.name;
          EXPECT_EQ(c.name.find("model/"), std::string::npos) << "a head is named by its kind: " << c.name;
        }
        LmInfo plain = info_with_mask();
        plain.rule.has_mask = false;
        EXPECT_EQ(exact_candidates(plain, form, v, earlier, nullptr).size(), earlier ? 2U : 1U);
        EXPECT_EQ(exact_candidates(plain, form, v, earlier, &head).size(),
                  (earlier ? 2U : 1U) + (form && v == Visibility::kGraph ? 0 : 3))
            << "a head needs no mask of the model";
      }
}

}  // namespace
}  // namespace slip
