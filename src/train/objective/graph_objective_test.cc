// SPDX-License-Identifier: Apache-2.0
// The graph objective against the recorded answers of fixtures/decode: a teacher-forced row picks the token that graph visibility picks,
// a draft row drafts what the drafter drafts; and its masks, terms and weights against their words.
#include "train/objective/graph_objective.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>

#include "train/model/forward_rows.h"
#include "train/objective/graph_cases_testing.h"

namespace slip {
namespace {

TrainModel& model_of(const Case& c) {
  static std::map<std::string, TrainModel> models;
  const std::string name(c.source.at("model").as_string());
  if (!models.contains(name)) models.emplace(name, must(load_model(kDecode / "models" / name, Precision::kF32)));
  return models.at(name);
}

/// Largest logit of every row, without and with what a field allows.
class Picks {
 public:
  Picks(const Case& c, SequenceRows rows) : vocab_(model_of(c).shape().vocab) {
    rows.wanted.clear();
    for (size_t i = 0; i < rows.tokens.size(); ++i) rows.wanted.push_back(static_cast<int32_t>(i));
    RowBatch batch;
    append_sequence(batch, rows, {}, VisionShape{}, true);
    logits_ = model_of(c).logits(batch);
  }
  int32_t pick(int32_t row, const Field* field) const {
    int32_t best = -1;
    for (int32_t v = 0; v < vocab_; ++v) {
      const bool allowed = field == nullptr || field->rules.unrestricted() || field->end == TokenId{v} ||
                           field->rules.state_after(std::vector<TokenId>{{v}});
      if (allowed && (best < 0 || at(row, v) > at(row, best))) best = v;
    }
    return best;
  }

