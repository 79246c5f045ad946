// SPDX-License-Identifier: Apache-2.0
// The training loop: resuming, checkpoints, what a model learns, and what a wrong configuration is told.
#include "train/loop/trainer.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <csignal>
#include <exception>
#include <limits>
#include <new>

#include "base/file.h"
#include "base/folder_testing.h"
#include "base/must_testing.h"
#include "train/loop/batcher.h"
#include "train/loop/checkpoint.h"
#include "train/loop/loss_log.h"
#include "train/model/forward_rows.h"

namespace slip {
namespace {

namespace fs = std::filesystem;

json::object tiny_config(const fs::path& out, const std::string& precision = "f32", bool vision = true) {
  json::object model =
      parse_json(R"({"model_type": "qwen2_5_vl", "tie_word_embeddings": true, "mask_token_id": 1, "image_token_id": 4,
    "text_config": {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 2, "intermediate_size": 48,
      "vocab_size": 24, "rope_theta": 10000, "rope_scaling": {"mrope_section": [2, 1, 1]}},
    "vision_config": {"depth": 2, "hidden_size": 16, "num_heads": 2, "intermediate_size": 24, "out_hidden_size": 32, "patch_size": 4,
      "window_size": 16, "fullatt_block_indexes": [1], "in_chans": 3}})",
                 "model")
          ->as_object();
  if (!vision) model.erase("vision_config");
  json::object data = {{"kind", "toy"}, {"vocab", 24}, {"prompt", 6}, {"fields", 2}, {"values", 3}};
  if (vision) data["images"] = 2, data["grid_h"] = 4, data["grid_w"] = 6, data["patch_numbers"] = 96;
  return {{"model", model},      {"data", data},           {"steps", 6},   {"batch", 3},
          {"out", out.string()}, {"precision", precision}, {"threads", 2}, {"seed", 5}};
}

TrainReport run(const json::object& config, const RunOptions& options) {
  const TrainConfig c = must(TrainConfig::parse(config, "test"));
  const auto source = must(make_source(c.data, c.tokenizer));
  return must(train(c, *source, options));
}

std::string bytes_of(const fs::path& file) { return must(read_file(file)); }

void expect_resume_is_exact(const std::string& precision) {
  const test::TemporaryFolder whole, halves;
  json::object a = tiny_config(whole.path, precision), b = tiny_config(halves.path, precision);
  for (json::object* c : {&a, &b}) (*c)["ema_decay"] = 0.9, (*c)["accumulate"] = 2;
  run(a, {.quiet = true});
  const TrainReport first = run(b, {.stop_after = 3, .quiet = true});
  EXPECT_EQ(first.steps, 3);
  EXPECT_TRUE(first.stopped_early);
  const TrainReport second = run(b, {.resume = must(newest_checkpoint(halves.path)), .quiet = true});
  EXPECT_EQ(second.steps, 6);
  for (const char* file : {"model.safetensors", "trainer.safetensors"})
    EXPECT_EQ(bytes_of(whole.path / "step-6" / file), bytes_of(halves.path / "step-6" / file)) << file;
  EXPECT_EQ(must(read_loss_log(halves.path / "loss.jsonl")).size(), 6U);
}

TEST(Trainer, StoppingAndResumingGivesTheSameBytesInFloat) { expect_resume_is_exact("f32"); }
TEST(Trainer, StoppingAndResumingGivesTheSameBytesInBfloat16) { expect_resume_is_exact("bf16"); }

TEST(Trainer, LearnsToCopyThePrompt) {
  const test::TemporaryFolder out;
  json::object c = tiny_config(out.path, "f32", false);
  c["steps"] = 150, c["batch"] = 8, c["threads"] = 1;
  c["data"].as_object()["size"] = 4;
  c["optimizer"] = json::object{{"lr", 1e-2}, {"weight_decay", 0.0}};
  c["schedule"] = json::object{{"kind", "cosine"}, {"warmup", 10}};
  run(c, {.quiet = true});
  const auto log = must(read_loss_log(out.path / "loss.jsonl"));
  EXPECT_GT(log.front().noisy, 2.5);  // ln 24 = 3.2 for a guess
  EXPECT_LT(log.back().noisy, 0.3);
  EXPECT_LT(log.back().ar, 0.3);
  EXPECT_TRUE(fs::exists(out.path / "loss.svg"));
}

