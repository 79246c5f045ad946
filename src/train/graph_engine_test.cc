// SPDX-License-Identifier: Apache-2.0
// A row trained is a row decoded: the graph objective's rows against the engine's, which runs prompt, scaffold, fields and draft
// blocks as passes of their own over its arena, with the spans of GraphVisibility in its order.
#include <gtest/gtest.h>

#include <cmath>

#include "decode/decoder.h"
#include "models/model.h"
#include "task/codes_folder_testing.h"
#include "train/model/forward_rows.h"
#include "train/objective/graph_cases_testing.h"
#include "train/objective/graph_objective.h"

namespace slip {
namespace {

/// The engine's side: every row has a slot; logits are kept by the trainer's row number.
class Engine {
 public:
  Engine(Model& model, const Sample& s, const GraphRows& g) : lm_(model.lm()), s_(s), g_(g), logits_(g.rows.tokens.size()) {}

  /// handoff: whether hand-off rows stand in for the originals, as GraphVisibility says.
  void run(std::span<const DraftBlock> blocks, bool handoff) {
    const Form& form = s_.graph->form;
    for (int32_t i = 0; i < g_.prompt; ++i) add(i, {{0, i + 1}});
    pass();
    for (int32_t u = 0; u < form.length(); ++u)
      if (const int32_t row = g_.scaffold[static_cast<size_t>(u)]; row >= 0) add(row, {{0, row + 1}});
    pass();
    for (const int32_t v : s_.graph->visibility.order()) {
      const auto f = static_cast<size_t>(v);
      for (int32_t i = 0; i < g_.field_rows[f]; ++i) {
        std::vector<SlotSpan> spans = context(v, handoff);
        const int32_t row = g_.field_row[f] + i;
        spans.push_back({g_.field_row[f], row + 1});
        add(row, std::move(spans));
        pass();  // token by token, as it is decoded
      }
    }
    for (size_t f = 0; f < blocks.size(); ++f) {
      if (g_.draft_row[f] < 0) continue;
      int32_t end = g_.draft_row[f];
      const auto next = static_cast<size_t>(end);
      while (static_cast<size_t>(end) < g_.rows.tokens.size() && g_.rows.sees[static_cast<size_t>(end)] == g_.rows.sees[next])
        ++end;
      for (int32_t row = g_.draft_row[f]; row < end; ++row) {
        std::vector<SlotSpan> spans = context(static_cast<int32_t>(f), handoff);
        const int32_t before = g_.field_row[f] + form.fields()[f].hand_off - 1 + blocks[f].cut;
        if (blocks[f].cut > 0) spans.push_back({g_.field_row[f], before});
        spans.push_back({g_.draft_row[f], end});
        add(row, std::move(spans));
      }
    }
    pass();  // all fields' drafts in one
  }
  const std::vector<float>& logits(size_t row) const { return logits_[row]; }

 private:
  std::vector<SlotSpan> context(int32_t field, bool handoff) const {
    std::vector<SlotSpan> spans{{0, g_.prompt}};
    const Field& own = s_.graph->form.fields()[static_cast<size_t>(field)];
    if (!handoff) {
      for (int32_t u = 0; u < own.start; ++u)
        if (const int32_t row = g_.scaffold[static_cast<size_t>(u)]; row >= 0) spans.push_back({row, row + 1});
    }
    for (const GraphVisibility::Segment& segment : s_.graph->visibility.context(field)) {
      if (segment.field) {
        const auto a = static_cast<size_t>(*segment.field);
        if (g_.field_rows[a] > 0) spans.push_back({g_.field_row[a], g_.field_row[a] + g_.field_rows[a]});
        continue;
      }
      for (int32_t u = segment.begin; handoff && u < segment.end; ++u)
        if (const int32_t row = g_.scaffold[static_cast<size_t>(u)]; row >= 0) spans.push_back({row, row + 1});
    }
    return spans;
  }
  void add(int32_t row, std::vector<SlotSpan> spans) {
    const auto r = static_cast<size_t>(row);
    rows_.push_back({TokenId{g_.rows.tokens[r]}, g_.rows.positions[r], row, static_cast<uint32_t>(spans_.size()),
                     static_cast<uint32_t>(spans.size()), Want::kLogits});
    spans_.insert(spans_.end(), spans.begin(), spans.end());
  }
  void pass() {
    if (rows_.empty()) return;
    const Status done = lm_.forward({.rows = rows_, .spans = spans_}, out_);
    ASSERT_TRUE(done) << done.error().message;
    for (size_t i = 0; i < rows_.size(); ++i) {
      const auto line = out_.logits_V(i);
      logits_[static_cast<size_t>(rows_[i].slot)].assign(line.begin(), line.end());
    }
    rows_.clear();
    spans_.clear();
  }

