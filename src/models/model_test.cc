// SPDX-License-Identifier: Apache-2.0
// A folder end to end: from its files and images to transformers' logits; broken folders get one clear error.
#include "models/model.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <functional>

#include <unistd.h>

#include "base/file.h"
#include "core/dtype.h"
#include "models/loader.h"
#include "models/rows_file.h"
#include "models/weights/weight_reader.h"

namespace slip {
namespace {

namespace fs = std::filesystem;
const fs::path kFixtures = SLIP_FIXTURES;

class FolderFixture : public ::testing::TestWithParam<std::string> {};

TEST_P(FolderFixture, RowsFileWithImagesGivesTheReferencesLogitsFromTheImageFiles) {
  const fs::path folder = kFixtures / "models" / GetParam();
  auto model = load_model(folder, {WeightType::kF32, 2, 64});
  ASSERT_TRUE(model) << model.error().message;
  const auto rows = read_rows_file(folder / "rows_causal.json");
  ASSERT_TRUE(rows);
  const auto features = (*model)->row_features(*rows);
  ASSERT_TRUE(features) << features.error().message;
  const auto logits = forward_rows((*model)->lm(), *rows, *features, {3, {}});
  ASSERT_TRUE(logits) << logits.error().message;
  const auto expected = Checkpoint::open_file(folder / "expected_causal.safetensors");
  ASSERT_TRUE(expected);
  const std::vector<float> ref = read_as_f32(*expected->find("logits_TV"));
  ASSERT_EQ(logits->size(), ref.size());
  for (size_t i = 0; i < ref.size(); ++i) ASSERT_NEAR((*logits)[i], ref[i], 2e-5 * (1 + std::abs(ref[i]))) << i;

  const fs::path out = fs::temp_directory_path() / fmt::format("slip_logits_{}_{}.safetensors", GetParam(), ::getpid());
  ASSERT_TRUE(write_logits(out, *logits, (*model)->lm().info().vocab));
  const auto back = Checkpoint::open_file(out);
  ASSERT_TRUE(back);
  EXPECT_EQ(read_as_f32(*back->find("logits_TV")), *logits);
  fs::remove(out);
}

// The rows of the `causal` case are a prompt: collapsed to one placeholder per image they must come back.
TEST_P(FolderFixture, PromptFromTokensHasTheReferencesRowsAndPositions) {
  const fs::path folder = kFixtures / "models" / GetParam();
  auto model = load_model(folder, {WeightType::kF32, 1, 64});
  ASSERT_TRUE(model) << model.error().message;
  const auto file = read_rows_file(folder / "rows_causal.json");
  ASSERT_TRUE(file);
  const TokenId pad = *(*model)->config().image_token;
  std::vector<TokenId> once, repeated;
  std::vector<PatchGrid> grids;
  for (const RowsFileRow& row : file->rows) {
    const auto* patch = std::get_if<ImagePatch>(&row.input);
    if (!patch || patch->patch == 0) once.push_back(patch ? pad : std::get<TokenId>(row.input));
    repeated.push_back(patch ? pad : std::get<TokenId>(row.input));
  }
  for (const fs::path& path : file->images) {
    const auto image = load_image(path);
    ASSERT_TRUE(image);
    auto grid = (*model)->preprocess(*image);
    ASSERT_TRUE(grid) << grid.error().message;
    grids.push_back(std::move(*grid));
  }
  for (const auto& tokens : {once, repeated}) {
    const auto prompt = (*model)->build_prompt(tokens, grids);
    ASSERT_TRUE(prompt) << prompt.error().message;
    ASSERT_EQ(prompt->positions.size(), file->rows.size());
    for (size_t i = 0; i < file->rows.size(); ++i) {
      EXPECT_EQ(prompt->positions[i], file->rows[i].position) << i;
      EXPECT_EQ(std::holds_alternative<Feature>(prompt->inputs[i]), std::holds_alternative<ImagePatch>(file->rows[i].input)) << i;
    }
  }
  once.push_back(pad);
  EXPECT_FALSE((*model)->build_prompt(once, grids));
  EXPECT_FALSE((*model)->build_prompt(std::span<const TokenId>{}, grids));
}

// In whatever order and company, and a picture is counted once in a call.
TEST_P(FolderFixture, FeaturesThatAreKeptAreThoseOfTheTower) {
  const fs::path folder = kFixtures / "models" / GetParam();
  auto model = load_model(folder, {WeightType::kF32, 1, 64});
  ASSERT_TRUE(model) << model.error().message;
  std::vector<PatchGrid> one{*(*model)->preprocess(*load_image(folder / "image_0.png"))};
  one.push_back(one[0]);
  for (float& x : one[1].values) x = -x;
  std::vector<PatchGrid> pair = {one[1], one[0]};
  const auto encoded = [&](std::span<const PatchGrid> images) {
    std::vector<float> out;
    EXPECT_TRUE((*model)->encode_images(images, out));
    return out;
  };
  const std::vector<float> first = encoded({one.data(), 1}), both = encoded(pair);
  for (std::vector<PatchGrid>* images : {&one, &pair})
    for (PatchGrid& g : *images) g.content = content_hash(std::span<const float>(g.values));
  (*model)->keep_features(1 << 20);
  const FeatureCache& kept = (*model)->kept_features();
  EXPECT_EQ(encoded({one.data(), 1}), first);
  EXPECT_EQ(kept.hits(), 0);
  EXPECT_EQ(encoded(pair), both);
  EXPECT_EQ(kept.hits(), 1);
  EXPECT_EQ(encoded(pair), both);
  EXPECT_EQ(kept.hits(), 3);
  EXPECT_EQ(kept.queries(), 5);
  EXPECT_EQ(kept.bytes(), both.size() * sizeof(float));
  (*model)->keep_features(1 << 20);  // anew
  const std::vector<PatchGrid> twice = {one[0], one[0]};
  encoded(twice);
  EXPECT_EQ((*model)->kept_features().bytes(), first.size() * sizeof(float)) << "shown twice, kept once";
}

INSTANTIATE_TEST_SUITE_P(Models, FolderFixture, ::testing::Values("qwen2_5_vl", "qwen2_5_vl_flat"),
                         [](const auto& info) { return info.param; });

// Published: 3 text tokens, an image of 4 x 6 patches (2 x 3 cells), 2 text tokens.
TEST(PromptRows, TextAfterAnImageStandsBehindItsLargestPosition) {
  const VisionRules rules{.image_pad = TokenId{9}, .video_pad = TokenId{-1}};
  const std::vector<TokenId> tokens = {{1}, {2}, {3}, rules.image_pad, {4}, {5}};
  const std::vector<VisionGrid> images = {{1, 4, 6}};
  const auto prompt = prompt_rows(tokens, images, rules);
  ASSERT_TRUE(prompt);
  const std::vector<Position> expected = {{0, 0, 0}, {1, 1, 1}, {2, 2, 2}, {3, 3, 3}, {3, 3, 4}, {3, 3, 5},
                                          {3, 4, 3}, {3, 4, 4}, {3, 4, 5}, {6, 6, 6}, {7, 7, 7}};
  EXPECT_EQ(prompt->positions, expected);
  EXPECT_EQ(prompt->next_position, 8);
  EXPECT_EQ(std::get<Feature>(prompt->inputs[8]).index, 5);
}

TEST(PromptRows, InterruptedPlaceholdersAreRefused) {
  const VisionRules rules{.image_pad = TokenId{9}, .video_pad = TokenId{-1}};
  const std::vector<TokenId> tokens = {rules.image_pad, {1}, rules.image_pad};
  const std::vector<VisionGrid> images = {{1, 2, 4}};
  EXPECT_FALSE(prompt_rows(tokens, images, rules));
}

TEST(PromptRows, MessagesNeedATemplateAndTextNeedsATokenizer) {
  auto model = load_model(kFixtures / "models/qwen2", {WeightType::kF32, 1, 8});
  ASSERT_TRUE(model);
  const std::vector<ChatMessage> messages = {{"user", {TextItem{"hello"}}}};
  EXPECT_EQ((*model)->build_prompt(messages).error().kind, ErrorKind::kUnsupported);
  EXPECT_EQ((*model)->build_prompt(std::string_view("hello")).error().kind, ErrorKind::kBadInput);
}

TEST(LoadModel, TiedHeadThatIsStoredIsNotedAndBothNameLayoutsAreFound) {
  auto flat = load_model(kFixtures / "models/qwen2_5_vl_flat", {WeightType::kBF16, 1, 8});
  ASSERT_TRUE(flat) << flat.error().message;
  EXPECT_EQ((*flat)->text_prefix(), "model.");
  EXPECT_EQ((*flat)->vision_prefix(), "visual.");
  ASSERT_EQ((*flat)->notes().size(), 1U);
  EXPECT_NE((*flat)->notes()[0].find("lm_head.weight"), std::string::npos);
  auto nested = load_model(kFixtures / "models/qwen2_5_vl", {WeightType::kBF16, 1, 8});
  ASSERT_TRUE(nested);
  EXPECT_EQ((*nested)->text_prefix(), "model.language_model.");
  EXPECT_TRUE((*nested)->notes().empty());
  EXPECT_GT((*nested)->memory().weights, 100000);
}

TEST(LoadModel, ProgressEndsAtTheTotal) {
  int64_t last = 0, all = 0, calls = 0;
  ASSERT_TRUE(load_model(kFixtures / "models/qwen2", {WeightType::kF32, 1, 8}, {[&](int64_t done, int64_t total) {
                           EXPECT_GE(done, last);
                           last = done;
                           all = total;
                           ++calls;
                         }}));
  EXPECT_EQ(last, all);
  EXPECT_GT(calls, 10);
}

// A copy of the qwen2 fixture that a test may spoil.
struct SpoiltFolder : ::testing::Test {
  fs::path folder = fs::temp_directory_path() / ("slip_spoilt_" + std::to_string(::getpid()));
  void SetUp() override {
    fs::remove_all(folder);
    fs::create_directories(folder);
    for (const char* name : {"config.json", "model.safetensors"}) fs::copy(kFixtures / "models/qwen2" / name, folder / name);
  }
  void TearDown() override { fs::remove_all(folder); }

