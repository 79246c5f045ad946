// SPDX-License-Identifier: Apache-2.0
// Sampling settings as a distribution over the allowed ids, the ensemble's mixture of two, and the formulas of speculative sampling.
#pragma once
#include <cstdint>
#include <span>
#include <vector>

#include "base/ids.h"
#include "decode/pass/choice.h"
#include "decode/types/options.h"

namespace slip {

/// Ids, ascending, with a probability each; ids that are not listed have none.
struct Distribution {
  std::span<const TokenId> ids;
  std::span<const double> weights;
  double of(TokenId id) const;
};

/// A distribution's buffers, and room for the settings that need an order. After the first use for a vocabulary nothing allocates.
struct ChoiceBuffers {
  std::vector<TokenId> ids;
  std::vector<double> weights;
  std::vector<size_t> order;
  std::vector<uint8_t> kept;
  operator Distribution() const { return {ids, weights}; }
};
/// The distribution that a draw comes from: `ids` ascending and their probabilities, summing to 1, in double; after repetition,
/// temperature, top_k, top_p and min_p among the allowed ids, in that order. With temperature 0 all on the greedy choice.
void distribution(std::span<const float> logits_V, const Allowed& allowed, const Sampling& sampling,
                  std::span<const TokenId> history, ChoiceBuffers& out);
/// Smallest id whose cumulative probability exceeds u; where rounding keeps the sum below u, the last id that has any.
TokenId drawn(const Distribution& p, double u);
/// The draw from distribution(): greedy with temperature 0, otherwise drawn().
TokenId choose(std::span<const float> logits_V, const Allowed& allowed, const Sampling& sampling, std::span<const TokenId> history,
               double u, ChoiceBuffers& buffers);

/// Ensemble law [Nemotron-Labs-Diffusion; docs/notes/speculation.md#ensemble]: (1 - weight) p_diffusion + weight p_ar, softmaxes over the
/// allowed ids behind repetition; temperature, top_k, top_p and min_p act on the mixture, so that greedy is its largest probability
/// and the limit of low temperatures. `scratch` and `out` are filled.
void mixture(std::span<const float> diffusion_V, std::span<const float> ar_V, double weight, const Allowed& allowed,
             const Sampling& sampling, std::span<const TokenId> history, ChoiceBuffers& scratch, ChoiceBuffers& out);

/// Speculative sampling [Leviathan 2211.17192]: the probability min(1, p/q) of keeping a draft drawn from q; with q empty all of
/// q's mass is on the draft.
double acceptance(const Distribution& p, const Distribution& q, TokenId draft);
/// What a refused draft is replaced from: max(p - q, 0), normalised; p where that has no mass left in double. `out` is neither's buffer.
void residual(const Distribution& p, const Distribution& q, TokenId draft, ChoiceBuffers& out);

}  // namespace slip
