// SPDX-License-Identifier: Apache-2.0
// Training and inference are two implementations of one pass: a teacher-forced row of the trainer equals the engine's row. Both
// are asked through their binaries, as a user would.
#include <gtest/gtest.h>
#include <unistd.h>

#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <string>

#include "core/safetensors.h"

namespace slip {
namespace {

namespace fs = std::filesystem;

class TrainerAndEngine : public testing::TestWithParam<std::pair<const char*, const char*>> {
 protected:
  void SetUp() override {
    dir_ = fs::temp_directory_path() / ("slip_trainer_engine_" + std::to_string(::getpid()));
    fs::create_directories(dir_);
  }
  void TearDown() override { fs::remove_all(dir_); }
  static int run(const std::string& command) { return std::system((command + " > /dev/null").c_str()); }
  std::string at(const char* name) const { return (dir_ / name).string(); }
  fs::path dir_;
};

TEST_P(TrainerAndEngine, GiveTheSameRows) {
  const auto [name, rows_name] = GetParam();
  const fs::path model = fs::path(SLIP_FIXTURES) / "models" / name;
  const std::string rows = (model / rows_name).string();
  std::string pixels;
  if (fs::exists(model / "image_0.png")) {
    std::string images = (model / "image_0.png").string();
    if (fs::exists(model / "image_1.png")) images += " " + (model / "image_1.png").string();
    ASSERT_EQ(run(std::string(SLIP_BINARY) + " preprocess --model " + model.string() + " --image " + images + " --out " +
                  at("p.safetensors")),
              0);
    pixels = " --pixels " + at("p.safetensors");
  }
  ASSERT_EQ(
      run(std::string(SLIP_BINARY) + " forward --model " + model.string() + " --rows " + rows + " --out " + at("e.safetensors")),
      0);
  ASSERT_EQ(run(std::string(SLIP_TRAINER) + " --forward " + rows + " --model " + model.string() + pixels + " --out " +
                at("t.safetensors")),
            0);
  const auto engine = Checkpoint::open_file(dir_ / "e.safetensors");
  const auto trainer = Checkpoint::open_file(dir_ / "t.safetensors");
  ASSERT_TRUE(engine) << engine.error().message;
  ASSERT_TRUE(trainer) << trainer.error().message;
  const std::vector<float> e = read_as_f32(engine->tensors().begin()->second), t = read_as_f32(trainer->tensors().begin()->second);
  ASSERT_EQ(e.size(), t.size());
  ASSERT_GT(e.size(), 0u);
  float worst = 0;
  for (size_t i = 0; i < e.size(); ++i) worst = std::max(worst, std::abs(e[i] - t[i]));
  EXPECT_LE(worst, 1e-4F);
}

INSTANTIATE_TEST_SUITE_P(Fixtures, TrainerAndEngine,
                         testing::Values(std::pair{"qwen2", "rows_causal.json"}, std::pair{"qwen2", "rows_block.json"},
                                         std::pair{"qwen2_5_vl", "rows_causal.json"},
                                         std::pair{"qwen2_5_vl", "rows_field_graph.json"}));

}  // namespace
}  // namespace slip
