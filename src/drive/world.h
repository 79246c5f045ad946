// SPDX-License-Identifier: Apache-2.0
// A scene that goes on: 12 s at 10 Hz around an ego that somebody drives. Actors follow their scripts; reactive vehicles keep their path and
// re-time their speed by the intelligent driver model towards the ego and whoever of them is ahead on the same way. Coordinates are the
// scene's: the ego's frame at the start.
#pragma once
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "drive/control.h"
#include "drive/score/score.h"
#include "sim/world.h"
#include "task/prompt.h"

namespace slip::drive {

constexpr int kDriveSteps = 120;  // tenths of a second
inline const Body kEgoBody{sim::kEgoFront + sim::kEgoRear, 2 * sim::kEgoHalfWidth, (sim::kEgoFront - sim::kEgoRear) / 2};

/// Where an actor is, and how fast along its heading.
using ActorNow = OtherPose;

class World {
 public:
  /// The accepted scene of (seed, family), its tracks long enough. kBadInput for an unknown family.
  static Result<World> make(uint64_t seed, uint32_t family, bool reactive);

  const sim::Scene& scene() const { return scene_; }
  uint64_t seed() const { return seed_; }
  uint32_t family() const { return family_; }
  /// Lets actors decide for the tenth of a second from `step` on, in sight of the ego there.
  void decide(int step, const Motion& ego);
  /// Actors at a time within the tenth of a second last decided for.
  std::vector<ActorNow> actors_at(double t_s) const;
  /// What cameras see at that time.
  sim::Moment moment(double t_s, const Motion& ego) const;
  /// The scene as the privileged driver sees it at step `step` from `ego`: actors go on by their scripts from where they are.
  sim::Scene seen_from(int step, const Motion& ego, double a) const;
  /// One more tenth of a second before the stop line, or not.
  void note_standing(const Motion& ego);
  /// The ego before the start: t <= 0.
  sim::EgoState history(double t_s) const;
  /// What the route asks for now: the scene's manoeuvre until it is done, then straight on.
  sim::Intent intent(const Motion& ego) const;
  /// Lanes, road, lights and centre line; without others, whose poses an episode records.
  Surroundings map() const;
  /// An actor without its poses.
  Other other(size_t actor) const;

 private:
  struct Line {  // an actor's way
    std::vector<sim::Vec2> points;
    std::vector<double> arc, yaw;
    double length() const { return arc.empty() ? 0 : arc.back(); }
    sim::Pose at(double s) const;
  };
  struct Live {
    bool reacts = false, apart = false;  // apart: no longer where its script says
    double s = 0, v = 0, s_next = 0, v_next = 0;
  };
  struct Leader {
    double gap = 0, speed = 0;
  };
  World() = default;
  std::optional<Leader> leader_of(size_t i, const Motion& ego) const;
  std::optional<Leader> ahead_on(size_t i, const sim::Pose& centre, double length, double width, double speed) const;
  ActorNow now(size_t i, bool next) const;

  sim::Scene scene_;
  uint64_t seed_ = 0;
  uint32_t family_ = 0;
  int step_ = 0;
  std::vector<Line> lines_;
  std::vector<Live> live_;
};

}  // namespace slip::drive