  Error refusal() {
    auto model = load_model(folder, {WeightType::kF32, 1, 8});
    EXPECT_FALSE(model);
    return model ? Error{} : model.error();
  }
  // Writes the tensors again, each through `change`, which may drop one by clearing its name.
  void rewrite(const std::function<void(TensorToWrite&, std::vector<std::byte>&)>& change) {
    const auto c = Checkpoint::open_file(kFixtures / "models/qwen2/model.safetensors");
    std::vector<std::vector<std::byte>> bytes;
    std::vector<TensorToWrite> tensors;
    bytes.reserve(c->tensors().size());
    for (const auto& [name, view] : c->tensors()) {
      bytes.emplace_back(view.bytes.begin(), view.bytes.end());
      TensorToWrite t{name, view.dtype, view.shape, {}};
      change(t, bytes.back());
      t.bytes = bytes.back();
      if (!t.name.empty()) tensors.push_back(t);
    }
    ASSERT_TRUE(write_safetensors(folder / "model.safetensors", tensors));
  }
};

TEST_F(SpoiltFolder, MissingTensorsAreListedByName) {
  rewrite([](TensorToWrite& t, std::vector<std::byte>&) {
    if (t.name.find("q_proj") != std::string::npos) t.name.clear();
  });
  const Error e = refusal();
  EXPECT_EQ(e.kind, ErrorKind::kBadInput);
  for (const char* name : {"model.layers.0.self_attn.q_proj.weight", "model.layers.1.self_attn.q_proj.bias", "4"})
    EXPECT_NE(e.message.find(name), std::string::npos) << e.message;
}

TEST_F(SpoiltFolder, LayersThatTheConfigurationDoesNotCountAreRefused) {
  std::string config = *read_file(folder / "config.json");
  const std::string key = "\"num_hidden_layers\": ";
  const size_t at = config.find(key);
  ASSERT_NE(at, std::string::npos);
  config[at + key.size()] = '1';
  ASSERT_TRUE(write_file(folder / "config.json", config));
  const Error e = refusal();
  EXPECT_EQ(e.kind, ErrorKind::kBadInput);
  EXPECT_NE(e.message.find("expected the tensors of 1 layers, as config.json says, got model.layers.1."), std::string::npos)
      << e.message;
}

TEST_F(SpoiltFolder, ATypeThatIsNotReadIsNamedWithItsTensor) {
  std::string bytes = *read_file(folder / "model.safetensors");
  const size_t type = bytes.find("\"BF16\"", bytes.find("\"model.norm.weight\""));
  ASSERT_LT(type, bytes.find('}', bytes.find("\"model.norm.weight\"")));
  bytes.replace(type, 6, "\"BF99\"");
  ASSERT_TRUE(write_file(folder / "model.safetensors", bytes));
  const Error e = refusal();
  EXPECT_EQ(e.kind, ErrorKind::kUnsupported);
  EXPECT_NE(e.message.find("tensor model.norm.weight"), std::string::npos) << e.message;
  EXPECT_NE(e.message.find("got BF99"), std::string::npos) << e.message;
}

TEST_F(SpoiltFolder, OtherTokenizersAreNamedWhenTextComes) {
  ASSERT_TRUE(write_file(folder / "tokenizer.model", "x"));
  auto model = load_model(folder, {WeightType::kF32, 1, 8});
  ASSERT_TRUE(model) << model.error().message;
  const auto prompt = (*model)->build_prompt(std::string_view("hello"));
  ASSERT_FALSE(prompt);
  EXPECT_EQ(prompt.error().kind, ErrorKind::kUnsupported);
  EXPECT_NE(prompt.error().message.find("got tokenizer.model"), std::string::npos) << prompt.error().message;
}

TEST_F(SpoiltFolder, WrongShapeNamesTensorExpectedAndFound) {
  rewrite([](TensorToWrite& t, std::vector<std::byte>&) {
    if (t.name == "model.layers.1.mlp.down_proj.weight") std::swap(t.shape[0], t.shape[1]);
  });
  const Error e = refusal();
  EXPECT_EQ(e.kind, ErrorKind::kBadInput);
  EXPECT_NE(e.message.find("model.layers.1.mlp.down_proj.weight: expected shape [112, 148], got [148, 112]"), std::string::npos)
      << e.message;
}

TEST_F(SpoiltFolder, NumbersThatAreNotFiniteAreRefusedInMatricesAndVectors) {
  for (const char* name : {"model.layers.0.self_attn.k_proj.weight", "model.norm.weight", "model.embed_tokens.weight"}) {
    for (const uint16_t bits : {0x7f80, 0xff80, 0x7fc1}) {
      rewrite([&](TensorToWrite& t, std::vector<std::byte>& bytes) {
        if (t.name == name) std::memcpy(bytes.data() + bytes.size() - 2, &bits, 2);
      });
      const Error e = refusal();
      EXPECT_EQ(e.kind, ErrorKind::kBadInput);
      EXPECT_NE(e.message.find(name), std::string::npos) << e.message;
      EXPECT_NE(e.message.find("finite"), std::string::npos) << e.message;
    }
  }
}

// 3.3962e38 is a finite f32 and rounds to infinity as bf16; 3.3961e38 rounds to its largest, 3.3895e38.
TEST_F(SpoiltFolder, NumbersBeyondBf16AreRefusedWhereTheyWouldBecomeInfinite) {
  const auto with = [&](const std::string& name, float value) {
    rewrite([&](TensorToWrite& t, std::vector<std::byte>& bytes) {
      if (t.name != name) return;
      std::vector<float> x(bytes.size() / 2);
      for (size_t i = 0; i < x.size(); ++i) {
        uint16_t bits = 0;
        std::memcpy(&bits, bytes.data() + 2 * i, 2);
        x[i] = to_float(BF16{bits});
      }
      x[5] = value;
      t.dtype = DType::kF32;
      bytes.resize(4 * x.size());
      std::memcpy(bytes.data(), x.data(), bytes.size());
    });
  };
  const auto load = [&](WeightType type) { return load_model(folder, {type, 1, 8}); };
  const std::string name = "model.layers.1.mlp.down_proj.weight";
  with(name, -3.3962e38F);
  const auto refused = load(WeightType::kBF16);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().kind, ErrorKind::kBadInput);
  EXPECT_NE(refused.error().message.find("tensor " + name + ": expected numbers that bf16 can hold"), std::string::npos)
      << refused.error().message;
  EXPECT_NE(refused.error().message.find("got -3.396"), std::string::npos) << refused.error().message;
  EXPECT_TRUE(load(WeightType::kF32));
  with(name, 3.3961e38F);
  EXPECT_TRUE(load(WeightType::kBF16));
  with("model.norm.weight", 3.3962e38F);  // vectors stay f32
  EXPECT_TRUE(load(WeightType::kBF16));
}

TEST(WeightReader, RefusesInt8MatricesWiderThanItsSumsByTensorAndLimit) {
  const fs::path file = fs::temp_directory_path() / ("slip_wide_" + std::to_string(::getpid()) + ".safetensors");
  for (const int64_t k : {int64_t{65536}, int64_t{65537}}) {
    const std::vector<float> zeros(static_cast<size_t>(k), 0.0F);
    const TensorToWrite tensor{"wide", DType::kF32, {1, k}, std::as_bytes(std::span(zeros))};
    ASSERT_TRUE(write_safetensors(file, {&tensor, 1}));
    const auto checkpoint = Checkpoint::open_file(file);
    ASSERT_TRUE(checkpoint);
    ThreadPool pool(1);
    for (const WeightType type : {WeightType::kBF16, WeightType::kI8}) {
      WeightReader reader(*checkpoint, pool, {});
      reader.matrix(type, {{"wide", {1, k}}});
      const Status checked = reader.end_check();
      if (type == WeightType::kBF16 || k == 65536) {
        ASSERT_TRUE(checked);
        EXPECT_EQ(reader.matrix(type, {{"wide", {1, k}}}).k(), k);
        continue;
      }
      ASSERT_FALSE(checked);
      EXPECT_EQ(checked.error().kind, ErrorKind::kUnsupported);
      EXPECT_NE(checked.error().message.find("tensor wide: expected at most 65536 columns for int8"), std::string::npos)
          << checked.error().message;
    }
  }
  fs::remove(file);
}

TEST(ForwardRows, NamesTheFileAndTheRowThatTheModelCannotTake) {
  auto model = load_model(kFixtures / "models/qwen2", {WeightType::kF32, 1, 4});
  ASSERT_TRUE(model);
  const auto why = [&](std::string_view text) {
    const auto rows = parse_rows(*parse_json(text, "test"), "some/rows.json", "");
    EXPECT_TRUE(rows);
    const auto done = forward_rows((*model)->lm(), *rows, {}, {1, {}});
    return done ? std::string("done") : done.error().message;
  };
  EXPECT_EQ(why(R"({"rows": [{"token": 1, "position": 0}, {"token": 300, "position": 1}]})"),
            "some/rows.json: row 1: token: expected an id below the model's 300, got 300");
  EXPECT_EQ(why(R"({"images": ["a.png"], "rows": [{"image": 0, "patch": 0, "position": 0}]})").substr(0, 22),
            "some/rows.json: row 0:");
  EXPECT_EQ(
      why(R"({"rows": [{"token": 1, "position": 0}, {"token": 1, "position": 1}, {"token": 1, "position": 2}, {"token": 1, "position": 3},
    {"token": 1, "position": 4}]})")
          .substr(0, 15),
      "some/rows.json:");
}

