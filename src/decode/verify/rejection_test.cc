// SPDX-License-Identifier: Apache-2.0
// Speculative sampling as it runs, by its statistics: chi-square on the joint law of three tokens, with as many answers as find
// a total variation of 0.02 with probability 0.99 (docs/gates.md), and the mutants that each such test must kill.
#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>
#include <limits>

#include "base/philox.h"
#include "decode/schedule/schedule.h"
#include "decode/testing/hash_lm_testing.h"
#include "decode/testing/verifier_testing.h"
#include "decode/verify/verifier.h"

namespace slip {
namespace {

using test::FixedWindow;
using test::HashLm;
using test::text_options;
using test::with;

// ---- chi-square

double quantile(double df, double z) {  // Wilson and Hilferty: within 1 % from df = 10
  const double c = 2 / (9 * df);
  return df * std::pow(1 - c + z * std::sqrt(c), 3);
}

constexpr double kFalseAlarmZ = 3.72;  // 1e-4

/// Answers that find total variation 0.02 with probability 0.99: sum of squares over p is at least (2 TV)^2 [Cauchy-Schwarz], a
/// non-central chi-square has mean df + l and variance 2 (df + 2 l), l = n (2 TV)^2.
int64_t answers_needed(int64_t cells) {
  const double df = static_cast<double>(cells) - 1, limit = quantile(df, kFalseAlarmZ);
  double l = 1;
  while (df + l - 2.33 * std::sqrt(2 * (df + 2 * l)) < limit) l += 1;
  return static_cast<int64_t>(l / (0.04 * 0.04));
}

struct ChiSquare {
  double value = 0, limit = 0;
  bool fits() const { return value <= limit; }
};

/// Cells with fewer than 5 expected count together.
ChiSquare chi_square(const std::vector<double>& law, const std::vector<int64_t>& seen) {
  double n = 0, rest_expected = 0, rest_seen = 0, df = -1;
  for (const int64_t k : seen) n += static_cast<double>(k);
  ChiSquare out;
  const auto add = [&](double expected, double found) {
    if (expected <= 0) {
      out.value += found > 0 ? 1e9 : 0;
      return;
    }
    out.value += (found - expected) * (found - expected) / expected;
    df += 1;
  };
  for (size_t i = 0; i < law.size(); ++i) {
    if (law[i] * n >= 5) {
      add(law[i] * n, static_cast<double>(seen[i]));
    } else {
      rest_expected += law[i] * n;
      rest_seen += static_cast<double>(seen[i]);
    }
  }
  add(rest_expected, rest_seen);
  out.limit = quantile(std::max(df, 1.0), kFalseAlarmZ);
  return out;
}

// ---- a target of four tokens whose law is known, a drafter of its own, and what can be wrong with either

constexpr int32_t kVocab = 4;
constexpr int32_t kPlaces = 3;
constexpr size_t kCells = 64;

HashLm::Options target(uint64_t seed) { return {.seed = seed, .vocab = kVocab, .slots = 64, .habit = 0.3}; }

Prompt one_token() {
  Prompt p;
  p.inputs = {TokenId{3}};
  p.positions = {Position::text(0)};
  p.next_position = 1;
  return p;
}

/// Visibility of the first three tokens, from the model's own logits behind every prefix.
std::vector<double> law_of_three(uint64_t seed, const Sampling& s) {
  std::vector<double> out(kCells, 0);
  const auto visit = [&](auto&& self, std::vector<TokenId> prefix, size_t cell, double weight) -> void {
    if (prefix.size() == kPlaces) {
      out[cell] += weight;
      return;
    }
    HashLm lm(target(seed));
    std::vector<Row> rows;
    std::vector<SlotSpan> spans;
    for (int32_t i = 0; i <= static_cast<int32_t>(prefix.size()); ++i) {
      spans.push_back({0, i + 1});
      const TokenId id = i == 0 ? TokenId{3} : prefix[static_cast<size_t>(i - 1)];
      rows.push_back({id, Position::text(i), i, static_cast<uint32_t>(i), 1, Want::kNothing});
    }
    rows.back().want = Want::kLogits;
    PassOutput pass;
    ASSERT_TRUE(lm.forward({rows, spans}, pass));
    ChoiceBuffers p;
    distribution(pass.logits_V(rows.size() - 1), {}, s, prefix, p);
    for (size_t i = 0; i < p.ids.size(); ++i) {
      auto next = prefix;
      next.push_back(p.ids[i]);
      self(self, next, cell * kVocab + static_cast<size_t>(p.ids[i].value), weight * p.weights[i]);
    }
  };
  visit(visit, {}, 0, 1);
  return out;
}

enum class Mutant {
  kNone,
  kQScaled,            // the ratio's q is not the one that was drawn from
  kTestedTwice,        // a refused draft is tested again with a fresh uniform
  kResidualUnclamped,  // |p - q| in place of (p - q)+
  kResidualIsP,
  kBonusOneRowEarly,
  kWrongVocabulary,  // q is read at another id
  kDropsUnlikely,    // a draft is dropped because of its own value
  kOneUniform,       // the draft's uniform tests it, too
  kGreedyDrafts,     // drafts are argmaxes, q says they were drawn
  kLooksAhead,       // a policy drops drafts because of facts that know their value
};

/// Drafts from tables of its own, by what is before the place (its own drafts too) and where the round began.
class TableDrafter : public Drafter {
 public:
  TableDrafter(Passes& passes, uint64_t seed, Mutant mutant) : passes_(passes), seed_(seed), mutant_(mutant) {}
  Status propose(std::span<Strand* const> strands) override {
    for (Strand* s : strands)
      propose_along(*s, [&](const Cursor&, DraftToken& draft) -> std::optional<TokenId> { return token(*s, draft); });
    return {};
  }

