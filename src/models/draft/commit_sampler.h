// SPDX-License-Identifier: Apache-2.0
// A commit sampler's folder and its forward pass [NLD, App. A; docs/notes/speculation.md#commit-sampler]. The paper gives 4 layers,
// width 384, 144 inputs, 4.8 M parameters and a sigmoid per place, and neither weights nor the split of the inputs; what it leaves
// open is decided here and stated in the folder.
//
//   input   = [C (e(top_1) - m), C (e(top_2) - m), C (e(top_3) - m), statistics]     3 x token_width + statistics = 144
//             e: row of the target's embedding; C, m: principal components and mean, fitted offline
//   x       = W_in input + b_in + position of the place in the block (learned)
//   layers:   x += o(attention(norm1(x)));  x += ffn_down(gelu(ffn_up(norm2(x))))    LayerNorm, biases, all places see all
//   p       = sigmoid(head(norm(x)))
//
// config.json: {"model_type": "commit_sampler", "hidden_size": 384, "num_hidden_layers": 4, "num_attention_heads": 6,
//   "intermediate_size": 768, "max_block": 32, "layer_norm_eps": 1e-5, "token_width": 44, "statistics": [names],
//   "target_hidden_size": D of the target, "target_vocab_size": V, "threshold": 0.5}; the numbers shown are the defaults.
// model.safetensors: pca.mean [D], pca.components [token_width, D], input.{weight, bias}, positions.weight [max_block, hidden],
//   layers.<i>.{norm1, norm2, q_proj, k_proj, v_proj, o_proj, ffn_up, ffn_down}.{weight, bias}, norm.{weight, bias},
//   head.{weight [1, hidden], bias [1]}. Weights are kept in f32: 19 MB.
#pragma once
#include <filesystem>
#include <memory>
#include <string_view>
#include <vector>

#include "kernels/kernels.h"
#include "lm/commit_sampler.h"
#include "models/model.h"
#include "nn/buffer.h"

namespace slip {

/// What a place's input can hold beside its tokens; names in config.json in this order.
enum class CommitStatistic : uint8_t {
  kP1,  // "p1", "p2", "p3": probabilities of the three likeliest tokens
  kP2,
  kP3,
  kMargin,       // "margin": p1 - p2
  kTop3Mass,     // "top3_mass": p1 + p2 + p3
  kEntropy,      // "entropy": nats
  kLogP1,        // "log_p1": ln max(p1, 1e-6)
  kLogRatio,     // "log_ratio": ln max(p1, 1e-6) - ln max(p2, 1e-6)
  kMasked,       // "masked": 1, or 0 for a committed place
  kPlace,        // "place": index in the block / max_block
  kMaskedShare,  // "masked_share": share of the block's places that are masked
  kLeftMasked,   // "left_masked": share of the places before it that are masked; 0 for the first
};
inline constexpr int kCommitStatistics = 12;

/// A block's statistics, J x statistics.size(); the trainer's inputs are these.
void commit_statistics(std::span<const CommitPlace> block, std::span<const CommitStatistic> statistics, int32_t max_block,
                       std::vector<float>& out_JS);

struct CommitSamplerOptions {
  int32_t width = 384, layers = 4, heads = 6, mlp_width = 768, max_block = 32;
  float norm_eps = 1e-5F;
  int32_t token_width = 44;
  std::vector<CommitStatistic> statistics;  // default: all
  int32_t target_width = 0, target_vocab = 0;
  float threshold = .5F;
  int32_t inputs() const { return 3 * token_width + static_cast<int32_t>(statistics.size()); }
};

struct CommitSamplerWeights {
  struct Layer {
    std::vector<float> norm1_D, norm1_bias_D, norm2_D, norm2_bias_D;
    PackedMatrix qkv, o, up, down;
    std::vector<float> qkv_bias, o_bias, up_bias, down_bias;
  };
  std::vector<float> pca_mean, positions_JD, norm_D, norm_bias_D;
  PackedMatrix pca, input, head;
  std::vector<float> input_bias, head_bias;
  std::vector<Layer> layers;
};

class LearnedCommitSampler final : public CommitSampler {
 public:
  LearnedCommitSampler(std::string name, CommitSamplerOptions options, CommitSamplerWeights weights,
                       std::shared_ptr<const PackedMatrix> embedding, ThreadPool& pool);
  const CommitSamplerInfo& info() const override { return info_; }
  Status probabilities(std::span<const CommitPlace> block, std::vector<float>& probability_J) override;
  const CommitSamplerOptions& options() const { return options_; }

 private:
  Status check(std::span<const CommitPlace> block) const;
  void fill_inputs(std::span<const CommitPlace> block);
  void attention_block(const CommitSamplerWeights::Layer& layer);
  void mlp_block(const CommitSamplerWeights::Layer& layer);

  CommitSamplerOptions options_;
  CommitSamplerWeights weights_;
  std::shared_ptr<const PackedMatrix> embedding_;
  ThreadPool& pool_;
  CommitSamplerInfo info_;
  Workspace workspace_;
  int64_t rows_ = 0;
  FloatBuffer tokens_, low_, inputs_, x_, normed_, qkv_, q_, k_, v_, attended_, update_, hidden_;
  std::vector<float> statistics_JS_;
  std::vector<RowSpans> row_spans_;
};

/// The target's embedding is borrowed. kBadInput naming both where folder and target do not belong together.
Result<std::unique_ptr<LearnedCommitSampler>> load_commit_sampler(const std::filesystem::path& folder, Model& target);

/// Names of config.json's statistics.
std::string_view name_of(CommitStatistic s);

}  // namespace slip
