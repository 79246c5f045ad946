// SPDX-License-Identifier: Apache-2.0
// A simulated scene: road, rules, weather, actors with their whole motion, and the ego's task. The world frame is the ego's
// frame at t0. Actors do not react, so that taking one class away leaves the others as they were: a counterfactual differs in
// that class alone. Scenes are drawn by family (families.cc), driven by the expert (expert.h) and labelled (labels.h).
#pragma once
#include <array>
#include <cstdint>
#include <optional>
#include <vector>

#include "base/philox.h"
#include "base/result.h"
#include "sim/path.h"
#include "sim/record.h"
#include "sim/scene.h"

namespace slip::sim {

/// Index into kObjectClasses; kNone is scenery with wheels.
enum class Class : int8_t {
  kNone = -1,
  kNearby,
  kPedestrian,
  kCyclist,
  kConstruction,
  kTraffic,
  kWeather,
  kHazard,
  kEmergency,
  kAnimal,
  kSpecial,
  kConflicting,
  kDoor
};
constexpr uint32_t class_bit(Class c) { return c == Class::kNone ? 0U : 1U << static_cast<int>(c); }

constexpr int kFutureSteps = 64;                // 10 Hz
constexpr int kTrackSteps = kFutureSteps + 31;  // the expert looks 3 s past the horizon
constexpr double kDt = 0.1;
constexpr double kLane = 3.5;
constexpr double kEgoFront = 3.8, kEgoRear = 1.0, kEgoHalfWidth = 0.95;

/// One instant of an actor: pose and speed in the world; (s, d) and half extents along and across the ego's route.
struct TrackPoint {
  double x = 0, y = 0, yaw = 0, v = 0, s = 0, d = 0, half_s = 0, half_d = 0;
};
struct Actor {
  Agent agent;  // looks and size; pose and speed are those of t0
  Class cls = Class::kNone;
  double door_m = 0;  // how far an open door reaches out to the left
  std::array<TrackPoint, kTrackSteps> track{};
  std::vector<TrackPoint> later{};  // behind the track's end, of scenes drawn for longer (Scene::later_steps)
  /// Step k; what is asked beyond the end stands still.
  const TrackPoint& at(int k) const {
    const auto i = static_cast<size_t>(k);
    if (i < track.size() || later.empty()) return track[i < track.size() ? i : track.size() - 1];
    return later[i - track.size() < later.size() ? i - track.size() : later.size() - 1];
  }
  TrackPoint& point(int k) { return k < kTrackSteps ? track[static_cast<size_t>(k)] : later[static_cast<size_t>(k - kTrackSteps)]; }
};

struct Road {
  int left_lanes = 0, right_lanes = 0;  // same direction, beside the ego's
  int opposite_lanes = 1;
  bool dashed_centre = false;  // the expert may use the opposite lane to pass
  bool parking_right = false, parking_left = false, bike_lane = false, sidewalk = true;
  double left_edge() const;   // of the asphalt, metres left of the ego lane's centre
  double right_edge() const;  // negative
  double centre() const { return kLane * (left_lanes + 0.5); }
};
struct Junction {
  bool present = false, left = false, right = false;
  double s = 0, half_width = kLane;
};
enum class StopKind : uint8_t { kNone, kRed, kYellow, kGreen, kSign };

struct Scene {
  uint64_t seed = 0;
  uint32_t family = 0, attempt = 0;
  int later_steps = 0;  // of tracks behind kTrackSteps: closed loops last longer than a record looks ahead
  Path ref, route;      // the road's course in the ego's lane; the ego's way
  Road road;
  Junction junction;
  Environment env;
  std::vector<Actor> actors;
  std::vector<TrafficLight> lights;
  std::vector<Sign> signs;
  std::vector<Scenery> scenery;
  std::vector<GroundPatch> extra_ground;
  std::vector<double> crosswalks;        // s on ref
  std::optional<double> exit_crosswalk;  // s on route
  StopKind stop = StopKind::kNone;
  double stop_s = 0;
  Intent intent{};
  double v0 = 0, v_set = 0, a0 = 0, brake_began_s = 0;  // a0 since brake_began_s (negative time)
  double d0 = 0;
  double react_s = 0.7;           // wishes for another speed wait until then
  double shift = 0, shift_s = 0;  // a lane change that the route demands: metres to the left, from when
  double usual_v = -1;            // by which the expert judges what to pass; below 0: v0
  int stood = 0;                  // tenths of a second that the ego has stood before the stop sign
};

/// Above this the expert slows for the weather, metres per second.
double weather_speed(const Environment& env);
bool adverse(const Environment& env);

/// Draws the scene of (seed, family, attempt). Never fails; the expert may refuse to drive it.
Scene draw_scene(uint64_t seed, uint32_t family, uint32_t attempt, int later_steps = 0);
/// What the cameras see at time t in 0 .. 6.4 s, with the ego at `ego`.
Moment moment_of(const Scene& scene, double t_s, Pose ego, double ego_speed_mps);

/// What the cameras of make_frame see.
Result<Moment> moment_at(uint64_t seed, std::optional<uint32_t> family, double t_s = 0);

/// The accepted scene with its labels, and how many draws were refused before it: because the expert failed, and because it
/// acted on something that no camera shows.
struct Drawn {
  Scene scene;
  Labels labels;
  int rejected = 0, unseen = 0;
};
Result<Drawn> draw_accepted(uint64_t seed, std::optional<uint32_t> family);

/// A scene some time on, as the ego sees it that then is at `ego` of the scene's coordinates with this speed and acceleration. Where
/// actors are told from step `step` of their tracks on. For frames of records and for the closed loop.
Scene seen_by(const Scene& whole, const Pose& ego, double v, double a, double offset, int step);

/// A frame of an accepted scene: the scene in the ego's coordinates of that time, what is true of it, and where
/// the ego is in the coordinates of the whole scene.
struct DrawnFrame {
  Scene whole, scene;
  Labels labels;
  double t_s = 0;
  Pose ego;
  double ego_speed_mps = 0;
};
Result<DrawnFrame> draw_frame(uint64_t seed, std::optional<uint32_t> family, double t_s);

}  // namespace slip::sim
