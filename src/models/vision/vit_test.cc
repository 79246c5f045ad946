// SPDX-License-Identifier: Apache-2.0
// Plain ViTs against public implementations' numbers (tests/fixtures/README.md), block by block: DINOv2 with and without registers, with SwiGLU, at sizes whose
// positions are interpolated; OpenVLA's fused towers, its projector and the decoder behind them. max |d| <= 2e-5 (1 + |ref|) in
// f32.
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <filesystem>
#include <map>

#include "base/json.h"
#include "models/config/dino_qwen.h"
#include "models/config/openvla.h"
#include "models/model.h"
#include "models/reference_testing.h"
#include "models/vision/vit_tower.h"

namespace slip {
namespace {

using test::distance, test::kTolerance, test::tensor, test::tensors;

namespace fs = std::filesystem;
const fs::path kModels = fs::path(SLIP_FIXTURES) / "models";

bool same_bits(std::span<const float> a, std::span<const float> b) {
  return a.size() == b.size() && !a.empty() && std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0;
}

json::object config_of(const fs::path& folder) {
  auto v = read_json(folder / "config.json");
  EXPECT_TRUE(v);
  return v->get_object();
}

// ---- Hugging Face's DINOv2 ----

struct Dino {
  std::unique_ptr<ThreadPool> pool;
  std::unique_ptr<Vit> vit;
};

Dino load_dino(const fs::path& folder, WeightType type, int threads) {
  Dino d;
  d.pool = std::make_unique<ThreadPool>(threads);
  auto config = read_dinov2_config(config_of(folder), folder.string(), "");
  EXPECT_TRUE(config) << config.error().message;
  auto checkpoint = Checkpoint::open_folder(folder);
  EXPECT_TRUE(checkpoint);
  WeightReader reader(*checkpoint, *d.pool, {});
  (void)read_vit_weights(reader, *config, type);
  const Status checked = reader.end_check();
  EXPECT_TRUE(checked) << checked.error().message;
  VitWeights weights = read_vit_weights(reader, *config, type);
  const Status loaded = reader.end_load();
  EXPECT_TRUE(loaded) << loaded.error().message;
  d.vit = std::make_unique<Vit>(*config, std::move(weights), *d.pool);
  return d;
}

class DinoFixture : public ::testing::TestWithParam<const char*> {
 protected:
  fs::path folder() const { return kModels / GetParam(); }
  std::vector<fs::path> cases() const {
    std::vector<fs::path> out;
    for (const auto& e : fs::directory_iterator(folder()))
      if (e.path().filename().string().starts_with("expected_")) out.push_back(e.path());
    EXPECT_GE(out.size(), 3u);
    return out;
  }
};

TEST_P(DinoFixture, EveryBlockMatchesTheReferenceAtEverySize) {
  Dino d = load_dino(folder(), WeightType::kF32, 1);
  for (const fs::path& file : cases()) {
    const Checkpoint expected = tensors(file);
    const std::vector<int64_t> shape = expected.find("pixel_values")->shape;
    const std::vector<float> pixels = tensor(expected, "pixel_values");
    std::map<std::string, std::vector<float>> taps;
    d.vit->set_tap(
        [&](std::string_view tap, std::span<const float> x, int64_t) { taps[std::string(tap)].assign(x.begin(), x.end()); });
    const VitImage image{pixels.data(), static_cast<int32_t>(shape[1]), static_cast<int32_t>(shape[2])};
    ASSERT_TRUE(d.vit->check(image, 0));
    const int64_t patches = shape[1] / 14 * (shape[2] / 14), width = d.vit->config().width;
    std::vector<float> features(static_cast<size_t>(patches * width));
    ASSERT_TRUE(d.vit->encode({&image, 1}, features.data(), width));
    EXPECT_EQ(taps.size(), static_cast<size_t>(d.vit->config().depth) + 2);
    double worst = 0;
    for (const auto& [tap, x] : taps) {
      const double off = distance(x, tensor(expected, tap));
      EXPECT_LE(off, kTolerance) << file.filename() << ' ' << tap;
      worst = std::max(worst, off);
    }
    const std::vector<float>& last = taps["final_norm"];
    EXPECT_TRUE(same_bits(features, std::span(last).subspan(last.size() - features.size()))) << "prefix rows are left out";
    std::printf("%s %s: largest |d| / (1 + |ref|) %.2g\n", GetParam(), file.filename().c_str(), worst);
  }
}

TEST_P(DinoFixture, AnImagesFeaturesAreTheSameBitsInAnyCompanyAndOnAnyThreads) {
  for (const WeightType type : {WeightType::kF32, WeightType::kBF16, WeightType::kI8}) {
    Dino one = load_dino(folder(), type, 1), two = load_dino(folder(), type, 2);
    const Checkpoint a = tensors(folder() / "expected_70x98.safetensors"), b = tensors(folder() / "expected_56x56.safetensors");
    const std::vector<float> pa = tensor(a, "pixel_values"), pb = tensor(b, "pixel_values");
    const std::vector<VitImage> images = {{pa.data(), 70, 98}, {pb.data(), 56, 56}};
    const auto width = static_cast<size_t>(one.vit->config().width);
    std::vector<float> together(width * (35 + 16)), alone(together.size());
    ASSERT_TRUE(one.vit->encode(images, together.data(), static_cast<int64_t>(width)));
    ASSERT_TRUE(two.vit->encode({&images[0], 1}, alone.data(), static_cast<int64_t>(width)));
    ASSERT_TRUE(two.vit->encode({&images[1], 1}, alone.data() + 35 * width, static_cast<int64_t>(width)));
    EXPECT_TRUE(same_bits(together, alone));
  }
}

INSTANTIATE_TEST_SUITE_P(Models, DinoFixture, ::testing::Values("dinov2", "dinov2_registers", "dinov2_swiglu"),
                         [](const auto& info) { return std::string(info.param); });

// ---- OpenVLA ----

std::unique_ptr<Model> load_openvla(WeightType type, int threads = 1) {
  auto model = load_model(kModels / "openvla", {type, threads, 64});
  EXPECT_TRUE(model) << model.error().message;
  return std::move(*model);
}

RowsFile openvla_rows() {
  auto rows = read_rows_file(kModels / "openvla/rows_causal.json");
  EXPECT_TRUE(rows);
  return *rows;
}

TEST(OpenVla, TowersAndProjectorMatchTheReferenceBlockByBlock) {
  const auto model = load_openvla(WeightType::kF32);
  auto* tower = dynamic_cast<VitTower*>(model->vision());
  ASSERT_NE(tower, nullptr);
  const Checkpoint expected = tensors(kModels / "openvla/expected_images.safetensors");
  auto image = load_image(kModels / "openvla/image_0.png");
  ASSERT_TRUE(image);
  auto grid = model->preprocess(*image);
  ASSERT_TRUE(grid) << grid.error().message;
  EXPECT_TRUE(same_bits(grid->values, tensor(expected, "pixel_values")));
  EXPECT_EQ(grid->merged(), 16);
  int taps = 0;
  for (size_t i = 0; i < 2; ++i) {
    tower->vit(i).set_tap([&, i](std::string_view name, std::span<const float> x, int64_t) {
      ++taps;
      EXPECT_LE(distance(x, tensor(expected, (i == 0 ? "dino_" : "siglip_") + std::string(name))), kTolerance) << name;
    });
  }
  std::vector<float> features;
  ASSERT_TRUE(model->encode_images({&*grid, 1}, features));
  EXPECT_EQ(taps, 1 + 3 + 1 + 4) << "the last block of each tower does not run";
  const double worst = distance(features, tensor(expected, "features_0"));
  EXPECT_LE(worst, kTolerance);
  std::printf("openvla features: largest |d| / (1 + |ref|) %.2g\n", worst);
}

TEST(OpenVla, LogitsBehindTheImageMatchTheReferenceAtEverySplit) {
  const RowsFile rows = openvla_rows();
  const Checkpoint expected = tensors(kModels / "openvla/expected_causal.safetensors");
  for (const int threads : {1, 2}) {
    const auto model = load_openvla(WeightType::kF32, threads);
    auto features = model->row_features(rows);
    ASSERT_TRUE(features) << features.error().message;
    auto whole = forward_rows(model->lm(), rows, *features);
    ASSERT_TRUE(whole);
    const double worst = distance(*whole, tensor(expected, "logits_TV"));
    EXPECT_LE(worst, kTolerance);
    std::printf("openvla causal: largest |d| / (1 + |ref|) %.2g\n", worst);
    for (const int64_t split : {1, 5}) {
      auto parts = forward_rows(model->lm(), rows, *features, {split, {}, false});
      ASSERT_TRUE(parts);
      EXPECT_TRUE(same_bits(*whole, *parts));
    }
  }
}

TEST(OpenVla, RunsInEveryWeightType) {
  const RowsFile rows = openvla_rows();
  const std::vector<float> reference = tensor(tensors(kModels / "openvla/expected_causal.safetensors"), "logits_TV");
  double size = 0;
  for (const float x : reference) size = std::max(size, std::abs(double{x}));
  for (const WeightType type : {WeightType::kBF16, WeightType::kI8}) {
    const auto one = load_openvla(type, 1), two = load_openvla(type, 2);
    auto features = one->row_features(rows);
    ASSERT_TRUE(features);
    auto logits = forward_rows(one->lm(), rows, *features);
    auto split = forward_rows(two->lm(), rows, *two->row_features(rows), {3, {}, false});
    ASSERT_TRUE(logits);
    ASSERT_TRUE(split);
    EXPECT_TRUE(same_bits(*logits, *split));
    double worst = 0;
    for (size_t i = 0; i < reference.size(); ++i) worst = std::max(worst, std::abs(double{(*logits)[i]} - reference[i]));
    EXPECT_LT(worst, 0.2 * size) << "rounded weights, same model";
  }
}

TEST(OpenVla, PatchesStandBehindTheFirstToken) {
  const auto model = load_openvla(WeightType::kF32);
  auto image = load_image(kModels / "openvla/image_0.png");
  auto grid = model->preprocess(*image);
  const std::vector<TokenId> tokens = {{1}, {62}, {25}};
  auto prompt = model->build_prompt(std::span<const TokenId>(tokens), {&*grid, 1});
  ASSERT_TRUE(prompt) << prompt.error().message;
  ASSERT_EQ(prompt->inputs.size(), 19u);
  EXPECT_EQ(std::get<TokenId>(prompt->inputs[0]).value, 1);
  EXPECT_EQ(std::get<Feature>(prompt->inputs[1]).index, 0);
  EXPECT_EQ(std::get<Feature>(prompt->inputs[16]).index, 15);
  EXPECT_EQ(std::get<TokenId>(prompt->inputs[17]).value, 62);
  EXPECT_EQ(prompt->positions[18], Position::text(18));
  EXPECT_EQ(prompt->next_position, 19);
  EXPECT_FALSE(model->build_prompt(std::span<const TokenId>(), {&*grid, 1}));
}

TEST(OpenVla, ActionsAreThePublishedOnes) {
  const auto config = read_model_config(kModels / "openvla");
  ASSERT_TRUE(config) << config.error().message;
  ASSERT_TRUE(config->action);
  EXPECT_EQ(config->action->bound, 320);
  EXPECT_EQ(config->decoder.norm_eps, 1e-6F);
  EXPECT_EQ(config->bos, TokenId{1});
  auto cases = read_json(kModels / "openvla/actions.json");
  ASSERT_TRUE(cases);
  for (const json::value& c : cases->at("decode").get_array()) {
    std::vector<TokenId> tokens;
    for (const json::value& t : c.at("tokens").get_array()) tokens.push_back({static_cast<int32_t>(t.get_int64())});
    const auto action = decode_action(*config->action, tokens, c.at("unnorm_key").get_string().c_str());
    ASSERT_TRUE(action) << action.error().message;
    for (size_t i = 0; i < tokens.size(); ++i) {
      EXPECT_NEAR(action->normalized[i], c.at("normalized").get_array()[i].to_number<double>(), 1e-12);
      EXPECT_NEAR(action->values[i], c.at("actions").get_array()[i].to_number<double>(), 1e-12);
      EXPECT_EQ(action->is_action[i], tokens[i].value >= 64 && tokens[i].value < 320);
    }
  }
  const ActionBins bins(config->action->bound);
  const json::object& encode = cases->at("encode").get_object();
  for (size_t i = 0; i < encode.at("normalized").get_array().size(); ++i)
    EXPECT_EQ(bins.encode(encode.at("normalized").get_array()[i].to_number<double>()).value,
              encode.at("tokens").get_array()[i].get_int64());
}

TEST(OpenVla, StatisticsAreChosenByKeyAndNeverGuessed) {
  const auto config = read_model_config(kModels / "openvla");
  const std::vector<TokenId> tokens(7, TokenId{100});
  EXPECT_EQ(decode_action(*config->action, tokens, "").error().kind, ErrorKind::kUsage);
  EXPECT_NE(decode_action(*config->action, tokens, "x").error().message.find("bridge_orig, no_mask"), std::string::npos);
  EXPECT_EQ(decode_action(*config->action, std::span(tokens).first(3), "no_mask").error().kind, ErrorKind::kBadInput);
  ActionConfig one = *config->action;
  one.statistics.resize(1);
  EXPECT_EQ(decode_action(one, tokens, "")->unnorm_key, "bridge_orig");
}

TEST(OpenVla, PromptsAreThoseOfTheCheckpointsAuthors) {
  using P = ActionConfig::Prompt;
  EXPECT_EQ(openvla_prompt(P::kPure, "Pick up the CUP"), "In: What action should the robot take to pick up the cup?\nOut:");
  EXPECT_EQ(openvla_prompt(P::kPure, "\u00c9TAG\u00c8RE \u0416 \U00010400 \u0130"),
            "In: What action should the robot take to \u00e9tag\u00e8re \u0436 \U00010428 i\u0307?\nOut:");
  EXPECT_EQ(openvla_prompt(P::kPure, "A\xff\xc3"), "In: What action should the robot take to a\xff\xc3?\nOut:");
  EXPECT_EQ(openvla_prompt(P::kPure, "In: anything\nOut:"), "In: anything\nOut:");
  EXPECT_TRUE(openvla_prompt(P::kVicuna, "go").ends_with("USER: What action should the robot take to go? ASSISTANT:"));
  EXPECT_TRUE(
      openvla_prompt(P::kQwen, "go").ends_with("What action should the robot take to go?<|im_end|>\n<|im_start|>assistant"));
}

// ---- configurations ----

Result<ModelConfig> changed(const fs::path& folder, const std::string& key, const json::value& v) {
  json::object o = config_of(folder);
  o[key] = v;
  return parse_model_config(o, "config.json");
}

TEST(OpenVla, ImpossibleConfigurationsAreRefusedByKey) {
  const fs::path folder = kModels / "openvla";
  for (const auto& [key, text] : std::vector<std::pair<std::string, std::string>>{
           {"timm_model_ids", R"(["vit_huge", "vit_so400m_patch14_siglip_224"])"},
           {"timm_model_ids", R"(["vit_so400m_patch14_siglip_224"])"},
           {"timm_model_ids", "3"},
           {"image_sizes", "[56]"},
           {"image_sizes", "[56, -1]"},
           {"image_sizes", "[99999999999, 56]"},
           {"timm_override_act_layers", R"(["quick_gelu", null])"},
           {"timm_model_args", R"([{"num_heads": 0}, {}])"},
           {"timm_model_args", R"([{"num_heads": 3, "embed_dim": 32}, {"embed_dim": 36, "num_heads": 2}])"},
           {"timm_model_args", R"([{"embed_dim": 4096, "num_heads": 1}, {}])"},
           {"timm_model_args", R"([{"depth": 1}, {}])"},
           {"pad_to_multiple_of", "384"},
           {"n_action_bins", "1"},
           {"n_action_bins", "384"},
           {"norm_stats", R"({"a": {"action": {"q01": [1], "q99": [1, 2]}}})"},
           {"norm_stats", R"({"a": {"action": {"q01": [], "q99": []}}})"},
           {"norm_stats", R"({"a": {"action": {"q01": ["x"], "q99": [1]}}})"},
           {"norm_stats", R"({"a": {"action": {"q01": [1], "q99": [1], "mask": [1]}}})"},
           {"norm_stats", R"({"a": 3})"},
           {"text_config", R"({"model_type": "openvla", "text_config": {"model_type": "llama"}})"},
           {"text_config", "{}"}}) {
    const auto config = changed(folder, key, *parse_json(text, "test"));
    ASSERT_FALSE(config) << key << ' ' << text;
    EXPECT_TRUE(config.error().kind == ErrorKind::kBadInput || config.error().kind == ErrorKind::kUnsupported);
    EXPECT_NE(config.error().message.find("config.json"), std::string::npos) << config.error().message;
  }
}

TEST(OpenVla, ReleasedSizesFollowFromTimmsNames) {
  json::object o = config_of(kModels / "openvla");
  o.erase("timm_model_args");
  o["image_sizes"] = {224, 224};
  o["text_config"] = {{"model_type", "llama"}, {"vocab_size", 32064}};
  const auto config = parse_model_config(o, "config.json");
  ASSERT_TRUE(config) << config.error().message;
  const VitConfig &dino = config->vit_tower->vits[0], &siglip = config->vit_tower->vits[1];
  EXPECT_EQ(std::vector({dino.width, dino.depth, dino.used_depth, dino.heads, dino.mlp_width, dino.prefix_rows(), dino.grid_rows}),
            std::vector({1024, 24, 23, 16, 4096, 5, 16}));
  EXPECT_EQ(std::vector({siglip.width, siglip.depth, siglip.used_depth, siglip.heads, siglip.mlp_width, siglip.prefix_rows(),
                         siglip.grid_rows}),
            std::vector({1152, 27, 26, 16, 4304, 0, 16}));
  EXPECT_TRUE(dino.layer_scale);
  EXPECT_FALSE(siglip.layer_scale);
  EXPECT_EQ(config->vit_tower->projector[0].out, 8704);
  EXPECT_EQ(config->vit_tower->out_width(), 4096);
  EXPECT_EQ(config->action->bound, 32000);
  EXPECT_EQ(config->decoder.width, 4096);
}

}  // namespace
}  // namespace slip
