// SPDX-License-Identifier: Apache-2.0
// What an arm's model is asked: the state of sim/reach/reach.h in words, as a detector and the joints' encoders would tell it. No picture: what is
// measured here is what wrong numbers of an action do, and not how well a small tower sees.
#pragma once
#include <string>

#include "sim/reach/reach.h"
#include "task/prompt.h"

namespace slip {

/// "object: ahead +0142 mm, left -0037 mm, turn +0215 mrad\ntool: height 0250 mm, roll +0003 mrad, pitch -0120 mrad, fingers open", in whole
/// numbers of four digits and a sign.
std::string arm_prompt(const sim::ArmSight& sight);

/// Is it a model of this arm, "body": "arm" of its config.json? kUnsupported where it is not.
Status check_arm_model(const TaskOptions& task, std::string_view folder);

}  // namespace slip
