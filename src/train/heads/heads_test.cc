// SPDX-License-Identifier: Apache-2.0
// Losses, gradients and outputs of the heads' networks in double against stored ones, computed by another program (tests/fixtures/heads).
#include <gtest/gtest.h>

#include <cmath>
#include <string>

#include "train/heads/commit_network.h"
#include "train/heads/dflash_network.h"
#include "train/heads/flow_network.h"
#include "train/heads/pilot_network.h"
#include "train/model/weights.h"
#include "train/objective/stored_testing.h"

namespace slip {
namespace {

std::vector<float> floats(const Checkpoint& c, const std::string& name) { return read_as_f32(*c.find(name)); }
Constant constant(const Checkpoint& c, const std::string& name) { return {read_as_f32(*c.find(name)), c.find(name)->shape}; }

void load(HeadNetwork& network, const std::string& file) {
  const Status s = load_weights<double>(stored_tensors(file), network.table(), network.values<double>());
  ASSERT_TRUE(s) << s.error().message;
}

void expect_near(std::span<const double> got, std::span<const double> expected, double relative, const std::string& what) {
  ASSERT_EQ(got.size(), expected.size()) << what;
  double most = 0, off = 0;
  for (size_t i = 0; i < got.size(); ++i) {
    most = std::max(most, std::abs(expected[i]));
    off = std::max(off, std::abs(got[i] - expected[i]));
  }
  EXPECT_LE(off, relative * most) << what;
}

void expect_gradients(HeadNetwork& network, const Checkpoint& truth, const std::string& prefix, double relative = 1e-9) {
  std::vector<double> expected(network.gradients<double>().size(), 0);
  const Status s = load_weights<double>(truth, network.table(), expected, prefix);
  ASSERT_TRUE(s) << s.error().message;
  expect_near(network.gradients<double>(), expected, relative, prefix);
}

Qwen3Shape layers_of(const json::object& c) {
  const auto n = [&](const char* key) { return static_cast<int32_t>(c.at(key).as_int64()); };
  return {n("num_hidden_layers"), n("hidden_size"),       n("num_attention_heads"),     n("num_key_value_heads"),
          n("head_dim"),          n("intermediate_size"), number(c.at("rms_norm_eps")), number(c.at("rope_theta"))};
}

// ---- DFlash

class DFlashTraining : public testing::TestWithParam<const char*> {};

DFlashSequence sequence_of(const json::object& o, const Checkpoint& inputs, size_t s) {
  return {.tokens = numbers<int32_t>(o.at("tokens")),
          .positions = numbers<int32_t>(o.at("positions")),
          .taps = floats(inputs, "taps." + std::to_string(s)),
          .context = numbers<uint8_t>(o.at("context")),
          .loss_mask = numbers<uint8_t>(o.at("loss_mask")),
          .anchors = numbers<int32_t>(o.at("anchors"))};
}

TEST_P(DFlashTraining, MaskSlotsLossAndGradientsAreTheStoredOnes) {
  const std::string base = "dflash_train/" + std::string(GetParam()) + "/";
  const json::object c = stored_json(base + "case.json");
  DFlashShape shape{.layers = layers_of(stored_json(base + "head/config.json")),
                    .block = static_cast<int32_t>(c.at("block_size").as_int64()),
                    .taps = static_cast<int32_t>(c.at("tap_layers").as_array().size()),
                    .mask_token = static_cast<int32_t>(c.at("mask_token").as_int64()),
                    .gamma = number(c.at("gamma"))};
  if (!c.at("draft_vocab").is_null()) shape.draft_vocab = numbers<int32_t>(c.at("draft_vocab"));
  const Checkpoint target = stored_tensors("dflash_train/target/model.safetensors"),
                   inputs = stored_tensors(base + "inputs.safetensors"), truth = stored_tensors(base + "f64.safetensors");
  DFlashNetwork network(shape, constant(target, "model.embed_tokens.weight"), constant(target, "lm_head.weight"), Precision::kF64);
  load(network, base + "head/model.safetensors");
  std::vector<DFlashSequence> all;
  double weight = 0, sum = 0;
  for (const auto& v : c.at("samples").as_array()) {
    all.push_back(sequence_of(v.as_object(), inputs, all.size()));
    const auto slots = dflash_slots(all.back(), shape);
    for (const DFlashSlot& slot : slots) weight += slot.weight;
    EXPECT_EQ(slots.size(), c.at("per_sequence").as_array()[all.size() - 1].as_object().at("slots").as_array().size());
  }
  std::string seen;
  for (const uint8_t m : dflash_mask(all[0], shape.block)) seen += m != 0 ? '1' : '0';
  std::string stored;
  for (const auto& line : c.at("mask").as_array()) stored += line.as_string().c_str();
  EXPECT_EQ(seen, stored);
  for (const DFlashSequence& s : all) sum += network.loss(s, dflash_slots(s, shape), 1 / weight);
  EXPECT_NEAR(sum / weight, number(c.at("loss")), 1e-10 * number(c.at("loss")));
  expect_gradients(network, truth, "grad.");
  for (size_t s = 0; s < all.size(); ++s)
    expect_near(network.logits(all[s]), doubles(truth, "logits." + std::to_string(s)), 1e-10, "logits");
}
INSTANTIATE_TEST_SUITE_P(Heads, DFlashTraining, testing::Values("b4", "b8", "b8_short", "b4_images"),
                         [](const auto& i) { return std::string(i.param); });

TEST(DFlashAnchors, AreAnswersTokensWithAWholeBlockBehindThem) {
  std::vector<uint8_t> mask(40, 0);
  for (size_t i = 10; i < 38; ++i) mask[i] = i != 20;
  for (uint64_t seed = 0; seed < 20; ++seed) {
    PhiloxStream stream(seed, 1);
    const auto anchors = draw_anchors(mask, 8, 12, stream);
    EXPECT_EQ(anchors.size(), 12U);
    for (size_t i = 0; i < anchors.size(); ++i) {
      EXPECT_TRUE(mask[static_cast<size_t>(anchors[i])] != 0 && anchors[i] <= 32);
      EXPECT_TRUE(i == 0 || anchors[i - 1] < anchors[i]);
    }
    EXPECT_EQ(draw_anchors(mask, 8, 512, stream).size(), 22U);
    EXPECT_TRUE(draw_anchors(mask, 31, 5, stream).empty());
  }
}

// A form's fixed tokens stand in a block as they are: no labels, and the weights count masks alone.
TEST(DFlashSlots, FixedTokensAreGivenAndNotLearned) {
  DFlashSequence s{.tokens = {1, 2, 3, 4, 5, 6, 7, 8}, .loss_mask = std::vector<uint8_t>(8, 1), .anchors = {1}};
  const DFlashShape shape{.block = 6, .gamma = 2};
  const auto places = [&] {
    std::vector<int32_t> out;
    for (const DFlashSlot& slot : dflash_slots(s, shape)) out.push_back(slot.token);
    return out;
  };
  EXPECT_EQ(places(), (std::vector<int32_t>{2, 3, 4, 5, 6}));
  EXPECT_NEAR(dflash_slots(s, shape)[3].weight, std::exp(-1.5), 1e-15);
  s.fixed = {0, 1, 1, 0, 1, 0, 0, 0};  // a fixed anchor is known like any other
  EXPECT_EQ(places(), (std::vector<int32_t>{3, 5, 6}));
  EXPECT_EQ(dflash_slots(s, shape)[0].weight, 1);
  EXPECT_NEAR(dflash_slots(s, shape)[2].weight, std::exp(-1.0), 1e-15);
}

// What a block holds at a fixed place changes what its masks say: the network sees the token and not a mask.
TEST(DFlashSlots, TheNetworkSeesFixedTokens) {
  DFlashShape shape{.layers = {1, 8, 2, 1, 4, 12, 1e-6, 1e4}, .block = 4, .taps = 1, .mask_token = 9};
  Constant embedding{std::vector<float>(80), {10, 8}};
  PhiloxStream draw(5, 5);
  for (float& x : embedding.numbers) x = static_cast<float>(draw.uniform(-1, 1));
  DFlashNetwork network(shape, embedding, embedding, Precision::kF64);
  for (double& x : network.values<double>()) x = draw.uniform(-1, 1);
  DFlashSequence s{.tokens = {1, 2, 3, 4, 5},
                   .positions = {0, 1, 2, 3, 4},
                   .taps = std::vector<float>(40, 0.5F),
                   .context = std::vector<uint8_t>(5, 1),
                   .loss_mask = std::vector<uint8_t>(5, 1),
                   .anchors = {1}};
  const auto masked = network.logits(s);
  s.fixed = {0, 0, 1, 0, 0};
  const auto given = network.logits(s);
  s.tokens[2] = shape.mask_token;
  EXPECT_EQ(network.logits(s), masked) << "a mask given is a mask";
  EXPECT_NE(given, masked);
}

// ---- flow

TEST(FlowHead, LossGradientsAndStepsAreTheStoredOnes) {
  const json::object c = stored_json("flow_head/case.json"), e = stored_json("flow_head/expert/config.json");
  const auto n = [&](const char* key) { return static_cast<int32_t>(e.at(key).as_int64()); };
  const FlowShape shape{.layers = layers_of(e),
                        .rows = n("rows"),
                        .action = n("action_width"),
                        .encoder = n("encoder_width"),
                        .features = n("fourier_features"),
                        .max_frequency = number(e.at("max_frequency")),
                        .steps = n("euler_steps")};
  const auto stored = numbers<double>(c.at("frequencies"));
  expect_near(flow_frequencies(shape), stored, 1e-14, "frequencies");
  const Checkpoint inputs = stored_tensors("flow_head/inputs.safetensors"), truth = stored_tensors("flow_head/f64.safetensors");
  FlowNetwork network(shape, Precision::kF64);
  load(network, "flow_head/expert/model.safetensors");
  const auto& samples = c.at("samples").as_array();
  double loss = 0;
  std::vector<FlowPrefix> prefixes;
  for (size_t s = 0; s < samples.size(); ++s) {
    const json::object& o = samples[s].as_object();
    const std::string k = std::to_string(s);
    prefixes.push_back({floats(inputs, "keys." + k), floats(inputs, "values." + k), static_cast<int32_t>(o.at("prefix").as_int64()),
                        static_cast<int32_t>(o.at("position").as_int64())});
    const double t = .999 - .999 * number(o.at("beta"));
    EXPECT_NEAR(t, number(o.at("t")), 1e-15);
    const FlowSample sample{prefixes.back(), floats(inputs, "actions." + k), floats(inputs, "noise." + k), t};
    const double one = network.loss(sample, 1.0 / static_cast<double>(samples.size()));
    EXPECT_NEAR(one, number(c.at("loss_of_sample").as_array()[s]), 1e-10 * one);
    loss += one / static_cast<double>(samples.size());
  }
  EXPECT_NEAR(loss, number(c.at("loss")), 1e-10 * loss);
  expect_gradients(network, truth, "grad.");
  for (size_t s = 0; s < prefixes.size(); ++s)
    expect_near(network.sample(prefixes[s], floats(inputs, "start." + std::to_string(s))),
                doubles(truth, "steps." + std::to_string(s)), 1e-10, "steps");
}

// ---- commit sampler

TEST(CommitTraining, LossGradientsOutputsAndAucAreTheStoredOnes) {
  const json::object c = stored_json("commit_sampler_train/case.json"),
                     config = stored_json("commit_sampler_train/sampler/config.json");
  const auto n = [&](const char* key) { return static_cast<int32_t>(config.at(key).as_int64()); };
  const CommitShape shape{.inputs = 144,
                          .hidden = n("hidden_size"),
                          .layers = n("num_hidden_layers"),
                          .heads = n("num_attention_heads"),
                          .ffn = n("intermediate_size"),
                          .max_block = n("max_block"),
                          .eps = number(config.at("layer_norm_eps"))};
  const Checkpoint inputs = stored_tensors("commit_sampler_train/inputs.safetensors"),
                   truth = stored_tensors("commit_sampler_train/f64.safetensors");
  CommitNetwork network(shape, Precision::kF64);
  load(network, "commit_sampler_train/sampler/model.safetensors");
  std::vector<CommitBlock> blocks;
  std::vector<double> expected, scores;
  std::vector<uint8_t> labels;
  for (const auto& v : c.at("blocks").as_array()) {
    const json::object& o = v.as_object();
    CommitBlock b{floats(inputs, "features." + std::to_string(blocks.size())), numbers<uint8_t>(o.at("masked")), {}};
    const auto final = numbers<int32_t>(o.at("final"));
    for (size_t j = 0; j < final.size(); ++j)
      b.label.push_back(b.masked[j] != 0 && o.at("top").as_array()[j].as_array()[0].as_int64() == final[j]);
    for (const double z : numbers<double>(o.at("outputs"))) expected.push_back(z);
    for (const uint8_t y : b.label) labels.push_back(y);
    blocks.push_back(std::move(b));
  }
  const double count = number(c.at("count"));
  std::vector<double> z;
  EXPECT_NEAR(network.loss(blocks, 1 / count, &z) / count, number(c.at("loss")), 1e-10);
  expect_near(z, expected, 1e-10, "outputs");
  expect_gradients(network, truth, "grad.");
  size_t at = 0;
  std::vector<uint8_t> of;
  for (const CommitBlock& b : blocks)
    for (const uint8_t m : b.masked) {
      if (m != 0) scores.push_back(z[at]), of.push_back(labels[at]);
      ++at;
    }
  EXPECT_NEAR(auc_of(scores, of), number(c.at("auc")), 1e-12);
}

TEST(CommitTraining, AucCountsPairsAndHalvesOfTies) {
  EXPECT_DOUBLE_EQ(auc_of(std::vector<double>{1, 2, 3, 4}, std::vector<uint8_t>{0, 0, 1, 1}), 1);
  EXPECT_DOUBLE_EQ(auc_of(std::vector<double>{1, 1}, std::vector<uint8_t>{0, 1}), 0.5);
  EXPECT_DOUBLE_EQ(auc_of(std::vector<double>{1, 2}, std::vector<uint8_t>{1, 1}), 0.5);
}

// ---- BlockPilot

TEST(PilotTraining, LabelsLossesAndGradientsAreTheStoredOnes) {
  const json::object c = stored_json("blockpilot_train/case.json");
  const Checkpoint inputs = stored_tensors("blockpilot_train/inputs.safetensors"),
                   truth = stored_tensors("blockpilot_train/f64.safetensors");
  const std::vector<float> logits = floats(inputs, "logits"), keep_numbers = floats(inputs, "keep");
  const auto blocks = numbers<int32_t>(c.at("blocks"));
  const auto own = static_cast<int32_t>(c.at("own").as_int64());
  for (const int32_t radius : {1, 2, 3}) {
    std::vector<int32_t> got;
    for (const auto& row : c.at("tau").as_array()) {
      const auto tau = numbers<double>(row);
      const auto first = static_cast<size_t>(own - radius - blocks[0]);
      got.push_back(pilot_label(std::span(tau).subspan(first, static_cast<size_t>(2 * radius + 1))));
    }
    EXPECT_EQ(got, numbers<int32_t>(c.at("labels").as_object().at(std::to_string(radius))));
  }
  const auto labels = numbers<int32_t>(c.at("labels").as_object().at("2"));
  const PilotShape shape{.vocab = 48, .width = 20, .depth = 2, .classes = 5, .dropout = number(c.at("dropout"))};
  const std::vector<uint8_t> keep(keep_numbers.begin(), keep_numbers.end());
  for (const auto& [name, v] : c.at("cases").as_object()) {
    const json::object& o = v.as_object();
    const std::string word(o.at("input").as_string());
    const PilotInput input = word == "raw" ? PilotInput::kRaw : word == "softmax" ? PilotInput::kSoftmax : PilotInput::kNormalised;
    const bool exact = input == PilotInput::kRaw;  // the others' inputs are rounded to float here
    std::vector<float> x;
    for (size_t r = 0; r < labels.size(); ++r)
      for (const float f : pilot_input(std::span(logits).subspan(r * 48, 48), input)) x.push_back(f);
    PilotNetwork network(shape, Precision::kF64);
    load(network, "blockpilot_train/pilot/model.safetensors");
    const bool dropout = o.at("dropout").as_bool();
    const double loss = network.loss(x, labels, dropout ? std::span<const uint8_t>(keep) : std::span<const uint8_t>(), 1);
    EXPECT_NEAR(loss, number(o.at("loss")), (exact ? 1e-10 : 1e-6) * loss) << name;
    expect_gradients(network, truth, std::string(name) + ".grad.", exact ? 1e-9 : 2e-6);
  }
}

}  // namespace
}  // namespace slip
