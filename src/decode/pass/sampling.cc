// SPDX-License-Identifier: Apache-2.0
// Sampling settings as a distribution over the allowed ids, the ensemble's mixture of two, and the two formulas of speculative
// sampling; contract in choice.h. All sums in double, over ascending ids, so that the order in which candidates were found changes
// nothing. The settings and their order are those of the usual logits processors: repetition [CTRL, 1909.05858], temperature, top_k,
// top_p [1904.09751], min_p [2407.01082]. Tests: Sampling.*, Residuals.*
#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "decode/pass/sampling.h"

namespace slip {
namespace {

/// Logits of the ids in the history move away from being chosen, each once however often it occurred.
void penalise(const Sampling& s, std::span<const TokenId> history, ChoiceBuffers& out) {
  if (s.repetition == 1) return;
  const auto recent = history.last(std::min(history.size(), static_cast<size_t>(std::max(s.repetition_last, 0))));
  const auto factor = static_cast<double>(s.repetition);
  for (size_t i = 0; i < recent.size(); ++i) {
    if (std::find(recent.begin(), recent.begin() + static_cast<ptrdiff_t>(i), recent[i]) !=
        recent.begin() + static_cast<ptrdiff_t>(i))
      continue;
    const auto at = std::lower_bound(out.ids.begin(), out.ids.end(), recent[i]);
    if (at == out.ids.end() || *at != recent[i]) continue;
    double& x = out.weights[static_cast<size_t>(at - out.ids.begin())];
    x = x > 0 ? x / factor : x * factor;
  }
}

/// The allowed ids whose logits are numbers, and these logits behind repetition. Returns the lowest allowed id.
TokenId gather(std::span<const float> logits_V, const Allowed& allowed, const Sampling& s, std::span<const TokenId> history,
               ChoiceBuffers& out) {
  out.ids.clear();
  out.weights.clear();
  out.ids.reserve(logits_V.size());
  out.weights.reserve(logits_V.size());
  TokenId first{-1};
  for_each_allowed(allowed, static_cast<int32_t>(logits_V.size()), [&](TokenId id) {
    const double x = logits_V[static_cast<size_t>(id.value)];
    if (first.value < 0) first = id;
    if (std::isnan(x)) return;
    out.ids.push_back(id);
    out.weights.push_back(x);
  });
  penalise(s, history, out);
  return first;
}

/// Drops what `keep` refuses, keeping the order of ids.
template <class F>
void filter(ChoiceBuffers& out, F&& keep) {
  size_t n = 0;
  for (size_t i = 0; i < out.ids.size(); ++i) {
    if (!keep(i)) continue;
    out.ids[n] = out.ids[i];
    out.weights[n] = out.weights[i];
    ++n;
  }
  out.ids.resize(n);
  out.weights.resize(n);
}

/// Calls visit(index) from the largest weight down, lower id first on ties, until it says false. A heap: the few that are taken
/// cost a logarithm each, where a sort of 150,000 weights took 10 ms.
template <class F>
void from_largest(ChoiceBuffers& out, F&& visit) {
  out.order.reserve(out.ids.capacity());
  out.order.resize(out.ids.size());
  std::iota(out.order.begin(), out.order.end(), size_t{0});
  const auto after = [&](size_t a, size_t b) {
    return out.weights[a] < out.weights[b] || (out.weights[a] == out.weights[b] && a > b);
  };
  std::make_heap(out.order.begin(), out.order.end(), after);
  for (auto end = out.order.end(); end != out.order.begin(); --end) {
    std::pop_heap(out.order.begin(), end, after);
    if (!visit(*(end - 1))) return;
  }
}

template <class F>
void keep_largest(ChoiceBuffers& out, F&& more) {
  out.kept.reserve(out.ids.capacity());
  out.kept.assign(out.ids.size(), 0);
  from_largest(out, [&](size_t i) {
    out.kept[i] = 1;
    return more(out.weights[i]);
  });
  filter(out, [&](size_t i) { return out.kept[i] != 0; });
}

double sum_of(const ChoiceBuffers& out) { return std::accumulate(out.weights.begin(), out.weights.end(), 0.0); }

void normalise(ChoiceBuffers& out) {
  const double sum = sum_of(out);
  for (double& w : out.weights) w /= sum;
}

/// From logits in `out.weights` to probabilities under temperature, top_k, top_p, min_p. `first`: the lowest allowed id.
void settle(const Sampling& s, TokenId first, ChoiceBuffers& out) {
  const auto best = std::max_element(out.weights.begin(), out.weights.end());  // the lowest id of equal ones
  const double top = best == out.weights.end() ? 0 : *best;
  if (s.temperature == 0 || out.ids.empty() || !std::isfinite(top)) {
    const TokenId only = out.ids.empty() ? first : out.ids[static_cast<size_t>(best - out.weights.begin())];
    out.ids.assign(1, only);
    out.weights.assign(1, 1.0);
    return;
  }
  const double t = s.temperature;
  for (double& w : out.weights) w = std::exp(w / t - top / t);
  if (s.top_k > 0 && out.ids.size() > static_cast<size_t>(s.top_k)) {
    int32_t left = s.top_k;
    keep_largest(out, [&](double) { return --left > 0; });
  }
  if (s.top_p < 1) {
    const double sum = sum_of(out);
    double reached = 0;
    keep_largest(out, [&](double w) { return (reached += w / sum) < static_cast<double>(s.top_p); });
  }
  if (s.min_p > 0)
    filter(out, [&](size_t i) { return out.weights[i] >= static_cast<double>(s.min_p); });  // the largest weight is 1
  normalise(out);
}

/// Logits to probabilities at temperature 1; where no logit is finite, all on the largest.
void softmax(TokenId first, ChoiceBuffers& out) {
  Sampling plain;
  plain.temperature = 1;
  settle(plain, first, out);
}

/// Calls visit(id, a's probability, b's probability) for every id of either, ascending.
template <class F>
void merge(const Distribution& a, const Distribution& b, F&& visit) {
  size_t i = 0, j = 0;
  while (i < a.ids.size() || j < b.ids.size()) {
    const bool from_a = j == b.ids.size() || (i < a.ids.size() && a.ids[i] <= b.ids[j]);
    const bool from_b = i == a.ids.size() || (j < b.ids.size() && b.ids[j] <= a.ids[i]);
    visit(from_a ? a.ids[i] : b.ids[j], from_a ? a.weights[i] : 0.0, from_b ? b.weights[j] : 0.0);
    i += from_a;
    j += from_b;
  }
}

}  // namespace

double Distribution::of(TokenId id) const {
  const auto at = std::lower_bound(ids.begin(), ids.end(), id);
  return at == ids.end() || *at != id ? 0 : weights[static_cast<size_t>(at - ids.begin())];
}

void distribution(std::span<const float> logits_V, const Allowed& allowed, const Sampling& s, std::span<const TokenId> history,
                  ChoiceBuffers& out) {
  const TokenId first = gather(logits_V, allowed, s, history, out);
  settle(s, first, out);
}

void mixture(std::span<const float> diffusion_V, std::span<const float> ar_V, double weight, const Allowed& allowed,
             const Sampling& s, std::span<const TokenId> history, ChoiceBuffers& scratch, ChoiceBuffers& out) {
  softmax(gather(diffusion_V, allowed, s, history, out), out);
  const TokenId first = gather(ar_V, allowed, s, history, scratch);
  softmax(first, scratch);
  // Every id of either is in `mixed`; the two inputs may not be overwritten while they are merged.
  const size_t begin = scratch.ids.size();
  scratch.ids.reserve(begin + begin + out.ids.size());
  scratch.weights.reserve(begin + begin + out.ids.size());
  const Distribution ar{std::span(scratch.ids).first(begin), std::span(scratch.weights).first(begin)};
  merge(ar, out, [&](TokenId id, double a, double d) {
    scratch.ids.push_back(id);
    scratch.weights.push_back(std::log((1 - weight) * d + weight * a));
  });
  out.ids.assign(scratch.ids.begin() + static_cast<ptrdiff_t>(begin), scratch.ids.end());
  out.weights.assign(scratch.weights.begin() + static_cast<ptrdiff_t>(begin), scratch.weights.end());
  settle(s, first, out);
}

double acceptance(const Distribution& p, const Distribution& q, TokenId draft) {
  const double mass = q.ids.empty() ? 1 : q.of(draft);
  const double law = p.of(draft);
  return law >= mass ? 1 : law / mass;
}

void residual(const Distribution& p, const Distribution& q, TokenId draft, ChoiceBuffers& out) {
  out.ids.clear();
  out.weights.clear();
  const double one = 1;
  const Distribution all_on_draft{{&draft, 1}, {&one, 1}};
  double sum = 0;
  merge(p, q.ids.empty() ? all_on_draft : q, [&](TokenId id, double law, double drafted) {
    if (!(law > drafted)) return;
    out.ids.push_back(id);
    out.weights.push_back(law - drafted);
    sum += law - drafted;
  });
  if (!(sum > 0)) {
    out.ids.assign(p.ids.begin(), p.ids.end());
    out.weights.assign(p.weights.begin(), p.weights.end());
    return;
  }
  for (double& w : out.weights) w /= sum;
}

TokenId drawn(const Distribution& p, double u) {
  double cumulative = 0;
  TokenId last = p.ids.front();
  for (size_t i = 0; i < p.ids.size(); ++i) {
    if (p.weights[i] > 0) last = p.ids[i];
    cumulative += p.weights[i];
    if (cumulative > u) return p.ids[i];
  }
  return last;
}

TokenId choose(std::span<const float> logits_V, const Allowed& allowed, const Sampling& s, std::span<const TokenId> history,
               double u, ChoiceBuffers& buffers) {
  distribution(logits_V, allowed, s, history, buffers);
  return drawn(buffers, u);
}

}  // namespace slip
