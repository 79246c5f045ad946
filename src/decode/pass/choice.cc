// SPDX-License-Identifier: Apache-2.0
// Probabilities are in double and added in ascending order of ids: the fixtures' uniforms come as close as 1e-4 to an edge,
// and real ones closer; a float sum over 150,000 ids would move edges by more than that.
#include "decode/pass/choice.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>

#include "form/automaton/token_automaton.h"

namespace slip {
namespace {

double largest(std::span<const float> logits_V, const Allowed& allowed) {
  double top = -std::numeric_limits<double>::infinity();
  for_each_allowed(allowed, static_cast<int32_t>(logits_V.size()), [&](TokenId id) {
    const double x = logits_V[static_cast<size_t>(id.value)];
    if (x > top) top = x;
  });
  return top;
}

/// Of every id: the largest logit's, the lowest id on ties; none where no logit is a number.
std::optional<TokenId> likeliest(std::span<const float> logits_V) {
  std::optional<TokenId> best;
  float top = 0;
  for (size_t i = 0; i < logits_V.size(); ++i) {
    const float x = logits_V[i];
    if (!(x > top) && (best || std::isnan(x))) continue;
    best = TokenId{static_cast<int32_t>(i)};
    top = x;
  }
  return best;
}

}  // namespace

Allowed allowed_in(const Field& field, int32_t state, std::vector<TokenId>& buffer) {
  if (field.rules.unrestricted()) return {};
  if (const TokenAutomaton* automaton = field.rules.automaton()) {
    const TokenMask& mask = automaton->mask(state);
    return {.any = false, .denied = {}, .listed = mask.listed, .bits = mask.bits};
  }
  const TokenRules::State& s = field.rules.state(state);
  buffer.clear();
  for (const auto& edge : s.edges) buffer.push_back(edge.id);
  const auto add = [&buffer](TokenId end) {
    const auto at = std::lower_bound(buffer.begin(), buffer.end(), end);
    if (at == buffer.end() || *at != end) buffer.insert(at, end);
  };
  if (field.end && s.may_end) add(*field.end);
  for (const Exit& e : field.exits)
    if (e.at_start ? state == 0 : s.may_end) add(e.end);
  return {s.any, s.denied, buffer, {}};
}

TokenId greedy_choice(std::span<const float> logits_V, const Allowed& allowed) {
  if ((allowed.any && allowed.listed.empty()) ||
      !allowed.bits.empty()) {  // nearly all ids: the best of all is nearly always one of them
    const auto all = likeliest(logits_V);
    if (all && (allowed.bits.empty() ? !std::ranges::binary_search(allowed.denied, *all) : allowed.has_bit(all->value)))
      return *all;
  }
  TokenId best{-1}, first{-1};
  float top = 0;
  for_each_allowed(allowed, static_cast<int32_t>(logits_V.size()), [&](TokenId id) {
    const float x = logits_V[static_cast<size_t>(id.value)];
    if (first.value < 0) first = id;
    if (std::isnan(x) || (best.value >= 0 && !(x > top))) return;
    best = id;
    top = x;
  });
  return best.value >= 0 ? best : first;
}

TokenId keyed_draw(std::span<const float> logits_V, const Allowed& allowed, double temperature, double u) {
  const auto vocab = static_cast<int32_t>(logits_V.size());
  const double top = largest(logits_V, allowed) / temperature;
  const auto weight = [&](TokenId id) {
    const double w = std::exp(logits_V[static_cast<size_t>(id.value)] / temperature - top);
    return std::isnan(w) ? 0.0 : w;
  };
  double sum = 0;
  for_each_allowed(allowed, vocab, [&](TokenId id) { sum += weight(id); });
  if (!(sum > 0)) return greedy_choice(logits_V, allowed);
  TokenId drawn{-1}, last{-1};
  double cumulative = 0;
  for_each_allowed(allowed, vocab, [&](TokenId id) {
    if (drawn.value >= 0) return;
    const double w = weight(id);
    if (w > 0) last = id;  // where rounding keeps the sum below u, the last possible id
    cumulative += w / sum;
    if (cumulative > u) drawn = id;
  });
  return drawn.value >= 0 ? drawn : last;
}

bool says_anything(std::span<const float> logits_V, const Allowed& allowed) {
  bool any = false;
  for_each_allowed(allowed, static_cast<int32_t>(logits_V.size()), [&](TokenId id) {
    any = any || logits_V[static_cast<size_t>(id.value)] > -std::numeric_limits<float>::infinity();
  });
  return any;
}

TopTwo top_two(std::span<const float> logits_V, const Allowed& allowed) {
  const double top = largest(logits_V, allowed);
  double sum = 0, first = 0, second = 0;
  for_each_allowed(allowed, static_cast<int32_t>(logits_V.size()), [&](TokenId id) {
    const double w = std::exp(logits_V[static_cast<size_t>(id.value)] - top);
    if (std::isnan(w)) return;
    sum += w;
    if (w > first) {
      second = first;
      first = w;
    } else if (w > second) {
      second = w;
    }
  });
  return sum > 0 ? TopTwo{first / sum, second / sum} : TopTwo{};
}

double probability_of(std::span<const float> logits_V, const Allowed& allowed, TokenId id) {
  const double top = largest(logits_V, allowed);
  double sum = 0;
  for_each_allowed(allowed, static_cast<int32_t>(logits_V.size()), [&](TokenId x) {
    const double w = std::exp(logits_V[static_cast<size_t>(x.value)] - top);
    if (!std::isnan(w)) sum += w;
  });
  const double p = std::exp(logits_V[static_cast<size_t>(id.value)] - top) / sum;
  return std::isnan(p) ? 0 : p;
}

std::vector<LikelyId> likeliest_ids(std::span<const float> logits_V, const Allowed& allowed, int32_t count) {
  const double top = largest(logits_V, allowed);
  double sum = 0;
  std::vector<LikelyId> out;
  const auto before = [](const LikelyId& a, const LikelyId& b) {
    return a.log_prob != b.log_prob ? a.log_prob > b.log_prob : a.id.value < b.id.value;
  };
  for_each_allowed(allowed, static_cast<int32_t>(logits_V.size()), [&](TokenId x) {
    const double w = std::exp(logits_V[static_cast<size_t>(x.value)] - top);
    if (std::isnan(w)) return;
    sum += w;
    const LikelyId one{x, logits_V[static_cast<size_t>(x.value)] - top};
    if (w == 0 || (static_cast<int32_t>(out.size()) == count && !before(one, out.back()))) return;
    out.insert(std::lower_bound(out.begin(), out.end(), one, before), one);
    if (static_cast<int32_t>(out.size()) > count) out.pop_back();
  });
  for (LikelyId& one : out) one.log_prob = std::log(std::exp(one.log_prob) / sum);  // the bits of probability_of
  return out;
}

}  // namespace slip
