// SPDX-License-Identifier: Apache-2.0
// Inside of width.cc: the widths that need data.
#pragma once
#include <memory>

#include "decode/width.h"

namespace slip {

/// Does the drafter lay blocks of masks, so that its window is one of positions? Diffusion, or an earlier answer with it behind.
bool lays_blocks(const Method& method);

/// `model` fits the form (check_width_model). Without a tracker each answer starts from the calibration.
std::unique_ptr<WidthPolicy> make_measured_width(const Method& method, const Form* form, const WidthModel& model,
                                                 const DecodeOptions& options);
/// For a graph's fields where drafts cost no pass of their own.
std::unique_ptr<WidthPolicy> make_levels_width(const Method& method, const Form& form, const WidthModel& model,
                                               const DecodeOptions& options);
std::unique_ptr<WidthPolicy> make_pilot_width(const Method& method, const BlockPilot& pilot);
/// `policy`, and `observer` sees what it sees.
std::unique_ptr<WidthPolicy> make_observed_width(std::unique_ptr<WidthPolicy> policy, WidthObserver& observer);

}  // namespace slip
