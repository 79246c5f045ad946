// SPDX-License-Identifier: Apache-2.0
// Going on with a run through the binary: in the run's own folder, from any working folder, and never over another run.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstring>
#include <filesystem>
#include <limits>
#include <string>
#include <tuple>
#include <vector>

#include "base/file.h"
#include "base/folder_testing.h"
#include "base/json.h"
#include "train/loop/checkpoint.h"

namespace slip {
namespace {

namespace fs = std::filesystem;

// A run of two steps in `here`/run, whose configuration names another output folder and, by a relative path, a tokenizer.
class Resume : public testing::Test {
 protected:
  Resume() {
    here_ = root_ / "here";
    away_ = root_ / "away";
    for (const fs::path& folder : {here_ / "words", away_}) fs::create_directories(folder);
    EXPECT_TRUE(write_file(here_ / "words" / "tokenizer.json", "{}"));
    EXPECT_TRUE(write_file(here_ / "c.json", kConfig));
    EXPECT_EQ(train(here_, {"--config", "c.json", "--steps", "2", "--out", "run"}), 0) << said_;
  }

  /// The trainer's exit code, started in `folder`; its words are in said_.
  int train(const fs::path& folder, std::vector<std::string> arguments) {
    std::vector<char*> argv{const_cast<char*>(SLIP_TRAINER)};
    for (std::string& a : arguments) argv.push_back(a.data());
    argv.push_back(nullptr);
    const fs::path said = root_ / "stderr";
    const pid_t child = ::fork();
    if (child == 0) {
      ::dup2(::open(said.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0600), STDERR_FILENO);
      if (::chdir(folder.c_str()) == 0) ::execv(argv[0], argv.data());
      ::_exit(99);
    }
    int status = 0;
    EXPECT_EQ(::waitpid(child, &status, 0), child);
    said_ = read_file(said).value_or("");
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  }

  static constexpr const char* kConfig = R"({"model": {"model_type": "qwen2", "hidden_size": 16, "num_hidden_layers": 1,
      "num_attention_heads": 2, "num_key_value_heads": 1, "intermediate_size": 16, "vocab_size": 24, "tie_word_embeddings": true,
      "mask_token_id": 1},
    "data": {"kind": "toy", "vocab": 24, "prompt": 6, "fields": 2, "values": 3},
    "tokenizer": "words", "steps": 4, "batch": 1, "threads": 1, "out": "elsewhere"})";
  test::TemporaryFolder folder_;
  const fs::path& root_ = folder_.path;
  fs::path here_, away_;
  std::string said_;
};

TEST_F(Resume, GoesOnInTheRunsFolderFromAnyOther) {
  EXPECT_EQ(train(away_, {"--resume", (here_ / "run").string(), "--steps", "4"}), 0) << said_;
  EXPECT_TRUE(fs::exists(here_ / "run" / "step-4" / "tokenizer.json")) << "the configuration's paths start where the run did";
  EXPECT_TRUE(fs::is_empty(away_));
  EXPECT_EQ(train(root_, {"--resume", "here/run/step-4", "--steps", "5"}), 0) << said_;
  EXPECT_TRUE(fs::exists(here_ / "run" / "step-5" / "tokenizer.json"));
  EXPECT_EQ(train(here_ / "run" / "step-5", {"--resume", ".", "--steps", "6"}), 0) << said_;
  EXPECT_TRUE(fs::exists(here_ / "run" / "step-6" / "tokenizer.json"));
  EXPECT_FALSE(fs::exists(here_ / "elsewhere"));
}

TEST_F(Resume, WritesWhereOutSaysSeenFromTheCallersFolder) {
  EXPECT_EQ(train(away_, {"--resume", "../here/run", "--steps", "4", "--out", "mine"}), 0) << said_;
  EXPECT_TRUE(fs::exists(away_ / "mine" / "step-4" / "tokenizer.json"));
  EXPECT_FALSE(fs::exists(here_ / "run" / "step-4"));
}

TEST_F(Resume, GoesOnWhereTheFirstWorkingFolderIsGone) {
  fs::rename(here_, root_ / "moved");
  EXPECT_EQ(train(root_ / "moved", {"--resume", "run", "--steps", "4"}), 0) << said_;
  EXPECT_TRUE(fs::exists(root_ / "moved" / "run" / "step-4" / "tokenizer.json"));
}

