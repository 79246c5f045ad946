// SPDX-License-Identifier: Apache-2.0
// Promises of training in several processes: the oracle's sums bit for bit, the same checkpoint at 1, 2 and 4 processes, also when their number
// changes on the way, and a clear end when one of them is killed.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <netinet/in.h>
#include <torch/csrc/distributed/c10d/PrefixStore.hpp>
#include <torch/csrc/distributed/c10d/TCPStore.hpp>

#include <array>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <functional>
#include <map>
#include <sstream>
#include <thread>

#include "base/file.h"
#include "base/folder_testing.h"
#include "base/json.h"
#include "core/safetensors.h"
#include "train/parallel/launch.h"
#include "train/parallel/shard_sum.h"

namespace slip {
namespace {

namespace fs = std::filesystem;
const fs::path kShards = fs::path(SLIP_FIXTURES) / "train" / "virtual_shards";

std::vector<float> row_of(const TensorView& t, size_t row, size_t n) {
  std::vector<float> out(n);
  read_as_f32(t, static_cast<int64_t>(row * n), out);
  return out;
}

uint64_t fnv(std::span<const float> v) {
  uint64_t h = 0xCBF29CE484222325ULL;
  for (const std::byte b : std::as_bytes(v)) h = (h ^ static_cast<uint64_t>(b)) * 0x100000001B3ULL;
  return h;
}

/// Sums of `N` processes, each over its own shards, added by the tree again.
std::vector<float> by_processes(const std::vector<std::vector<float>>& shards, size_t N) {
  TreeSum upper;
  for (size_t r = 0; r < N; ++r) {
    const auto range = shards_of(8, static_cast<int>(r), static_cast<int>(N));
    EXPECT_TRUE(range);
    TreeSum own;
    for (int64_t s = range->first; s < range->last; ++s) own.add(shards[static_cast<size_t>(s)]);
    upper.add(own.take());
  }
  return upper.take();
}

TEST(ShardSum, IsTheOraclesAtAnyNumberOfProcesses) {
  const auto cases = read_json(kShards / "case.json");
  const auto stored = Checkpoint::open_file(kShards / "shards.safetensors");
  ASSERT_TRUE(cases && stored);
  for (const auto& [name, c] : cases->at("cases").as_object()) {
    const auto n = c.at("numbers").to_number<size_t>();
    const std::array<int64_t, 2> shape{8, static_cast<int64_t>(n)};
    const auto t = stored->get(std::string(name) + ".shards", shape);
    ASSERT_TRUE(t) << t.error().message;
    std::vector<std::vector<float>> shards;
    for (size_t s = 0; s < 8; ++s) shards.push_back(row_of(**t, s, n));
    for (const size_t N : {1, 2, 4, 8})
      EXPECT_EQ(fmt::format("{:016x}", fnv(by_processes(shards, N))), std::string_view(c.at("fnv1a64").as_string()))
          << name << " " << N;
    std::vector<float> chain = shards[0];
    for (size_t s = 1; s < 8; ++s) add_into(chain, shards[s]);
    EXPECT_NE(fnv(chain), fnv(by_processes(shards, 1))) << "a running sum would not do";
  }
}

TEST(ShardSum, EverySampleIsInOneShard) {
  for (const int64_t shards : {1, 8, 32})
    for (const int64_t samples : {1, 3, 8, 12, 100}) {
      const ShardRange r{shards, 0, shards};
      for (int64_t i = 0; i < samples; ++i) {
        const int64_t s = r.shard_of(i, samples);
        EXPECT_LE(r.sample_begin(s, samples), i);
        EXPECT_LT(i, r.sample_begin(s + 1, samples));
      }
    }
}

TEST(ShardSum, RefusesNumbersThatDoNotDivide) {
  EXPECT_FALSE(shards_of(8, 0, 3));
  EXPECT_FALSE(shards_of(6, 0, 2));
  EXPECT_FALSE(shards_of(8, 0, 16));
  EXPECT_TRUE(shards_of(8, 3, 4));
}

Result<Launch> launched(const std::map<std::string, std::string>& variables) {
  return launch_from([&](const char* name) {
    const auto at = variables.find(name);
    return at == variables.end() ? std::nullopt : std::optional(at->second);
  });
}

TEST(Launch, ReadsTheVariablesOfEveryStarter) {
  EXPECT_EQ(launched({})->size, 1);
  const auto torch = launched({{"RANK", "3"},
                               {"WORLD_SIZE", "4"},
                               {"LOCAL_RANK", "1"},
                               {"MASTER_ADDR", "a"},
                               {"MASTER_PORT", "1234"},
                               {"TORCHELASTIC_USE_AGENT_STORE", "True"},
                               {"TORCHELASTIC_RESTART_COUNT", "2"}});
  ASSERT_TRUE(torch);
  EXPECT_EQ(torch->rank, 3);
  EXPECT_EQ(torch->size, 4);
  EXPECT_EQ(torch->port, 1234);
  EXPECT_TRUE(torch->store_is_there);
  EXPECT_EQ(torch->key, "2");
  const auto open_mpi = launched({{"OMPI_COMM_WORLD_RANK", "1"},
                                  {"OMPI_COMM_WORLD_SIZE", "2"},
                                  {"OMPI_COMM_WORLD_LOCAL_RANK", "1"},
                                  {"OMPI_COMM_WORLD_LOCAL_SIZE", "2"}});
  ASSERT_TRUE(open_mpi);
  EXPECT_EQ(open_mpi->rank, 1);
  EXPECT_EQ(open_mpi->address, "127.0.0.1");
  const auto mpich = launched({{"PMI_RANK", "0"}, {"PMI_SIZE", "2"}});
  ASSERT_TRUE(mpich);
  EXPECT_EQ(mpich->size, 2);
  const auto slurm = launched({{"SLURM_PROCID", "1"},
                               {"SLURM_STEP_NUM_TASKS", "2"},
                               {"SLURM_NTASKS", "2"},
                               {"SLURM_LOCALID", "0"},
                               {"SLURM_JOB_ID", "17"},
                               {"SLURM_STEP_ID", "0"},
                               {"SLURM_STEP_NODELIST", "node[03-04]"}});
  ASSERT_TRUE(slurm);
  EXPECT_EQ(slurm->by, "srun");
  EXPECT_EQ(slurm->rank, 1);
  EXPECT_EQ(slurm->address, "node03");
  EXPECT_EQ(launched({{"SLURM_PROCID", "0"}, {"SLURM_NTASKS", "8"}})->size, 1) << "a batch script is no launch";
}

TEST(Launch, MeetsForFiveMinutesOrAsLongAsIsAskedFor) {
  EXPECT_EQ(launched({})->meet, std::chrono::minutes(5));
  EXPECT_EQ(launched({{"SLIP_MEET_SECONDS", "30"}})->meet, std::chrono::seconds(30));
  EXPECT_EQ(launched({{"SLIP_MEET_SECONDS", "0"}}).error().message,
            "SLIP_MEET_SECONDS: expected a whole number from 1 to 86400, got 0");
}

TEST(Launch, SaysWhichVariableIsWrong) {
  for (const auto& [variables, word] : std::vector<std::pair<std::map<std::string, std::string>, std::string>>{
           {{{"RANK", "0"}}, "WORLD_SIZE"},
           {{{"RANK", "2"}, {"WORLD_SIZE", "2"}}, "RANK"},
           {{{"RANK", "x"}, {"WORLD_SIZE", "2"}}, "RANK"},
           {{{"RANK", "0"}, {"WORLD_SIZE", "2"}, {"MASTER_PORT", "70000"}}, "MASTER_PORT"},
           {{{"OMPI_COMM_WORLD_RANK", "0"}, {"OMPI_COMM_WORLD_SIZE", "4"}, {"OMPI_COMM_WORLD_LOCAL_SIZE", "2"}}, "MASTER_ADDR"}}) {
    const auto l = launched(variables);
    ASSERT_FALSE(l);
    EXPECT_EQ(l.error().kind, ErrorKind::kUsage);
    EXPECT_TRUE(l.error().message.starts_with(word + ":")) << l.error().message;
  }
}

TEST(Launch, FindsTheFirstHostOfSlurmsLists) {
  EXPECT_EQ(first_host("a"), "a");
  EXPECT_EQ(first_host("a,b"), "a");
  EXPECT_EQ(first_host("node[03-05,7],x"), "node03");
  EXPECT_EQ(first_host("n[7,9]"), "n7");
}

/// From 2.4 on a store asks for libuv unless it is told not to.
template <class Options>
void without_libuv(Options& options) {
  if constexpr (requires { options.useLibUV; }) options.useLibUV = false;
}

int free_port() {
  const int s = ::socket(AF_INET, SOCK_STREAM, 0);
  sockaddr_in a{};
  a.sin_family = AF_INET;
  a.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t n = sizeof a;
  EXPECT_EQ(::bind(s, reinterpret_cast<sockaddr*>(&a), n), 0);
  EXPECT_EQ(::getsockname(s, reinterpret_cast<sockaddr*>(&a), &n), 0);
  ::close(s);
  return ntohs(a.sin_port);
}

class Together : public testing::Test {
 protected:
  Together() {
    EXPECT_TRUE(write_file(root_ / "c.json", R"({"model": {"model_type": "qwen2", "hidden_size": 32, "num_hidden_layers": 2,
      "num_attention_heads": 2, "num_key_value_heads": 1, "intermediate_size": 48, "vocab_size": 64, "tie_word_embeddings": true,
      "mask_token_id": 1},
      "data": {"kind": "toy", "vocab": 64, "prompt": 6, "fields": 2, "values": 3}, "optimizer": {"lr": 0.01},
      "steps": 6, "batch": 4, "accumulate": 3, "threads": 1, "save_every": 2, "keep": 0, "log_every": 1, "ema_decay": 0.9, "out": "x"})"));
  }