TEST(Trainer, CheckpointIsAModelFolderAndTheOldestGo) {
  const test::TemporaryFolder out, tokenizer;
  ASSERT_TRUE(write_file(tokenizer.path / "tokenizer.json", "{}"));
  json::object c = tiny_config(out.path);
  c["save_every"] = 1, c["keep"] = 2, c["tokenizer"] = tokenizer.path.string(), c["store"] = "bf16";
  run(c, {.quiet = true});
  EXPECT_FALSE(fs::exists(out.path / "step-4"));
  EXPECT_TRUE(fs::exists(out.path / "step-5"));
  EXPECT_EQ(bytes_of(out.path / "step-6" / "tokenizer.json"), "{}");
  const Checkpoint stored = must(Checkpoint::open_folder(out.path / "step-6"));
  const TensorView* q = stored.find("model.language_model.layers.1.self_attn.q_proj.weight");
  ASSERT_NE(q, nullptr);
  EXPECT_EQ(q->dtype, DType::kBF16);
  EXPECT_NE(stored.find("model.visual.patch_embed.proj.weight"), nullptr);
  EXPECT_EQ(stored.find("lm_head.weight"), nullptr);
  EXPECT_TRUE(load_model(out.path / "step-6", Precision::kF32));
}

TEST(Trainer, BatchesDoNotDependOnHowTheyAreAccumulated) {
  const test::TemporaryFolder a, b;
  json::object whole = tiny_config(a.path), split = tiny_config(b.path);
  whole["batch"] = 4, whole["steps"] = 2;
  split["batch"] = 2, split["accumulate"] = 2, split["steps"] = 2;
  run(whole, {.quiet = true});
  run(split, {.quiet = true});
  const auto la = must(read_loss_log(a.path / "loss.jsonl")), lb = must(read_loss_log(b.path / "loss.jsonl"));
  EXPECT_NEAR(la[0].loss, lb[0].loss, 1e-5 * la[0].loss);
  EXPECT_NEAR(la[0].gradient_norm, lb[0].gradient_norm, 1e-4 * la[0].gradient_norm);
}

TEST(Trainer, AScheduleByStepsDoesNotReadTheClock) {
  const test::TemporaryFolder timed, untimed;
  json::object a = tiny_config(timed.path), b = tiny_config(untimed.path);
  for (json::object* c : {&a, &b}) (*c)["schedule"] = json::object{{"kind", "cosine"}, {"warmup", 2}};
  a["max_minutes"] = 20;
  run(a, {.quiet = true});
  run(b, {.quiet = true});
  EXPECT_EQ(bytes_of(timed.path / "step-6" / "model.safetensors"), bytes_of(untimed.path / "step-6" / "model.safetensors"));
  const TrainConfig c = must(TrainConfig::parse(a, "test"));
  for (const LossPoint& p : must(read_loss_log(timed.path / "loss.jsonl")))
    EXPECT_NEAR(p.lr, c.schedule.at(p.step), 1e-5 * p.lr) << p.step;
}

