// SPDX-License-Identifier: Apache-2.0
// Gates 14 (commits), 15, 16, 17: what is accepted is closed towards what it saw; the schedule's passes against the arithmetic of the
// graph; forced tokens are the template's and cost nothing.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <set>

#include "form/schema/values.h"
#include "tests/decode/gates.h"

namespace slip {
namespace {

using namespace test;  // NOLINT: the gates' own header

Decoded run(Bench& b, const Way& w, PhiloxStream& r) {
  HashLm lm(b.t.lm);
  auto d = b.run(w, lm, lm, r);
  if (!d) throw std::runtime_error(name_of(w) + ": " + d.error().message);
  return std::move(d->front());
}

/// An earlier answer that is the answer: drafts that always hold.
Decoded run_with_truth(Bench& b, const Way& w) {
  const Decoded& truth = b.slow(w, 0);
  const PreviousAnswer same{.form = b.t.form.name(), .fields = truth.fields, .tokens = truth.tokens};
  const DecodeContext context{.previous = &same};
  HashLm lm(b.t.lm);
  auto d = Decoder(lm, method_of_way(w)).decode(b.t.prompt, b.form(w), b.options(w), context);
  if (!d) throw std::runtime_error(d.error().message);
  EXPECT_EQ(d->tokens, truth.tokens);
  return std::move(*d);
}

bool forced_in(const Form& form, const Decoded& d, int32_t field) {
  const Field& f = form.fields()[static_cast<size_t>(field)];
  if (!f.instance_of) return false;
  const auto of = static_cast<size_t>(f.instance_of->field);
  return instances_in(form.fields()[of], d.fields[of]) <= f.instance_of->instance;
}

/// Draws of each field, END included; forced ones have none.
std::vector<int64_t> draws_of(const Form& form, const Decoded& d) {
  std::vector<int64_t> draws;
  for (size_t f = 0; f < form.fields().size(); ++f) {
    const auto n = static_cast<int64_t>(d.fields[f].size());
    draws.push_back(forced_in(form, d, static_cast<int32_t>(f)) ? 0 : n + (n < form.fields()[f].budget));
  }
  return draws;
}

/// finish(v) = draws(v) + the latest parent's; fields may stand before their parents.
int64_t longest_path(const Form& form, const std::vector<int64_t>& draws) {
  std::map<int32_t, int64_t> known;
  const std::function<int64_t(int32_t)> finish = [&](int32_t f) {
    if (const auto k = known.find(f); k != known.end()) return k->second;
    int64_t latest = 0;
    for (const int32_t q : form.fields()[static_cast<size_t>(f)].parents) latest = std::max(latest, finish(q));
    return known[f] = draws[static_cast<size_t>(f)] + latest;
  };
  int64_t longest = 0;
  for (size_t f = 0; f < draws.size(); ++f) longest = std::max(longest, finish(static_cast<int32_t>(f)));
  return longest;
}

// ---- gate 15

/// Of a trace: is every round that counts behind parents that closed earlier, or in its own pass exactly as drafted?
bool is_down_set(const Form& form, const Decoded& d) {
  std::set<int32_t> closed;  // in earlier passes
  std::function<bool(int32_t, const std::map<int32_t, const Round*>&)> done = [&](int32_t f, const auto& pass) {
    if (closed.contains(f)) return true;
    if (forced_in(form, d, f)) {
      const auto& parents = form.fields()[static_cast<size_t>(f)].parents;
      return std::all_of(parents.begin(), parents.end(), [&](int32_t q) { return done(q, pass); });
    }
    const auto here = pass.find(f);
    if (here == pass.end()) return false;
    const Round& r = *here->second;
    return !r.discarded && r.closed && !r.stop && r.accepted == static_cast<int32_t>(r.draft.size());
  };
  for (size_t i = 0; i < d.rounds.size();) {
    std::map<int32_t, const Round*> pass;
    const int64_t number = d.rounds[i].number;
    for (; i < d.rounds.size() && d.rounds[i].number == number; ++i) pass[*d.rounds[i].field] = &d.rounds[i];
    for (const auto& [f, r] : pass)
      if (!r->discarded)
        for (const int32_t q : form.fields()[static_cast<size_t>(f)].parents)
          if (!done(q, pass)) return false;
    for (const auto& [f, r] : pass)
      if (!r->discarded && r->closed) closed.insert(f);
  }
  return true;
}

TEST(DownSets, AcceptedDrawsAreClosedTowardsWhatTheySaw) {
  int64_t discarded = 0, early = 0, flagged = 0;
  for (uint64_t n = 0; n < 6000; ++n) {
    Bench b(random_trial(n));
    b.t.options.trace = true;
    PhiloxStream r(n, 41);
    const Drafts kinds[] = {Drafts::kPrevious,  Drafts::kDiffusion, Drafts::kLookup,        Drafts::kHead,
                            Drafts::kQuadratic, Drafts::kAhead,     Drafts::kPreviousAhead, Drafts::kModel};
    Way w{.path = Path::kFields, .drafts = kinds[n % 8], .draft_length = {.tokens = static_cast<int32_t>(2 + r.below(9))}};
    if (w.drafts == Drafts::kQuadratic) w.draft_length.tokens = 4;
    const Decoded d = run(b, w, r);
    ASSERT_EQ(d.tokens, b.slow(w, 0).tokens) << n << ": " << name_of(w);
    ASSERT_TRUE(is_down_set(b.t.form, d)) << n << ": " << name_of(w);
    // Mutant: a child that was dropped counts after all.
    for (size_t i = 0; i < d.rounds.size(); ++i) {
      if (!d.rounds[i].discarded) continue;
      ++discarded;
      Decoded mutant = d;
      mutant.rounds[i].discarded = false;
      flagged += !is_down_set(b.t.form, mutant);
    }
    w.activation = false;
    early += run(b, w, r).statistics.forwards > d.statistics.forwards;
  }
  EXPECT_GT(discarded, 300);
  EXPECT_EQ(flagged, discarded) << "every dropped child saw something that did not hold";
  EXPECT_GT(early, 100) << "and children that were kept saved passes";
}

// ---- gate 14

TEST(QuadraticRounds, CommitAtMostK) {
  int64_t whole = 0;
  for (uint64_t n = 0; n < 1000; ++n) {
    Bench b(random_trial(n));
    b.t.options.trace = true;
    b.t.lm.habit = 0.9;
    PhiloxStream r(n, 42);
    const auto k = static_cast<int32_t>(1 + n % 8);
    const Decoded d = run(b, {.path = Path::kText, .drafts = Drafts::kQuadratic, .draft_length = {.tokens = k}}, r);
    for (const Round& round : d.rounds) {
      ASSERT_LE(round.emitted.size(), static_cast<size_t>(k)) << n;
      whole += k > 1 && static_cast<int32_t>(round.emitted.size()) == k;
    }
  }
  EXPECT_GT(whole, 100);
}

// ---- gate 16

TEST(Passes, AreTheLongestPathForOneTokenAPass) {
  int64_t forced = 0;
  for (uint64_t n = 0; n < 10000; ++n) {
    Bench b(random_trial(n));
    PhiloxStream r(n, 43);
    const Decoded d = run(b, {.path = Path::kFields}, r);
    const auto draws = draws_of(b.t.form, d);
    ASSERT_EQ(d.statistics.forwards, longest_path(b.t.form, draws)) << n;
    ASSERT_EQ(d.statistics.critical_path, d.statistics.forwards) << n;
    const Decoded one = run(b, {.path = Path::kOneByOne}, r);
    int64_t all = 0;
    for (const int64_t x : draws) all += x;
    ASSERT_EQ(one.statistics.forwards, all) << n << ": one after another, a pass per draw";
    for (size_t f = 0; f < draws.size(); ++f) forced += draws[f] == 0;
  }
  EXPECT_GT(forced, 500) << "fields whose placeholder is forced are among them: they cost no pass (gate 17)";
}

TEST(Passes, AreNeverMoreThanOneAfterAnother) {
  int64_t started = 0, waited = 0;
  for (uint64_t n = 0; n < 1500; ++n) {
    Bench b(random_trial(n));
    PhiloxStream r(n, 44);
    Way w{.path = Path::kFields, .draft_length = {.tokens = static_cast<int32_t>(2 + r.below(7))}};
    for (const Drafts drafts : {Drafts::kNone, Drafts::kDiffusion, Drafts::kQuadratic, Drafts::kLookup, Drafts::kHead}) {
      w.drafts = drafts;
      w.draft_length.tokens = drafts == Drafts::kQuadratic ? 3 : w.draft_length.tokens;
      Way sequential = w;
      sequential.path = Path::kOneByOne;
      const auto forwards = [&](const Way& way) {
        PhiloxStream same_head(n, 45);
        return run(b, way, same_head).statistics.forwards;
      };
      w.activation = false;
      ASSERT_LE(forwards(w), forwards(sequential)) << n << ": " << name_of(w);
      waited += forwards(w);
      w.activation = true;
      started += forwards(w);
    }
  }
  // A child that starts early is drafted behind its first token in place of before it: of one answer that may be the worse luck.
  EXPECT_LT(started, waited);
}

TEST(Passes, FallWithTheWidthWhereDraftsHold) {
  int64_t narrow = 0, wide = 0, without = 0;
  for (uint64_t n = 0; n < 1500; ++n) {
    Bench b(random_trial(n));
    for (const Path path : {Path::kChain, Path::kFields})
      for (const bool activation : {false, true}) {
        Way w{.path = path, .drafts = Drafts::kPrevious, .activation = activation};
        int64_t before = std::numeric_limits<int64_t>::max();
        for (const int32_t width : {1, 2, 3, 5, 8, 16}) {
          w.draft_length.tokens = width;
          const Decoded d = run_with_truth(b, w);
          ASSERT_LE(d.statistics.forwards, before) << n << ": " << name_of(w);
          ASSERT_EQ(d.statistics.accepted, d.statistics.tested) << n << ": " << name_of(w);
          before = d.statistics.forwards;
          if (path == Path::kFields && width == 1) narrow += before;
          if (path == Path::kFields && width == 16) (activation ? wide : without) += before;
        }
      }
  }
  EXPECT_GT(narrow, wide + without);
  EXPECT_GT(without, wide) << "children that start on right drafts save a pass per edge";
}

TEST(Passes, KeepTheListSchedulingBoundUnderARowCap) {
  int64_t tight = 0;
  for (uint64_t n = 0; n < 4000; ++n) {
    Bench b(random_trial(n));
    PhiloxStream r(n, 46);
    Way w{.path = Path::kFields, .most_rows = static_cast<int32_t>(1 + r.below(5))};
    HashLm hashes(b.t.lm);
    WatchedLm lm(hashes);
    size_t most = 0;
    lm.before = [&](const Pass& pass) {
      size_t wanted = 0;
      for (const Row& row : pass.rows) wanted += row.want != Want::kNothing;
      most = std::max(most, wanted);
    };
    const auto d = b.run(w, lm, hashes, r);
    ASSERT_TRUE(d);
    ASSERT_EQ(d->front().tokens, b.slow(w, 0).tokens) << n;
    ASSERT_LE(most, static_cast<size_t>(w.most_rows)) << n;
    const auto draws = draws_of(b.t.form, d->front());
    int64_t work = 0;
    for (const int64_t x : draws) work += x;
    const int64_t longest = longest_path(b.t.form, draws), rows = w.most_rows, passes = d->front().statistics.forwards;
    ASSERT_GE(passes, std::max(longest, (work + rows - 1) / rows)) << n;
    ASSERT_LE(passes * rows, work + (rows - 1) * longest) << n << ": work / R + (1 - 1/R) longest path [Graham]";
    tight += passes > longest;
  }
  EXPECT_GT(tight, 500);
}

TEST(Passes, GiveShortRowsToTheLongestWay) {
  // A 4, B 4, C 2 -> D 4 tokens, two rows a pass: in the form's order 10 passes, C first 8.
  Form::Parts p;
  p.name = "random";
  p.section_names = {"0"};
  for (const auto& [budget, parents] : {std::pair<int32_t, std::vector<int32_t>>{4, {}}, {4, {}}, {2, {}}, {4, {2}}}) {
    p.pieces.emplace_back(FixedRun{{{5}}, 0});
    p.pieces.emplace_back(FieldRef{static_cast<int32_t>(p.fields.size())});
    p.fields.push_back({.name = std::to_string(p.fields.size()), .budget = budget, .parents = parents});
  }
  Trial t = random_trial(1);
  t.form = *Form::make(std::move(p));
  Bench b(std::move(t));
  PhiloxStream r(1, 47);
  EXPECT_EQ(run(b, {.path = Path::kFields, .most_rows = 2}, r).statistics.forwards, 8);
  EXPECT_EQ(run(b, {.path = Path::kFields}, r).statistics.forwards, 6);
}

TEST(Passes, KeepTheRowCapWithDrafts) {
  for (uint64_t n = 0; n < 2000; ++n) {
    Bench b(random_trial(n));
    PhiloxStream r(n, 48);
    const Drafts kinds[] = {Drafts::kDiffusion, Drafts::kLookup, Drafts::kPrevious,      Drafts::kHead,
                            Drafts::kQuadratic, Drafts::kAhead,  Drafts::kPreviousAhead, Drafts::kPreviousDiffusion};
    Way w{.path = Path::kFields, .drafts = kinds[n % 8], .draft_length = {.tokens = static_cast<int32_t>(2 + r.below(3))}};
    w.most_rows = static_cast<int32_t>(24 + r.below(20));  // more than one strand needs
    HashLm hashes(b.t.lm);
    WatchedLm lm(hashes);
    bool prefilled = false;
    lm.before = [&](const Pass& pass) {
      int32_t rows = 0;
      for (const Row& row : pass.rows) rows += row.want != Want::kNothing;
      if (std::exchange(prefilled, true)) {
        EXPECT_LE(rows, w.most_rows) << n << ": " << name_of(w);
      }
    };
    ASSERT_TRUE(b.run(w, lm, hashes, r));
  }
}

// ---- gate 17

TEST(Scaffold, AnswersParseAndHoldTheTemplatesTokens) {
  std::vector<Way> ways;
  for (const Way& w : all_ways())
    if (w.path != Path::kText) ways.push_back(w);
  for (uint64_t n = 0; n < 4000; ++n) {
    Bench b(trial_with_settings(n));
    PhiloxStream r(n, 49);
    Way w = ways[n % ways.size()];
    vary(w, r);
    const Decoded d = run(b, w, r);
    const auto split = split_answer(b.t.form, d.tokens);  // every fixed token at its place, contents as the rules allow
    ASSERT_TRUE(split) << n << ": " << name_of(w) << ": " << split.error().message;
    ASSERT_EQ(*split, d.fields) << n;
    Decoded broken = d;
    for (size_t i = 0; i < broken.tokens.size(); ++i) {  // the check itself: another first token of the template is no answer
      broken.tokens[i].value = (broken.tokens[i].value + 1) % kTrialVocab;
      ASSERT_FALSE(split_answer(b.t.form, broken.tokens));
      break;
    }
  }
}

/// The model's own greedy token behind a prompt and what stands behind it, at positions from the prompt's end on.
TokenId next_of(const Bench& b, std::span<const std::pair<TokenId, int32_t>> behind) {
  Prompt so_far = b.t.prompt;
  for (const auto& [id, position] : behind) {
    so_far.inputs.emplace_back(id);
    so_far.positions.push_back(Position::text(b.t.prompt.next_position + position));
    so_far.next_position = b.t.prompt.next_position + position + 1;
  }
  HashLm lm(b.t.lm);
  const auto d = decode(lm, so_far, nullptr, "ar", {.limit = 1});
  if (!d) throw std::runtime_error(d.error().message);
  return d->tokens.front();
}

/// Where the last field begins that is drawn: rows behind its draws do not run.
int32_t last_drawn(const Form& form, const Decoded& d) {
  int32_t start = 0;
  for (size_t f = 0; f < form.fields().size(); ++f)
    if (!forced_in(form, d, static_cast<int32_t>(f))) start = form.fields()[f].start;
  return start;
}

/// Of the template before there: form position -> the model's own token, asked one by one. Not what follows an END; along a
/// graph not what follows a field.
std::map<int32_t, TokenId> own_tokens(const Bench& b, const Decoded& d, bool graph) {
  std::map<int32_t, TokenId> own;
  std::vector<std::pair<TokenId, int32_t>> behind;
  const auto put = [&](TokenId id, int32_t u) { behind.emplace_back(id, graph ? u : static_cast<int32_t>(behind.size())); };
  int32_t u = 0;
  bool ended = false;
  for (const Piece& piece : b.t.form.pieces()) {
    if (const auto* fixed = std::get_if<FixedRun>(&piece)) {
      for (size_t i = 0; i < fixed->ids.size(); ++i, ++u) {
        if (u >= last_drawn(b.t.form, d)) return own;
        if (i > 0 || u == 0 || (!graph && !ended)) own[u] = next_of(b, behind);
        put(fixed->ids[i], u);
      }
      continue;
    }
    const auto f = static_cast<size_t>(std::get<FieldRef>(piece).field);
    if (!graph)
      for (const TokenId id : d.fields[f]) put(id, 0);
    const int32_t budget = b.t.form.fields()[f].budget;
    ended = static_cast<int32_t>(d.fields[f].size()) < budget && !forced_in(b.t.form, d, static_cast<int32_t>(f));
    u += budget;
  }
  return own;
}

TEST(Scaffold, LogsWhatTheModelWouldNotHaveDrawn) {
  std::vector<Way> ways;
  for (const Way& w : all_ways())
    if (w.path != Path::kText) ways.push_back(w);
  size_t compared = 0, missed = 0;
  for (uint64_t n = 0; n < 1500; ++n) {
    Bench b(trial_with_settings(n));
    b.t.lm.habit = 0.8;
    PhiloxStream r(n, 51);
    Way w = ways[n % ways.size()];
    vary(w, r);
    w.log_forced = true;
    const Decoded d = run(b, w, r);
    ASSERT_EQ(d.tokens, b.slow(w, 0).tokens) << n << ": " << name_of(w);
    const int32_t end = last_drawn(b.t.form, d);
    std::map<int32_t, TokenId> logged;
    for (const ForcedLog::Miss& m : d.forced.misses) {
      ASSERT_EQ(b.t.form.fixed_at(m.position), m.forced) << n;
      ASSERT_NE(m.own, m.forced);
      ASSERT_GE(m.p_own, m.p_forced);
      if (m.position < end) logged[m.position] = m.own;
    }
    std::map<int32_t, TokenId> own = own_tokens(b, d, of_graph(w.path));
    ASSERT_GE(d.forced.compared, static_cast<int64_t>(own.size())) << n << ": " << name_of(w);
    compared += own.size();
    std::erase_if(own, [&](const auto& x) { return b.t.form.fixed_at(x.first) == x.second; });
    ASSERT_EQ(logged, own) << n << ": " << name_of(w);
    missed += own.size();
    w.log_forced = false;
    ASSERT_EQ(run(b, w, r).forced.compared, 0);
  }
  EXPECT_GT(missed, 1000U);
  EXPECT_GT(compared, missed + 100) << "and some that it would have drawn";
}

/// An enumeration whose rules leave nothing but its placeholder, and what it could have named: all is forced or sure.
TEST(Scaffold, FieldsThatAreForcedCostNoPass) {
  for (const int32_t instances : {0, 1, 3}) {
    Form::Parts p;
    p.name = "random";
    p.section_names = {"0"};
    p.pieces = {FixedRun{{{5}, {6}}, 0}, FieldRef{0}};
    p.fields = {{.name = "names", .budget = 4, .end = TokenId{11}, .separators = {{3}}, .placeholder = {{9}}}};
    for (int32_t i = 0; i < instances; ++i) {
      p.pieces.emplace_back(FixedRun{{i == 0 ? TokenId{11} : TokenId{12}, TokenId{7}}, 0});
      p.pieces.emplace_back(FieldRef{1 + i});
      p.fields.push_back({.name = std::to_string(i),
                          .budget = 5,
                          .end = TokenId{12},
                          .parents = {0},
                          .placeholder = {{10}},
                          .instance_of = Field::InstanceOf{0, i}});
    }
    p.pieces.emplace_back(FixedRun{{instances == 0 ? TokenId{11} : TokenId{12}}, 0});
    p.fields[0].rules = TokenRules::one_of(std::vector<std::vector<TokenId>>{{TokenId{9}}}, std::nullopt, 4);
    auto form = Form::make(std::move(p));
    ASSERT_TRUE(form) << form.error().message;
    Trial t = random_trial(2);
    t.form = std::move(*form);
    Bench b(std::move(t));
    PhiloxStream r(2, 50);
    for (const Path path : {Path::kFields, Path::kOneByOne}) {
      const Decoded d = run(b, {.path = path}, r);
      EXPECT_EQ(d.statistics.forwards, 2) << instances << ": the enumeration's placeholder and its END";
      for (int32_t i = 0; i < instances; ++i) EXPECT_EQ(d.fields[static_cast<size_t>(1 + i)], std::vector<TokenId>{{10}});
    }
  }
}

}  // namespace
}  // namespace slip
