// SPDX-License-Identifier: Apache-2.0
// dino_qwen in the trainer: its rows are the engine's, its gradients are those of differences, and what is frozen stays.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>

#include "base/file.h"
#include "base/folder_testing.h"
#include "base/must_testing.h"
#include "models/model.h"
#include "train/data/source.h"
#include "train/loop/trainer.h"
#include "train/model/forward_rows.h"
#include "train/model/model_torch.h"
#include "train/model/weights.h"
#include "train/objective/graph_objective.h"

namespace slip {
namespace {

namespace fs = std::filesystem;

/// configs/dino-qwen in small, with a table of positions that has to be resampled.
json::object small_config(bool registers) {
  json::object c = must(read_json(fs::path(SLIP_SOURCE_DIR) / "configs" / "dino-qwen" / "config.json")).as_object();
  json::object& text = c["text_config"].as_object();
  text["hidden_size"] = 32, text["intermediate_size"] = 40, text["num_hidden_layers"] = 2;
  text["num_attention_heads"] = 4, text["num_key_value_heads"] = 2;
  json::object& vision = c["vision_config"].as_object();
  vision["hidden_size"] = 24, vision["num_hidden_layers"] = 2, vision["num_attention_heads"] = 3, vision["image_size"] = 56;
  if (registers) vision["model_type"] = "dinov2_with_registers", vision["use_swiglu_ffn"] = true;
  c["projector"] = {{"hidden_size", registers ? 0 : 40}};
  c["history"].as_object()["hidden_size"] = 20;
  return c;
}

class DinoTraining : public testing::TestWithParam<bool> {
 protected:
  DinoTraining() {
    const fs::path from = fs::path(SLIP_SOURCE_DIR) / "configs";
    fs::copy_file(from / "dino-qwen" / "preprocessor_config.json", folder_.path / "preprocessor_config.json");
    for (const char* name : {"tokenizer.json", "tokenizer_config.json"})
      fs::copy_file(from / "demo-cot" / name, folder_.path / name);
    config_ = small_config(GetParam());
    EXPECT_TRUE(write_file(folder_.path / "config.json", pretty(config_)));
    shape_ = must(ModelShape::from_config(config_, "config.json"));
    source_ = must(make_source(data(), folder_.path.string()));
  }
  json::object data() const {
    return {{"kind", "simulated"},
            {"first_seed", 11},
            {"count", 100},
            {"model", (folder_.path / "config.json").string()},
            {"waypoint_step_m", 0.5}};
  }
  template <class T>
  void randomise(TrainModel& m) const {
    random_weights(m.table(), 3, 0.1, m.values<T>());
    PhiloxStream r(5, 1);  // norms, biases and scales too
    for (const Parameter& p : m.table().parameters)
      if (p.init != InitKind::kNormal)
        for (int64_t i = 0; i < p.count; ++i)
          m.values<T>()[static_cast<size_t>(p.offset + i)] += static_cast<T>(0.2 * (r.uniform() - 0.5));
  }
  /// All prompt rows of some samples, each with the next token as its target.
  static RowBatch prompts(const TrainModel& m, std::span<const Sample> samples) {
    RowBatch batch;
    for (const Sample& s : samples) {
      SequenceRows rows;
      rows.feature = features_of(s);
      rows.positions = s.positions;
      for (size_t i = 0; i < s.tokens.size(); ++i) {
        rows.tokens.push_back(s.tokens[i].value);
        rows.sees.push_back(causal_row(static_cast<int32_t>(i)));
        if (i + 1 < s.tokens.size())
          rows.terms.push_back({static_cast<int32_t>(i), s.tokens[i + 1].value, 1.0 / static_cast<double>(s.tokens.size()), false});
      }
      append_sequence(batch, rows, inputs_of(s), m.shape().vision_rows(), false);
    }
    return batch;
  }

