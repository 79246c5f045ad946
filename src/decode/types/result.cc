// SPDX-License-Identifier: Apache-2.0
// See result.h.
#include "decode/types/result.h"

namespace slip {

void Statistics::add(const Statistics& more) {
  forwards += more.forwards;
  draft_forwards += more.draft_forwards;
  drafter_forwards += more.drafter_forwards;
  rows += more.rows;
  proposed += more.proposed;
  tested += more.tested;
  accepted += more.accepted;
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