  pid_t start(int rank, int size, int port, const std::vector<std::string>& arguments) {
    const pid_t child = ::fork();
    if (child != 0) return child;
    for (const auto& [name, value] : {std::pair{"RANK", rank}, {"WORLD_SIZE", size}, {"LOCAL_RANK", rank}, {"MASTER_PORT", port}})
      ::setenv(name, std::to_string(value).c_str(), 1);
    ::setenv("MASTER_ADDR", "127.0.0.1", 1);
    ::dup2(::open((root_ / fmt::format("said-{}", rank)).c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0600), STDERR_FILENO);
    std::vector<char*> argv{const_cast<char*>(SLIP_TRAINER)};
    for (const std::string& a : arguments) argv.push_back(const_cast<char*>(a.c_str()));
    argv.push_back(nullptr);
    if (::chdir(root_.c_str()) == 0) ::execv(argv[0], argv.data());
    ::_exit(99);
  }
  std::vector<pid_t> start_all(int size, const std::vector<std::string>& arguments) {
    std::vector<pid_t> out;
    const int port = free_port();
    for (int r = 0; r < size; ++r) out.push_back(start(r, size, port, arguments));
    return out;
  }
  static int wait(pid_t child) {
    int status = 0;
    EXPECT_EQ(::waitpid(child, &status, 0), child);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  }
  void train(int size, const std::vector<std::string>& arguments) {
    const std::vector<pid_t> all = start_all(size, arguments);
    for (size_t r = 0; r < all.size(); ++r) EXPECT_EQ(wait(all[r]), 0) << said(static_cast<int>(r));
  }
  std::string said(int rank) const { return read_file(root_ / fmt::format("said-{}", rank)).value_or("nothing"); }
  /// What a checkpoint holds, but for the time that it took.
  std::string checkpoint(const std::string& folder) const {
    return read_file(root_ / folder / "model.safetensors").value_or("none") +
           read_file(root_ / folder / "trainer.safetensors").value_or("none");
  }
  test::TemporaryFolder folder_;
  const fs::path& root_ = folder_.path;
};

TEST_F(Together, OneTwoAndFourProcessesMakeTheSameCheckpoint) {
  for (const int n : {1, 2, 4}) train(n, {"--config", "c.json", "--out", fmt::format("n{}", n)});
  const std::string one = checkpoint("n1/step-6");
  ASSERT_GT(one.size(), 1000U);
  EXPECT_EQ(checkpoint("n2/step-6"), one);
  EXPECT_EQ(checkpoint("n4/step-6"), one);
  EXPECT_NE(checkpoint("n1/step-4"), one);
  EXPECT_TRUE(said(1).find("step 6/6") == std::string::npos) << "the first process alone speaks";
  const auto log = read_file(root_ / "n4" / "loss.jsonl"), alone = read_file(root_ / "n1" / "loss.jsonl");
  ASSERT_TRUE(log && alone);
  EXPECT_EQ(log->substr(0, log->find("\"samples_per_s\"")), alone->substr(0, alone->find("\"samples_per_s\"")));
}

TEST_F(Together, TheFirstAloneWarns) {
  json::object config = read_json(root_ / "c.json")->as_object();
  config["data"].as_object()["size"] = 12;  // a step's samples: the second has the first's again
  config["steps"] = 2;
  config["validation"] = json::object{{"every", 2}, {"samples", 1}, {"first_sample", 0}};
  ASSERT_TRUE(write_file(root_ / "seen.json", pretty(config)));
  train(2, {"--config", "seen.json", "--out", "seen"});
  EXPECT_NE(said(0).find("warn: validation: "), std::string::npos) << said(0);
  EXPECT_EQ(said(1).find("validation"), std::string::npos) << said(1);
}

// Heads and adapters beside frozen models: their answers, draws and examples go by the sample's number, whoever has it.
TEST_F(Together, HeadsAndAdaptersAreTheSameBitsOfOneAndFourProcesses) {
  for (const char* name : {"models", "configs"}) fs::create_directory_symlink(fs::path(SLIP_SOURCE_DIR) / name, root_ / name);
  for (const std::string kind : {"dflash", "commit-sampler", "blockpilot", "trajectory", "lora", "lora-drafter"}) {
    for (const int n : {1, 4})
      train(n, {"--config", "configs/smoke/" + kind + ".json", "--steps", "3", "--out", fmt::format("{}-{}", kind, n)});
    const std::string one = checkpoint(kind + "-1/step-3");
    ASSERT_GT(one.size(), 1000U) << kind;
    EXPECT_EQ(checkpoint(kind + "-4/step-3"), one) << kind;
    const auto log = read_file(root_ / (kind + "-4") / "loss.jsonl");
    ASSERT_TRUE(log) << kind;
    EXPECT_NE(log->find("\"validation\""), std::string::npos) << kind << " is scored at the end: " << *log;
  }
}

TEST_F(Together, AKilledProcessEndsAllAndAnotherNumberGoesOn) {
  train(1, {"--config", "c.json", "--out", "whole"});
  const std::vector<pid_t> all = start_all(4, {"--config", "c.json", "--out", "cut", "--steps", "100000"});
  const auto begin = std::chrono::steady_clock::now();
  while (!fs::exists(root_ / "cut" / "step-4") && std::chrono::steady_clock::now() - begin < std::chrono::seconds(60))
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  ::kill(all[2], SIGKILL);
  const auto killed = std::chrono::steady_clock::now();
  EXPECT_EQ(wait(all[2]), -1);
  for (const int r : {0, 1, 3}) {
    EXPECT_EQ(wait(all[static_cast<size_t>(r)]), 5) << said(r);
    EXPECT_NE(said(r).find("--resume goes on from the last checkpoint"), std::string::npos) << said(r);
  }
  EXPECT_LT(std::chrono::steady_clock::now() - killed, std::chrono::seconds(30));
  ASSERT_TRUE(fs::exists(root_ / "cut" / "step-4")) << said(0);
  train(2, {"--resume", "cut/step-4", "--steps", "6", "--out", "gone-on"});
  EXPECT_EQ(checkpoint("cut/step-4"), checkpoint("whole/step-4"));
  EXPECT_EQ(checkpoint("gone-on/step-6"), checkpoint("whole/step-6"));
}

TEST_F(Together, LayersThatRunAgainMakeTheSameBits) {
  const std::string config = read_file(root_ / "c.json").value_or("");
  for (const std::string type : {"f32", "bf16"}) {
    const std::string plain = "{\"precision\": \"" + type + "\"," + config.substr(1);
    ASSERT_TRUE(write_file(root_ / "plain.json", plain));
    ASSERT_TRUE(write_file(root_ / "again.json", "{\"recompute\": true," + plain.substr(1)));
    for (const char* name : {"plain", "again"}) train(1, {"--config", std::string(name) + ".json", "--out", name + type});
    ASSERT_GT(checkpoint("plain" + type + "/step-6").size(), 1000U);
    EXPECT_EQ(checkpoint("again" + type + "/step-6"), checkpoint("plain" + type + "/step-6")) << type;
  }
}

/// Waits until a process has said `words`, for at most 20 s.
bool has_said(const std::function<std::string()>& said, const std::string& words) {
  for (int i = 0; i < 2000; ++i, std::this_thread::sleep_for(std::chrono::milliseconds(10)))
    if (said().find(words) != std::string::npos) return true;
  return false;
}

TEST_F(Together, WhoWaitsSaysForWhomAndEndsAtOnceWhenInterrupted) {
  const int port = free_port();
  const pid_t first = start(0, 4, port, {"--config", "c.json", "--out", "alone"}),
              third = start(2, 4, port, {"--config", "c.json", "--out", "alone"});
  EXPECT_TRUE(has_said([&] { return said(0); }, "process 0 of 4 waits for processes 1, 3, to meet at 127.0.0.1")) << said(0);
  const auto begin = std::chrono::steady_clock::now();
  for (const pid_t p : {third, first}) {
    ::kill(p, SIGINT);
    EXPECT_EQ(wait(p), 130);
  }
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(2));
  EXPECT_EQ(said(0).find("writes a checkpoint"), std::string::npos) << said(0);
  EXPECT_FALSE(fs::exists(root_ / "alone"));
}

