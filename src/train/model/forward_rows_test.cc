// SPDX-License-Identifier: Apache-2.0
// The trainer's forward pass against stored logits of a Qwen2.5-VL with images.
#include "train/model/forward_rows.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "base/file.h"
#include "base/must_testing.h"
#include "core/safetensors.h"

namespace slip {
namespace {

namespace fs = std::filesystem;

class QwenVl : public testing::TestWithParam<const char*> {};

TEST_P(QwenVl, LogitsMatchTheStoredOnes) {
  const fs::path folder = fs::path(SLIP_FIXTURES) / "models" / "qwen2_5_vl";
  const std::string name = GetParam();
  TrainModel model = must(load_model(folder, Precision::kF32));
  const json::value rows = must(read_json(folder / ("rows_" + name + ".json")));
  const RowBatch batch = must(rows_from_json(rows.as_object(), model.shape(), folder / "expected_images.safetensors", name));
  const std::vector<float> logits = model.logits(batch);
  const Checkpoint expected = must(Checkpoint::open_file(folder / ("expected_" + name + ".safetensors")));
  const std::vector<float> ref = read_as_f32(*must(expected.get("logits_TV")));
  ASSERT_EQ(logits.size(), ref.size());
  double worst = 0;
  for (size_t i = 0; i < ref.size(); ++i)
    worst = std::max(worst, std::abs(static_cast<double>(logits[i]) - ref[i]) / (1 + std::abs(ref[i])));
  EXPECT_LE(worst, 2e-5);
}
INSTANTIATE_TEST_SUITE_P(Rows, QwenVl, testing::Values("causal", "block", "draft_verify", "packed", "field_graph", "forked"));

}  // namespace
}  // namespace slip
