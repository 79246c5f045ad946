// SPDX-License-Identifier: Apache-2.0
// Who listens to a decoder's drafts: calibrations, and the trainer of a draft adapter.
#pragma once
#include "decode/sequence/cursor.h"
#include "decode/sequence/draft_view.h"

namespace slip {

/// Sees every tested draft of an answer, its facts and its place (DecodeContext::draft_length_observer). No policy: it decides nothing.
class DraftLengthObserver {
 public:
  virtual ~DraftLengthObserver() = default;
  virtual void seen(const DraftFacts& facts, const Place& place, bool kept) = 0;
};

}  // namespace slip
