// SPDX-License-Identifier: Apache-2.0
// Forms whose unused instances are absent: what sees what, and that an instance that is not named costs nothing. That all ways along a graph write the
// same over such forms is among gates 6 and 13.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>

#include "base/must_testing.h"
#include "form/schema/values.h"
#include "lm/graph_visibility.h"
#include "tests/decode/gates_transformer.h"

namespace slip {
namespace {

using namespace test;  // NOLINT: the gates' own header

constexpr TokenId kEnd{11}, kNone{9};

Trial absent_trial(uint64_t n) {
  Trial t = random_trial(n);
  PhiloxStream r(n, 71);
  t.form = random_absent_form(r);
  return t;
}

TEST(AbsentInstances, ContextsByHand) {
  // 1 2 | e e | 11 5 6 | x | 11 7 | y y | 11 8 | s | 11
  Form::Parts p{.name = "hand", .section_names = {"0"}};
  p.pieces = {FixedRun{{{1}, {2}}, 0},  FieldRef{0}, FixedRun{{kEnd, {5}, {6}}, 0}, FieldRef{1},
              FixedRun{{kEnd, {7}}, 0}, FieldRef{2}, FixedRun{{kEnd, {8}}, 0},      FieldRef{3},
              FixedRun{{kEnd}, 0}};
  p.fields = {{.name = "e", .budget = 2, .end = kEnd, .separators = {{3}}, .leaves_out = true},
              {.name = "x", .budget = 1, .parents = {0}, .instance_of = Field::InstanceOf{0, 0}},
              {.name = "y", .budget = 2, .end = kEnd, .parents = {0}, .instance_of = Field::InstanceOf{0, 1}},
              {.name = "s", .budget = 1, .parents = {1}}};
  const Form form = must(Form::make(p));
  EXPECT_EQ(form.fields()[1].hand_off, 3);
  EXPECT_EQ(form.fields()[2].hand_off, 2);
  EXPECT_EQ(form.fields()[3].hand_off, 1);
  using Segments = std::vector<GraphVisibility::Segment>;
  const GraphVisibility graph(form);
  const auto context = [&](int32_t f) { return Segments(graph.context(f).begin(), graph.context(f).end()); };
  EXPECT_EQ(context(0), (Segments{{.begin = 0, .end = 1}}));
  EXPECT_EQ(context(1), (Segments{{.begin = 0, .end = 1}, {.field = 0}}));
  EXPECT_EQ(context(2), (Segments{{.begin = 0, .end = 1}, {.field = 0}})) << "not the text of x, which need not be there";
  EXPECT_EQ(context(3), (Segments{{.begin = 0, .end = 1}, {.field = 0}, {.field = 1}, {.begin = 12, .end = 13}}));
  p.pieces[4] = FixedRun{{{12}, {7}}, 0};
  const auto other = Form::make(p);
  ASSERT_FALSE(other);
  EXPECT_EQ(other.error().message,
            "form hand: field x: expected the fixed text behind an instance that may be absent to begin like that before it, with "
            "11, got 12");
  p.fields[0].separators.clear();
  EXPECT_THAT(Form::make(p).error().message, testing::HasSubstr("expected an enumeration to leave out what it does not name"));
}

// ---- at no cost

/// Positions do not count, so that forms of more instances, whose later fields stand further back, say the same.
class Placeless : public WatchedLm {
 public:
  using WatchedLm::WatchedLm;
  Status forward(const Pass& pass, PassOutput& out) override {
    rows_.assign(pass.rows.begin(), pass.rows.end());
    for (Row& r : rows_) r.position = Position::text(0);
    Pass same = pass;
    same.rows = rows_;
    return WatchedLm::forward(same, out);
  }

