// SPDX-License-Identifier: Apache-2.0
// Probabilities are in double and added in ascending order of ids: the fixtures' uniforms come as close as 1e-4 to an edge,
// and real ones closer; a float sum over 150,000 ids would move edges by more than that.
#include "decode/pass/choice.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <optional>

#include "form/automaton/token_automaton.h"

namespace slip {

bool has_one_choice(const Allowed& allowed, int32_t vocab) {
  const bool few_denied = allowed.bits.empty() && allowed.any && vocab - static_cast<int64_t>(allowed.denied.size()) > 1;
  if (few_denied) return false;  // as in free text: nobody need count
  int32_t choices = 0;
  for_each_allowed(allowed, vocab, [&](TokenId) { ++choices; });
  return choices == 1;
}

namespace {

double largest(std::span<const float> logits_V, const Allowed& allowed) {
  double top = -std::numeric_limits<double>::infinity();
  for_each_allowed(allowed, static_cast<int32_t>(logits_V.size()), [&](TokenId id) {
    const double x = logits_V[static_cast<size_t>(id.value)];
    if (x > top) top = x;
  });
  return top;
}

/// Four numbers at a time, in the registers that every processor of its kind has.
using Four = float __attribute__((vector_size(16)));
constexpr size_t kFour = 4;
constexpr float kNone = -std::numeric_limits<float>::infinity();

Four four(float x) { return Four{} + x; }
Four load_four(const float* from) {
  Four out;
  std::memcpy(&out, from, sizeof(out));
  return out;
}

/// The largest number; -inf where there is none.
float largest_of_all(std::span<const float> x_N) {
  Four most = four(kNone);
  size_t i = 0;
  for (; i + kFour <= x_N.size(); i += kFour) {
    const Four x = load_four(&x_N[i]);
    most = x > most ? x : most;  // false for what is no number
  }
  float out = kNone;
  for (size_t k = 0; k < kFour; ++k) out = most[k] > out ? most[k] : out;
  for (; i < x_N.size(); ++i) out = x_N[i] > out ? x_N[i] : out;
  return out;
}

/// e to the x for x <= 0, to 3e-7 of it (2.54e-7 at most at every millionth to -87); below -87, and of what is no number, 2e-38.
Four exp_of(Four x) {
  using Ints = int32_t __attribute__((vector_size(16)));
  constexpr float kLog2E = 1.44269504F, kLn2 = 0.693359375F, kLn2Rest = -2.12194440e-4F, kRound = 12582912;  // 1.5 x 2^23
  x = x > -87.0F ? x : four(-87.0F);
  const Four n = (x * kLog2E + kRound) - kRound, f = (x - n * kLn2) - n * kLn2Rest;
  const Four p = 1 + f * (1 + f * (0.5F + f * (1.0F / 6 + f * (1.0F / 24 + f * (1.0F / 120 + f * (1.0F / 720))))));
  const Ints power = (__builtin_convertvector(n, Ints) + 127) << 23;
  Four scale;
  std::memcpy(&scale, &power, sizeof(scale));
  return p * scale;
}

/// Numbers of which some may be missing (-inf), a whole number of fours: the two largest's shares of the sum of all e to the x.
TopTwo top_two_of(std::span<const float> x_N) {
  const float top = largest_of_all(x_N);
  if (!std::isfinite(top)) return {};
  Four most = four(kNone), next = most, sum = {};
  for (size_t i = 0; i < x_N.size(); i += kFour) {
    const Four x = load_four(&x_N[i]), lower = x > most ? most : x;
    next = lower > next ? lower : next;
    most = x > most ? x : most;
    sum += exp_of(x - top);
  }
  double all = 0;
  float second = kNone;
  bool taken = false;  // one of those that are as large as the largest
  for (size_t k = 0; k < kFour; ++k) {
    all += sum[k];
    const bool leads = !taken && most[k] == top;
    taken |= leads;
    second = std::max(second, leads ? next[k] : most[k]);
  }
  return {1 / all, std::exp(static_cast<double>(second) - top) / all};
}

/// The logits of all ids that are allowed in a line, a whole number of fours with what is missing; false where a list says it sooner. Of bits those
/// that are set are gathered: of 150,000 ids a number allows some hundreds.
bool lay_out(std::span<const float> logits_V, const Allowed& allowed, std::vector<float>& line) {
  if (allowed.bits.empty() && !allowed.any) return false;
  line.clear();
  if (allowed.bits.empty()) {
    line.assign(logits_V.begin(), logits_V.end());
    for (const TokenId id : allowed.denied)
      if (static_cast<size_t>(id.value) < line.size() && !std::ranges::binary_search(allowed.listed, id))
        line[static_cast<size_t>(id.value)] = kNone;
  } else {
    for_each_allowed(allowed, static_cast<int32_t>(logits_V.size()),
                     [&](TokenId id) { line.push_back(logits_V[static_cast<size_t>(id.value)]); });
  }
  line.resize((line.size() + kFour - 1) / kFour * kFour, kNone);
  return true;
}

/// Of every id: the largest logit's, the lowest id on ties; none where no logit is a number.
std::optional<TokenId> likeliest(std::span<const float> logits_V) {
  if (const float most = largest_of_all(logits_V); most > kNone)
    return TokenId{static_cast<int32_t>(std::find(logits_V.begin(), logits_V.end(), most) - logits_V.begin())};
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

bool Allowed::has(TokenId id) const {
  if (!bits.empty()) return has_bit(id.value);
  return std::ranges::binary_search(listed, id) || (any && !std::ranges::binary_search(denied, id));
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
  thread_local std::vector<float> line;
  if (lay_out(logits_V, allowed, line)) return top_two_of(line);
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

// Every id that is not among them has the last one's probability at most, and all of them together what the sum leaves.
std::optional<TopTwo> top_two(std::span<const KeptLogits::Likely> likely, float log_sum_exp, const Allowed& allowed) {
  constexpr double kUnknown = 0.02;
  if (likely.empty() || !std::isfinite(log_sum_exp)) return std::nullopt;
  double known = 0, kept = 0, last = 0, largest[2] = {};
  size_t found = 0;
  for (const KeptLogits::Likely& l : likely) {
    last = std::exp(static_cast<double>(l.logit) - log_sum_exp);
    known += last;
    if (!allowed.has(l.id)) continue;
    if (found < 2) largest[found++] = last;
    kept += last;
  }
  if (found == 0 || !(largest[0] > 0) || (found == 1 && last > kUnknown * largest[0])) return std::nullopt;
  const double rest = std::max(0.0, 1 - known);
  const bool listed = !allowed.bits.empty() || !allowed.any;
  // Ids of which it is not known whether they count: those that a list names, or those that are denied.
  const auto ids = static_cast<double>(listed ? allowed.listed.size() : allowed.denied.size());
  const double unknown = allowed.bits.empty() || ids > 0 ? std::min(rest, ids * last) : rest;
  if (unknown > kUnknown * kept) return std::nullopt;
  const double all = listed ? kept : kept + rest;
  return TopTwo{largest[0] / all, largest[1] / all};
}

std::optional<TokenId> first_allowed(std::span<const KeptLogits::Likely> likely, const Allowed& allowed) {
  for (const KeptLogits::Likely& l : likely)
    if (allowed.has(l.id)) return l.id;
  return std::nullopt;
}

std::span<const uint64_t> bits_of(const Allowed& allowed, int32_t vocab, std::vector<uint64_t>& buffer) {
  if (allowed.all()) return {};
  if (!allowed.bits.empty()) return allowed.bits;
  buffer.assign(static_cast<size_t>(vocab + 63) / 64, allowed.any ? ~uint64_t{0} : 0);
  const auto set = [&](TokenId id, bool on) {
    if (id.value >= vocab) return;
    uint64_t& word = buffer[static_cast<size_t>(id.value) / 64];
    const uint64_t bit = uint64_t{1} << (id.value % 64);
    word = on ? word | bit : word & ~bit;
  };
  if (allowed.any)
    for (const TokenId id : allowed.denied) set(id, false);
  for (const TokenId id : allowed.listed) set(id, true);
  return buffer;
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
