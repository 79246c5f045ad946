// SPDX-License-Identifier: Apache-2.0
// Synthetic folders: true sizes, the same bytes from the same seed, numbers as promised, and every shape loads and answers.
#include "convert/synthesize.h"

#include <gtest/gtest.h>

#include <cmath>

#include "base/file.h"
#include "base/folder_testing.h"
#include "convert/prismatic_parts.h"
#include "models/model.h"

namespace slip {
namespace {

namespace fs = std::filesystem;

int64_t parameters(const std::string& like) {
  const auto model = synthetic_model({.like = like});
  EXPECT_TRUE(model);
  int64_t sum = 0;
  for (const SyntheticTensor& t : model->tensors) {
    int64_t n = 1;
    for (const int64_t d : t.shape) n *= d;
    sum += n;
  }
  return sum;
}

// The releases' own counts (their safetensors metadata); OpenVLA's without the pooling head that its tower never uses.
TEST(Synthesize, HasAsManyParametersAsTheReleases) {
  EXPECT_EQ(parameters("qwen2.5-vl-3b"), 3754622976);
  EXPECT_EQ(parameters("qwen2.5-0.5b"), 494032768);
  EXPECT_EQ(parameters("nemotron-3b"), 3429006336);
  EXPECT_NEAR(static_cast<double>(parameters("openvla-7b")), 7.54e9, 0.03e9);
}

TEST(Synthesize, EveryTinyShapeLoadsAndAnswersDifferently) {
  const test::TemporaryFolder root;
  ThreadPool pool(2);
  for (const char* like : {"qwen2.5-vl-3b", "qwen2.5-0.5b", "nemotron-3b", "openvla-7b"}) {
    for (const char* dtype : {"bf16", "f32", "f16", "fp8"}) {
      SCOPED_TRACE(fmt::format("{} {}", like, dtype));
      const fs::path out = root.path / fmt::format("{}-{}", like, dtype);
      const auto made = synthesize({.like = like, .dtype = dtype, .tiny = true}, out, pool);
      ASSERT_TRUE(made) << made.error().message;
      auto model = load_model(out, {WeightType::kBF16, 1, 32});
      ASSERT_TRUE(model) << model.error().message;
      ASSERT_NE((*model)->tokenizer(), nullptr);
      const std::string text = "Drive on, 12.5 m/s: caf\xc3\xa9!";
      const auto ids = (*model)->tokenizer()->encode(text);
      ASSERT_TRUE(ids) << ids.error().message;
      EXPECT_EQ((*model)->tokenizer()->decode(*ids, true), text);
      std::vector<Row> rows;
      std::vector<SlotSpan> spans;
      for (int32_t i = 0; i < 24; ++i) {
        rows.push_back({TokenId{300 + 5 * i}, Position::text(i), i, static_cast<uint32_t>(i), 1, Want::kArgmax});
        spans.push_back({0, i + 1});
      }
      PassOutput pass;
      ASSERT_TRUE((*model)->lm().forward({.rows = rows, .spans = spans}, pass));
      EXPECT_EQ(pass.nan_rows, 0);
      std::set<TokenId> different(pass.argmax.begin(), pass.argmax.end());
      EXPECT_GT(different.size(), 8U);
    }
  }
}

TEST(Synthesize, TheSameSeedGivesTheSameBytesWhateverTheThreads) {
  const test::TemporaryFolder root;
  std::vector<std::string> bytes;
  for (const auto& [seed, threads] : {std::pair{uint64_t{5}, 1}, {uint64_t{5}, 3}, {uint64_t{6}, 1}}) {
    ThreadPool pool(threads);
    const fs::path out = root.path / std::to_string(bytes.size());
    ASSERT_TRUE(synthesize({.like = "qwen2.5-0.5b", .seed = seed, .tiny = true}, out, pool));
    bytes.push_back(*read_file(out / "model.safetensors"));
  }
  EXPECT_EQ(bytes[0], bytes[1]);
  EXPECT_NE(bytes[0], bytes[2]);
}

TEST(Synthesize, NumbersHaveTheirDeviationAndDoNotDependOnThePiece) {
  const SyntheticTensor t{"layers.0.weight", {100, 1000}, 0, 0.03F};
  std::vector<float> all(100000), piece(17);
  synthetic_numbers(1, t, 0, all);
  synthetic_numbers(1, t, 4242, piece);
  EXPECT_TRUE(std::equal(piece.begin(), piece.end(), all.begin() + 4242));
  double mean = 0, square = 0;
  for (const float x : all) {
    mean += x / 1e5;
    square += double{x} * x / 1e5;
  }
  // Five standard errors: 0.03 / sqrt(1e5) for the mean; the bell's kurtosis is 2.7, so sqrt(1.7 / 1e5) of the square.
  EXPECT_LT(std::abs(mean), 5 * 0.03 / std::sqrt(1e5));
  EXPECT_NEAR(square / (0.03 * 0.03), 1, 5 * std::sqrt(1.7 / 1e5));
}

TEST(Synthesize, ThinnedOnesKeepTheWidths) {
  const auto model = synthetic_model({.like = "openvla-7b", .layers = 2});
  ASSERT_TRUE(model);
  const json::object& config = model->files.front().second.as_object();
  EXPECT_EQ(config.at("text_config").as_object().at("num_hidden_layers").to_number<int>(), 2);
  EXPECT_EQ(config.at("text_config").as_object().at("hidden_size").to_number<int>(), 4096);
  EXPECT_EQ(config.at("timm_model_args").as_array().size(), 2U);
}

TEST(Synthesize, RefusesWhatItCannotDo) {
  const test::TemporaryFolder root;
  ThreadPool pool(1);
  const auto kind = [&](const SynthesizeOptions& o, const fs::path& out) {
    const auto made = synthesize(o, out, pool);
    EXPECT_FALSE(made);
    return made ? ErrorKind::kInternal : made.error().kind;
  };
  EXPECT_EQ(kind({.like = "gpt-9"}, root.path / "a"), ErrorKind::kUsage);
  EXPECT_EQ(kind({.like = "qwen2.5-0.5b", .dtype = "int8"}, root.path / "a"), ErrorKind::kUnsupported);
  EXPECT_EQ(kind({.like = "qwen2.5-0.5b", .tiny = true}, root.path), ErrorKind::kBadInput);
  EXPECT_EQ(kind({.like = "qwen2.5-0.5b", .tiny = true, .tokenizer = {"vocab.json", "merges.txt"}}, root.path / "a"),
            ErrorKind::kUsage);
  EXPECT_EQ(std::distance(fs::directory_iterator(root.path), fs::directory_iterator()), 0);
}

/// A checkpoint's pictures are scaled as its own towers were trained: DINOv2's with ImageNet's means, SigLIP's with one half.
TEST(PrismaticPreprocessor, ScalesEachTowersPicturesAsItWasTrained) {
  VitConfig dino, siglip;
  dino.cls = true;
  dino.grid_rows = siglip.grid_rows = 16;
  const json::array imagenet{0.485, 0.456, 0.406}, half{0.5, 0.5, 0.5};
  const auto means = [](const json::object& o) {
    std::vector<json::value> out;
    for (const json::value& v : o.at("tvf_normalize_params").as_array()) out.push_back(v.at("mean"));
    return out;
  };
  const auto one = prismatic_preprocessor(std::vector{siglip}, "letterbox"),
             two = prismatic_preprocessor(std::vector{dino, siglip}, "letterbox");
  EXPECT_EQ(means(one), std::vector<json::value>{half});
  EXPECT_EQ(means(two), (std::vector<json::value>{imagenet, half}));
  EXPECT_EQ(one.at("tvf_letterbox_fill"), (json::array{127, 127, 127}));
  EXPECT_EQ(two.at("tvf_letterbox_fill"), (json::array{123, 116, 103}));
  EXPECT_EQ(one.at("tvf_crop_params").at(0).at("output_size"), (json::array{224, 224}));
}

}  // namespace
}  // namespace slip
