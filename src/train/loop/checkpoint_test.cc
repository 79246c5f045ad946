// SPDX-License-Identifier: Apache-2.0
// What a start makes of folders that a killed run left: nothing whole is lost, nothing half written stays.
#include "train/loop/checkpoint.h"

#include <gtest/gtest.h>

#include <set>
#include <string>

#include "base/file.h"
#include "base/files/beside.h"
#include "base/folder_testing.h"
#include "base/must_testing.h"

namespace slip {
namespace {

namespace fs = std::filesystem;

class Left : public testing::Test {
 protected:
  /// A folder with a word in it; what is whole has a trainer.json, which is written last.
  void put(const std::string& name, const std::string& word, bool whole = true) const {
    fs::create_directories(out_ / name);
    EXPECT_TRUE(write_file(out_ / name / "word", word));
    EXPECT_TRUE(!whole || write_file(out_ / name / "trainer.json", "{}"));
  }
  std::string word(const std::string& name) const { return read_file(out_ / name / "word").value_or("none"); }
  std::set<std::string> names() const {
    std::set<std::string> found;
    for (const auto& entry : fs::directory_iterator(out_)) found.insert(entry.path().filename().string());
    return found;
  }
  using Names = std::set<std::string>;

  test::TemporaryFolder folder_;
  const fs::path& out_ = folder_.path;
};

TEST_F(Left, AWholeOneTakesTheFreePlace) {
  put("step-2", "two");
  put("step-6.replaced", "old");
  put("step-6.partial", "new");
  EXPECT_EQ(must(newest_checkpoint(out_)), out_ / "step-6");
  EXPECT_EQ(word("step-6"), "new");
  remove_partial_checkpoints(out_);
  EXPECT_EQ(names(), (Names{"step-2", "step-6"}));
}

TEST_F(Left, WithoutAWholeOneTheOldComesBack) {
  put("step-6.replaced", "old");
  put("step-6.partial", "new", false);
  EXPECT_EQ(must(newest_checkpoint(out_ / "step-6")), out_ / "step-6") << "asked for by its name";
  EXPECT_EQ(word("step-6"), "old");
  remove_partial_checkpoints(out_);
  EXPECT_EQ(names(), Names{"step-6"});
  fs::rename(out_ / "step-6", out_ / "step-6.replaced");
  remove_partial_checkpoints(out_);
  EXPECT_EQ(word("step-6"), "old") << "also by itself";
}

TEST_F(Left, WhatIsInItsPlaceStays) {
  put("step-6", "new");
  put("step-6.replaced", "old", false);
  put("step-7.partial", "half", false);
  put("step-8.partial", "perhaps not on the disk yet");
  put("step-6.mine", "a user's");
  EXPECT_EQ(must(newest_checkpoint(out_)), out_ / "step-6");
  remove_partial_checkpoints(out_);
  EXPECT_EQ(word("step-6"), "new");
  EXPECT_EQ(names(), (Names{"step-6", "step-6.mine"}));
}

TEST_F(Left, ANewRunIsNotStartedOverIt) {
  put("step-6.replaced", "old");
  const Status checked = check_out(out_, std::nullopt);
  ASSERT_FALSE(checked);
  EXPECT_NE(checked.error().message.find("got one with step-6"), std::string::npos) << checked.error().message;
}

TEST_F(Left, WhatAnotherIsReplacingIsItsOwn) {
  put("step-2", "two");
  put("step-6.replaced", "old");
  put("step-6.partial", "new");
  const Held another = must(hold_folder(out_));
  EXPECT_EQ(must(newest_checkpoint(out_)), out_ / "step-2");
  EXPECT_EQ(names(), (Names{"step-2", "step-6.partial", "step-6.replaced"}));
}

}  // namespace
}  // namespace slip
