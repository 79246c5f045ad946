// SPDX-License-Identifier: Apache-2.0
// See result.h.
#include "decode/types/result.h"

#include <algorithm>

namespace slip {

void Statistics::accept(int32_t at) {
  ++accepted;
  if (accepted_at.size() <= static_cast<size_t>(at)) accepted_at.resize(static_cast<size_t>(at) + 1, 0);
  ++accepted_at[static_cast<size_t>(at)];
}

void Statistics::add(const Statistics& more) {
  forwards += more.forwards;
  draft_forwards += more.draft_forwards;
  drafter_forwards += more.drafter_forwards;
  rows += more.rows;
  proposed += more.proposed;
  tested += more.tested;
  accepted += more.accepted;
  accepted_at.resize(std::max(accepted_at.size(), more.accepted_at.size()), 0);
  for (size_t i = 0; i < more.accepted_at.size(); ++i) accepted_at[i] += more.accepted_at[i];
  relaxed_accepts += more.relaxed_accepts;
  rounds += more.rounds;
  discarded += more.discarded;
  reused_rows += more.reused_rows;
  nan_rows += more.nan_rows;
  ms.prefill += more.ms.prefill;
  ms.draft += more.ms.draft;
  ms.drafter_prompt += more.ms.drafter_prompt;
  ms.verify += more.ms.verify;
  ms.total += more.ms.total;
}

}  // namespace slip
