// SPDX-License-Identifier: Apache-2.0
// From recorded poses to what a record holds: a history at 4 Hz, a future at 10 Hz, the behaviour that the future amounts to, pictures of
// the cameras' size. What a data set does not tell is marked as unknown (sim::Unknown), not guessed.
#pragma once
#include <array>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/result.h"
#include "image/image.h"
#include "plan/trajectory.h"
#include "sim/record.h"

namespace slip {

/// A record to be, and what its data set calls it.
struct ImportedRecord {
  std::string name;
  sim::Record record;
};

struct TimedPose {
  double t_s = 0;
  Pose pose;  // any flat frame, metres
};

/// The path of a car: poses by ascending time. Positions between them follow a cubic through both with the speeds of their neighbours
/// (central differences), so speeds are continuous.
class Track {
 public:
  /// kBadInput for fewer than two poses, times that do not ascend, numbers that are not below 1e9, steps of more than 100 m/s.
  static Result<Track> of(std::vector<TimedPose> poses, std::string_view name);
  double first_s() const { return poses_.front().t_s; }
  double last_s() const { return poses_.back().t_s; }
  /// Before and behind the recorded time: straight on at the end's speed.
  Waypoint at(double t_s) const;
  Waypoint speed(double t_s) const;  // m/s, in the track's frame
  double yaw(double t_s) const;      // the nearer way round between two poses

 private:
  size_t before(double t_s) const;
  std::vector<TimedPose> poses_;
  std::vector<Waypoint> speeds_;
};

/// What a recording knows of a car's path: a track for each piece between the holes in its times, so that nothing is made up in a hole. A hole is
/// a step of more than three usual (median) ones, of at least 1 s, and every step of more than 2 s.
struct TrackPieces {
  std::vector<Track> pieces;  // in time; none of a pose that stands alone between two holes
  int64_t holes = 0;
  double longest_step_s = 0;  // that is no hole
  /// kBadInput for what Track::of refuses, and where every pose stands alone.
  static Result<TrackPieces> of(std::vector<TimedPose> poses, std::string_view name);
  /// The piece that tells where the car is then, nullptr in a hole. Before the first pose and up to a longest step behind the last: the piece
  /// there, which goes straight on.
  const Track* at(double t_s) const;
};

/// History, future and behaviour at `now_s`, in the ego frame of then. What of the future the track does not reach is continued straight
/// on; below kKnownFutureS of it, future and behaviour are unknown. The history may reach back before the track only where the caller
/// allows it: it is continued likewise.
sim::Labels labels_at(const Track& track, double now_s, sim::Intent intent);
constexpr double kHistoryS = 3.75, kKnownFutureS = 0.1 * static_cast<double>(sim::kImportedFutureSteps);

/// The behaviour of labels whose future is known (plan/feasibility.h), marked as known.
void label_behaviour(sim::Labels& labels);

/// Pictures of a record (front left, front, front right), resized to the cameras' size without keeping the shape; none becomes grey. No
/// picture at all: nothing.
std::vector<uint8_t> record_pictures(const std::array<std::optional<Image>, sim::kCameras>& cameras);

}  // namespace slip