TEST(Trainer, ARunThatEndedByPatienceOrTimeStaysAtItsEnd) {
  const test::TemporaryFolder impatient, late;
  json::object a = tiny_config(impatient.path, "f32", false), b = tiny_config(late.path, "f32", false);
  a["steps"] = 20, a["optimizer"] = json::object{{"lr", 0.0}};  // which makes no score better than the first
  a["validation"] = {{"every", 1}, {"samples", 2}, {"first_sample", 1000}, {"patience", 2}};
  b["steps"] = 1000000, b["max_minutes"] = 1e-6;
  for (const json::object& config : {a, b}) {
    const TrainReport first = run(config, {.quiet = true}), again = run(config, {.resume = first.checkpoint, .quiet = true});
    EXPECT_TRUE(first.stopped_early);
    EXPECT_TRUE(again.stopped_early);
    EXPECT_EQ(again.steps, first.steps);
    EXPECT_EQ(again.samples_per_s, 0) << "nothing is trained";
    EXPECT_EQ(again.checkpoint, first.checkpoint);
  }
  b["max_minutes"] = 0, b["steps"] = 2;
  EXPECT_EQ(run(b, {.resume = must(newest_checkpoint(late.path)), .quiet = true}).steps, 2) << "another limit goes on";
}

TEST(Trainer, ValidationSamplesAreOfTheDataAndNotTrainedOn) {
  const auto error = [](int64_t size, int64_t first_sample, int64_t steps, int64_t held_out) {
    const test::TemporaryFolder out;
    json::object o = tiny_config(out.path / "run", "f32", false);
    o["data"].as_object()["size"] = size, o["first_sample"] = first_sample, o["steps"] = steps, o["batch"] = 2;
    o["validation"] = {{"every", 1}, {"samples", 4}, {"first_sample", held_out}};
    const TrainConfig c = must(TrainConfig::parse(o, "test"));
    const auto source = must(make_source(c.data, c.tokenizer));
    const auto report = train(c, *source, {.quiet = true});
    EXPECT_EQ(fs::exists(out.path / "run"), static_cast<bool>(report));
    return report ? std::string("no error") : report.error().message;
  };
  EXPECT_EQ(error(12, 0, 4, 8), "no error");
  EXPECT_EQ(error(0, 0, 4, 8), "no error");
  EXPECT_EQ(error(0, 4, 1, 0), "no error");
  EXPECT_EQ(error(12, 0, 2, 9), "validation: expected samples among the 12 of the data, got 4 from 9 on");
  EXPECT_EQ(error(12, 0, 5, 8),
            "validation: expected samples that are not trained on, got 4 from 8 on, and the run trains on 10 from 0 on (fewer "
            "\"steps\" keep them apart)");
  EXPECT_THAT(error(0, 3, 1, 0), testing::HasSubstr("got 4 from 0 on, and the run trains on 2 from 3 on"));
  EXPECT_EQ(error(12, 4, 5, 0), "no error") << "it comes to them in its second epoch: the log warns";
}

TEST(Trainer, AFailedCheckpointLeavesNoFolder) {
  const test::TemporaryFolder out, tokenizer;
  fs::create_directories(tokenizer.path / "tokenizer.json");  // a folder of that name: cannot be copied
  json::object config = tiny_config(out.path);
  config["tokenizer"] = tokenizer.path.string(), config["steps"] = 1;
  const TrainConfig c = must(TrainConfig::parse(config, "test"));
  const auto source = must(make_source(c.data, c.tokenizer));
  const auto report = train(c, *source, {.quiet = true});
  ASSERT_FALSE(report);
  EXPECT_THAT(report.error().message, testing::HasSubstr("tokenizer.json"));
  for (const auto& entry : fs::directory_iterator(out.path)) EXPECT_FALSE(entry.is_directory()) << entry.path();
}

/// Two fields that repeat the prompt's two tokens, and one that depends on both and says the first again, END behind each.
class EchoSource : public SampleSource {
 public:
  EchoSource() {
    Form::Parts p;
    p.name = "echo";
    for (int f = 0; f < 3; ++f) {
      p.pieces.emplace_back(FixedRun{{{6 + f % 2}, {5}}, 0});
      p.pieces.emplace_back(FieldRef{f});
      p.fields.push_back({.name = "f" + std::to_string(f), .budget = 3, .end = TokenId{3}});
    }
    p.fields[2].parents = {0, 1};
    graph_ = std::make_shared<GraphForm>(must(Form::make(std::move(p))));
  }
  Result<Sample> get(int64_t index) override {
    const TokenId a{8 + static_cast<int32_t>(index % 5)}, b{13 + static_cast<int32_t>(index % 3)};
    Sample s;
    s.graph = graph_;
    s.mask_token = {1};
    s.tokens = {a, b};
    s.positions = {Position::text(0), Position::text(1)};
    s.next_position = 2;
    s.contents = {{a}, {b, b}, {a}};
    return s;
  }

