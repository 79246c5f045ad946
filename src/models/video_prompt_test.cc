// SPDX-License-Identifier: Apache-2.0
// A prompt with an image and a video of six frames against transformers 5.12 on the same folder (tests/fixtures/video): pixels,
// features, positions by the rules of 4.49 and of 5.x, logits.
#include "models/video_prompt.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <tuple>

namespace slip {
namespace {

namespace fs = std::filesystem;
const fs::path kFixtures = SLIP_FIXTURES;
const fs::path kFolder = kFixtures / "models/qwen2_5_vl";

class VideoPrompt : public ::testing::Test {
 protected:
  VideoPrompt()
      : file_(*Checkpoint::open_file(kFixtures / "video/expected.safetensors")),
        model_(*load_model(kFolder, {WeightType::kF32, 2, 64})) {
    const TensorView& t = *file_.find("frames");
    const auto* bytes = reinterpret_cast<const uint8_t*>(t.bytes.data());
    const size_t size = t.bytes.size() / 6;
    for (size_t i = 0; i < 6; ++i) frames_.push_back({84, 56, {bytes + i * size, bytes + (i + 1) * size}});
    images_.push_back(*model_->preprocess(*load_image(kFolder / "image_1.png")));
    for (const int32_t id : numbers("tokens")) tokens_.push_back({id});
  }

  std::vector<int32_t> numbers(const std::string& name) const {
    const TensorView& t = *file_.find(name);
    std::vector<int32_t> out(t.bytes.size() / 4);
    std::memcpy(out.data(), t.bytes.data(), t.bytes.size());
    return out;
  }
  void expect_near(std::span<const float> got, const std::string& name) const {
    const std::vector<float> reference = read_as_f32(*file_.find(name));
    ASSERT_EQ(got.size(), reference.size());
    for (size_t i = 0; i < reference.size(); ++i)
      ASSERT_NEAR(got[i], reference[i], 2e-5 * (1 + std::abs(reference[i]))) << name << " " << i;
  }
  std::vector<float> logits(const Prompt& p) {
    std::vector<Row> rows;
    std::vector<SlotSpan> spans;
    for (size_t i = 0; i < p.inputs.size(); ++i) {
      const auto at = static_cast<int32_t>(i);
      rows.push_back({.input = p.inputs[i],
                      .position = p.positions[i],
                      .slot = at,
                      .sees_first = static_cast<uint32_t>(i),
                      .sees_count = 1,
                      .want = Want::kLogits});
      spans.push_back({0, at + 1});
    }
    PassOutput out;
    const Status done = model_->lm().forward({.rows = rows, .spans = spans, .features = p.features}, out);
    EXPECT_TRUE(done) << done.error().message;
    return out.logits_NV;
  }

