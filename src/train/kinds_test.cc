// SPDX-License-Identifier: Apache-2.0
// Heads beside models/pair-target, taught for a few steps: stopped and resumed they are the same bits as run through, the engine loads what
// was written, and its numbers are the network's.
#include <gtest/gtest.h>
#include <unistd.h>

#include <cmath>

#include "base/file.h"
#include "base/folder_testing.h"
#include "base/must_testing.h"
#include "models/draft/block_pilot.h"
#include "models/draft/commit_sampler.h"
#include "models/draft/dflash.h"
#include "models/draft/flow_head.h"
#include "task/codes_folder_testing.h"
#include "train/heads/commit_network.h"
#include "train/heads/dflash_network.h"
#include "train/heads/flow_network.h"
#include "train/heads/pilot_network.h"
#include "train/heads/target.h"
#include "train/loop/held_out.h"
#include "train/loop/loss_log.h"
#include "train/loop/trainer.h"
#include "train/model/weights.h"

namespace slip {
namespace {

/// Of the trajectory heads that are trained here, over a target of these layers.
FlowShape flow_shape(Qwen3Shape layers) {
  return {.layers = layers, .rows = 8, .action = 3, .encoder = 16, .features = 6, .max_frequency = 100, .steps = 3};
}

namespace fs = std::filesystem;
const std::string kTarget = SLIP_SOURCE_DIR "/models/pair-target";

class Kinds : public testing::Test {
 protected:
  TrainConfig config(const std::string& kind, json::object objective, const std::string& out) const {
    json::object data{
        {"kind", "simulated"}, {"first_seed", 5000000}, {"count", 1000}, {"model", kTarget + "/config.json"}, {"action_step", 0.1}};
    json::object root{{"kind", kind},
                      {"target", kTarget},
                      {"data", data},
                      {"objective", objective},
                      {"steps", 4},
                      {"batch", 2},
                      {"threads", 1},
                      {"ema_decay", 0.5},
                      {"optimizer", json::object{{"lr", 0.002}}},
                      {"validation", json::object{{"every", 2}, {"samples", 3}, {"first_sample", 900}}},
                      {"out", (root_ / out).string()}};
    return must(TrainConfig::parse(root, "test"));
  }

  /// Trains through, and with a stop in the middle; the folder of the checkpoint.
  fs::path trained(const std::string& kind, const json::object& objective) {
    const TrainConfig through = config(kind, objective, "through"), parts = config(kind, objective, "parts");
    const auto source = must(make_source(through.data, through.tokenizer));
    const TrainReport whole = must(train(through, *source, {.quiet = true}));
    const TrainReport half = must(train(parts, *source, {.stop_after = 2, .quiet = true}));
    const TrainReport rest = must(train(parts, *source, {.resume = half.checkpoint, .quiet = true}));
    for (const char* file : {"model.safetensors", "trainer.safetensors"})
      EXPECT_EQ(must(read_file(whole.checkpoint / file)), must(read_file(rest.checkpoint / file))) << kind << ": " << file;
    EXPECT_NE(must(read_file(half.checkpoint / "trainer.safetensors")), must(read_file(rest.checkpoint / "trainer.safetensors")));
    EXPECT_EQ(half.steps, 2);
    return rest.checkpoint;
  }

  std::unique_ptr<Model> engine() { return must(load_model(kTarget, {.type = WeightType::kF32, .threads = 1, .slots = 512})); }

  static void load(HeadNetwork& network, const fs::path& folder) {
    const Status s = load_weights<float>(must(Checkpoint::open_folder(folder)), network.table(), network.values<float>());
    ASSERT_TRUE(s) << s.error().message;
  }

  static void expect_near(std::span<const double> a, std::span<const float> b) {
    ASSERT_EQ(a.size(), b.size());
    for (size_t i = 0; i < a.size(); ++i) EXPECT_NEAR(a[i], static_cast<double>(b[i]), 1e-4 * (1 + std::abs(a[i]))) << i;
  }

