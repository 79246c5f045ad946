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

}  // namespace slip
