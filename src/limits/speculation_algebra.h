// SPDX-License-Identifier: Apache-2.0
// What speculation can give, on paper [Leviathan et al. 2023]: alpha is the chance that a drafted token is accepted (accepted /
// tested, each independently), gamma the tokens drafted a round, c the cost of drafting one in passes of the big model.
#pragma once
#include <cstdint>
#include <optional>
#include <vector>

namespace slip {

/// 1 + alpha + ... + alpha^gamma: tokens a round yields.
double expected_tokens(double alpha, int gamma);
/// expected_tokens / (1 + c gamma), against one token a pass.
double speculative_speedup(double alpha, int gamma, double c);
/// The smallest alpha that reaches `speedup`; none if even alpha = 1 does not.
std::optional<double> break_even_alpha(int gamma, double c, double speedup);

struct BestGamma {
  int gamma = 1;
  double speedup = 0;
};
/// The first gamma of 1 .. most with the largest speed-up.
BestGamma best_gamma(double alpha, double c, int most = 32);

struct FiniteRun {
  double rounds = 0, draft_steps = 0;
};
/// Expected rounds and draft steps to emit exactly `tokens`, where a round drafts min(gamma, remaining - 1).
FiniteRun finite_run(int tokens, double alpha, int gamma);

struct AdaptiveRun {
  double cost = 0;             // passes of the big model, drafts priced in them
  std::vector<int32_t> depth;  // [r - 1]: drafts of a round with r tokens to go
};
/// The least expected cost of emitting exactly `tokens` with a free depth of at most `most` in every round; of equal depths the smallest.
AdaptiveRun adaptive_run(int tokens, double alpha, double c, int most);

/// A robot's action as paper 004 times it: the prefill gives the first token, the drafter pays its own vision and prefill.
struct ActionTimes {
  double vision_ms = 0, target_prefill_ms = 0, target_step_ms = 0, draft_prefill_ms = 0, draft_step_ms = 0;
};
double plain_action_ms(const ActionTimes& times, int tokens);
double speculative_action_ms(const ActionTimes& times, int tokens, double alpha, int gamma);

}  // namespace slip
