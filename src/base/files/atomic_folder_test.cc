// SPDX-License-Identifier: Apache-2.0
// Promises of folders that appear whole or not at all.
#include "base/files/atomic_folder.h"

#include <gtest/gtest.h>

#include "base/file.h"
#include "base/folder_testing.h"

namespace slip {
namespace {

namespace fs = std::filesystem;

TEST(AtomicFolder, ChecksTheDiskFirstAndLeavesNothing) {
  const test::TemporaryFolder root;
  const auto refused = AtomicFolder::create(root.path / "x", int64_t{1} << 60);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().kind, ErrorKind::kResource);
  {
    auto folder = AtomicFolder::create(root.path / "y", 1000);
    ASSERT_TRUE(folder);
    ASSERT_TRUE(write_file(folder->path() / "file", "x"));
  }
  EXPECT_EQ(std::distance(fs::directory_iterator(root.path), fs::directory_iterator()), 0);
  auto folder = AtomicFolder::create(root.path / "z/", 1000);
  ASSERT_TRUE(folder);
  ASSERT_TRUE(folder->commit());
  EXPECT_TRUE(fs::is_directory(root.path / "z"));
}

// Nothing is free in /proc, and nobody may make a folder there: that is the reason, as of a disk that is mounted for reading alone.
TEST(AtomicFolder, ThatCannotBeMadeIsNotCalledAFullDisk) {
  const auto refused = AtomicFolder::create("/proc/x", 1000);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().kind, ErrorKind::kBadInput);
  EXPECT_NE(refused.error().message.find("expected a folder that can be made, got: "), std::string::npos)
      << refused.error().message;
}

TEST(AtomicFolder, IsTriedWithoutATrace) {
  const test::TemporaryFolder root;
  EXPECT_TRUE(check_new_folder(root.path / "a" / "b"));
  EXPECT_TRUE(fs::is_empty(root.path));
  const auto refused = check_new_folder(root.path);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().kind, ErrorKind::kBadInput);
}

}  // namespace
}  // namespace slip
