// SPDX-License-Identifier: Apache-2.0
// Training a commit sampler [Nemotron-Labs-Diffusion, App. A]: models/draft/commit_sampler.h with gradients. Blocks do not see each other.
// L = sum over masked places of BCE(z, label) / number of masked places, label = 1 if the place's best token is the one that stands there in
// the end. pca.* are frozen: the inputs are what they make.
#pragma once
#include "train/heads/network.h"

namespace slip {

struct CommitShape {
  int32_t inputs = 144, hidden = 384, layers = 4, heads = 6, ffn = 768, max_block = 32;
  double eps = 1e-5;
};

/// One block as a diffusion pass left it.
struct CommitBlock {
  std::vector<float> inputs;           // J x inputs
  std::vector<uint8_t> masked, label;  // J
};

class CommitNetwork final : public HeadNetwork {
 public:
  CommitNetwork(const CommitShape& shape, Precision precision);
  /// Sum of BCE over masked places; with `scale` > 0 also adds scale times its gradient. Logits of all places, in order, go to `out`.
  double loss(std::span<const CommitBlock> blocks, double scale, std::vector<double>* out = nullptr);
  const CommitShape& shape() const { return shape_; }

 private:
  CommitShape shape_;
};

/// The share of (1, 0) pairs that are in order, ties half; 0.5 without a pair.
double auc_of(std::span<const double> score, std::span<const uint8_t> label);

}  // namespace slip
