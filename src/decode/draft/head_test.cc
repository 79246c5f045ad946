// SPDX-License-Identifier: Apache-2.0
// A head on the target's tapped hidden states that drafts.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "decode/pass/prefix_cache.h"
#include "decode/testing/drafter_testing.h"
#include "lm/block_pilot.h"
#include "lm/draft_head.h"

namespace slip {
namespace {

using namespace test;  // trials and their drafters
using testing::HasSubstr;

/// A head that checks what it is shown: every slot must hold what the target has there now, in order of position and before the
/// block.
class FakeHead : public DraftHead {
 public:
  FakeHead(const HashLm& target, int32_t block, bool in_order, bool images) : target_(target), in_order_(in_order) {
    info_ = {.name = "fake",
             .block = block,
             .tap_layers = {1, 4},
             .taps_width = 4,
             .vocab = kTrialVocab,
             .mask = TokenId{1},
             .context_slots = target.info().slots,
             .block_slots = 2 * block,
             .image_context = images};
    stored_.resize(static_cast<size_t>(info_.context_slots));
  }
  const DraftHeadInfo& info() const override { return info_; }
  /// What was final in one answer is overwritten in the next.
  void start_anew() {
    for (Line& line : stored_) line.seen = false;
  }
  bool spoil = false;
  int64_t passes = 0, stored = 0, least_seen = 1000;
  size_t most_rows = 0;

  Status store(std::span<const int32_t> slots, std::span<const int32_t> positions, std::span<const float> taps) override {
    EXPECT_EQ(taps.size(), slots.size() * 4);
    EXPECT_EQ(positions.size(), slots.size());
    for (size_t i = 0; i < slots.size(); ++i) {
      Line& line = stored_.at(static_cast<size_t>(slots[i]));
      const std::vector<float> now(taps.begin() + static_cast<long>(4 * i), taps.begin() + static_cast<long>(4 * i + 4));
      if (line.seen) {
        EXPECT_EQ(line.taps, now) << "slot " << slots[i] << " was context before it was final";
      }
      line.position = positions[i];
      line.taps = now;
      ++stored;
    }
    return {};
  }

  Status forward(const Pass& pass, PassOutput& out) override {
    ++passes;
    most_rows = std::max(most_rows, pass.rows.size());
    out.vocab = kTrialVocab;
    out.argmax.clear();
    out.logits_row.assign(pass.rows.size(), -1);
    out.logits_NV.clear();
    for (size_t i = 0; i < pass.rows.size(); ++i) {
      look(pass, pass.rows[i]);
      std::vector<float> logits;
      for (int32_t id = 0; id < kTrialVocab; ++id)
        logits.push_back((spoil ? -1.0F : 1.0F) * target_.guess(pass.rows[i].position.t, id));
      if (brings_logits(pass.rows[i].want)) {
        out.logits_row[i] = static_cast<int32_t>(out.logits_NV.size() / kTrialVocab);
        out.logits_NV.insert(out.logits_NV.end(), logits.begin(), logits.end());
      }
      out.argmax.push_back({static_cast<int32_t>(std::max_element(logits.begin(), logits.end()) - logits.begin())});
    }
    return {};
  }

