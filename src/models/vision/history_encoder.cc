// SPDX-License-Identifier: Apache-2.0
// See history_encoder.h.
#include "models/vision/history_encoder.h"

#include <algorithm>
#include <cmath>

namespace slip {

HistoryWeights read_history_weights(WeightReader& reader, const HistoryConfig& config, int32_t width) {
  HistoryWeights w;
  w.fc1 = reader.matrix(WeightType::kF32, {{"history.fc1.weight", {config.hidden, config.numbers()}}});
  w.fc1_bias = reader.vector({{"history.fc1.bias", {config.hidden}}});
  w.fc2 = reader.matrix(WeightType::kF32, {{"history.fc2.weight", {width, config.hidden}}});
  w.fc2_bias = reader.vector({{"history.fc2.bias", {width}}});
  return w;
}

Status HistoryEncoder::encode(std::span<const float> numbers, std::vector<float>& features_ND) {
  if (static_cast<int64_t>(numbers.size()) != config_.numbers() ||
      !std::all_of(numbers.begin(), numbers.end(), [](float x) { return std::isfinite(x); }))
    return bad_input("ego history: expected {} finite numbers ({} states of {}), got {}", config_.numbers(), config_.states,
                     HistoryConfig::kNumbers, numbers.size());
  std::vector<float> scaled(numbers.begin(), numbers.end()), hidden(static_cast<size_t>(config_.hidden));
  for (size_t i = 0; i < scaled.size(); ++i) scaled[i] *= static_cast<float>(config_.scale[i % HistoryConfig::kNumbers]);
  matmul(weights_.fc1, scaled.data(), 1, config_.numbers(), weights_.fc1_bias.data(), hidden.data(), config_.hidden, pool_,
         workspace_);
  gelu(hidden.data(), 1, config_.hidden, false, pool_);
  const size_t first = features_ND.size();
  const int64_t width = weights_.fc2.n();
  features_ND.resize(first + static_cast<size_t>(width));
  matmul(weights_.fc2, hidden.data(), 1, config_.hidden, weights_.fc2_bias.data(), features_ND.data() + first, width, pool_,
         workspace_);
  return {};
}

}  // namespace slip
