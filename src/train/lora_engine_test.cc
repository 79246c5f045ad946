// SPDX-License-Identifier: Apache-2.0
// An adapter trained is an adapter drafted with: the folder that the trainer writes, read by the engine, gives the trainer's draft
// logits and, over an answer, the same drafts kept; along a graph too.
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <functional>

#include "base/folder_testing.h"
#include "base/must_testing.h"
#include "base/philox.h"
#include "models/model.h"
#include "train/loop/learners/lora_example.h"
#include "train/model/forward_rows.h"
#include "train/objective/graph_cases_testing.h"

namespace slip {
namespace {

namespace fs = std::filesystem;
const fs::path kBase = fs::path(SLIP_FIXTURES) / "train/models/lora_base";

/// Both factors of every layer: an adapter that says something.
void fill_adapter(LoraLm& lm) {
  random_weights(lm.table().table, 9, 1.0, lm.values<float>());
  PhiloxStream draw(4, 2);
  for (const Group& b : lm.table().b)
    for (int64_t i = 0; i < b.rows * b.columns; ++i)
      lm.values<float>()[static_cast<size_t>(b.offset + i)] = static_cast<float>(draw.uniform(-0.4, 0.4));
}

/// One object for all tests of this file: the trainer's side with a random adapter, and the engine's with its folder.
class LoraAndEngine : public ::testing::Test {
 protected:
  LoraAndEngine()
      : folder_(fs::temp_directory_path() / ("slip_lora_engine" + std::to_string(::getpid()))),
        base_(must(load_model(kBase, Precision::kF32))),
        lm_(base_, rule_, {.has_mask = true, .mask = TokenId{1}}) {
    fill_adapter(lm_);
    EXPECT_TRUE(save_lora(folder_, lm_.table().table, lm_.values<float>(), rule_, "lora_base", StoreAs::kF32));
    engine_ = must(load_model(kBase, ModelOptions{.type = WeightType::kF32, .threads = 1, .slots = 128, .draft_adapter = folder_}));
    lm_.reserve(128);
  }
  ~LoraAndEngine() override { fs::remove_all(folder_); }

  static double worst(const PassOutput& a, const PassOutput& b) {
    EXPECT_EQ(a.logits_NV.size(), b.logits_NV.size());
    double d = 0;
    for (size_t i = 0; i < a.logits_NV.size(); ++i) d = std::max(d, static_cast<double>(std::abs(a.logits_NV[i] - b.logits_NV[i])));
    return d;
  }

  /// Of all draws of an answer: by how much the model's largest logit leads.
  double smallest_lead(const Prompt& prompt, std::span<const TokenId> answer) {
    std::vector<Row> rows;
    std::vector<SlotSpan> spans;
    PassOutput out;
    const auto add = [&](RowInput input) {
      const auto i = static_cast<int32_t>(rows.size());
      spans.push_back({0, i + 1});
      rows.push_back({input, Position::text(i), i, static_cast<uint32_t>(i), 1, Want::kLogits});
    };
    for (const RowInput& input : prompt.inputs) add(input);
    for (const TokenId id : answer) add(id);
    EXPECT_TRUE(engine_->lm().forward({.rows = rows, .spans = spans}, out));
    double lead = 1e9;
    for (size_t i = prompt.inputs.size() - 1; i + 1 < rows.size(); ++i) {
      std::vector<float> z(out.logits_V(i).begin(), out.logits_V(i).end());
      std::partial_sort(z.begin(), z.begin() + 2, z.end(), std::greater<>());
      lead = std::min(lead, static_cast<double>(z[0] - z[1]));
    }
    return lead;
  }

