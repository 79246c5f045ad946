// SPDX-License-Identifier: Apache-2.0
// See reach.h.
#include "sim/reach/reach.h"

#include <algorithm>
#include <cmath>

#include "base/philox.h"
#include "sim/math.h"

namespace slip::sim {

namespace {

constexpr uint64_t kPlaces = 0x2EAC, kStates = 0x2EAD;
constexpr double kBetweenHeightM = 0.03, kBesideM = 0.02, kMostTiltRad = 0.15, kLiftedM = 0.15;
// Above the object at kAboveM until the tool is over it; down to kDownM, closed below kLowM.
constexpr double kAboveM = 0.10, kDownM = 0.014, kLowM = 0.022, kOverM = 0.008, kOverRad = 0.08, kUpM = 0.3;

double rounded_to(double v, double unit) { return static_cast<double>(det_round(v / unit)) * unit; }

}  // namespace

ArmSight ArmSight::rounded() const {
  constexpr double kMilli = 0.001;
  return {rounded_to(ahead_m, kMilli),
          rounded_to(left_m, kMilli),
          rounded_to(turn_rad, kMilli),
          rounded_to(height_m, kMilli),
          rounded_to(roll_rad, kMilli),
          rounded_to(pitch_rad, kMilli),
          holds};
}

std::string_view words(ReachEnd end) {
  constexpr std::string_view kWords[] = {"goes on", "success", "table", "hit", "closed beside", "dropped", "time out"};
  return kWords[static_cast<size_t>(end)];
}

Reach::Reach(uint64_t seed) {
  PhiloxStream g(seed, kPlaces);
  object_.x = g.uniform(0.25, 0.45);
  object_.y = g.uniform(-0.15, 0.15);
  object_.yaw = g.uniform(-0.6, 0.6);
  tool_.x += g.uniform(-0.05, 0.05);
  tool_.y += g.uniform(-0.05, 0.05);
  tool_.z += g.uniform(-0.05, 0.05);
  for (double* angle : {&tool_.roll, &tool_.pitch, &tool_.yaw}) *angle = g.uniform(-0.2, 0.2);
  slide_x_ = g.uniform(-0.03, 0.03);
  slide_y_ = g.uniform(-0.03, 0.03);
}

Reach::Reach(uint64_t seed, const ToolPose& tool, bool holds) : Reach(seed) {
  tool_ = tool;
  holds_ = holds;
  slide_x_ = slide_y_ = 0;
  wait_ = 0;
}

ReachEnd Reach::step(const ArmStep& a) {
  constexpr int kParts = 4;
  const bool slides = waits();
  ++steps_;
  if (slides) {  // half of the rest in every step, and all of it in the last
    const double share = waits() ? 0.5 : 1.0;
    object_.x += share * slide_x_, object_.y += share * slide_y_;
    slide_x_ *= 1 - share, slide_y_ *= 1 - share;
  }
  for (int i = 0; i < kParts; ++i) {
    tool_.x += kArmStepM * a[0] / kParts, tool_.y += kArmStepM * a[1] / kParts, tool_.z += kArmStepM * a[2] / kParts;
    tool_.roll += kArmStepRad * a[3] / kParts, tool_.pitch += kArmStepRad * a[4] / kParts, tool_.yaw += kArmStepRad * a[5] / kParts;
    if (holds_) object_.x = tool_.x, object_.y = tool_.y, object_.yaw = tool_.yaw;
    if (tool_.z < 0) return ReachEnd::kTable;
    if (!holds_ && tool_.z < kObjectHeightM && room() < 0 && std::fabs(along()) < kObjectHalfLengthM) return ReachEnd::kHit;
  }
  const bool closes = a[6] < 0;
  if (holds_ && !closes) return ReachEnd::kDropped;
  if (!holds_ && closes && !between()) return ReachEnd::kClosedBeside;
  holds_ = closes;
  if (holds_ && tool_.z > kLiftedM) return ReachEnd::kSuccess;
  return steps_ >= wait_ + kArmMostSteps ? ReachEnd::kTimeOut : ReachEnd::kGoesOn;
}

ArmSight Reach::sight() const {
  return {object_.x - tool_.x, object_.y - tool_.y, object_.yaw - tool_.yaw, tool_.z, tool_.roll, tool_.pitch, holds_};
}

double Reach::across() const { return (object_.x - tool_.x) * -det_sin(tool_.yaw) + (object_.y - tool_.y) * det_cos(tool_.yaw); }

double Reach::along() const { return (object_.x - tool_.x) * det_cos(tool_.yaw) + (object_.y - tool_.y) * det_sin(tool_.yaw); }

double Reach::room() const {
  const double turn = tool_.yaw - object_.yaw;
  return kFingerM - kObjectHalfWidthM * std::fabs(det_cos(turn)) - kObjectHalfLengthM * std::fabs(det_sin(turn)) -
         std::fabs(across());
}

bool Reach::between() const {
  return tool_.z < kBetweenHeightM && room() >= 0 && std::fabs(along()) < kBesideM && std::fabs(tool_.roll) < kMostTiltRad &&
         std::fabs(tool_.pitch) < kMostTiltRad;
}

ArmStep arm_expert(const ArmSight& s) {
  const bool over = s.ahead_m * s.ahead_m + s.left_m * s.left_m < kOverM * kOverM && std::fabs(s.turn_rad) < kOverRad;
  const double goal = s.holds ? kUpM : over || s.height_m < kObjectHeightM ? kDownM : kAboveM;
  const auto part = [](double missing, double unit) { return std::clamp(0.5 * missing / unit, -1.0, 1.0); };
  const bool closes = s.holds || (over && s.height_m < kLowM);
  return {s.holds ? 0 : part(s.ahead_m, kArmStepM),
          s.holds ? 0 : part(s.left_m, kArmStepM),
          part(goal - s.height_m, kArmStepM),
          part(-s.roll_rad, kArmStepRad),
          part(-s.pitch_rad, kArmStepRad),
          s.holds ? 0 : part(s.turn_rad, kArmStepRad),
          closes ? -1.0 : 1.0};
}

namespace {

/// On the expert's way from the seed's beginning, with a step of its own now and then.
ArmSight on_the_way(uint64_t seed, PhiloxStream& g) {
  Reach world(seed);
  constexpr uint32_t kMost = 18;
  const auto wanted = static_cast<int>(g.below(kMost)) + kArmWaitSteps;
  while (world.steps() < wanted) {
    Reach before = world;
    ArmStep a = world.waits() ? kArmStays : arm_expert(world.sight().rounded());
    const double off = world.waits() ? 0 : g.below(4) == 0 ? 0.5 : 0.02;
    for (size_t i = 0; i + 1 < a.size(); ++i) a[i] = std::clamp(a[i] + g.uniform(-off, off), -1.0, 1.0);
    if (world.step(a) != ReachEnd::kGoesOn) return before.sight();
  }
  return world.sight();
}

/// Of either sign, `least` doubled up to so many times, each as likely: near states matter most and are few.
double spread(PhiloxStream& g, double least, double doublings) {
  constexpr double kLn2 = 0.6931471805599453;
  const double magnitude = least * det_exp(g.uniform() * doublings * kLn2);
  return g.below(2) == 0 ? magnitude : -magnitude;
}

ArmSight anywhere(PhiloxStream& g) {
  ArmSight s;
  s.holds = g.below(6) == 0;
  s.ahead_m = s.holds ? g.uniform(-0.02, 0.02) : spread(g, 0.0005, 9);
  s.left_m = s.holds ? g.uniform(-0.02, 0.02) : spread(g, 0.0005, 9);
  s.turn_rad = s.holds ? g.uniform(-0.2, 0.2) : spread(g, 0.001, 10);
  s.height_m = g.below(2) == 0 ? g.uniform(0.002, 0.06) : g.uniform(0.002, 0.32);
  s.roll_rad = spread(g, 0.001, 8.5);
  s.pitch_rad = spread(g, 0.001, 8.5);
  return s;
}

}  // namespace

ArmSight arm_state(uint64_t seed) {
  PhiloxStream g(seed, kStates);
  return (g.below(2) == 0 ? on_the_way(seed, g) : anywhere(g)).rounded();
}

}  // namespace slip::sim
