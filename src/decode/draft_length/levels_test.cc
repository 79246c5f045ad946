// SPDX-License-Identifier: Apache-2.0
// Masks that travel with the verifying passes (draft/ahead.cc), and the draft length that knows the graph's levels (levels.cc).
#include <gtest/gtest.h>

#include <stdexcept>
#include <vector>

#include "base/philox.h"
#include "decode/decoder.h"
#include "decode/draft_length/model.h"
#include "decode/testing/hash_lm_testing.h"
#include "decode/types/method.h"

namespace slip {
namespace {

using test::HashLm;

constexpr TokenId kMask{1};

Method ahead(int32_t tokens) {
  Method m = *method_of("fields-spec");
  m.drafter = DiffusionSpec{.ahead = true};
  m.draft_length.tokens = tokens;
  return m;
}
Method measured() {
  Method m = ahead(2);
  m.draft_length.kind = DraftLengthSpec::Kind::kMeasured;
  return m;
}

struct FieldOf {
  int32_t budget;
  std::vector<int32_t> parents;
};

/// Fields of fixed sizes without rules.
Form form_of(const std::vector<FieldOf>& fields) {
  Form::Parts p;
  p.name = "levels";
  p.section_names = {"0"};
  for (size_t f = 0; f < fields.size(); ++f) {
    p.pieces.emplace_back(FixedRun{{TokenId{static_cast<int32_t>(3 + f % 5)}}, 0});
    p.pieces.emplace_back(FieldRef{static_cast<int32_t>(f)});
    p.fields.push_back({.name = std::to_string(f), .budget = fields[f].budget, .parents = fields[f].parents});
  }
  return *Form::make(std::move(p));
}

/// Hands passes on and notes where masks stand.
class MaskNotes : public Lm {
 public:
  explicit MaskNotes(const HashLm::Options& o) : lm(o) {}
  const LmInfo& info() const override { return lm.info(); }
  Status forward(const Pass& pass, PassOutput& out) override {
    for (const Row& row : pass.rows)
      if (row.input == RowInput(kMask)) masks.push_back(row.position.t);
    return lm.forward(pass, out);
  }
  HashLm lm;
  std::vector<int32_t> masks;
};

Decoded decoded(Lm& lm, const Form& form, const Method& m, DecodeOptions o = {}, const DecodeContext& context = {}) {
  o.visibility = Visibility::kGraph;
  const Prompt prompt{.inputs = {TokenId{4}, TokenId{5}}, .positions = {Position::text(0), Position::text(1)}, .next_position = 2};
  auto d = Decoder(lm, m).decode(prompt, &form, o, context);
  if (!d) throw std::runtime_error(d.error().message);
  return std::move(*d);
}

TEST(Ahead, NeedsNoDraftPassAndNeverMorePassesThanNoDrafts) {
  int64_t plain = 0, drafted = 0, accepted = 0, tested = 0;
  for (uint64_t n = 0; n < 400; ++n) {
    PhiloxStream r(n, 71);
    std::vector<FieldOf> fields;
    for (uint32_t k = 1 + r.below(6); k > 0; --k) {
      FieldOf f{static_cast<int32_t>(1 + r.below(9)), {}};
      for (size_t q = 0; q < fields.size(); ++q)
        if (r.chance(0.3)) f.parents.push_back(static_cast<int32_t>(q));
      fields.push_back(f);
    }
    const Form form = form_of(fields);
    const HashLm::Options o{.seed = n + 1, .shift = r.chance(0.5), .habit = r.uniform(0.3, 1)};
    HashLm one(o), two(o);
    const Decoded a = decoded(one, form, *method_of("fields"), {.activation = false});
    const Decoded b = decoded(two, form, ahead(static_cast<int32_t>(2 + r.below(8))), {.activation = false});
    ASSERT_EQ(a.tokens, b.tokens) << n;
    EXPECT_EQ(b.statistics.draft_forwards, 0);
    EXPECT_EQ(b.statistics.forwards, two.passes);
    ASSERT_LE(b.statistics.forwards, a.statistics.forwards) << n << ": every pass gives every field at work a token";
    plain += a.statistics.forwards;
    drafted += b.statistics.forwards;
    accepted += b.statistics.accepted;
    tested += b.statistics.tested;
  }
  EXPECT_LT(10 * drafted, 9 * plain);
  EXPECT_LT(accepted, tested) << "drafts that always hold show little";
}

/// With drafts that hold a level costs one pass: the children's masks travel with the pass that verifies their parents.
TEST(Ahead, DraftsThatHoldCostAPassPerLevelAndOne) {
  const Form form = form_of({{5, {}}, {7, {0}}, {3, {0}}, {6, {1, 2}}});
  for (const bool shift : {false, true}) {
    HashLm lm({.seed = 9, .shift = shift, .habit = 1});
    EXPECT_EQ(decoded(lm, form, ahead(16)).statistics.forwards, 3 + 1) << shift;
    HashLm late({.seed = 9, .shift = shift, .habit = 1});
    EXPECT_EQ(decoded(late, form, ahead(16), {.activation = false}).statistics.forwards, 2 * 3) << shift;
  }
}

DraftLengthModel model_of(const Form& form, double pass_ms, double row_ms) {
  const auto ms = [&](int32_t rows) { return pass_ms + rows * row_ms; };
  return DraftLengthModel::uninformed(*CostTable::make({1, 8, 40, 128}, {ms(1), ms(8), ms(40), ms(128)}, "test"), &form);
}

/// Field 1 (2 draws) stands beside field 0 (9 draws); both precede field 2: masks in field 1 would save nothing.
TEST(LevelsDraftLength, LaysMasksOnlyWhereTheLongestPathWaits) {
  const Form form = form_of({{9, {}}, {2, {}}, {6, {0, 1}}});
  const DraftLengthModel model = model_of(form, 1.5, 1);  // less than a mask in each of two fields
  MaskNotes lm({.seed = 5, .habit = 1});
  HashLm plain({.seed = 5, .habit = 1});
  const Decoded d = decoded(lm, form, measured(), {}, {.draft_length_model = &model});
  EXPECT_EQ(d.tokens, decoded(plain, form, *method_of("fields")).tokens);
  EXPECT_LT(d.statistics.forwards, 15);
  ASSERT_FALSE(lm.masks.empty());
  const Field& beside = form.fields()[1];
  for (const int32_t at : lm.masks)
    EXPECT_FALSE(at >= 2 + beside.start && at < 2 + beside.start + beside.budget) << "a mask at position " << at;
}

TEST(LevelsDraftLength, DraftsNothingWhereARowCostsAPass) {
  const Form form = form_of({{9, {}}, {2, {}}, {6, {0, 1}}});
  const DraftLengthModel model = model_of(form, 0, 1);
  MaskNotes lm({.seed = 5, .habit = 1});
  EXPECT_EQ(decoded(lm, form, measured(), {}, {.draft_length_model = &model}).statistics.forwards, 15);
  EXPECT_TRUE(lm.masks.empty());
}

TEST(LevelsDraftLength, DraftsAllThatIsOnTheWayWhereRowsAreFree) {
  const Form form = form_of({{9, {}}, {8, {}}, {6, {0, 1}}});
  const DraftLengthModel model = model_of(form, 1, 0);
  HashLm lm({.seed = 5, .habit = 1});
  EXPECT_LE(decoded(lm, form, measured(), {}, {.draft_length_model = &model}).statistics.forwards, 4);
}

/// Field 0, three fields of four draws behind it, and one behind them. An earlier answer is wrong from the first field on.
struct Earlier {
  Form form = form_of({{4, {}}, {4, {0}}, {4, {0}}, {4, {0}}, {4, {1, 2, 3}}});
  std::vector<std::vector<TokenId>> truth;
  Method method = measured();
  explicit Earlier() {
    HashLm lm({.seed = 5, .habit = 1});
    truth = decoded(lm, form, *method_of("fields")).fields;
    method.drafter = PreviousSpec{.name = "earlier", .then = DiffusionSpec{.ahead = true}};
  }
  Statistics run(const DraftLengthModel& model, bool wrong, DraftLengthTracker* tracker = nullptr) const {
    PreviousAnswer previous{.form = form.name(), .fields = truth};
    if (wrong) previous.fields[0][0].value ^= 1;
    HashLm lm({.seed = 5, .habit = 1});
    const Decoded d =
        decoded(lm, form, method, {}, {.previous = &previous, .draft_length_model = &model, .draft_length_tracker = tracker});
    EXPECT_EQ(d.fields, truth);
    return d.statistics;
  }
};

void trust_drafts(DraftLengthModel& model) {
  for (int32_t ahead = 0; ahead < Survival::kAhead; ++ahead)
    for (int32_t top = 0; top < Survival::kTop; ++top) model.survival.add({.ahead = ahead, .top = top}, {100'000, 100'000});
  model.survival.fit();
}

TEST(LevelsDraftLength, ChildrenOfALevelStartWhereThePassOutweighsAllTheirRows) {
  const Earlier earlier;
  const DraftLengthModel dear = model_of(earlier.form, 1, 1), cheap = model_of(earlier.form, 100, 1);
  // Where each draft holds with 0.7 (uninformed), field 0 ends with 0.24: of twelve rows nine are lost, and a quarter of a pass is won.
  EXPECT_EQ(earlier.run(dear, true).discarded, 0);
  EXPECT_GT(earlier.run(cheap, true).discarded, 0);
  EXPECT_LT(earlier.run(cheap, false).forwards, earlier.run(dear, false).forwards);
}

TEST(LevelsDraftLength, AnEarlierAnswerThatAlwaysHoldsIsTrustedToItsEnd) {
  const Earlier earlier;
  DraftLengthModel model = model_of(earlier.form, 1, 1);
  const int64_t before = earlier.run(model, false).forwards;
  model.repeats = 1;
  trust_drafts(model);
  EXPECT_LT(earlier.run(model, false).forwards, before);
}

TEST(LevelsDraftLength, AnEarlierAnswersMissesAreNoDriftOfTheCalibration) {
  const Earlier earlier;
  const DraftLengthModel dear = model_of(earlier.form, 1, 1);
  DraftLengthTracker tracker;
  for (int i = 0; i < 300; ++i) tracker.seen(std::nullopt, 0.9, false);
  ASSERT_TRUE(tracker.drifted());
  EXPECT_EQ(earlier.run(dear, true, &tracker).discarded, 0) << "no child starts whose rows outweigh the pass";
}

TEST(LevelsDraftLength, FieldsThatAnswersShowedToChangeHoldTheirChildrenBack) {
  const Earlier earlier;
  DraftLengthModel model = model_of(earlier.form, 3, 1);
  trust_drafts(model);
  model.repeats_F.assign(earlier.form.fields().size(), 0.95);
  EXPECT_GT(earlier.run(model, true).discarded, 0);
  model.repeats_F[0] = 0.2;
  EXPECT_EQ(earlier.run(model, true).discarded, 0);
}

/// The same slope between 8 and 40 rows. Where passes of up to 12 rows cost the same, children join a pass of five for half of a row each.
TEST(LevelsDraftLength, ARowIsPricedInThePassThatItJoins) {
  const Earlier earlier;
  DraftLengthModel line = model_of(earlier.form, 3, 0.875), flat = line;
  flat.pass = *CostTable::make({1, 8, 12, 40, 128}, {10, 10, 10, 38, 126}, "test");
  for (DraftLengthModel* model : {&line, &flat}) {
    trust_drafts(*model);
    model->repeats_F.assign(earlier.form.fields().size(), 0.95);
    model->repeats_F[0] = 0.65;  // a line says 0.65 x 3 < 0.35 x 12 x 0.875; the table 0.65 x 5 > 0.35 x 12 x 0.42
  }
  EXPECT_EQ(earlier.run(line, true).discarded, 0);
  EXPECT_GT(earlier.run(flat, true).discarded, 0);
  EXPECT_LT(earlier.run(flat, false).forwards, earlier.run(line, false).forwards);
}

/// More fields than the plan cuts one by one (plan.h).
TEST(LevelsDraftLength, DraftsAlongALongChainToo) {
  std::vector<FieldOf> fields(150, FieldOf{3, {}});
  for (int32_t f = 1; f < 150; ++f) fields[static_cast<size_t>(f)].parents = {f - 1};
  const Form form = form_of(fields);
  const DraftLengthModel model = model_of(form, 5, 0.1);
  HashLm lm({.seed = 5, .slots = 4096, .habit = 1}), plain({.seed = 5, .slots = 4096, .habit = 1});
  const Decoded d = decoded(lm, form, measured(), {}, {.draft_length_model = &model}),
                slow = decoded(plain, form, *method_of("fields"));
  EXPECT_EQ(d.tokens, slow.tokens);
  EXPECT_LT(4 * d.statistics.forwards, 3 * slow.statistics.forwards);
}

TEST(Ahead, IsRefusedWithoutAGraph) {
  const Form form = form_of({{3, {}}});
  Method m = *method_of("scaffold-spec");
  m.drafter = DiffusionSpec{.ahead = true};
  HashLm lm({});
  const Prompt prompt{.inputs = {TokenId{4}}, .positions = {Position::text(0)}, .next_position = 1};
  const auto d = Decoder(lm, m).decode(prompt, &form, {});
  ASSERT_FALSE(d);
  EXPECT_EQ(d.error().kind, ErrorKind::kUnsupported);
}

/// Settings that say nothing are told, not followed.
TEST(SamplingSettings, AreCheckedBeforeAnythingRuns) {
  const Form form = form_of({{3, {}}});
  const Prompt prompt{.inputs = {TokenId{4}}, .positions = {Position::text(0)}, .next_position = 1};
  const float nan = std::numeric_limits<float>::quiet_NaN();
  for (const Sampling& s :
       {Sampling{.top_k = -1}, Sampling{.top_p = 0}, Sampling{.top_p = nan}, Sampling{.min_p = -0.1F}, Sampling{.min_p = 1.5F},
        Sampling{.repetition = 0}, Sampling{.repetition = nan}, Sampling{.repetition_last = -1}}) {
    HashLm lm({});
    const auto d = Decoder(lm, *method_of("scaffold-ar")).decode(prompt, &form, {.temperature = 1, .sampling = s});
    ASSERT_FALSE(d);
    EXPECT_EQ(d.error().kind, ErrorKind::kUsage);
    EXPECT_EQ(lm.passes, 0);
  }
}

TEST(Trace, HoldsTheRoundsOfFieldsWithoutDrafts) {
  const Form form = form_of({{2, {}}, {3, {0}}});
  HashLm lm({.seed = 3});
  const Decoded d = decoded(lm, form, *method_of("fields"), {.trace = true});
  std::vector<std::vector<TokenId>> emitted(2);
  for (const Round& r : d.rounds)
    emitted[static_cast<size_t>(*r.field)].insert(emitted[static_cast<size_t>(*r.field)].end(), r.emitted.begin(), r.emitted.end());
  EXPECT_EQ(d.rounds.size(), 5U);
  EXPECT_EQ(emitted, d.fields);
}

}  // namespace
}  // namespace slip
