// SPDX-License-Identifier: Apache-2.0
// What speculation can give, on paper [Leviathan et al. 2023]: alpha is the chance that a drafted token is accepted (accepted /
// tested, each independently), gamma the tokens drafted a round, c the cost of drafting one in passes of the big model.
#pragma once
#include <optional>

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

}  // namespace slip
