// SPDX-License-Identifier: Apache-2.0
// The target's token: the largest logit, or the keyed draw, among the ids that the field allows; and distributions over them.
#pragma once
#include <cstdint>
#include <span>
#include <vector>

#include "base/ids.h"
#include "base/philox.h"
#include "decode/types/options.h"
#include "form/form.h"

namespace slip {

/// Ids that may come next: those listed (ascending), and with `any` all that are not denied (ascending).
struct Allowed {
  bool any = true;
  std::span<const TokenId> denied;
  std::span<const TokenId> listed;
};

/// Calls visit(id) for every allowed id below `vocab`, ascending.
template <class F>
void for_each_allowed(const Allowed& allowed, int32_t vocab, F&& visit) {
  if (!allowed.any) {
    for (const TokenId id : allowed.listed)
      if (id.value < vocab) visit(id);
    return;
  }
  auto denied = allowed.denied.begin();
  auto listed = allowed.listed.begin();
  for (int32_t id = 0; id < vocab; ++id) {
    while (listed != allowed.listed.end() && listed->value < id) ++listed;
    while (denied != allowed.denied.end() && denied->value < id) ++denied;
    const bool is_listed = listed != allowed.listed.end() && listed->value == id;
    const bool is_denied = denied != allowed.denied.end() && denied->value == id;
    if (is_listed || !is_denied) visit(TokenId{id});
  }
}

/// What a state of a field's rules allows, END included where the field has one and the state may end. `buffer` holds the list.
Allowed allowed_in(const Field& field, int32_t state, std::vector<TokenId>& buffer);

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

/// Largest logit, lowest id on ties; NaN never wins. Without any allowed number: the lowest allowed id.
TokenId greedy_choice(std::span<const float> logits_V, const Allowed& allowed);
/// Smallest id whose cumulative probability exceeds u; softmax(logits / temperature) over the allowed ids in double, ascending.
TokenId keyed_draw(std::span<const float> logits_V, const Allowed& allowed, double temperature, double u);
/// The two largest softmax probabilities over the allowed ids (0 where there is none).
struct TopTwo {
  double first = 0, second = 0;
};
TopTwo top_two(std::span<const float> logits_V, const Allowed& allowed);
/// Softmax probability of `id` over the allowed ids, in double; 0 where it is no number.
double probability_of(std::span<const float> logits_V, const Allowed& allowed, TokenId id);

}  // namespace slip
