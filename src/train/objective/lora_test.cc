// SPDX-License-Identifier: Apache-2.0
// The draft adapter under training: the stored step (tests/fixtures/train, lora.json), what passes without it owe it (nothing),
// examples from the deployed loop, and a run that raises acceptance.
#include <gtest/gtest.h>
#include <unistd.h>

#include <cmath>

#include "base/file.h"
#include "base/folder_testing.h"
#include "base/must_testing.h"
#include "base/philox.h"
#include "core/safetensors.h"
#include "train/loop/checkpoint.h"
#include "train/loop/learners/lora_example.h"
#include "train/loop/loss_log.h"
#include "train/loop/optimizer.h"
#include "train/loop/trainer.h"
#include "train/model/forward_rows.h"

namespace slip {
namespace {

namespace fs = std::filesystem;
const fs::path kFixtures = fs::path(SLIP_FIXTURES) / "train";

DraftRule rule_of(bool shift) { return {.shift = shift, .has_mask = true, .mask = TokenId{1}}; }

/// Rows in slots equal to their positions; `sees`: one end for all rows, or 0 for causal rows.
struct RowList {
  std::vector<Row> rows;
  std::vector<SlotSpan> spans;
  void add(std::span<const int32_t> ids, int32_t first, int32_t sees_end, Want want) {
    for (size_t i = 0; i < ids.size(); ++i) {
      const int32_t slot = first + static_cast<int32_t>(i);
      spans.push_back({0, sees_end > 0 ? sees_end : slot + 1});
      rows.push_back({TokenId{ids[i]}, Position::text(slot), slot, static_cast<uint32_t>(spans.size() - 1), 1, want});
    }
  }
  PassOutput run(LoraLm& lm, bool adapter) {
    PassOutput out;
    const Status done = lm.forward({.rows = rows, .spans = spans, .draft_adapter = adapter}, out);
    EXPECT_TRUE(done) << done.error().message;
    return out;
  }
};

std::vector<int32_t> ids_of(const json::value& v) {
  std::vector<int32_t> out;
  for (const auto& x : v.as_array()) out.push_back(static_cast<int32_t>(x.as_int64()));
  return out;
}

double difference(std::span<const double> a, std::span<const double> b) {
  double d = 0;
  for (size_t i = 0; i < a.size(); ++i) d = std::max(d, std::abs(a[i] - b[i]));
  return d;
}

std::vector<double> stored_numbers(const Checkpoint& c, const std::string& name) {
  const TensorView* t = c.find(name);
  std::vector<double> out(static_cast<size_t>(t->elements()));
  std::memcpy(out.data(), t->bytes.data(), t->bytes.size());
  return out;
}

/// One stored block: both passes, their logits against the stored ones, loss and gradient of the active set.
double teach_block(LoraLm& lm, LkLoss& lk, const json::object& block, const json::object& detail, double blocks,
                   const Checkpoint& stored, size_t number) {
  const std::vector<int32_t> context = ids_of(block.at("context")), drafts = ids_of(block.at("drafts"));
  const auto n = static_cast<int32_t>(context.size()), width = static_cast<int32_t>(drafts.size());
  RowList prompt, draft, verify;
  prompt.add(context, 0, 0, Want::kNothing);
  prompt.run(lm, false);
  std::vector<int32_t> masked(static_cast<size_t>(width) + 1, 1), known(masked);
  masked[0] = known[0] = static_cast<int32_t>(block.at("anchor").as_int64());
  std::copy(drafts.begin(), drafts.end(), known.begin() + 1);
  draft.add(masked, n, n + width + 1, Want::kArgmax);
  draft.run(lm, true);
  verify.add(known, n, 0, Want::kArgmax);
  verify.run(lm, false);
  const std::vector<double> z_draft = stored_numbers(stored, fmt::format("draft_logits.{}", number)),
                            z_verify = stored_numbers(stored, fmt::format("verify_logits.{}", number));
  const auto V = static_cast<size_t>(lm.info().vocab);
  const auto active = detail.at("active").as_int64();
  double loss = 0;
  for (int32_t i = 0; i < width; ++i) {
    const auto d = lm.logits<double>(true, n + 1 + i), v = lm.logits<double>(false, n + i);
    EXPECT_LE(difference(d, std::span(z_draft).subspan(static_cast<size_t>(i) * V, V)), 1e-10);
    EXPECT_LE(difference(v, std::span(z_verify).subspan(static_cast<size_t>(i) * V, V)), 1e-10);
    if (i >= active) continue;
    const double scale = 1 / (blocks * static_cast<double>(active));
    const LkPosition p = lk.position<double>(d, v, {}, scale, lm.logits_gradient<double>(n + 1 + i));
    EXPECT_EQ(p.target, detail.at("target").as_array()[static_cast<size_t>(i)].as_int64());
    loss += scale * (p.lk + p.ce);
  }
  lm.backward();
  return loss;
}

TEST(Lora, TheStoredStepInDouble) {
  const json::object f = must(read_json(kFixtures / "lora.json")).as_object();
  const auto number = [&](const char* key) { return f.at(key).to_number<double>(); };
  const TrainModel base = must(load_model(kFixtures / "models/lora_base", Precision::kF64));
  const LoraRule rule{.rank = static_cast<int32_t>(number("rank")), .alpha = number("alpha")};
  ASSERT_EQ(rule.scale(), number("scale"));
  LoraLm lm(base, rule, rule_of(false));
  lm.reserve(64);
  const ParameterTable& table = lm.table().table;
  const Checkpoint adapter = must(Checkpoint::open_file(kFixtures / "adapter/adapter_model.safetensors"));
  ASSERT_TRUE(load_weights(adapter, table, lm.values<double>()));
  const Checkpoint stored = must(Checkpoint::open_file(kFixtures / "lora.safetensors"));
  LkLoss lk({.tau = number("tau"), .eta = number("eta"), .top = static_cast<int32_t>(number("top"))});
  const json::array &blocks = f.at("blocks").as_array(), &details = f.at("blocks_detail").as_array();
  double loss = 0;
  for (size_t b = 0; b < blocks.size(); ++b)
    loss += teach_block(lm, lk, blocks[b].as_object(), details[b].as_object(), static_cast<double>(blocks.size()), stored, b);
  EXPECT_NEAR(loss, number("loss"), 1e-10 * loss);
  EXPECT_NEAR(gradient_norm<double>(lm.gradients<double>()), number("grad_norm"), 1e-9 * number("grad_norm"));
  std::vector<double> gradients(static_cast<size_t>(table.size)), after = gradients;
  ASSERT_TRUE(load_weights<double>(stored, table, gradients, "grad."));
  ASSERT_TRUE(load_weights<double>(stored, table, after, "after."));
  double largest = 0;
  for (const double g : gradients) largest = std::max(largest, std::abs(g));
  EXPECT_LE(difference(lm.gradients<double>(), gradients), 1e-9 * largest);
  const json::object& o = f.at("adamw").as_object();
  AdamW<double> adam(table, {o.at("betas").as_array()[0].to_number<double>(), o.at("betas").as_array()[1].to_number<double>(),
                             o.at("eps").to_number<double>(), o.at("weight_decay").to_number<double>(), true});
  adam.step(lm.values<double>(), lm.gradients<double>(), 1, o.at("lr").to_number<double>(), 1);
  EXPECT_LE(difference(lm.values<double>(), after), 1e-9);
}

void expect_off_path_untouched(Precision precision) {
  TrainModel base = must(load_model(kFixtures / "models/lora_base", precision));
  const std::vector<float> before(base.values<float>().begin(), base.values<float>().end());
  LoraLm lm(base, {.rank = 4}, rule_of(false));
  lm.reserve(32);
  const std::vector<int32_t> ids{30, 4, 10, 14, 48, 28, 41, 38}, masks{7, 1, 1, 1};
  RowList whole, draft;
  whole.add(ids, 0, 0, Want::kLogits);
  draft.add(masks, 8, 12, Want::kLogits);
  const std::vector<float> first = whole.run(lm, false).logits_NV, plain_draft = draft.run(lm, true).logits_NV;
  random_weights(lm.table().table, 3, 1.0, lm.values<float>());
  for (float& x : lm.values<float>()) x += 0.05F;  // B too
  EXPECT_NE(draft.run(lm, true).logits_NV, plain_draft) << "the adapter must be able to say something";
  lm.logits_gradient<float>(10)[5] = 1;
  lm.backward();
  EXPECT_GT(gradient_norm<float>(lm.gradients<float>()), 0);
  // After drafts, gradients and another adapter: the same bits, and those of the model without any of it.
  EXPECT_EQ(whole.run(lm, false).logits_NV, first);
  SequenceRows rows;
  rows.tokens = ids;
  rows.feature.assign(ids.size(), -1);
  for (int32_t i = 0; i < 8; ++i) {
    rows.positions.push_back(Position::text(i));
    rows.sees.push_back(causal_row(i));
    rows.wanted.push_back(i);
  }
  RowBatch batch;
  append_sequence(batch, rows, {}, VisionShape{}, false);
  EXPECT_EQ(base.logits(batch), first);
  EXPECT_TRUE(std::equal(before.begin(), before.end(), base.values<float>().begin()));
}

TEST(Lora, PassesWithoutItAreTheFrozenModelsBitForBitInFloat) { expect_off_path_untouched(Precision::kF32); }
TEST(Lora, PassesWithoutItAreTheFrozenModelsBitForBitInBfloat16) { expect_off_path_untouched(Precision::kBF16); }

/// A tiny model with images, taught for a moment: it drafts, but not well.
json::object base_config(const fs::path& out) {
  const json::object model =
      parse_json(R"({"model_type": "qwen2_5_vl", "tie_word_embeddings": true, "mask_token_id": 1, "image_token_id": 4,
    "diffusion_shift": 1,
    "text_config": {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 2,
      "intermediate_size": 48,
      "vocab_size": 24, "rope_theta": 10000, "rope_scaling": {"mrope_section": [2, 1, 1]}},
    "vision_config": {"depth": 1, "hidden_size": 16, "num_heads": 2, "intermediate_size": 24, "out_hidden_size": 32,
      "patch_size": 4,
      "window_size": 16, "fullatt_block_indexes": [0], "in_chans": 3}})",
                 "model")
          ->as_object();
  return {{"model", model},
          {"data",
           {{"kind", "toy"},
            {"vocab", 24},
            {"prompt", 6},
            {"fields", 2},
            {"values", 3},
            {"size", 8},
            {"images", 1},
            {"grid_h", 4},
            {"grid_w", 6},
            {"patch_numbers", 96}}},
          {"steps", 40},
          {"batch", 8},
          {"out", out.string()},
          {"threads", 1},
          {"seed", 5},
          {"optimizer", {{"lr", 5e-3}, {"weight_decay", 0.0}}}};
}