 private:
  std::shared_ptr<const GraphForm> graph_;
};

TEST(Trainer, LearnsAGraphAndItsDrafts) {
  const test::TemporaryFolder out;
  json::object config = tiny_config(out.path, "f32", false);
  config["model"].as_object()["diffusion_shift"] = 1;
  config["steps"] = 120, config["batch"] = 8, config["threads"] = 1;
  config["objective"] = json::object{{"kind", "graph"}, {"draft_width", 4}};
  config["optimizer"] = json::object{{"lr", 1e-2}, {"weight_decay", 0.0}};
  config["schedule"] = json::object{{"kind", "cosine"}, {"warmup", 10}};
  const TrainConfig c = must(TrainConfig::parse(config, "test"));
  EchoSource source;
  must(train(c, source, {.quiet = true}));
  const auto log = must(read_loss_log(out.path / "loss.jsonl"));
  EXPECT_GT(log.front().ar, 2.5);  // ln 24 = 3.2 for a guess
  EXPECT_LT(log.back().ar, 0.3);
  EXPECT_LT(log.back().noisy, 0.3);
}

TEST(Trainer, ObjectiveAndSourceMustSpeakOfTheSameAnswer) {
  const test::TemporaryFolder out;
  json::object config = tiny_config(out.path, "f32", false);
  EchoSource fields;
  const auto sasd = must(TrainConfig::parse(config, "test"));
  const auto refused = make_step(fields, sasd, 1);
  ASSERT_FALSE(refused);
  EXPECT_THAT(refused.error().message, testing::HasSubstr("sample 0: expected an objective of kind \"graph\""));
  config["model"].as_object()["diffusion_shift"] = 1;
  config["objective"] = json::object{{"kind", "graph"}};
  const auto graph = must(TrainConfig::parse(config, "test"));
  const auto tokens = must(make_source(graph.data, graph.tokenizer));
  const auto also = make_step(*tokens, graph, 1);
  ASSERT_FALSE(also);
  EXPECT_THAT(also.error().message, testing::HasSubstr("expected a form with fields"));
}

// A vocabulary of single letters: tokens that both know keep their rows, whatever their ids; the others are random.
void write_letters(const fs::path& folder, const std::string& letters) {
  json::object vocab;
  int id = 0;
  for (const char c : letters) vocab[std::string(1, c)] = id++;
  const json::object file{{"model", json::object{{"type", "BPE"}, {"vocab", vocab}, {"merges", json::array{}}}},
                          {"pre_tokenizer", json::object{{"type", "ByteLevel"}, {"add_prefix_space", false}, {"use_regex", false}}},
                          {"decoder", json::object{{"type", "ByteLevel"}}}};
  ASSERT_TRUE(write_file(folder / "tokenizer.json", pretty(file)));
}

