// SPDX-License-Identifier: Apache-2.0
// The vision tower on the emulated device: against transformers' features (as near as the processor's own bf16 path), and an image's bits alone
// and in company by ==.
#include "cuda/cuda_vision.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <random>

#include "cuda/features.h"
#include "image/bicubic.h"
#include "models/config/config.h"
#include "models/loader.h"
#include "models/vision/qwen_vision.h"

namespace slip::cuda {
namespace {

namespace fs = std::filesystem;

fs::path fixture() {
  const char* asked = std::getenv("SLIPSTREAM_FIXTURES");
  return fs::path(asked != nullptr ? asked : SLIP_FIXTURES) / "models" / "qwen2_5_vl";
}

std::vector<float> tensor(const Checkpoint& c, const std::string& name) {
  const auto* view = c.find(name);
  EXPECT_NE(view, nullptr) << name;
  return view ? read_as_f32(*view) : std::vector<float>{};
}

class Vision : public testing::Test {
 protected:
  void SetUp() override { load(WeightType::kBF16); }

  void load(WeightType type) {
    auto config = read_model_config(fixture());
    ASSERT_TRUE(config) << config.error().message;
    auto checkpoint = Checkpoint::open_folder(fixture());
    ASSERT_TRUE(checkpoint) << checkpoint.error().message;
    auto weights = load_weights(*checkpoint, *config, type, 16, pool_);
    ASSERT_TRUE(weights) << weights.error().message;
    tower_ = std::make_unique<QwenVision>(*config->vision, std::move(*weights->vision), pool_);
    auto expected = Checkpoint::open_file(fixture() / "expected_images.safetensors");
    ASSERT_TRUE(expected) << expected.error().message;
    const std::vector<float> pixels = tensor(*expected, "pixel_values"), grids = tensor(*expected, "grid_thw");
    images_.clear();
    size_t first = 0;
    for (size_t i = 0; i + 2 < grids.size(); i += 3) {
      PatchGrid g{static_cast<int>(grids[i]),      static_cast<int>(grids[i + 1]), static_cast<int>(grids[i + 2]),
                  config->vision->patch_numbers(), config->vision->merge,          {}};
      const size_t numbers = static_cast<size_t>(g.patches()) * static_cast<size_t>(config->vision->patch_numbers());
      g.values.assign(pixels.begin() + static_cast<ptrdiff_t>(first), pixels.begin() + static_cast<ptrdiff_t>(first + numbers));
      first += numbers;
      images_.push_back(std::move(g));
    }
  }

  std::vector<float> encode(std::span<const PatchGrid> images) {
    std::vector<float> out;
    const Status encoded = tower_->encode(images, out);
    EXPECT_TRUE(encoded) << encoded.error().message;
    return out;
  }

  void move_to_device() {
    auto opened = Device::open(0);
    if (!opened) {
      std::fprintf(stderr, "%s\n", opened.error().message.c_str());
      std::exit(static_cast<int>(opened.error().kind));
    }
    auto made = CudaVision::create(std::move(*opened), tower_->device_weights(), pool_);
    ASSERT_TRUE(made) << made.error().message;
    tower_->run_on(std::move(*made));
  }