/// The exit code of a process that must end within `time`; it is killed where it does not.
int ends_within(pid_t child, std::chrono::seconds time) {
  const auto begin = std::chrono::steady_clock::now();
  for (int status = 0;; std::this_thread::sleep_for(std::chrono::milliseconds(10))) {
    if (::waitpid(child, &status, WNOHANG) == child) return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
    if (std::chrono::steady_clock::now() - begin > time) ::kill(child, SIGKILL);
  }
}

// Whichever hangs, another or the first, which serves the store that is asked who is there.
TEST_F(Together, WhoseNeighbourHangsSaysSoAndEndsWhenInterrupted) {
  for (const int hangs : {1, 0}) {
    const int waits = 1 - hangs;
    const fs::path out = root_ / fmt::format("hangs-{}", hangs);
    const std::vector<pid_t> all = start_all(2, {"--config", "c.json", "--out", out.string(), "--steps", "100000"});
    for (int i = 0; i < 6000 && !fs::exists(out / "step-4"); ++i) std::this_thread::sleep_for(std::chrono::milliseconds(10));
    ::kill(all[static_cast<size_t>(hangs)], SIGSTOP);
    EXPECT_TRUE(has_said([&] { return said(waits); }, fmt::format("process {} of 2 waits for process {} (", waits, hangs)))
        << said(waits);
    ::kill(all[static_cast<size_t>(waits)], SIGINT);
    EXPECT_EQ(ends_within(all[static_cast<size_t>(waits)], std::chrono::seconds(20)), 130) << said(waits);
    EXPECT_NE(said(waits).find("--resume goes on from"), std::string::npos) << said(waits);
    ::kill(all[static_cast<size_t>(hangs)], SIGKILL);
    EXPECT_EQ(wait(all[static_cast<size_t>(hangs)]), -1);
    train(1, {"--resume", out.string(), "--out", fmt::format("on-{}", hangs), "--max-minutes", "0.001"});
  }
}