TEST(Trainer, StartsFromAModelWithAnotherTokenizer) {
  const test::TemporaryFolder first, second, old_letters, new_letters;
  write_letters(old_letters.path, "abcdef");
  write_letters(new_letters.path, "xfybaz");
  json::object config = tiny_config(first.path);
  config["steps"] = 1;
  run(config, {.quiet = true});
  config["init"] = (first.path / "step-1").string(), config["init_tokenizer"] = old_letters.path.string();
  config["tokenizer"] = new_letters.path.string(), config["out"] = second.path.string();
  config["model"].as_object()["text_config"].as_object()["vocab_size"] = 26;  // more rows than before
  config["optimizer"] = json::object{{"lr", 0.0}};
  run(config, {.quiet = true});
  const Checkpoint a = must(Checkpoint::open_folder(first.path / "step-1")),
                   b = must(Checkpoint::open_folder(second.path / "step-1"));
  const std::string embed = "model.language_model.embed_tokens.weight", norm = "model.language_model.norm.weight";
  const auto old_rows = read_as_f32(*must(a.get(embed))), new_rows = read_as_f32(*must(b.get(embed)));
  const auto same = [&](size_t now, size_t before) {
    return std::equal(new_rows.begin() + static_cast<long>(now * 32), new_rows.begin() + static_cast<long>(now * 32 + 32),
                      old_rows.begin() + static_cast<long>(before * 32));
  };
  ASSERT_EQ(new_rows.size(), 26U * 32);
  EXPECT_TRUE(same(1, 5) && same(3, 1) && same(4, 0));  // f, b, a
  for (size_t before = 0; before < 24; ++before) EXPECT_FALSE(same(0, before) || same(2, before) || same(5, before));
  EXPECT_EQ(read_as_f32(*must(a.get(norm))), read_as_f32(*must(b.get(norm))));

  const test::TemporaryFolder third;
  config["out"] = third.path.string();
  config["model"].as_object()["text_config"].as_object()["intermediate_size"] = 56;
  const TrainConfig other = must(TrainConfig::parse(config, "test"));
  const auto source = must(make_source(other.data, other.tokenizer));
  const auto refused = train(other, *source, {.quiet = true});
  ASSERT_FALSE(refused);
  EXPECT_THAT(refused.error().message, testing::HasSubstr("expected"));
  EXPECT_THAT(refused.error().message, testing::HasSubstr("numbers in 56 rows"));
}

template <class E>
class ThrowingSource : public SampleSource {
 public:
  Result<Sample> get(int64_t) override { throw E(); }
};

template <class E>
Error error_of_batches() {
  const test::TemporaryFolder out;
  const TrainConfig c = must(TrainConfig::parse(tiny_config(out.path), "test"));
  ThrowingSource<E> source;
  Batcher batches(source, c, 1);
  const auto got = batches.next();
  return got ? Error{} : got.error();
}

TEST(Batcher, ReportsWhatASourceThrows) {
  EXPECT_EQ(error_of_batches<std::bad_alloc>().kind, ErrorKind::kResource);
  EXPECT_THAT(error_of_batches<std::bad_alloc>().message, testing::HasSubstr("step 1: expected memory"));
  EXPECT_EQ(error_of_batches<std::bad_exception>().message, std::bad_exception().what());
}

// A step is the same by whichever thread it was made.
TEST(Batcher, SeveralThreadsGiveTheSameStepsInOrder) {
  const test::TemporaryFolder out;
  const TrainConfig one = must(TrainConfig::parse(tiny_config(out.path), "test"));
  TrainConfig many = one;
  many.data_threads = 4;
  const auto source = must(make_source(one.data, one.tokenizer));
  Batcher a(*source, one, 1);
  const auto other = must(make_source(one.data, one.tokenizer));
  Batcher b(*other, many, 1);
  for (int step = 1; step <= 20; ++step) {
    const StepBatches x = must(a.next()), y = must(b.next());
    ASSERT_EQ(x.parts.size(), y.parts.size()) << step;
    for (size_t i = 0; i < x.parts.size(); ++i) EXPECT_EQ(x.parts[i].tokens, y.parts[i].tokens) << step;
    EXPECT_EQ(x.count, y.count) << step;
  }
}