TEST_F(Resume, ARunIsNeverStartedOverAnother) {
  const std::string log = read_file(here_ / "run" / "loss.jsonl").value_or("none");
  EXPECT_EQ(train(here_, {"--config", "c.json", "--out", "run"}), 3);
  EXPECT_EQ(said_.substr(said_.rfind("slipstream-train: ")),
            "slipstream-train: " + (here_ / "run").string() +
                ": expected a folder without step-N folders (--resume goes on from them), got one with step-2\n");
  EXPECT_EQ(train(here_, {"--config", "c.json", "--out", "other"}), 0) << said_;
  EXPECT_EQ(train(here_, {"--resume", "other", "--steps", "5", "--out", "run"}), 3) << "another run's checkpoint";
  EXPECT_EQ(read_file(here_ / "run" / "loss.jsonl").value_or(""), log);
  EXPECT_FALSE(fs::exists(here_ / "run" / "step-5"));
}

TEST_F(Resume, ACheckpointSaysWhereItsPathsStart) {
  const auto folder = checkpoint_working_folder(here_ / "run" / "step-2");
  ASSERT_TRUE(folder) << folder.error().message;
  EXPECT_TRUE(fs::equivalent(*folder, here_));
  const auto config = checkpoint_config(here_ / "run" / "step-2");
  ASSERT_TRUE(config) << config.error().message;
  EXPECT_TRUE(fs::equivalent(config->out, here_ / "run"));
}

// A checkpoint whose step nobody trained: too many steps would be counted, or too few, and the noise of others drawn again.
TEST_F(Resume, AStepThatTheCheckpointDoesNotHoldIsRefused) {
  const fs::path file = here_ / "run" / "step-2" / "trainer.json";
  json::object trainer = read_json(file)->as_object();
  for (const auto& [step, says] : std::vector<std::pair<int64_t, std::string>>{
           {-5, "step: expected at least 0, got -5"}, {1, "step: expected 2 as its folder's name says, got 1"}}) {
    trainer["step"] = step;
    ASSERT_TRUE(write_file(file, pretty(trainer)));
    EXPECT_EQ(train(here_, {"--resume", "run"}), 3);
    EXPECT_NE(said_.find(says), std::string::npos) << said_;
  }
  trainer["step"] = 900;
  ASSERT_TRUE(write_file(file, pretty(trainer)));
  fs::rename(here_ / "run" / "step-2", here_ / "renamed");
  EXPECT_EQ(train(here_, {"--resume", "renamed", "--steps", "1000", "--out", "more"}), 3);
  EXPECT_NE(said_.find("step: expected 2, the last one in loss.jsonl, got 900"), std::string::npos) << said_;
  EXPECT_FALSE(fs::exists(here_ / "more"));
}

TEST_F(Resume, SaysHowManyStepsAreAskedForAndDone) {
  EXPECT_EQ(train(here_, {"--resume", "run", "--steps", "1"}), 0) << said_;
  EXPECT_NE(said_.find("nothing is left to train: the run is at step 2, and 1 is asked for"), std::string::npos) << said_;
}

TEST_F(Resume, KeepsTheStepsAndMinutesOfTheCommandLine) {
  EXPECT_EQ(train(here_, {"--resume", "run"}), 0) << said_;
  EXPECT_NE(said_.find("nothing is left to train: 2 of 2 steps are done"), std::string::npos) << said_;
  EXPECT_EQ(train(here_, {"--resume", "run", "--steps", "9", "--max-minutes", "0.000001"}), 0) << said_;
  EXPECT_EQ(train(here_, {"--resume", "run"}), 0) << said_;
  EXPECT_NE(said_.find("nothing is left to train: "), std::string::npos) << said_;
  EXPECT_NE(said_.find("minutes are over (--max-minutes N goes on to N)"), std::string::npos) << said_;
  const auto config = checkpoint_config(here_ / "run" / "step-2");
  ASSERT_TRUE(config) << config.error().message;
  EXPECT_EQ(config->steps, 9);
  EXPECT_EQ(config->schedule.steps, 9);
  EXPECT_NEAR(config->max_minutes, 1e-6, 1e-12);
}

TEST_F(Resume, RefusesNumbersOfStepsAndMinutesThatAreNone) {
  for (const auto& [flag, value] : std::vector<std::pair<std::string, std::string>>{{"--steps", "0"},
                                                                                    {"--steps", "-5"},
                                                                                    {"--steps", "2x"},
                                                                                    {"--steps", "99999999999999999999"},
                                                                                    {"--max-minutes", "-3"},
                                                                                    {"--max-minutes", "nan"}}) {
    EXPECT_EQ(train(here_, {"--config", "c.json", "--out", "numbers", flag, value}), 2) << flag << " " << value;
    EXPECT_NE(said_.find(flag + ": expected a "), std::string::npos) << said_;
  }
  EXPECT_FALSE(fs::exists(here_ / "numbers"));
}

