// SPDX-License-Identifier: Apache-2.0
// dino_qwen: a folder of random weights in our own layout, from pictures and ego history to logits, held against the parts computed
// by hand.
#include <gtest/gtest.h>

#include <unistd.h>

#include <cmath>
#include <cstring>
#include <filesystem>

#include "base/json.h"
#include "base/philox.h"
#include "models/model.h"
#include "models/vision/vit_tower.h"

namespace slip {
namespace {

namespace fs = std::filesystem;

// A folder that goes with the test. Text: Qwen2 of width 32, tower: DINOv2 of width 24, pooled 2 x 2.
class DinoQwen : public ::testing::Test {
 protected:
  DinoQwen() : folder_(fs::temp_directory_path() / fmt::format("dino_qwen_{}", ::getpid())) {
    fs::create_directories(folder_);
    config_ = parse_json(R"({"architectures": ["DinoQwenForCausalLM"], "model_type": "dino_qwen", "torch_dtype": "float32",
      "image_token_id": 40, "pooling": 2, "projector": {"hidden_size": 48},
      "history": {"token_id": 41, "states": 4, "hidden_size": 20, "scale": [0.1, 0.1, 0.2, 0.2, 1, 1]},
      "text_config": {"model_type": "qwen2", "vocab_size": 64, "hidden_size": 32, "intermediate_size": 40, "num_hidden_layers": 2,
        "num_attention_heads": 4, "num_key_value_heads": 2, "tie_word_embeddings": true, "rope_theta": 1000000.0},
      "vision_config": {"model_type": "dinov2", "hidden_size": 24, "num_hidden_layers": 2, "num_attention_heads": 3, "mlp_ratio": 2,
        "image_size": 56, "patch_size": 14}})",
                         "test")
                  ->get_object();
    preprocessor_ = R"({"image_processor_type": "BitImageProcessor", "do_resize": true, "size": {"height": 70, "width": 98},
      "do_center_crop": false, "resample": 3, "image_mean": [0.485, 0.456, 0.406], "image_std": [0.229, 0.224, 0.225]})";
  }
  ~DinoQwen() override {
    std::error_code ec;
    fs::remove_all(folder_, ec);
  }

  std::vector<float>& add(const std::string& name, std::vector<int64_t> shape, float scale = 0.15F, float mean = 0) {
    int64_t n = 1;
    for (const int64_t s : shape) n *= s;
    auto& values = values_[name];
    shapes_[name] = std::move(shape);
    for (int64_t i = 0; i < n; ++i) {
      const auto x = static_cast<double>(seed_ = seed_ * 6364136223846793005U + 1442695040888963407U);
      values.push_back(mean + scale * static_cast<float>(std::sin(x / 1e12)));
    }
    return values;
  }
  void linear(const std::string& name, int64_t n, int64_t k, bool bias = true) {
    add(name + ".weight", {n, k});
    if (bias) add(name + ".bias", {n});
  }

  void make_weights() {
    add("language_model.model.embed_tokens.weight", {64, 32}, 1);
    for (int i = 0; i < 2; ++i) {
      const std::string p = fmt::format("language_model.model.layers.{}.", i);
      linear(p + "self_attn.q_proj", 32, 32);
      linear(p + "self_attn.k_proj", 16, 32);
      linear(p + "self_attn.v_proj", 16, 32);
      linear(p + "self_attn.o_proj", 32, 32, false);
      linear(p + "mlp.gate_proj", 40, 32, false);
      linear(p + "mlp.up_proj", 40, 32, false);
      linear(p + "mlp.down_proj", 32, 40, false);
      add(p + "input_layernorm.weight", {32}, 0.2F, 1);
      add(p + "post_attention_layernorm.weight", {32}, 0.2F, 1);
      const std::string v = fmt::format("vision_tower.encoder.layer.{}.", i);
      for (const char* norm : {"norm1", "norm2"}) {
        add(v + norm + ".weight", {24}, 0.2F, 1);
        add(v + norm + ".bias", {24});
      }
      for (const char* part : {"query", "key", "value"}) linear(v + "attention.attention." + part, 24, 24);
      linear(v + "attention.output.dense", 24, 24);
      add(v + "layer_scale1.lambda1", {24}, 0.2F, 1);
      add(v + "layer_scale2.lambda1", {24}, 0.2F, 1);
      linear(v + "mlp.fc1", 48, 24);
      linear(v + "mlp.fc2", 24, 48);
    }
    add("language_model.model.norm.weight", {32}, 0.2F, 1);
    add("vision_tower.embeddings.cls_token", {1, 1, 24});
    add("vision_tower.embeddings.position_embeddings", {1, 17, 24});
    add("vision_tower.embeddings.patch_embeddings.projection.weight", {24, 3, 14, 14}, 0.02F);
    add("vision_tower.embeddings.patch_embeddings.projection.bias", {24});
    add("vision_tower.layernorm.weight", {24}, 0.2F, 1);
    add("vision_tower.layernorm.bias", {24});
    linear("projector.fc1", 48, 24);
    linear("projector.fc2", 32, 48);
    linear("history.fc1", 20, 24);
    linear("history.fc2", 32, 20);
  }

  void write() {
    ASSERT_TRUE(write_file(folder_ / "config.json", json::serialize(config_)));
    ASSERT_TRUE(write_file(folder_ / "preprocessor_config.json", preprocessor_));
    std::vector<TensorToWrite> tensors;
    for (const auto& [name, values] : values_)
      tensors.push_back({name, DType::kF32, shapes_[name], std::as_bytes(std::span(values))});
    ASSERT_TRUE(write_safetensors(folder_ / "model.safetensors", tensors));
  }
  Result<std::unique_ptr<Model>> load(WeightType type = WeightType::kF32) {
    make_weights();
    write();
    return load_model(folder_, {type, 1, 128});
  }

  static Image picture() {
    Image image{120, 80, {}};
    for (int i = 0; i < 120 * 80 * 3; ++i) image.rgb.push_back(static_cast<uint8_t>(i * 37 % 251));
    return image;
  }
  static std::vector<float> history() {
    std::vector<float> h;
    for (int i = 0; i < 24; ++i) h.push_back(static_cast<float>(i) * 0.3F - 2);
    return h;
  }

  fs::path folder_;
  json::object config_;
  std::string preprocessor_;
  std::map<std::string, std::vector<float>> values_;
  std::map<std::string, std::vector<int64_t>> shapes_;
  uint64_t seed_ = 1;
};