  Lm& lm_;
  const Sample& s_;
  const GraphRows& g_;
  std::vector<std::vector<float>> logits_;
  std::vector<Row> rows_;
  std::vector<SlotSpan> spans_;
  PassOutput out_;
};

struct Compared {
  double worst = 0, relative = 0;  // the largest difference, as it is and over 1 + |logit|
  int rows = 0, drafts = 0;
};

void compare(Model& model, TrainModel& trainer, const Sample& s, uint32_t number, bool handoff, Compared& result) {
  const auto blocks = draft_blocks(s, {.draft_length = 5, .draft_share = 0.7}, {.seed = 1, .sample = number});
  GraphRows g = graph_rows(s, blocks, {});
  for (size_t i = 0; i < g.rows.tokens.size(); ++i) g.rows.wanted.push_back(static_cast<int32_t>(i));
  RowBatch batch;
  append_sequence(batch, g.rows, {}, VisionShape{}, true);
  const std::vector<float> trained = trainer.logits(batch);
  Engine engine(model, s, g);
  engine.run(blocks, handoff);
  for (size_t row = 0; row < g.rows.tokens.size(); ++row, ++result.rows) {
    const std::vector<float>& e = engine.logits(row);
    for (size_t v = 0; v < e.size(); ++v) {
      const auto off = static_cast<double>(std::abs(e[v] - trained[row * e.size() + v]));
      result.worst = std::max(result.worst, off);
      result.relative = std::max(result.relative, off / (1 + static_cast<double>(std::abs(e[v]))));
    }
  }
  for (const int32_t d : g.draft_row) result.drafts += d >= 0;
}

Compared compare(bool handoff) {
  Compared result;
  std::map<std::string, std::unique_ptr<Model>> engines;
  std::map<std::string, TrainModel> trainers;
  uint32_t number = 0;
  for (const Case& c : cases_of("fields.json")) {
    const std::string name(c.source.at("model").as_string());
    if (!engines.contains(name)) {
      engines[name] =
          must(load_model(kDecode / "models" / name, ModelOptions{.type = WeightType::kF32, .threads = 1, .slots = 512}));
      trainers.emplace(name, must(load_model(kDecode / "models" / name, Precision::kF32)));
    }
    compare(*engines[name], trainers.at(name), c.sample, number++, handoff, result);
  }
  return result;
}

TEST(GraphRowsAndEngine, GiveTheSameLogitsInEveryRow) {
  const Compared c = compare(true);
  EXPECT_GT(c.rows, 500);
  EXPECT_GT(c.drafts, 30);
  EXPECT_LE(c.worst, 1e-4);  // f32: as tests/models/trainer_engine_test.cc
}

TEST(GraphRowsAndEngine, GiveTheSameLogitsOverAFormOfCodes) {
  const test::CodesFolder folder;
  json::value config = must(read_json(folder.path / "config.json"));
  config.at("slipstream").as_object()["cameras"] = false;  // rows of text alone, as above
  folder.write("config.json", config);
  const json::object data{
      {"kind", "simulated"}, {"first_seed", 5000000}, {"count", 10}, {"model", (folder.path / "config.json").string()}};
  const auto source = must(make_source(data, folder.path.string()));
  const auto model = must(load_model(folder.path, ModelOptions{.type = WeightType::kF32, .threads = 1, .slots = 1024}));
  TrainModel trainer = must(load_model(folder.path, Precision::kF32));
  const Tokenizer& tokenizer = *model->tokenizer();
  Compared c, originals;
  for (int64_t i = 0; i < 2; ++i) {
    const Sample s = must(source->get(i));
    ASSERT_EQ(s.contents.back().size(), 6U);
    for (const TokenId id : s.contents.back()) EXPECT_TRUE(tokenizer.token_text(id).starts_with("<|code_"));
    compare(*model, trainer, s, static_cast<uint32_t>(i), true, c);
    compare(*model, trainer, s, static_cast<uint32_t>(i), false, originals);
  }
  EXPECT_GT(c.rows, 200);
  EXPECT_LE(c.relative, 1e-4);  // a trained model's logits are not all near 1, as the fixtures' are
  EXPECT_GT(originals.worst, 1e-2) << "as below";
}

/// The trainer's rows of answers with absent instances pick what the engine drew, and what it drafted in a field's first round.
TEST(GraphRowsAndEngine, GiveTheSameLogitsAndTokensWithAbsentInstances) {
  int absent = 0, drafted = 0;
  Compared c;
  for (const char* name : {"shift", "same"}) {
    const auto model =
        must(load_model(kDecode / "models" / name, ModelOptions{.type = WeightType::kF32, .threads = 1, .slots = 512}));
    TrainModel trainer = must(load_model(kDecode / "models" / name, Precision::kF32));
    const int32_t first_draft = model->lm().info().rule.shift ? -1 : 0;
    for (int32_t first = 30; first < 62; ++first) {
      Sample s = sample_with_absent({});
      const Form& form = s.graph->form;
      s.tokens[0] = {first};
      const Prompt prompt{.inputs = {s.tokens[0], s.tokens[1]}, .positions = s.positions, .next_position = 2};
      DecodeOptions options;
      options.visibility = Visibility::kGraph;
      options.trace = true;
      const Decoded answer = must(decode(model->lm(), prompt, &form, "fields-spec", options));
      s.contents = answer.fields;
      compare(*model, trainer, s, static_cast<uint32_t>(first), true, c);
      std::vector<DraftBlock> blocks(4);
      std::vector<std::vector<TokenId>> drafts(4);
      for (const Round& r : answer.rounds)
        if (const auto f = static_cast<size_t>(*r.field);
            !r.discarded && !r.draft.empty() && r.positions[0] == form.fields()[f].start)
          drafts[f] = r.draft, blocks[f] = {0, 16};
      GraphRows g = graph_rows(s, blocks, {});
      for (size_t i = 0; i < g.rows.tokens.size(); ++i) g.rows.wanted.push_back(static_cast<int32_t>(i));
      RowBatch batch;
      append_sequence(batch, g.rows, {}, VisionShape{}, true);
      const std::vector<float> logits = trainer.logits(batch);
      const auto pick = [&](int32_t row) {
        const auto line = logits.begin() + row * 64;
        return TokenId{static_cast<int32_t>(std::max_element(line, line + 64) - line)};
      };
      for (size_t f = 0; f < 4; ++f) {
        absent += is_absent(form, s.contents, f);
        const int32_t hand_off = form.fields()[f].hand_off;
        const auto items = is_absent(form, s.contents, f) ? std::vector<TokenId>() : drawn_items(form.fields()[f], s.contents[f]);
        for (size_t i = 0; i < items.size(); ++i)
          EXPECT_EQ(pick(g.field_row[f] + hand_off - 1 + static_cast<int32_t>(i)), items[i]) << first << " " << f;
        for (size_t k = 0; k < drafts[f].size(); ++k, drafted += form.may_be_absent(static_cast<int32_t>(f)))
          EXPECT_EQ(pick(g.draft_row[f] + hand_off + first_draft + static_cast<int32_t>(k)), drafts[f][k]) << first << " " << f;
      }
    }
  }
  EXPECT_LE(c.worst, 1e-4);
  EXPECT_GT(absent, 10);
  EXPECT_GT(drafted, 30);
}

TEST(GraphRowsAndEngine, ThatTestSeesOriginalsInPlaceOfHandOffRows) { EXPECT_GT(compare(false).worst, 1e-2); }

}  // namespace
}  // namespace slip
