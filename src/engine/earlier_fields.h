// SPDX-License-Identifier: Apache-2.0
// What answers say of the ones before them, such as those of the frame before: how much of these stays. Inside of engine/.
//
// Fields change with their parents, so two shares are learned: of fields whose parents have all stayed, and of those behind one that has not.
// The first is learned field by field as well. The newest frame weighs a fifth at least; of one field it fades by a tenth with each other one.
// Tests: EarlierFields.*
#pragma once
#include <cstdint>
#include <vector>

#include "decode/draft_length/model.h"
#include "decode/types/context.h"
#include "decode/types/result.h"

namespace slip {

class EarlierFields {
 public:
  /// `answer` was given after `previous`. Null: free text. An answer of another shape than the form says nothing.
  void saw(const PreviousAnswer& previous, const Decoded& answer, const Form* form);
  /// Of all fields (free text: of tokens); the first guess before anything was seen.
  const Persistence& all() const { return all_; }
  /// By field, the odds that it says what the earlier answer did if its parents do. They lean on all(), which counts as two frames.
  void put(std::vector<double>& repeats_F) const;

 private:
  void saw_fields(const PreviousAnswer& previous, const Decoded& answer, const Form& form);
  Persistence all_;
  int64_t frames_ = 0, behind_frames_ = 0;
  std::vector<double> said_again_F_, compared_F_;
};

}  // namespace slip
