// SPDX-License-Identifier: Apache-2.0
#include "lm/lm.h"

#include <cmath>
#include <limits>

namespace slip {

Status Lm::set_taps(std::span<const int32_t>) {
  return unsupported("{}: expected a model whose layers can be tapped for a draft head, got one that cannot", info().name);
}

RowChoice choose_from(std::span<const float> logits_V, std::span<const TokenId> allowed) {
  const size_t n = allowed.empty() ? logits_V.size() : allowed.size();
  const auto id = [&](size_t i) { return allowed.empty() ? TokenId{static_cast<int32_t>(i)} : allowed[i]; };
  const auto logit = [&](size_t i) { return logits_V[static_cast<size_t>(id(i).value)]; };
  constexpr float kNone = -std::numeric_limits<float>::infinity();
  RowChoice out{n > 0 ? id(0) : TokenId{}, {std::numeric_limits<float>::quiet_NaN(), kNone, 0}};
  bool found = false, nan = false;
  for (size_t i = 0; i < n; ++i) {
    const float x = logit(i);
    nan |= std::isnan(x);
    if (std::isnan(x)) continue;
    if (!found || x > out.statistics.largest) {
      if (found) out.statistics.second = out.statistics.largest;
      out.statistics.largest = x;
      out.argmax = id(i);
      found = true;
    } else if (x > out.statistics.second) {
      out.statistics.second = x;
    }
  }
  const bool nothing = !nan && out.statistics.largest == -std::numeric_limits<float>::infinity();  // no id has any probability
  if (nothing) {
    out.statistics.log_sum_exp = out.statistics.largest;
    return out;
  }
  double sum = 0;
  for (size_t i = 0; i < n && !nan; ++i) sum += std::exp(static_cast<double>(logit(i)) - out.statistics.largest);
  out.statistics.log_sum_exp =
      nan ? std::numeric_limits<float>::quiet_NaN() : static_cast<float>(std::log(sum) + out.statistics.largest);
  return out;
}

bool looks_ahead(const Pass& pass, const Row& row) {
  const auto spans = pass.spans.subspan(row.sees_first, row.sees_count);
  return std::any_of(spans.begin(), spans.end(), [&](const SlotSpan& s) { return s.end > row.slot + 1 && s.begin <= row.slot; });
}

void answer_row(const Pass& pass, size_t i, std::span<const float> logits_V, PassOutput& out) {
  const RowChoice choice = choose_from(logits_V, allowed_of(pass, pass.rows[i]));
  out.argmax[i] = choice.argmax;
  if (!pass.rows[i].statistics) return;
  out.statistics.resize(pass.rows.size());
  out.statistics[i] = choice.statistics;
}

}  // namespace slip