  ThreadPool pool_{1};
  std::unique_ptr<QwenVision> tower_;
  std::vector<PatchGrid> images_;
};

double root_mean_square(std::span<const float> x, std::span<const float> ref) {
  double sum = 0;
  for (size_t i = 0; i < ref.size(); ++i) sum += (double{x[i]} - ref[i]) * (double{x[i]} - ref[i]);
  return std::sqrt(sum / static_cast<double>(ref.size()));
}

TEST_F(Vision, IsAsNearToTheReferenceAsTheProcessorOfTheSameType) {
  auto config = read_model_config(fixture());
  auto checkpoint = Checkpoint::open_folder(fixture());
  auto exact = load_weights(*checkpoint, *config, WeightType::kF32, 16, pool_);
  QwenVision in_f32(*config->vision, std::move(*exact->vision), pool_);
  std::vector<float> ref;
  ASSERT_TRUE(in_f32.encode(images_, ref));
  for (const WeightType type : {WeightType::kBF16, WeightType::kI8}) {
    load(type);
    const std::vector<float> there = encode(images_);
    move_to_device();
    const std::vector<float> here = encode(images_);
    ASSERT_EQ(here.size(), ref.size());
    // Beside integers the processor rounds activations to eight bits, a device to bf16.
    EXPECT_LT(root_mean_square(here, ref), (type == WeightType::kBF16 ? 1.5 : 1) * root_mean_square(there, ref));
    EXPECT_GT(root_mean_square(here, ref), 0);
  }
}

// Frames of several chunks of keys, products tile by tile.
TEST_F(Vision, ReadsALargePictureLikeTheProcessor) {
  PatchGrid large = images_[0];
  large.h = large.w = 24;
  large.values.resize(static_cast<size_t>(large.patches() * large.patch_dim));
  std::mt19937 random(3);
  std::normal_distribution<float> normal(0, 1);
  for (float& v : large.values) v = normal(random);
  const std::vector<float> there = encode({&large, 1});
  move_to_device();
  const std::vector<float> here = encode({&large, 1});
  ASSERT_EQ(here.size(), there.size());
  const std::vector<float> zeros(there.size(), 0);
  EXPECT_LT(root_mean_square(here, there), 0.02 * root_mean_square(there, zeros));
  const std::vector<PatchGrid> both = {images_[0], large};
  const std::vector<float> company = encode(both);
  EXPECT_EQ(std::vector<float>(company.end() - static_cast<ptrdiff_t>(here.size()), company.end()), here);
}

// Of a picture that is resized here, and of the same resized there: the same bits. Shrunk, enlarged, along one axis, tall ones first down.
TEST_F(Vision, PicturesAreResizedAndCutThere) {
  move_to_device();
  PreprocessorConfig config;
  const QwenVision& tower = *tower_;
  config.patch_size = tower.config().patch;
  config.merge_size = tower.config().merge;
  config.temporal_patch_size = tower.config().temporal_patch;
  const int factor = config.factor();
  config.min_pixels = int64_t{4} * factor * factor;
  config.max_pixels = int64_t{40} * factor * factor;
  std::vector<PatchGrid> here, there;
  for (const auto& [width, height] :
       {std::pair{200, 90}, {5, 6}, {factor * 6, 50}, {33, factor * 4}, {factor * 3, factor * 3}, {8, 1500}, {200, 90}}) {
    auto picture = std::make_shared<Image>();
    picture->width = width;
    picture->height = height;
    std::mt19937 random(static_cast<uint32_t>(width * height));
    for (int i = 0; i < 3 * width * height; ++i) picture->rgb.push_back(static_cast<uint8_t>(random() % 256));
    auto values = qwen_patches(*picture, config);
    ASSERT_TRUE(values) << values.error().message;
    here.push_back(std::move(*values));
    auto source = patches_to_make(picture, config);
    ASSERT_TRUE(source);
    EXPECT_TRUE(source->values.empty());
    EXPECT_EQ(source->h, here.back().h);
    there.push_back(std::move(*source));
  }
  EXPECT_TRUE(shrinks_down_first(8, 1500, there[5].h * config.patch_size));
  EXPECT_EQ(there[0].content, there[6].content);
  EXPECT_NE(there[0].content, there[1].content);
  const std::vector<float> expected = encode(here);
  EXPECT_EQ(encode(there), expected);
  std::vector<PatchGrid> mixed = {there[0], here[1], there[2], here[3], there[4], there[5], here[6]};
  EXPECT_EQ(encode(mixed), expected);
  std::vector<float> alone;
  for (const PatchGrid& g : there) {
    const std::vector<float> one = encode({&g, 1});
    alone.insert(alone.end(), one.begin(), one.end());
  }
  EXPECT_EQ(alone, expected);
}

// Videos in grids of other shapes may have the same values.
TEST_F(Vision, TheSameValuesInAnotherGridAreOthers) {
  move_to_device();
  PatchGrid wide = images_[0];
  wide.h *= wide.h == wide.w ? 2 : 1;
  wide.values.assign(static_cast<size_t>(wide.patches() * wide.patch_dim), 0.5F);
  PatchGrid tall = wide;
  std::swap(tall.h, tall.w);
  Features one, other;
  ASSERT_TRUE(tower_->features({&wide, 1}, one));
  ASSERT_TRUE(tower_->features({&tall, 1}, other));
  EXPECT_NE(one.resident[0]->content(), other.resident[0]->content());
}

// More sizes than are kept, twice.
TEST_F(Vision, PicturesOfManySizesAreResizedThere) {
  move_to_device();
  PreprocessorConfig config;
  config.patch_size = tower_->config().patch;
  config.merge_size = tower_->config().merge;
  config.temporal_patch_size = tower_->config().temporal_patch;
  config.min_pixels = config.max_pixels = int64_t{config.factor()} * config.factor();
  std::vector<PatchGrid> here, there;
  for (int i = 0; i < 24; ++i) {
    auto picture = std::make_shared<Image>(Image{30 + i % 12, 40 + 3 * (i % 12), {}});
    for (int b = 0; b < 3 * picture->width * picture->height; ++b) picture->rgb.push_back(static_cast<uint8_t>(b * (i + 7) / 5));
    here.push_back(*qwen_patches(*picture, config));
    there.push_back(*patches_to_make(picture, config));
  }
  EXPECT_EQ(encode(there), encode(here));
}

// A block per image; memory goes back when nobody holds it, and what somebody holds stays as it is.
TEST_F(Vision, FeaturesStayThere) {
  move_to_device();
  const std::vector<float> expected = encode(images_);
  Features first, second;
  ASSERT_TRUE(tower_->features(images_, first));
  ASSERT_TRUE(first.numbers_ND.empty());
  ASSERT_EQ(first.resident.size(), images_.size());
  for (size_t i = 0; i < images_.size(); ++i) EXPECT_EQ(first.resident[i]->rows(), images_[i].merged());
  std::vector<PatchGrid> other = images_;
  for (PatchGrid& g : other)
    for (float& v : g.values) v = -v;
  ASSERT_TRUE(tower_->features(other, second));
  std::vector<float> numbers;
  ASSERT_TRUE(first.read(numbers));
  EXPECT_EQ(numbers, expected);
  for (size_t i = 0; i < images_.size(); ++i) EXPECT_NE(first.resident[i]->content(), second.resident[i]->content());
  Features again;
  ASSERT_TRUE(tower_->features(images_, again));
  EXPECT_EQ(again.resident[0]->content(), first.resident[0]->content());
  const auto* held = dynamic_cast<const CudaFeatures*>(first.resident[0].get());
  ASSERT_NE(held, nullptr);
  const float* memory = held->data();
  first = {};
  Features reused;
  ASSERT_TRUE(tower_->features({images_.data(), 1}, reused));
  EXPECT_EQ(dynamic_cast<const CudaFeatures&>(*reused.resident[0]).data(), memory);
  tower_.reset();
  ASSERT_TRUE(second.read(numbers)) << "features outlive the tower";
}

TEST_F(Vision, TheProcessorRefusesPicturesWhosePatchesNobodyMade) {
  PatchGrid g = images_[0];
  g.values.clear();
  g.source = std::make_shared<const PatchSource>(PatchSource{std::make_shared<const Image>(), {}});
  std::vector<float> out;
  const Status refused = tower_->encode({&g, 1}, out);
  ASSERT_FALSE(refused);
  EXPECT_NE(refused.error().message.find("pixel values"), std::string::npos) << refused.error().message;
}

TEST_F(Vision, AnImageHasTheSameFeaturesAloneAndInCompany) {
  move_to_device();
  const std::vector<float> together = encode(images_);
  std::vector<float> alone;
  for (const PatchGrid& g : images_) {
    const std::vector<float> one = encode({&g, 1});
    alone.insert(alone.end(), one.begin(), one.end());
  }
  EXPECT_EQ(together, alone);
  EXPECT_EQ(together, encode(images_)) << "nothing of a call is left for the next";
}

}  // namespace
}  // namespace slip::cuda
