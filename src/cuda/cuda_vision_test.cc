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
