// SPDX-License-Identifier: Apache-2.0
// Reach and grasp: an arm's tool comes down over an object on a table, closes its fingers and lifts. A step is seven numbers in -1 .. 1, as
// OpenVLA's actions are: x, y, z, roll, pitch, yaw of the tool, and the gripper (below 0: closed). Fingers that come down on the object, go through
// the table, close beside the object or let it go end the episode: here a wrong number is punished, which a car's next accelerations never
// are. Metres and radians; z up from the table, where the object stands. A function of the seed and the steps, the same on every machine.
#pragma once
#include <array>
#include <cstdint>
#include <string_view>

namespace slip::sim {

inline constexpr int kArmNumbers = 7;
using ArmStep = std::array<double, kArmNumbers>;

inline constexpr double kArmStepM = 0.04, kArmStepRad = 0.25;  // what a number of 1 moves in a step
/// A finger from the tool's middle, half of the object across and along: 6 mm are left between a finger and the object at best.
inline constexpr double kFingerM = 0.026, kObjectHalfWidthM = 0.02, kObjectHalfLengthM = 0.04, kObjectHeightM = 0.05;
/// The object slides to rest in so many steps, in which the arm is told to stay: LIBERO's loop waits as long before it asks a policy.
inline constexpr int kArmWaitSteps = 10;
inline constexpr int kArmMostSteps = 60;  // behind those

struct ToolPose {
  double x = 0, y = 0, z = 0, roll = 0, pitch = 0, yaw = 0;
};

/// What an arm is told of the moment: where the object is from the tool, in the world's axes, and how the tool stands.
struct ArmSight {
  double ahead_m = 0, left_m = 0, turn_rad = 0;  // of the object, less the tool's
  double height_m = 0, roll_rad = 0, pitch_rad = 0;
  bool holds = false;
  /// In whole millimetres and milliradians: what arm_prompt says.
  ArmSight rounded() const;
};

enum class ReachEnd : uint8_t { kGoesOn, kSuccess, kTable, kHit, kClosedBeside, kDropped, kTimeOut };
std::string_view words(ReachEnd end);  // "goes on", "success", "table", "hit", "closed beside", "dropped", "time out"

/// One episode.
class Reach {
 public:
  /// Where tool and object begin.
  explicit Reach(uint64_t seed);
  /// The same with the tool elsewhere, the object at rest and no wait: states that an episode may come to.
  Reach(uint64_t seed, const ToolPose& tool, bool holds);
  ReachEnd step(const ArmStep& a);
  ArmSight sight() const;
  const ToolPose& tool() const { return tool_; }
  const ToolPose& object() const { return object_; }
  bool holds() const { return holds_; }
  int steps() const { return steps_; }
  bool waits() const { return steps_ < wait_; }  // the step that comes is one of the wait

 private:
  double across() const;  // the object's middle from the tool's, across the fingers
  double along() const;   // ... and along them
  double room() const;    // what is left between the object and the nearer finger
  bool between() const;   // is the object where closing fingers take it?
  ToolPose tool_{0.3, 0, 0.25, 0, 0, 0}, object_;
  double slide_x_ = 0, slide_y_ = 0;  // that the object has yet to come
  bool holds_ = false;
  int steps_ = 0, wait_ = kArmWaitSteps;
};

/// Stays where it is with open fingers.
inline constexpr ArmStep kArmStays{0, 0, 0, 0, 0, 0, 1};
/// Above the object, down when over it, close, up: half of what is missing in every step.
ArmStep arm_expert(const ArmSight& sight);

/// A state to learn from, keyed by `seed`: half of them on an expert's way that was disturbed, half anywhere around the object, near it as often as
/// far from it.
ArmSight arm_state(uint64_t seed);

}  // namespace slip::sim