// The binary, interrupted while it trains: a checkpoint, exit code 130, nothing half written.
TEST(TrainerBinary, WritesACheckpointOnInterruptAndExits130) {
  const test::TemporaryFolder out;
  json::object c = tiny_config(out.path);
  c["steps"] = 1000000;
  ASSERT_TRUE(write_file(out.path / "c.json", pretty(c)));
  const std::string config = (out.path / "c.json").string();
  const pid_t child = ::fork();
  if (child == 0) {
    const int null = ::open("/dev/null", O_WRONLY);
    ::dup2(null, STDERR_FILENO);
    ::execl(SLIP_TRAINER, SLIP_TRAINER, "--config", config.c_str(), nullptr);
    ::_exit(99);
  }
  for (int i = 0; i < 600 && !fs::exists(out.path / "loss.jsonl"); ++i) ::usleep(100000);
  ::kill(child, SIGINT);
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  ASSERT_TRUE(WIFEXITED(status));
  EXPECT_EQ(WEXITSTATUS(status), 130);
  EXPECT_TRUE(newest_checkpoint(out.path));
  for (const auto& entry : fs::directory_iterator(out.path)) EXPECT_NE(entry.path().extension(), ".partial");
}

/// What the binary says on standard error. It must come to its end.
std::string said_by(const std::string& arguments, const fs::path& folder) {
  const std::string said = (folder / "said").string();
  EXPECT_EQ(std::system(fmt::format("{} '{}' {} 2>'{}'", "exec env -u SLIP_TRAIN_STARTED", SLIP_TRAINER, arguments, said).c_str()),
            0);
  return bytes_of(said);
}

TEST(TrainerBinary, SaysThatNothingIsLeftToTrain) {
  const test::TemporaryFolder out;
  json::object c = tiny_config(out.path);
  c["steps"] = 2;
  ASSERT_TRUE(write_file(out.path / "c.json", pretty(c)));
  EXPECT_THAT(said_by(fmt::format("--config '{}'", (out.path / "c.json").string()), out.path),
              testing::Not(testing::HasSubstr("left to train")));
  EXPECT_THAT(said_by(fmt::format("--resume '{}'", out.path.string()), out.path),
              testing::HasSubstr("nothing is left to train: 2 of 2 steps are done"));
}

TEST(TrainerBinary, TakesF32WhereBfloat16IsEmulated) {
  const test::TemporaryFolder out;
  json::object c = tiny_config(out.path, "bf16");
  c["steps"] = 1;
  ASSERT_TRUE(write_file(out.path / "c.json", pretty(c)));
#if defined(__x86_64__)
  const bool native = __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw");
#else
  const bool native = true;
#endif
  const std::string said = said_by(fmt::format("--config '{}'", (out.path / "c.json").string()), out.path);
  EXPECT_THAT(said, testing::HasSubstr(native ? "slipstream-train: bf16, " : "slipstream-train: f32, "));
  EXPECT_EQ(said.find("bf16 is asked for and f32 used") == std::string::npos, native) << said;
  ::setenv("SLIP_TRAIN_BF16", "1", 1);
  const std::string insisted =
      said_by(fmt::format("--config '{}' --out '{}'", (out.path / "c.json").string(), (out.path / "b").string()), out.path);
  ::unsetenv("SLIP_TRAIN_BF16");
  EXPECT_THAT(insisted, testing::HasSubstr("slipstream-train: bf16, "));
}

