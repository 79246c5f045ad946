// SPDX-License-Identifier: Apache-2.0
// What the surroundings may do to a program: pipes in place of files, write-protected files, limits on sizes, a terminal that hangs
// up, standard streams that are closed or full.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "base/file.h"
#include "base/files/beside.h"
#include "base/files/line_file.h"
#include "base/interrupt.h"
#include "base/large_pages.h"
#include "base/standard_streams.h"

namespace slip {
namespace {

namespace fs = std::filesystem;

class OfTheSystem : public testing::Test {
 protected:
  OfTheSystem() {
    std::string name = (fs::temp_directory_path() / "slip-system-XXXXXX").string();
    folder_ = ::mkdtemp(name.data());
    file_ = folder_ / "file";
  }
  ~OfTheSystem() override { fs::remove_all(folder_); }
  fs::path folder_, file_;
};
using Files = OfTheSystem;
using SystemDeathTest = OfTheSystem;

mode_t mode_of(const fs::path& file) {
  struct stat st {};
  return ::stat(file.c_str(), &st) == 0 ? st.st_mode & 07777 : 0;
}

TEST(Numbers, LieAtLinesAndWhereThereAreManyAtLargePages) {
  const auto place_of = [](size_t bytes) {
    const std::unique_ptr<void, decltype(&std::free)> p(allocate_numbers(bytes), std::free);
    std::memset(p.get(), 1, bytes);
    return reinterpret_cast<uintptr_t>(p.get());
  };
  EXPECT_EQ(place_of(1) % 64, 0u);
  EXPECT_EQ(place_of((size_t{4} << 20) - 1) % 64, 0u);
  EXPECT_EQ(place_of(size_t{4} << 20) % (2 << 20), 0u);
  EXPECT_EQ(place_of((size_t{5} << 20) + 3) % (2 << 20), 0u);
}

TEST_F(Files, APipeToReadIsRefusedWithoutWaitingForItsWriter) {
  ASSERT_EQ(::mkfifo(file_.c_str(), 0600), 0);
  const auto read = read_file(file_);
  ASSERT_FALSE(read);
  EXPECT_EQ(read.error().message, file_.string() + ": expected a regular file, got a pipe");
  EXPECT_FALSE(MappedFile::open(file_));
  EXPECT_EQ(read_file("/dev/null").error().message, "/dev/null: expected a regular file, got a device");
}

TEST_F(Files, ReplacingAFileKeepsItsModeWhateverTheUmask) {
  struct Umask {
    mode_t before = ::umask(027);
    ~Umask() { ::umask(before); }
  } const umask;
  for (const mode_t mode : {0600U, 0666U, 0755U}) {
    ASSERT_TRUE(write_file(file_, "old"));
    ASSERT_EQ(::chmod(file_.c_str(), mode), 0);
    EXPECT_TRUE(write_file(file_, "new"));
    EXPECT_EQ(mode_of(file_), mode);
    EXPECT_EQ(*read_file(file_), "new");
  }
  EXPECT_TRUE(write_file(folder_ / "fresh", "x"));
  EXPECT_EQ(mode_of(folder_ / "fresh"), 0640U);
}

// What the process does to files, in order: these stand in for the C library's.
std::vector<std::string> g_calls;

}  // namespace
}  // namespace slip

extern "C" int fsync(int fd) {
  slip::g_calls.emplace_back("fsync");
  return static_cast<int>(::syscall(SYS_fsync, fd));
}
extern "C" int rename(const char* from, const char* to) noexcept {
  slip::g_calls.emplace_back("rename");
  return static_cast<int>(::syscall(SYS_renameat, AT_FDCWD, from, AT_FDCWD, to));
}

