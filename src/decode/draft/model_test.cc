// SPDX-License-Identifier: Apache-2.0
// A second model that drafts, with another vocabulary.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "decode/pass/prefix_cache.h"
#include "decode/testing/draft_model_testing.h"
#include "decode/testing/drafter_testing.h"

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
    SLIP_TRY_(lm_.forward({rows, pass.spans, pass.features}, out));
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

}  // namespace
}  // namespace slip
