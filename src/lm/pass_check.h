// SPDX-License-Identifier: Apache-2.0
// What an Lm with an arena asks of a pass before it runs it (contract: lm.h).
#pragma once
#include <cstdint>
#include <span>
#include <vector>

#include "base/result.h"
#include "lm/lm.h"

namespace slip {

/// Lm::set_taps of a model with `count` layers: fills info.tap_layers. kBadInput, and no change, for a layer that it does not have.
Status choose_taps(std::span<const int32_t> layers, int32_t count, LmInfo& info);

class PassCheck {
 public:
  /// `tokens`: rows of the embedding.
  PassCheck(int32_t slots, int64_t tokens) : slots_(slots), tokens_(tokens), written_S_(static_cast<size_t>(slots), 0) {}
  /// kBadInput, kResource or kUnsupported for the first thing that is wrong. Allocates nothing.
  Status operator()(const Pass& pass, const LmInfo& info);
  /// Changes with every pass (Lm::passes).
  uint64_t passes() const { return pass_number_; }

 private:
  Status check_row(const Pass& pass, size_t t, int64_t features);
  int32_t slots_;
  int64_t tokens_;
  std::vector<uint32_t> written_S_;  // number of the pass that last wrote a slot: finds slots named twice in a pass
  uint32_t pass_number_ = 0;
};

}  // namespace slip
