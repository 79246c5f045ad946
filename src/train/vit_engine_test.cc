// SPDX-License-Identifier: Apache-2.0
// Plain ViTs in the trainer: rows of dino_qwen and OpenVLA are the engine's, gradients are those of differences, and what is frozen stays.
// OpenVLA besides: its samples are the engine's prompts, and what was taught is what a checkpoint answers.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "base/file.h"
#include "base/folder_testing.h"
#include "base/must_testing.h"
#include "convert/synthesize.h"
#include "engine/engine.h"
#include "train/loop/trainer.h"
#include "train/model/forward_rows.h"
#include "train/model/weights.h"

namespace slip {
namespace {

namespace fs = std::filesystem;

/// Norms, biases and scales too.
template <class T>
void randomise(TrainModel& m) {
  random_weights(m.table(), 3, 0.1, m.values<T>());
  PhiloxStream r(5, 1);
  for (const Parameter& p : m.table().parameters)
    if (p.init != InitKind::kNormal)
      for (int64_t i = 0; i < p.count; ++i)
        m.values<T>()[static_cast<size_t>(p.offset + i)] += static_cast<T>(0.2 * (r.uniform() - 0.5));
}

/// All rows of some samples, each with the next token as its target.
RowBatch causal_rows(const TrainModel& m, std::span<const Sample> samples) {
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

/// A sample's patches back as planes; `like` becomes such a grid.
std::vector<PatchGrid> planes_of(const Sample& s, const Model& model, const Image& like) {
  std::vector<PatchGrid> grids;
  size_t at = 0;
  for (const auto& g : s.grids) {
    PatchGrid grid = must(model.preprocess(like));
    for (int p = 0; p < g[1] * g[2]; ++p)
      for (int c = 0; c < model.config().vit_tower->channels(); ++c)
        for (int y = 0; y < 14; ++y)
          for (int x = 0; x < 14; ++x)
            grid.values[static_cast<size_t>((c * grid.plane_height + p / g[2] * 14 + y) * grid.plane_width + p % g[2] * 14 + x)] =
                s.pixel_values[at++];
    grids.push_back(std::move(grid));
  }
  EXPECT_EQ(at, s.pixel_values.size());
  return grids;
}

/// Of a batch of samples, the last one's logits beside those of the engine, which reads the weights from `folder`: the largest difference.
double worst_beside_engine(TrainModel& trainer, std::span<const Sample> samples, const fs::path& folder, const Image& like) {
  randomise<float>(trainer);
  EXPECT_TRUE(save_weights(folder / "model.safetensors", trainer.table(), trainer.values<float>(), StoreAs::kF32));
  const auto model = must(load_model(folder, ModelOptions{.type = WeightType::kF32, .threads = 1, .slots = 512}));
  const Sample& s = samples.back();
  EXPECT_TRUE(check_sample(s));
  std::vector<TokenId> tokens;  // a placeholder once for each picture, or none
  for (size_t i = 0; i < s.tokens.size(); ++i)
    if (s.tokens[i] != s.image_token || (model->config().image_token && s.tokens[i - 1] != s.image_token))
      tokens.push_back(s.tokens[i]);
  const Prompt prompt = must(model->build_prompt(std::span<const TokenId>(tokens), planes_of(s, *model, like), s.history));
  EXPECT_EQ(prompt.positions, s.positions);
  std::vector<Row> rows;
  std::vector<SlotSpan> spans;
  for (size_t i = 0; i < prompt.inputs.size(); ++i) {
    spans.push_back({0, static_cast<int32_t>(i) + 1});
    rows.push_back({prompt.inputs[i], prompt.positions[i], static_cast<int32_t>(i), static_cast<uint32_t>(i), 1, Want::kLogits});
  }
  PassOutput out;
  EXPECT_TRUE(model->lm().forward({rows, spans, prompt.features}, out));
  const std::vector<float> trained = trainer.logits(causal_rows(trainer, samples));
  double worst = 0;
  const auto vocab = static_cast<size_t>(trainer.shape().vocab), first = trained.size() / vocab - (rows.size() - 1);
  for (size_t i = 0; i + 1 < rows.size(); ++i)
    for (size_t v = 0; v < vocab; ++v) {
      const auto e = static_cast<double>(out.logits_V(i)[v]), t = static_cast<double>(trained[(first + i) * vocab + v]);
      worst = std::max(worst, std::abs(e - t) / (1 + std::abs(e)));
    }
  return worst;
}

/// d loss / d w against (loss(w + h) - loss(w - h)) / 2h, in double, for a number of every tensor in front of the text model, and of its
/// norms (the objective's tests hold the rest); and all against ATen's operations, as on a device.
void expect_gradients_of_differences(const ModelShape& shape, const Sample& sample) {
  TrainModel model(shape, Precision::kF64), aten(shape, Precision::kF64, {.operations = Operations::kAten});
  randomise<double>(model);
  randomise<double>(aten);
  const RowBatch batch = causal_rows(model, {&sample, 1});
  model.clear_gradients();
  model.forward_backward(batch, 1);
  aten.forward_backward(batch, 1);
  const std::vector<double> gradients(model.gradients<double>().begin(), model.gradients<double>().end());
  for (size_t i = 0; i < gradients.size(); ++i)
    ASSERT_NEAR(gradients[i], aten.gradients<double>()[i], 1e-10 * (1 + std::abs(gradients[i])));
  PhiloxStream r(9, 2);
  int checked = 0;
  for (const Parameter& p : model.table().parameters) {
    if (p.name.starts_with("language_model.") && !p.name.ends_with("norm.weight")) continue;
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
  test::TemporaryFolder folder_;
  json::object config_;
  ModelShape shape_;
  std::unique_ptr<SampleSource> source_;
};
INSTANTIATE_TEST_SUITE_P(Towers, DinoTraining, testing::Bool(),
                         [](const auto& info) { return info.param ? "RegistersAndSwiGlu" : "Plain"; });

TEST_P(DinoTraining, RowsAreTheEngines) {
  TrainModel trainer(shape_, Precision::kF32);
  const std::vector<Sample> samples{must(source_->get(0)), must(source_->get(1))};
  EXPECT_LT(worst_beside_engine(trainer, samples, folder_.path, {224, 196, std::vector<uint8_t>(224UL * 196 * 3)}), 1e-4);
}

TEST_P(DinoTraining, GradientsAreThoseOfDifferences) { expect_gradients_of_differences(shape_, must(source_->get(2))); }

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

constexpr std::array<std::array<double, 7>, 3> kActions = {
    {{-0.5, -0.3, -0.1, 0, 0.1, 0.3, 0}, {0.4, 0.2, 0.2, 0.4, -0.4, -0.2, 1}, {0.01, -0.02, 0.03, -0.04, 0.05, 0.9, 0.5}}};

Image picture(size_t number) {
  Image out{40, 30, {}};
  for (size_t i = 0; i < 40UL * 30 * 3; ++i) out.rgb.push_back(static_cast<uint8_t>(number * 80 + i % 3 * 40 + i / 3 % 40));
  return out;
}

json::object as_object(const fs::path& file) { return must(read_json(file)).as_object(); }

/// The folder of `slipstream synthesize --like openvla-7b --tiny`, and steps of three pictures.
class OpenVlaTraining : public testing::Test {
 protected:
  OpenVlaTraining() : model_(folder_.path / "model") {
    ThreadPool pool(1);
    EXPECT_TRUE(synthesize({.like = "openvla-7b", .dtype = "f32", .seed = 3, .tiny = true}, model_, pool));
    for (size_t i = 0; i < kActions.size(); ++i) {
      const std::vector<std::byte> png = must(encode_png(picture(i)));
      EXPECT_TRUE(write_file(folder_.path / fmt::format("{}.png", i), {reinterpret_cast<const char*>(png.data()), png.size()}));
      steps_ += fmt::format("{{\"image\": \"{}.png\", \"instruction\": \"Pick up the cup\", \"action\": [{}]}}\n", i,
                            fmt::join(kActions[i], ", "));
    }
  }
  Result<std::unique_ptr<SampleSource>> source(const std::string& steps, const json::object& more = {}) const {
    EXPECT_TRUE(write_file(folder_.path / "steps.jsonl", steps));
    json::object asked = data();
    for (const auto& [key, value] : more) asked[key] = value;
    return make_source(asked, model_.string());
  }
  json::object data() const {
    return {
        {"kind", "actions"}, {"records", (folder_.path / "steps.jsonl").string()}, {"model", (model_ / "config.json").string()}};
  }
  /// Changes the folder's configurations; its weights go.
  void vary(bool one_tower, bool qwen) {
    json::object config = as_object(model_ / "config.json"), rules = as_object(model_ / "preprocessor_config.json");
    for (json::object* o : {&config, &rules})
      for (auto& [key, value] : *o)
        if (one_tower && value.is_array() && value.get_array().size() == 2) value.get_array().resize(1);
    config["use_fused_vision_backbone"] = rules["use_fused_vision_backbone"] = !one_tower;
    if (qwen) config["text_config"].as_object()["model_type"] = "qwen2";
    EXPECT_TRUE(write_file(model_ / "config.json", pretty(config)));
    EXPECT_TRUE(write_file(model_ / "preprocessor_config.json", pretty(rules)));
  }
  /// Rows and gradients of a variant. Qwen gets the ids of Llama's prompt.
  void hold(bool one_tower, bool qwen) {
    vary(one_tower, false);
    const auto source = must(this->source(steps_));
    const std::vector<Sample> samples{must(source->get(0)), must(source->get(1))};
    vary(one_tower, qwen);
    const ModelShape shape = must(ModelShape::from_config(as_object(model_ / "config.json"), "config"));
    EXPECT_EQ(shape.qkv_bias, qwen);
    TrainModel trainer(shape, Precision::kF32);
    EXPECT_LT(worst_beside_engine(trainer, samples, model_, picture(0)), 1e-4);
    expect_gradients_of_differences(shape, samples[0]);
  }

  test::TemporaryFolder folder_;
  fs::path model_;
  std::string steps_;
};

TEST_F(OpenVlaTraining, RowsAndGradientsAreTheEnginesWithTwoTowers) { hold(false, false); }
TEST_F(OpenVlaTraining, RowsAndGradientsAreTheEnginesWithOneTower) { hold(true, false); }
TEST_F(OpenVlaTraining, RowsAndGradientsAreTheEnginesBeforeQwen) { hold(false, true); }

TEST_F(OpenVlaTraining, ParametersAreTheReleasedFoldersButWhatNoAnswerDependsOn) {
  const SyntheticModel m = must(synthetic_model({.like = "openvla-7b"}));
  json::object config = m.files.front().second.as_object();
  config["text_config"] = {{"model_type", "llama"}, {"vocab_size", 32064}};  // as released: the rest is its class's defaults
  std::map<std::string, std::vector<int64_t>> stored;
  for (const SyntheticTensor& t : m.tensors) stored[t.name] = t.shape;
  for (const Parameter& p : ParameterTable::of(must(ModelShape::from_config(config, "config"))).parameters) {
    EXPECT_EQ(stored[p.name], p.shape) << p.name;
    stored.erase(p.name);
  }
  for (const auto& [name, shape] : stored) EXPECT_THAT(name, testing::ContainsRegex("featurizer.(blocks.2[36]|norm)[.]"));
  EXPECT_EQ(stored.size(), 14U + 12U + 4U);
}

TEST_F(OpenVlaTraining, ASampleIsTheEnginesPromptAndTheActionsBins) {
  const auto engine = must(load_model(model_, ModelOptions{.type = WeightType::kF32, .threads = 1}));
  const Sample s = must(must(source(steps_))->get(0));
  std::vector<TokenId> prompt = must(engine->prompt_tokens("In: What action should the robot take to pick up the cup?\nOut:"));
  prompt.push_back(*engine->tokenizer()->find("\u2581"));
  prompt.insert(prompt.begin() + 1, 16, s.image_token);
  const auto split = s.tokens.end() - 8;  // seven numbers and the end
  EXPECT_EQ(std::vector(s.tokens.begin(), split), prompt);
  EXPECT_EQ(s.tokens.back(), TokenId{2});
  for (size_t i = 0; i < s.tokens.size(); ++i) EXPECT_EQ(s.response[i], i >= prompt.size());
}

/// Of the small folder: the last block of each tower, and the norm behind it.
bool is_unread(const std::string& name) {
  const auto has = [&](const char* part) { return name.find(part) != std::string::npos; };
  return has(".featurizer.blocks.2.") || has(".fused_featurizer.blocks.3.") || has("featurizer.norm.");
}

TEST_F(OpenVlaTraining, AdaptersAndWholeModelsLearnTheActionsAndAnswerWithThem) {
  const auto source = must(this->source(steps_));
  const json::object of{{"kind", "nld"}, {"alpha", 0}, {"labels", "answer"}};
  const std::string model = model_.string();
  for (const std::string kind : {"lora", "nld"}) {
    const json::object objective = kind == "lora" ? json::object{{"rank", 8}, {"of", of}} : of;
    json::object root{{"kind", kind},   {"model", model + "/config.json"}, {"init", model}, {"tokenizer", model},
                      {"data", data()}, {"objective", objective},          {"steps", 20},   {"batch", 6},
                      {"threads", 1},   {"optimizer", {{"lr", 0.005}}}};
    const auto in = [&](const std::string& out) {
      root["out"] = (folder_.path / (kind + out)).string();
      return must(TrainConfig::parse(root, "test"));
    };
    const TrainConfig through = in("-through"), parts = in("-parts");
    const TrainReport whole = must(train(through, *source, {.quiet = true}));
    const TrainReport begun = must(train(parts, *source, {.stop_after = 1, .quiet = true}));
    const TrainReport rest = must(train(parts, *source, {.resume = begun.checkpoint, .quiet = true}));
    EXPECT_LT(whole.loss, 0.3 * begun.loss) << kind;
    for (const char* file : {"model.safetensors", "trainer.safetensors"})
      EXPECT_EQ(must(read_file(whole.checkpoint / file)), must(read_file(rest.checkpoint / file))) << kind << ": " << file;
    const Checkpoint before = must(Checkpoint::open_folder(model_)), after = must(Checkpoint::open_folder(whole.checkpoint));
    EXPECT_EQ(before.tensors().size(), after.tensors().size());
    for (const auto& [name, was] : before.tensors()) {
      const bool adapted = name.ends_with(".weight") && was.shape.size() == 2 && name.find("embed") == std::string::npos &&
                           name.find("lm_head") == std::string::npos;
      const bool stays = is_unread(name) || (kind == "lora" && !adapted);
      EXPECT_EQ(stays, read_as_f32(was) == read_as_f32(*must(after.get(name, was.shape)))) << kind << ": " << name;
    }
    const auto engine = must(Engine::load(whole.checkpoint, {.dtype = "f32", .threads = 1, .slots = 256}));
    for (size_t k = 0; k < kActions.size(); ++k) {
      const Answer answer = must(engine->run({.prompt = "pick up the cup", .images = {picture(k)}}));
      for (size_t i = 0; i < 7; ++i)  // within half a bin of 1 or 2 / 255; 0.9 is clipped to the statistics' 0.5
        EXPECT_NEAR(answer.action->values[i], i < 6 ? std::min(kActions[k][i], 0.5) : kActions[k][i],
                    0.5 / 255 * (i < 6 ? 1 : 2) + 1e-6)
            << kind << " " << k << " " << i;
    }
  }
}

TEST_F(OpenVlaTraining, AFileThatIsWrongIsNamedWithItsLine) {
  const auto step = [](const std::string& image, const std::string& action, const std::string& words = "go") {
    return R"({"image": )" + image + R"(, "instruction": ")" + words + R"(", "action": )" + action + "}\n";
  };
  const std::string zeros = "[0, 0, 0, 0, 0, 0, 0]", good = step(R"("0.png")", zeros);
  for (const auto& [line, why] : {std::pair{std::string("7\n"), "expected an object, got 7"},
                                  {step("[]", zeros), "image: expected 1 to 16 pictures, got 0"},
                                  {step(R"("../0.png")", zeros), "expected an image file inside"},
                                  {step(R"("9.png")", zeros), "got nothing there"},
                                  {step(R"("0.png")", zeros, " "), "instruction: expected words, got none"},
                                  {step(R"("0.png")", "[0, 0]"), "action: expected 7 numbers as the statistics have, got 2"},
                                  {step(R"("0.png")", "[\"0\"]"), "action: expected numbers, got \"0\""},
                                  {step(R"("0.png")", "[1e999]"), "expected a number below"}}) {
    const auto refused = source(good + line);
    ASSERT_FALSE(refused) << line;
    EXPECT_THAT(refused.error().message, testing::AllOf(testing::HasSubstr("steps.jsonl: line 2"), testing::HasSubstr(why)));
  }
  for (const auto& [more, why] :
       {std::pair{json::object{{"unnorm_key", "x"}}, "expected one of synthetic, got x"},
        {json::object{{"first", 1}}, "expected first and count (at least 3) within the 3 steps of"},
        {json::object{{"model", SLIP_SOURCE_DIR "/models/demo/config.json"}}, "expected a model that answers with actions"}}) {
    const auto refused = source(steps_, more);
    ASSERT_FALSE(refused);
    EXPECT_THAT(refused.error().message, testing::HasSubstr(why));
  }
  const auto unreadable = must(source(steps_));
  ASSERT_TRUE(write_file(folder_.path / "1.png", "P6 1"));
  std::string said;
  for (int64_t i = 0; i < 3; ++i)
    if (const auto s = unreadable->get(i); !s) said = s.error().message;
  EXPECT_THAT(said, testing::AllOf(testing::HasSubstr("steps.jsonl: line 2: "), testing::HasSubstr("1.png")));
}

}  // namespace
}  // namespace slip