namespace slip {
namespace {

TEST_F(Files, AFileIsOnTheDiskBeforeItTakesItsName) {
  g_calls.clear();
  ASSERT_TRUE(write_file(file_, "bytes"));
  EXPECT_EQ(g_calls, (std::vector<std::string>{"fsync", "rename"}));
}

TEST_F(Files, FoldersThatLeadToAFileAreMadeAndGoWithAFileThatNeverCame) {
  ASSERT_TRUE(write_file(folder_ / "a" / "b" / "file", "x"));
  EXPECT_EQ(*read_file(folder_ / "a" / "b" / "file"), "x");
  { ASSERT_TRUE(AtomicFile::create(folder_ / "c" / "d" / "file")); }
  EXPECT_FALSE(fs::exists(folder_ / "c"));
  ASSERT_TRUE(write_file(file_, "no folder"));
  EXPECT_FALSE(write_file(file_ / "below" / "file", "x"));
}

TEST_F(Files, ATrialSaysWhatCannotBeWrittenAndLeavesNothing) {
  EXPECT_TRUE(check_writable({}));
  EXPECT_TRUE(check_writable(folder_ / "c" / "d" / "file"));
  EXPECT_TRUE(fs::is_empty(folder_));
  const fs::path pipe = folder_ / "pipe";
  ASSERT_EQ(::mkfifo(pipe.c_str(), 0600), 0);
  EXPECT_TRUE(check_writable(pipe)) << "a reader is not waited for";
  ASSERT_TRUE(write_file(file_, "whole"));
  EXPECT_TRUE(check_writable(file_));
  EXPECT_EQ(*read_file(file_), "whole");
  for (const fs::path& taken : {folder_, file_ / "below"}) {
    const Status s = check_writable(taken);
    ASSERT_FALSE(s) << taken;
    EXPECT_NE(s.error().message.find("expected"), std::string::npos) << s.error().message;
  }
}

// Killed with a file half written: nothing of it is left behind the next one. What a living writer holds stays.
TEST_F(SystemDeathTest, WhatAKilledWriterLeftIsRemovedByTheNext) {
  const auto killed = [&] {
    auto out = AtomicFile::create(file_);
    if (out && out->write("half", 4)) ::raise(SIGKILL);
    ::_exit(1);
  };
  EXPECT_EXIT(killed(), testing::KilledBySignal(SIGKILL), "");
  EXPECT_FALSE(fs::is_empty(folder_)) << "the killed writer left its temporary";
  auto living = AtomicFile::create(file_);
  ASSERT_TRUE(living);
  ASSERT_TRUE(write_file(file_, "whole"));
  EXPECT_EQ(std::distance(fs::directory_iterator(folder_), fs::directory_iterator()), 2) << "the file, and the living writer's";
  ASSERT_TRUE(living->write("later", 5));
  ASSERT_TRUE(living->commit());
  EXPECT_EQ(*read_file(file_), "later");
  EXPECT_EQ(std::distance(fs::directory_iterator(folder_), fs::directory_iterator()), 1);
}

TEST_F(Files, AFolderHasOneWriter) {
  {
    const auto first = hold_folder(folder_);
    ASSERT_TRUE(first) << first.error().message;
    const auto second = hold_folder(folder_);
    ASSERT_FALSE(second);
    EXPECT_NE(second.error().message.find("nobody else is writing"), std::string::npos) << second.error().message;
  }
  EXPECT_TRUE(hold_folder(folder_));
}

TEST_F(Files, LinesGoOnBehindThoseThatAreThere) {
  const fs::path file = folder_ / "far" / "away" / "lines.jsonl";
  std::vector<std::string> seen;
  const auto take = [&](std::string_view line, int64_t number) -> Status {
    EXPECT_EQ(number, static_cast<int64_t>(seen.size()) + 1);
    seen.emplace_back(line);
    return {};
  };
  {
    auto lines = LineFile::open(file, "t", take);
    ASSERT_TRUE(lines) << lines.error().message;
    EXPECT_TRUE(lines->add("ton"));
    EXPECT_TRUE(lines->add("two"));
    EXPECT_TRUE(lines->sync());
    const auto second = LineFile::open(file, "t", take);
    ASSERT_FALSE(second);
    EXPECT_NE(second.error().message.find("nobody else is writing to"), std::string::npos);
  }
  std::ofstream(file, std::ios::app) << "thr";           // cut off by a kill
  const fs::path leftover = file.string() + ".tmp-1-0";  // of a killed run that was to write it whole
  std::ofstream(leftover) << "half";
  auto lines = LineFile::open(file, "t", take);
  ASSERT_TRUE(lines) << lines.error().message;
  EXPECT_EQ(seen, (std::vector<std::string>{"ton", "two"}));
  EXPECT_FALSE(fs::exists(leftover));
  EXPECT_TRUE(lines->add("three"));
  EXPECT_EQ(*read_file(file), "ton\ntwo\nthree\n");
  EXPECT_FALSE(LineFile::open(folder_, "t", take)) << "a folder";
}

TEST_F(Files, AFileOfOthersIsNoCutOffLine) {
  const fs::path file = folder_ / "theirs.txt";
  std::ofstream(file) << "precious, and without a line's end";
  const auto lines = LineFile::open(file, "{\"entrant\":", [](std::string_view, int64_t) -> Status { return {}; });
  ASSERT_FALSE(lines);
  EXPECT_NE(lines.error().message.find("expected lines of an earlier run"), std::string::npos);
  EXPECT_EQ(*read_file(file), "precious, and without a line's end");
}

TEST_F(Files, AStreamIsReadToItsEnd) {
  ASSERT_EQ(::mkfifo(file_.c_str(), 0600), 0);
  std::thread writer([&] {
    std::FILE* f = std::fopen(file_.c_str(), "w");
    for (int i = 0; i < 100000; ++i) std::fputs("line\n", f);
    std::fclose(f);
  });
  const auto read = read_stream(file_);
  writer.join();
  ASSERT_TRUE(read) << read.error().message;
  EXPECT_EQ(read->size(), 500000U);
  EXPECT_EQ(*read_stream("/dev/null"), "");
  EXPECT_FALSE(read_stream("/dev/zero", 1000));
}

// Root may write everything: another user then.
bool becomes_one_who_may_not() { return ::geteuid() != 0 || (::setgid(65534) == 0 && ::setuid(65534) == 0); }

// Not where no other user is to be had (some containers), or where none gets to the folder (a TMPDIR of root's own).
bool another_user_gets_to(const fs::path& folder) {
  const pid_t child = ::fork();
  if (child == 0) ::_exit(becomes_one_who_may_not() && ::access(folder.c_str(), W_OK | X_OK) == 0 ? 0 : 1);
  int status = 1;
  return child > 0 && ::waitpid(child, &status, 0) == child && status == 0;
}

// Exit code 0: refused in words, and the file is what it was.
[[noreturn]] void replace_protected(const fs::path& file) {
  if (!becomes_one_who_may_not()) ::_exit(3);
  const Status s = write_file(file, "new");
  if (s) ::_exit(1);
  ::_exit(s.error().message == file.string() + ": expected a writable file, got: Permission denied" ? 0 : 2);
}

TEST_F(SystemDeathTest, AWriteProtectedFileIsRefusedThoughItsFolderIsWritable) {
  ASSERT_EQ(::chmod(folder_.c_str(), 0777), 0);
  if (!another_user_gets_to(folder_)) GTEST_SKIP() << "no user here who may not";
  ASSERT_TRUE(write_file(file_, "old"));
  ASSERT_EQ(::chmod(file_.c_str(), 0444), 0);
  EXPECT_EXIT(replace_protected(file_), testing::ExitedWithCode(0), "");
  EXPECT_EQ(*read_file(file_), "old");
  EXPECT_EQ(mode_of(file_), 0444U);
}

// Exit code 0: the write beyond the limit failed, as an error in words.
[[noreturn]] void write_too_much(const fs::path& file) {
  install_interrupt_handler();
  const rlimit limit{4096, 4096};
  if (::setrlimit(RLIMIT_FSIZE, &limit) != 0) ::_exit(3);
  const Status s = write_file(file, std::string(10000, 'x'));
  if (s) ::_exit(1);
  ::_exit(s.error().message.find("File too large") != std::string::npos ? 0 : 2);
}

TEST_F(SystemDeathTest, AWriteBeyondTheLimitFailsInWordsAndLeavesNothing) {
  EXPECT_EXIT(write_too_much(file_), testing::ExitedWithCode(0), "");
  EXPECT_TRUE(fs::is_empty(folder_));
}

// With a file half written. Exit code 130: ended from the handler; 0: the signal did nothing.
[[noreturn]] void hang_up(const fs::path& file, bool ignored) {
  std::signal(SIGHUP, ignored ? SIG_IGN : SIG_DFL);  // under nohup it comes ignored
  install_interrupt_handler(0);
  auto out = AtomicFile::create(file);
  if (!out || !out->write("half", 4)) ::_exit(3);
  ::raise(SIGHUP);
  while (!ignored) ::pause();  // the handler's thread ends the process
  ::usleep(100000);
  ::_exit(interrupted() ? 1 : out->commit() ? 0 : 2);
}

TEST_F(SystemDeathTest, AHangUpEndsTheProcessAndLeavesNoHalfFile) {
  EXPECT_EXIT(hang_up(file_, false), testing::ExitedWithCode(130), "interrupted");
  EXPECT_TRUE(fs::is_empty(folder_));
}

TEST_F(SystemDeathTest, AHangUpThatIsIgnoredStaysIgnored) {
  EXPECT_EXIT(hang_up(file_, true), testing::ExitedWithCode(0), "");
  EXPECT_EQ(*read_file(file_), "half");
}

// Exit code 0: the next descriptor is above the standard ones, which neither read nor write.
[[noreturn]] void close_and_open_standard_streams() {
  for (const int fd : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO}) ::close(fd);
  open_closed_streams();
  char c = 'x';
  if (::open("/dev/zero", O_RDWR) != 3) ::_exit(1);
  if (::read(STDIN_FILENO, &c, 1) >= 0 || errno != EBADF) ::_exit(2);
  for (const int fd : {STDOUT_FILENO, STDERR_FILENO})
    if (::write(fd, &c, 1) >= 0 || errno != EBADF) ::_exit(3);
  say("to nobody\n");
  ::_exit(0);
}

TEST_F(SystemDeathTest, ClosedStandardStreamsAreFilledAndStillFail) {
  // A fresh process, where no descriptor above 2 is open but those that the test framework closes itself.
  EXPECT_EXIT(
      {
        for (int fd = 3; fd < 256; ++fd) ::close(fd);
        close_and_open_standard_streams();
      },
      testing::ExitedWithCode(0), "");
}

TEST_F(SystemDeathTest, OpenStandardStreamsStayAsTheyAre) {
  EXPECT_EXIT(
      {
        open_closed_streams();
        say("still here\n");
        ::_exit(0);
      },
      testing::ExitedWithCode(0), "still here");
}

TEST_F(SystemDeathTest, SayingToAFullStreamLosesTheTextAndNothingElse) {
  EXPECT_EXIT(
      {
        const int full = ::open("/dev/full", O_WRONLY);
        ::dup2(full, STDERR_FILENO);
        say("lost\n");
        ::_exit(std::ferror(stderr) != 0 ? 0 : 1);
      },
      testing::ExitedWithCode(0), "");
}

}  // namespace
}  // namespace slip
