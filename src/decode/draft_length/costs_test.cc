// SPDX-License-Identifier: Apache-2.0
// What passes cost, measured; and what the measured draft length is charged for drafts.
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <vector>

#include "decode/draft_length/model.h"
#include "decode/draft_length/policy.h"
#include "decode/sequence/strand.h"
#include "decode/testing/hash_lm_testing.h"
#include "decode/types/method.h"
#include "lm/draft_head.h"

namespace slip {
namespace {

/// A model that cancels a token once it has run so many passes.
class CancellingLm : public test::HashLm {
 public:
  using HashLm::HashLm;
  Status forward(const Pass& pass, PassOutput& out) override {
    if (passes + 1 >= cancels_at) token.cancel();
    return HashLm::forward(pass, out);
  }
  int64_t cancels_at = 0;
  CancelToken token;
};

TEST(MeasuredCosts, ThatAreEndedGoOnFromThere) {
  CancellingLm lm({.slots = 512});
  constexpr int64_t kPerCall = 9;  // keys, two passes to see how long one row takes, and two points of three passes or six of one
  CostTimes times;
  int calls = 0;
  for (;;) {
    const int64_t before = lm.passes;
    lm.cancels_at = before + kPerCall;
    lm.token = {};
    const auto costs = measure_costs(lm, {.visible = 64, .budget_ms = 1, .cancel = lm.token, .times = &times});
    ASSERT_LE(lm.passes - before, kPerCall + 2);
    ASSERT_LT(++calls, 100000);
    if (costs) {
      EXPECT_EQ(costs->rows().front(), 1);
      EXPECT_EQ(costs->rows().back(), 128);
      break;
    }
    ASSERT_EQ(costs.error().kind, ErrorKind::kCancelled);
    const std::string& said = costs.error().message;
    ASSERT_TRUE(said.starts_with("draft length: expected to finish, got cancelled after ")) << said;
    const int points = std::stoi(said.substr(said.find("after ") + 6));
    ASSERT_TRUE(points >= 2 && points <= 6) << said;
  }
  EXPECT_GT(calls, 2);
}

TEST(MeasuredCosts, EndWithAnAnswerThatNobodyWaitsFor) {
  test::HashLm lm({.slots = 512});
  CostSettings s{.visible = 64};
  s.cancel.cancel();
  const auto cancelled = measure_costs(lm, s);
  ASSERT_FALSE(cancelled);
  EXPECT_EQ(cancelled.error().kind, ErrorKind::kCancelled);
  EXPECT_EQ(cancelled.error().message, "draft length: expected to finish, got cancelled after 0 measurements");
  s.cancel = {};
  s.cancel.set_deadline(std::chrono::steady_clock::now());
  const auto late = measure_costs(lm, s);
  ASSERT_FALSE(late);
  EXPECT_EQ(late.error().message, "draft length: expected to finish before the deadline, got 0 measurements done");
  EXPECT_EQ(lm.passes, 0);
}

/// Counts what it is asked, and whether it keeps to its slots.
class CountingHead : public DraftHead {
 public:
  CountingHead() {
    info_ = {.name = "counting",
             .block = 8,
             .tap_layers = {1},
             .taps_width = 3,
             .vocab = 24,
             .mask = TokenId{5},
             .context_slots = 400,
             .block_slots = 40};
  }
  const DraftHeadInfo& info() const override { return info_; }
  Status store(std::span<const int32_t> slots, std::span<const int32_t> positions, std::span<const float> taps) override {
    EXPECT_EQ(positions.size(), slots.size());
    EXPECT_EQ(taps.size(), 3 * slots.size());
    for (const int32_t slot : slots) written_.at(static_cast<size_t>(slot)) = 1;
    return {};
  }
  Status forward(const Pass& pass, PassOutput& out) override {
    ++passes;
    if (token && passes >= cancels_at) token->cancel();
    widest = std::max(widest, pass.rows.size());
    for (size_t i = 0; i < pass.rows.size(); ++i) {
      const Row& row = pass.rows[i];
      const bool anchor = i % 8 == 0;
      EXPECT_EQ(row.input == RowInput(info_.mask), !anchor);
      EXPECT_EQ(row.want, anchor ? Want::kNothing : Want::kLogits);
      EXPECT_EQ(row.slot, 400 + static_cast<int32_t>(i));
      const SlotSpan context = pass.spans[row.sees_first], block = pass.spans[row.sees_first + 1];
      for (int32_t slot = context.begin; slot < context.end; ++slot) EXPECT_TRUE(written_.at(static_cast<size_t>(slot)));
      EXPECT_TRUE(block.begin <= row.slot && row.slot < block.end && block.end <= 400 + 40) << i;
    }
    out.argmax.assign(pass.rows.size(), TokenId{0});
    return {};
  }
  bool wrote_before(int32_t slot) const {
    return std::find(written_.begin(), written_.begin() + slot, 1) != written_.begin() + slot;
  }
  int64_t passes = 0, cancels_at = 0;
  CancelToken* token = nullptr;  // cancelled at so many passes
  size_t widest = 0;