 private:
  struct Line {
    int32_t position = -1;
    std::vector<float> taps;
    bool seen = false;
  };
  void look(const Pass& pass, const Row& row) {
    int32_t last = -1, first_of_block = row.position.t - row.slot;
    bool block = false;
    int64_t seen = 0;
    for (uint32_t k = 0; k < row.sees_count; ++k)
      for (int32_t slot = pass.spans[row.sees_first + k].begin; slot < pass.spans[row.sees_first + k].end; ++slot) {
        if (slot >= info_.context_slots) {
          if (!block) first_of_block += slot;
          block = true;
          continue;
        }
        ++seen;
        EXPECT_FALSE(block) << "context first, then the block";
        Line& line = stored_.at(static_cast<size_t>(slot));
        line.seen = true;
        std::vector<float> now;
        for (const int32_t layer : info_.tap_layers)
          for (const float x : target_.tap(slot, layer)) now.push_back(x);
        EXPECT_EQ(line.taps, now) << "slot " << slot << " holds another row by now";
        if (in_order_) {
          EXPECT_GT(line.position, last);
        }
        last = line.position;
      }
    EXPECT_TRUE(block);
    least_seen = std::min(least_seen, seen);
    if (in_order_) {
      EXPECT_LT(last, first_of_block) << "the anchor is not context";
    }
  }
  const HashLm& target_;
  bool in_order_;
  DraftHeadInfo info_;
  std::vector<Line> stored_;
};

TEST(DFlash, WritesWhatOneAtATimeWrites) {
  for (const Path path : kPaths) {
    Statistics sum;
    for (uint64_t n = 0; n < 1200 && !testing::Test::HasFailure(); ++n) {
      Trial t = trial_on(path, n);
      HashLm lm(t.lm);
      FakeHead head(lm, static_cast<int32_t>(2 + n % 7), t.options.visibility == Visibility::kChain, true);
      head.spoil = n % 6 == 5;
      t.context.draft_head = &head;
      const Statistics s =
          expect_same(t, path, lm, method_on(path, DFlashSpec{}, static_cast<int32_t>(1 + n % 8)), rollouts_of(n), n);
      EXPECT_EQ(s.forwards, lm.passes);
      EXPECT_EQ(s.drafter_forwards, head.passes);
      EXPECT_LE(head.most_rows, static_cast<size_t>(head.info().block_slots));
      sum.add(s);
    }
    expect_mixed(sum);
  }
}

/// The classifier was taught around the head's block; the method's own length is another's.
TEST(DFlash, ABlockPilotChoosesAroundTheHeadsBlock) {
  class Fixed : public BlockPilot {
   public:
    explicit Fixed(int32_t picked) : picked_(picked) {}
    int32_t vocab() const override { return kTrialVocab; }
    int32_t classes() const override { return 5; }
    int32_t pick(std::span<const float>) const override { return picked_; }

   private:
    int32_t picked_;
  };
  for (const int32_t picked : {0, 1, 2}) {
    const Fixed pilot(picked);
    size_t widest = 0;
    for (uint64_t n = 0; n < 40; ++n) {
      Trial t = trial_on(Path::kText, n);
      HashLm lm(t.lm);
      FakeHead head(lm, 8, true, true);
      t.context.draft_head = &head;
      t.context.block_pilot = &pilot;
      t.options.trace = true;
      Method m = method_on(Path::kText, DFlashSpec{}, 2);
      m.draft_length.kind = DraftLengthSpec::Kind::kBlockPilot;
      const auto d = Decoder(lm, m).decode(t.prompt, nullptr, t.options, t.context);
      ASSERT_TRUE(d) << d.error().message;
      EXPECT_EQ(d->tokens, one_at_a_time(t, Path::kText, 1).front().tokens);
      for (const Round& round : d->rounds) widest = std::max(widest, round.draft.size());
    }
    EXPECT_EQ(widest, static_cast<size_t>(8 - 2 + picked - 1)) << "a block of 6 to 8 rows, the anchor one of them";
  }
}

TEST(DFlash, KeepsTheContextOfAPromptThatIsReused) {
  for (const Path path : kPaths)
    for (uint64_t n = 0; n < 100; ++n) {
      Trial t = trial_on(path, n);
      HashLm lm(t.lm);
      FakeHead head(lm, 5, t.options.visibility == Visibility::kChain, true), other(lm, 5, false, true);
      t.context.draft_head = &head;
      Decoder decoder(lm, method_on(path, DFlashSpec{}, 4));
      const auto fresh = decoder.decode(t.prompt, form_on(path, t), t.options, t.context);
      const auto prompt_rows = static_cast<int64_t>(t.prompt.inputs.size());
      const int64_t stored = head.stored;
      EXPECT_GE(head.least_seen, prompt_rows) << "no draft without the prompt";
      t.options.reuse_prompt = true;
      head.start_anew();
      const auto again = decoder.decode(t.prompt, form_on(path, t), t.options, t.context);
      ASSERT_TRUE(fresh && again);
      EXPECT_EQ(again->tokens, fresh->tokens);
      EXPECT_GE(head.least_seen, prompt_rows) << "the prompt's slots are context without running again";
      EXPECT_LE(again->statistics.forwards, fresh->statistics.forwards);
      EXPECT_EQ(head.stored, stored + again->statistics.rows);
      t.context.draft_head = &other;  // it has not seen the prompt: the prompt runs
      const auto third = decoder.decode(t.prompt, form_on(path, t), t.options, t.context);
      ASSERT_TRUE(third);
      EXPECT_EQ(third->tokens, fresh->tokens);
      EXPECT_GE(other.least_seen, prompt_rows);
      EXPECT_EQ(third->statistics.rows, fresh->statistics.rows);
    }
}

/// Image rows look like tokens to the model of hashes: features become id 5.
TEST(DFlash, LeavesImageRowsOutWhereTheHeadWasTrainedWithout) {
  for (const bool images : {true, false}) {
    Trial t = trial_on(Path::kText, 4);
    t.options.limit = 12;
    t.prompt = {{TokenId{3}, Feature{0}, Feature{1}, TokenId{4}},
                {Position::text(0), Position::text(1), Position::text(2), Position::text(3)},
                {},
                4};
    HashLm model(t.lm);
    class WithImages : public Lm {
     public:
      explicit WithImages(HashLm& lm) : lm_(lm) {}
      const LmInfo& info() const override { return lm_.info(); }
      Status set_taps(std::span<const int32_t> layers) override { return lm_.set_taps(layers); }
      Status forward(const Pass& pass, PassOutput& out) override {
        std::vector<Row> rows(pass.rows.begin(), pass.rows.end());
        for (Row& r : rows)
          if (std::holds_alternative<Feature>(r.input)) r.input = TokenId{5};
        return lm_.forward({rows, pass.spans, pass.features, false, pass.taps, pass.allowed}, out);
      }

     private:
      HashLm& lm_;
    } lm(model);
    FakeHead head(model, 4, true, images);
    t.context.draft_head = &head;
    const auto d = Decoder(lm, method_on(Path::kText, DFlashSpec{}, 3)).decode(t.prompt, nullptr, t.options, t.context);
    ASSERT_TRUE(d) << d.error().message;
    EXPECT_EQ(head.stored, d->statistics.rows - (images ? 0 : 2));
  }
}

TEST(DFlash, NamesWhatIsWrong) {
  Trial t = trial_on(Path::kText, 5);
  HashLm lm(t.lm);
  const auto why = [&](DraftHead* head) {
    const auto d = Decoder(lm, method_on(Path::kText, DFlashSpec{}, 4)).decode(t.prompt, nullptr, t.options, {.draft_head = head});
    return d ? std::string("decoded") : d.error().message;
  };
  EXPECT_THAT(why(nullptr), HasSubstr("expected a draft head (dflash:DIR), got none"));
  class Odd : public FakeHead {
   public:
    Odd(const HashLm& lm, DraftHeadInfo info) : FakeHead(lm, 4, true, true), odd_(std::move(info)) {}
    const DraftHeadInfo& info() const override { return odd_; }

   private:
    DraftHeadInfo odd_;
  };
  const DraftHeadInfo good = FakeHead(lm, 4, true, true).info();
  const auto with = [&](auto change) {
    DraftHeadInfo info = good;
    change(info);
    Odd head(lm, info);
    return why(&head);
  };
  EXPECT_EQ(with([](DraftHeadInfo&) {}), "decoded");
  EXPECT_THAT(with([](DraftHeadInfo& i) { i.vocab = 30; }), HasSubstr("expected one for a target of 24 ids, got 30"));
  EXPECT_THAT(with([](DraftHeadInfo& i) { i.taps_width = 5; }), HasSubstr("expected one that reads 4 numbers per row"));
  EXPECT_THAT(with([](DraftHeadInfo& i) { i.context_slots = 8; }), HasSubstr("expected an arena of at least"));
  EXPECT_THAT(with([](DraftHeadInfo& i) { i.block = 1; }), HasSubstr("expected a block of at least 2 rows"));
  Wrapped deaf(lm);  // no layers to tap
  FakeHead head(lm, 4, true, true);
  const auto d = Decoder(deaf, method_on(Path::kText, DFlashSpec{}, 4)).decode(t.prompt, nullptr, t.options, {.draft_head = &head});
  ASSERT_FALSE(d);
  EXPECT_EQ(d.error().kind, ErrorKind::kUnsupported);
}

}  // namespace
}  // namespace slip
