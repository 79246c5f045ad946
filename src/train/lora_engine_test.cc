// SPDX-License-Identifier: Apache-2.0
// An adapter trained is an adapter drafted with: the folder that the trainer writes, read by the engine, gives the trainer's draft
// logits and, over an answer, the same drafts kept.
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <functional>

#include "base/must_testing.h"
#include "base/philox.h"
#include "models/model.h"
#include "train/loop/lora_example.h"
#include "train/model/forward_rows.h"

namespace slip {
namespace {

namespace fs = std::filesystem;
const fs::path kBase = fs::path(SLIP_FIXTURES) / "train/models/lora_base";

/// One object for all tests of this file: the trainer's side with a random adapter, and the engine's with its folder.
class LoraAndEngine : public ::testing::Test {
 protected:
  LoraAndEngine()
      : folder_(fs::temp_directory_path() / ("slip_lora_engine" + std::to_string(::getpid()))),
        base_(must(load_model(kBase, Precision::kF32))),
        lm_(base_, rule_, {.has_mask = true, .mask = TokenId{1}}) {
    random_weights(lm_.table().table, 9, 1.0, lm_.values<float>());
    PhiloxStream draw(4, 2);
    for (const Group& b : lm_.table().b)
      for (int64_t i = 0; i < b.rows * b.columns; ++i)
        lm_.values<float>()[static_cast<size_t>(b.offset + i)] = static_cast<float>(draw.uniform(-0.4, 0.4));
    EXPECT_TRUE(save_lora(folder_, lm_.table().table, lm_.values<float>(), rule_, "lora_base", StoreAs::kF32));
    engine_ = must(load_model(kBase, ModelOptions{.type = WeightType::kF32, .threads = 1, .slots = 128, .draft_adapter = folder_}));
    lm_.reserve(128);
  }
  ~LoraAndEngine() override { fs::remove_all(folder_); }

  static double worst(const PassOutput& a, const PassOutput& b) {
    EXPECT_EQ(a.logits_NV.size(), b.logits_NV.size());
    double d = 0;
    for (size_t i = 0; i < a.logits_NV.size(); ++i) d = std::max(d, static_cast<double>(std::abs(a.logits_NV[i] - b.logits_NV[i])));
    return d;
  }

  /// Of all draws of an answer: by how much the model's largest logit leads.
  double smallest_lead(const Prompt& prompt, std::span<const TokenId> answer) {
    std::vector<Row> rows;
    std::vector<SlotSpan> spans;
    PassOutput out;
    const auto add = [&](RowInput input) {
      const auto i = static_cast<int32_t>(rows.size());
      spans.push_back({0, i + 1});
      rows.push_back({input, Position::text(i), i, static_cast<uint32_t>(i), 1, Want::kLogits});
    };
    for (const RowInput& input : prompt.inputs) add(input);
    for (const TokenId id : answer) add(id);
    EXPECT_TRUE(engine_->lm().forward({.rows = rows, .spans = spans}, out));
    double lead = 1e9;
    for (size_t i = prompt.inputs.size() - 1; i + 1 < rows.size(); ++i) {
      std::vector<float> z(out.logits_V(i).begin(), out.logits_V(i).end());
      std::partial_sort(z.begin(), z.begin() + 2, z.end(), std::greater<>());
      lead = std::min(lead, static_cast<double>(z[0] - z[1]));
    }
    return lead;
  }

  const LoraRule rule_{.rank = 3, .alpha = 6, .width = 5};
  fs::path folder_;
  TrainModel base_;
  LoraLm lm_;
  std::unique_ptr<Model> engine_;
};

TEST_F(LoraAndEngine, GiveTheSameLogitsWithAndWithoutIt) {
  std::vector<Row> rows;
  std::vector<SlotSpan> spans;
  PassOutput trained, served;
  const auto both = [&](bool adapter) {
    ASSERT_TRUE(lm_.forward({.rows = rows, .spans = spans, .draft_adapter = adapter}, trained));
    ASSERT_TRUE(engine_->lm().forward({.rows = rows, .spans = spans, .draft_adapter = adapter}, served));
  };
  for (int32_t i = 0; i < 9; ++i) {
    spans.push_back({0, i + 1});
    rows.push_back({TokenId{30 + i}, Position::text(i), i, static_cast<uint32_t>(i), 1, Want::kLogits});
  }
  both(false);
  EXPECT_LE(worst(trained, served), 1e-4);  // f32: as tests/models/trainer_engine_test.cc
  rows.clear();
  spans = {{0, 14}};
  for (int32_t i = 9; i < 14; ++i) rows.push_back({TokenId{i == 9 ? 12 : 1}, Position::text(i), i, 0, 1, Want::kLogits});
  both(false);
  const std::vector<float> plain = trained.logits_NV;
  both(true);
  EXPECT_LE(worst(trained, served), 1e-4);
  double change = 0;
  for (size_t i = 0; i < plain.size(); ++i)
    change = std::max(change, static_cast<double>(std::abs(plain[i] - trained.logits_NV[i])));
  EXPECT_GT(change, 0.1) << "the adapter says something";
}

TEST_F(LoraAndEngine, DecodeTheSameAnswersWithTheSameDraftsKept) {
  int64_t tested = 0, compared = 0;
  for (int32_t n = 0; n < 8; ++n) {
    RowBatch rows;
    Prompt prompt{.next_position = 6};
    for (int32_t i = 0; i < 6; ++i) {
      rows.tokens.push_back(8 + (7 * n + 5 * i) % 50);
      rows.positions.push_back(Position::text(i));
      prompt.inputs.emplace_back(TokenId{rows.tokens.back()});
    }
    prompt.positions = rows.positions;
    LoraExample example(lm_, rule_);
    const LoraSums taught = must(example.run(rows, {.next_position = 6, .limit = 24}));
    Method method = must(method_of("self-spec"));
    method.drafter = DiffusionSpec{.adapter = true};
    method.draft_length.tokens = rule_.width;
    const Decoded served = must(Decoder(engine_->lm(), method).decode(prompt, nullptr, {.limit = 24}));
    if (smallest_lead(prompt, example.tokens()) < 1e-4) continue;  // two libraries' roundings may choose between two ids there
    ++compared;
    EXPECT_EQ(served.tokens, std::vector<TokenId>(example.tokens().begin(), example.tokens().end())) << n;
    EXPECT_EQ(served.statistics.tested, taught.tested);
    EXPECT_EQ(served.statistics.accepted, taught.accepted);
    EXPECT_EQ(served.statistics.forwards, taught.forwards);
    tested += taught.tested;
  }
  EXPECT_GE(compared, 5);
  EXPECT_GT(tested, 20);
}

}  // namespace
}  // namespace slip