TEST_F(DinoQwen, PicturesAndHistoryBecomeRowsAtTheirPlaceholders) {
  auto model = load();
  ASSERT_TRUE(model) << model.error().message;
  auto grid = (*model)->preprocess(picture());
  ASSERT_TRUE(grid) << grid.error().message;
  EXPECT_EQ(grid->merged(), 2 * 3) << "5 x 7 patches, pooled 2 x 2; what does not fill a pool is left out";
  const std::vector<PatchGrid> images = {*grid, *grid};
  const std::vector<TokenId> tokens = {{3}, {40}, {4}, {41}, {40}, {5}};
  auto prompt = (*model)->build_prompt(std::span<const TokenId>(tokens), images, history());
  ASSERT_TRUE(prompt) << prompt.error().message;
  ASSERT_EQ(prompt->inputs.size(), 4u + 12);
  EXPECT_EQ(std::get<Feature>(prompt->inputs[1]).index, 0);
  EXPECT_EQ(std::get<TokenId>(prompt->inputs[7]).value, 4);
  EXPECT_EQ(std::get<Feature>(prompt->inputs[8]).index, 12) << "the history's row lies behind the images'";
  EXPECT_EQ(std::get<Feature>(prompt->inputs[9]).index, 6);
  EXPECT_EQ(prompt->features.numbers_ND.size(), 13u * 32);
  EXPECT_EQ(prompt->positions.back(), Position::text(15));
  // The history's row by hand.
  std::vector<double> hidden;
  const std::vector<double> scale = {0.1, 0.1, 0.2, 0.2, 1, 1};
  for (size_t n = 0; n < 20; ++n) {
    double x = values_["history.fc1.bias"][n];
    for (size_t k = 0; k < 24; ++k) x += history()[k] * scale[k % 6] * double{values_["history.fc1.weight"][n * 24 + k]};
    hidden.push_back(0.5 * x * (1 + std::erf(x / std::sqrt(2.0))));
  }
  for (size_t n = 0; n < 32; ++n) {
    double x = values_["history.fc2.bias"][n];
    for (size_t k = 0; k < 20; ++k) x += hidden[k] * double{values_["history.fc2.weight"][n * 20 + k]};
    EXPECT_NEAR(prompt->features.numbers_ND[12 * 32 + n], x, 1e-5 * (1 + std::abs(x)));
  }
}

TEST_F(DinoQwen, PoolingIsTheMeanOfPatchFeatures) {
  auto pooled = load();
  ASSERT_TRUE(pooled);
  auto* tower = dynamic_cast<VitTower*>((*pooled)->vision());
  ASSERT_NE(tower, nullptr);
  auto grid = (*pooled)->preprocess(picture());
  std::vector<float> last, features;
  tower->vit(0).set_tap([&](std::string_view name, std::span<const float> x, int64_t) {
    if (name == "final_norm") last.assign(x.begin(), x.end());
  });
  ASSERT_TRUE((*pooled)->encode_images({&*grid, 1}, features));
  ASSERT_EQ(last.size(), 36u * 24);
  std::vector<double> mean(24, 0), hidden;  // of the second pool of the first row: patches 2, 3, 9, 10 behind cls
  for (const size_t patch : {2, 3, 9, 10})
    for (size_t i = 0; i < 24; ++i) mean[i] += last[(1 + patch) * 24 + i] / 4.0;
  for (size_t n = 0; n < 48; ++n) {
    double x = values_["projector.fc1.bias"][n];
    for (size_t k = 0; k < 24; ++k) x += mean[k] * double{values_["projector.fc1.weight"][n * 24 + k]};
    hidden.push_back(0.5 * x * (1 + std::erf(x / std::sqrt(2.0))));
  }
  for (size_t n = 0; n < 32; ++n) {
    double x = values_["projector.fc2.bias"][n];
    for (size_t k = 0; k < 48; ++k) x += hidden[k] * double{values_["projector.fc2.weight"][n * 48 + k]};
    EXPECT_NEAR(features[32 + n], x, 1e-5 * (1 + std::abs(x)));
  }
}

