// SPDX-License-Identifier: Apache-2.0
// The command line as such: help, version, wrong usage; the commands that need no model (simulate, train).
#include <algorithm>
#include <csignal>
#include <fstream>
#include <thread>

#include "sim/record.h"
#include "sim/record/shards.h"
#include "tests/cli/process.h"

namespace slip::test {
namespace {

TEST_F(Cli, HelpOfEveryCommandNamesItsOptions) {
  const std::vector<std::pair<std::vector<std::string>, std::vector<std::string>>> commands = {
      {{},
       {"inspect", "tokenize", "detokenize", "preprocess", "forward", "form", "run", "verify", "simulate", "eval", "train", "bench",
        "--version"}},
      {{"inspect"}, {"--model", "--json"}},
      {{"tokenize"}, {"--model", "--text", "--file", "--lossy", "--json"}},
      {{"detokenize"}, {"--model", "--ids", "--file", "--json"}},
      {{"preprocess"}, {"--model", "--image", "--out", "--alpha"}},
      {{"forward"}, {"--model", "--rows", "--out", "--dtype", "--threads", "--split"}},
      {{"form"}, {"--model", "--check", "--json"}},
      {{"run"}, {"--model",    "--form",     "--image",   "--prompt",   "--prompt-file", "--record",      "--ego",
                 "--decoder",  "--schedule", "--drafter", "--verifier", "--width",       "--temperature", "--seed",
                 "--rollouts", "--json",     "--trace",   "--picture",  "--threads",     "--dtype"}},
      {{"verify"}, {"--model", "--dtype", "--json"}},
      {{"simulate"}, {"--seed", "--count", "--out", "--family", "--threads", "--json"}},
      {{"eval"}, {"--model", "--records", "--count", "--decoder", "--require", "--json"}},
      {{"train"}, {"--config", "--resume"}},
      {{"bench"}, {"forward", "decoders"}},
      {{"bench", "forward"}, {"--model", "--widths", "--json"}},
      {{"bench", "decoders"}, {"--model", "--record", "--json"}},
  };
  for (const auto& [command, wanted] : commands) {
    std::vector<std::string> arguments = command;
    arguments.emplace_back("--help");
    const Ran ran = run(arguments);
    EXPECT_EQ(ran.code, 0);
    EXPECT_EQ(ran.err, "");
    for (const std::string& word : wanted)
      EXPECT_NE(ran.out.find(word), std::string::npos) << (command.empty() ? "" : command[0]) << ": " << word << "\n" << ran.out;
  }
}

TEST_F(Cli, VersionIsOneLine) {
  const Ran ran = run({"--version"});
  EXPECT_EQ(ran.code, 0);
  EXPECT_TRUE(ran.out.starts_with("slipstream ")) << ran.out;
  EXPECT_EQ(ran.out.find('\n'), ran.out.size() - 1);
}

TEST_F(Cli, WrongUsageExitsWithTwoAndSaysWhatWasWrong) {
  refused({}, 2, "--help");
  refused({"frobnicate"}, 2, "frobnicate");
  refused({"inspect"}, 2, "model");
  refused({"forward", "--model", "m", "--nonsense"}, 2, "forward");
  refused({"run", "--model", fixture("decode/models/small"), "--prompt", "a", "--nonsense"}, 2, "--nonsense");
  refused({"run", "--model", "m", "--prompt", "a", "--temperature", "-1"}, 2, "--temperature");
  refused({"run", "--model", "m", "--prompt", "a", "--temperature", "hot"}, 2, "hot");
  refused({"run", "--model", "m", "--prompt", "a", "--seed", "-1"}, 2, "--seed");
  refused({"run", "--model", "m", "--prompt", "a", "--rollouts", "0"}, 2, "--rollouts");
  refused({"run", "--model", "m", "--prompt", "a", "--record", "s:0"}, 2, "--record");
  refused({"run", "--model", "m"}, 2, "--prompt");
  refused({"tokenize", "--model", "m", "--text", "a", "--file", "b"}, 2, "--file");
  refused({"simulate", "--count", "0", "--out", path("s")}, 2, "--count");
  refused({"simulate", "--count", "3"}, 2, "--out");
  refused({"bench"}, 2, "bench");
  refused_in_words({"train"}, 2, "--config");
  refused({"bench", "forwrd"}, 2, "a command of `slipstream bench --help`, got forwrd");
  refused({"bench", "forward", "--model", "m", "--nonsense", "a", "--more"}, 2,
          "`slipstream bench forward --help`, got others: --nonsense a --more");
  refused({"bench", "decoders"}, 2, "`slipstream bench decoders --help`, got: --model");
}

// Of a number the whole text is read: nothing is wrapped, cut, or read as octal.
TEST_F(Cli, NumbersArePlainAndInRange) {
  for (const char* seed : {"99999999999999999999999", "18446744073709551616", " -1", "-1", "010", "+5", "0x10", "1e3", "7 ", ""}) {
    refused({"simulate", "--count", "2", "--out", path("s"), "--seed", seed}, 2, "--seed: expected a whole number from 0 to ");
    refused({"demo", "--model", "m", "--seed", seed}, 2, "--seed: expected a whole number from 0 to ");
  }
  refused({"simulate", "--count", "010", "--out", path("s")}, 2, "--count: expected a whole number from 1 to ");
  refused({"simulate", "--count", "2", "--out", path("s"), "--seed", "18446744073709551615"}, 2, "--seed");
  for (const char* command : {"eval", "drive"})
    refused({command, "--model", "m", "--count", "2", "--seed", "18446744073709551615"}, 2,
            "--seed: expected 2 seeds up to 18446744073709551615");
  refused({"eval", "--model", "m", "--frames", "3"}, 2, "--every");
  EXPECT_FALSE(fs::exists(path("s")));
  EXPECT_EQ(run({"simulate", "--count", "1", "--out", path("last"), "--seed", "18446744073709551615"}).code, 0);
  refused({"forward", "--model", "m", "--rows", "r", "--out", "o", "--split", "-1"}, 2,
          "a whole number from 0 to 1048576 in plain digits, got -1");
  refused({"bench", "forward", "--model", "m", "--widths", "1,02"}, 2, "--widths");
  refused_in_words({"train", "--config", "c", "--steps", "0"}, 2, "a whole number from 1 to 1000000000 in plain digits, got 0");
  refused_in_words({"train", "--config", "c", "--max-minutes", "-1"}, 2, "a number from 0 to 1000000, got -1");
  for (const char* number : {"nan", "-nan", "inf", "1e999", "", "0.5x"}) {
    refused({"eval", "--model", "m", "--every", number}, 2, "--every: expected a number from 0 to 1.5, got ");
    refused({"bench", "answer", "--model", "m", "--tokens-per-pass", number}, 2, "--tokens-per-pass: expected a number");
    refused({"bench", "forward", "--model", "m", "--seconds", number}, 2, "--seconds: expected a number");
    refused({"run", "--model", "m", "--prompt", "a", "--temperature", number}, 2, "--temperature: expected a number");
  }
  refused({"run", "--model", "m", "--prompt", "a", "--top-p", "0"}, 2, "--top-p: expected a number above 0 to 1, got 0");
}

TEST_F(Cli, NoOptionTakesAnEmptyText) {
  for (const char* option : {"--form", "--trace", "--picture", "--decoder", "--record", "--image", "--ego", "--unnorm-key"})
    refused({"run", "--model", "m", option, ""}, 2, std::string(option) + ": expected a text, got an empty one");
  refused({"inspect", ""}, 2, "expected a text, got an empty one");
  refused({"form", ""}, 2, "expected a text, got an empty one");
  refused({"forward", "--model", "m", "--rows", "", "--out", "o"}, 2, "--rows: expected a text, got an empty one");
}

TEST_F(Cli, OptionsThatCannotActTogetherAreRefused) {
  refused({"run", "--model", "m", "--record", "s:0", "--image", "x.png"}, 2, "--record");
  refused({"run", "--model", "m", "--record", "s:0", "--video", "folder"}, 2, "--record");
  refused({"run", "--model", "m", "--prompt", "a", "--fps", "4"}, 2, "--fps");
  refused({"run", "--model", "m", "--prompt", "a", "--name", "car"}, 2, "--batch");
  for (const char* made : {"--cameras", "--width", "--height"})
    refused({"bench", "vision", "--model", "m", "--image", "x.png", made, "40"}, 2, made);
  refused({"run", "--model", "m", "--prompt", "a", "--trace", path("a"), "--picture", path("folder/../a")}, 2,
          "--picture: expected another file than that of --trace");
}

TEST_F(Cli, AnErrorIsOneLineWhateverTheNameOfTheFile) {
  refused({"form", path("two\nlines.json")}, 3, "lines.json");
  refused({"form", path("bytes\xFF.json")}, 3, "bytes");
}

TEST_F(Cli, AResultThatDoesNotFitOnStdoutIsAnError) {
  ASSERT_TRUE(fs::exists("/dev/full")) << "every Linux has it";
  fs::create_directory(path("streams"));
  const Ran ran = Process(path("streams"), {"form", "wod-e2e"}, "", "/dev/full").wait();
  EXPECT_EQ(ran.code, 5);
  EXPECT_TRUE(ran.err.starts_with("slipstream: standard output: expected ")) << ran.err;
  EXPECT_EQ(Process(path("streams"), {"--version"}, "", "/dev/full").wait().code, 5);
}

// ---- simulate

TEST_F(Cli, SimulateWritesTheSameBytesFromTheSameSeed) {
  const json::value v = run_json({"simulate", "--seed", "41", "--count", "3", "--out", path("a"), "--threads", "1"});
  ASSERT_EQ(missing_keys(v, {"records", "out"}), "");
  EXPECT_EQ(v.at("records").as_int64(), 3);
  EXPECT_EQ(run({"simulate", "--seed", "41", "--count", "3", "--out", path("b"), "--threads", "2"}).code, 0);
  EXPECT_EQ(run({"simulate", "--seed", "42", "--count", "3", "--out", path("c")}).code, 0);
  EXPECT_TRUE(read_bytes(path("a/shard-00000.slip")) == read_bytes(path("b/shard-00000.slip")));
  EXPECT_EQ(read_bytes(path("a/index.json")), read_bytes(path("b/index.json")));
  EXPECT_FALSE(read_bytes(path("a/shard-00000.slip")) == read_bytes(path("c/shard-00000.slip")));
  for (const char* name : {"a", "a/shard-00000.slip"}) {
    const auto set = sim::RecordSet::open(path(name));
    ASSERT_TRUE(set) << set.error().message;
    ASSERT_EQ(set->size(), 3);
    EXPECT_EQ(set->labels(2)->seed, 43u);
    EXPECT_EQ(set->images(2).size(), sim::kCameras * sim::kImageBytes);
  }
}

TEST_F(Cli, SimulateKeepsToOneFamilyAndKnowsItsNames) {
  const Ran names = run({"simulate", "--list-families"});
  EXPECT_EQ(names.code, 0);
  EXPECT_GE(std::count(names.out.begin(), names.out.end(), '\n'), 10);
  const std::string family = names.out.substr(0, names.out.find('\n'));
  EXPECT_EQ(run({"simulate", "--family", family, "--count", "2", "--out", path("f")}).code, 0);
  const auto set = sim::RecordSet::open(path("f"));
  ASSERT_TRUE(set) << set.error().message;
  for (int64_t i = 0; i < set->size(); ++i) EXPECT_EQ(sim::family_names()[set->labels(i)->family], family);
  refused({"simulate", "--family", "no_such_family", "--count", "2", "--out", path("g")}, 3, "no_such_family");
  EXPECT_FALSE(fs::exists(path("g")));
}

TEST_F(Cli, SimulateDoesNotWriteOverASet) {
  EXPECT_EQ(run({"simulate", "--count", "1", "--out", path("s")}).code, 0);
  const std::string before = read_bytes(path("s/shard-00000.slip"));
  refused({"simulate", "--seed", "7", "--count", "1", "--out", path("s")}, 3, path("s"));
  EXPECT_TRUE(read_bytes(path("s/shard-00000.slip")) == before);
  refused({"simulate", "--count", "1", "--out", write("file", "x") + "/below"}, 3, "below");
}

TEST_F(Cli, AnInterruptedSimulationLeavesNoFile) {
  using namespace std::chrono_literals;
  const fs::path out = path("set"), streams = path("streams");
  fs::create_directories(streams);
  for (const int signal : {SIGINT, SIGTERM}) {
    Process process(streams, {"simulate", "--count", "100000", "--out", out.string()});
    for (int i = 0; i < 20000 && (!fs::exists(out) || fs::is_empty(out)); ++i) std::this_thread::sleep_for(1ms);
    ASSERT_TRUE(fs::exists(out) && !fs::is_empty(out)) << "nothing was being written";
    const auto start = std::chrono::steady_clock::now();
    process.send(signal);
    const Ran ran = process.wait(20s);
    const auto took = std::chrono::steady_clock::now() - start;
    EXPECT_EQ(ran.code, 130) << ran.err;
    EXPECT_LT(took, 1s);
    EXPECT_TRUE(!fs::exists(out) ||
                fs::is_empty(out));  // the folder goes too, unless the process was ended in the middle of a scene
  }
}

// ---- train

TEST_F(Cli, TrainNamesWhatItLacks) {
  const bool built = fs::exists(fs::path(SLIP_BINARY).parent_path() / "slipstream-train");
  const Ran ran = run({"train", "--config", path("none.json")});
  EXPECT_EQ(ran.code, built ? 3 : 4) << ran.err;
  EXPECT_NE(ran.err.find(built ? "none.json" : "slipstream-train"), std::string::npos) << ran.err;
  EXPECT_EQ(ran.err.find('\n'), ran.err.size() - 1) << ran.err;
}

// Drives that a model leads astray: the same set on any number of threads, and another one than made-up mistakes give.
TEST_F(Cli, AModelLeadsDrivesAstray) {
  const auto made = [&](const std::string& name, const std::vector<std::string>& more) {
    std::vector<std::string> arguments = {"simulate", "--seed", "900300000", "--count", "4", "--driven", "8", "--out", path(name)};
    arguments.insert(arguments.end(), more.begin(), more.end());
    const Ran ran = run(arguments);
    EXPECT_EQ(ran.code, 0) << ran.err;
    return read_bytes(fs::path(path(name)) / "shard-00000.slip");
  };
  const std::string first = made("first", {"--driver", demo_model()});
  EXPECT_GT(first.size(), 4 * sim::kCameras * sim::kImageBytes);
  EXPECT_EQ(first, made("again", {"--driver", demo_model() + "/", "--threads", "1"}));
  EXPECT_NE(read_bytes(fs::path(path("again")) / "index.json").find("--driver demo"), std::string::npos);
  EXPECT_NE(first, made("other", {}));
  EXPECT_NE(made("averaged", {"--driver", demo_model(), "--ensemble", "3"}),
            made("careful", {"--driver", demo_model(), "--ensemble", "3", "--careful"}));
  EXPECT_NE(read_bytes(fs::path(path("careful")) / "index.json").find("--ensemble 3 --careful"), std::string::npos);
  refused({"simulate", "--seed", "1", "--count", "1", "--driven", "3", "--driver", demo_model(), "--careful", "--out", path("x")},
          2, "--careful: expected --ensemble");
  refused({"simulate", "--seed", "1", "--count", "1", "--driver", demo_model(), "--out", path("x")}, 2,
          "--driver: expected --driven");
  refused({"simulate", "--seed", "1", "--count", "1", "--driven", "3", "--driver", path("none"), "--out", path("x")}, 3, "none");
}

/// Processes that have this word in their command line.
int processes_with(const std::string& word) {
  int n = 0;
  for (const auto& entry : fs::directory_iterator("/proc")) {
    std::ifstream in(entry.path() / "cmdline");
    const std::string line((std::istreambuf_iterator<char>(in)), {});
    n += line.find(word) != std::string::npos;
  }
  return n;
}

/// Threads of all processes that have this word in their command line.
int threads_with(const std::string& word) {
  int n = 0;
  for (const auto& entry : fs::directory_iterator("/proc")) {
    std::ifstream in(entry.path() / "cmdline");
    const std::string line((std::istreambuf_iterator<char>(in)), {});
    std::error_code ec;
    if (line.find(word) == std::string::npos) continue;
    for (fs::directory_iterator task(entry.path() / "task", ec), end; !ec && task != end; task.increment(ec)) ++n;
  }
  return n;
}

// Made-up mistakes need one thread of drives, and so does a model that makes them. On a machine of one processor this holds in any case.
TEST_F(Cli, ADriverKeepsToTheThreadsThatAreAskedFor) {
  const auto most_threads = [&](const std::string& out, const std::vector<std::string>& more) {
    std::vector<std::string> words = {"simulate", "--seed",    "900300000", "--count", "8", "--driven",
                                      "8",        "--threads", "1",         "--out",   out};
    words.insert(words.end(), more.begin(), more.end());
    Process p(fs::path(path("p")).parent_path(), words);
    const auto until = std::chrono::steady_clock::now() + std::chrono::minutes(1);
    int most = 0;
    while ((most == 0 || processes_with(out) > 0) && std::chrono::steady_clock::now() < until) {
      most = std::max(most, threads_with(out));
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
    }
    EXPECT_EQ(p.wait().code, 0);
    return most;
  };
  const int without = most_threads(path("mistakes"), {});
  EXPECT_GE(without, 2);
  EXPECT_LE(most_threads(path("plans"), {"--driver", demo_model()}), without);
}

// Who interrupts the study alone (kill, a service manager) ends its trainer too, which writes a checkpoint first.
TEST_F(Cli, AnInterruptedStudyEndsItsTrainer) {
  const std::string out = path("study-out"), study = write("study.json", fmt::format(R"({{"name": "s", "base": {{
    "model": {{"model_type": "qwen2", "hidden_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 2,
              "intermediate_size": 128, "vocab_size": 64, "tie_word_embeddings": true, "mask_token_id": 1}},
    "data": {{"kind": "toy", "vocab": 64, "prompt": 12, "fields": 4, "values": 4}}, "objective": {{"kind": "nld", "block_size": 8}},
    "steps": 1000000, "batch": 8, "threads": 1, "optimizer": {{"lr": 0.003}}, "schedule": {{"kind": "cosine", "warmup": 20}}}},
    "seeds": [1], "arms": [{{"name": "only"}}], "columns": ["train:noisy"], "out": "{}"}})",
                                                                                     out));
  if (!fs::exists(fs::path(SLIP_BINARY).parent_path() / "slipstream-train"))
    return refused({"study", study}, 4, "slipstream-train");  // nothing to end: the study says what it lacks
  Process p(fs::path(path("p")).parent_path(), {"study", study});
  const auto until = std::chrono::steady_clock::now() + std::chrono::minutes(1);
  const fs::path log = fs::path(out) / "only" / "seed-1" / "stage-1" / "loss.jsonl";
  while (!fs::exists(log) && std::chrono::steady_clock::now() < until) std::this_thread::sleep_for(std::chrono::milliseconds(20));
  ASSERT_TRUE(fs::exists(log)) << "the trainer has begun";
  EXPECT_EQ(processes_with(out), 1) << "the trainer; the study was asked by its file's name";
  p.send(SIGTERM);
  const Ran ran = p.wait();
  EXPECT_EQ(ran.code, 130) << ran.err;
  EXPECT_EQ(processes_with(out), 0) << "nobody goes on training";
  EXPECT_TRUE(std::any_of(fs::directory_iterator(log.parent_path()), {}, [](const auto& entry) {
    return entry.path().filename().string().starts_with("step-");
  })) << ran.err;
}

}  // namespace
}  // namespace slip::test