TEST_F(Resume, QuietSaysErrorsAlone) {
  EXPECT_EQ(train(here_, {"--config", "c.json", "--out", "quiet", "-q"}), 0);
  EXPECT_EQ(said_, "");
  EXPECT_TRUE(fs::exists(here_ / "quiet" / "step-4"));
  EXPECT_EQ(train(here_, {"--config", "none.json", "-q"}), 3);
  EXPECT_NE(said_.find("none.json"), std::string::npos) << said_;
  json::object seen = parse_json(kConfig, "c")->as_object();
  seen["data"].as_object()["size"] = 3;  // fewer than the run's four steps take
  seen["validation"] = json::object{{"every", 4}, {"samples", 1}, {"first_sample", 0}};
  ASSERT_TRUE(write_file(here_ / "seen.json", pretty(seen)));
  EXPECT_EQ(train(here_, {"--config", "seen.json", "--out", "warned"}), 0);
  EXPECT_NE(said_.find("warn: validation: 1 of the 1 samples from 0 on are among the 4 from 0 on"), std::string::npos) << said_;
  EXPECT_EQ(train(here_, {"--config", "seen.json", "--out", "unwarned", "-q"}), 0);
  EXPECT_EQ(said_, "") << "a warning is no error";
}

TEST_F(Resume, ARunThatHasEndedIsNotWrittenAnew) {
  const fs::path step = here_ / "run" / "step-2";
  const auto files = [&] {  // a folder that was written anew is another one
    struct stat of_folder {};
    EXPECT_EQ(::stat(step.c_str(), &of_folder), 0);
    return std::tuple(of_folder.st_ino, fs::last_write_time(step / "model.safetensors"),
                      fs::last_write_time(step / "trainer.json"));
  };
  const auto before = files();
  EXPECT_EQ(train(here_, {"--resume", "run"}), 0) << said_;
  EXPECT_EQ(files(), before);
  EXPECT_EQ(train(here_, {"--resume", "run", "--steps", "9", "--max-minutes", "0.000001"}), 0) << said_;
  EXPECT_NE(files(), before) << "other limits are kept";
  EXPECT_FALSE(fs::exists(here_ / "run" / "step-2.replaced"));
  EXPECT_EQ(train(here_, {"--resume", "run", "--out", "copy"}), 0) << said_;
  EXPECT_TRUE(fs::exists(here_ / "copy" / "step-2" / "trainer.json")) << "another folder gets its checkpoint";
}

// Killed between the two renames that put a checkpoint in the place of another.
TEST_F(Resume, GoesOnFromACheckpointThatWasBeingReplaced) {
  fs::rename(here_ / "run" / "step-2", here_ / "run" / "step-2.replaced");
  fs::copy(here_ / "run" / "step-2.replaced", here_ / "run" / "step-2.partial", fs::copy_options::recursive);
  EXPECT_EQ(train(here_, {"--resume", "run", "--steps", "3"}), 0) << said_;
  EXPECT_NE(said_.find("step 3/3"), std::string::npos) << said_;
  for (const auto& [name, there] :
       {std::pair{"step-2", true}, {"step-3", true}, {"step-2.replaced", false}, {"step-2.partial", false}})
    EXPECT_EQ(fs::exists(here_ / "run" / name), there) << name;
}

TEST_F(Resume, WhatCannotBeTrainedLeavesNoFolder) {
  json::object config = parse_json(kConfig, "c")->as_object();
  config["init"] = "nope";
  ASSERT_TRUE(write_file(here_ / "init.json", pretty(config)));
  EXPECT_EQ(train(here_, {"--config", "init.json"}), 3);
  config["init"] = "run/step-2", config["kind"] = "lora";
  config["objective"] = json::object{{"rank", 0}, {"of", json::object{{"kind", "sasd"}}}};
  ASSERT_TRUE(write_file(here_ / "rank.json", pretty(config)));
  EXPECT_EQ(train(here_, {"--config", "rank.json"}), 3);
  EXPECT_NE(said_.find("rank: expected 1 to 4096, got 0"), std::string::npos) << said_;
  config["objective"] = json::object{{"alpha", -1}, {"of", json::object{{"kind", "sasd"}}}};
  ASSERT_TRUE(write_file(here_ / "alpha.json", pretty(config)));
  EXPECT_EQ(train(here_, {"--config", "alpha.json"}), 3);
  EXPECT_NE(said_.find("alpha: expected above 0, got -1"), std::string::npos) << said_;
  EXPECT_FALSE(fs::exists(here_ / "elsewhere"));
}

