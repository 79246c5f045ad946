// SPDX-License-Identifier: Apache-2.0
// Families without oracles of their own: a family that has one, under other names, config keys and dtypes, gives the same bits. And
// the table against docs/families.md.
#include "models/config/families.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstring>
#include <functional>

#include "base/file.h"
#include "models/model.h"

namespace slip {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;
const fs::path kModels = fs::path(SLIP_FIXTURES) / "models";

struct Renamed : ::testing::Test {
  fs::path folder = fs::temp_directory_path() / ("slip_renamed_" + std::to_string(::getpid()));
  void SetUp() override {
    fs::remove_all(folder);
    fs::create_directories(folder);
  }
  void TearDown() override { fs::remove_all(folder); }

  using Names = std::vector<std::pair<std::string, std::string>>;  // prefixes; the first that fits counts

  /// A fixture with other names, a changed config and, where asked, all tensors as f32.
  void make(const std::string& base, const Names& names, const std::function<void(json::object&)>& change, bool f32 = false) {
    auto config = read_json(kModels / base / "config.json");
    ASSERT_TRUE(config);
    change(config->as_object());
    ASSERT_TRUE(write_file(folder / "config.json", json::serialize(*config)));
    const auto c = Checkpoint::open_file(kModels / base / "model.safetensors");
    ASSERT_TRUE(c) << c.error().message;
    std::vector<TensorToWrite> tensors;
    std::vector<std::vector<float>> numbers;
    numbers.reserve(c->tensors().size());
    for (const auto& [name, view] : c->tensors()) {
      TensorToWrite t{name, view.dtype, view.shape, view.bytes};
      if (f32) {
        numbers.push_back(read_as_f32(view));
        t.dtype = DType::kF32;
        t.bytes = std::as_bytes(std::span(numbers.back()));
      }
      for (const auto& [from, to] : names) {
        if (!name.starts_with(from)) continue;
        t.name = to + name.substr(from.size());
        break;
      }
      tensors.push_back(t);
      if (const bool embedding = name.ends_with("embed_tokens.weight"); embedding && store_head) {
        tensors.push_back(t);
        tensors.back().name = "lm_head.weight";
      }
    }
    ASSERT_TRUE(write_safetensors(folder / "model.safetensors", tensors));
  }

  static std::vector<float> logits(const fs::path& model_folder, const fs::path& rows, ModelConfig* config,
                                   std::vector<std::string>* notes) {
    auto model = load_model(model_folder, {WeightType::kF32, 1, 512});
    EXPECT_TRUE(model) << model.error().message;
    if (!model) return {};
    if (config) *config = (*model)->config();
    if (notes) *notes = (*model)->notes();
    const auto file = read_rows_file(rows);
    EXPECT_TRUE(file);
    const auto features = (*model)->row_features(*file);
    EXPECT_TRUE(features) << features.error().message;
    const auto out = forward_rows((*model)->lm(), *file, *features);
    EXPECT_TRUE(out) << out.error().message;
    return out ? *out : std::vector<float>{};
  }

  /// The renamed folder's bits are the base's.
  void expect_equal(const std::string& base, const std::string& rows) {
    if (fs::exists(kModels / base / "preprocessor_config.json") && !fs::exists(folder / "preprocessor_config.json"))
      fs::copy(kModels / base / "preprocessor_config.json", folder / "preprocessor_config.json");
    const fs::path file = kModels / base / ("rows_" + rows + ".json");
    const std::vector<float> ours = logits(folder, file, &config, &notes), theirs = logits(kModels / base, file, nullptr, nullptr);
    ASSERT_EQ(ours.size(), theirs.size());
    ASSERT_FALSE(ours.empty());
    EXPECT_EQ(std::memcmp(ours.data(), theirs.data(), ours.size() * sizeof(float)), 0);
  }

