// SPDX-License-Identifier: Apache-2.0
// How few commits could have filled a block, had one known which guesses are right: the speed of light of diffusion drafting
// [Nemotron-Labs-Diffusion, section 4; docs/notes/speculation.md#speed-of-light]. A tool for measuring and for labels of commit
// samplers; no decoder uses it.
//
// The serial answer t commits the surest masked place at a time. A set of places is safe to commit at once when a *witness* says
// so: a known sequence of commit sets that leads on from there to t. The published search (the largest prefix by confidence that
// a greedy rollout survives, found by bisection, and the surest match unconditionally) is not exact: the surest match is safe only
// on the serial path, safety is not monotone in the prefix, and a block can get stuck. Here every step is certified:
//   W = serial order;  while places are masked:
//     A = masked places whose guess is t's, surest first
//     for k = |A|, |A|/2, ... (or all k):  y = x + first k of A;  if y is full, or greedy(y) reaches t by P: x = y, W = P, next
//     none: x = x + W[0], W without its first
// Every state is "a subset of t", so the model is asked once per subset.
#pragma once
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <vector>

#include "base/ids.h"
#include "base/result.h"

namespace slip {

/// What a model says of one masked place.
struct PlaceGuess {
  TokenId top;
  double confidence = 0;
};
/// Fills a guess per place of a partly decided block; those of decided places are not read. Deterministic.
using BlockModel = std::function<Status(std::span<const std::optional<TokenId>> block, std::span<PlaceGuess> guesses)>;

struct SpeedOfLightOptions {
  int64_t budget = 5000;    // forwards beyond the serial ones; 0: no search, the serial order itself
  bool every_size = false;  // try every prefix in place of halving: never slower to commit, more forwards
};

struct SpeedOfLight {
  std::vector<TokenId> block;                 // t: the serial answer
  std::vector<int32_t> serial;                // places in the order of the serial commits
  std::vector<std::vector<int32_t>> commits;  // certified sets, in order; their count is K
  std::optional<int32_t> greedy;              // commits of "all matches at once" from the start, where that reaches t
  int64_t serial_forwards = 0, forwards = 0;  // one per place; all together
  bool exhausted = false;                     // the budget ended some search: K is an upper bound
  /// Tokens per forward with the pass that refreshes the keys: places / (K + 1).
  double tokens_per_forward() const { return static_cast<double>(serial.size()) / static_cast<double>(commits.size() + 1); }
};

/// `start`: decided places are scaffold; they count nowhere. Ties: confidence descending, place ascending. kUsage for more than 64
/// places or a negative budget; errors of the model as they are.
Result<SpeedOfLight> speed_of_light(std::span<const std::optional<TokenId>> start, const BlockModel& model,
                                    const SpeedOfLightOptions& options);

}  // namespace slip
