// SPDX-License-Identifier: Apache-2.0
// The ego history as one embedding: an MLP over the past states, a row in front of the text [FastDriveCoT; models/config/dino_qwen.h].
#pragma once
#include <span>
#include <vector>

#include "base/result.h"
#include "models/config/config.h"
#include "models/weights/weight_reader.h"

namespace slip {

/// The history's MLP; f32 whatever the model's type, as in the paper.
struct HistoryWeights {
  PackedMatrix fc1, fc2;
  std::vector<float> fc1_bias, fc2_bias;
};
HistoryWeights read_history_weights(WeightReader& reader, const HistoryConfig& config, int32_t width);

class HistoryEncoder {
 public:
  HistoryEncoder(HistoryConfig config, HistoryWeights weights, ThreadPool& pool)
      : config_(config), weights_(std::move(weights)), pool_(pool) {}
  const HistoryConfig& config() const { return config_; }
  /// Appends one row of the decoder's width. kBadInput unless there are config().numbers() finite numbers: states oldest first, of
  /// each x, y, vx, vy, ax, ay.
  Status encode(std::span<const float> numbers, std::vector<float>& features_ND);

 private:
  HistoryConfig config_;
  HistoryWeights weights_;
  ThreadPool& pool_;
  Workspace workspace_;
};

}  // namespace slip
