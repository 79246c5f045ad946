// SPDX-License-Identifier: Apache-2.0
// One record: what a driver sees and knows at t0, and the truth. Regenerable from (kSimVersion, seed). Ego frame at t0: x
// forward, y left, metres, origin at the rear axle.
#pragma once
#include <array>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
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
  float frame_s = 0;  // of make_frame: seconds behind the scene's start; record sets hold frames of 0 s alone
};
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

/// Simulates and labels; renders when `with_images`. Same bytes from the same (version, seed, family) on any machine and compiler.
/// kBadInput for an unknown family.
Result<Record> make_record(uint64_t seed, std::optional<uint32_t> family = {}, bool with_images = true);

/// A later frame of the same scene: the ego has followed the expert's plan for t_s (rounded to tenths of a second), actors have
/// moved; history, labels and future are those of that moment, in its own ego frame. t_s = 0 is make_record, byte for byte.
/// kBadInput for t_s outside 0 .. kMostFrameS.
constexpr double kMostFrameS = 1.5;
Result<Record> make_frame(uint64_t seed, std::optional<uint32_t> family, double t_s, bool with_images = true);

/// Record sets: `DIR/index.json` and `DIR/shard-00000.slip`: fixed header, little endian, fixed-size records, memory-mapped.
class RecordSetWriter {
 public:
  static Result<RecordSetWriter> create(const std::filesystem::path& dir, uint64_t first_seed, int64_t count,
                                        std::optional<uint32_t> family);
  RecordSetWriter(RecordSetWriter&&) noexcept;
  ~RecordSetWriter();
  Status add(const Record& r);
  Status finish();  // renames the shards and writes the index
 private:
  struct Impl;
  explicit RecordSetWriter(std::unique_ptr<Impl>);
  std::unique_ptr<Impl> impl_;
};
class RecordSet {
 public:
  /// A set's folder or one shard file. Errors name file, expected, got. Reads headers only: a shard's labels are summed at its first use.
  static Result<RecordSet> open(const std::filesystem::path& path);
  int64_t size() const;
  Result<Labels> labels(int64_t i) const;
  /// kCameras * kImageBytes, memory-mapped; an error for a record without.
  Result<std::span<const uint8_t>> pictures(int64_t i) const;
  /// The same; empty for a record without pictures.
  std::span<const uint8_t> images(int64_t i) const;

 private:
  struct Impl;
  std::shared_ptr<const Impl> impl_;
};

}  // namespace slip::sim