TEST_F(SpoiltFolder, IntegerTensorsAreUnsupported) {
  rewrite([](TensorToWrite& t, std::vector<std::byte>&) {
    if (t.name == "model.norm.weight") t.dtype = DType::kI16;
  });
  EXPECT_EQ(refusal().kind, ErrorKind::kUnsupported);
}

TEST_F(SpoiltFolder, UnknownNameLayoutSaysWhatWasTried) {
  rewrite([](TensorToWrite& t, std::vector<std::byte>&) { t.name = "transformer." + t.name; });
  const Error e = refusal();
  EXPECT_NE(e.message.find("model.language_model.embed_tokens.weight"), std::string::npos) << e.message;
}

TEST_F(SpoiltFolder, TruncatedWeightsMissingConfigAndFoldersThatAreNoneAreOneError) {
  fs::resize_file(folder / "model.safetensors", 1000);
  EXPECT_EQ(refusal().kind, ErrorKind::kBadInput);
  fs::remove(folder / "model.safetensors");
  EXPECT_EQ(refusal().kind, ErrorKind::kBadInput);
  fs::remove(folder / "config.json");
  EXPECT_EQ(refusal().kind, ErrorKind::kBadInput);
  fs::remove_all(folder);
  EXPECT_EQ(refusal().kind, ErrorKind::kBadInput);
}

