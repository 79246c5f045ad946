// SPDX-License-Identifier: Apache-2.0
// Promise of files that are read: nothing is written over them, whatever name the output goes by.
#include "base/files/kept.h"

#include <gtest/gtest.h>

#include "base/file.h"
#include "base/folder_testing.h"

namespace slip {
namespace {

namespace fs = std::filesystem;

TEST(InputsKept, AnInputIsKnownUnderEveryName) {
  const test::TemporaryFolder made;
  const fs::path file = made.path / "read.json", folder = made.path / "model";
  ASSERT_TRUE(write_file(file, "{}"));
  fs::create_directory(folder);
  fs::create_symlink(file, made.path / "soft");
  fs::create_hard_link(file, made.path / "hard");
  fs::create_directory_symlink(folder, made.path / "linked");
  const auto kept = [](const fs::path& input, const fs::path& output) {
    return check_inputs_kept({{"--no", ""}, {"--in", input.string()}}, {{"--none", ""}, {"--out", output.string()}});
  };
  for (const auto& [input, output] : {std::pair{file, file},
                                      {file, made.path / "." / "model" / ".." / "read.json"},
                                      {file, made.path / "soft"},
                                      {file, made.path / "hard"},
                                      {folder, folder / ""},
                                      {folder, made.path / "linked"}}) {
    const Status refused = kept(input, output);
    ASSERT_FALSE(refused) << output;
    EXPECT_EQ(refused.error().kind, ErrorKind::kUsage);
    EXPECT_EQ(refused.error().message,
              "--out: expected another place to write than what --in reads, got " + output.string() + " for both");
  }
  EXPECT_TRUE(kept(file, made.path / "written.json"));
  EXPECT_TRUE(kept(folder, folder / "read.json")) << "a file in a folder is another place";
  EXPECT_TRUE(kept("/dev/null", "/dev/null")) << "devices may be both";
}

}  // namespace
}  // namespace slip
