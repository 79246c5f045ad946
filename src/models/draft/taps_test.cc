// SPDX-License-Identifier: Apache-2.0
// Taps: what a draft head gets to read is transformers' hidden state, of every row, and reading it changes nothing.
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>

#include "models/model.h"
#include "models/rows_file.h"

namespace slip {
namespace {

namespace fs = std::filesystem;
const fs::path kModels = fs::path(SLIP_FIXTURES) / "models";

struct Taps : ::testing::Test {
  std::unique_ptr<Model> model = std::move(*load_model(kModels / "qwen3", {WeightType::kF32, 2, 64}));
  RowsFile file = *read_rows_file(kModels / "qwen3/rows_causal.json");
  std::vector<Row> rows;
  std::vector<SlotSpan> spans;
  PassOutput out;

  void SetUp() override {
    for (size_t i = 0; i < file.rows.size(); ++i) {
      const auto n = static_cast<int32_t>(i);
      spans.push_back({0, n + 1});
      rows.push_back({std::get<TokenId>(file.rows[i].input), file.rows[i].position, n, static_cast<uint32_t>(i), 1,
                      i % 3 == 0   ? Want::kNothing
                      : i % 3 == 1 ? Want::kArgmax
                                   : Want::kLogits});
    }
  }
  Status run(size_t first, size_t n) {
    return model->lm().forward({std::span(rows).subspan(first, n), spans, {}, false, true}, out);
  }
};

TEST_F(Taps, AreTheReferencesHiddenStatesOfAllRowsInTheOrderAskedFor) {
  const std::vector<int32_t> layers = {1, 5, 3, 1};  // 5 is the last, where rows that want nothing are dropped without taps
  ASSERT_TRUE(model->lm().set_taps(layers));
  EXPECT_EQ(model->lm().info().tap_layers, layers);
  ASSERT_TRUE(run(0, rows.size()));
  const auto expected = Checkpoint::open_file(kModels / "qwen3/expected_causal.safetensors");
  ASSERT_TRUE(expected);
  const auto width = static_cast<size_t>(model->lm().info().hidden_size);
  ASSERT_EQ(out.taps_NE.size(), rows.size() * layers.size() * width);
  for (size_t i = 0; i < layers.size(); ++i) {
    const std::vector<float> ref = read_as_f32(*expected->find(fmt::format("layer_{}_TD", layers[i])));
    for (size_t t = 0; t < rows.size(); ++t)
      for (size_t d = 0; d < width; ++d)
        ASSERT_NEAR(out.taps_NE[(t * layers.size() + i) * width + d], ref[t * width + d], 2e-5 * (1 + std::abs(ref[t * width + d])))
            << "layer " << layers[i] << " row " << t;
  }
}

TEST_F(Taps, ChangeNoBitAndHaveTheSameBitsAtAnyWidth) {
  const std::vector<int32_t> layers = {0, 5};
  ASSERT_TRUE(model->lm().set_taps(layers));
  ASSERT_TRUE(model->lm().forward({rows, spans}, out));
  EXPECT_TRUE(out.taps_NE.empty());
  const PassOutput plain = out;
  ASSERT_TRUE(run(0, rows.size()));
  EXPECT_EQ(out.argmax, plain.argmax);
  EXPECT_EQ(out.logits_row, plain.logits_row);
  EXPECT_EQ(std::memcmp(out.logits_NV.data(), plain.logits_NV.data(), plain.logits_NV.size() * sizeof(float)), 0);
  const std::vector<float> whole = out.taps_NE;
  std::vector<float> parts;
  for (size_t first = 0; first < rows.size(); first += 7) {
    ASSERT_TRUE(run(first, std::min<size_t>(7, rows.size() - first)));
    parts.insert(parts.end(), out.taps_NE.begin(), out.taps_NE.end());
  }
  ASSERT_EQ(parts.size(), whole.size());
  EXPECT_EQ(std::memcmp(parts.data(), whole.data(), whole.size() * sizeof(float)), 0);
  for (Row& row : rows) row.want = Want::kNothing;
  ASSERT_TRUE(run(0, rows.size()));
  EXPECT_EQ(std::memcmp(out.taps_NE.data(), whole.data(), whole.size() * sizeof(float)), 0) << "rows that want nothing else";
}

TEST_F(Taps, LayersThatDoNotExistAndPassesWithoutAChoiceAreRefused) {
  EXPECT_EQ(run(0, 1).error().kind, ErrorKind::kBadInput);
  for (const int32_t layer : {-1, 6}) {
    const std::vector<int32_t> layers = {0, layer};
    const Status refused = model->lm().set_taps(layers);
    ASSERT_FALSE(refused);
    EXPECT_EQ(refused.error().kind, ErrorKind::kBadInput);
  }
  EXPECT_TRUE(model->lm().info().tap_layers.empty()) << "a refused choice chooses nothing";
}

}  // namespace
}  // namespace slip