  static Constant tensor(const std::string& name) {
    const Checkpoint c = must(Checkpoint::open_folder(kTarget));
    return {read_as_f32(*c.find(name)), c.find(name)->shape};
  }

  test::TemporaryFolder folder_;
  const fs::path& root_ = folder_.path;
};

TEST_F(Kinds, ADflashHeadIsTheEnginesRowForRow) {
  const fs::path folder =
      trained("dflash", {{"layers", 2}, {"block", 4}, {"gamma", 3}, {"anchors", 4}, {"taps", json::array{1, 3}}});
  const auto model = engine();
  const auto head = must(load_dflash(folder, *model, 8));
  ASSERT_TRUE(model->lm().set_taps(head->info().tap_layers));
  DFlashShape shape{.layers = {2, 224, 7, 1, 32, 608, 1e-6, 1e4}, .block = 4, .taps = 2, .mask_token = head->info().mask.value};
  DFlashNetwork network(shape, tensor("model.embed_tokens.weight"), tensor("model.embed_tokens.weight"), Precision::kF32);
  load(network, folder);
  // Twelve rows of context, a block behind the eighth of them.
  DFlashSequence s;
  std::vector<Row> rows;
  std::vector<SlotSpan> spans;
  std::vector<int32_t> slots;
  for (int32_t i = 0; i < 12; ++i) {
    s.tokens.push_back(20 + 3 * i);
    s.positions.push_back(i);
    s.context.push_back(1);
    s.loss_mask.push_back(1);
    slots.push_back(i);
    rows.push_back({.input = TokenId{20 + 3 * i},
                    .position = Position::text(i),
                    .slot = i,
                    .sees_first = static_cast<uint32_t>(i),
                    .sees_count = 1});
    spans.push_back({0, i + 1});
  }
  PassOutput out;
  ASSERT_TRUE(model->lm().forward({.rows = rows, .spans = spans, .taps = true}, out));
  s.taps = out.taps_NE;
  s.anchors = {8};
  ASSERT_TRUE(head->store(slots, s.positions, out.taps_NE));
  rows.clear();
  const int32_t first = head->info().context_slots;
  spans = {{0, 8}, {first, first + 4}};
  for (int32_t k = 0; k < 4; ++k)
    rows.push_back({.input = k == 0 ? TokenId{s.tokens[8]} : head->info().mask,
                    .position = Position::text(8 + k),
                    .slot = first + k,
                    .sees_first = 0,
                    .sees_count = 2,
                    .want = Want::kLogits});
  ASSERT_TRUE(head->forward({.rows = rows, .spans = spans}, out));
  expect_near(network.logits(s), out.logits_NV);
}

TEST_F(Kinds, ACommitSamplerIsTheEnginesPlaceForPlace) {
  const fs::path folder = trained("commit-sampler", {{"hidden_size", 16},
                                                     {"layers", 2},
                                                     {"heads", 2},
                                                     {"intermediate_size", 24},
                                                     {"max_block", 16},
                                                     {"token_width", 6},
                                                     {"policy", "both"}});
  const auto model = engine();
  const auto sampler = must(load_commit_sampler(folder, *model));
  const CommitShape shape{.inputs = 3 * 6 + kCommitStatistics, .hidden = 16, .layers = 2, .heads = 2, .ffn = 24, .max_block = 16};
  CommitNetwork network(shape, Precision::kF32);
  load(network, folder);
  const Checkpoint stored = must(Checkpoint::open_folder(folder));
  const std::vector<float> mean = read_as_f32(*stored.find("pca.mean")), pca = read_as_f32(*stored.find("pca.components"));
  const Constant embedding = tensor("model.embed_tokens.weight");
  std::vector<CommitPlace> block(5);
  for (int32_t j = 0; j < 5; ++j)
    block[static_cast<size_t>(j)] = {{TokenId{30 + j}, TokenId{50 + j}, TokenId{70 + j}}, {0.5F, 0.2F, 0.1F}, 1.25F, j != 2};
  std::vector<CommitStatistic> all;
  for (int k = 0; k < kCommitStatistics; ++k) all.push_back(static_cast<CommitStatistic>(k));
  std::vector<float> statistics, probability;
  commit_statistics(block, all, 16, statistics);
  CommitBlock b;
  for (size_t j = 0; j < 5; ++j) {
    for (size_t k = 0; k < 3; ++k)
      for (size_t w = 0; w < 6; ++w) {
        double sum = 0;
        for (size_t d = 0; d < 224; ++d)
          sum += static_cast<double>(pca[w * 224 + d]) *
                 static_cast<double>(embedding.numbers[static_cast<size_t>(block[j].top[k].value) * 224 + d] - mean[d]);
        b.inputs.push_back(k > 0 && !block[j].masked ? 0 : static_cast<float>(sum));
      }
    b.inputs.insert(b.inputs.end(), statistics.begin() + static_cast<ptrdiff_t>(j * kCommitStatistics),
                    statistics.begin() + static_cast<ptrdiff_t>((j + 1) * kCommitStatistics));
    b.masked.push_back(block[j].masked);
    b.label.push_back(0);
  }
  std::vector<double> z;
  network.loss({&b, 1}, 0, &z);
  ASSERT_TRUE(sampler->probabilities(block, probability));
  for (size_t j = 0; j < 5; ++j) EXPECT_NEAR(probability[j], block[j].masked ? 1 / (1 + std::exp(-z[j])) : 0, 1e-4);
}

TEST_F(Kinds, ABlockPilotPicksAsTheEngineDoes) {
  const fs::path folder = trained("blockpilot", {{"width", 24}, {"radius", 1}, {"block", 4}});
  const std::unique_ptr<BlockPilot> loaded = must(load_block_pilot(folder));
  const BlockPilot& pilot = *loaded;
  EXPECT_EQ(pilot.classes(), 3);
  const auto target = must(Target::load(kTarget, 1));
  const json::value said = must(read_json(folder / "config.json"));
  for (const auto& [key, mark] : block_pilot_marks(target->model())) EXPECT_EQ(said.at(key), mark) << std::string_view(key);
  PilotNetwork network({.vocab = pilot.vocab(), .width = 24, .depth = 2, .classes = 3}, Precision::kF32);
  load(network, folder);
  PhiloxStream draw(3, 1);
  int32_t differ = 0, before = -1;
  for (int i = 0; i < 40; ++i) {
    std::vector<float> z;
    for (int32_t v = 0; v < pilot.vocab(); ++v) z.push_back(static_cast<float>(draw.uniform(-60, 60)));
    const std::vector<int32_t> any{0};
    std::vector<double> out;
    network.loss(z, any, {}, 0, &out);
    EXPECT_EQ(pilot.pick(z), pilot_label(out));
    differ += pilot.pick(z) != before;
    before = pilot.pick(z);
  }
  EXPECT_GT(differ, 1) << "a pilot that always picks the same shows nothing";
}

TEST_F(Kinds, ATrajectoryHeadReadsTheSameKeys) {
  const fs::path folder = trained("trajectory", {{"rows", 8},
                                                 {"encoder", 16},
                                                 {"features", 6},
                                                 {"hidden_size", 32},
                                                 {"intermediate_size", 48},
                                                 {"steps", 3},
                                                 {"scale_samples", 4}});
  const auto target = must(Target::load(kTarget, 1));
  const auto head = must(load_flow_head(folder, target->model()));
  Prompt prompt;
  for (int32_t i = 0; i < 9; ++i) {
    prompt.inputs.emplace_back(TokenId{40 + i});
    prompt.positions.push_back(Position::text(i));
  }
  prompt.next_position = 9;
  ASSERT_TRUE(target->run(prompt, {}, {}));
  ASSERT_TRUE(head->read(9, 9));
  FlowShape shape = flow_shape({5, 32, 7, 1, 32, 48, 1e-6, 1e4});
  FlowNetwork network(shape, Precision::kF32);
  load(network, folder);
  FlowPrefix p{.rows = 9, .position = 9};
  const KvArena& arena = target->model().decoder()->arena();
  for (int32_t l = 0; l < 5; ++l)
    for (int32_t slot = 0; slot < 9; ++slot)
      for (int32_t i = 0; i < 32; ++i) {
        p.keys.push_back(static_cast<const float*>(arena.keys(l))[slot * arena.slot_stride() + i]);
        p.values.push_back(static_cast<const float*>(arena.values(l))[slot * arena.slot_stride() + i]);
      }
  PhiloxStream draw(7, 7);
  std::vector<float> x, v;
  for (int i = 0; i < 24; ++i) x.push_back(static_cast<float>(draw.uniform(-2, 2)));
  ASSERT_TRUE(head->velocity(x, 0.3, v));
  expect_near(network.velocity(p, std::vector<double>(x.begin(), x.end()), 0.3), v);
  std::vector<float> action, again;
  ASSERT_TRUE(head->sample(x, action));
  ASSERT_TRUE(head->sample(x, again));
  EXPECT_EQ(action, again);
}

/// The samples of another source; of some nobody recorded the future.
class Unrecorded : public SampleSource {
 public:
  Unrecorded(SampleSource& all, int64_t every) : all_(all), every_(every) {}
  Result<Sample> get(int64_t index) override {
    SLIP_TRY(Sample s, all_.get(index));
    if (index % every_ == 0) s.future.clear();
    return s;
  }