TEST_F(Resume, ARunThatEndedByPatienceSaysHowItGoesOn) {
  json::object config = parse_json(kConfig, "c")->as_object();
  config["optimizer"] = json::object{{"lr", 0.0}};  // which makes no score better than the first
  config["validation"] = {{"every", 1}, {"samples", 1}, {"first_sample", 1000}, {"patience", 1}};
  ASSERT_TRUE(write_file(here_ / "once.json", pretty(config)));
  EXPECT_EQ(train(here_, {"--config", "once.json", "--out", "once"}), 0) << said_;
  ASSERT_TRUE(fs::exists(here_ / "once" / "step-2"));
  EXPECT_EQ(train(here_, {"--resume", "once", "--steps", "9"}), 0) << said_;
  EXPECT_NE(said_.find("nothing is left to train: 1 scores in a row were not better than the best (slipstream-train --resume DIR "
                       "--config F goes on with another \"patience\")"),
            std::string::npos)
      << said_;
  config["validation"].as_object()["patience"] = 9;
  ASSERT_TRUE(write_file(here_ / "patient.json", pretty(config)));
  EXPECT_EQ(train(here_, {"--resume", "once", "--config", "patient.json", "--out", "once"}), 0) << said_;
  EXPECT_TRUE(fs::exists(here_ / "once" / "step-4"));
}

TEST_F(Resume, AnotherInputOfTheSameNameIsRefused) {
  const fs::path trainer = here_ / "run" / "step-2" / "trainer.json";
  const std::string kept = read_file(trainer).value_or("");
  ASSERT_TRUE(write_file(here_ / "words" / "tokenizer.json", "{\"model\": {}}"));
  EXPECT_EQ(train(here_, {"--resume", "run", "--steps", "3"}), 3);
  EXPECT_NE(said_.find("trainer.json: tokenizer words: expected what this run was trained with so far, got another of that name"),
            std::string::npos)
      << said_;
  EXPECT_FALSE(fs::exists(here_ / "run" / "step-3"));
  json::object config = parse_json(kConfig, "c")->as_object();
  fs::copy(here_ / "words", here_ / "others", fs::copy_options::recursive);
  config["tokenizer"] = "others";
  ASSERT_TRUE(write_file(here_ / "others.json", pretty(config)));
  EXPECT_EQ(train(here_, {"--resume", "run", "--config", "others.json", "--out", "asked-for"}), 0) << said_;
  json::object unmarked = parse_json(kept, "trainer.json")->as_object();
  EXPECT_EQ(unmarked.erase("inputs"), 1U);
  ASSERT_TRUE(write_file(trainer, pretty(unmarked)));
  EXPECT_EQ(train(here_, {"--resume", "run", "--steps", "3"}), 0) << "a checkpoint of before: " << said_;
}

TEST_F(Resume, GoesOnFromAnOlderStepInAnotherFolderAlone) {
  EXPECT_EQ(train(here_, {"--config", "c.json", "--out", "long"}), 0) << said_;
  fs::rename(here_ / "long" / "step-4", here_ / "run" / "step-4");
  const std::string log = read_file(here_ / "run" / "loss.jsonl").value_or("none");
  EXPECT_EQ(train(here_, {"--resume", "run/step-2", "--steps", "3"}), 3);
  EXPECT_NE(said_.find("run/step-2: expected the newest step of its folder, got step-4 beside it (--out DIR goes on from here in "
                       "another folder)"),
            std::string::npos)
      << said_;
  EXPECT_EQ(read_file(here_ / "run" / "loss.jsonl").value_or(""), log);
  EXPECT_FALSE(fs::exists(here_ / "run" / "step-3"));
  EXPECT_EQ(train(here_, {"--resume", "run/step-2", "--steps", "3", "--out", "other"}), 0) << said_;
  EXPECT_TRUE(fs::exists(here_ / "other" / "step-3"));
}