TEST(TrainConfig, NamesWhatIsWrong) {
  const auto error = [](json::object c) {
    const auto r = TrainConfig::parse(c, "c.json");
    return r ? std::string("no error") : r.error().message;
  };
  const json::object good = tiny_config("x");
  EXPECT_EQ(error(good), "no error");
  json::object c = good;
  c["learning_rate"] = 1;
  EXPECT_THAT(error(c), testing::HasSubstr("c.json: expected a known key, got \"learning_rate\""));
  c = good;
  c["precision"] = "fp8";
  EXPECT_THAT(error(c), testing::HasSubstr("precision: expected \"f32\" or \"bf16\", got \"fp8\""));
  c = good;
  c["model"].as_object()["text_config"].as_object()["num_key_value_heads"] = 3;
  EXPECT_THAT(error(c), testing::HasSubstr("num_attention_heads: expected a multiple of num_key_value_heads 3, got 4"));
  c = good;
  c["batch"] = 0;
  EXPECT_THAT(error(c), testing::HasSubstr("batch: expected at least 1, got 0"));
  c = good;
  c["batch"] = int64_t{1} << 40;
  EXPECT_THAT(error(c), testing::HasSubstr("batch: expected at most 32768"));
  c = good;
  c["schedule"] = json::object{{"by", "wish"}};
  EXPECT_THAT(error(c), testing::HasSubstr("by: expected \"steps\" or \"time\", got \"wish\""));
  c["schedule"] = json::object{{"by", "time"}};
  EXPECT_THAT(error(c), testing::HasSubstr("by: expected max_minutes above 0 with \"time\", got 0"));
  c["max_minutes"] = 1;
  EXPECT_EQ(error(c), "no error");
  for (const auto& [key, value] : {std::pair<const char*, json::value>{"lr", -1},
                                   {"weight_decay", -0.1},
                                   {"epsilon", -1},
                                   {"clip", -1},
                                   {"betas", json::array{0.9, 1.5}}}) {
    c = good;
    c["optimizer"] = json::object{{key, value}};
    EXPECT_THAT(error(c), testing::HasSubstr(std::string(key) + ": expected"));
  }
  c = good;
  c["objective"] = json::object{{"kind", "tree"}};
  EXPECT_THAT(error(c), testing::HasSubstr("\"blockpilot\", \"trajectory\", got \"tree\""));
  c["objective"] = json::object{{"kind", "graph"}};
  EXPECT_THAT(error(c), testing::HasSubstr("expected a model with diffusion_shift 1 for \"graph\", got 0"));
  c["model"].as_object()["diffusion_shift"] = 1;
  EXPECT_EQ(error(c), "no error");
  c["objective"].as_object()["draft_width"] = 1;
  EXPECT_THAT(error(c), testing::HasSubstr("draft_width: expected at least 2, got 1"));
  c["objective"] = json::object{{"kind", "graph"}, {"draft_share", 1.5}};
  EXPECT_THAT(error(c), testing::HasSubstr("draft_share: expected a number in [0, 1], got 1.5"));
  c["objective"] = json::object{{"kind", "graph"}, {"weights", json::array{json::object{{"of", "x"}, {"weight", -1}}}}};
  EXPECT_THAT(error(c), testing::HasSubstr("weights: x: expected at least 0, got -1"));
  c = good;
  c["init_tokenizer"] = "somewhere";
  EXPECT_THAT(error(c), testing::HasSubstr("init_tokenizer: expected \"init\" and \"tokenizer\" with it, got no \"init\""));
  c = good;
  c["model"].as_object()["text_config"] = 7;
  EXPECT_THAT(error(c), testing::HasSubstr("key \"text_config\": expected an object, got an integer"));
  c = good;  // the folder it would write is refused on load
  c["model"].as_object()["text_config"].as_object().erase("rope_scaling");
  EXPECT_THAT(error(c),
              testing::HasSubstr("mrope_section: expected three counts among the rope keys beside vision_config, got none"));
  c["model"].as_object().erase("vision_config");
  EXPECT_THAT(error(c), testing::Not(testing::HasSubstr("mrope_section")));
  c = good;
  c["model"].as_object()["vision_config"].as_object()["fullatt_block_indexes"] = json::array{"one"};
  EXPECT_THAT(error(c), testing::HasSubstr("fullatt_block_indexes: expected integers"));
}

TEST(RowsFromJson, NamesAWrongPositionOrRange) {
  const TrainConfig c = must(TrainConfig::parse(tiny_config("x", "f32", false), "test"));
  for (const char* row : {R"({"token": 1, "position": [0, "a", 0]})", R"({"token": 1, "position": 4294967296})",
                          R"({"token": 1, "sees": [[0, "b"]]})"}) {
    const json::object rows{{"rows", json::array{*parse_json(row, "row")}}};
    const auto got = rows_from_json(rows, c.shape, {}, "r.json");
    ASSERT_FALSE(got) << row;
    EXPECT_THAT(got.error().message, testing::HasSubstr("r.json: row 0"));
  }
}

}  // namespace
}  // namespace slip
