// SPDX-License-Identifier: Apache-2.0
#include "models/draft/block_pilot.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

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

}  // namespace
}  // namespace slip