TEST_F(DinoQwen, RunsInEveryWeightTypeAndAPromptGivesFiniteLogits) {
  for (const WeightType type : {WeightType::kF32, WeightType::kBF16, WeightType::kI8}) {
    values_.clear();
    seed_ = 1;
    auto model = load(type);
    ASSERT_TRUE(model) << model.error().message;
    auto grid = (*model)->preprocess(picture());
    const std::vector<TokenId> tokens = {{3}, {40}, {41}, {5}};
    auto prompt = (*model)->build_prompt(std::span<const TokenId>(tokens), {&*grid, 1}, history());
    ASSERT_TRUE(prompt);
    std::vector<Row> rows;
    std::vector<SlotSpan> spans;
    for (size_t i = 0; i < prompt->inputs.size(); ++i) {
      spans.push_back({0, static_cast<int32_t>(i) + 1});
      rows.push_back(
          {prompt->inputs[i], prompt->positions[i], static_cast<int32_t>(i), static_cast<uint32_t>(i), 1, Want::kLogits});
    }
    PassOutput out;
    ASSERT_TRUE((*model)->lm().forward({rows, spans, prompt->features}, out));
    EXPECT_EQ(out.nan_rows, 0);
  }
}

TEST_F(DinoQwen, PlaceholdersAndHistoriesThatDoNotFitAreRefused) {
  auto model = load();
  ASSERT_TRUE(model);
  auto grid = (*model)->preprocess(picture());
  const auto refused = [&](std::vector<TokenId> tokens, size_t images, std::vector<float> h) {
    const std::vector<PatchGrid> grids(images, *grid);
    const auto prompt = (*model)->build_prompt(std::span<const TokenId>(tokens), grids, h);
    EXPECT_FALSE(prompt);
    return prompt ? ErrorKind::kInternal : prompt.error().kind;
  };
  EXPECT_EQ(refused({{3}, {40}}, 0, {}), ErrorKind::kBadInput);
  EXPECT_EQ(refused({{3}}, 1, {}), ErrorKind::kBadInput);
  EXPECT_EQ(refused({{3}, {41}}, 0, {}), ErrorKind::kBadInput);
  EXPECT_EQ(refused({{3}}, 0, history()), ErrorKind::kBadInput);
  EXPECT_EQ(refused({{41}}, 0, {1, 2}), ErrorKind::kBadInput);
  EXPECT_EQ(refused({}, 0, {}), ErrorKind::kBadInput);
  PatchGrid wrong = *grid;
  wrong.values.pop_back();
  std::vector<float> features;
  EXPECT_FALSE((*model)->encode_images({&wrong, 1}, features));
  wrong = *grid;
  wrong.h = 1 << 20;
  EXPECT_FALSE((*model)->encode_images({&wrong, 1}, features));
}

TEST_F(DinoQwen, ImpossibleConfigurationsAreRefused) {
  for (const auto& [key, text] :
       std::vector<std::pair<std::string, std::string>>{{"image_token_id", "64"},
                                                        {"image_token_id", "null"},
                                                        {"pooling", "0"},
                                                        {"projector", R"({"hidden_size": -1})"},
                                                        {"history", R"({"states": 4})"},
                                                        {"history", R"({"token_id": 40})"},
                                                        {"history", R"({"token_id": 41, "scale": [1, 2]})"},
                                                        {"vision_config", R"({"model_type": "vit"})"},
                                                        {"vision_config", R"({"hidden_size": 24, "num_attention_heads": 5})"},
                                                        {"vision_config", R"({"hidden_size": 4096, "num_attention_heads": 1})"},
                                                        {"vision_config", R"({"hidden_act": "relu"})"},
                                                        {"vision_config", R"({"qkv_bias": false})"},
                                                        {"vision_config", R"({"image_size": 3})"},
                                                        {"text_config", R"({"model_type": "llama"})"}}) {
    json::object changed = config_;
    changed[key] = *parse_json(text, "test");
    const auto config = parse_model_config(changed, "config.json");
    ASSERT_FALSE(config) << key << ' ' << text;
    EXPECT_TRUE(config.error().kind == ErrorKind::kBadInput || config.error().kind == ErrorKind::kUnsupported);
  }
}

}  // namespace
}  // namespace slip
