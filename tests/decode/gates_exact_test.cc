// SPDX-License-Identifier: Apache-2.0
// Gate 13: two classes of equal decoders, token for token. Every exact way (path x drafter x width x activation x row cap, one answer
// or rollouts, greedy or sampled, settings) against its reference, over ten thousand random models, forms and graphs; and the two visibilities
// against each other where they must coincide. Each comparison has models that it must catch.
//   SLIP_TRIALS=N SLIP_EVERY=1   N trials, every way in each (usually a few of them in turn)
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>

#include "tests/decode/gates.h"

namespace slip {
namespace {

using namespace test;  // NOLINT: the gates' own header

/// Decodes in one way; true where every answer is the reference's. With a mutant both sides run on it. `largest` > 0: on a model that keeps its
/// logits elsewhere and tells so many of them.
bool same(Bench& b, const Way& w, const HashLm::Options& lm, PhiloxStream& r, Statistics* sum, size_t largest = 0,
          LikelyLm* counts = nullptr) {
  HashLm model(lm);
  LikelyLm keeps(model, largest);
  const auto d = b.run(w, largest > 0 ? static_cast<Lm&>(keeps) : model, model, r);
  if (counts) counts->lines += keeps.lines, counts->drawn += keeps.drawn, counts->read_whole += keeps.read_whole;
  if (!d) throw std::runtime_error(name_of(w) + ": " + d.error().message);
  const Statistics& s = d->front().statistics;
  EXPECT_EQ(s.forwards, model.passes) << name_of(w);
  EXPECT_LE(s.accepted, s.tested) << name_of(w);
  EXPECT_LE(s.tested, s.proposed) << name_of(w);
  if (sum) sum->add(s);
  const bool honest = !lm.verify_off_by_one && !lm.keeps_first && !lm.counts_rows;
  for (int32_t i = 0; i < w.rollouts; ++i) {
    const Decoded own = honest ? Decoded{} : b.alone(w, i, lm);
    const Decoded& want = honest ? b.slow(w, i) : own;
    if ((*d)[static_cast<size_t>(i)].tokens != want.tokens || (*d)[static_cast<size_t>(i)].fields != want.fields) return false;
  }
  return true;
}

TEST(ExactWays, WriteWhatTheirSlowLawWrites) {
  const std::vector<Way> ways = all_ways();
  const bool every = count_from("SLIP_EVERY", 0) != 0;
  const size_t each = every ? ways.size() : 6;
  std::map<std::pair<Path, Drafts>, Statistics> sums;
  std::map<std::pair<Path, Drafts>, int> cases;
  int64_t left_out = 0;
  HashLm none({});
  LikelyLm kept(none, 1);  // for its counts
  const int64_t trials = count_from("SLIP_TRIALS", 10000);
  for (int64_t n = 0; n < trials; ++n) {
    Bench b(trial_with_settings(static_cast<uint64_t>(n))), absent(b.t);
    PhiloxStream r(static_cast<uint64_t>(n), 22), forms(static_cast<uint64_t>(n), 71);
    absent.t.form = random_absent_form(forms);
    for (size_t j = 0; j < each; ++j) {
      Way w = ways[(static_cast<size_t>(n) * each + j) % ways.size()];
      vary(w, r);
      Bench& of = of_graph(w.path) && n % 2 == 0 ? absent : b;
      const size_t largest = n % 3 == 1 ? static_cast<size_t>(1 + n % 4) : 0;
      ASSERT_TRUE(same(of, w, b.t.lm, r, &sums[{w.path, w.drafts}], largest, &kept)) << "trial " << n << ": " << name_of(w);
      for (size_t f = 0; &of == &absent && f < of.t.form.fields().size(); ++f)
        left_out += is_absent(of.t.form, of.slow(w, 0).fields, f);
      ++cases[{w.path, w.drafts}];
    }
  }
  ASSERT_EQ(cases.size(), ways.size());
  EXPECT_GT(left_out, trials / 2);
  EXPECT_GT(kept.drawn, trials);
  EXPECT_GT(kept.read_whole, trials / 10) << "what is told must not always be enough";
  EXPECT_GT(kept.lines, 2 * kept.read_whole) << "nor hardly ever";
  for (const auto& [way, s] : sums) {
    const std::string what = name_of({.path = way.first, .drafts = way.second});
    EXPECT_GE(cases[way], trials * static_cast<int64_t>(each) / static_cast<int64_t>(ways.size())) << what;
    if (way.second == Drafts::kNone) {
      EXPECT_EQ(s.tested, 0) << what;
      continue;
    }
    EXPECT_GT(s.accepted, s.tested / 50) << what << ": drafts that never hold prove nothing";
    EXPECT_LT(s.accepted, s.tested) << what << ": nor do drafts that always hold";
  }
}

/// How many of some trials a mutant changes, per drafter.
std::map<Drafts, int> caught(void (*change)(HashLm::Options&)) {
  std::map<Drafts, int> differ;
  for (const Way& way : all_ways()) {
    if (way.drafts == Drafts::kNone) continue;
    for (uint64_t n = 0; n < (is_ahead(way.drafts) ? 100U : 40U); ++n) {  // 80 to 200 a drafter, whatever paths it has
      Bench b(random_trial(n));
      b.t.options.limit = 20;
      b.t.lm.habit = 0.5;
      HashLm::Options mutant = b.t.lm;
      change(mutant);
      PhiloxStream r(n, 23);
      Way w = way;
      w.draft_length.tokens = w.drafts == Drafts::kQuadratic ? 3 : 6;
      differ[way.drafts] += !same(b, w, mutant, r, nullptr);
    }
  }
  return differ;
}

TEST(ExactWays, ThatTestSeesKeysOfRefusedDrafts) {
  for (const auto& [drafts, n] : caught([](HashLm::Options& o) { o.keeps_first = true; }))
    EXPECT_GT(n, 40) << name_of({.drafts = drafts}) << ": a slot that is never overwritten";
}

TEST(ExactWays, ThatTestSeesCompany) {
  for (const auto& [drafts, n] : caught([](HashLm::Options& o) { o.counts_rows = true; }))
    EXPECT_GT(n, 40) << name_of({.drafts = drafts}) << ": logits that depend on how many rows travel together";
}

TEST(ExactWays, ThatTestSeesAVerifierOffByOne) {
  auto differ = caught([](HashLm::Options& o) { o.verify_off_by_one = true; });
  EXPECT_GT(differ[Drafts::kDiffusion], 80) << "the row before answers, behind a draft pass";
}

/// A chain of fields with one fixed token between two: its hand-off row. No field ends early, so no position stays empty.
Form chain_shaped(PhiloxStream& r) {
  Form::Parts p;
  p.name = "random";
  p.block_size = static_cast<int32_t>(1 + r.below(9));
  p.section_names = {"0"};
  const auto fields = static_cast<int32_t>(1 + r.below(6));
  for (int32_t f = 0; f < fields; ++f) {
    FixedRun run;
    for (uint32_t n = f == 0 ? 1 + r.below(4) : 1; n > 0; --n) run.ids.push_back(random_id(r));
    p.pieces.emplace_back(run);
    Field x{.name = std::to_string(f), .budget = static_cast<int32_t>(1 + r.below(6))};
    x.rules = random_rules(r, x.budget, true);
    if (f > 0) x.parents = {f - 1};
    p.fields.push_back(x);
    p.pieces.emplace_back(FieldRef{f});
  }
  if (r.chance(0.5)) p.pieces.emplace_back(FixedRun{{random_id(r), random_id(r)}, 0});
  auto form = Form::make(std::move(p));
  if (!form) throw std::runtime_error(form.error().message);
  return std::move(*form);
}

TEST(TwoVisibilities, CoincideOnAGraphThatIsAChain) {
  std::vector<Way> ways;
  for (const Way& w : all_ways())
    if (w.path != Path::kText) ways.push_back(w);
  for (uint64_t n = 0; n < 2000; ++n) {
    PhiloxStream r(n, 24);
    Trial t = trial_with_settings(n);
    t.form = chain_shaped(r);
    t.options.section_temperature.clear();
    Bench b(std::move(t));
    const Decoded& chain = b.slow({.path = Path::kChain}, 0);
    ASSERT_EQ(chain.tokens, b.slow({.path = Path::kFields}, 0).tokens) << n;
    for (size_t j = 0; j < 3; ++j) {
      Way w = ways[(3 * n + j) % ways.size()];
      vary(w, r);
      w.rollouts = 1;
      HashLm model(b.t.lm);
      const auto d = b.run(w, model, model, r);
      ASSERT_TRUE(d) << d.error().message;
      ASSERT_EQ(d->front().tokens, chain.tokens) << n << ": " << name_of(w);
    }
  }
}

TEST(TwoVisibilities, DifferElsewhere) {
  int differ = 0;
  for (uint64_t n = 0; n < 300; ++n) {
    Bench b(random_trial(n));
    b.t.lm.habit = 0.2;
    differ += b.slow({.path = Path::kChain}, 0).tokens != b.slow({.path = Path::kFields}, 0).tokens;
  }
  EXPECT_GT(differ, 100) << "a model of hashes sees that a field does not see all that stands before it";
}

}  // namespace
}  // namespace slip
