// SPDX-License-Identifier: Apache-2.0
// The draft lengths that go by data: measured ones, and a classifier's.
#pragma once
#include <memory>

#include "decode/draft_length/policy.h"

namespace slip {

/// What else these draft lengths go by. Not DecodeContext, in which an earlier answer's ids are.
struct DraftLengthBasis {
  DraftLengthTracker* tracker = nullptr;  // null: each answer starts from the calibration
  int32_t most_rows = 0;                  // of a pass; 0: no limit
  bool graph = false;                     // fields grow side by side
  const double* company = nullptr;        // DecodeContext::company
};

/// `model` fits the form (check_draft_length_model).
std::unique_ptr<DraftLengthPolicy> make_measured_draft_length(const Method& method, const Form* form, const DraftLengthModel& model,
                                                              const DraftLengthBasis& basis);
/// For a graph's fields where drafts cost no pass of their own.
std::unique_ptr<DraftLengthPolicy> make_levels_draft_length(const Method& method, const Form& form, const DraftLengthModel& model,
                                                            const DraftLengthBasis& basis);
std::unique_ptr<DraftLengthPolicy> make_pilot_draft_length(const Method& method, const BlockPilot& pilot, const DraftHead* head);

}  // namespace slip
