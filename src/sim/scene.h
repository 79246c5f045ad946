// SPDX-License-Identifier: Apache-2.0
// What a simulated moment is: everything that cameras, labels and the closed loop may ask of it. World frame: x, y on the
// ground, z up, metres, radians, seconds. `world/*` makes moments and moves them, `render` draws them.
#pragma once
#include <cstdint>
#include <vector>

namespace slip::sim {

struct Vec2 {
  double x = 0, y = 0;
};
struct Pose {
  double x = 0, y = 0, yaw = 0;
};
struct Rgb {
  uint8_t r = 0, g = 0, b = 0;
};

/// A convex polygon on the ground, counter-clockwise; later patches lie over earlier ones.
enum class Ground : uint8_t {
  kGrass,
  kAsphalt,
  kSidewalk,
  kLaneLineWhite,
  kLaneLineYellow,
  kStopLine,
  kCrosswalk,
  kBikeLane,
  kPothole,
  kPuddle,
  kParking
};
struct GroundPatch {
  Ground kind{};
  std::vector<Vec2> corners;
};

enum class AgentType : uint8_t {
  kCar,
  kTruck,
  kBus,
  kSchoolBus,
  kGarbageTruck,
  kMotorcycle,
  kCyclist,
  kPedestrian,
  kAnimal,
  kAmbulance,
  kFireTruck,
  kPolice,
  kCone,
  kBarrier,
  kDebris,
  kWorker,
  kTractor
};
/// Lamps and parts that carry information.
struct AgentLooks {
  Rgb colour{};
  bool brake = false, indicator_left = false, indicator_right = false, beacons = false, hazard = false, door_open = false,
       stop_arm = false;
};
struct Agent {
  uint32_t id = 0;
  AgentType type{};
  Pose pose;  // centre of the footprint
  double speed_mps = 0;
  double length = 4.5, width = 1.8, height = 1.5;
  AgentLooks looks;
};

enum class LightState : uint8_t { kRed, kYellow, kGreen };
/// Faces along `pose.yaw` (towards the drivers that it controls); lamp centre at `height`.
struct TrafficLight {
  Pose pose;
  double height = 4.5;
  LightState state{};
};
enum class SignKind : uint8_t { kStop, kYield, kSpeedLimit, kRoadWork, kNoTurn, kSchoolZone, kPedestrianCrossing };
struct Sign {
  SignKind kind{};
  Pose pose;
  double height = 2.2;
  int value = 0;
};
/// Buildings, trees, poles: scenery that carries no label.
enum class SceneryKind : uint8_t { kBuilding, kTree, kPole, kParkedRow };
struct Scenery {
  SceneryKind kind{};
  Pose pose;
  double length = 10, width = 10, height = 8;
  Rgb colour{};
};

enum class Lighting : uint8_t { kDay, kDusk, kNight };
enum class Weather : uint8_t { kClear, kRain, kFog, kSnow };
struct Environment {
  Lighting lighting{};
  Weather weather{};
  double fog_beta_per_m = 0;  // extinction: transmittance exp(-beta z)
  double sun_azimuth_rad = 0.7;
  bool wet = false, icy = false;
  uint64_t texture_seed = 0;
};

/// Everything visible at one instant.
struct Moment {
  Pose ego;  // rear axle
  double ego_speed_mps = 0;
  Environment env;
  std::vector<GroundPatch> ground;
  std::vector<Agent> agents;
  std::vector<TrafficLight> lights;
  std::vector<Sign> signs;
  std::vector<Scenery> scenery;
};

/// Pinhole camera fixed to the ego: at (x forward, 0, height), yaw to the left, horizontal field of view.
struct Camera {
  double yaw_rad = 0, forward_m = 1.5, height_m = 1.6, fov_rad = 1.2, pitch_rad = 0;
  int width = 420, height = 448;
};

}  // namespace slip::sim
