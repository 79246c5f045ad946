// SPDX-License-Identifier: Apache-2.0
// Drafters that are networks of their own: a second model with another vocabulary, and a head on tapped hidden states.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "decode/pass/prefix_cache.h"
#include "decode/testing/draft_model_testing.h"
#include "decode/testing/drafter_testing.h"
#include "lm/block_pilot.h"
#include "lm/draft_head.h"

namespace slip {
namespace {

using namespace test;  // trials and their drafters
using testing::HasSubstr;

/// Another model with names of its own for the tokens: id 23 - t of the drafter is t of the target.
class Renamed : public Lm {
 public:
  explicit Renamed(HashLm::Options o) : lm_(o) {}
  const LmInfo& info() const override { return lm_.info(); }
  static TokenId name(TokenId t) { return {kTrialVocab - 1 - t.value}; }
  Status forward(const Pass& pass, PassOutput& out) override {
    ++passes;
    std::vector<Row> rows(pass.rows.begin(), pass.rows.end());
    for (Row& r : rows) r.input = name(std::get<TokenId>(r.input));
    SLIP_TRY_(lm_.forward({rows, pass.spans, pass.features_ND}, out));
    for (TokenId& id : out.argmax) id = name(id);
    for (size_t at = 0; at < out.logits_NV.size(); at += kTrialVocab)
      std::reverse(out.logits_NV.begin() + static_cast<long>(at), out.logits_NV.begin() + static_cast<long>(at) + kTrialVocab);
    return {};
  }
  int64_t passes = 0;

