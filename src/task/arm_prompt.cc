// SPDX-License-Identifier: Apache-2.0
// See arm_prompt.h.
#include "task/arm_prompt.h"

#include "sim/math.h"

namespace slip {

std::string arm_prompt(const sim::ArmSight& sight) {
  const auto milli = [](double v) { return sim::det_round(v * 1000); };
  return fmt::format(
      "object: ahead {:+05} mm, left {:+05} mm, turn {:+05} mrad\ntool: height {:04} mm, roll {:+05} mrad, pitch {:+05} mrad, "
      "fingers {}",
      milli(sight.ahead_m), milli(sight.left_m), milli(sight.turn_rad), milli(sight.height_m), milli(sight.roll_rad),
      milli(sight.pitch_rad), sight.holds ? "closed" : "open");
}

Status check_arm_model(const TaskOptions& task, std::string_view folder) {
  if (task.body == Body::kArm) return {};
  return unsupported(
      "{}: expected a model of an arm (config.json: slipstream: \"form\": \"action\", \"body\": \"arm\"), got one of another task",
      folder);
}

}  // namespace slip
