// SPDX-License-Identifier: Apache-2.0
// One record: what a driver sees and knows at t0, and the truth. Regenerable from (kSimVersion, seed). Ego frame at t0: x
// forward, y left, metres, origin at the rear axle.
#pragma once
#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "sim/cot_labels.h"
#include "sim/scene.h"

namespace slip::sim {

constexpr uint32_t kSimVersion = 1;

enum class Intent : uint8_t { kGoStraight, kGoLeft, kGoRight };
enum class Longitudinal : uint8_t { kKeepSpeed, kSpeedUp, kSlowDown, kComeToStop };
enum class Lateral : uint8_t { kGoStraight, kLaneFollow, kTurnLeft, kTurnRight, kChangeLeft, kChangeRight };
std::string_view words(Longitudinal v);  // "keep speed", "speed up", "slow down", "come to stop"
std::string_view words(Lateral v);       // "go straight", "lane follow", "turn left", "turn right", "change left", "change right"

/// Fast-dDrive's twelve classes, in the order of its form.
constexpr std::array<std::string_view, 12> kObjectClasses = {
    "nearby_vehicle", "pedestrian",        "cyclist", "construction",    "traffic_element",     "weather_condition",
    "road_hazard",    "emergency_vehicle", "animal",  "special_vehicle", "conflicting_vehicle", "door_opening_vehicle"};

struct EgoState {
  float t_s = 0, x = 0, y = 0, vx = 0, vy = 0, ax = 0, ay = 0;
};
struct FutureState {
  float x = 0, y = 0, yaw = 0, v = 0, a = 0, kappa = 0;
};

/// What an imported record's data set did not tell (Labels::unknown): there the labels hold a stand-in that is neither taught nor measured.
/// Simulated records know everything.
enum Unknown : uint32_t {
  kUnknownObjects = 1,      // critical, visible, causal
  kUnknownExplanation = 2,  // explanation
  kUnknownBehaviour = 4,    // longitudinal, lateral
  kUnknownFuture = 8,       // future
  kImported = 16,           // not made from `seed` and `family`, which mean nothing
};

/// What a body looks like, as far as grounding tells (train/data/grounding.h).
enum class Seen : uint8_t {
  kNothing,
  kVehicle,
  kPedestrian,
  kCyclist,
  kConstruction,
  kTraffic,
  kGreen,
  kHazard,
  kEmergency,
  kAnimal,
  kSpecial,
  kDoor
};
constexpr int kSeenKinds = 12;

/// A box that stands on the ground, or hangs: lamps, signs. In the ego frame; metres and radians, low and high above the ground.
struct SeenBody {
  Seen what{};
  float x = 0, y = 0, yaw = 0, length = 0, width = 0, low = 0, high = 0;
  bool operator==(const SeenBody&) const = default;
};

/// Truth and inputs, without pixels.
struct Labels {
  uint64_t seed = 0;
  uint32_t family = 0;
  Intent intent{};
  std::array<EgoState, 16> history{};  // t = -3.75 .. 0 s, 4 Hz, oldest first
  std::array<bool, 12> critical{};     // the form's answer
  std::array<bool, 12> visible{}, causal{};
  Longitudinal longitudinal{};
  Lateral lateral{};
  std::string explanation;               // English, at most 600 bytes, no quotes, no digits of the trajectory
  std::array<FutureState, 64> future{};  // 10 Hz, t = 0.1 .. 6.4 s, expert
  bool pre_onset = false;                // the manoeuvre starts more than 0.5 s after t0
  float v0_mps = 0;
  float frame_s = 0;     // of make_frame: seconds behind the scene's start; record sets hold frames of 0 s alone
  uint32_t unknown = 0;  // of Unknown
  /// What stands around the ego (record/seen.h), where the scene that `seed` makes does not tell; of others it is made when asked for.
  std::optional<std::vector<SeenBody>> bodies;
  /// The texts of drive-cot (cot.h), where the seed does not tell and somebody did; beside bodies alone.
  std::shared_ptr<const CotLabels> cot;
};
/// How many tenths of a second of `future` are known, from the first on: all of a simulated record; 5 s of an imported one
/// (import/track.h), behind which a stand-in goes straight on.
constexpr size_t kImportedFutureSteps = 50;
inline size_t known_future_steps(const Labels& l) {
  if ((l.unknown & kUnknownFuture) != 0) return 0;
  return (l.unknown & kImported) != 0 ? kImportedFutureSteps : l.future.size();
}
/// Future position at t seconds (linear between the 10 Hz samples), t in (0, 6.4].
Vec2 future_at(const Labels& l, double t_s);

/// Three cameras, front-left (yaw +45 deg), front, front-right (-45 deg), RGB interleaved, 448 rows x 420 columns.
constexpr int kCameras = 3, kImageWidth = 420, kImageHeight = 448;
constexpr size_t kImageBytes = size_t{kImageWidth} * kImageHeight * 3;

struct Record {
  Labels labels;
  std::vector<uint8_t> images;  // kCameras * kImageBytes
};

std::span<const std::string_view> family_names();
/// The family that a seed belongs to when none is asked for: seed-hashed over all training families.
uint32_t family_of_seed(uint64_t seed);

}  // namespace slip::sim