 private:
  SampleSource& all_;
  int64_t every_;
};

// Samples without a future are passed over, and data that have none at all are refused before there is a folder.
TEST_F(Kinds, ATrajectoryHeadLearnsRecordedFuturesAlone) {
  const json::object objective{{"rows", 8},         {"encoder", 16},           {"features", 6},
                               {"hidden_size", 32}, {"intermediate_size", 48}, {"scale_samples", 4},
                               {"steps", 3}};
  TrainConfig c = config("trajectory", objective, "half");
  c.steps = 1;
  const auto all = must(make_source(c.data, c.tokenizer));
  Unrecorded half(*all, 2), none(*all, 1);
  const TrainReport report = must(train(c, half, {.quiet = true}));
  EXPECT_GT(report.loss, 0);
  const auto log = must(read_loss_log(c.out / "loss.jsonl"));
  ASSERT_TRUE(log.back().validation);
  EXPECT_LT(*log.back().validation, 0);
  c.out = root_ / "none";
  const auto refused = train(c, none, {.quiet = true});
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().message, "data: expected samples with 8 steps of a trajectory, got none among the first 4");
  EXPECT_FALSE(fs::exists(c.out));
}

// A head that reads any share of an answer: the answer stops at a section, and what was asked is refused in words where it does not fit.
TEST_F(Kinds, ATrajectoryHeadReadsUpToASection) {
  const std::string demo = SLIP_SOURCE_DIR "/models/demo";
  const auto train_until = [&](const std::string& until) -> Result<fs::path> {
    const json::object objective{
        {"rows", 8},         {"encoder", 16}, {"features", 6}, {"hidden_size", 32}, {"intermediate_size", 48}, {"steps", 3},
        {"answers", "data"}, {"scenes", 2},   {"cut", true},   {"until", until},    {"scale_samples", 2}};
    const json::object data{{"kind", "simulated"}, {"first_seed", 5000000}, {"count", 100}, {"model", demo + "/config.json"}};
    SLIP_TRY(const TrainConfig c, TrainConfig::parse({{"kind", "trajectory"},
                                                      {"target", demo},
                                                      {"data", data},
                                                      {"objective", objective},
                                                      {"steps", 2},
                                                      {"batch", 2},
                                                      {"threads", 1},
                                                      {"out", (root_ / until).string()}},
                                                     "test"));
    SLIP_TRY(const auto source, make_source(c.data, c.tokenizer));
    SLIP_TRY(const TrainReport report, train(c, *source, {.quiet = true}));
    return report.checkpoint;
  };
  const auto model = must(load_model(demo, {.type = WeightType::kF32, .threads = 1, .slots = 1024}));
  const FlowHeadInfo info = must(load_flow_head(must(train_until("trajectory")), *model))->info();
  EXPECT_TRUE(info.any_section);
  EXPECT_EQ(info.until, "trajectory");
  const auto refused = train_until("no such section");
  ASSERT_FALSE(refused);
  EXPECT_NE(refused.error().message.find("expected a section of form"), std::string::npos) << refused.error().message;
}

// Along a graph the trainer reads the keys of one pass over the answer, the engine those that the decoder's passes have left, by position.
TEST_F(Kinds, ATrajectoryHeadReadsTheSameKeysAlongAGraph) {
  const std::string cot = SLIP_SOURCE_DIR "/models/demo-cot";
  const json::object objective{
      {"rows", 8},         {"encoder", 16}, {"features", 6}, {"hidden_size", 32},     {"intermediate_size", 48}, {"steps", 3},
      {"answers", "data"}, {"scenes", 2},   {"cut", true},   {"until", "trajectory"}, {"scale_samples", 2}};
  const json::object data{{"kind", "simulated"}, {"first_seed", 5000000}, {"count", 100}, {"model", cot + "/config.json"}};
  const TrainConfig c = must(TrainConfig::parse({{"kind", "trajectory"},
                                                 {"target", cot},
                                                 {"data", data},
                                                 {"objective", objective},
                                                 {"steps", 2},
                                                 {"batch", 2},
                                                 {"threads", 1},
                                                 {"out", (root_ / "graph").string()}},
                                                "test"));
  const auto source = must(make_source(c.data, c.tokenizer));
  const fs::path folder = must(train(c, *source, {.quiet = true})).checkpoint;
  const Sample s = must(source->get(3));
  const auto trained = must(Target::load(cot, 1)), decoded = must(Target::load(cot, 1));
  const Prompt prompt = must(trained->graph_prompt(s));
  const auto contents = must(trained->graph_contents(s, prompt));
  const GraphKeys keys = must(trained->run_graph(s, prompt, contents));
  const auto head = must(load_flow_head(folder, decoded->model()));
  EXPECT_EQ(head->info().visibility, Visibility::kGraph);
  const DecoderOptions& o = decoded->model().decoder()->options();
  FlowShape shape = flow_shape({o.layers, 32, o.heads, o.kv_heads, o.head_width, 48, 1e-6, o.rope.theta});
  FlowNetwork network(shape, Precision::kF32);
  load(network, folder);
  const KvArena& arena = trained->model().decoder()->arena();
  const auto prefix_of = [&](int32_t rows, int32_t position) {
    FlowPrefix p{.rows = rows, .position = position};
    const auto n = static_cast<size_t>(o.kv_heads * o.head_width);
    std::vector<float> key(n), value(n);
    for (int32_t l = 0; l < o.layers; ++l)
      for (int32_t i = 0; i < rows; ++i) {
        arena.load(l, keys.slots[static_cast<size_t>(i)], key.data(), value.data());
        p.keys.insert(p.keys.end(), key.begin(), key.end());
        p.values.insert(p.values.end(), value.begin(), value.end());
      }
    return p;
  };
  PhiloxStream draw(7, 7);
  std::vector<float> x, v;
  for (int i = 0; i < 24; ++i) x.push_back(static_cast<float>(draw.uniform(-2, 2)));
  DecodeOptions options;
  options.forced = true;
  options.visibility = Visibility::kGraph;
  DecodeContext context;
  const Form& form = s.graph->form;
  for (int32_t k = 0; k <= static_cast<int32_t>(form.sections().size()); ++k) context.keys_behind.push_back(k);
  int32_t told = 0;
  context.on_keys = [&](const KnownKeys& known) -> Status {
    const int32_t k = known.sections,
                  rows = k == 0 ? static_cast<int32_t>(prompt.inputs.size()) : keys.ends[static_cast<size_t>(k) - 1];
    EXPECT_EQ(k, told++);
    int32_t lie = 0;
    for (const SlotSpan& span : known.slots) lie += span.end - span.begin;
    EXPECT_EQ(lie, rows) << k;
    SLIP_TRY_(head->read(known.slots, known.position));
    SLIP_TRY_(head->velocity(x, 0.3, v));
    expect_near(network.velocity(prefix_of(rows, known.position), std::vector<double>(x.begin(), x.end()), 0.3), v);
    return {};
  };
  for (const char* preset : {"fields", "fields-spec"}) {
    told = 0;
    const Decoded answer = must(decode(decoded->lm(), prompt, &form, preset, options, context));
    EXPECT_EQ(answer.fields, contents);
    EXPECT_EQ(told, static_cast<int32_t>(form.sections().size()) + 1) << preset;
  }
}

// Samples that come again are the same bits as samples that are made again.
TEST_F(Kinds, KeptScenesAreTheScenes) {
  for (const char* kind : {"dflash", "commit-sampler", "blockpilot"}) {
    json::object objective{{"scenes", 4}};
    if (std::string(kind) == "dflash") objective["anchors"] = 2, objective["block"] = 4, objective["layers"] = 1;
    if (std::string(kind) == "commit-sampler")
      objective["hidden_size"] = 16, objective["heads"] = 2, objective["layers"] = 1, objective["max_block"] = 16,
      objective["token_width"] = 6, objective["intermediate_size"] = 16;
    if (std::string(kind) == "blockpilot") objective["width"] = 16, objective["radius"] = 1, objective["block"] = 4;
    TrainConfig with = config(kind, objective, std::string("kept-") + kind);
    objective.erase("scenes");
    TrainConfig without = config(kind, objective, std::string("made-") + kind);
    with.steps = without.steps = 2;  // of two samples each: the four scenes, once
    const auto source = must(make_source(with.data, with.tokenizer));
    EXPECT_EQ(must(read_file(must(train(with, *source, {.quiet = true})).checkpoint / "trainer.safetensors")),
              must(read_file(must(train(without, *source, {.quiet = true})).checkpoint / "trainer.safetensors")))
        << kind;
  }
}

// What is published is W0 + alpha / rank B A of what was learned.
TEST_F(Kinds, AdaptersOnAllLayersAreMergedIntoAModel) {
  const std::string base = SLIP_SOURCE_DIR "/models/pair-draft";
  const json::object data{
      {"kind", "simulated"}, {"first_seed", 5000000}, {"count", 1000}, {"model", base + "/config.json"}, {"action_step", 0.1}};
  const json::object of{{"kind", "sasd"}, {"sections", json::array{json::object{{"name", "action"}}}}};
  const auto make = [&](const std::string& out) {
    return must(TrainConfig::parse({{"kind", "lora"},
                                    {"model", base + "/config.json"},
                                    {"init", base},
                                    {"tokenizer", base},
                                    {"data", data},
                                    {"objective", json::object{{"rank", 4}, {"alpha", 8}, {"of", of}}},
                                    {"steps", 4},
                                    {"batch", 2},
                                    {"threads", 1},
                                    {"optimizer", json::object{{"lr", 0.01}, {"weight_decay", 0}}},
                                    {"out", (root_ / out).string()}},
                                   "test"));
  };
  const TrainConfig through = make("through"), parts = make("parts");
  const auto source = must(make_source(data, base));
  const TrainReport whole = must(train(through, *source, {.quiet = true}));
  const TrainReport half = must(train(parts, *source, {.stop_after = 2, .quiet = true}));
  const TrainReport rest = must(train(parts, *source, {.resume = half.checkpoint, .quiet = true}));
  for (const char* file : {"model.safetensors", "adapter/adapter_model.safetensors", "trainer.safetensors"})
    EXPECT_EQ(must(read_file(whole.checkpoint / file)), must(read_file(rest.checkpoint / file))) << file;
  const Checkpoint before = must(Checkpoint::open_folder(base)), after = must(Checkpoint::open_folder(rest.checkpoint)),
                   adapter = must(Checkpoint::open_file(rest.checkpoint / "adapter/adapter_model.safetensors"));
  const std::string name = "model.layers.1.mlp.down_proj";
  const std::vector<float> w0 = read_as_f32(*before.find(name + ".weight")), w = read_as_f32(*after.find(name + ".weight")),
                           a = read_as_f32(*adapter.find("base_model.model." + name + ".lora_A.weight")),
                           b = read_as_f32(*adapter.find("base_model.model." + name + ".lora_B.weight"));
  const size_t in = w.size() / (b.size() / 4);
  double moved = 0;
  for (size_t o = 0; o < b.size() / 4; ++o)
    for (size_t i = 0; i < in; ++i) {
      double sum = static_cast<double>(w0[o * in + i]);
      for (size_t r = 0; r < 4; ++r) sum += 2.0 * static_cast<double>(b[o * 4 + r]) * static_cast<double>(a[r * in + i]);
      EXPECT_NEAR(w[o * in + i], sum, 1e-5);
      moved = std::max(moved, std::abs(sum - static_cast<double>(w0[o * in + i])));
    }
  EXPECT_GT(moved, 1e-4);
  EXPECT_EQ(read_as_f32(*before.find("model.embed_tokens.weight")), read_as_f32(*after.find("model.embed_tokens.weight")));
  EXPECT_TRUE(load_model(rest.checkpoint, {.type = WeightType::kF32, .threads = 1, .slots = 64})) << "the engine loads it as it is";
}

TEST_F(Kinds, WhatDoesNotFitIsRefusedInWords) {
  const auto refused = [&](const std::string& kind, const json::object& objective) -> std::string {
    const TrainConfig c = config(kind, objective, "refused");
    const auto source = must(make_source(c.data, c.tokenizer));
    const Result<TrainReport> r = train(c, *source, {.quiet = true});
    return r ? "" : r.error().message;
  };
  EXPECT_NE(refused("dflash", {{"taps", json::array{9}}}).find("expected layers 0 to 4"), std::string::npos);
  EXPECT_NE(refused("dflash", {{"blok", 4}}).find("expected a known key of kind \"dflash\", got \"blok\""), std::string::npos);
  EXPECT_NE(refused("commit-sampler", {{"hidden_size", 10}, {"heads", 3}}).find("multiple of heads"), std::string::npos);
  EXPECT_NE(refused("blockpilot", {{"block", 3}, {"radius", 2}}).find("at least 2 rows"), std::string::npos);
  EXPECT_NE(refused("trajectory", {{"features", 5}}).find("even"), std::string::npos);
  const json::object no_target{{"kind", "dflash"}, {"data", json::object{{"kind", "toy"}}}};
  EXPECT_FALSE(TrainConfig::parse(no_target, "test"));
  const json::object unknown{{"kind", "dflesh"}, {"data", json::object{{"kind", "toy"}}}};
  const auto parsed = TrainConfig::parse(unknown, "test");
  ASSERT_FALSE(parsed);
  EXPECT_NE(parsed.error().message.find("\"commit-sampler\""), std::string::npos) << "the kinds are listed";
}

TEST(CodesOfTrajectories, ACheckpointTakesTheCodebookAlong) {
  const test::CodesFolder folder;
  const test::TemporaryFolder out;
  json::value config = must(read_json(folder.path / "config.json"));
  config.at("slipstream").as_object()["cameras"] = false;  // quicker
  folder.write("config.json", config);
  const std::string model = (folder.path / "config.json").string();
  const json::object root{{"kind", "graph"},
                          {"model", model},
                          {"init", folder.path.string()},
                          {"tokenizer", folder.path.string()},
                          {"data", json::object{{"kind", "simulated"}, {"first_seed", 7}, {"count", 10}, {"model", model}}},
                          {"objective", json::object{{"draft_share", 0}}},
                          {"steps", 1},
                          {"batch", 1},
                          {"threads", 1},
                          {"optimizer", json::object{{"lr", 0.001}}},
                          {"out", out.path.string()}};
  const TrainConfig c = must(TrainConfig::parse(root, "test"));
  const auto source = must(make_source(c.data, c.tokenizer));
  const TrainReport done = must(train(c, *source, {.quiet = true}));
  EXPECT_EQ(must(read_file(done.checkpoint / "codebook.json")), must(read_file(folder.path / "codebook.json")));
  const json::value written = must(read_json(done.checkpoint / "config.json"));
  EXPECT_TRUE(must(load_codebook(must(task_options(written.as_object(), "c")), done.checkpoint)));
  fs::remove(folder.path / "codebook.json");
  const auto without = make_source(c.data, c.tokenizer);
  ASSERT_FALSE(without);
  EXPECT_NE(without.error().message.find("expected the codebook codebook.json"), std::string::npos) << without.error().message;
}

/// The number of samples alone.
class Counted : public SampleSource {
 public:
  explicit Counted(int64_t size) : size_(size) {}
  Result<Sample> get(int64_t) override { return bad_input("sample: expected none to be asked for, got one"); }
  std::vector<SamplePart> parts() const override { return {{.size = size_}}; }