  test::TemporaryFolder folder_;
  json::object config_;
  ModelShape shape_;
  std::unique_ptr<SampleSource> source_;
};
INSTANTIATE_TEST_SUITE_P(Towers, DinoTraining, testing::Bool(),
                         [](const auto& info) { return info.param ? "RegistersAndSwiGlu" : "Plain"; });

TEST_P(DinoTraining, RowsAreTheEngines) {
  TrainModel trainer(shape_, Precision::kF32);
  randomise<float>(trainer);
  ASSERT_TRUE(save_weights(folder_.path / "model.safetensors", trainer.table(), trainer.values<float>(), StoreAs::kF32));
  auto model = must(load_model(folder_.path, ModelOptions{.type = WeightType::kF32, .threads = 1, .slots = 512}));
  const std::vector<Sample> samples{must(source_->get(0)),
                                    must(source_->get(1))};  // of a batch of two, the second is held to the engine
  const Sample& s = samples[1];
  ASSERT_TRUE(check_sample(s)) << check_sample(s).error().message;
  const std::vector<float> trained = trainer.logits(prompts(trainer, samples));

  std::vector<TokenId> tokens;  // a placeholder once for each picture
  for (size_t i = 0; i < s.tokens.size(); ++i)
    if (s.tokens[i] != s.image_token || s.tokens[i - 1] != s.image_token) tokens.push_back(s.tokens[i]);
  std::vector<PatchGrid> grids;
  size_t at = 0;
  for (const auto& g : s.grids) {  // patches back into planes
    PatchGrid grid = must(model->preprocess(Image{224, 196, std::vector<uint8_t>(224UL * 196 * 3)}));
    for (int p = 0; p < g[1] * g[2]; ++p)
      for (int c = 0; c < 3; ++c)
        for (int y = 0; y < 14; ++y)
          for (int x = 0; x < 14; ++x)
            grid.values[static_cast<size_t>((c * grid.plane_height + p / g[2] * 14 + y) * grid.plane_width + p % g[2] * 14 + x)] =
                s.pixel_values[at++];
    grids.push_back(std::move(grid));
  }
  ASSERT_EQ(at, s.pixel_values.size());
  const Prompt prompt = must(model->build_prompt(std::span<const TokenId>(tokens), grids, s.history));
  ASSERT_EQ(prompt.inputs.size(), s.tokens.size());
  std::vector<Row> rows;
  std::vector<SlotSpan> spans;
  for (size_t i = 0; i < prompt.inputs.size(); ++i) {
    spans.push_back({0, static_cast<int32_t>(i) + 1});
    rows.push_back({prompt.inputs[i], prompt.positions[i], static_cast<int32_t>(i), static_cast<uint32_t>(i), 1, Want::kLogits});
    EXPECT_EQ(prompt.positions[i], s.positions[i]);
  }
  PassOutput out;
  ASSERT_TRUE(model->lm().forward({rows, spans, prompt.features_ND}, out));
  double worst = 0;
  const size_t vocab = static_cast<size_t>(shape_.vocab), first = trained.size() / vocab - (rows.size() - 1);
  for (size_t i = 0; i + 1 < rows.size(); ++i)
    for (size_t v = 0; v < vocab; ++v) {
      const double e = static_cast<double>(out.logits_V(i)[v]), t = static_cast<double>(trained[(first + i) * vocab + v]);
      worst = std::max(worst, std::abs(e - t) / (1 + std::abs(e)));
    }
  EXPECT_LT(worst, 1e-4);
}

/// d loss / d w against (loss(w + h) - loss(w - h)) / 2h, in double, for a number of every tensor.
TEST_P(DinoTraining, GradientsAreThoseOfDifferences) {
  TrainModel model(shape_, Precision::kF64);
  randomise<double>(model);
  const std::vector<Sample> samples{must(source_->get(2))};
  const RowBatch batch = prompts(model, samples);
  model.clear_gradients();
  model.forward_backward(batch, 1);
  const std::vector<double> gradients(model.gradients<double>().begin(), model.gradients<double>().end());
  PhiloxStream r(9, 2);
  int checked = 0;
  for (const Parameter& p : model.table().parameters) {
    if (p.name.starts_with("language_model.") && !p.name.ends_with("norm.weight")) continue;  // the objective's tests hold those
    const auto i = static_cast<size_t>(p.offset) + r.below(static_cast<uint32_t>(p.count));
    double& w = model.values<double>()[i];
    const double before = w, h = 1e-5;
    w = before + h;
    const double up = model.loss(batch).total();
    w = before - h;
    const double down = model.loss(batch).total();
    w = before;
    EXPECT_NEAR(gradients[i], (up - down) / (2 * h), 1e-7 + 1e-5 * std::abs(gradients[i])) << p.name << " " << i;
    ++checked;
  }
  EXPECT_GT(checked, 30);
}

TEST_P(DinoTraining, WhatIsFrozenStays) {
  const test::TemporaryFolder out;
  json::object config{{"kind", "graph"},
                      {"model", config_},
                      {"tokenizer", folder_.path.string()},
                      {"data", data()},
                      {"objective", {{"draft_width", 6}}},
                      {"batch", 1},
                      {"steps", 2},
                      {"shards", 1},
                      {"seed", 3},
                      {"optimizer", {{"lr", 1e-3}, {"weight_decay", 0.1}, {"frozen", {"vision_tower."}}}},
                      {"out", (out.path / "run").string()}};
  const TrainConfig c = must(TrainConfig::parse(config, "test"));
  const auto source = must(make_source(c.data, c.tokenizer));
  const TrainReport done = must(train(c, *source, {.quiet = true}));
  TrainModel first(c.shape, Precision::kF32), last = must(load_model(done.checkpoint, Precision::kF32));
  random_weights(first.table(), c.seed, c.init_deviation, first.values<float>());
  for (const Parameter& p : first.table().parameters) {
    const auto part = [&](TrainModel& m) {
      return m.values<float>().subspan(static_cast<size_t>(p.offset), static_cast<size_t>(p.count));
    };
    const bool same = std::ranges::equal(part(first), part(last));
    if (p.name.starts_with("vision_tower.")) {
      EXPECT_TRUE(same) << p.name;
    } else if (p.name.ends_with(".weight")) {
      EXPECT_FALSE(same) << p.name;
    }
  }
  ASSERT_TRUE(slip::load_model(done.checkpoint, ModelOptions{.type = WeightType::kF32, .threads = 1})) << "the engine reads it";
  for (const auto& [frozen, why] : {std::pair{"model.visual.", "expected the beginning of a tensor's name"},
                                    std::pair{"language_model.", "expected tensors beside embed_tokens"}}) {
    config["optimizer"].as_object()["frozen"] = json::array{std::string(frozen)};
    const auto refused = TrainConfig::parse(config, "test");
    ASSERT_FALSE(refused);
    EXPECT_THAT(refused.error().message, testing::HasSubstr(why));
  }
}

}  // namespace
}  // namespace slip
