// SPDX-License-Identifier: Apache-2.0
// What a client's path may open, and what an operator's folder has to be.
#include "server/files/below.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include "base/file.h"
#include "server/images.h"
#include "server/page.h"
#include "server/serve.h"

namespace slip::server {
namespace {

namespace fs = std::filesystem;

/// A folder `inside` with a file, a file beside it, and links that lead out of it.
class Below : public testing::Test {
 protected:
  void SetUp() override {
    // Links of the temporary folder itself are resolved, as the paths that come back are.
    root_ = fs::canonical(fs::temp_directory_path()) / fmt::format("slipstream_below_{}", ::getpid());
    fs::remove_all(root_);
    fs::create_directories(root_ / "inside" / "deep");
    fs::create_directories(root_ / "inside-not");
    for (const char* file : {"inside/a.txt", "inside/deep/b.txt", "inside-not/c.txt", "secret.txt"})
      ASSERT_TRUE(write_file(root_ / file, file));
    fs::create_symlink(root_ / "secret.txt", root_ / "inside" / "out.txt");
    fs::create_directory_symlink(root_, root_ / "inside" / "up");
    fs::create_symlink(root_ / "inside" / "a.txt", root_ / "inside" / "in.txt");
  }
  void TearDown() override { fs::remove_all(root_); }

  bool opens(const fs::path& folder, const fs::path& path) const { return file_below(folder, path).has_value(); }
  fs::path root_;
};

TEST_F(Below, OpensFilesStrictlyInsideOfTheFolder) {
  const fs::path inside = root_ / "inside";
  EXPECT_EQ(file_below(inside, inside / "a.txt"), inside / "a.txt");
  EXPECT_EQ(file_below(inside / "", inside / "deep" / ".." / "a.txt"), inside / "a.txt");
  EXPECT_EQ(file_below(inside, inside / "in.txt"), inside / "a.txt") << "a link that stays inside";
  for (const char* out : {"../secret.txt", "../inside-not/c.txt", "out.txt", "up/secret.txt", "deep", ".", "", "none.txt"})
    EXPECT_FALSE(opens(inside, inside / out)) << out;
  EXPECT_FALSE(opens(inside, root_ / "secret.txt"));
  EXPECT_FALSE(opens(inside, "/etc/passwd"));
  EXPECT_FALSE(opens(inside / "a.txt", inside / "a.txt")) << "a file is no folder";
}

TEST_F(Below, OpensNothingWhereTheFolderIsMissing) {
  for (const fs::path& missing : {root_ / "typo", fs::path(), fs::path("no/such/folder")}) {
    for (const fs::path& path : {fs::path("/etc/passwd"), root_ / "secret.txt", root_ / "inside" / "a.txt"})
      EXPECT_FALSE(opens(missing, path)) << missing << " " << path;
    EXPECT_FALSE(bytes_of_url("file://" + (root_ / "secret.txt").string(), {.media_path = missing.string()})) << missing;
    for (const char* path : {"//etc/passwd", "/../../etc/passwd", "/"})
      EXPECT_FALSE(page_in_folder(missing.string(), path)) << missing << " " << path;
  }
}

TEST_F(Below, IsTheDoorOfPicturesAndOfThePage) {
  const std::string inside = (root_ / "inside").string();
  const ImageLimits limits{.media_path = inside};
  EXPECT_EQ(*bytes_of_url("file://" + inside + "/a.txt", limits), "inside/a.txt");
  for (const std::string out : {"/../secret.txt", "/out.txt", "/up/secret.txt"})
    EXPECT_FALSE(bytes_of_url("file://" + inside + out, limits)) << out;
  EXPECT_FALSE(bytes_of_url("file:///etc/passwd", limits));
  ASSERT_TRUE(page_in_folder(inside, "/a.txt"));
  EXPECT_EQ(page_in_folder(inside, "/a.txt")->content, "inside/a.txt");
  for (const char* out : {"//etc/passwd", "/../secret.txt", "/out.txt", "/up/secret.txt", "", "/"})
    EXPECT_FALSE(page_in_folder(inside, out)) << out;
}

TEST_F(Below, AServerDoesNotStartWithoutItsFolders) {
  for (const std::string& wrong : {(root_ / "typo").string(), (root_ / "secret.txt").string()}) {
    const Status media = serve({.model = "no model", .media_path = wrong, .port = 0}, {});
    ASSERT_FALSE(media);
    EXPECT_EQ(media.error().kind, ErrorKind::kBadInput);
    EXPECT_EQ(media.error().message.find("--media-path: expected a folder, got " + wrong), 0U) << media.error().message;
    const Status page = serve({.model = "no model", .page_folder = wrong, .port = 0}, {});
    ASSERT_FALSE(page);
    EXPECT_EQ(page.error().kind, ErrorKind::kBadInput);
    EXPECT_EQ(page.error().message.find("--page: expected a folder, got " + wrong), 0U) << page.error().message;
  }
}

}  // namespace
}  // namespace slip::server
