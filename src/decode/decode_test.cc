// SPDX-License-Identifier: Apache-2.0
// Exactness as a property: thousands of random forms on a model of hashes. And what decoding promises besides: no allocation
// per round, cancellation between passes, errors that name what is wrong.
#include "decode/decode.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>

#include "base/count_allocations.h"
#include "base/philox.h"
#include "decode/allowed_lists.h"
#include "decode/gates.h"
#include "decode/hash_lm.h"
#include "form/values.h"

namespace slip {
namespace {

using test::allocations;
using test::HashLm;
using testing::HasSubstr;

constexpr int32_t kVocab = 24;
constexpr TokenId kNull{2};

TokenId random_id(PhiloxStream& r) { return {3 + static_cast<int32_t>(r.below(kVocab - 3))}; }

Prompt random_prompt(PhiloxStream& r) {
  Prompt p;
  const auto n = static_cast<int32_t>(1 + r.below(6));
  const auto gap = static_cast<int32_t>(r.below(3));
  for (int32_t i = 0; i < n; ++i) {
    p.inputs.emplace_back(random_id(r));
    p.positions.push_back(Position::text(i));
  }
  p.next_position = n + gap;  // images end before their count of rows, or after
  return p;
}

TokenRules random_rules(PhiloxStream& r, int32_t budget, bool fixed_size) {
  switch (r.below(4)) {
    case 0: {
      std::vector<TokenId> set{random_id(r)};
      for (uint32_t n = r.below(5); n > 0; --n) set.push_back(random_id(r));
      return TokenRules::only(set);
    }
    case 1: {
      std::vector<std::vector<TokenId>> words(1 + r.below(5));
      for (auto& w : words)
        for (uint32_t n = 1 + r.below(static_cast<uint32_t>(budget)); n > 0; --n) w.push_back(random_id(r));
      return TokenRules::one_of(words, fixed_size ? std::optional(kNull) : std::nullopt, budget);
    }
    case 2:
      return TokenRules(
          std::vector<TokenRules::State>{{.any = true, .edges = {{kNull, 1}}, .denied = {{1}, {5}, {6}}}, {.edges = {{kNull, 1}}}});
    default:
      return {};
  }
}

/// With `ends`, some fields close by END (the next fixed token).
Form random_form(PhiloxStream& r, bool ends) {
  Form::Parts p;
  p.name = "random";
  p.block_size = static_cast<int32_t>(1 + r.below(9));
  int32_t section = 0;
  const auto fields = static_cast<int32_t>(1 + r.below(5));
  for (int32_t f = 0; f < fields; ++f) {
    FixedRun run{{}, section};
    for (uint32_t n = 1 + r.below(4); n > 0; --n) run.ids.push_back(random_id(r));
    if (f > 0 && p.fields.back().end) run.ids.front() = *p.fields.back().end;
    p.pieces.emplace_back(run);
    Field x{.name = std::to_string(f), .budget = static_cast<int32_t>(1 + r.below(7)), .section = section};
    if (ends && r.chance(0.6)) x.end = random_id(r);
    x.rules = random_rules(r, x.budget, !x.end);
    p.fields.push_back(x);
    p.pieces.emplace_back(FieldRef{f});
    section += static_cast<int32_t>(r.below(2));
  }
  if (p.fields.back().end || r.chance(0.7))
    p.pieces.emplace_back(FixedRun{{p.fields.back().end.value_or(TokenId{9}), {10}}, section});
  for (int32_t s = 0; s <= section; ++s) p.section_names.push_back(std::to_string(s));
  auto form = Form::make(std::move(p));
  if (!form) throw std::runtime_error(form.error().message);
  return std::move(*form);
}

struct Trial {
  HashLm::Options lm;
  Prompt prompt;
  Form form;
  DecodeOptions options;
};

Trial random_trial(uint64_t number, bool ends) {
  PhiloxStream r(number, 5);
  Trial t{{.seed = number + 1, .vocab = kVocab, .shift = r.chance(0.5), .habit = r.uniform()},
          random_prompt(r),
          random_form(r, ends),
          {}};
  if (r.chance(0.6)) t.options.temperature = static_cast<float>(r.uniform(0.05, 2));
  if (r.chance(0.2)) t.options.section_temperature = {{0, 0.7F}};
  t.options.seed = uint64_t{r.bits()} << 32 | r.bits();
  t.options.request = r.below(5);
  return t;
}

Decoded run(const Trial& t, std::string_view preset, HashLm::Options lm) {
  HashLm model(lm);
  auto d = decode(model, t.prompt, &t.form, preset, t.options);
  if (!d) throw std::runtime_error(d.error().message);
  EXPECT_EQ(d->statistics.forwards, model.passes);
  return std::move(*d);
}

Decoded run(const Trial& t, std::string_view preset) { return run(t, preset, t.lm); }

TEST(ScaffoldSpec, CommitsTheSameTokensAsOneAtATime) {
  int64_t accepted = 0, tested = 0, one = 0, spec = 0;
  for (uint64_t n = 0; n < 3000; ++n) {
    const Trial t = random_trial(n, n % 2 == 1);
    const Decoded a = run(t, "scaffold-ar"), b = run(t, "scaffold-spec");
    ASSERT_EQ(a.tokens, b.tokens) << n;
    ASSERT_EQ(a.fields, b.fields) << n;
    ASSERT_EQ(a.statistics.forced_tokens, b.statistics.forced_tokens) << n;
    ASSERT_LE(b.statistics.accepted, b.statistics.tested);
    ASSERT_LE(b.statistics.tested, b.statistics.proposed);
    const auto split = split_answer(t.form, a.tokens);
    ASSERT_TRUE(split) << n << " " << split.error().message;
    accepted += b.statistics.accepted;
    tested += b.statistics.tested;
    one += a.statistics.forwards;
    spec += b.statistics.forwards;
  }
  EXPECT_GT(accepted * 5, tested) << "drafts that never hold would prove nothing";
  EXPECT_LT(accepted, tested) << "nor would drafts that always hold";
  RecordProperty("ar_passes", static_cast<int>(one));
  RecordProperty("spec_passes", static_cast<int>(spec));
}

TEST(ScaffoldSpec, AWrongDrafterCostsPassesNeverTokens) {
  int64_t good = 0, bad = 0;
  for (uint64_t n = 0; n < 500; ++n) {
    const Trial t = random_trial(n, n % 2 == 1);
    HashLm::Options spoilt = t.lm;
    spoilt.spoil_drafts = true;
    const Decoded a = run(t, "scaffold-ar"), b = run(t, "scaffold-spec"), c = run(t, "scaffold-spec", spoilt);
    ASSERT_EQ(c.tokens, a.tokens) << n;
    good += b.statistics.forwards;
    bad += c.statistics.forwards;
  }
  EXPECT_GT(bad, good);
}

TEST(ScaffoldSpec, AVerifierOffByOneIsCaught) {
  int differ = 0;
  for (uint64_t n = 0; n < 200; ++n) {
    const Trial t = random_trial(n, false);
    HashLm::Options mutant = t.lm;
    mutant.verify_off_by_one = true;
    differ += run(t, "scaffold-ar", mutant).tokens != run(t, "scaffold-spec", mutant).tokens;
  }
  EXPECT_GT(differ, 100);
}

TEST(Ar, ForcedCostsAPassPerTokenAndChangesNone) {
  for (uint64_t n = 0; n < 300; ++n) {
    Trial t = random_trial(n, n % 2 == 1);
    const Decoded a = run(t, "scaffold-ar");
    t.options.forced = true;
    const Decoded b = run(t, "ar");
    ASSERT_EQ(a.tokens, b.tokens);
    ASSERT_GE(b.statistics.forwards, b.statistics.tokens);  // END draws cost passes too, and are no tokens
    ASSERT_GE(b.statistics.forwards, a.statistics.forwards);
  }
}

TEST(Ar, WithAFormIsReadAgainstIt) {
  int valid = 0;
  for (uint64_t seed = 0; seed < 1000; ++seed) {
    Form::Parts p;
    p.name = "short";
    p.pieces = {FixedRun{{{4}}, 0}, FieldRef{0}};
    p.fields = {Field{.name = "f", .budget = 1}};
    const Form form = *Form::make(std::move(p));
    HashLm model({.seed = seed, .vocab = 8});
    const auto d = decode(model, {{TokenId{3}}, {Position::text(0)}, {}, 1}, &form, "ar", {.limit = 2});
    ASSERT_TRUE(d);
    ASSERT_EQ(d->valid, d->tokens[0] == TokenId{4});
    valid += d->valid;
  }
  EXPECT_GT(valid, 0);
}

TEST(Ar, WhatIsNotTheFormIsMarked) {
  const Trial t = random_trial(3, false);
  HashLm model(t.lm);
  const auto d = decode(model, t.prompt, &t.form, "ar", {.end_tokens = {{0}}, .limit = 30});
  ASSERT_TRUE(d);
  EXPECT_FALSE(d->valid) << "a model of hashes does not write forms";
}

TEST(SelfSpec, CommitsTheSameTokensAsOneAtATime) {
  int64_t accepted = 0;
  for (uint64_t n = 0; n < 1000; ++n) {
    Trial t = random_trial(n, false);
    t.options.end_tokens = {{0}};
    t.options.limit = static_cast<int32_t>(1 + n % 40);
    HashLm one(t.lm), two(t.lm);
    Method spec = *method_of("self-spec");
    spec.width.tokens = static_cast<int32_t>(2 + n % 11);
    const auto a = decode(one, t.prompt, nullptr, "ar", t.options);
    const auto b = Decoder(two, spec).decode(t.prompt, nullptr, t.options);
    ASSERT_TRUE(a && b);
    ASSERT_EQ(a->tokens, b->tokens) << n;
    accepted += b->statistics.accepted;
  }
  EXPECT_GT(accepted, 1000);
}

TEST(SectionDiffusion, GivesAnswersThatTheFormAllows) {
  for (uint64_t n = 0; n < 1000; ++n) {
    const Trial t = random_trial(n, false);
    HashLm model(t.lm);
    Method m = *method_of("section-diffusion");
    m.verifier = ConfidenceVerifier{n % 3 == 0 ? 0.0F : 0.3F};
    const auto d = Decoder(model, m).decode(t.prompt, &t.form, t.options);
    ASSERT_TRUE(d) << d.error().message;
    const auto split = split_answer(t.form, d->tokens);
    ASSERT_TRUE(split) << n << " " << split.error().message;
    ASSERT_EQ(*split, d->fields);
    ASSERT_TRUE(d->lossy);
  }
}

TEST(Gates, AllowExactlyWhatCanStillBeCompleted) {
  PhiloxStream r(9, 2);
  for (int trial = 0; trial < 400; ++trial) {
    Field f{.name = "f", .budget = static_cast<int32_t>(1 + r.below(4))};
    f.rules = random_rules(r, f.budget, true);
    // All complete contents by enumeration over a small alphabet of ids; the oracle is "some complete content has it there".
    std::vector<std::vector<TokenId>> complete;
    std::vector<TokenId> content;
    const auto enumerate = [&](auto&& self) -> void {
      if (static_cast<int32_t>(content.size()) == f.budget) {
        const int32_t s = f.rules.state_after(content);
        if (s >= 0 && (f.rules.unrestricted() || f.rules.state(s).may_end)) complete.push_back(content);
        return;
      }
      for (int32_t id = 0; id < 12; ++id) {
        content.push_back({id});
        if (f.rules.state_after(content) >= 0) self(self);
        content.pop_back();
      }
    };
    enumerate(enumerate);
    if (complete.empty()) continue;
    std::vector<std::optional<TokenId>> decided(static_cast<size_t>(f.budget));
    const auto& one = complete[r.below(static_cast<uint32_t>(complete.size()))];
    for (size_t i = 0; i < decided.size(); ++i)
      if (r.chance(0.4)) decided[i] = one[i];
    Gates gates;
    gates.update(f, decided);
    for (size_t i = 0; i < decided.size(); ++i) {
      if (decided[i]) continue;
      std::vector<bool> listed(kVocab, false);
      for_each_allowed(gates.at(static_cast<int32_t>(i)), kVocab,
                       [&](TokenId id) { listed[static_cast<size_t>(id.value)] = true; });
      for (int32_t id = 0; id < 12; ++id) {
        bool possible = false;
        for (const auto& c : complete) {
          bool fits = c[i].value == id;
          for (size_t j = 0; j < c.size(); ++j) fits = fits && (!decided[j] || *decided[j] == c[j]);
          possible |= fits;
        }
        // Words may use ids beyond the enumerated alphabet: what is possible must be allowed, what is allowed must agree with allows().
        if (possible) {
          ASSERT_TRUE(gates.allows(static_cast<int32_t>(i), {id}));
        }
        ASSERT_EQ(gates.allows(static_cast<int32_t>(i), {id}), listed[static_cast<size_t>(id)]);
      }
    }
  }
}

TEST(AllowedLists, AreWhatTheRulesAllowWhereThatIsFew) {
  int64_t few = 0, none = 0;
  AllowedLists lists;
  for (uint64_t n = 0; n < 300; ++n) {
    const Trial t = random_trial(n, n % 2 == 1);
    lists.start(&t.form, kVocab);
    EXPECT_EQ(lists.at({}), -1) << "free text";
    for (size_t f = 0; f < t.form.fields().size(); ++f) {
      const Field& field = t.form.fields()[f];
      for (int32_t state = 0; state < std::max(1, static_cast<int32_t>(field.rules.size())); ++state) {
        const Place place{.field = static_cast<int32_t>(f), .state = state};
        std::vector<TokenId> buffer, ids;
        const Allowed allowed = allowed_in(field, state, buffer);
        for_each_allowed(allowed, kVocab, [&](TokenId id) { ids.push_back(id); });
        const bool listed = !allowed.any && !ids.empty() && ids.size() <= kVocab / 2;
        const int32_t number = lists.at(place);
        ASSERT_EQ(number >= 0, listed);
        ASSERT_EQ(lists.at(place), number);
        (listed ? few : none) += 1;
        if (!listed) continue;
        const auto list = lists.lists()[static_cast<size_t>(number)];
        ASSERT_EQ(std::vector<TokenId>(list.begin(), list.end()), ids);
      }
    }
  }
  EXPECT_GT(few, 300);
  EXPECT_GT(none, 100);
}

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
    Trial t = random_trial(3, true);
    t.options.temperature = temperature;
    HashLm model(t.lm);
    class Watch : public Lm {
     public:
      explicit Watch(Lm& lm) : lm_(lm) {}
      const LmInfo& info() const override { return lm_.info(); }
      Status forward(const Pass& pass, PassOutput& out) override {
        for (const Row& row : pass.rows) {
          logits += row.want == Want::kLogits;
          if (row.allowed < 0) continue;
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
    Trial t = random_trial(12, preset != "section-diffusion");
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
      Trial t = random_trial(n, n % 2 == 1 && way.preset != "section-diffusion");
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
  Trial t = random_trial(4, false);
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
  const Prompt one{
      {TokenId{3}, TokenId{4}, Feature{0}, Feature{1}, TokenId{6}}, {text(0), text(1), text(2), text(3), text(4)}, {0, 1, 2, 3}, 5};
  Prompt token = one, position = one, feature = one, other_place = one, longer = one, shorter = one;
  token.inputs[0] = TokenId{5};
  position.positions[1] = text(2);
  feature.features_ND[3] = 4;
  other_place.inputs[2] = Feature{2};  // the same numbers in another line
  other_place.features_ND.insert(other_place.features_ND.end(), {0, 1});
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
  EXPECT_EQ(rows(one, false), 0) << "not asked for";
  EXPECT_EQ(rows(one, true), 5);
  DecodeOptions late = t.options;
  late.reuse_prompt = false;
  late.deadline = std::chrono::steady_clock::now();
  ASSERT_FALSE(decoder.decode(one, &t.form, late));
  EXPECT_EQ(rows(one, true), 0) << "a call that ended before its prompt ran leaves nothing";
}

/// A model whose weights or inputs have gone wrong: no logit is a number.
class NanLm : public Lm {
 public:
  NanLm() {
    info_.name = "nan";
    info_.vocab = kVocab;
    info_.slots = 512;
    info_.rule = {.shift = true, .has_mask = true, .has_null = true, .mask = TokenId{1}, .null_token = kNull};
  }
  const LmInfo& info() const override { return info_; }
  Status forward(const Pass& pass, PassOutput& out) override {
    out.vocab = kVocab;
    out.argmax.assign(pass.rows.size(), TokenId{0});  // the contract of nn/lm.h
    out.logits_row.assign(pass.rows.size(), -1);
    out.logits_NV.clear();
    for (size_t i = 0; i < pass.rows.size(); ++i) {
      out.nan_rows += pass.rows[i].want != Want::kNothing;
      answer_row(pass, i, std::vector<float>(kVocab, std::nanf("")), out);
      if (pass.rows[i].want != Want::kLogits) continue;
      out.logits_row[i] = static_cast<int32_t>(out.logits_NV.size() / kVocab);
      out.logits_NV.insert(out.logits_NV.end(), kVocab, std::nanf(""));
    }
    return {};
  }

 private:
  LmInfo info_;
};

TEST(Decoder, CountsRowsWithoutNumbersAndStillAnswersInIdsOfTheModel) {
  for (const Way& way : kWays) {
    for (uint64_t n = 0; n < 40; ++n) {
      Trial t = random_trial(n, n % 2 == 1 && way.preset != "section-diffusion");
      t.options.limit = 9;
      t.options.forced = way.forced;
      const Form* form = way.form ? &t.form : nullptr;
      NanLm model;
      const auto d = decode(model, t.prompt, form, way.preset, t.options);
      ASSERT_TRUE(d) << d.error().message;
      EXPECT_GT(d->statistics.nan_rows, 0);
      for (const TokenId id : d->tokens) ASSERT_TRUE(id.value >= 0 && id.value < kVocab);
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
  const Trial t = random_trial(1, false);
  EXPECT_EQ(run(t, "scaffold-ar").statistics.nan_rows, 0);
  EXPECT_EQ(probability_of(std::vector<float>(4, std::nanf("")), {}, {2}), 0);
}

TEST(Decoder, StopsBetweenPassesWhenCancelled) {
  Trial t = random_trial(12, true);
  HashLm model(t.lm);
  std::atomic<bool> cancel{false};
  t.options.cancel = &cancel;
  t.options.on_progress = [&](const DecodeProgress& p) { cancel = p.forwards >= 2; };
  const auto d = decode(model, t.prompt, &t.form, "scaffold-ar", t.options);
  ASSERT_FALSE(d);
  EXPECT_EQ(d.error().kind, ErrorKind::kCancelled);
  EXPECT_EQ(model.passes, 2);
  t.options.cancel = nullptr;
  t.options.deadline = std::chrono::steady_clock::now();
  const auto late = decode(model, t.prompt, &t.form, "scaffold-spec", t.options);
  ASSERT_FALSE(late);
  EXPECT_THAT(late.error().message, HasSubstr("deadline"));
}

TEST(Decoder, NamesWhatIsWrong) {
  Trial t = random_trial(1, true);
  HashLm model(t.lm);
  const auto why = [&](std::string_view preset, const Form* form, DecodeOptions o) {
    const auto d = decode(model, t.prompt, form, preset, o);
    return d ? std::string("decoded") : d.error().message;
  };
  EXPECT_THAT(why("fastest", nullptr, {}), HasSubstr("expected one of ar, self-spec"));
  EXPECT_THAT(why("scaffold-ar", nullptr, {}), HasSubstr("expected a form"));
  EXPECT_THAT(why("ar", nullptr, {.temperature = -1}), HasSubstr("expected a temperature"));
  EXPECT_THAT(why("ar", nullptr, {.limit = 100000}), HasSubstr("expected an arena"));
  HashLm small({.vocab = 8});
  EXPECT_THAT(decode(small, {{TokenId{3}}, {Position::text(0)}, {}, 1}, &t.form, "scaffold-ar", {}).error().message,
              HasSubstr("expected ids below"));
  EXPECT_THAT(decode(model, {}, nullptr, "ar", {}).error().message, HasSubstr("expected a prompt"));
}

TEST(Choice, DrawsFollowTheProbabilities) {
  const std::vector<float> logits{0, 1, 2, std::nanf("")};
  EXPECT_EQ(greedy_choice(logits, {}).value, 2);
  EXPECT_EQ(greedy_choice(std::vector<float>{1, 1}, {}).value, 0) << "lowest id on ties";
  double total = 0;
  for (int id = 0; id < 3; ++id) total += probability_of(logits, {}, {id});
  EXPECT_NEAR(total, 1, 1e-15);
  const double p0 = probability_of(logits, {}, {0}), p1 = probability_of(logits, {}, {1});
  EXPECT_EQ(keyed_draw(logits, {}, 1, p0 - 1e-9).value, 0);
  EXPECT_EQ(keyed_draw(logits, {}, 1, p0 + 1e-9).value, 1);
  EXPECT_EQ(keyed_draw(logits, {}, 1, p0 + p1 + 1e-9).value, 2);
  EXPECT_EQ(keyed_draw(logits, {}, 1, 1 - 1e-17).value, 2) << "never an id of probability 0";
}

}  // namespace
}  // namespace slip
