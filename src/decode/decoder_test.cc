// SPDX-License-Identifier: Apache-2.0
// What decoding promises besides exactness: no allocation per round, prompts that are reused, rows without numbers, cancellation between
// passes, errors that name what is wrong.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <cmath>

#include "base/count_allocations_testing.h"
#include "decode/decoder.h"
#include "decode/pass/choice.h"
#include "decode/testing/decode_testing.h"
#include "decode/testing/keeping_lm_testing.h"
#include "form/schema/values.h"
#include "lm/features_testing.h"

namespace slip {
namespace {

using namespace test;  // NOLINT: the trials' own header
using testing::HasSubstr;

/// Greedy rows of restricted fields name the few ids that may win, and then ask for no logits.
TEST(Decoder, AsksForNoLogitsWhereAGreedyRowsFieldListsFewIds) {
  const auto tokens = [](std::initializer_list<int32_t> ids) {
    std::vector<TokenId> out;
    for (const int32_t id : ids) out.push_back({id});
    return out;
  };
  Form::Parts parts{
      .name = "digits", .pieces = {FixedRun{tokens({9})}, FieldRef{0}, FixedRun{tokens({10})}}, .section_names = {"all"}};
  Field field;
  field.name = "digit";
  field.budget = 3;
  field.end = TokenId{3};
  field.rules = TokenRules::only(tokens({4, 5, 6}));
  parts.fields = {field};
  auto form = Form::make(std::move(parts));
  ASSERT_TRUE(form) << form.error().message;
  for (const float temperature : {0.0F, 0.8F}) {
    Trial t = chain_trial(3, true);
    t.options.temperature = temperature;
    HashLm model(t.lm);
    class Watch : public Lm {
     public:
      explicit Watch(Lm& lm) : lm_(lm) {}
      const LmInfo& info() const override { return lm_.info(); }
      Status forward(const Pass& pass, PassOutput& out) override {
        for (const Row& row : pass.rows) {
          logits += brings_logits(row.want);
          if (!row.allowed) continue;
          ++restricted;
          const auto ids = allowed_of(pass, row);
          EXPECT_EQ(std::vector<TokenId>(ids.begin(), ids.end()), (std::vector<TokenId>{{3}, {4}, {5}, {6}}));
        }
        return lm_.forward(pass, out);
      }
      int64_t logits = 0, restricted = 0;

     private:
      Lm& lm_;
    } watch(model);
    ASSERT_TRUE(decode(watch, t.prompt, &*form, "scaffold-ar", t.options));
    EXPECT_EQ(watch.logits > 0, temperature > 0);
    EXPECT_EQ(watch.restricted > 0, temperature == 0);
  }
}

std::vector<int64_t> counts_at_pass;

TEST(Decoder, AllocatesNothingPerRoundAfterTheFirst) {
  for (const std::string_view preset : {"scaffold-ar", "scaffold-spec", "ar", "self-spec", "section-diffusion"}) {
    Trial t = chain_trial(12, preset != "section-diffusion");
    t.options.limit = 40;
    HashLm model(t.lm);
    Decoder decoder(model, *method_of(preset));
    const Form* form = preset.starts_with("s") && preset != "self-spec" ? &t.form : nullptr;
    ASSERT_TRUE(decoder.decode(t.prompt, form, t.options));  // settles the buffers
    counts_at_pass.clear();
    counts_at_pass.reserve(1000);
    model.on_pass = [](int64_t) { counts_at_pass.push_back(allocations.load()); };
    ASSERT_TRUE(decoder.decode(t.prompt, form, t.options));
    ASSERT_GT(counts_at_pass.size(), 4u);
    EXPECT_EQ(counts_at_pass.back() - counts_at_pass.front(), 0) << preset;
  }
}

/// What the presets decode: forms but for free `ar` and self-spec.
struct Way {
  std::string_view preset;
  bool form, forced, own_prefill;
};
constexpr Way kWays[] = {
    {"ar", false, false, true},          {"self-spec", false, false, true},    {"ar", true, true, true},
    {"scaffold-ar", true, false, false}, {"scaffold-spec", true, false, true}, {"section-diffusion", true, false, true}};

TEST(Decoder, ReusesThePromptOfItsLastCallForTheSameTokens) {
  for (const Way& way : kWays) {
    for (uint64_t n = 0; n < 100; ++n) {
      Trial t = chain_trial(n, n % 2 == 1 && way.preset != "section-diffusion");
      t.options.temperature = 0.8F;
      t.options.limit = 12;
      t.options.forced = way.forced;
      const Form* form = way.form ? &t.form : nullptr;
      const auto prompt_rows = static_cast<int64_t>(t.prompt.inputs.size());
      HashLm model(t.lm);
      Decoder decoder(model, *method_of(way.preset));
      for (uint32_t request = 0; request < 3; ++request) {
        t.options.request = request;
        HashLm other(t.lm);
        t.options.reuse_prompt = false;
        const auto fresh = decode(other, t.prompt, form, way.preset, t.options);
        t.options.reuse_prompt = true;  // nothing to reuse in the first call: ignored
        const int64_t before = model.passes;
        const auto reused = decoder.decode(t.prompt, form, t.options);
        ASSERT_TRUE(fresh && reused);
        ASSERT_EQ(reused->tokens, fresh->tokens) << way.preset << " " << n;
        ASSERT_EQ(reused->fields, fresh->fields);
        const Statistics &a = fresh->statistics, &b = reused->statistics;
        ASSERT_EQ(b.forwards, model.passes - before);
        // Free text draws its first token from the prompt's last row, which therefore runs again.
        const int64_t saved_rows = request == 0 ? 0 : prompt_rows - !way.form;
        const int64_t saved_passes = request > 0 && way.own_prefill && way.form;
        ASSERT_EQ(b.rows, a.rows - saved_rows) << way.preset << " " << n;
        ASSERT_EQ(b.forwards, a.forwards - saved_passes) << way.preset << " " << n;
      }
    }
  }
}

TEST(Decoder, RunsAPromptThatItsArenaDoesNotHold) {
  Trial t = chain_trial(4, false);
  HashLm model(t.lm);
  Decoder decoder(model, *method_of("scaffold-spec"));
  const auto rows = [&](const Prompt& prompt, bool reuse) {
    t.options.reuse_prompt = reuse;
    HashLm other(t.lm);
    const auto fresh = decode(other, prompt, &t.form, "scaffold-spec", t.options);
    const auto d = decoder.decode(prompt, &t.form, t.options);
    EXPECT_TRUE(fresh && d);
    EXPECT_EQ(d->tokens, fresh->tokens);
    return fresh->statistics.rows - d->statistics.rows;
  };
  const auto text = [](int32_t i) { return Position::text(i); };
  const Prompt one{{TokenId{3}, TokenId{4}, Feature{0}, Feature{1}, TokenId{6}},
                   {text(0), text(1), text(2), text(3), text(4)},
                   {{}, {0, 1, 2, 3}},
                   5};
  Prompt token = one, position = one, feature = one, other_place = one, longer = one, shorter = one;
  token.inputs[0] = TokenId{5};
  position.positions[1] = text(2);
  feature.features.numbers_ND[3] = 4;
  other_place.inputs[2] = Feature{2};  // the same numbers in another line
  other_place.features.numbers_ND.insert(other_place.features.numbers_ND.end(), {0, 1});
  longer.inputs.push_back(TokenId{4});
  longer.positions.push_back(text(5));
  shorter.inputs.resize(3);
  shorter.positions.resize(3);
  EXPECT_EQ(rows(one, true), 0) << "the first call";
  EXPECT_EQ(rows(one, true), 5);
  const std::pair<Prompt, int64_t> others[] = {{token, 0},       {position, 1}, {feature, 3},
                                               {other_place, 5}, {longer, 5},   {shorter, 3}};
  for (const auto& [other, common] : others) {
    EXPECT_EQ(rows(other, true), common);
    EXPECT_EQ(rows(one, true), common) << "the rest is overwritten by another prompt or by an answer";
    EXPECT_EQ(rows(one, true), 5);
  }
  // Rows that lie elsewhere are known by their block's content and their place in it.
  Prompt held = one, held_other = one, one_held = one;
  test::hold_first(held.features, 2, 2);
  held_other.features.numbers_ND[3] = 4;
  test::hold_first(held_other.features, 2, 2);
  test::hold_first(one_held.features, 1, 2);
  const Prompt held_again = held;
  EXPECT_EQ(rows(held, true), 2) << "the same numbers in another place are looked at as others";
  EXPECT_EQ(rows(held_again, true), 5);
  EXPECT_EQ(rows(held_other, true), 2) << "another block";
  EXPECT_EQ(rows(held, true), 2);
  EXPECT_EQ(rows(one_held, true), 2);
  EXPECT_EQ(rows(one_held, true), 5) << "a block, and numbers behind it";
  EXPECT_EQ(rows(one, true), 2);
  EXPECT_EQ(rows(one, false), 0) << "not asked for";
  EXPECT_EQ(rows(one, true), 5);
  DecodeOptions late = t.options;
  late.reuse_prompt = false;
  DecodeContext over;
  over.cancel.set_deadline(std::chrono::steady_clock::now());
  ASSERT_FALSE(decoder.decode(one, &t.form, late, over));
  EXPECT_EQ(rows(one, true), 0) << "a call that ended before its prompt ran leaves nothing";
}

/// A model whose weights or inputs have gone wrong: no logit is a number.
class NanLm : public Lm {
 public:
  NanLm() {
    info_.name = "nan";
    info_.vocab = kTrialVocab;
    info_.slots = 512;
    info_.rule = {.shift = true, .has_mask = true, .has_null = true, .mask = TokenId{1}, .null_token = kNull};
  }
  const LmInfo& info() const override { return info_; }
  Status forward(const Pass& pass, PassOutput& out) override {
    out.vocab = kTrialVocab;
    out.argmax.assign(pass.rows.size(), TokenId{0});  // the contract of lm/lm.h
    out.logits_row.assign(pass.rows.size(), -1);
    out.logits_NV.clear();
    for (size_t i = 0; i < pass.rows.size(); ++i) {
      out.nan_rows += pass.rows[i].want != Want::kNothing;
      answer_row(pass, i, std::vector<float>(kTrialVocab, std::nanf("")), out);
      if (!brings_logits(pass.rows[i].want)) continue;
      out.logits_row[i] = static_cast<int32_t>(out.logits_NV.size() / kTrialVocab);
      out.logits_NV.insert(out.logits_NV.end(), kTrialVocab, std::nanf(""));
    }
    return {};
  }