  Checkpoint file_;
  std::unique_ptr<Model> model_;
  std::vector<Image> frames_;
  std::vector<PatchGrid> images_;
  std::vector<TokenId> tokens_;
};

TEST_F(VideoPrompt, FramesBecomeTheReferencesPixels) {
  const auto video = video_patches(frames_, 2, *model_->preprocessor());
  ASSERT_TRUE(video) << video.error().message;
  EXPECT_EQ(video->grid.t, 3);
  EXPECT_EQ(video->grid.h, 4);
  EXPECT_EQ(video->grid.w, 6);
  EXPECT_EQ(video->seconds_per_grid, 1.0);
  const std::vector<float> reference = read_as_f32(*file_.find("pixel_rows"));  // every fifth patch
  ASSERT_EQ(reference.size(), size_t{15} * 1176);
  for (size_t row = 0; row < 15; ++row)
    EXPECT_EQ(std::memcmp(video->grid.values.data() + row * 5 * 1176, reference.data() + row * 1176, 1176 * sizeof(float)), 0)
        << row;
}

TEST_F(VideoPrompt, AnOddLastFrameStandsTwice) {
  std::vector<Image> five(frames_.begin(), frames_.begin() + 5), six = five;
  six.push_back(five.back());
  EXPECT_EQ(video_patches(five, 4, *model_->preprocessor())->grid.values,
            video_patches(six, 4, *model_->preprocessor())->grid.values);
  EXPECT_NE(video_patches(six, 4, *model_->preprocessor())->grid.values,
            video_patches(frames_, 4, *model_->preprocessor())->grid.values);
  EXPECT_EQ(video_patches(five, 4, *model_->preprocessor())->seconds_per_grid, 0.5);
}

TEST_F(VideoPrompt, HasTheReferencesFeaturesPositionsAndLogits) {
  for (const auto& [fps, name] : {std::pair{2.0, "1"}, {5.0, "0_4"}}) {  // 1 and 0.4 seconds per grid
    const std::vector<VideoPatches> videos{*video_patches(frames_, fps, *model_->preprocessor())};
    for (const auto& [rule, word] : {std::pair{VideoPositions::k4Float, "k4_"}, {VideoPositions::k5Whole, "k5_"}}) {
      SCOPED_TRACE(std::string(word) + name);
      const auto prompt = build_video_prompt(*model_, tokens_, images_, videos, rule);
      ASSERT_TRUE(prompt) << prompt.error().message;
      std::vector<int32_t> positions;
      for (const Position& p : prompt->positions) positions.insert(positions.end(), {p.t, p.h, p.w});
      EXPECT_EQ(positions, numbers(std::string("positions_") + word + name));
      EXPECT_EQ(prompt->next_position, *std::max_element(positions.begin(), positions.end()) + 1);
      const size_t width = static_cast<size_t>(model_->lm().info().hidden_size);
      expect_near(std::span(prompt->features.numbers_ND).subspan(static_cast<size_t>(images_[0].merged()) * width),
                  "video_features");
      expect_near(logits(*prompt), std::string("logits_") + word + name);
    }
  }
}

// The default. With one second per grid the rule of 4.49 gives the same; with 0.4 no time passes, as in 5.x, but text goes on
// behind the furthest, which is then the columns' number as there.
TEST_F(VideoPrompt, SecondsAreWholeInTheRuleOf450To457) {
  for (const auto& [fps, name, seconds] : {std::tuple{2.0, "k4_1", 1}, {5.0, "k5_0_4", 0}, {0.8, "", 2}}) {
    SCOPED_TRACE(fps);
    const std::vector<VideoPatches> videos{*video_patches(frames_, fps, *model_->preprocessor())};
    const auto prompt = build_video_prompt(*model_, tokens_, images_, videos);
    ASSERT_TRUE(prompt) << prompt.error().message;
    std::vector<int32_t> positions, expected;
    for (const Position& p : prompt->positions) positions.insert(positions.end(), {p.t, p.h, p.w});
    const PatchGrid& still = images_[0];
    int32_t s = 0;
    for (size_t i = 0; i < tokens_.size();) {
      const bool image = tokens_[i].value == 310, video = tokens_[i].value == 311;
      const int32_t times = video ? 3 : 1,
                    rows = image   ? still.h / 2
                           : video ? 2
                                   : 1,
                    columns = image   ? still.w / 2
                              : video ? 3
                                      : 1;
      int32_t furthest = 0;
      for (int32_t t = 0; t < times; ++t)
        for (int32_t h = 0; h < rows; ++h)
          for (int32_t w = 0; w < columns; ++w, ++i) {
            const int32_t time = s + t * seconds * 2;  // tokens_per_second
            expected.insert(expected.end(), {time, s + h, s + w});
            furthest = std::max({furthest, time, s + h, s + w});
          }
      s = furthest + 1;
    }
    EXPECT_EQ(positions, expected);
    EXPECT_EQ(prompt->next_position, s);
    if (*name == 0) continue;
    EXPECT_EQ(positions, numbers(std::string("positions_") + name));
    expect_near(logits(*prompt), std::string("logits_") + name);
  }
}

TEST_F(VideoPrompt, RefusesWhatIsNoVideo) {
  const PreprocessorConfig& rules = *model_->preprocessor();
  EXPECT_EQ(video_patches({}, 2, rules).error().message, "video: expected at least one frame, got none");
  EXPECT_EQ(video_patches(frames_, 0, rules).error().kind, ErrorKind::kBadInput);
  std::vector<Image> uneven = frames_;
  uneven[2] = {28, 28, std::vector<uint8_t>(28 * 28 * 3)};
  EXPECT_EQ(video_patches(uneven, 2, rules).error().message,
            "video: frame 2: expected 84 x 56 pixels as in the first, got 28 x 28");
  EXPECT_EQ(build_video_prompt(*model_, tokens_, images_, {}).error().kind, ErrorKind::kBadInput);  // a placeholder without a video
  const auto text = load_model(kFixtures / "models/qwen2", {WeightType::kF32, 1, 64});
  ASSERT_TRUE(text);
  EXPECT_EQ(build_video_prompt(**text, tokens_, {}, {}).error().kind, ErrorKind::kUnsupported);
}

}  // namespace
}  // namespace slip
