// SPDX-License-Identifier: Apache-2.0
// Which changes of a run's inputs have another mark.
#include "train/loop/inputs.h"

#include <gtest/gtest.h>

#include "base/file.h"
#include "base/folder_testing.h"
#include "base/must_testing.h"

namespace slip {
namespace {

namespace fs = std::filesystem;

class Inputs : public testing::Test {
 protected:
  Inputs() {
    for (const auto& [folder, file] : {std::pair{"set", "index.json"},
                                       {"set", "shard-00000.slip"},
                                       {"model", "config.json"},
                                       {"model", "model.safetensors"},
                                       {"model", "width.json"},
                                       {"words", "tokenizer.json"}}) {
      fs::create_directories(root_ / folder);
      EXPECT_TRUE(write_file(root_ / folder / file, std::string(100'000, 'a')));
    }
    config_.objective = ObjectiveKind::kDflash;
    config_.target = (root_ / "model").string(), config_.tokenizer = (root_ / "words").string();
    config_.data = {{"kind", "mixed"},
                    {"parts", json::array{json::object{{"kind", "records"}, {"records", (root_ / "set").string()}}}}};
  }
  /// The parts whose marks another last byte of a file changes.
  std::string changed_by(const std::string& file) const {
    const json::object before = marks_of_inputs(config_);
    const std::string kept = must(read_file(root_ / file));
    EXPECT_TRUE(write_file(root_ / file, kept.substr(0, kept.size() - 1) + "b"));
    const json::object after = marks_of_inputs(config_);
    EXPECT_TRUE(write_file(root_ / file, kept));
    std::string out;
    for (const auto& [name, mark] : before)
      if (after.at(name) != mark) out += std::string_view(name).substr(0, name.find(" /"));
    return out;
  }

  test::TemporaryFolder folder_;
  const fs::path& root_ = folder_.path;
  TrainConfig config_;
};

TEST_F(Inputs, ARecordSetAFrozenModelAndATokenizerHaveMarks) {
  EXPECT_EQ(changed_by("set/index.json"), "data: records");
  EXPECT_EQ(changed_by("set/shard-00000.slip"), "data: records");
  EXPECT_EQ(changed_by("model/model.safetensors"), "target");
  EXPECT_EQ(changed_by("model/config.json"), "target");
  EXPECT_EQ(changed_by("words/tokenizer.json"), "tokenizer");
  EXPECT_EQ(changed_by("model/width.json"), "") << "a calibration is no weight";
}

TEST_F(Inputs, WhatARunBeganWithNeedNotBeThereAnyMore) {
  config_.objective = ObjectiveKind::kSasd;
  config_.init = (root_ / "model").string();
  EXPECT_FALSE(marks_of_inputs(config_).contains("init " + config_.init));
  config_.objective = ObjectiveKind::kLoraAll;
  EXPECT_TRUE(marks_of_inputs(config_).contains("init " + config_.init));
  config_.init = "nowhere";
  EXPECT_FALSE(marks_of_inputs(config_).contains("init nowhere"));
}

}  // namespace
}  // namespace slip
