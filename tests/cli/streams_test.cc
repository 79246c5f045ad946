// SPDX-License-Identifier: Apache-2.0
// The surroundings of a command: standard streams that are closed or full, a pipe in place of a file, names that are no UTF-8.
#include <sys/stat.h>
#include <sys/wait.h>

#include <csignal>
#include <cstdlib>
#include <thread>

#include "tests/cli/answer.h"

namespace slip::test {
namespace {

class Streams : public Small {
 protected:
  /// Exit code of a shell line behind the binary's name; 128 + signal when one ended it.
  static int shell(const std::string& line) {
    const int status = std::system(("exec '" SLIP_BINARY "' " + line).c_str());
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  }
};

TEST_F(Streams, AStandardErrorThatTakesNothingChangesNoExitCode) {
  const std::string bench = "bench decoders --model '" + small_ + "' --prompt go --form none --max-tokens 4 --repeats 1 >/dev/null";
  for (const char* err : {" 2>/dev/full", " 2>&-"}) {
    SCOPED_TRACE(err);
    EXPECT_EQ(shell("inspect /nonexistent >/dev/null" + std::string(err)), 3);
    EXPECT_EQ(shell(bench + err), 0) << "it says which presets are left out";
  }
}

TEST_F(Streams, AClosedStandardOutputIsAnErrorAndNoInterrupt) {
  EXPECT_EQ(shell("form wod-e2e <&- >&- 2>/dev/null"), 5);
  EXPECT_EQ(shell("form wod-e2e <&- >/dev/null 2>/dev/null"), 0);
  EXPECT_EQ(shell("form wod-e2e <&- >&- 2>&-"), 5);
  EXPECT_EQ(shell("simulate --count 1 --out '" + path("set") + "' <&- >&- 2>&-"), 5);
  EXPECT_TRUE(fs::exists(path("set/index.json"))) << "the set is whole, its report could not be printed";
}

TEST_F(Streams, AClosedStandardInputIsNoEmptyText) {
  const std::string tokenize = "tokenize --model '" + small_ + "' --file - >/dev/null 2>/dev/null ";
  EXPECT_EQ(shell(tokenize + "<&-"), 3);
  EXPECT_EQ(shell(tokenize + "</dev/null"), 0);
}

TEST_F(Streams, CtrlCEndsACommandThatWaitsForStandardInput) {
  for (const char* signal : {"INT", "TERM"}) {
    const std::string line = fmt::format("sleep 5 | timeout --preserve-status -s {} 0.4 '{}' tokenize --model '{}' --file - 2>'{}'",
                                         signal, SLIP_BINARY, small_, path("said"));
    const int status = std::system(line.c_str());
    EXPECT_EQ(WEXITSTATUS(status), 130) << read_bytes(path("said"));
  }
}

TEST_F(Streams, TooFewDescriptorsLeaveNothingBehind) {
  const fs::path folder = path("few");
  fs::create_directories(folder);
  int refused = 0, made = 0;
  for (int n = 3; n <= 24; ++n) {
    const std::string line =
        fmt::format("exec >'{}' 2>&1; ulimit -n {}; exec '{}' synthesize --like qwen2.5-0.5b --tiny --out '{}'", path("said"), n,
                    SLIP_BINARY, (folder / "made").string());
    if (WEXITSTATUS(std::system(line.c_str())) == 0) {
      fs::remove_all(folder / "made");
      ++made;
    } else {
      ++refused;
    }
    EXPECT_TRUE(fs::is_empty(folder)) << n << " descriptors: " << read_bytes(path("said"));
  }
  EXPECT_GT(refused, 0);
  EXPECT_GT(made, 0);
}

TEST_F(Streams, AnOutputThatIsStandardOutputsOwnFileDoesNotReplaceIt) {
  const std::string out = path("both.txt");
  ASSERT_EQ(shell("run --model '" + small_ + "' --form none --prompt go --max-tokens 2 --trace /dev/stdout --json >'" + out + "'"),
            0);
  const std::string both = read_bytes(out);
  EXPECT_NE(both.find("traceEvents"), std::string::npos) << both;
  EXPECT_NE(both.find("\"statistics\""), std::string::npos) << both;
}

TEST_F(Streams, APipeInPlaceOfAFileIsRefusedAtOnce) {
  ASSERT_EQ(::mkfifo(path("pipe").c_str(), 0600), 0);
  refused({"tokenize", "--model", small_, "--file", path("pipe")}, 3, "pipe: expected a regular file, got a pipe");
}

TEST_F(Streams, ANameThatIsNoUtf8StillGivesValidJson) {
  const std::string model = copy_fixture("decode/models/small", "m\xff");
  const json::value inspected = run_json({"inspect", model});
  EXPECT_NE(json::serialize(inspected).find("m\xef\xbf\xbd"), std::string::npos);
  const json::value answer = run_json(request({"--form", "none", "--max-tokens", "2"}, model));
  EXPECT_TRUE(std::string(answer.at("model").as_string()).ends_with("m\xef\xbf\xbd"));
}

TEST_F(Streams, AHangUpEndsASimulationLikeCtrlC) {
  using namespace std::chrono_literals;
  const fs::path out = path("set"), streams = path("streams");
  fs::create_directories(streams);
  fs::create_directories(out);
  Process process(streams, {"simulate", "--count", "100000", "--out", out.string()});
  for (int i = 0; i < 20000 && fs::is_empty(out); ++i) std::this_thread::sleep_for(1ms);
  ASSERT_FALSE(fs::is_empty(out)) << "nothing was being written";
  process.send(SIGHUP);
  const Ran ran = process.wait(20s);
  EXPECT_EQ(ran.code, 130) << ran.err;
  EXPECT_TRUE(fs::is_empty(out));
}

TEST_F(Streams, ConvertNamesASourceThatIsMissing) {
  refused({"convert", "nope", "--out", path("cv")}, 3, "nope: expected a .pt file or a run's folder, got nothing there");
}

}  // namespace
}  // namespace slip::test