json::object lora_config(const fs::path& base, const fs::path& out, int64_t steps) {
  json::object c = base_config(out);
  c["init"] = base.string();
  c["objective"] = {{"kind", "lora"}, {"rank", 4}, {"alpha", 8}, {"width", 6}};
  c["steps"] = steps, c["batch"] = 4, c["ema_decay"] = 0.9;
  c["optimizer"] = {{"lr", 2e-2}, {"weight_decay", 0.0}};
  return c;
}

TrainReport run(const json::object& config, const RunOptions& options = {.quiet = true}) {
  const TrainConfig c = must(TrainConfig::parse(config, "test"));
  const auto source = must(make_source(c.data, c.tokenizer));
  return must(train(c, *source, options));
}

/// The base model of these tests, trained once.
const fs::path& base_model() {
  static const test::TemporaryFolder folder;
  static const fs::path checkpoint = run(base_config(folder.path)).checkpoint;
  return checkpoint;
}

double mean_acceptance(std::span<const LossPoint> points) {
  double sum = 0;
  for (const LossPoint& p : points) sum += p.acceptance;
  return sum / static_cast<double>(points.size());
}

TEST(Lora, TrainingRaisesAcceptance) {
  const test::TemporaryFolder out;
  run(lora_config(base_model(), out.path, 60));
  const auto log = must(read_loss_log(out.path / "loss.jsonl"));
  const double before = mean_acceptance(std::span(log).first(8)), after = mean_acceptance(std::span(log).last(8));
  EXPECT_GT(after, before + 0.1) << before;
  EXPECT_LT(log.back().ar, log.front().ar);
}

