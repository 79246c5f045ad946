// SPDX-License-Identifier: Apache-2.0
// The closed forms, and one recursion. The power sum is added up term by term: (1 - alpha^(gamma+1)) / (1 - alpha) cancels near 1.
#include "limits/speculation_algebra.h"

#include <algorithm>
#include <vector>

namespace slip {

double expected_tokens(double alpha, int gamma) {
  double sum = 0;
  for (int i = 0; i <= gamma; ++i) sum = sum * alpha + 1;
  return sum;
}

double speculative_speedup(double alpha, int gamma, double c) { return expected_tokens(alpha, gamma) / (1 + c * gamma); }

std::optional<double> break_even_alpha(int gamma, double c, double speedup) {
  if (speculative_speedup(1, gamma, c) < speedup) return std::nullopt;
  if (speculative_speedup(0, gamma, c) >= speedup) return 0;  // halving would only come near it
  double low = 0, high = 1;
  for (int i = 0; i < 200; ++i) {  // far past the resolution of a double
    const double middle = (low + high) / 2;
    (speculative_speedup(middle, gamma, c) >= speedup ? high : low) = middle;
  }
  return high;
}

BestGamma best_gamma(double alpha, double c, int most) {
  BestGamma best{1, speculative_speedup(alpha, 1, c)};
  for (int g = 2; g <= most; ++g)
    if (const double s = speculative_speedup(alpha, g, c); s > best.speedup) best = {g, s};
  return best;
}

FiniteRun finite_run(int tokens, double alpha, int gamma) {
  std::vector<FiniteRun> after(static_cast<size_t>(std::max(tokens, 0)) + 1);  // [n]: n tokens are still missing
  for (int n = 1; n <= tokens; ++n) {
    const int drafted = std::min(gamma, n - 1);
    FiniteRun& here = after[static_cast<size_t>(n)];
    here = {1, static_cast<double>(drafted)};
    double kept = 1;  // chance that the first k - 1 drafts were accepted
    for (int k = 1; k <= drafted + 1; ++k) {
      const double p = k <= drafted ? kept * (1 - alpha) : kept;
      here.rounds += p * after[static_cast<size_t>(n - k)].rounds;
      here.draft_steps += p * after[static_cast<size_t>(n - k)].draft_steps;
      kept *= alpha;
    }
  }
  return after.back();
}

AdaptiveRun adaptive_run(int tokens, double alpha, double c, int most) {
  AdaptiveRun out;
  std::vector<double> cost(static_cast<size_t>(std::max(tokens, 0)) + 1, 0);  // [r]: with r tokens to go
  for (int r = 1; r <= tokens; ++r) {
    double least = 0;
    int32_t depth = -1;
    for (int g = 0; g <= std::min(most, r - 1); ++g) {
      double expected = 1 + c * g, kept = 1;
      for (int k = 1; k <= g + 1; ++k) {
        expected += (k <= g ? kept * (1 - alpha) : kept) * cost[static_cast<size_t>(r - k)];
        kept *= alpha;
      }
      if (depth >= 0 && expected >= least) continue;
      least = expected;
      depth = g;
    }
    cost[static_cast<size_t>(r)] = least;
    out.depth.push_back(depth);
  }
  out.cost = cost.back();
  return out;
}

double plain_action_ms(const ActionTimes& t, int tokens) {
  return t.vision_ms + t.target_prefill_ms + std::max(0, tokens - 1) * t.target_step_ms;
}

double speculative_action_ms(const ActionTimes& t, int tokens, double alpha, int gamma) {
  const FiniteRun run = finite_run(tokens - 1, alpha, gamma);
  return 2 * t.vision_ms + t.target_prefill_ms + t.draft_prefill_ms + run.rounds * t.target_step_ms +
         run.draft_steps * t.draft_step_ms;
}

}  // namespace slip
