// SPDX-License-Identifier: Apache-2.0
// The hands of the families: roads, junctions and actors with their motion, drawn from Philox streams keyed by purpose.
// Whoever draws twice in one call names the numbers first: compilers differ in the order in which they evaluate arguments.
#pragma once
#include "sim/world.h"

namespace slip::sim {

/// Along a lane of `ref`: (s, d) at t0, towards +s or -s; from t_change on, `accel` until v_end; sideways to d_end.
struct LaneMotion {
  double s = 0, d = 0, v = 0;
  int direction = 1;
  double t_change = 99, accel = 0, v_end = 0;
  double t_side = 99, side_duration = 2.5, d_end = 0;
};

class Builder {
 public:
  Builder(Scene& scene, uint64_t stream);

  PhiloxStream g;
  Scene& sc;

  double u(double a, double b) { return g.uniform(a, b); }
  bool chance(double p) { return g.chance(p); }

  void straight_road() { bent_road(0, 0, 0); }
  /// Straight for `lead_m`, then an arc of curvature k (clothoid in and out) of `arc_m`.
  void bent_road(double lead_m, double k, double arc_m);
  void curved_all_along(double k);
  /// A junction at s (its centre) with the given arms; turn: +1 left, -1 right, 0 straight on.
  void junction(double s, bool left, bool right, int turn);
  void light(StopKind state);
  void stop_sign();

  Actor& parked(AgentType type, double s, double d, double yaw, Class cls);
  Actor& along(AgentType type, const LaneMotion& m, Class cls);
  /// Across `path` at s, from d in direction sign(-d) or `dir`, walking from t_start on, for `distance_m`.
  Actor& across(const Path& path, AgentType type, double s, double d, int dir, double v, double t_start, double distance_m,
                Class cls);
  /// Along a path of its own; speeds as in LaneMotion.
  Actor& on_path(AgentType type, const Path& path, const LaneMotion& m, Class cls);

  /// Where something must be so that the expert's braking from v0 begins `t_on` seconds after t0.
  double brake_distance(double t_on, double decel = 2.5) const;
  AgentType any_vehicle();
  Rgb car_colour();

 private:
  Actor& add(AgentType type, Class cls);
};

Agent shape_of(AgentType type, PhiloxStream& g);
bool is_person(AgentType type);
/// Standing there all the time.
void stand(Actor& a, const Pose& pose);

void draw_environment(Scene& scene);
void draw_surroundings(Scene& scene);  // parked rows, oncoming cars, decoys, scenery
void draw_family(Builder& b);          // families.cc
/// (s, d) of every track point along the route; after the route is final.
void finish_tracks(Scene& scene);
size_t training_families();

}  // namespace slip::sim