TEST(Lora, ValidationIsTheDeployedLoopHoweverDraftsAreDrawnInTraining) {
  const test::TemporaryFolder greedy, drawn;
  std::vector<double> scores;
  for (const auto& [out, sampled] : {std::pair{&greedy, 0}, std::pair{&drawn, 1}}) {
    json::object c = lora_config(base_model(), out->path, 1);
    c["objective"].as_object()["sampled"] = sampled;
    c["optimizer"].as_object()["lr"] = 0.0;
    c["data"].as_object().erase("size");
    c["validation"] = {{"every", 1}, {"samples", 16}, {"first_sample", 100}};
    run(c);
    scores.push_back(must(read_loss_log(out->path / "loss.jsonl")).back().validation.value_or(-1));
  }
  EXPECT_GE(scores[0], 0);
  EXPECT_EQ(scores[0], scores[1]);
}

TEST(Lora, StoppingAndResumingGivesTheSameBytesAtAnyNumberOfThreads) {
  const test::TemporaryFolder whole, halves;
  const fs::path& model = base_model();
  json::object a = lora_config(model, whole.path, 4), b = lora_config(model, halves.path, 4);
  a["threads"] = 1, b["threads"] = 3;
  run(a);
  EXPECT_EQ(run(b, {.stop_after = 2, .quiet = true}).steps, 2);
  run(b, {.resume = must(newest_checkpoint(halves.path)), .quiet = true});
  for (const char* file :
       {"linear_spec_lora/adapter_model.safetensors", "linear_spec_lora/adapter_config.json", "trainer.safetensors"})
    EXPECT_EQ(must(read_file(whole.path / "step-4" / file)), must(read_file(halves.path / "step-4" / file))) << file;
  EXPECT_FALSE(fs::exists(whole.path / "step-4" / "model.safetensors")) << "the base is not copied";
}