TEST(LoadModel, WeightsAndCacheTogetherMustFitWhatIsAvailable) {
  const MemoryNeed need{6LL << 30, 2LL << 30};
  EXPECT_TRUE(check_memory(need, 8LL << 30, "folder"));
  EXPECT_TRUE(check_memory(need, -1, "folder"));
  const Status refused = check_memory(need, (8LL << 30) - 1, "folder");
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().kind, ErrorKind::kResource);
  EXPECT_NE(refused.error().message.find("8192 MB"), std::string::npos) << refused.error().message;
}

TEST(LoadModel, TheEstimateCountsWeightsByTypeAndTheCacheBySlots) {
  const auto folder = kFixtures / "models/qwen2";
  const auto config = read_model_config(folder);
  const auto checkpoint = Checkpoint::open_folder(folder);
  ASSERT_TRUE(config && checkpoint);
  ThreadPool pool(1);
  const auto f32 = estimate_memory(*checkpoint, *config, WeightType::kF32, 100, pool);
  const auto bf16 = estimate_memory(*checkpoint, *config, WeightType::kBF16, 200, pool);
  ASSERT_TRUE(f32 && bf16);
  EXPECT_GT(f32->weights, bf16->weights + bf16->weights / 2);
  EXPECT_EQ(f32->cache, 2 * 2 * 100 * 2 * 8 * 4);
  EXPECT_EQ(bf16->cache, f32->cache) << "twice the slots, half the bytes";
}