  const LoraRule rule_{.rank = 3, .alpha = 6, .width = 5};
  fs::path folder_;
  TrainModel base_;
  LoraLm lm_;
  std::unique_ptr<Model> engine_;
};

TEST_F(LoraAndEngine, GiveTheSameLogitsWithAndWithoutIt) {
  std::vector<Row> rows;
  std::vector<SlotSpan> spans;
  PassOutput trained, served;
  const auto both = [&](bool adapter) {
    ASSERT_TRUE(lm_.forward({.rows = rows, .spans = spans, .draft_adapter = adapter}, trained));
    ASSERT_TRUE(engine_->lm().forward({.rows = rows, .spans = spans, .draft_adapter = adapter}, served));
  };
  for (int32_t i = 0; i < 9; ++i) {
    spans.push_back({0, i + 1});
    rows.push_back({TokenId{30 + i}, Position::text(i), i, static_cast<uint32_t>(i), 1, Want::kLogits});
  }
  both(false);
  EXPECT_LE(worst(trained, served), 1e-4);  // f32: as tests/models/trainer_engine_test.cc
  rows.clear();
  spans = {{0, 14}};
  for (int32_t i = 9; i < 14; ++i) rows.push_back({TokenId{i == 9 ? 12 : 1}, Position::text(i), i, 0, 1, Want::kLogits});
  both(false);
  const std::vector<float> plain = trained.logits_NV;
  both(true);
  EXPECT_LE(worst(trained, served), 1e-4);
  double change = 0;
  for (size_t i = 0; i < plain.size(); ++i)
    change = std::max(change, static_cast<double>(std::abs(plain[i] - trained.logits_NV[i])));
  EXPECT_GT(change, 0.1) << "the adapter says something";
}

TEST_F(LoraAndEngine, DecodeTheSameAnswersWithTheSameDraftsKept) {
  int64_t tested = 0, compared = 0;
  for (int32_t n = 0; n < 8; ++n) {
    RowBatch rows;
    Prompt prompt{.next_position = 6};
    for (int32_t i = 0; i < 6; ++i) {
      rows.tokens.push_back(8 + (7 * n + 5 * i) % 50);
      rows.positions.push_back(Position::text(i));
      prompt.inputs.emplace_back(TokenId{rows.tokens.back()});
    }
    prompt.positions = rows.positions;
    LoraExample example(lm_, rule_);
    const LoraSums taught = must(example.run(rows, {.next_position = 6, .limit = 24}));
    Method method = must(method_of("self-spec"));
    method.drafter = DiffusionSpec{.adapter = true};
    method.draft_length.tokens = rule_.width;
    const Decoded served = must(Decoder(engine_->lm(), method).decode(prompt, nullptr, {.limit = 24}));
    if (smallest_lead(prompt, example.tokens()) < 1e-4) continue;  // two libraries' roundings may choose between two ids there
    ++compared;
    EXPECT_EQ(served.tokens, std::vector<TokenId>(example.tokens().begin(), example.tokens().end())) << n;
    EXPECT_EQ(served.statistics.tested, taught.tested);
    EXPECT_EQ(served.statistics.accepted, taught.accepted);
    EXPECT_EQ(served.statistics.forwards, taught.forwards);
    tested += taught.tested;
  }
  EXPECT_GE(compared, 5);
  EXPECT_GT(tested, 20);
}

/// A model of tests/fixtures/decode in the trainer, with an adapter, and in the engine.
struct GraphPair {
  test::TemporaryFolder folder;
  LoraRule rule{.rank = 3, .alpha = 6, .by_blocks = true};
  std::unique_ptr<Model> engine;
  TrainModel base;
  LoraLm lm;

  explicit GraphPair(const fs::path& model, Model& plain)
      : base(must(load_model(model, Precision::kF32))), lm(base, rule, plain.lm().info().rule) {
    fill_adapter(lm);
    EXPECT_TRUE(save_lora(folder.path, lm.table().table, lm.values<float>(), rule, "graph", StoreAs::kF32));
    engine = must(load_model(model, {.type = WeightType::kF32, .threads = 1, .slots = 1024, .draft_adapter = folder.path}));
  }
};

/// The answer of the engine, with its own drafts or the adapter's.
Decoded served_by(GraphPair& pair, const Case& c, bool adapter) {
  Prompt prompt{.next_position = c.sample.next_position};
  for (const TokenId id : c.sample.tokens) prompt.inputs.emplace_back(id);
  prompt.positions = c.sample.positions;
  Method method = must(method_of("fields-spec"));
  method.drafter = DiffusionSpec{.adapter = adapter};
  DecodeOptions options;
  options.visibility = Visibility::kGraph;
  return must(Decoder(pair.engine->lm(), method).decode(prompt, &c.sample.graph->form, options));
}

TEST(LoraAlongAGraph, TeachesWhatTheEngineDrafts) {
  std::map<std::string, std::unique_ptr<GraphPair>> pairs;
  int64_t tested = 0, missed = 0, blocks = 0, rounds = 0, changed = 0;
  for (const Case& c : cases_of("fields.json")) {
    const std::string name(c.source.at("model").as_string());
    if (!pairs.contains(name)) {
      const auto plain = must(load_model(kDecode / "models" / name, {.type = WeightType::kF32, .threads = 1, .slots = 16}));
      pairs[name] = std::make_unique<GraphPair>(kDecode / "models" / name, *plain);
    }
    GraphPair& pair = *pairs[name];
    const Decoded with = served_by(pair, c, true), without = served_by(pair, c, false);
    LoraExample example(pair.lm, pair.rule);
    pair.lm.clear_gradients();
    const LoraSums taught = must(example.run(prompt_batch(c.sample, VisionShape{}), must(lora_task(c.sample))));
    // The recorded answers are those of another implementation.
    EXPECT_EQ(with.fields, c.sample.contents) << c.source.at("name");
    EXPECT_EQ(std::vector<TokenId>(example.tokens().begin(), example.tokens().end()), with.tokens) << c.source.at("name");
    EXPECT_EQ(taught.tested, with.statistics.tested);
    EXPECT_EQ(taught.accepted, with.statistics.accepted);
    EXPECT_EQ(taught.forwards, with.statistics.forwards);
    EXPECT_EQ(taught.positions, taught.tested);
    EXPECT_EQ(taught.agreed, taught.accepted) << "the loss reads the rows that drafted and verified";
    tested += taught.tested;
    missed += taught.tested - taught.accepted;
    blocks += taught.blocks;
    rounds += with.statistics.rounds;
    changed += with.statistics.accepted != without.statistics.accepted;
  }
  EXPECT_GT(tested, 100);
  EXPECT_GT(missed, 0);
  EXPECT_GT(blocks, rounds) << "a round has a block for every field that is being decoded";
  EXPECT_GT(changed, 0) << "the adapter says something";
}

}  // namespace
}  // namespace slip