TEST(Lora, AnExampleIsTheDeployedLoop) {
  const test::TemporaryFolder folder;
  const fs::path& model = base_model();
  const TrainConfig c = must(TrainConfig::parse(lora_config(model, folder.path, 1), "test"));
  const auto source = must(make_source(c.data, ""));
  const TrainModel base = must(load_model(model, Precision::kF32));
  LoraRule rule{.rank = 4, .alpha = 8, .by_blocks = false, .width = 6};
  LoraLm lm(base, rule, rule_of(true));
  int64_t rejected = 0;
  for (int64_t i = 0; i < 6; ++i) {
    const Sample s = must(source->get(i));
    const RowBatch prompt = prompt_batch(s, c.shape.vision_rows());
    const LoraTask task = must(lora_task(s));
    std::fill(lm.values<float>().begin(), lm.values<float>().end(), 0.0F);
    LoraExample example(lm, rule);
    const LoraSums plain = must(example.measure(prompt, task, false)), zero = must(example.measure(prompt, task, true));
    const std::vector<TokenId> answer(example.tokens().begin(), example.tokens().end());
    EXPECT_EQ(plain.accepted, zero.accepted) << "an adapter of zeros drafts what the model drafts";
    EXPECT_EQ(plain.tested, zero.tested);
    // Any adapter: another acceptance perhaps, the same answer, and every tested draft is a position of the loss.
    random_weights(lm.table().table, 9, 1.0, lm.values<float>());
    for (float& x : lm.values<float>()) x += 0.2F;
    lm.clear_gradients();
    const LoraSums taught = must(example.run(prompt, task));
    EXPECT_EQ(std::vector<TokenId>(example.tokens().begin(), example.tokens().end()), answer);
    EXPECT_EQ(taught.positions, taught.tested);
    EXPECT_EQ(taught.agreed, taught.accepted) << "the loss reads the rows that drafted and verified";
    EXPECT_GT(taught.blocks, 0);
    EXPECT_GT(gradient_norm<float>(lm.gradients<float>()), 0);
    rejected += taught.tested - taught.accepted;
  }
  EXPECT_GT(rejected, 0);
}

TEST(Lora, WhatItCannotTeachIsRefused) {
  const test::TemporaryFolder out;
  json::object c = base_config(out.path);
  c["objective"] = {{"kind", "lora"}};
  EXPECT_NE(TrainConfig::parse(c, "test").error().message.find("expected \"init\""), std::string::npos);
  c["init"] = "somewhere";
  c["objective"] = {{"kind", "lora"}, {"mean", "median"}};
  EXPECT_NE(TrainConfig::parse(c, "test").error().message.find("\"median\""), std::string::npos);
  c["objective"] = {{"kind", "lora"}, {"rank", 0}};
  EXPECT_NE(TrainConfig::parse(c, "test").error().message.find("rank: expected at least 1, got 0"), std::string::npos);
  c["objective"] = {{"kind", "lora"}};
  c["model"].as_object()["context_mask"] = "block_causal";
  EXPECT_NE(TrainConfig::parse(c, "test").error().message.find("context_mask causal"), std::string::npos);
}

}  // namespace
}  // namespace slip