TEST(LoadModel, TheEstimateCountsTheCacheInTheTypeThatIsAskedFor) {
  const auto folder = kFixtures / "models/qwen2";
  const auto config = read_model_config(folder);
  const auto checkpoint = Checkpoint::open_folder(folder);
  ASSERT_TRUE(config && checkpoint);
  ThreadPool pool(1);
  const auto cache = [&](std::optional<KvType> keys) {
    return estimate_memory(*checkpoint, *config, WeightType::kBF16, 100, pool, keys)->cache;
  };
  EXPECT_EQ(cache({}), cache(KvType::kBF16));
  EXPECT_EQ(cache(KvType::kF32), 2 * cache(KvType::kBF16));
  EXPECT_LT(cache(KvType::kI8), cache(KvType::kBF16));
  MemoryNeed need;  // what the check before loading compares
  ASSERT_TRUE(load_weights(*checkpoint, *config, WeightType::kBF16, 100, pool, {}, &need, KvType::kF32));
  EXPECT_EQ(need.cache, cache(KvType::kF32));
}

TEST(LoadModel, AControlGroupsLimitCountsWhereItLeavesLessThanTheMachine) {
  const fs::path folder = fs::temp_directory_path() / fmt::format("slip_groups_{}", ::getpid());
  const auto put = [&](const char* name, std::string_view text) {
    fs::create_directories((folder / name).parent_path());
    ASSERT_TRUE(write_file(folder / name, text));
  };
  const MemoryFiles files{folder / "meminfo", folder / "own", folder / "groups"};
  EXPECT_EQ(available_memory(files), -1);
  put("meminfo", "MemTotal: 9000 kB\nMemAvailable: 8000 kB\nBuffers: 1 kB\n");
  const int64_t machine = 8000 * 1024;
  EXPECT_EQ(available_memory(files), machine) << "no groups";
  put("groups/memory.max", "max\n");
  put("groups/memory.current", "1000\n");
  EXPECT_EQ(available_memory(files), machine) << "no limit";
  put("groups/memory.max", "5000000\n");
  EXPECT_EQ(available_memory(files), 4999000) << "as in a container";
  put("groups/memory.stat", "anon 400\nfile 600\ninactive_file 200\nactive_file 300\n");
  EXPECT_EQ(available_memory(files), 4999500) << "file pages can be dropped";
  put("own", "0::/service/part\n");
  put("groups/service/memory.max", "3000\n");
  put("groups/service/memory.current", "1000\n");
  EXPECT_EQ(available_memory(files), 2000) << "a group above the process's own";
  put("own", "5:devices:/x\n4:memory:/job\n0::/\n");
  put("groups/memory/job/memory.limit_in_bytes", "700\n");
  put("groups/memory/job/memory.usage_in_bytes", "900\n");
  EXPECT_EQ(available_memory(files), 0) << "version 1, over its limit";
  put("own", "nonsense\n0:\n0::\n");
  EXPECT_EQ(available_memory(files), 4999500);
  fs::remove_all(folder);
  EXPECT_GT(available_memory(), 0);
}