 private:
  LmInfo info_;
};

TEST(Decoder, CountsRowsWithoutNumbersAndStillAnswersInIdsOfTheModel) {
  for (const Way& way : kWays) {
    for (uint64_t n = 0; n < 40; ++n) {
      Trial t = chain_trial(n, n % 2 == 1 && way.preset != "section-diffusion");
      t.options.limit = 9;
      t.options.forced = way.forced;
      const Form* form = way.form ? &t.form : nullptr;
      NanLm model;
      const auto d = decode(model, t.prompt, form, way.preset, t.options);
      ASSERT_TRUE(d) << d.error().message;
      EXPECT_GT(d->statistics.nan_rows, 0);
      for (const TokenId id : d->tokens) ASSERT_TRUE(id.value >= 0 && id.value < kTrialVocab);
      if (!way.form) {
        ASSERT_EQ(d->tokens, std::vector<TokenId>(9, TokenId{0})) << "greedy or drawn: the lowest id";
      } else {
        ASSERT_TRUE(split_answer(t.form, d->tokens));
        if (!d->lossy) {
          NanLm other;
          const auto one = decode(other, t.prompt, form, "scaffold-ar", t.options);
          ASSERT_EQ(d->tokens, one->tokens) << "exact decoders agree here too";
        }
      }
    }
  }
  const Trial t = chain_trial(1, false);
  EXPECT_EQ(run(t, "scaffold-ar").statistics.nan_rows, 0);
  EXPECT_EQ(probability_of(std::vector<float>(4, std::nanf("")), {}, {2}), 0);
}

// Logits that lie elsewhere may become unreadable in the middle of an answer: an error then, and no field is told of that the model did not say.
TEST(Decoder, AFailureToReadLogitsEndsTheAnswer) {
  int failed = 0;
  for (const Way& way : kWays) {
    for (uint64_t n = 0; n < 30; ++n) {
      Trial t = chain_trial(n, n % 2 == 1 && way.preset != "section-diffusion");
      t.options.limit = 12;
      t.options.forced = way.forced;
      const Form* form = way.form ? &t.form : nullptr;
      HashLm model(t.lm), plain(t.lm);
      const auto want = decode(plain, t.prompt, form, way.preset, t.options);
      ASSERT_TRUE(want) << want.error().message;
      LikelyLm keeps(model, 1);
      keeps.fails_at = static_cast<int64_t>(n % 5);
      t.context.on_field = [&](int32_t f, std::span<const TokenId> content, int64_t) {
        EXPECT_TRUE(std::ranges::equal(content, want->fields[static_cast<size_t>(f)])) << way.preset << " " << n;
      };
      const auto d = decode(keeps, t.prompt, form, way.preset, t.options, t.context);
      if (d) {
        EXPECT_EQ(d->tokens, want->tokens);
        EXPECT_LE(keeps.drawn + keeps.read_whole, keeps.fails_at);
        continue;
      }
      EXPECT_EQ(d.error().kind, ErrorKind::kResource);
      EXPECT_THAT(d.error().message, testing::HasSubstr("the device was lost"));
      ++failed;
    }
  }
  EXPECT_GT(failed, 50);
}

TEST(Decoder, StopsBetweenPassesWhenCancelled) {
  Trial t = chain_trial(12, true);
  HashLm model(t.lm);
  t.context.on_progress = [cancel = t.context.cancel](const DecodeProgress& p) mutable {
    if (p.forwards >= 2) cancel.cancel();
  };
  const auto d = decode(model, t.prompt, &t.form, "scaffold-ar", t.options, t.context);
  ASSERT_FALSE(d);
  EXPECT_EQ(d.error().kind, ErrorKind::kCancelled);
  EXPECT_EQ(model.passes, 2);
  DecodeContext over;
  over.cancel.set_deadline(std::chrono::steady_clock::now());
  const auto late = decode(model, t.prompt, &t.form, "scaffold-spec", t.options, over);
  ASSERT_FALSE(late);
  EXPECT_THAT(late.error().message, HasSubstr("deadline"));
}

TEST(Decoder, TellsEveryPassOfAr) {
  Trial t = chain_trial(12, true);
  t.options.forced = true;
  HashLm model(t.lm);
  std::vector<int64_t> told;
  t.context.on_progress = [&](const DecodeProgress& p) { told.push_back(p.forwards); };
  const auto d = decode(model, t.prompt, &t.form, "ar", t.options, t.context);
  ASSERT_TRUE(d) << d.error().message;
  ASSERT_FALSE(told.empty());
  for (size_t i = 1; i < told.size(); ++i) EXPECT_EQ(told[i], told[i - 1] + 1) << i;
  EXPECT_EQ(told.back(), d->statistics.forwards) << "those of fixed tokens behind the last drawn one, too";
}

TEST(Decoder, NamesWhatIsWrong) {
  Trial t = chain_trial(1, true);
  HashLm model(t.lm);
  const auto why = [&](std::string_view preset, const Form* form, DecodeOptions o) {
    const auto d = decode(model, t.prompt, form, preset, o);
    return d ? std::string("decoded") : d.error().message;
  };
  EXPECT_THAT(why("fastest", nullptr, {}), HasSubstr("expected one of auto, ar, self-spec"));
  EXPECT_THAT(why("scaffold-ar", nullptr, {}), HasSubstr("expected a form"));
  EXPECT_THAT(why("ar", nullptr, {.temperature = -1}), HasSubstr("expected a temperature"));
  EXPECT_THAT(why("ar", nullptr, {.limit = 100000}), HasSubstr("expected an arena"));
  HashLm small({.vocab = 8});
  EXPECT_THAT(decode(small, {{TokenId{3}}, {Position::text(0)}, {}, 1}, &t.form, "scaffold-ar", {}).error().message,
              HasSubstr("expected ids below"));
  EXPECT_THAT(decode(model, {}, nullptr, "ar", {}).error().message, HasSubstr("expected a prompt"));
}

}  // namespace
}  // namespace slip
