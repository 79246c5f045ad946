// SPDX-License-Identifier: Apache-2.0
// The privileged driver: knows every actor's motion, sees through walls, drives a kinematic bicycle (wheelbase 2.9 m).
// Speed: IDM towards moving leaders (min form, so that the equilibrium gap is s0 + T v), late constant braking towards
// places to stop, caps before curves and beside whom one passes. Steering: pure pursuit of route plus sideways offset.
#pragma once
#include "sim/world.h"

namespace slip::sim {

struct Plan {
  std::array<FutureState, kFutureSteps> future{};
  Pose start;  // where it begins, in the scene's coordinates; `future` is relative to it
  double start_v = 0, start_a = 0, start_offset = 0;
  bool collided = false, left_lane = false, uncomfortable = false;
  double offset_5s = 0;      // sideways offset from the route, at 5 s
  double max_offset_5s = 0;  // the largest by magnitude until then, less what there was of it at the start (sc.d0 apart)
  bool ok() const { return !collided && !left_lane && !uncomfortable; }
};
/// Drives 6.4 s without the classes whose bit (class_bit) is set in `removed`: from t0, or from `from_step` tenths of a second on
/// after having driven so far with all of them.
Plan drive(const Scene& scene, uint32_t removed = 0, int from_step = 0);

}  // namespace slip::sim