TEST(LoadModel, KeepsKeysInTheTypeThatIsAskedForAndCountsThem) {
  const auto folder = kFixtures / "models/qwen2";
  ModelOptions options{WeightType::kBF16, 1, 100};
  for (const KvType keys : {KvType::kF32, KvType::kBF16, KvType::kI8}) {
    options.kv_type = keys;
    const auto model = load_model(folder, options);
    ASSERT_TRUE(model) << model.error().message;
    EXPECT_EQ((*model)->decoder()->arena().type(), keys);
    EXPECT_EQ((*model)->memory().cache, static_cast<int64_t>((*model)->decoder()->arena().bytes()));
  }
  options.device = "cuda:0";
  EXPECT_EQ(load_model(folder, options).error().kind, ErrorKind::kUnsupported) << "before anyone looks for a device";
}

TEST(LoadModel, OptionsOutsideTheirRangeAreUsageErrors) {
  EXPECT_EQ(load_model(kFixtures / "models/qwen2", {WeightType::kF32, 1, 0}).error().kind, ErrorKind::kUsage);
  EXPECT_EQ(load_model(kFixtures / "models/qwen2", {WeightType::kF32, -1, 8}).error().kind, ErrorKind::kUsage);
}

TEST_F(SpoiltFolder, MessagesGoThroughTheFoldersTemplateAndTokenizer) {
  for (const char* name : {"tokenizer.json", "tokenizer_config.json"}) fs::copy(kFixtures / "text/qwen" / name, folder / name);
  auto model = load_model(folder, {WeightType::kF32, 1, 8});
  ASSERT_TRUE(model) << model.error().message;
  ASSERT_TRUE((*model)->need_tokenizer());
  const std::vector<ChatMessage> messages = {{"user", {TextItem{"hello"}}}};
  const auto prompt = (*model)->build_prompt(messages);
  ASSERT_TRUE(prompt) << prompt.error().message;
  const auto text = (*model)->build_prompt(
      std::string_view("<|im_start|>system\nYou are a helpful assistant.<|im_end|>\n<|im_start|>user\nhello<|im_end|>\n"
                       "<|im_start|>assistant\n"));
  ASSERT_TRUE(text);
  EXPECT_EQ(prompt->inputs, text->inputs);
  EXPECT_EQ(prompt->positions.back(), Position::text(prompt->next_position - 1));
}