// A limit on the size of files stands for a full disk.
TEST_F(Resume, WhatCannotBeCopiedIntoACheckpointHasTheSystemsReason) {
  constexpr rlim_t kMost = 400'000;
  ASSERT_TRUE(write_file(here_ / "words" / "tokenizer.json", std::string(2 * kMost, ' ')));
  rlimit before{};
  ASSERT_EQ(::getrlimit(RLIMIT_FSIZE, &before), 0);
  const rlimit tight{kMost, before.rlim_max};
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &tight), 0);  // the trainer's too
  const int code = train(here_, {"--config", "c.json"});
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &before), 0);
  EXPECT_EQ(code, 5);
  EXPECT_NE(said_.find("tokenizer.json: "), std::string::npos) << said_;
  EXPECT_NE(said_.find("File too large"), std::string::npos) << said_;
}

// Where the embedding is the head's no number stays without a gradient; where it is not, those of absent tokens are 0 / 0 without an epsilon.
TEST_F(Resume, NumbersThatAreNoneAreNotSaved) {
  json::object config = parse_json(kConfig, "c")->as_object();
  config["model"].as_object()["tie_word_embeddings"] = false;
  config["optimizer"] = json::object{{"epsilon", 0}};
  config["steps"] = 1;
  ASSERT_TRUE(write_file(here_ / "none.json", pretty(config)));
  EXPECT_EQ(train(here_, {"--config", "none.json"}), 6);
  EXPECT_NE(said_.find("step 1: values of model.embed_tokens.weight: expected finite numbers for a checkpoint, got "),
            std::string::npos)
      << said_;
  EXPECT_FALSE(fs::exists(here_ / "elsewhere" / "step-1"));
}

TEST_F(Resume, ACheckpointOfNumbersThatAreNoneIsRefused) {
  const fs::path file = here_ / "run" / "step-2" / "trainer.safetensors";
  std::string bytes = read_file(file).value_or("");
  ASSERT_GT(bytes.size(), 4U);
  const float none = std::numeric_limits<float>::quiet_NaN();
  std::memcpy(bytes.data() + bytes.size() - sizeof none, &none, sizeof none);  // the last of the last tensor
  ASSERT_TRUE(write_file(file, bytes));
  EXPECT_EQ(train(here_, {"--resume", "run", "--steps", "3"}), 3);
  EXPECT_NE(said_.find("trainer.safetensors: "), std::string::npos) << said_;
  EXPECT_NE(said_.find(": expected finite numbers, got nan at "), std::string::npos) << said_;
  EXPECT_FALSE(fs::exists(here_ / "run" / "step-3"));
}

TEST_F(Resume, WhatIsRefusedAtItsFirstSampleLeavesNoFolder) {
  json::object config = parse_json(kConfig, "c")->as_object();
  json::object& data = config["data"].as_object();
  data["images"] = 2, data["grid_h"] = 4, data["grid_w"] = 6, data["patch_numbers"] = 96;
  ASSERT_TRUE(write_file(here_ / "images.json", pretty(config)));
  EXPECT_EQ(train(here_, {"--config", "images.json", "--out", "new/elsewhere"}), 3);
  EXPECT_NE(said_.find("expected no images for a model without vision"), std::string::npos) << said_;
  EXPECT_FALSE(fs::exists(here_ / "new"));
  config["validation"] = json::object{{"every", 4}, {"samples", 1}, {"first_sample", 100}};
  ASSERT_TRUE(write_file(here_ / "images.json", pretty(config)));
  EXPECT_EQ(train(here_, {"--config", "images.json", "--out", "new/elsewhere"}), 3);
  EXPECT_FALSE(fs::exists(here_ / "new")) << "at the validation's first";
  fs::create_directory(here_ / "mine");
  EXPECT_EQ(train(here_, {"--config", "images.json", "--out", "mine"}), 3);
  EXPECT_TRUE(fs::exists(here_ / "mine")) << "what was there stays";
}

// The trainer with nobody to hear it.
TEST_F(Resume, AFullStandardErrorStopsNoTraining) {
  const pid_t child = ::fork();
  if (child == 0) {
    ::dup2(::open("/dev/full", O_WRONLY), STDERR_FILENO);
    if (::chdir(here_.c_str()) == 0)
      ::execl(SLIP_TRAINER, SLIP_TRAINER, "--config", "c.json", "--out", "unheard", static_cast<char*>(nullptr));
    ::_exit(99);
  }
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  ASSERT_TRUE(WIFEXITED(status));
  EXPECT_EQ(WEXITSTATUS(status), 0);
  EXPECT_TRUE(fs::exists(here_ / "unheard" / "step-4"));
}

}  // namespace
}  // namespace slip
