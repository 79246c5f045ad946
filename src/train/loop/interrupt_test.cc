// SPDX-License-Identifier: Apache-2.0
// Ctrl-C while a step is scored, and while the samples for it are made: what was trained is in a checkpoint, and a run that goes on from it ends
// with the bits of one that was never interrupted.
#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <filesystem>
#include <string>
#include <thread>
#include <vector>

#include "base/file.h"
#include "base/folder_testing.h"
#include "base/json.h"
#include "base/must_testing.h"
#include "train/loop/loss_log.h"

namespace slip {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;

class Interrupted : public testing::Test {
 protected:
  Interrupted() {
    for (const char* name : {"models", "configs"}) fs::create_directory_symlink(fs::path(SLIP_SOURCE_DIR) / name, root_ / name);
  }

  pid_t start(std::vector<std::string> arguments) {
    std::vector<char*> argv{const_cast<char*>(SLIP_TRAINER)};
    for (std::string& a : arguments) argv.push_back(a.data());
    argv.push_back(nullptr);
    const pid_t child = ::fork();
    if (child != 0) return child;
    ::dup2(::open((root_ / "said").c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0600), STDERR_FILENO);
    if (::chdir(root_.c_str()) == 0) ::execv(argv[0], argv.data());
    ::_exit(99);
  }
  static int wait(pid_t child) {
    int status = 0;
    EXPECT_EQ(::waitpid(child, &status, 0), child);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  }
  int train(std::vector<std::string> arguments) { return wait(start(std::move(arguments))); }
  std::string said() const { return read_file(root_ / "said").value_or("nothing"); }

  /// Ctrl-C a moment after the trainer has said `words`: its exit code.
  int interrupt_after(const std::string& words, std::vector<std::string> arguments) {
    constexpr int kTries = 6000;
    constexpr std::chrono::milliseconds kPause{10}, kMoment{100};
    ::unlink((root_ / "said").c_str());
    const pid_t child = start(std::move(arguments));
    for (int i = 0; i < kTries && said().find(words) == std::string::npos; ++i) std::this_thread::sleep_for(kPause);
    std::this_thread::sleep_for(kMoment);
    ::kill(child, SIGINT);
    return wait(child);
  }

  /// Steps and scores of a log, which also has times.
  std::string scores(const std::string& run) const {
    std::string out;
    for (const LossPoint& p : must(read_loss_log(root_ / run / "loss.jsonl")))
      out += fmt::format("{} {} {}\n", p.step, p.loss, p.validation ? fmt::format("{}", *p.validation) : "-");
    return out;
  }
  std::string bits(const std::string& step) const {
    return must(read_file(root_ / step / "model.safetensors")) + must(read_file(root_ / step / "trainer.safetensors"));
  }

  /// Interrupted while step 3 of 7 is scored, then gone on with; beside a run that went through.
  void expect_same(const json::object& config) {
    ASSERT_TRUE(write_file(root_ / "c.json", pretty(config)));
    ASSERT_EQ(train({"--config", "c.json", "--out", "whole"}), 0) << said();
    EXPECT_EQ(interrupt_after("step 3/7", {"--config", "c.json", "--out", "cut"}), 130) << said();
    EXPECT_THAT(said(), HasSubstr("interrupted after 3 steps; --resume goes on from"));
    EXPECT_THAT(said(), testing::Not(HasSubstr("step 3  validation")));
    ASSERT_TRUE(fs::exists(root_ / "cut" / "step-3"));
    EXPECT_EQ(train({"--resume", "cut"}), 0) << said();
    EXPECT_EQ(scores("cut"), scores("whole"));
    EXPECT_EQ(bits("cut/step-7"), bits("whole/step-7"));
  }

  test::TemporaryFolder folder_;
  const fs::path& root_ = folder_.path;
};

/// A tiny model whose validation takes a second or more, over samples that are made in no time.
json::object slow_to_score(int64_t samples) {
  json::object c = parse_json(R"({"model": {"model_type": "qwen2", "hidden_size": 64, "num_hidden_layers": 2,
      "num_attention_heads": 2, "num_key_value_heads": 1, "intermediate_size": 64, "vocab_size": 64, "tie_word_embeddings": true,
      "mask_token_id": 1},
    "data": {"kind": "toy", "vocab": 64, "prompt": 200, "fields": 2, "values": 3}, "optimizer": {"lr": 0.01},
    "steps": 7, "batch": 1, "threads": 1, "log_every": 1, "ema_decay": 0.9})",
                              "config")
                       ->as_object();
  c["validation"] = json::object{{"every", 3}, {"samples", samples}, {"first_sample", 1000}, {"patience", 9}};
  return c;
}

TEST_F(Interrupted, AHeadsScoreIsGivenByTheRunThatGoesOn) {
  json::object config = read_json(root_ / "configs" / "smoke" / "dflash.json")->as_object();
  config["steps"] = 7, config["log_every"] = 1, config["save_every"] = 0;
  config["validation"] = json::object{{"every", 3}, {"samples", 60}, {"first_sample", 90000}};
  expect_same(config);
}

TEST_F(Interrupted, AModelsScoreIsGivenByTheRunThatGoesOn) { expect_same(slow_to_score(2000)); }

// The last step's score, which nothing is trained behind.
TEST_F(Interrupted, TheLastScoreToo) {
  json::object config = slow_to_score(2000);
  config["steps"] = 2;
  ASSERT_TRUE(write_file(root_ / "c.json", pretty(config)));
  EXPECT_EQ(interrupt_after("step 2/2", {"--config", "c.json", "--out", "cut"}), 130) << said();
  EXPECT_EQ(read_json(root_ / "cut" / "step-2" / "trainer.json")->as_object().contains("best"), false);
  EXPECT_EQ(train({"--resume", "cut"}), 0) << said();
  EXPECT_THAT(said(), HasSubstr("step 2  validation "));
  EXPECT_EQ(read_json(root_ / "cut" / "step-2" / "trainer.json")->as_object().contains("best"), true);
}

TEST_F(Interrupted, MakingTheSamplesForTheScoreEndsAndIsTimedApart) {
  json::object config = slow_to_score(20000);
  ASSERT_TRUE(write_file(root_ / "c.json", pretty(config)));
  EXPECT_EQ(interrupt_after("numbers of kind sasd", {"--config", "c.json", "--out", "cut"}), 130) << said();
  EXPECT_THAT(said(), HasSubstr("interrupted after 0 steps; --resume goes on from"));
  config["validation"].as_object()["samples"] = 3000;
  config["steps"] = 1;
  ASSERT_TRUE(write_file(root_ / "c.json", pretty(config)));
  ASSERT_EQ(train({"--config", "c.json", "--out", "whole"}), 0) << said();
  const LossPoint first = must(read_loss_log(root_ / "whole" / "loss.jsonl")).front();
  EXPECT_GT(first.samples_per_s * first.elapsed_s, 2) << "a step of one sample, and 3000 samples made before it";
}

}  // namespace
}  // namespace slip