 private:
  std::vector<Row> rows_;
};

/// An enumeration that names `named` of `instances` things, of each a word and a text, and what is said of all.
Form of_instances(int32_t named, int32_t instances, bool absent) {
  Form::Parts p{.name = "count", .section_names = {"0"}};
  std::vector<std::vector<TokenId>> words(2);
  for (const int32_t w : {0, 1}) {
    words[static_cast<size_t>(w)] = {named == 0 ? kNone : TokenId{5 + w}};
    for (int32_t i = 1; i < named; ++i) words[static_cast<size_t>(w)].insert(words[static_cast<size_t>(w)].end(), {{3}, {5 + w}});
  }
  const auto add = [&](Field x, int32_t label) {
    const auto f = static_cast<int32_t>(p.fields.size());
    x.name = std::to_string(f);
    x.end = kEnd;
    if (x.instance_of && !absent) x.placeholder = {kNone};
    p.pieces.emplace_back(FixedRun{{kEnd, {label}, {20}, {21}}, 0});
    p.pieces.emplace_back(FieldRef{f});
    p.fields.push_back(std::move(x));
    return f;
  };
  add({.budget = 9, .rules = TokenRules::one_of(words, std::nullopt, 9), .separators = {{3}}, .leaves_out = absent}, 4);
  Field all{.budget = 5};
  for (int32_t i = 0; i < instances; ++i) {
    const int32_t word = add({.budget = 2, .parents = {0}, .instance_of = Field::InstanceOf{0, i}}, 12);
    all.parents.push_back(add({.budget = 6, .parents = {word}, .instance_of = Field::InstanceOf{0, i}}, 13 + i % 4));
  }
  if (named == 0) p.fields[0].placeholder = {kNone};
  add(std::move(all), 21);
  add({.budget = 4}, 22);
  p.pieces.emplace_back(FixedRun{{kEnd}, 0});
  return must(Form::make(std::move(p)));
}

struct Cost {
  std::vector<TokenId> tokens;
  int64_t forwards = 0, rows = 0, critical_path = 0, forced = 0;
  bool operator==(const Cost&) const = default;
};

/// Greedy: a draw's uniform goes by the number of its field.
Cost cost_of(const Form& form, const Way& w, const Trial& t) {
  int64_t rows = 0;
  HashLm hashes(t.lm);
  Placeless lm(hashes);
  lm.before = [&](const Pass& pass) { rows += static_cast<int64_t>(pass.rows.size()); };
  DecodeOptions o = t.options;
  o.temperature = 0;
  o.section_temperature.clear();
  o.visibility = Visibility::kGraph;
  const Decoded d = must(Decoder(lm, method_of_way(w)).decode(t.prompt, &form, o));
  return {d.tokens, d.statistics.forwards, rows, d.statistics.critical_path, d.statistics.forced_tokens};
}

TEST(AbsentInstances, CostNothingHoweverManyThereCouldBe) {
  for (uint64_t n = 0; n < 60; ++n)
    for (const Drafts drafts : {Drafts::kNone, Drafts::kDiffusion, Drafts::kQuadratic, Drafts::kLookup, Drafts::kAhead})
      for (const Path path : {Path::kFields, Path::kOneByOne})
        for (int32_t named = 0; named <= 4; ++named) {
          const Way w{.path = path, .drafts = drafts, .draft_length = {.tokens = drafts == Drafts::kQuadratic ? 4 : 6}};
          const Trial t = random_trial(n);
          const auto cost = [&](int32_t most, bool absent) { return cost_of(of_instances(named, most, absent), w, t); };
          for (const int32_t most : {12, std::max(named, 1)})
            ASSERT_EQ(cost(most, true), cost(4, true)) << n << ": " << name_of(w) << ", " << named << " named of " << most;
          ASSERT_GE(cost(12, false).rows, cost(4, false).rows + 8 * 2 * 3) << "lines before placeholders cost rows";
        }
}

TEST(AbsentInstances, KeysThatAreToldAreTheAnswers) {
  int absent = 0;
  for (uint64_t n = 0; n < 400; ++n) {
    Bench b(absent_trial(n));
    HashLm hashes(b.t.lm);
    WatchedLm lm(hashes);
    std::map<int32_t, RowInput> at;
    lm.before = [&](const Pass& pass) {
      for (const Row& r : pass.rows) at[r.slot] = r.input;
    };
    std::vector<int32_t> slots;
    DecodeContext context;
    context.keys_behind.assign(1, static_cast<int32_t>(b.t.form.sections().size()));
    context.on_keys = [&](const KnownKeys& keys) -> Status {
      for (const SlotSpan& s : keys.slots)
        for (int32_t i = s.begin; i < s.end; ++i) slots.push_back(i);
      return {};
    };
    const Way w{.path = Path::kFields, .drafts = n % 2 ? Drafts::kLookup : Drafts::kNone, .draft_length = {.tokens = 4}};
    const Decoded d = must(Decoder(lm, method_of_way(w)).decode(b.t.prompt, &b.t.form, b.options(w), context));
    std::vector<TokenId> told;
    for (size_t i = b.t.prompt.inputs.size(); i < slots.size(); ++i) told.push_back(std::get<TokenId>(at.at(slots[i])));
    std::vector<TokenId> answer = d.tokens;
    const Field& last = b.t.form.fields().back();  // what stands behind it has no rows
    answer.resize(answer.size() - static_cast<size_t>(b.t.form.length() - last.start - last.budget));
    ASSERT_EQ(told, answer) << n;
    for (size_t f = 0; f < d.fields.size(); ++f) absent += is_absent(b.t.form, d.fields, f);
  }
  EXPECT_GT(absent, 300);
}

TEST(AbsentInstances, AreTheSameOnATransformerOfAnyThreads) {
  static ThreadPool three(3);
  for (uint64_t n = 0; n < 40; ++n) {
    const Bench b(absent_trial(n));
    const auto decode = [&](const Way& w, ThreadPool& threads) {
      auto lm = tiny_transformer(n, threads);
      return must(Decoder(*lm, method_of_way(w)).decode(b.t.prompt, &b.t.form, b.options(w)));
    };
    const Decoded want = decode({.path = Path::kOneByOne}, pool());
    for (const Drafts drafts : {Drafts::kNone, Drafts::kDiffusion, Drafts::kLookup, Drafts::kAhead})
      for (const int32_t rows : {0, 7}) {
        const Way w{.path = Path::kFields, .drafts = drafts, .draft_length = {.tokens = 4}, .most_rows = rows};
        ASSERT_EQ(decode(w, pool()).fields, want.fields) << n << ": " << name_of(w);
        ASSERT_EQ(decode(w, three).fields, want.fields) << n << ": " << name_of(w);
      }
  }
}

TEST(AbsentInstances, AreRefusedOnAChain) {
  const Bench b(absent_trial(1));
  HashLm lm(b.t.lm);
  for (const char* preset : {"scaffold-ar", "scaffold-spec", "section-diffusion"}) {
    const auto d = decode(lm, b.t.prompt, &b.t.form, preset, b.t.options);
    ASSERT_FALSE(d) << preset;
    EXPECT_EQ(d.error().kind, ErrorKind::kUnsupported);
    EXPECT_THAT(d.error().message,
                testing::HasSubstr("expected graph visibility, under which an instance that is not named takes no row"));
  }
}

}  // namespace
}  // namespace slip
