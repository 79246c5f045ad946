// SPDX-License-Identifier: Apache-2.0
#include "nn/answers.h"

#include <algorithm>
#include <cmath>

#include "kernels/kernels.h"

namespace slip {

TokenId id_or_lowest(int64_t argmax) { return TokenId{static_cast<int32_t>(std::max<int64_t>(argmax, 0))}; }

bool answer_logits(const Pass& pass, size_t t, std::span<const float> logits_V, PassOutput& out) {
  const int64_t best = argmax(logits_V);
  const Row& row = pass.rows[t];
  out.argmax[t] = row.allowed ? choose_from(logits_V, allowed_of(pass, row)).argmax : id_or_lowest(best);
  return best >= 0 && std::isfinite(logits_V[static_cast<size_t>(best)]);
}

}  // namespace slip