 private:
  HashLm lm_;
};

DraftModel renamed(Renamed& lm, const Prompt& prompt) {
  DraftModel d = draft_model_of_same_ids(lm, prompt);
  for (RowInput& input : d.prompt.inputs) input = Renamed::name(std::get<TokenId>(input));
  for (int32_t id = 0; id < kTrialVocab; ++id) d.to_draft.set({id}, Renamed::name({id}));
  d.to_target = d.to_draft;
  return d;
}

RowInput random_id_but(const RowInput& input) { return TokenId{3 + (std::get<TokenId>(input).value - 2) % (kTrialVocab - 3)}; }

TEST(DraftModel, WritesWhatOneAtATimeWrites) {
  for (const Path path : kPaths) {
    Statistics sum;
    for (uint64_t n = 0; n < 1200 && !testing::Test::HasFailure(); ++n) {
      Trial t = trial_on(path, n);
      HashLm::Options small = t.lm;
      if (n % 2) small.habit = 0.7 * small.habit + 0.3;  // often right
      if (n % 5 == 0) small.seed += 1000;                // hardly ever
      Renamed drafter(small);
      DraftModel model = renamed(drafter, t.prompt);
      PhiloxStream r(n, 3);
      if (n % 3 == 1)
        for (uint32_t k = r.below(4); k > 0; --k) model.to_draft.set({static_cast<int32_t>(r.below(kTrialVocab))}, std::nullopt);
      if (n % 3 == 2)
        for (uint32_t k = r.below(4); k > 0; --k) model.to_target.set({static_cast<int32_t>(r.below(kTrialVocab))}, std::nullopt);
      t.context.draft_model = &model;
      HashLm lm(t.lm);
      const DrafterSpec drafts = ModelSpec{.name = "", .coupled = n % 4 == 0};
      const Statistics s = expect_same(t, path, lm, method_on(path, drafts, static_cast<int32_t>(1 + n % 6)), rollouts_of(n), n);
      EXPECT_EQ(s.forwards, lm.passes);
      EXPECT_EQ(s.drafter_forwards, drafter.passes);
      sum.add(s);
    }
    expect_mixed(sum);
  }
}

/// A drafter that is the target itself, under other names: a stale key, a wrong position, a wrong id, or along a graph an ancestor's row
/// that is missing, would make it miss.
TEST(DraftModel, ThatIsTheTargetIsAlwaysRight) {
  for (const Path path : kPaths)
    for (uint64_t n = 0; n < 400; ++n) {
      Trial t = trial_on(path, n);
      Renamed drafter(t.lm);
      const DraftModel model = renamed(drafter, t.prompt);
      t.context.draft_model = &model;
      HashLm lm(t.lm);
      const DrafterSpec coupled = ModelSpec{.name = "", .coupled = true};
      const Statistics s = expect_same(t, path, lm, method_on(path, coupled, 3), rollouts_of(n), n);
      if (rollouts_of(n) == 1) {  // rollouts share the drafts of the first
        ASSERT_EQ(s.accepted, s.tested) << n;
      }
      if (path == Path::kText && rollouts_of(n) == 1) {
        ASSERT_EQ(s.drafter_forwards, 3 * (s.forwards - 1)) << "catching up costs no pass";
      }
    }
}

/// Its drafts are never the target's: its names for the target's ids are off by one. Passes are those of no drafts, tokens the same.
TEST(DraftModel, ThatIsAlwaysWrongCostsNoPassAndNoToken) {
  Statistics sum;
  for (const Path path : {Path::kFields, Path::kOneByOne, Path::kChain})
    for (uint64_t n = 0; n < 300; ++n) {
      Trial t = trial_on(path, n);
      t.options.temperature = 0;
      HashLm small(t.lm), lm(t.lm), plain(t.lm);
      DraftModel model = draft_model_of_same_ids(small, t.prompt);
      for (int32_t id = 0; id < kTrialVocab; ++id) model.to_target.set({id}, TokenId{(id + 1) % kTrialVocab});
      t.context.draft_model = &model;
      const Statistics s = expect_same(t, path, lm, method_on(path, ModelSpec{}, 4), 1, n);
      const auto alone = Decoder(plain, method_on(path, NoDraftSpec{}, 1)).decode(t.prompt, &t.form, t.options);
      ASSERT_TRUE(alone);
      ASSERT_LE(s.forwards, alone->statistics.forwards) << n << ": a round gives a token whatever becomes of its drafts";
      sum.add(s);
    }
  EXPECT_GT(sum.tested, 1000);
  EXPECT_LT(sum.accepted, sum.tested / 4) << "restricted fields leave a choice of few";
}

/// Rows of its prompt run once for answers one after another, where the caller says that they may stay; of a prompt that has changed, from
/// the first row on that is another.
TEST(DraftModel, RunsItsPromptOnce) {
  for (const Path path : kPaths)
    for (uint64_t n = 0; n < 60; ++n) {
      Trial t = trial_on(path, n);
      HashLm small(t.lm), lm(t.lm);
      Wrapped drafter(small);
      int64_t prompt_rows = 0;
      drafter.look = [&](const Pass& pass) {
        for (const Row& row : pass.rows) prompt_rows += row.slot < static_cast<int32_t>(t.prompt.inputs.size());
      };
      PrefixCache prefix_cache;
      DraftModel model = draft_model_of_same_ids(drafter, t.prompt);
      if (n % 2) model.prefix_cache = &prefix_cache;
      t.context.draft_model = &model;
      t.options.limit = 12;
      Decoder decoder(lm, method_on(path, ModelSpec{.name = "", .coupled = true}, 3));
      const auto size = static_cast<int64_t>(t.prompt.inputs.size());
      int64_t ran = 0;
      for (uint32_t request = 0; request < 4; ++request) {
        t.options.request = request;
        t.options.reuse_prompt = true;
        if (request == 3) model.prompt.inputs.back() = random_id_but(model.prompt.inputs.back());
        const auto d = decoder.rollouts(t.prompt, form_on(path, t), t.options, 1 + static_cast<int32_t>(n % 3), t.context);
        ASSERT_TRUE(d) << d.error().message;
        t.options.reuse_prompt = false;
        ASSERT_EQ(d->front().tokens, one_at_a_time(t, path, 1).front().tokens) << n;
        const int64_t due = d->front().statistics.drafter_forwards == 0 ? 0 : ran == 0 ? size : request == 3 ? 1 : 0;
        ASSERT_EQ(prompt_rows, ran + due) << n << " " << request;
        ran = prompt_rows;
      }
    }
}

/// After a miss too: its drafts are what the target would say greedily behind the answer so far.
TEST(DraftModel, ForgetsWhatDidNotHold) {
  int64_t missed = 0;
  for (uint64_t n = 0; n < 300; ++n) {
    Trial t = trial_on(Path::kText, n);
    t.options.temperature = 1;
    t.options.limit = 20;
    t.options.trace = true;
    Renamed drafter(t.lm);
    const DraftModel model = renamed(drafter, t.prompt);
    t.context.draft_model = &model;
    HashLm lm(t.lm);
    const auto d = Decoder(lm, method_on(Path::kText, ModelSpec{}, 4)).decode(t.prompt, nullptr, t.options, t.context);
    ASSERT_TRUE(d);
    Prompt so_far = t.prompt;
    const auto append = [&](TokenId id) {
      so_far.inputs.emplace_back(id);
      so_far.positions.push_back(Position::text(so_far.next_position++));
    };
    append(d->tokens[0]);
    for (const Round& round : d->rounds) {
      HashLm other(t.lm);
      const auto greedy = decode(other, so_far, nullptr, "ar", {.limit = 4});
      ASSERT_TRUE(greedy);
      ASSERT_EQ(round.draft, greedy->tokens) << n;
      missed += round.accepted < 4;
      for (const TokenId id : round.emitted) append(id);
    }
  }
  EXPECT_GT(missed, 300);
}

TEST(DraftModel, FallsSilentBehindATokenThatItCannotName) {
  CycleLm lm, small;
  Prompt p{{TokenId{3}}, {Position::text(0)}, {}, 1};
  DraftModel model = draft_model_of_same_ids(small, p);
  const auto with = [&] {
    const auto d = Decoder(lm, method_on(Path::kText, ModelSpec{}, 4)).decode(p, nullptr, {.limit = 16}, {.draft_model = &model});
    if (!d) throw std::runtime_error(d.error().message);
    return d->statistics;
  };
  EXPECT_EQ(with().forwards, 4) << "1 + 5 + 5 + 5";
  model.to_draft.set({5}, std::nullopt);  // drafts 5, which it knows only as an output, and cannot go on
  EXPECT_EQ(with().drafter_forwards, 1);
  EXPECT_EQ(with().forwards, 1 + 1 + 13) << "4, then 5 6 in one round, then alone";
  model.to_draft.set({5}, TokenId{5});
  model.to_target.set({5}, std::nullopt);  // its own 5 names nothing: the draft ends there, and goes on behind the target's
  EXPECT_GT(with().forwards, 4);
  EXPECT_GT(with().drafter_forwards, 4);
  EXPECT_GT(with().accepted, 4);
}

TEST(DraftModel, NamesWhatIsWrong) {
  Trial t = trial_on(Path::kText, 5);
  HashLm lm(t.lm);
  Renamed drafter(t.lm);
  const DraftModel good = renamed(drafter, t.prompt);
  const auto why = [&](const DraftModel* model, Path path = Path::kText) {
    DecodeOptions o = t.options;
    o.visibility = path == Path::kFields ? Visibility::kGraph : Visibility::kChain;
    const auto d = Decoder(lm, method_on(path, ModelSpec{}, 4)).decode(t.prompt, form_on(path, t), o, {.draft_model = model});
    return d ? std::string("decoded") : d.error().message;
  };
  EXPECT_EQ(why(&good), "decoded");
  EXPECT_THAT(why(nullptr), HasSubstr("expected a model (model:DIR), got none"));
  EXPECT_EQ(why(&good, Path::kFields), "decoded");
  DraftModel bad = good;
  bad.to_draft = same_ids(kTrialVocab - 1);
  EXPECT_THAT(why(&bad), HasSubstr("ids of the target: expected 24 ids, one per token of the vocabulary, got 23"));
  bad = good;
  bad.to_target = same_ids(kTrialVocab + 1);
  EXPECT_THAT(why(&bad), HasSubstr("ids of the drafter: expected 24 ids"));
  bad = good;
  bad.to_target.set({3}, TokenId{24});
  EXPECT_THAT(why(&bad), HasSubstr("id 3: expected an id below 24 or none, got 24"));
  bad = good;
  bad.prompt = {};
  EXPECT_THAT(why(&bad), HasSubstr("expected a prompt of at least one row"));
  bad = good;
  bad.prompt.inputs[0] = TokenId{99};
  EXPECT_THAT(why(&bad), HasSubstr("expected prompt ids below 24, got 99"));
  HashLm::Options tight = t.lm;
  tight.slots = static_cast<int32_t>(t.prompt.inputs.size());
  Renamed small(tight);
  bad = renamed(small, t.prompt);
  EXPECT_THAT(why(&bad), HasSubstr("expected an arena of at least"));
}

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
      if (pass.rows[i].want == Want::kLogits) {
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
        return lm_.forward({rows, pass.spans, pass.features_ND, false, pass.taps, pass.allowed}, out);
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