 private:
  std::optional<TokenId> token(const Strand& s, DraftToken& draft) {
    uint64_t key = seed_ + static_cast<uint64_t>(s.length());
    for (const TokenId id : s.round.path) key = key * 31 + static_cast<uint64_t>(id.value) + 5;
    PhiloxStream r(key, 77);
    std::array<float, kVocab> logits;
    for (float& x : logits) x = static_cast<float>(r.uniform(-2, 2));
    TokenId x = passes_.chooser().propose_from(logits, s, draft);
    if (mutant_ == Mutant::kDropsUnlikely && passes_.chooser().distributions().of(draft.q.value()).of(x) < 0.25)
      return std::nullopt;
    if (mutant_ == Mutant::kGreedyDrafts) x = greedy_choice(logits, {});
    if (mutant_ == Mutant::kQScaled) {
      ChoiceBuffers other;
      Sampling cooler = passes_.chooser().sampling_at(draft.place);
      cooler.temperature *= 1.5F;
      distribution(logits, {}, cooler, {}, other);
      draft.q = passes_.chooser().distributions().keep(other, kVocab);
    }
    return x;
  }
  Passes& passes_;
  uint64_t seed_;
  Mutant mutant_;
};

class MutantVerifier : public Verifier {
 public:
  MutantVerifier(Passes& passes, Mutant mutant) : passes_(passes), honest_(make_rejection_verifier(passes)), mutant_(mutant) {}
  Want want(const Strand& s, const Place& place) const override { return honest_->want(s, place); }
  bool samples_drafts() const override { return mutant_ != Mutant::kLooksAhead; }

  Verification check(size_t row, const Strand& s, const DraftToken& draft, std::span<const TokenId> history) override {
    const auto uniform = [&](Purpose purpose, uint32_t fresh = 0) {
      return passes_.chooser().uniform(s.request + fresh, draft.place, purpose);
    };
    const Distribution q = passes_.chooser().distributions().of(draft.q.value());
    distribution(passes_.output().logits_V(row), {}, passes_.chooser().sampling_at(draft.place), history, p_);
    switch (mutant_) {
      case Mutant::kTestedTwice: {
        const Verification v = honest_->check(row, s, draft, history);
        if (v.kept || uniform(Purpose::kAccept, 1u << 30) >= acceptance(p_, q, draft.token)) return v;
        return {.token = draft.token, .kept = true};
      }
      case Mutant::kResidualUnclamped:
      case Mutant::kResidualIsP: {
        const Verification v = honest_->check(row, s, draft, history);
        if (v.kept) return v;
        ChoiceBuffers rest = p_;
        double sum = 0;
        for (size_t i = 0; i < rest.ids.size(); ++i) {
          if (mutant_ == Mutant::kResidualUnclamped) rest.weights[i] = std::abs(rest.weights[i] - q.of(rest.ids[i]));
          sum += rest.weights[i];
        }
        for (double& w : rest.weights) w /= sum;
        return {.token = drawn(rest, uniform(Purpose::kResidual))};
      }
      case Mutant::kWrongVocabulary:
      case Mutant::kOneUniform: {
        const TokenId as = mutant_ == Mutant::kWrongVocabulary ? TokenId{(draft.token.value + 1) % kVocab} : draft.token;
        const double mass = q.of(as), law = Distribution(p_).of(draft.token);
        const double u = uniform(mutant_ == Mutant::kOneUniform ? Purpose::kDraft : Purpose::kAccept);
        if (u < (law >= mass ? 1 : law / mass)) return {.token = draft.token, .kept = true};
        residual(p_, q, draft.token, rest_);
        return {.token = drawn(rest_, uniform(Purpose::kResidual))};
      }
      default:
        return honest_->check(row, s, draft, history);
    }
  }