TEST_F(SpoiltFolder, ATokenizerThatCannotBeReadLeavesPassesOfIdsAndSaysWhyWhenTextComes) {
  ASSERT_TRUE(write_file(folder / "tokenizer.json", "{"));
  auto model = load_model(folder, {WeightType::kF32, 1, 8});
  ASSERT_TRUE(model) << model.error().message;
  EXPECT_EQ((*model)->tokenizer(), nullptr);
  const auto prompt = (*model)->build_prompt(std::string_view("hello"));
  ASSERT_FALSE(prompt);
  EXPECT_NE(prompt.error().message.find("tokenizer.json"), std::string::npos) << prompt.error().message;
}

TEST_F(SpoiltFolder, EndTokensOfGenerationConfigAreAdded) {
  ASSERT_TRUE(write_file(folder / "generation_config.json", R"({"eos_token_id": [1, 7]})"));
  const auto config = load_config(folder, nullptr);
  ASSERT_TRUE(config);
  EXPECT_EQ(config->eos, (std::vector<TokenId>{{1}, {7}}));
  ASSERT_TRUE(write_file(folder / "generation_config.json", R"({"eos_token_id": 300})"));
  EXPECT_FALSE(load_config(folder, nullptr));
}

TEST(LoadConfig, OpenVlaOftFoldersAreRefusedByTheFileThatTellsThem) {
  const fs::path folder = fs::temp_directory_path() / fmt::format("slip_oft_{}", ::getpid());
  fs::create_directories(folder);
  fs::copy(kFixtures / "models/openvla/config.json", folder / "config.json");
  EXPECT_TRUE(load_config(folder, nullptr));
  for (const char* name : {"proprio_projector--150000_checkpoint.pt", "action_head--150000_checkpoint.pt"}) {
    ASSERT_TRUE(write_file(folder / name, ""));
    const auto refused = load_config(folder, nullptr);
    ASSERT_FALSE(refused);
    EXPECT_EQ(refused.error().kind, ErrorKind::kUnsupported);
    EXPECT_NE(refused.error().message.find(name), std::string::npos) << refused.error().message;
  }
  fs::remove_all(folder);
}

}  // namespace
}  // namespace slip
