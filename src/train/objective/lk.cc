// SPDX-License-Identifier: Apache-2.0
// The LK-hybrid loss; contract in lk.h. Doubles throughout: a position costs microseconds whatever the type.
#include "train/objective/lk.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "base/check.h"

namespace slip {
namespace {

/// softmax(logits[ids] / tau); the log of its normaliser.
template <class T>
double softmax_on(std::span<const T> logits_V, std::span<const int32_t> ids, double tau, std::vector<double>& out) {
  double most = -HUGE_VAL;
  for (const int32_t v : ids) most = std::max(most, static_cast<double>(logits_V[static_cast<size_t>(v)]) / tau);
  out.clear();
  double sum = 0;
  for (const int32_t v : ids) sum += out.emplace_back(std::exp(static_cast<double>(logits_V[static_cast<size_t>(v)]) / tau - most));
  for (double& x : out) x /= sum;
  return most + std::log(sum);
}

/// KL(p || q) from logits: finite though q underflows.
template <class T>
double divergence(std::span<const T> draft_V, std::span<const T> verify_V, std::span<const int32_t> ids, double tau, double log_p,
                  double log_q, std::span<const double> p) {
  double sum = 0;
  for (size_t i = 0; i < ids.size(); ++i) {
    const auto v = static_cast<size_t>(ids[i]);
    sum += p[i] * ((static_cast<double>(verify_V[v]) - static_cast<double>(draft_V[v])) / tau - log_p + log_q);
  }
  return sum;
}

}  // namespace

template <class T>
void LkLoss::add_top(std::span<const T> logits_V, std::span<const TokenId> allowed) {
  order_.resize(allowed.empty() ? logits_V.size() : allowed.size());
  if (allowed.empty())
    std::iota(order_.begin(), order_.end(), 0);
  else
    std::transform(allowed.begin(), allowed.end(), order_.begin(), [](TokenId id) { return id.value; });
  const auto before = [&](int32_t a, int32_t b) {
    const T x = logits_V[static_cast<size_t>(a)], y = logits_V[static_cast<size_t>(b)];
    return x > y || (x == y && a < b);
  };
  const size_t n = std::min(order_.size(), static_cast<size_t>(rule_.top));
  std::nth_element(order_.begin(), order_.begin() + static_cast<ptrdiff_t>(n) - 1, order_.end(), before);
  ids_.insert(ids_.end(), order_.begin(), order_.begin() + static_cast<ptrdiff_t>(n));
}

template <class T>
void LkLoss::unite(std::span<const T> draft_V, std::span<const T> verify_V, std::span<const TokenId> allowed) {
  ids_.clear();
  add_top(draft_V, allowed);
  add_top(verify_V, allowed);
  std::sort(ids_.begin(), ids_.end());
  ids_.erase(std::unique(ids_.begin(), ids_.end()), ids_.end());
}

template <class T>
LkPosition LkLoss::position(std::span<const T> draft_V, std::span<const T> verify_V, std::span<const TokenId> allowed, double scale,
                            std::span<T> gradient_V) {
  return position(draft_V, verify_V, allowed, {scale, scale}, gradient_V, std::nullopt);
}

template <class T>
LkPosition LkLoss::position(std::span<const T> draft_V, std::span<const T> verify_V, std::span<const TokenId> allowed,
                            Shares shares, std::span<T> gradient_V, std::optional<int32_t> target) {
  SLIP_CHECK(!draft_V.empty() && draft_V.size() == verify_V.size(), "two lines over one vocabulary");
  unite(draft_V, verify_V, allowed);
  LkPosition out;
  out.ids = static_cast<int32_t>(ids_.size());
  const double log_p = softmax_on(verify_V, ids_, rule_.tau, p_), log_q = softmax_on(draft_V, ids_, rule_.tau, q_);
  const double log_q1 = softmax_on(draft_V, ids_, 1.0, q1_);
  size_t best = 0, drafted = 0;
  double pull = 0;  // sum q sign(q - p) / 2
  for (size_t i = 0; i < ids_.size(); ++i) {
    if (verify_V[static_cast<size_t>(ids_[i])] > verify_V[static_cast<size_t>(ids_[best])]) best = i;
    if (draft_V[static_cast<size_t>(ids_[i])] > draft_V[static_cast<size_t>(ids_[drafted])]) drafted = i;
    out.alpha += std::min(p_[i], q_[i]);
    out.tv += std::abs(p_[i] - q_[i]) / 2;
    pull += q_[i] * (q_[i] > p_[i] ? 0.5 : q_[i] < p_[i] ? -0.5 : 0);
  }
  out.target = target.value_or(ids_[best]);
  out.draft = ids_[drafted];
  const auto y = std::lower_bound(ids_.begin(), ids_.end(), out.target);
  out.has_ce = y != ids_.end() && *y == out.target;
  out.lambda = rule_.scale * std::exp(-rule_.eta * out.alpha);
  out.kl = divergence(draft_V, verify_V, ids_, rule_.tau, log_p, log_q, p_);
  out.lk = out.lambda * out.kl + (1 - out.lambda) * out.tv;
  out.ce = out.has_ce ? log_q1 - static_cast<double>(draft_V[static_cast<size_t>(out.target)]) : 0;
  if (gradient_V.empty()) return out;
  for (size_t i = 0; i < ids_.size(); ++i) {
    const double side = q_[i] > p_[i] ? 0.5 : q_[i] < p_[i] ? -0.5 : 0;
    const double d_lk = (out.lambda * (q_[i] - p_[i]) + (1 - out.lambda) * q_[i] * (side - pull)) / rule_.tau;
    const double d_ce = out.has_ce ? q1_[i] - (ids_[i] == out.target ? 1 : 0) : 0;
    gradient_V[static_cast<size_t>(ids_[i])] +=
        static_cast<T>(shares.lk * rule_.lk_weight * d_lk + shares.ce * rule_.ce_weight * d_ce);
  }
  return out;
}

template LkPosition LkLoss::position<float>(std::span<const float>, std::span<const float>, std::span<const TokenId>, double,
                                            std::span<float>);
template LkPosition LkLoss::position<double>(std::span<const double>, std::span<const double>, std::span<const TokenId>, double,
                                             std::span<double>);

template LkPosition LkLoss::position<float>(std::span<const float>, std::span<const float>, std::span<const TokenId>, Shares,
                                            std::span<float>, std::optional<int32_t>);
template LkPosition LkLoss::position<double>(std::span<const double>, std::span<const double>, std::span<const TokenId>, Shares,
                                             std::span<double>, std::optional<int32_t>);

}  // namespace slip