 private:
  float at(int32_t row, int32_t v) const {
    return logits_[static_cast<size_t>(row) * static_cast<size_t>(vocab_) + static_cast<size_t>(v)];
  }
  int32_t vocab_;
  std::vector<float> logits_;
};

/// Clean rows whose pick is not what the field says, over all cases; `spoil` may change the rows first.
template <class F>
int wrong_picks(F&& spoil) {
  int wrong = 0;
  for (const Case& c : cases_of("fields.json")) {
    const Form& form = c.sample.graph->form;
    GraphRows g = graph_rows(c.sample, std::vector<DraftBlock>(c.names.size()), {});
    spoil(c.sample, g);
    const Picks picks(c, g.rows);
    for (size_t f = 0; f < c.names.size(); ++f) {
      const auto items = drawn_items(form.fields()[f], c.sample.contents[f]);
      for (size_t i = 0; i < items.size(); ++i)
        wrong += picks.pick(g.field_row[f] + static_cast<int32_t>(i), &form.fields()[f]) != items[i].value;
    }
  }
  return wrong;
}

TEST(GraphObjective, CleanRowsPickWhatGraphVisibilityPicks) {
  EXPECT_EQ(wrong_picks([](const Sample&, GraphRows&) {}), 0);
}

TEST(GraphObjective, ThatTestSeesOriginalsLeftVisible) {
  EXPECT_GT(wrong_picks([](const Sample& s, GraphRows& g) {
              for (size_t f = 0; f < g.field_row.size(); ++f) {
                const int32_t original = g.scaffold[static_cast<size_t>(s.graph->form.fields()[f].start - 1)];
                for (size_t i = 0; i <= s.contents[f].size(); ++i)
                  g.rows.sees[static_cast<size_t>(g.field_row[f]) + i].insert(
                      g.rows.sees[static_cast<size_t>(g.field_row[f]) + i].begin(), {original, original + 1});
              }
            }),
            0);
}

TEST(GraphObjective, ThatTestSeesAHandOffRowThatDoesNotReplaceTheOriginal) {
  EXPECT_GT(wrong_picks([](const Sample& s, GraphRows& g) {  // the hand-off row sees what the scaffold saw
              for (size_t f = 0; f < g.field_row.size(); ++f)
                g.rows.sees[static_cast<size_t>(g.field_row[f])] =
                    g.rows.sees[static_cast<size_t>(g.scaffold[static_cast<size_t>(s.graph->form.fields()[f].start - 1)])];
            }),
            0);
}

/// Drafts of the recorded rounds against draft rows; returns how many were compared.
int compare_drafts(const Case& c) {
  const Form& form = c.sample.graph->form;
  const auto width = static_cast<int32_t>(c.source.at("width").as_int64());
  const bool shift = c.source.at("family").as_string() == "shift";
  std::vector<int32_t> done(c.names.size(), 0);
  int compared = 0;
  for (const auto& round : c.source.at("expected").at("trace").as_array()) {
    std::vector<DraftBlock> blocks(c.names.size());
    std::map<size_t, json::array> drafts;
    for (const auto& v : round.as_array()) {
      const auto f =
          static_cast<size_t>(std::find(c.names.begin(), c.names.end(), std::string(v.at("field").as_string())) - c.names.begin());
      if (v.at("draft").as_array().empty()) continue;
      blocks[f] = {done[f], width};
      drafts[f] = v.at("draft").as_array();
      done[f] += static_cast<int32_t>(v.at("committed").as_array().size());
    }
    const GraphRows g = graph_rows(c.sample, blocks, {});
    const Picks picks(c, g.rows);
    for (const auto& [f, draft] : drafts)
      for (size_t k = 0; k < draft.size(); ++k, ++compared) {
        const int32_t row = g.draft_row[f] + static_cast<int32_t>(k) + (shift ? 0 : 1);
        const int32_t expected = draft[k].is_string() ? form.fields()[f].end->value : static_cast<int32_t>(draft[k].as_int64());
        EXPECT_EQ(picks.pick(row, &form.fields()[f]), expected) << c.source.at("name") << " " << c.names[f] << " draft " << k;
      }
  }
  return compared;
}

TEST(GraphObjective, DraftRowsDraftWhatTheDrafterDrafts) {
  int compared = 0;
  for (const Case& c : cases_of("fields_spec_self.json")) compared += compare_drafts(c);
  EXPECT_GT(compared, 200);
}

// The rules once more, key by key and without ranges: what a row is, and whether it sees another.
struct What {
  enum Kind { kPrompt, kScaffold, kClean, kDraft } kind;
  int32_t field = -1, index = 0;  // index: prompt place, form position, i of (v, i), k of the block
};

bool sees(const Sample& s, std::span<const DraftBlock> blocks, const What& a, const What& b) {
  const Form& form = s.graph->form;
  const auto ancestors = [&](int32_t v) { return s.graph->visibility.ancestors(v); };
  if (a.kind == What::kPrompt) return b.kind == What::kPrompt && b.index <= a.index;
  if (b.kind == What::kPrompt) return true;
  if (a.kind == What::kScaffold) return b.kind == What::kScaffold && b.index <= a.index;
  const auto kin = ancestors(a.field);
  const bool of_ancestor = std::find(kin.begin(), kin.end(), b.field) != kin.end();
  if (b.kind == What::kScaffold) {
    for (const int32_t v : kin)
      if (form.fields()[static_cast<size_t>(v)].start - 1 == b.index) return false;
    return b.index < form.fields()[static_cast<size_t>(a.field)].start - 1;
  }
  if (b.kind == What::kDraft) return a.kind == What::kDraft && a.field == b.field;
  if (of_ancestor) return true;
  if (a.field != b.field) return false;
  return a.kind == What::kClean ? b.index <= a.index : b.index < blocks[static_cast<size_t>(a.field)].cut;
}

std::vector<What> rows_in_words(const Sample& s, std::span<const DraftBlock> blocks) {
  const Form& form = s.graph->form;
  std::vector<What> out;
  for (size_t i = 0; i < s.tokens.size(); ++i) out.push_back({What::kPrompt, -1, static_cast<int32_t>(i)});
  for (int32_t u = 0; u < form.length(); ++u)
    if (form.fixed_at(u)) out.push_back({What::kScaffold, -1, u});
  for (size_t f = 0; f < blocks.size(); ++f)
    for (size_t i = 0; i <= s.contents[f].size(); ++i)
      out.push_back({What::kClean, static_cast<int32_t>(f), static_cast<int32_t>(i)});
  for (size_t f = 0; f < blocks.size(); ++f)
    for (int32_t k = 0; blocks[f].width > 0 && k <= std::min(blocks[f].width - 1, form.fields()[f].budget - blocks[f].cut); ++k)
      out.push_back({What::kDraft, static_cast<int32_t>(f), k});
  return out;
}

bool in_ranges(const IndexRanges& ranges, int32_t row) {
  return std::any_of(ranges.begin(), ranges.end(), [&](const IndexRange r) { return r.begin <= row && row < r.end; });
}

TEST(GraphObjective, MasksAreTheRulesInWords) {
  uint32_t number = 0;
  for (const Case& c : cases_of("fields.json")) {
    const auto blocks = draft_blocks(c.sample, {.draft_length = 4, .draft_share = 0.8}, {.seed = 3, .sample = number++});
    const GraphRows g = graph_rows(c.sample, blocks, {});
    const std::vector<What> words = rows_in_words(c.sample, blocks);
    ASSERT_EQ(g.rows.sees.size(), words.size());
    for (size_t a = 0; a < words.size(); ++a)
      for (size_t b = 0; b < words.size(); ++b)
        ASSERT_EQ(in_ranges(g.rows.sees[a], static_cast<int32_t>(b)), sees(c.sample, blocks, words[a], words[b])) << a << " " << b;
  }
}

TEST(GraphObjective, EveryRowSeesEveryPositionOnce) {
  for (const Case& c : cases_of("fields.json")) {
    const GraphRows g = graph_rows(c.sample, std::vector<DraftBlock>(c.names.size()), {});
    for (const IndexRanges& seen : g.rows.sees) {
      std::vector<int32_t> positions;
      for (const IndexRange r : seen)
        for (int32_t i = r.begin; i < r.end; ++i) positions.push_back(g.rows.positions[static_cast<size_t>(i)].t);
      std::sort(positions.begin(), positions.end());
      EXPECT_EQ(std::adjacent_find(positions.begin(), positions.end()), positions.end());
    }
  }
}

/// "e: a;b  1: .. 2: .." : an enumeration of at most two instances, and a field that depends on both.
Sample instances(std::vector<TokenId> named, std::vector<TokenId> first, std::vector<TokenId> second) {
  const TokenId colon{20}, semicolon{21}, end{22}, na{23};
  Form::Parts p;
  p.name = "instances";
  p.section_names = {"cot", "rest"};
  for (int f = 0; f < 4; ++f) {
    p.pieces.emplace_back(FixedRun{{{30 + f}, colon}, f < 3 ? 0 : 1});
    p.pieces.emplace_back(FieldRef{f});
  }
  p.fields.push_back({.name = "e", .budget = 3, .end = end, .separators = {semicolon}, .placeholder = {na}});
  for (int f = 1; f < 3; ++f)
    p.fields.push_back({.name = "one_" + std::to_string(f),
                        .budget = 4,
                        .end = end,
                        .parents = {0},
                        .placeholder = {na},
                        .instance_of = Field::InstanceOf{0, f - 1}});
  p.fields.push_back({.name = "sum", .budget = 2, .parents = {1, 2}, .section = 1});
  p.pieces.emplace_back(FixedRun{{end}, 1});
  return sample_of(std::move(p), {std::move(named), std::move(first), std::move(second), {{12}, {13}}});
}

TEST(GraphObjective, TermsWeightsAndCountOfAFormWithAnUnusedInstance) {
  const Sample s = instances({{5}}, {{6}, {7}}, {{23}});
  ASSERT_TRUE(check_graph_sample(s));
  const GraphRule rule{.draft_weight = 0.5, .weights = {{"cot", 2}, {"one_", 3}, {"sum", 4}}};
  std::vector<DraftBlock> blocks(4);
  blocks[1] = {1, 3};  // [6 | M M] -> 7, END
  blocks[3] = {0, 3};  // [: | M M] -> 12, 13
  const GraphRows g = graph_rows(s, blocks, rule);
  // prompt 0-1, scaffold 2-10, e: hand-off 11, 12; one_1: 13 14 15; one_2: 16 17; sum: 18 19 20; drafts 21-23, 24-26
  EXPECT_EQ(g.field_row, (std::vector<int32_t>{11, 13, 16, 18}));
  EXPECT_EQ(g.draft_row, (std::vector<int32_t>{-1, 21, -1, 24}));
  std::vector<std::tuple<int32_t, int32_t, double, bool>> terms,
      expected{{11, 5, 2, false},   {12, 22, 2, false}, {13, 6, 3, false},  {14, 7, 3, false},
               {15, 22, 3, false},  {18, 12, 4, false}, {19, 13, 4, false}, {21, 7, 1.5, true},
               {22, 22, 1.5, true}, {24, 12, 2, true},  {25, 13, 2, true}};
  for (const auto& t : g.rows.terms) terms.emplace_back(t.row, t.target, t.weight, t.noisy);
  EXPECT_EQ(terms, expected);
  EXPECT_EQ(g.rows.count, 11);
  EXPECT_EQ(g.rows.tokens[21], 6);
  EXPECT_EQ(g.rows.tokens[22], 1);
  // form: 30 : e e e 31 : o o o o 32 : o o o o 33 : s s 22; the block of one_1 stands at positions of token 0, 1, 2
  EXPECT_EQ(g.rows.positions[21], Position::text(2 + 7));
  EXPECT_EQ(g.rows.positions[23], Position::text(2 + 9));
  EXPECT_EQ(g.rows.positions[24], Position::text(2 + 18));
  // The last token of the full field is seen by nobody and predicts nothing: it is dropped. The placeholder's rows stay.
  RowBatch batch;
  append_sequence(batch, g.rows, {}, VisionShape{}, true);
  EXPECT_EQ(batch.tokens.size(), g.rows.tokens.size() - 3);  // that one, and the last two of the scaffold
  EXPECT_EQ(std::count(batch.tokens.begin(), batch.tokens.end(), 23), 1);
}

TEST(GraphObjective, AnAbsentInstanceHasNoRowsAndANamedOneItsWholeHandOff) {
  const Sample s = sample_with_absent({{{5}}, {{6}, {7}}, {}, {{12}, {13}}});
  ASSERT_TRUE(check_graph_sample(s));
  std::vector<DraftBlock> blocks(4);
  blocks[1] = {0, 3};  // [22 31 : | M M] -> 6, 7
  const GraphRows g = graph_rows(s, blocks, {.draft_weight = 0.5});
  // prompt 0-1; scaffold 22 30 : 22 33 : and the END behind it, 2-8; e 9-10; one_1: 22 31 : 6 7, 11-15; sum 16-18; the block 19-23
  std::vector<int32_t> said(g.rows.tokens.begin() + 2, g.rows.tokens.end());
  EXPECT_EQ(said, (std::vector<int32_t>{22, 30, 20, 22, 33, 20, 22, 20, 5, 22, 31, 20, 6, 7, 20, 12, 13, 22, 31, 20, 1, 1}));
  EXPECT_EQ(g.field_row, (std::vector<int32_t>{9, 11, 16, 16}));
  EXPECT_EQ(g.field_rows, (std::vector<int32_t>{2, 5, 0, 3}));
  EXPECT_EQ(g.draft_row, (std::vector<int32_t>{-1, 19, -1, -1}));
  std::vector<std::tuple<int32_t, int32_t, double, bool>> terms,
      expected{{9, 5, 1, false},   {10, 22, 1, false}, {13, 6, 1, false},  {14, 7, 1, false}, {15, 22, 1, false},
               {16, 12, 1, false}, {17, 13, 1, false}, {21, 6, 0.5, true}, {22, 7, 0.5, true}};
  for (const auto& t : g.rows.terms) terms.emplace_back(t.row, t.target, t.weight, t.noisy);
  EXPECT_EQ(terms, expected);
  EXPECT_EQ(g.rows.positions[11], Position::text(2 + 6)) << "22 30 : e e e | 22 31 : o o o o | 22 32 : o o o o | 22 33 : s s | 22";
  EXPECT_EQ(g.rows.positions[16], Position::text(2 + 22));
  EXPECT_EQ(g.rows.positions[23], Position::text(2 + 10));
  const auto seen = [&](size_t row) {
    std::vector<int32_t> out;
    for (const IndexRange r : g.rows.sees[row])
      for (int32_t i = r.begin; i < r.end; ++i) out.push_back(i);
    return out;
  };
  EXPECT_EQ(seen(7), (std::vector<int32_t>{0, 1, 2, 3, 4, 5, 6, 7})) << "a scaffold row";
  EXPECT_EQ(seen(12), (std::vector<int32_t>{0, 1, 2, 3, 9, 10, 11, 12})) << "of one_1";
  EXPECT_EQ(seen(16), (std::vector<int32_t>{0, 1, 2, 3, 5, 6, 9, 10, 11, 12, 13, 14, 15, 16})) << "of sum";
  EXPECT_EQ(seen(20), (std::vector<int32_t>{0, 1, 2, 3, 9, 10, 19, 20, 21, 22, 23})) << "of the block";
  EXPECT_EQ(draft_blocks(s, {.draft_share = 1}, {1, 0, 0, 0})[2].width, 0);
  const Status filled = check_graph_sample(sample_with_absent({{{5}}, {{6}}, {{7}}, {{12}, {13}}}));
  ASSERT_FALSE(filled);
  EXPECT_THAT(filled.error().message,
              testing::HasSubstr("field one_2: expected nothing of an instance that is not named, got 1 tokens"));
}

/// The same rows in another order.
SequenceRows permuted(const SequenceRows& r, std::span<const int32_t> place) {
  const size_t n = r.tokens.size();
  SequenceRows out;
  out.tokens.resize(n), out.positions.resize(n), out.feature.resize(n), out.sees.resize(n);
  for (size_t i = 0; i < n; ++i) {
    const auto to = static_cast<size_t>(place[i]);
    out.tokens[to] = r.tokens[i], out.positions[to] = r.positions[i], out.feature[to] = r.feature[i];
    for (const IndexRange range : r.sees[i])
      for (int32_t k = range.begin; k < range.end; ++k)
        out.sees[to].push_back({place[static_cast<size_t>(k)], place[static_cast<size_t>(k)] + 1});
  }
  for (auto t : r.terms) {
    t.row = place[static_cast<size_t>(t.row)];
    out.terms.push_back(t);
  }
  out.count = r.count;
  return out;
}

// Tiles join rows of several fields and fill small holes between their keys; a shuffled order makes other tiles of the same rows.
TEST(GraphObjective, LossAndGradientsDoNotDependOnTiles) {
  TrainModel model = must(load_model(kDecode / "models" / "shift", Precision::kF64));
  PhiloxStream draw(5, 5);
  uint32_t number = 0;
  for (const Case& c : cases_of("fields.json")) {
    const SequenceRows rows =
        graph_rows(c.sample, draft_blocks(c.sample, {.draft_length = 5, .draft_share = 0.7}, {.seed = 2, .sample = number++}), {})
            .rows;
    std::vector<int32_t> place(rows.tokens.size());
    std::iota(place.begin(), place.end(), 0);
    for (size_t i = place.size(); i > 1; --i) std::swap(place[i - 1], place[draw.below(static_cast<uint32_t>(i))]);
    RowBatch plain, shuffled;
    append_sequence(plain, rows, {}, VisionShape{}, true);
    append_sequence(shuffled, permuted(rows, place), {}, VisionShape{}, false);
    model.clear_gradients();
    const double loss = model.forward_backward(plain, 1).total();
    const std::vector<double> gradient(model.gradients<double>().begin(), model.gradients<double>().end());
    model.clear_gradients();
    EXPECT_NEAR(model.forward_backward(shuffled, 1).total(), loss, 1e-10 * loss);
    double worst = 0, largest = 0;
    for (size_t i = 0; i < gradient.size(); ++i) {
      worst = std::max(worst, std::abs(gradient[i] - model.gradients<double>()[i]));
      largest = std::max(largest, std::abs(gradient[i]));
    }
    EXPECT_LE(worst, 1e-10 * largest);
  }
}

TEST(GraphObjective, RefusesContentsThatTheFormDoesNotAllow) {
  const auto error = [](const Sample& s) {
    const Status status = check_graph_sample(s);
    return status ? std::string("none") : status.error().message;
  };
  EXPECT_EQ(error(instances({{5}, {21}, {8}}, {{6}}, {{7}})), "none");
  EXPECT_THAT(error(instances({{5}}, {{6}}, {{7}})), testing::HasSubstr("field one_2: expected the placeholder"));
  EXPECT_THAT(error(instances({{23}}, {{6}}, {{23}})), testing::HasSubstr("field one_1: expected the placeholder"));
  EXPECT_THAT(error(instances({{5}, {5}, {5}, {5}}, {{6}}, {{23}})),
              testing::HasSubstr("field e: expected at most 3 tokens, got 4"));
  Sample s = instances({{5}}, {{6}}, {{23}});
  s.contents[3].pop_back();
  EXPECT_THAT(error(s), testing::HasSubstr("field sum: expected 2 tokens, got 1"));
  s.contents.pop_back();
  EXPECT_THAT(error(s), testing::HasSubstr("expected contents of 4 fields, got 3"));
  EXPECT_THAT(error(Sample{}), testing::HasSubstr("expected a form"));
}

TEST(GraphObjective, BlocksFollowTheirKeyAndTheirShares) {
  const Sample s = instances({{5}}, {{6}, {7}}, {{23}});
  const GraphRule rule{.draft_length = 6, .draft_share = 0.6, .draft_first = 0.3, .draft_narrow = 0.4};
  EXPECT_EQ(draft_blocks(s, rule, {1, 0, 2, 3}), draft_blocks(s, rule, {1, 0, 2, 3}));
  constexpr int kDraws = 4000;
  double chosen = 0, at_start = 0, full = 0;
  std::map<int32_t, int> cuts;
  for (uint32_t i = 0; i < kDraws; ++i) {
    const auto blocks = draft_blocks(s, rule, {1, 0, i, 0});
    EXPECT_EQ(blocks[2].width, 0);  // forced
    if (blocks[1].width == 0) continue;
    ++chosen;
    at_start += blocks[1].cut == 0;
    full += blocks[1].width == 6;
    ++cuts[blocks[1].cut];
    EXPECT_TRUE(blocks[1].width >= 2 && blocks[1].width <= 6);
  }
  // Bounds: five standard deviations of a share of 4000 or 2400 draws (at most 0.05).
  EXPECT_NEAR(chosen / kDraws, 0.6, 0.05);
  EXPECT_NEAR(at_start / chosen, 0.3 + 0.7 / 3, 0.06);  // items: 6, 7, END
  EXPECT_NEAR(full / chosen, 0.6 + 0.4 / 5, 0.06);
  EXPECT_EQ(cuts.size(), 3U);
}

}  // namespace
}  // namespace slip