// Whoever has said that it is here, and is gone before it is connected.
TEST_F(Together, WhoIsGoneBeforeItIsConnectedIsNotWaitedForLonger) {
  const int port = free_port();
  ::setenv("SLIP_MEET_SECONDS", "8", 1);
  const pid_t first = start(0, 2, port, {"--config", "c.json", "--out", "gone"});
  ::unsetenv("SLIP_MEET_SECONDS");
  c10d::TCPStoreOptions where;
  where.port = static_cast<uint16_t>(port);
  where.numWorkers = 2;
  where.waitWorkers = false;
  without_libuv(where);
  const auto store = c10::make_intrusive<c10d::PrefixStore>("slipstream/", c10::make_intrusive<c10d::TCPStore>("127.0.0.1", where));
  store->set("here/1", std::vector<uint8_t>{1});
  EXPECT_EQ(ends_within(first, std::chrono::seconds(60)), 5) << said(0);
  EXPECT_NE(said(0).find("expected to meet the others at 127.0.0.1"), std::string::npos) << said(0);
}

TEST_F(Together, WhoWaitsForTheFirstSaysSo) {
  const pid_t second = start(1, 2, free_port(), {"--config", "c.json", "--out", "alone"});
  EXPECT_TRUE(has_said([&] { return said(1); }, "process 1 of 2 waits for process 0, to meet at")) << said(1);
  ::kill(second, SIGINT);
  EXPECT_EQ(wait(second), 130);
}