 private:
  int64_t size_;
};

TEST(ShippedConfigurations, HoldOutWhatTheyDoNotTrainOn) {
  const fs::path before = fs::current_path();
  fs::current_path(SLIP_SOURCE_DIR);  // where their paths start
  int validated = 0;
  for (const auto& entry : fs::recursive_directory_iterator("configs")) {
    if (entry.path().extension() != ".json") continue;
    json::value file = must(read_json(entry.path()));
    if (!file.is_object() || !file.get_object().contains("validation")) continue;
    json::object& o = file.get_object();
    if (!o.contains("model") && !o.contains("target"))
      o["target"] = "models/demo-cot";  // a study's stage, whose target the study knows
    const Result<TrainConfig> c = TrainConfig::parse(o, entry.path().string());
    ASSERT_TRUE(c) << c.error().message;
    const Result<std::string> held_out = check_held_out(Counted(must(get_int(c->data, "count", "data"))), *c);
    EXPECT_TRUE(held_out) << entry.path() << ": " << held_out.error().message;
    ++validated;
  }
  EXPECT_GE(validated, 12);
  fs::current_path(before);
}

TEST(SmokeConfigurations, EveryKindHasOneOfTwentySteps) {
  const fs::path before = fs::current_path();
  fs::current_path(SLIP_SOURCE_DIR);  // where their paths start
  for (const char* kind :
       {"sasd", "graph", "nld", "lora-drafter", "lora", "dflash", "commit-sampler", "blockpilot", "trajectory"}) {
    const Result<TrainConfig> c = TrainConfig::load(fs::path("configs/smoke") / (std::string(kind) + ".json"));
    ASSERT_TRUE(c) << c.error().message;
    EXPECT_EQ(word_of(c->objective), kind);
    EXPECT_EQ(c->steps, 20);
  }
  for (const char* another : {"codes", "dino"}) {
    const Result<TrainConfig> c = TrainConfig::load(fs::path("configs/smoke") / (std::string(another) + ".json"));
    ASSERT_TRUE(c) << c.error().message;
    EXPECT_EQ(c->steps, 20);
  }
  fs::current_path(before);
}

}  // namespace
}  // namespace slip
