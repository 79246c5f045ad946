// SPDX-License-Identifier: Apache-2.0
// Scores of a driven track: the forms of NAVSIM (PDMS, EPDMS) and the closed loop's own,
//   S = NC DAC TLC (5 EP + 5 TTC + 2 C) / 12.
// Facts, and where the public scorers differ from their documents: docs/notes/closed-loop.md.
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "drive/score/geometry.h"

namespace slip::drive {

constexpr double kStep = 0.1;  // seconds between states

/// The rear axle's pose and motion.
struct State {
  double x = 0, y = 0, heading = 0, v = 0, a = 0, yaw_rate = 0, yaw_acceleration = 0;
  sim::Pose pose() const { return {x, y, heading}; }
};

enum class Kind : uint8_t { kVehicle, kPedestrian, kBicycle, kOther };  // kOther: cones, barriers, debris
struct OtherPose {
  double x = 0, y = 0, heading = 0, speed = 0;
};
struct Other {
  std::string id;
  Kind kind = Kind::kVehicle;
  double length = 4.5, width = 1.8;
  std::vector<std::optional<OtherPose>> poses;  // by step; behind its end the agent is not there
};
struct Lane {
  Polygon polygon;
  bool on_route = true;
};
/// Red from step `from` to step `to`, both included.
struct RedArea {
  Polygon polygon;
  int from = 0, to = 0;
};
struct Surroundings {
  std::vector<Lane> lanes;
  std::vector<Polygon> drivable, intersections;
  Polygon centre_line;  // a line
  std::vector<RedArea> red;
  std::vector<Other> others;
};

enum class Contact : uint8_t { kStoppedEgo, kStoppedTrack, kActiveRear, kActiveFront, kActiveLateral };
std::string_view name_of(Contact c);  // "stopped_ego", ...
/// The first contact of a kind with an agent.
struct ContactEvent {
  int step = 0;
  size_t other = 0;
  Contact type{};
  bool at_fault = false;
};

/// Were the six series strictly within nuPlan's bounds?
struct Comfort {
  bool lon_acc = true, lat_acc = true, jerk = true, lon_jerk = true, yaw_acc = true, yaw_rate = true;
  bool all() const { return lon_acc && lat_acc && jerk && lon_jerk && yaw_acc && yaw_rate; }
};
/// How acceleration is read off a state. kNavsim: of the box's centre along the heading, none sideways (its bicycle model has none).
/// kLoop: a along, v times yaw rate sideways.
enum class Acceleration : uint8_t { kNavsim, kLoop };
/// Fewer than four states are comfortable.
Comfort comfort_of(std::span<const State> states, const Body& body, Acceleration how);

/// Everything about one track, before it is compared with the expert's.
struct TrackScore {
  double nc = 1, dac = 1, ddc = 1, tlc = 1, ttc = 1, ttc_constant = 1, lane_keeping = 1;
  double oncoming_m = 0, progress_m = 0;
  std::optional<double> least_time_s;  // to a collision at constant velocity; 0 from the first collision at fault on
  std::optional<int> first_off_road, first_red, first_ttc;
  std::vector<ContactEvent> contacts;
  Comfort comfort, comfort_loop;
  double product() const { return nc * dac * ddc * tlc; }
};
TrackScore score_track(std::span<const State> states, const Surroundings& world, const Body& body);

/// EP of NAVSIM: share of the larger of both progresses (each times its four factors); 1 where that is 5 m or less.
double ego_progress(const TrackScore& own, const TrackScore& expert);
/// EP of the closed loop: min(1, own / expert's); 1 where the expert's is 5 m or less.
double ego_progress_loop(const TrackScore& own, const TrackScore& expert);
double pdms(const TrackScore& own, const TrackScore& expert);
double loop_score(const TrackScore& own, const TrackScore& expert);
/// EPDMS. `history_comfort`, `extended_comfort`: 0 or 1. Where the expert has 0 in a term (extended comfort excepted), it counts as 1.
double epdms(const TrackScore& own, const TrackScore& expert, bool history_comfort, bool expert_history_comfort,
             double extended_comfort);

/// NeuroNCAP: 5 without a collision, else 4 max(0, 1 - |relative velocity| / reference). Velocities in m/s.
double neuro_ncap(bool collided, sim::Vec2 ego_velocity, sim::Vec2 other_velocity, double reference_speed);

/// nuPlan's comfort of two plans made `offset` steps apart: 1 if acceleration, jerk, yaw rate and yaw acceleration differ by at most
/// 0.7, 0.5, 0.1, 0.1 root mean square over the steps that both have.
struct ExtendedComfort {
  double acceleration = 0, jerk = 0, yaw_rate = 0, yaw_acceleration = 0;
  bool comfortable() const { return acceleration <= 0.7 && jerk <= 0.5 && yaw_rate <= 0.1 && yaw_acceleration <= 0.1; }
};
ExtendedComfort extended_comfort(std::span<const State> now, std::span<const State> before, size_t offset, const Body& body);

}  // namespace slip::drive
