// SPDX-License-Identifier: Apache-2.0
// The training loop: resuming, checkpoints, what a model learns, what a wrong configuration is told; and the model's forward pass
// against stored logits of a Qwen2.5-VL with images.
#include "train/trainer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "base/file.h"
#include "core/safetensors.h"
#include "train/checkpoint.h"
#include "train/forward_rows.h"
#include "train/loss_log.h"

namespace slip {
namespace {

namespace fs = std::filesystem;

template <class T>
T must(Result<T> r) {
  if (!r) ADD_FAILURE() << r.error().message;
  return std::move(*r);
}

class Folder {
 public:
  explicit Folder(const std::string& name) : path(fs::temp_directory_path() / ("slip_trainer_" + name + std::to_string(::getpid()))) {
    fs::remove_all(path);
    fs::create_directories(path);
  }
  ~Folder() { fs::remove_all(path); }
  fs::path path;
};

json::object tiny_config(const fs::path& out, const std::string& precision = "f32", bool vision = true) {
  json::object model = parse_json(R"({"model_type": "qwen2_5_vl", "tie_word_embeddings": true, "mask_token_id": 1, "image_token_id": 4,
    "text_config": {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 2, "intermediate_size": 48,
      "vocab_size": 24, "rope_theta": 10000, "rope_scaling": {"mrope_section": [2, 1, 1]}},
    "vision_config": {"depth": 2, "hidden_size": 16, "num_heads": 2, "intermediate_size": 24, "out_hidden_size": 32, "patch_size": 4,
      "window_size": 16, "fullatt_block_indexes": [1], "in_chans": 3}})", "model")->as_object();
  if (!vision) model.erase("vision_config");
  json::object data = {{"kind", "toy"}, {"vocab", 24}, {"prompt", 6}, {"fields", 2}, {"values", 3}};
  if (vision) data["images"] = 2, data["grid_h"] = 4, data["grid_w"] = 6, data["patch_numbers"] = 96;
  return {{"model", model}, {"data", data}, {"steps", 6}, {"batch", 3}, {"out", out.string()}, {"precision", precision}, {"threads", 2}, {"seed", 5}};
}

TrainReport run(const json::object& config, const RunOptions& options) {
  const TrainConfig c = must(TrainConfig::parse(config, "test"));
  const auto source = must(make_source(c.data, c.tokenizer));
  return must(train(c, *source, options));
}

std::string bytes_of(const fs::path& file) { return must(read_file(file)); }

void expect_resume_is_exact(const std::string& precision) {
  const Folder whole("whole"), halves("halves");
  json::object a = tiny_config(whole.path, precision), b = tiny_config(halves.path, precision);
  for (json::object* c : {&a, &b}) (*c)["ema_decay"] = 0.9, (*c)["accumulate"] = 2;
  run(a, {.quiet = true});
  const TrainReport first = run(b, {.stop_after = 3, .quiet = true});
  EXPECT_EQ(first.steps, 3);
  EXPECT_TRUE(first.stopped_early);
  const TrainReport second = run(b, {.resume = must(newest_checkpoint(halves.path)), .quiet = true});
  EXPECT_EQ(second.steps, 6);
  for (const char* file : {"model.safetensors", "trainer.safetensors"})
    EXPECT_EQ(bytes_of(whole.path / "step-6" / file), bytes_of(halves.path / "step-6" / file)) << file;
  EXPECT_EQ(must(read_loss_log(halves.path / "loss.jsonl")).size(), 6U);
}

TEST(Trainer, StoppingAndResumingGivesTheSameBytesInFloat) { expect_resume_is_exact("f32"); }
TEST(Trainer, StoppingAndResumingGivesTheSameBytesInBfloat16) { expect_resume_is_exact("bf16"); }

TEST(Trainer, LearnsToCopyThePrompt) {
  const Folder out("learns");
  json::object c = tiny_config(out.path, "f32", false);
  c["steps"] = 150, c["batch"] = 8;
  c["data"].as_object()["size"] = 4;
  c["optimizer"] = json::object{{"lr", 1e-2}, {"weight_decay", 0.0}};
  c["schedule"] = json::object{{"kind", "cosine"}, {"warmup", 10}};
  run(c, {.quiet = true});
  const auto log = must(read_loss_log(out.path / "loss.jsonl"));
  EXPECT_GT(log.front().noisy, 2.5);  // ln 24 = 3.2 for a guess
  EXPECT_LT(log.back().noisy, 0.3);
  EXPECT_LT(log.back().ar, 0.3);
  EXPECT_TRUE(fs::exists(out.path / "loss.svg"));
}

TEST(Trainer, CheckpointIsAModelFolderAndTheOldestGo) {
  const Folder out("folder"), tokenizer("tokenizer");
  ASSERT_TRUE(write_file(tokenizer.path / "tokenizer.json", "{}"));
  json::object c = tiny_config(out.path);
  c["save_every"] = 1, c["keep"] = 2, c["tokenizer"] = tokenizer.path.string(), c["store"] = "bf16";
  run(c, {.quiet = true});
  EXPECT_FALSE(fs::exists(out.path / "step-4"));
  EXPECT_TRUE(fs::exists(out.path / "step-5"));
  EXPECT_EQ(bytes_of(out.path / "step-6" / "tokenizer.json"), "{}");
  const Checkpoint stored = must(Checkpoint::open_folder(out.path / "step-6"));
  const TensorView* q = stored.find("model.language_model.layers.1.self_attn.q_proj.weight");
  ASSERT_NE(q, nullptr);
  EXPECT_EQ(q->dtype, DType::kBF16);
  EXPECT_NE(stored.find("model.visual.patch_embed.proj.weight"), nullptr);
  EXPECT_EQ(stored.find("lm_head.weight"), nullptr);
  EXPECT_TRUE(load_model(out.path / "step-6", Precision::kF32));
}

TEST(Trainer, BatchesDoNotDependOnHowTheyAreAccumulated) {
  const Folder a("one"), b("two");
  json::object whole = tiny_config(a.path), split = tiny_config(b.path);
  whole["batch"] = 4, whole["steps"] = 2;
  split["batch"] = 2, split["accumulate"] = 2, split["steps"] = 2;
  run(whole, {.quiet = true});
  run(split, {.quiet = true});
  const auto la = must(read_loss_log(a.path / "loss.jsonl")), lb = must(read_loss_log(b.path / "loss.jsonl"));
  EXPECT_NEAR(la[0].loss, lb[0].loss, 1e-5 * la[0].loss);
  EXPECT_NEAR(la[0].gradient_norm, lb[0].gradient_norm, 1e-4 * la[0].gradient_norm);
}

TEST(TrainConfig, NamesWhatIsWrong) {
  const auto error = [](json::object c) {
    const auto r = TrainConfig::parse(c, "c.json");
    return r ? std::string("no error") : r.error().message;
  };
  const json::object good = tiny_config("x");
  EXPECT_EQ(error(good), "no error");
  json::object c = good;
  c["learning_rate"] = 1;
  EXPECT_THAT(error(c), testing::HasSubstr("c.json: expected a known key, got \"learning_rate\""));
  c = good;
  c["precision"] = "fp8";
  EXPECT_THAT(error(c), testing::HasSubstr("precision: expected \"f32\" or \"bf16\", got \"fp8\""));
  c = good;
  c["model"].as_object()["text_config"].as_object()["num_key_value_heads"] = 3;
  EXPECT_THAT(error(c), testing::HasSubstr("num_attention_heads: expected a multiple of num_key_value_heads 3, got 4"));
  c = good;
  c["batch"] = 0;
  EXPECT_THAT(error(c), testing::HasSubstr("batch: expected at least 1, got 0"));
}

class QwenVl : public testing::TestWithParam<const char*> {};

TEST_P(QwenVl, LogitsMatchTheStoredOnes) {
  const fs::path folder = fs::path(SLIP_FIXTURES) / "models" / "qwen2_5_vl";
  const std::string name = GetParam();
  TrainModel model = must(load_model(folder, Precision::kF32));
  const json::value rows = must(read_json(folder / ("rows_" + name + ".json")));
  const RowBatch batch = must(rows_from_json(rows.as_object(), model.shape(), folder / "expected_images.safetensors", name));
  const std::vector<float> logits = model.logits(batch);
  const Checkpoint expected = must(Checkpoint::open_file(folder / ("expected_" + name + ".safetensors")));
  const std::vector<float> ref = read_as_f32(*must(expected.get("logits_TV")));
  ASSERT_EQ(logits.size(), ref.size());
  double worst = 0;
  for (size_t i = 0; i < ref.size(); ++i) worst = std::max(worst, std::abs(static_cast<double>(logits[i]) - ref[i]) / (1 + std::abs(ref[i])));
  EXPECT_LE(worst, 2e-5);
}
INSTANTIATE_TEST_SUITE_P(Rows, QwenVl, testing::Values("causal", "block", "draft_verify", "packed", "field_graph", "forked"));

}  // namespace
}  // namespace slip
