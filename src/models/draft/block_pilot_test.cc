// SPDX-License-Identifier: Apache-2.0
#include "models/draft/block_pilot.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include "base/file.h"
#include "core/safetensors.h"

namespace slip {
namespace {

using testing::HasSubstr;

Status write_pilot(const std::filesystem::path& file, int64_t vocab, int64_t hidden, std::vector<float> w0, std::vector<float> w1,
                   std::vector<float> w2, bool with_out = true) {
  const std::vector<float> zeros(64, 0);
  const auto bytes = [](const std::vector<float>& x, int64_t n) {
    return std::as_bytes(std::span(x).first(static_cast<size_t>(n)));
  };
  std::vector<TensorToWrite> t{{"layers.0.weight", DType::kF32, {hidden, vocab}, bytes(w0, hidden * vocab)},
                               {"layers.0.bias", DType::kF32, {hidden}, bytes(zeros, hidden)},
                               {"layers.1.weight", DType::kF32, {hidden, hidden}, bytes(w1, hidden * hidden)},
                               {"layers.1.bias", DType::kF32, {hidden}, bytes(zeros, hidden)}};
  const auto classes = static_cast<int64_t>(w2.size()) / hidden;
  if (with_out) {
    t.push_back({"fc_out.weight", DType::kF32, {classes, hidden}, bytes(w2, classes * hidden)});
    t.push_back({"fc_out.bias", DType::kF32, {classes}, bytes(zeros, classes)});
  }
  return write_safetensors(file, t);
}

TEST(BlockPilot, IsThePublishedNetwork) {
  const auto file = std::filesystem::temp_directory_path() / ("slip_pilot_" + std::to_string(::getpid()) + ".safetensors");
  // x = (1, -2, 3): first layer relu(1, -2 + 3) = (1, 1); second relu((-1, 2)) + (1, 1) = (1, 3); outputs 1, 3, 1 + 3, -1, 0.
  ASSERT_TRUE(write_pilot(file, 3, 2, {1, 0, 0, 0, 1, 1}, {-1, 0, 0, 2}, {1, 0, 0, 1, 1, 1, -1, 0, 0, 0}));
  const auto p = load_block_pilot(file);
  ASSERT_TRUE(p) << p.error().message;
  EXPECT_EQ((*p)->vocab(), 3);
  EXPECT_EQ((*p)->classes(), 5);
  const float x[] = {1, -2, 3};
  EXPECT_EQ((*p)->pick(x), 2);
  EXPECT_EQ((*p)->block(x, 16), 16);
  const float y[] = {0, 0, 0};
  EXPECT_EQ((*p)->block(y, 16), 14) << "equal ones: the first class";
  ASSERT_TRUE(write_pilot(file, 3, 2, {1, 0, 0, 0, 1, 1}, {-1, 0, 0, 2}, {1, 0}, false));
  EXPECT_THAT(load_block_pilot(file).error().message, HasSubstr("fc_out.weight"));
  std::filesystem::remove(file);
}

/// A classifier of so many logits that always picks its first class.
Status write_idle_pilot(const std::filesystem::path& file, int64_t vocab) {
  const auto n = static_cast<size_t>(vocab);
  return write_pilot(file, vocab, 2, std::vector<float>(2 * n, 0), std::vector<float>(4, 0), std::vector<float>(10, 0));
}

std::unique_ptr<Model> shipped(const std::string& name) {
  auto model = load_model(std::filesystem::path(SLIP_SOURCE_DIR) / "models" / name, {WeightType::kF32, 1, 16});
  EXPECT_TRUE(model) << model.error().message;
  return std::move(*model);
}

class BlockPilotOf : public testing::Test {
 protected:
  void SetUp() override {
    folder_ = std::filesystem::temp_directory_path() / ("slip_pilot_of_" + std::to_string(::getpid()));
    std::filesystem::create_directories(folder_);
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }
  Status check(const std::filesystem::path& path, const Model& target) {
    SLIP_TRY(const std::unique_ptr<BlockPilot> pilot, load_block_pilot(path));
    return check_block_pilot(path, *pilot, target);
  }
  std::filesystem::path folder_;
};

TEST_F(BlockPilotOf, AFileWithoutMarksReadsTheTargetsTokens) {
  const std::unique_ptr<Model> demo = shipped("demo");  // 717 tokens, 720 rows
  testing::internal::CaptureStderr();
  const Status own = check(demo->folder() / "blockpilot.bin", *demo);
  EXPECT_TRUE(own) << own.error().message;
  EXPECT_EQ(testing::internal::GetCapturedStderr(), "") << "what lies in a model's folder is the model's";
  const auto file = folder_ / "pilot.safetensors";
  ASSERT_TRUE(write_idle_pilot(file, 717));
  testing::internal::CaptureStderr();
  EXPECT_TRUE(check(file, *demo)) << "a head may be padded";
  EXPECT_THAT(testing::internal::GetCapturedStderr(), HasSubstr("expected a classifier that says whose it is, got one without"));
  for (const int64_t vocab : {576, 716, 721}) {  // 576: of models/pair-target
    ASSERT_TRUE(write_idle_pilot(file, vocab));
    const Status other = check(file, *demo);
    ASSERT_FALSE(other) << vocab;
    EXPECT_EQ(other.error().kind, ErrorKind::kBadInput);
    EXPECT_THAT(other.error().message, HasSubstr("reads 717 to 720 logits"));
    EXPECT_THAT(other.error().message, HasSubstr(fmt::format("got one that reads {}", vocab)));
  }
}

TEST_F(BlockPilotOf, AMarkedFolderIsOfItsTargetAlone) {
  const std::unique_ptr<Model> own = shipped("pair-target"), other = shipped("reach-target");  // of one shape
  ASSERT_TRUE(write_idle_pilot(folder_ / "model.safetensors", 576));
  ASSERT_TRUE(write_file(folder_ / "config.json", json::serialize(block_pilot_marks(*own))));
  testing::internal::CaptureStderr();
  const Status good = check(folder_, *own), bad = check(folder_, *other);
  EXPECT_EQ(testing::internal::GetCapturedStderr(), "");
  EXPECT_TRUE(good) << good.error().message;
  ASSERT_FALSE(bad);
  EXPECT_THAT(bad.error().message, HasSubstr("config.json: target_tokenizer: expected"));
  EXPECT_THAT(bad.error().message, HasSubstr("a block pilot for another target"));
  json::object marks = block_pilot_marks(*own);
  marks["target_num_hidden_layers"] = 7;
  ASSERT_TRUE(write_file(folder_ / "config.json", json::serialize(marks)));
  EXPECT_THAT(check(folder_, *own).error().message, HasSubstr("target_num_hidden_layers: expected 5 as in the target"));
}

}  // namespace
}  // namespace slip