  bool store_head = false;  // a copy of the embedding beside it
  ModelConfig config;
  std::vector<std::string> notes;
};

void call(json::object& config, std::string_view architecture, std::string_view model_type) {
  config["architectures"] = json::array{json::string(architecture)};
  config["model_type"] = json::string(model_type);
}

TEST_F(Renamed, FastDllmV2IsQwen2WithShiftAndBlockCausalContext) {
  make("qwen2", {}, [](json::object& c) {
    call(c, "Fast_dLLM_QwenForCausalLM", "Fast_dLLM_Qwen");
    c["bd_size"] = 16;
  });
  expect_equal("qwen2", "causal");
  EXPECT_TRUE(config.decoder.rule.shift);
  EXPECT_TRUE(config.decoder.rule.block_causal_context);
  EXPECT_EQ(config.decoder.rule.block_size, 16);
}

TEST_F(Renamed, SdarIsQwen3WithoutShiftAndWithBlockCausalContext) {
  make("qwen3", {}, [](json::object& c) { call(c, "SDARForCausalLM", "sdar"); });
  expect_equal("qwen3", "causal");
  EXPECT_FALSE(config.decoder.rule.shift);
  EXPECT_TRUE(config.decoder.rule.block_causal_context);
  EXPECT_EQ(config.decoder.rule.block_size, 4);
}

TEST_F(Renamed, FastDvlmHasNestedNamesATiedHeadThatIsStoredAndTwoBlockSizes) {
  store_head = true;
  make("qwen2_5_vl", {}, [](json::object& c) {
    call(c, "Fast_dVLMForConditionalGeneration", "fast_dvlm");
    c["bd_size"] = 32;
    c["text_config"].as_object()["bd_size"] = 8;
  });
  expect_equal("qwen2_5_vl", "causal");
  EXPECT_EQ(config.decoder.rule.block_size, 32);
  EXPECT_TRUE(config.decoder.rule.shift);
  EXPECT_FALSE(config.decoder.rule.block_causal_context);
  EXPECT_THAT(notes, testing::Contains(HasSubstr("stored although tied; the embedding is used")));
}

TEST_F(Renamed, FastDdriveHasFlatNamesAndF32) {
  store_head = true;
  make(
      "qwen2_5_vl", {{"model.language_model.", "model."}, {"model.visual.", "visual."}},
      [](json::object& c) {
        call(c, "Fast_dLLM_Qwen2_5_VLForConditionalGeneration", "fast_dllm_qwen2_5_vl");
        c["bd_size"] = 32;
        c["block_size"] = 2048;  // the trainer's, not the decoder's
        c["torch_dtype"] = "float32";
        json::object text = c["text_config"].as_object();
        c.erase("text_config");
        for (auto& [key, value] : text)
          if (!c.contains(key)) c[key] = value;
      },
      true);
  expect_equal("qwen2_5_vl", "block");
  EXPECT_EQ(config.family->name, "fast_ddrive");
  EXPECT_EQ(config.decoder.rule.block_size, 32);
  EXPECT_EQ(config.stored_dtype, "float32");
}

TEST_F(Renamed, NemotronsMultimodalFoldersGiveTheirTextDecoder) {
  const auto nested = [](json::object& c) {
    json::object text = c;
    text["model_type"] = "ministral3";
    json::object outer = {{"text_config", std::move(text)}, {"vision_config", {{"model_type", "pixtral"}}}, {"mask_token_id", 100}};
    call(outer, "NemotronLabsDiffusionModel", "nemotron_labs_diffusion");
    c = std::move(outer);
  };
  make("ministral3", {{"model.", "language_model.model."}, {"lm_head.", "language_model.lm_head."}}, nested);
  expect_equal("ministral3", "jumps");
  EXPECT_EQ(config.decoder.rule.mask, TokenId{100});
  EXPECT_THAT(config.notes, testing::Contains(HasSubstr("vision tower is not read")));
  EXPECT_FALSE(config.vision);
  fs::remove(folder / "model.safetensors");
  make("ministral3", {{"model.", "language_model.encoder."}, {"lm_head.", "language_model.diffusion_head."}}, nested);
  expect_equal("ministral3", "jumps");
}

TEST_F(Renamed, Mistral3FoldersTakeTheClassOfTheirTextConfig) {
  make("mistral", {{"model.", "model.language_model."}}, [](json::object& c) {
    json::object text = c;
    json::object outer = {{"text_config", std::move(text)}, {"vision_config", {{"model_type", "pixtral"}}}};
    call(outer, "Mistral3ForConditionalGeneration", "mistral3");
    c = std::move(outer);
  });
  expect_equal("mistral", "causal");
  EXPECT_EQ(config.config_class, "MistralConfig");
  EXPECT_EQ(config.decoder.window, 16);
  fs::remove(folder / "model.safetensors");
  make("ministral3", {{"model.", "language_model.model."}, {"lm_head.", "language_model.lm_head."}}, [](json::object& c) {
    json::object text = c;
    json::object outer = {{"text_config", std::move(text)}};
    call(outer, "Mistral3ForConditionalGeneration", "mistral3");
    c = std::move(outer);
  });
  expect_equal("ministral3", "causal");
  EXPECT_EQ(config.config_class, "Ministral3Config");
}

TEST_F(Renamed, LlamasFirstSpellingAndPartsOfLargerModels) {
  make("llama", {{"model.", "thinker.model."}, {"lm_head.", "thinker.lm_head."}},
       [](json::object& c) { call(c, "LLaMAForCausalLM", "llama"); });
  expect_equal("llama", "causal");
}

TEST_F(Renamed, APrefixThatHoldsOnlyAnEmbeddingDoesNotHideACompleteOne) {
  make("qwen2", {{"model.", "encoder."}}, [](json::object&) {});
  const auto c = Checkpoint::open_file(folder / "model.safetensors");
  std::vector<TensorToWrite> tensors;
  for (const auto& [name, view] : c->tensors()) tensors.push_back({name, view.dtype, view.shape, view.bytes});
  const TensorView& e = *c->find("encoder.embed_tokens.weight");
  tensors.push_back({"model.embed_tokens.weight", e.dtype, e.shape, e.bytes});
  ASSERT_TRUE(write_safetensors(folder / "both.safetensors", tensors));
  fs::rename(folder / "both.safetensors", folder / "model.safetensors");
  expect_equal("qwen2", "causal");
}

TEST(Families, EveryArchitectureIsFoundByItsNameAndOnDocsFamilies) {
  const auto page = read_file(fs::path(SLIP_SOURCE_DIR) / "docs/families.md");
  ASSERT_TRUE(page);
  for (const Family& f : families()) {
    EXPECT_EQ(find_family(f.architecture, "whatever"), &f);
    EXPECT_NE(find_family("", f.model_type), nullptr) << f.model_type;
    EXPECT_THAT(*page, HasSubstr(fmt::format("`{}`", f.architecture)));
  }
  EXPECT_NE(find_family("", "fast_dllm_QWEN"), nullptr);
  EXPECT_EQ(find_family("Qwen2Model", "qwen2"), nullptr);
  EXPECT_EQ(why_not_done("MixtralForCausalLM"), "a mixture of experts");
}

}  // namespace
}  // namespace slip
