// SPDX-License-Identifier: Apache-2.0
// Who plans: the floors and the ceiling that every table of a closed loop shows beside a model. Stay, constant velocity, constant turn rate,
// the intelligent driver behind whoever is ahead in the lane, the privileged expert.
#pragma once
#include <array>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/cancel.h"
#include "drive/latency.h"
#include "drive/world.h"

namespace slip::drive {

/// What a plan is made of.
struct Situation {
  const World& world;
  int64_t time_ms = 0;    // of the picture
  int64_t origin_ms = 0;  // of the plan's beginning
  Motion ego;             // where the picture is taken
  Motion origin;          // where the plan begins; ahead of the ego in mode async+ahead
  double acceleration = 0, curvature = 0;
  std::array<sim::EgoState, 16> history{};  // in the frame of the origin
  sim::Intent intent{};
};

struct Planned {
  std::vector<sim::Vec2> points;  // world coordinates, `dt` apart, the first at the origin (but for averages)
  double dt = 0.25;
  bool valid = true;                 // an answer without a plan stays where it is
  Counts counts;                     // of the whole answer
  Counts ready;                      // until the plan's last field was decided
  int64_t tested = 0, accepted = 0;  // drafts
};

class Planner {
 public:
  virtual ~Planner() = default;
  virtual Result<Planned> plan(const Situation& s, const CancelToken& cancel) = 0;
};

/// "stay", "constant-velocity", "constant-turn", "idm", "expert", "expert-waypoints" (his plan said in five waypoints of half metres).
std::vector<std::string_view> baseline_names();
/// Null for another name.
std::unique_ptr<Planner> baseline(std::string_view name);

/// Points on the route's lane from the origin on, one every `dt`, at the speeds that accelerations give, each of which holds for half a second:
/// for models that give no steering.
std::vector<sim::Vec2> along_route(const Situation& s, std::span<const double> accelerations_mps2, double dt);

/// Local points (x forward, y left, the origin left out) in the world, the origin in front.
std::vector<sim::Vec2> to_world(std::span<const sim::Vec2> local, const Motion& origin);

}  // namespace slip::drive