  TokenId draw(size_t row, const Strand& s, const Place& place, std::span<const TokenId> history, bool after_drafts) override {
    const bool early = mutant_ == Mutant::kBonusOneRowEarly && after_drafts && row > 0;
    return honest_->draw(early ? row - 1 : row, s, place, history, after_drafts);
  }

 private:
  Passes& passes_;
  std::unique_ptr<Verifier> honest_;
  Mutant mutant_;
  ChoiceBuffers p_, rest_;
};

/// Keeps all or nothing by how sure the drafter was of the last draft, which depends on the tokens before it.
class LookAhead : public FixedWindow {
 public:
  using FixedWindow::FixedWindow;
  bool chooses() const override { return true; }
  void choose(std::span<const std::span<const DraftFacts>> facts, std::span<int32_t> keep) override {
    for (size_t i = 0; i < facts.size(); ++i)
      if (!facts[i].empty() && facts[i].back().top < 0.55F) keep[i] = 0;
  }
};

struct Outcome {
  std::vector<int64_t> seen;
  Statistics statistics;
};

/// `answers` answers of three tokens, each a request of its own, by rounds of `length` drafts.
Outcome decode_many(uint64_t seed, Sampling s, int32_t length, Mutant mutant, int64_t answers, bool look_ahead = false) {
  HashLm lm(target(seed));
  const Prompt prompt = one_token();
  DecodeOptions options;
  options.temperature = s.temperature;
  options.sampling = s;
  options.limit = kPlaces;
  options.seed = 1000 + seed;
  options.reuse_prompt = true;
  const DecodeContext lent;
  Scratch scratch;
  Outcome out;
  out.seen.assign(kCells, 0);
  std::vector<Decoded> one(1);
  for (int64_t n = 0; n < answers; ++n) {
    options.request = static_cast<uint32_t>(n);
    one[0].tokens.clear();
    one[0].statistics = {};
    scratch.passes.start({lm, prompt, nullptr, options, lent, one[0].statistics});
    TableDrafter drafter(scratch.passes, seed, mutant);
    MutantVerifier verifier(scratch.passes, mutant);
    FixedWindow all(length);
    LookAhead some(length);
    Rounds rounds(scratch.passes, drafter, verifier, look_ahead ? some : all, false);
    scratch.passes.chooser().set_needs({.facts = look_ahead, .sampled = true});
    ScheduleContext context{scratch, rounds, drafter, lm.info(), nullptr, one, {.widest = length}};
    if (const Status status = decode_text(context); !status) throw std::runtime_error(status.error().message);
    size_t cell = 0;
    for (const TokenId id : one[0].tokens) cell = cell * kVocab + static_cast<size_t>(id.value);
    ++out.seen.at(cell);
    out.statistics.add(one[0].statistics);
  }
  return out;
}

TEST(Rejection, TheJointLawOfThreeTokensIsTheTargets) {
  const int64_t n = answers_needed(kCells);
  ASSERT_GT(n, 40000);
  const Sampling settings[] = {
      {.temperature = 2.5F}, {.temperature = 2, .top_k = 3}, {.temperature = 3, .top_p = 0.9F, .min_p = 0.1F, .repetition = 1.4F}};
  const char* models = std::getenv("SLIP_MODELS");  // more of them in the long run
  for (int32_t trial = 0; trial < 3 * (models ? std::atoi(models) : 1); ++trial) {
    const int32_t length = 1 + trial % 3;
    const Sampling& s = settings[trial % 3];
    const auto seed = static_cast<uint64_t>(trial + 1);
    const Outcome out = decode_many(seed, s, length, Mutant::kNone, n);
    const ChiSquare x = chi_square(law_of_three(seed, s), out.seen);
    EXPECT_TRUE(x.fits()) << "model " << seed << ", draft length " << length << ": " << x.value << " above " << x.limit;
    EXPECT_GT(out.statistics.accepted, n / 10);
    EXPECT_GT(out.statistics.tested - out.statistics.accepted, n / 10);
  }
}

TEST(Rejection, WidthsDoNotLookBehindADrawnDraft) {
  const int64_t n = answers_needed(kCells);
  const Sampling s{.temperature = 2.5F};
  const std::vector<double> law = law_of_three(4, s);
  const Outcome honest = decode_many(4, s, 3, Mutant::kNone, n, true);
  const ChiSquare x = chi_square(law, honest.seen),
                  mutant = chi_square(law, decode_many(4, s, 3, Mutant::kLooksAhead, n, true).seen);
  EXPECT_TRUE(x.fits()) << x.value << " above " << x.limit;
  EXPECT_GT(honest.statistics.tested, n / 3);
  EXPECT_LT(honest.statistics.tested, honest.statistics.proposed);
  EXPECT_GT(mutant.value, 1.5 * mutant.limit);
}

TEST(Rejection, EveryMutantIsFound) {
  const int64_t n = answers_needed(kCells);
  const Sampling s{.temperature = 2.5F};
  const std::vector<double> law = law_of_three(2, s);
  for (const Mutant m :
       {Mutant::kQScaled, Mutant::kTestedTwice, Mutant::kResidualUnclamped, Mutant::kResidualIsP, Mutant::kBonusOneRowEarly,
        Mutant::kWrongVocabulary, Mutant::kDropsUnlikely, Mutant::kOneUniform, Mutant::kGreedyDrafts}) {
    const ChiSquare x = chi_square(law, decode_many(2, s, 2, m, n).seen);
    EXPECT_GT(x.value, 1.5 * x.limit) << "mutant " << static_cast<int>(m) << " is not found";
  }
}

// ---- rounds as they ran

TEST(Rejection, RoundsEmitTheirDraftsAndNeverTheOneTheyRefused) {
  int64_t refused = 0, whole = 0;
  for (uint64_t n = 0; n < 200; ++n) {
    HashLm lm({.seed = n, .vocab = 9, .shift = n % 2 == 0, .habit = 0.7});
    DecodeOptions o = text_options(1.2F, 30);
    o.seed = n;
    const auto d = Decoder(lm, with("self-spec", RejectionSpec{}, 5)).decode(one_token(), nullptr, o);
    ASSERT_TRUE(d);
    for (const Round& r : d->rounds) {
      const auto a = static_cast<size_t>(r.accepted);
      ASSERT_LE(a, r.draft.size());
      ASSERT_EQ(r.emitted.size(), a + 1);
      ASSERT_TRUE(std::equal(r.draft.begin(), r.draft.begin() + r.accepted, r.emitted.begin()));
      if (r.stop) {
        ASSERT_NE(r.emitted[a], r.draft[a]);
      }
      ++(r.stop ? refused : whole);
    }
    const auto again = Decoder(lm, with("self-spec", RejectionSpec{}, 5)).decode(one_token(), nullptr, o);
    ASSERT_EQ(again->tokens, d->tokens);
    ASSERT_FALSE(d->lossy);
  }
  EXPECT_GT(refused, 100);
  EXPECT_GT(whole, 50);
}

TEST(Rejection, WithoutATemperatureItIsTheExactVerifier) {
  for (uint64_t n = 0; n < 100; ++n) {
    HashLm lm({.seed = n, .vocab = 12, .habit = 0.7});
    DecodeOptions o = text_options(0, 30);
    o.sampling.repetition = n % 2 ? 1.0F : 1.3F;
    const auto a = Decoder(lm, with("self-spec", RejectionSpec{}, 5)).decode(one_token(), nullptr, o);
    const auto b = decode(lm, one_token(), nullptr, "ar", o);
    ASSERT_EQ(a->tokens, b->tokens);
  }
}

}  // namespace
}  // namespace slip
