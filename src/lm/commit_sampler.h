// SPDX-License-Identifier: Apache-2.0
// A learned commit sampler [NLD, App. A; docs/notes/speculation.md#commit-sampler]: looks at what a diffusion pass says about all
// places of a block together, and tells for each masked place how likely its best token is the one that will stand there in the
// end. decode/ knows this interface; models/ loads one from its folder. Committing by it changes the law: lossy.
#pragma once
#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "base/ids.h"
#include "base/result.h"

namespace slip {

/// A place of the block, as the pass over the block left it.
struct CommitPlace {
  std::array<TokenId, 3> top{};        // the likeliest tokens, best first; a committed place: its token (the others do not count)
  std::array<float, 3> probability{};  // theirs, of the distribution over the whole vocabulary; where there is none: 0
  float entropy = 0;                   // of that distribution, in nats
  bool masked = true;                  // false: committed before this pass; its numbers count as probability 1, 0, 0, entropy 0
};

struct CommitSamplerInfo {
  std::string name;  // folder, for messages
  int32_t max_block = 0;
  int32_t vocab = 0;      // ids of the target
  float threshold = .5F;  // commit above it (and at least one place a pass): the folder's advice
};

class CommitSampler {
 public:
  virtual ~CommitSampler() = default;
  virtual const CommitSamplerInfo& info() const = 0;
  /// probability_J: one number per place in order; 0 for places that are not masked. kBadInput for a block longer than max_block
  /// and for ids outside the vocabulary. A block's numbers depend on that block alone.
  virtual Status probabilities(std::span<const CommitPlace> block, std::vector<float>& probability_J) = 0;
};

}  // namespace slip
