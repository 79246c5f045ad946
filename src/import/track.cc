// SPDX-License-Identifier: Apache-2.0
// See track.h.
#include "import/track.h"

#include <algorithm>
#include <cmath>
#include <numbers>

#include "plan/feasibility.h"

namespace slip {
namespace {

Waypoint scaled(Waypoint w, double by) { return {w.x * by, w.y * by}; }
Waypoint sum(Waypoint a, Waypoint b) { return {a.x + b.x, a.y + b.y}; }
Waypoint place(const TimedPose& p) { return {p.pose.x, p.pose.y}; }
Waypoint rate(const TimedPose& a, const TimedPose& b) { return scaled(sum(place(b), scaled(place(a), -1)), 1 / (b.t_s - a.t_s)); }
constexpr double kMost = 1e9;  // seconds of Unix time, metres of any map
double turned(double from, double to) { return std::remainder(to - from, 2 * std::numbers::pi); }

// A road car, as in task/ego.cc: 100 m/s is 360 km/h. A place a metre off is noise, which short steps make much of.
constexpr double kMostSpeed = 100, kNoise = 1;

Status check_poses(std::span<const TimedPose> poses, std::string_view name) {
  if (poses.size() < 2) return bad_input("{}: expected at least two poses, got {}", name, poses.size());
  for (size_t i = 0; i < poses.size(); ++i) {
    const TimedPose& p = poses[i];
    const bool sane = std::abs(p.t_s) < kMost && std::abs(p.pose.x) < kMost && std::abs(p.pose.y) < kMost;
    if (!sane || !std::isfinite(p.pose.yaw_rad))  // NaN is not below either
      return bad_input("{}: expected times and places below 1e9 in pose {}, got others", name, i);
    if (i == 0) continue;
    const TimedPose& before = poses[i - 1];
    const double took = p.t_s - before.t_s, way = std::hypot(p.pose.x - before.pose.x, p.pose.y - before.pose.y);
    if (took < 1e-6) return bad_input("{}: expected times that ascend, got {} s after {} s", name, p.t_s, before.t_s);
    if (way > kNoise + kMostSpeed * took)
      return bad_input(
          "{}: pose {} at {:.9g} s: expected a place that {} m/s lead to, got one {:.6g} m away from the pose {:.6g} s before",
          name, i, p.t_s, kMostSpeed, way, took);
  }
  return {};
}

}  // namespace

Result<Track> Track::of(std::vector<TimedPose> poses, std::string_view name) {
  SLIP_TRY_(check_poses(poses, name));
  Track out;
  const size_t n = poses.size();
  for (size_t i = 0; i < n; ++i) out.speeds_.push_back(rate(poses[i > 0 ? i - 1 : 0], poses[std::min(i + 1, n - 1)]));
  out.poses_ = std::move(poses);
  return out;
}

namespace {

// Three usual steps bridge two poses that are lacking. Up to 1 s nothing is a hole: so much a cubic may bridge (task/ego.cc). Above 2 s
// everything is, since a history has 3.75 s.
constexpr double kUsualSteps = 3, kLeastHole = 1, kMostStep = 2;

double longest_step(std::span<const TimedPose> poses) {
  std::vector<double> steps;
  for (size_t i = 1; i < poses.size(); ++i) steps.push_back(poses[i].t_s - poses[i - 1].t_s);
  const auto middle = steps.begin() + static_cast<std::ptrdiff_t>(steps.size() / 2);
  std::nth_element(steps.begin(), middle, steps.end());
  return std::clamp(kUsualSteps * *middle, kLeastHole, kMostStep);
}

}  // namespace

Result<TrackPieces> TrackPieces::of(std::vector<TimedPose> poses, std::string_view name) {
  SLIP_TRY_(check_poses(poses, name));
  TrackPieces out;
  out.longest_step_s = longest_step(poses);
  constexpr double kRounding = 1e-6;  // of times: 2 s apart is no hole at 2 s
  for (size_t first = 0, i = 1; i <= poses.size(); ++i) {
    const bool last = i == poses.size();
    if (!last && poses[i].t_s - poses[i - 1].t_s <= out.longest_step_s + kRounding) continue;
    const std::span piece = std::span(poses).subspan(first, i - first);
    if (piece.size() >= 2) {
      SLIP_TRY(Track track, Track::of({piece.begin(), piece.end()}, name));
      out.pieces.push_back(std::move(track));
    }
    out.holes += !last;
    first = i;
  }
  if (out.pieces.empty()) return bad_input("{}: expected two poses at most {} s apart, got none", name, out.longest_step_s);
  return out;
}

const Track* TrackPieces::at(double t_s) const {
  constexpr double kSlack = 0.05;  // a clock of pictures a little off that of poses
  const auto piece = std::partition_point(pieces.begin(), pieces.end(), [&](const Track& t) { return t.last_s() + kSlack < t_s; });
  if (piece == pieces.end()) return t_s <= pieces.back().last_s() + longest_step_s ? &pieces.back() : nullptr;
  return piece == pieces.begin() || t_s >= piece->first_s() - kSlack ? &*piece : nullptr;
}

size_t Track::before(double t_s) const {
  const auto behind = std::upper_bound(poses_.begin(), poses_.end(), t_s, [](double t, const TimedPose& p) { return t < p.t_s; });
  const auto i = behind == poses_.begin() ? 0 : static_cast<size_t>(behind - poses_.begin()) - 1;
  return std::min(i, poses_.size() - 2);
}

Waypoint Track::at(double t_s) const {
  if (t_s <= first_s()) return sum(place(poses_.front()), scaled(speeds_.front(), t_s - first_s()));
  if (t_s >= last_s()) return sum(place(poses_.back()), scaled(speeds_.back(), t_s - last_s()));
  const size_t i = before(t_s);
  const double h = poses_[i + 1].t_s - poses_[i].t_s, u = (t_s - poses_[i].t_s) / h, v = 1 - u;
  // Hermite's cubic: both places, both speeds.
  return sum(sum(scaled(place(poses_[i]), v * v * (1 + 2 * u)), scaled(place(poses_[i + 1]), u * u * (3 - 2 * u))),
             sum(scaled(speeds_[i], h * u * v * v), scaled(speeds_[i + 1], -h * u * u * v)));
}

Waypoint Track::speed(double t_s) const {
  if (t_s <= first_s()) return speeds_.front();
  if (t_s >= last_s()) return speeds_.back();
  const size_t i = before(t_s);
  const double u = (t_s - poses_[i].t_s) / (poses_[i + 1].t_s - poses_[i].t_s);
  return sum(scaled(speeds_[i], 1 - u), scaled(speeds_[i + 1], u));
}

double Track::yaw(double t_s) const {
  if (t_s <= first_s()) return poses_.front().pose.yaw_rad;
  if (t_s >= last_s()) return poses_.back().pose.yaw_rad;
  const size_t i = before(t_s);
  const double u = (t_s - poses_[i].t_s) / (poses_[i + 1].t_s - poses_[i].t_s), from = poses_[i].pose.yaw_rad;
  return from + u * turned(from, poses_[i + 1].pose.yaw_rad);
}

namespace {

constexpr double kAccelerationOver = 0.25;  // s; one step of the history, as WOD-E2E's own accelerations are

sim::EgoState history_state(const Track& track, const Pose& now, double now_s, double t_s) {
  const Waypoint at = to_ego(track.at(now_s + t_s), now);
  const auto turn = [&](Waypoint w) { return to_ego({w.x + now.x, w.y + now.y}, now); };  // a vector, not a place
  const Waypoint v = turn(track.speed(now_s + t_s)), before = turn(track.speed(now_s + t_s - kAccelerationOver));
  const Waypoint a = scaled(sum(v, scaled(before, -1)), 1 / kAccelerationOver);
  const auto f = [](double x) { return static_cast<float>(x); };
  return {f(t_s), f(at.x), f(at.y), f(v.x), f(v.y), f(a.x), f(a.y)};
}

sim::FutureState future_state(const Track& track, const Pose& now, double now_s, double t_s) {
  constexpr double kStep = 0.1;
  const auto at = [&](double t) { return now_s + t; };
  const Waypoint p = to_ego(track.at(at(t_s)), now), v = track.speed(at(t_s)), earlier = track.speed(at(t_s - kStep));
  const double speed = std::hypot(v.x, v.y), was = std::hypot(earlier.x, earlier.y);
  const double yaw = turned(now.yaw_rad, track.yaw(at(t_s))), bend = turned(track.yaw(at(t_s - kStep)), track.yaw(at(t_s)));
  const double way = speed * kStep;
  const auto f = [](double x) { return static_cast<float>(x); };
  return {f(p.x), f(p.y), f(yaw), f(speed), f((speed - was) / kStep), f(way > 0.05 ? bend / way : 0)};
}

}  // namespace

void label_behaviour(sim::Labels& l) {
  Trajectory t{.rate_hz = 4, .points = {}};
  for (int i = 1; i <= 20; ++i) {
    const sim::Vec2 p = sim::future_at(l, i / 4.0);
    t.points.push_back({p.x, p.y});
  }
  const MetaBehaviour m = meta_behaviour(t, static_cast<double>(l.v0_mps));
  l.longitudinal = static_cast<sim::Longitudinal>(m.longitudinal);  // the same four, in the same order
  static constexpr std::array kLateral = {sim::Lateral::kGoStraight, sim::Lateral::kTurnLeft, sim::Lateral::kTurnRight,
                                          sim::Lateral::kChangeLeft, sim::Lateral::kChangeRight};
  l.lateral = kLateral[static_cast<size_t>(m.lateral)];
  l.unknown &= ~sim::kUnknownBehaviour;
}

sim::Labels labels_at(const Track& track, double now_s, sim::Intent intent) {
  sim::Labels l;
  l.intent = intent;
  l.unknown = sim::kImported | sim::kUnknownObjects | sim::kUnknownExplanation | sim::kUnknownBehaviour;
  const Waypoint here = track.at(now_s);
  const Pose now{here.x, here.y, track.yaw(now_s)};
  for (size_t i = 0; i < l.history.size(); ++i)
    l.history[i] = history_state(track, now, now_s, 0.25 * (static_cast<double>(i) - 15));
  for (size_t i = 0; i < l.future.size(); ++i) l.future[i] = future_state(track, now, now_s, 0.1 * static_cast<double>(i + 1));
  const Waypoint v = track.speed(now_s);
  l.v0_mps = static_cast<float>(std::hypot(v.x, v.y));
  constexpr double kSlack = 0.05;  // a last pose that comes a little early: half a step of the future
  if (track.last_s() - now_s >= kKnownFutureS - kSlack)
    label_behaviour(l);
  else
    l.unknown |= sim::kUnknownFuture;
  return l;
}

std::vector<uint8_t> record_pictures(const std::array<std::optional<Image>, sim::kCameras>& cameras) {
  std::vector<uint8_t> out;
  if (std::none_of(cameras.begin(), cameras.end(), [](const auto& c) { return c.has_value(); })) return out;
  constexpr uint8_t kGrey = 127;  // what --blank-images shows
  out.assign(sim::kCameras * sim::kImageBytes, kGrey);
  for (size_t c = 0; c < cameras.size(); ++c) {
    if (!cameras[c]) continue;
    const bool fits = cameras[c]->width == sim::kImageWidth && cameras[c]->height == sim::kImageHeight;
    const Image small = fits ? Image{} : resize_bicubic(*cameras[c], sim::kImageWidth, sim::kImageHeight);
    std::copy_n((fits ? *cameras[c] : small).rgb.data(), sim::kImageBytes, out.data() + c * sim::kImageBytes);
  }
  return out;
}

}  // namespace slip