 private:
  DraftHeadInfo info_;
  std::vector<uint8_t> written_ = std::vector<uint8_t>(400, 0);
};

TEST(MeasuredCosts, OfADraftHeadAreItsRoundsAndLeaveWhatItKnows) {
  CountingHead head;
  const auto costs = measure_costs(head, 100, {.visible = 90, .most_rows = 40, .budget_ms = 1});
  ASSERT_TRUE(costs) << costs.error().message;
  EXPECT_EQ(costs->rows().front(), 1);
  EXPECT_EQ(costs->rows().back(), 40);
  EXPECT_GT(costs->ms(16), 0);
  EXPECT_EQ(head.widest, 40u);
  EXPECT_FALSE(head.wrote_before(100)) << "context of a prompt that may be reused";
  CostTimes ended;
  CancelToken some;
  head.token = &some;
  head.cancels_at = head.passes + 7;
  EXPECT_FALSE(measure_costs(head, 100, {.visible = 90, .most_rows = 40, .cancel = some, .times = &ended}));
  ASSERT_FALSE(ended.rows.empty());
  const auto shorter = measure_costs(head, 100, {.visible = 90, .most_rows = 24, .budget_ms = 1, .times = &ended});
  ASSERT_TRUE(shorter) << shorter.error().message;
  EXPECT_EQ(shorter->rows().back(), 24) << "not the points of the longer one";
  EXPECT_EQ(measure_costs(head, 311, {.visible = 90, .most_rows = 40}).error().kind, ErrorKind::kResource);
  EXPECT_EQ(measure_costs(head, 0, {.visible = 90, .most_rows = 41}).error().kind, ErrorKind::kResource);
}

/// What a strand of free text gets at position 10: its window's end, and how many of 32 drafts are kept.
struct Got {
  int32_t end = 0, kept = 0;
  bool operator==(const Got&) const = default;
};
Got got(const DraftLengthModel& model, DrafterSpec drafter, std::optional<Place> missed) {
  Method m = *method_of("self-spec");
  m.drafter = std::move(drafter);
  m.draft_length = {.kind = DraftLengthSpec::Kind::kMeasured};
  const DecodeContext context{.draft_length_model = &model};
  const auto policy = *make_draft_length(m, nullptr, {}, context);
  Decoded answer;
  Strand s;
  s.reset(answer);
  s.cursor = Cursor::text(10);
  s.tokens.assign(11, TokenId{3});
  s.cached = 10;
  s.missed = missed;
  Strand* const strands[] = {&s};
  policy->open_all(DraftViews(strands));
  std::vector<DraftFacts> facts;
  for (int32_t k = 0; k < 32; ++k) facts.push_back({.top = 0.6F, .ahead = k, .index = 10 + k, .rows = 11 + k});
  const std::span<const DraftFacts> spans[] = {facts};
  int32_t keep[] = {32};
  policy->choose(spans, keep);
  return {s.round.window_end, keep[0]};
}

/// A row costs a tenth of a pass: with a draft pass to pay for, more drafts go into the verifying one.
TEST(MeasuredDraftLength, ChargesADraftPassOnlyWhereTheEarlierAnswerHasMissed) {
  constexpr std::optional<Place> kNever, kHere = Place{};
  const DraftLengthModel model = DraftLengthModel::uninformed(*CostTable::make({1, 64}, {11, 74}, "test"), nullptr);
  const PreviousSpec then{"test", DiffusionSpec{}};
  const Got diffusion = got(model, DiffusionSpec{}, kNever), stored = got(model, PreviousSpec{"test"}, kNever);
  ASSERT_LT(stored.kept, diffusion.kept) << "or the draft pass makes no difference here";
  EXPECT_EQ(got(model, then, kNever).kept, stored.kept) << "the earlier answer drafts: no draft pass";
  EXPECT_GT(got(model, then, kNever).end, diffusion.end) << "drafts for nothing are all taken, to be chosen from";
  EXPECT_EQ(got(model, then, kHere), diffusion) << "diffusion drafts";
}

}  // namespace
}  // namespace slip
