// SPDX-License-Identifier: Apache-2.0
// A world in which a wrong bin is punished: an arm's tool reaches for an object on a table, grasps it and lifts it. Seven numbers a step in 256
// bins, as OpenVLA writes them (x, y, z, roll, pitch, yaw, gripper). Fingers that come down on the object, go through the table, close beside
// the object or let it go end the episode. Metres, radians; z up from the table, where the object stands. Tests only: no model sees it, its two
// policies are scripts that know the object's place with an error.
#pragma once
#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <string_view>

#include "base/philox.h"
#include "plan/action_bins.h"
#include "sim/math.h"

namespace slip::test {

inline constexpr int kActionNumbers = 7, kMostSteps = 60;
inline constexpr double kStepM = 0.04, kStepRad = 0.25;                          // what a number of 1 moves in a step
inline constexpr double kFinger = 0.026, kHalfWidth = 0.02, kHalfLength = 0.04;  // a finger from the tool's middle; the object
inline constexpr double kHeight = 0.05, kReach = 0.03, kBeside = 0.02, kTilt = 0.15, kLifted = 0.15;

using Action = std::array<double, kActionNumbers>;

struct Place {
  double x = 0, y = 0, z = 0, roll = 0, pitch = 0, yaw = 0;
};

enum class Outcome { kGoesOn, kSuccess, kTable, kHit, kClosedBeside, kDropped, kTimeOut };
inline std::string_view words(Outcome o) {
  constexpr std::string_view kWords[] = {"goes on", "success", "table", "hit", "closed beside", "dropped", "time out"};
  return kWords[static_cast<int>(o)];
}

class Reach {
 public:
  explicit Reach(uint64_t seed) {
    PhiloxStream g(seed, 0x2EAC);
    object_.x = g.uniform(0.25, 0.45);
    object_.y = g.uniform(-0.15, 0.15);
    object_.yaw = g.uniform(-0.6, 0.6);
  }
  const Place& tool() const { return tool_; }
  const Place& object() const { return object_; }
  bool grasped() const { return grasped_; }
  int steps() const { return steps_; }

  Outcome step(const Action& a) {
    constexpr int kParts = 4;
    ++steps_;
    for (int i = 0; i < kParts; ++i) {
      tool_.x += kStepM * a[0] / kParts, tool_.y += kStepM * a[1] / kParts, tool_.z += kStepM * a[2] / kParts;
      tool_.roll += kStepRad * a[3] / kParts, tool_.pitch += kStepRad * a[4] / kParts, tool_.yaw += kStepRad * a[5] / kParts;
      if (tool_.z < 0) return Outcome::kTable;
      if (!grasped_ && tool_.z < kHeight && room() < 0 && std::fabs(along()) < kHalfLength) return Outcome::kHit;
    }
    const bool closes = a[6] < 0;
    if (grasped_ && !closes) return Outcome::kDropped;
    if (!grasped_ && closes && !between()) return Outcome::kClosedBeside;
    grasped_ = closes;
    if (grasped_ && tool_.z > kLifted) return Outcome::kSuccess;
    return steps_ >= kMostSteps ? Outcome::kTimeOut : Outcome::kGoesOn;
  }

 private:
  /// The object's middle from the tool's, across the fingers and along them.
  double across() const {
    return (object_.x - tool_.x) * -sim::det_sin(tool_.yaw) + (object_.y - tool_.y) * sim::det_cos(tool_.yaw);
  }
  double along() const { return (object_.x - tool_.x) * sim::det_cos(tool_.yaw) + (object_.y - tool_.y) * sim::det_sin(tool_.yaw); }
  /// What is left between the object and the nearer finger.
  double room() const {
    const double turn = tool_.yaw - object_.yaw;
    return kFinger - kHalfWidth * std::fabs(sim::det_cos(turn)) - kHalfLength * std::fabs(sim::det_sin(turn)) - std::fabs(across());
  }
  bool between() const {
    return tool_.z < kReach && room() >= 0 && std::fabs(along()) < kBeside && std::fabs(tool_.roll) < kTilt &&
           std::fabs(tool_.pitch) < kTilt;
  }

  Place tool_{0.3, 0, 0.25, 0, 0, 0}, object_;
  bool grasped_ = false;
  int steps_ = 0;
};

/// How far off a policy sees: standard deviations of the object's place and of the tool's own.
struct Sight {
  double place_m = 0, turn_rad = 0, tool_m = 0, tilt_rad = 0;
};

/// Above the object, down when over it, close, up. Half of what is missing in every step.
inline Action policy(const Reach& world, const Sight& sight, uint64_t seed, uint64_t who) {
  PhiloxStream g(seed, 0x51D0 + 1000 * who + static_cast<uint64_t>(world.steps()));
  // Three uniforms are near enough to a normal number here.
  const auto noise = [&](double deviation) {
    const double a = g.uniform(-1, 1), b = g.uniform(-1, 1), c = g.uniform(-1, 1);
    return deviation * (a + b + c);
  };
  const Place& t = world.tool();
  const double dx = world.object().x + noise(sight.place_m) - t.x, dy = world.object().y + noise(sight.place_m) - t.y;
  const double dyaw = world.object().yaw + noise(sight.turn_rad) - t.yaw, z = t.z + noise(sight.tool_m);
  const double roll = t.roll + noise(sight.tilt_rad), pitch = t.pitch + noise(sight.tilt_rad);
  const bool over = std::hypot(dx, dy) < 0.008 && std::fabs(dyaw) < 0.08;
  const bool low = z < 0.022;
  const double goal = world.grasped() ? 0.3 : over || z < 0.05 ? 0.014 : 0.10;
  const auto part = [](double missing, double unit) { return std::clamp(0.5 * missing / unit, -1.0, 1.0); };
  const bool closes = world.grasped() || (over && low);
  return {world.grasped() ? 0 : part(dx, kStepM),
          world.grasped() ? 0 : part(dy, kStepM),
          part(goal - z, kStepM),
          part(-roll, kStepRad),
          part(-pitch, kStepRad),
          world.grasped() ? 0 : part(dyaw, kStepRad),
          closes ? -1.0 : 1.0};
}

}  // namespace slip::test
