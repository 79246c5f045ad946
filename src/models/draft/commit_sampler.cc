// SPDX-License-Identifier: Apache-2.0
// The commit sampler's inputs and forward pass; formulas in commit_sampler.h. f32, and per block: 4.8 M parameters are read in the
// time of one layer of a 3 B target.
#include "models/draft/commit_sampler.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "base/check.h"
#include "nn/buffer.h"

namespace slip {
namespace {

float log_of(float p) { return std::log(std::max(p, 1e-6F)); }

// A committed place is certain of its token.
CommitPlace as_seen(const CommitPlace& place) {
  if (place.masked) return place;
  CommitPlace seen = place;
  seen.probability = {1, 0, 0};
  seen.entropy = 0;
  return seen;
}

struct BlockCounts {
  float place = 0, masked_share = 0, left_masked = 0;
};

float statistic(CommitStatistic s, const CommitPlace& place, const BlockCounts& block) {
  const auto [p1, p2, p3] = place.probability;
  switch (s) {
    case CommitStatistic::kP1:
      return p1;
    case CommitStatistic::kP2:
      return p2;
    case CommitStatistic::kP3:
      return p3;
    case CommitStatistic::kMargin:
      return p1 - p2;
    case CommitStatistic::kTop3Mass:
      return p1 + p2 + p3;
    case CommitStatistic::kEntropy:
      return place.entropy;
    case CommitStatistic::kLogP1:
      return log_of(p1);
    case CommitStatistic::kLogRatio:
      return log_of(p1) - log_of(p2);
    case CommitStatistic::kMasked:
      return place.masked ? 1.F : 0.F;
    case CommitStatistic::kPlace:
      return block.place;
    case CommitStatistic::kMaskedShare:
      return block.masked_share;
    case CommitStatistic::kLeftMasked:
      return block.left_masked;
  }
  SLIP_CHECK(false, "every statistic has its formula");
  return 0;
}

}  // namespace

void commit_statistics(std::span<const CommitPlace> block, std::span<const CommitStatistic> statistics, int32_t max_block,
                       std::vector<float>& out_JS) {
  out_JS.clear();
  const auto masked = std::count_if(block.begin(), block.end(), [](const CommitPlace& p) { return p.masked; });
  BlockCounts counts;
  counts.masked_share = block.empty() ? 0 : static_cast<float>(masked) / static_cast<float>(block.size());
  int32_t left = 0;
  for (size_t j = 0; j < block.size(); ++j) {
    counts.place = static_cast<float>(j) / static_cast<float>(max_block);
    counts.left_masked = j == 0 ? 0 : static_cast<float>(left) / static_cast<float>(j);
    const CommitPlace place = as_seen(block[j]);
    for (const CommitStatistic s : statistics) out_JS.push_back(statistic(s, place, counts));
    left += place.masked;
  }
}

LearnedCommitSampler::LearnedCommitSampler(std::string name, CommitSamplerOptions options, CommitSamplerWeights weights,
                                           std::shared_ptr<const PackedMatrix> embedding, ThreadPool& pool)
    : options_(std::move(options)),
      weights_(std::move(weights)),
      embedding_(std::move(embedding)),
      pool_(pool),
      info_{std::move(name), options_.max_block, options_.target_vocab, options_.threshold} {}

Status LearnedCommitSampler::check(std::span<const CommitPlace> block) const {
  if (static_cast<int64_t>(block.size()) > options_.max_block)
    return bad_input("{}: expected a block of at most {} places, got {}", info_.name, options_.max_block, block.size());
  for (size_t j = 0; j < block.size(); ++j)
    for (const TokenId id : block[j].top)
      if (id.value < 0 || id.value >= info_.vocab)
        return bad_input("{}: place {}: expected ids below {}, got {}", info_.name, j, info_.vocab, id.value);
  return {};
}

Status LearnedCommitSampler::probabilities(std::span<const CommitPlace> block, std::vector<float>& probability_J) {
  SLIP_TRY_(check(block));
  probability_J.assign(block.size(), 0);
  rows_ = static_cast<int64_t>(block.size());
  if (rows_ == 0) return {};
  const int64_t width = options_.width;
  fill_inputs(block);
  float* x_JD = x_.grow(count(rows_, width));
  matmul(weights_.input, inputs_.data(), rows_, options_.inputs(), weights_.input_bias.data(), x_JD, width, pool_, workspace_);
  add(x_JD, weights_.positions_JD.data(), rows_, width, pool_);
  for (const CommitSamplerWeights::Layer& layer : weights_.layers) {
    attention_block(layer);
    mlp_block(layer);
  }
  float* normed_JD = normed_.grow(count(rows_, width));
  layer_norm(x_JD, rows_, width, weights_.norm_D.data(), weights_.norm_bias_D.data(), options_.norm_eps, normed_JD, pool_);
  float* logit_J = update_.grow(count(rows_, width));
  matmul(weights_.head, normed_JD, rows_, width, weights_.head_bias.data(), logit_J, 1, pool_, workspace_);
  for (size_t j = 0; j < block.size(); ++j)
    if (block[j].masked) probability_J[j] = 1 / (1 + std::exp(-logit_J[j]));
  return {};
}

// A committed place has one token: the parts of the second and third are zero.
void LearnedCommitSampler::fill_inputs(std::span<const CommitPlace> block) {
  const int64_t embedded = options_.target_width, k = options_.token_width, inputs = options_.inputs();
  const auto statistics = static_cast<int64_t>(options_.statistics.size());
  float* tokens = tokens_.grow(count(3 * rows_, embedded));
  for (int64_t i = 0; i < 3 * rows_; ++i) {
    const CommitPlace& place = block[static_cast<size_t>(i / 3)];
    embedding_->row(place.top[static_cast<size_t>(i % 3)].value, {tokens + i * embedded, static_cast<size_t>(embedded)});
    for (int64_t d = 0; d < embedded; ++d) tokens[i * embedded + d] -= weights_.pca_mean[static_cast<size_t>(d)];
  }
  float* low = low_.grow(count(3 * rows_, k));
  matmul(weights_.pca, tokens, 3 * rows_, embedded, nullptr, low, k, pool_, workspace_);
  commit_statistics(block, options_.statistics, options_.max_block, statistics_JS_);
  float* in = inputs_.grow(count(rows_, inputs));
  for (int64_t j = 0; j < rows_; ++j) {
    float* to = in + j * inputs;
    std::copy_n(low + 3 * j * k, 3 * k, to);
    if (!block[static_cast<size_t>(j)].masked) std::fill_n(to + k, 2 * k, 0.F);
    std::copy_n(statistics_JS_.data() + j * statistics, statistics, to + 3 * k);
  }
}

void LearnedCommitSampler::attention_block(const CommitSamplerWeights::Layer& w) {
  const int64_t width = options_.width;
  float* normed = normed_.grow(count(rows_, width));
  layer_norm(x_.data(), rows_, width, w.norm1_D.data(), w.norm1_bias_D.data(), options_.norm_eps, normed, pool_);
  float* qkv = qkv_.grow(count(rows_, 3 * width));
  matmul(w.qkv, normed, rows_, width, w.qkv_bias.data(), qkv, 3 * width, pool_, workspace_);
  float *q = q_.grow(count(rows_, width)), *k = k_.grow(count(rows_, width)), *v = v_.grow(count(rows_, width));
  for (int64_t j = 0; j < rows_; ++j) {
    std::copy_n(qkv + 3 * j * width, width, q + j * width);
    std::copy_n(qkv + (3 * j + 1) * width, width, k + j * width);
    std::copy_n(qkv + (3 * j + 2) * width, width, v + j * width);
  }
  row_spans_.assign(static_cast<size_t>(rows_), {0, 1});
  const SlotSpan all{0, static_cast<int32_t>(rows_)};
  AttentionArgs args;
  args.q_THK = q;
  args.keys_SGK = k;
  args.values_SGK = v;
  args.out_THK = attended_.grow(count(rows_, width));
  args.rows = rows_;
  args.heads = args.kv_heads = options_.heads;
  args.head_width = options_.width / options_.heads;
  args.scale = static_cast<float>(1 / std::sqrt(static_cast<double>(args.head_width)));
  args.row_spans = row_spans_;
  args.spans = {&all, 1};
  attention(args, pool_, workspace_);
  float* update = update_.grow(count(rows_, width));
  matmul(w.o, attended_.data(), rows_, width, w.o_bias.data(), update, width, pool_, workspace_);
  add(x_.data(), update, rows_, width, pool_);
}

void LearnedCommitSampler::mlp_block(const CommitSamplerWeights::Layer& w) {
  const int64_t width = options_.width, f = options_.mlp_width;
  layer_norm(x_.data(), rows_, width, w.norm2_D.data(), w.norm2_bias_D.data(), options_.norm_eps, normed_.data(), pool_);
  float* hidden = hidden_.grow(count(rows_, f));
  matmul(w.up, normed_.data(), rows_, width, w.up_bias.data(), hidden, f, pool_, workspace_);
  gelu(hidden, rows_, f, false, pool_);
  matmul(w.down, hidden, rows_, f, w.down_bias.data(), update_.data(), width, pool_, workspace_);
  add(x_.data(), update_.data(), rows_, width, pool_);
}

}  // namespace slip