// Bit 13 of the signals that a process ignores: writing to one that is gone is then an error with a message.
TEST_F(Together, ABrokenPipeIsNoEnd) {
  const pid_t p = start(0, 2, free_port(), {"--config", "c.json", "--out", "alone"});
  const auto ignores = [&] {
    std::ostringstream text;
    text << std::ifstream(fmt::format("/proc/{}/status", p)).rdbuf();
    const std::string status = text.str();
    const size_t at = status.find("SigIgn:");
    return at != std::string::npos && (std::strtoull(status.c_str() + at + 7, nullptr, 16) >> (SIGPIPE - 1) & 1) != 0;
  };
  for (int i = 0; i < 2000 && !ignores(); ++i) std::this_thread::sleep_for(std::chrono::milliseconds(10));
  EXPECT_TRUE(ignores());
  ::kill(p, SIGKILL);
  EXPECT_EQ(wait(p), -1);
}

TEST_F(Together, AllTrainOneConfiguration) {
  json::object config = read_json(root_ / "c.json")->as_object();
  config["seed"] = 9, config["optimizer"].as_object()["lr"] = 0.02;
  ASSERT_TRUE(write_file(root_ / "other.json", pretty(config)));
  int port = free_port();
  const std::array different{start(0, 2, port, {"--config", "c.json", "--out", "d"}),
                             start(1, 2, port, {"--config", "other.json", "--out", "d"})};
  for (int r = 0; r < 2; ++r) {
    EXPECT_EQ(wait(different[static_cast<size_t>(r)]), 3) << said(r);
    EXPECT_NE(said(r).find("process 1: expected the configuration of process 0, got another \"seed\", \"optimizer\""),
              std::string::npos)
        << said(r);
  }
  EXPECT_FALSE(fs::exists(root_ / "d"));
  config = read_json(root_ / "c.json")->as_object();
  config["log_every"] = 5, config["recompute"] = true, config["device"] = "cpu";
  ASSERT_TRUE(write_file(root_ / "alike.json", pretty(config)));
  port = free_port();
  const std::array alike{start(0, 2, port, {"--config", "c.json", "--out", "a"}),
                         start(1, 2, port, {"--config", "alike.json", "--out", "a"})};
  for (int r = 0; r < 2; ++r) EXPECT_EQ(wait(alike[static_cast<size_t>(r)]), 0) << said(r);
}

TEST_F(Together, AllGoOnFromOneStep) {
  train(1, {"--config", "c.json", "--out", "run"});
  const int port = free_port();
  const std::array all{start(0, 2, port, {"--resume", "run/step-2", "--out", "b"}),
                       start(1, 2, port, {"--resume", "run/step-4", "--out", "b"})};
  for (int r = 0; r < 2; ++r) {
    EXPECT_EQ(wait(all[static_cast<size_t>(r)]), 3) << said(r);
    EXPECT_NE(said(r).find("got another \"--resume\""), std::string::npos) << said(r);
  }
}

TEST_F(Together, WhatOneCannotReadNoneBegins) {
  const std::vector<pid_t> all = start_all(2, {"--config", "c.json", "--out", "c.json/x"});
  for (const pid_t p : all) EXPECT_NE(wait(p), 0);
  EXPECT_EQ(shards_of(8, 0, 3).error().kind, ErrorKind::kUsage);
  const pid_t three = start(0, 3, free_port(), {"--config", "c.json", "--out", "three"});
  EXPECT_EQ(wait(three), 2) << said(0);
}

}  // namespace
}  // namespace slip
