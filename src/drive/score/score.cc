// SPDX-License-Identifier: Apache-2.0
// Areas, contacts, time to collision, progress. See score.h.
#include "drive/score/score.h"

#include <algorithm>
#include <cmath>
#include <set>
#include <utility>

#include "base/check.h"
#include "sim/math.h"

namespace slip::drive {

using sim::Pose;
using sim::Vec2;

std::string_view name_of(Contact c) {
  static constexpr std::string_view kNames[] = {"stopped_ego", "stopped_track", "active_rear", "active_front", "active_lateral"};
  return kNames[static_cast<size_t>(c)];
}

namespace {

constexpr double kStopped = 0.05, kNoSpeed = 0.005;  // m/s: contacts, time to collision
constexpr double kAhead = sim::kPi / 6, kBehind = 5 * sim::kPi / 6;
constexpr double kLookAhead = 0.95;    // s, nuPlan's least time to collision
constexpr int kHorizonTenths = 29;     // how far constant velocities are followed
constexpr double kLaneDistance = 0.5;  // m
constexpr int kLaneSteps = 20, kOncomingSteps = 11;
constexpr double kLeastProgress = 5;  // m

/// Where the ego's box is at a step.
struct Area {
  bool multiple = false, off_road = false, oncoming = false, centre_in_intersection = false, rear_in_intersection = false;
};

class Scorer {
 public:
  Scorer(std::span<const State> states, const Surroundings& world, const Body& body) : states_(states), world_(world), body_(body) {
    for (const State& s : states_) {
      centres_.push_back(ahead_of(s.pose(), body_.rear_to_centre));
      boxes_.push_back(corners_of(centres_.back(), body_.length, body_.width));
      areas_.push_back(area_of(s, centres_.back(), boxes_.back()));
    }
    cleared_.assign(world_.others.size(), false);
  }

  TrackScore run() {
    areas();
    contacts();
    out_.ttc = time_to_collision() ? 0 : 1;
    constant_velocity();
    progress_and_lane();
    out_.comfort = comfort_of(states_, body_, Acceleration::kNavsim);
    out_.comfort_loop = comfort_of(states_, body_, Acceleration::kLoop);
    return out_;
  }

 private:
  size_t steps() const { return states_.size(); }
  const OtherPose* other_at(size_t i, size_t k) const {
    const auto& poses = world_.others[i].poses;
    return k < poses.size() && poses[k] ? &*poses[k] : nullptr;
  }
  Corners box_of(size_t i, const OtherPose& p) const {
    return corners_of({p.x, p.y, p.heading}, world_.others[i].length, world_.others[i].width);
  }

  Area area_of(const State& s, const Pose& centre, const Corners& box) const {
    Area a;
    int lanes = 0;
    bool one_holds_all = false;
    bool on_route = false;
    for (const Lane& lane : world_.lanes) {
      const auto inside = std::count_if(box.begin(), box.end(), [&](const Vec2& c) { return contains(lane.polygon, c); });
      lanes += inside > 0;
      one_holds_all = one_holds_all || inside == 4;
      on_route = on_route || (lane.on_route && contains(lane.polygon, {centre.x, centre.y}));
    }
    a.multiple = lanes > 1 && !one_holds_all;
    a.off_road = !std::all_of(box.begin(), box.end(), [&](const Vec2& c) {
      return contained_in_any(world_.drivable, c) || contained_in_any(world_.intersections, c);
    });
    a.oncoming = !on_route;
    a.centre_in_intersection = contained_in_any(world_.intersections, {centre.x, centre.y});
    a.rear_in_intersection = contained_in_any(world_.intersections, {s.x, s.y});
    return a;
  }

  void areas() {
    std::vector<double> oncoming(steps(), 0.0);
    for (size_t k = 0; k < steps(); ++k) {
      if (areas_[k].off_road && !out_.first_off_road) out_.first_off_road = static_cast<int>(k);
      if (k > 0 && areas_[k].oncoming && !areas_[k].centre_in_intersection)
        oncoming[k] = sim::det_hypot(centres_[k].x - centres_[k - 1].x, centres_[k].y - centres_[k - 1].y);
      double sum = 0;
      for (size_t j = k + 1 < kOncomingSteps ? 0 : k + 1 - kOncomingSteps; j <= k; ++j) sum += oncoming[j];
      out_.oncoming_m = std::max(out_.oncoming_m, sum);
      for (const RedArea& r : world_.red)
        if (!out_.first_red && static_cast<int>(k) >= r.from && static_cast<int>(k) <= r.to &&
            touches_polygon(boxes_[k], r.polygon))
          out_.first_red = static_cast<int>(k);
    }
    out_.dac = out_.first_off_road ? 0 : 1;
    out_.tlc = out_.first_red ? 0 : 1;
    out_.ddc = out_.oncoming_m < 2 ? 1 : out_.oncoming_m < 6 ? 0.5 : 0;
  }

  /// Angle between the ego's heading and the line from its rear axle to a point.
  double bearing(size_t k, double x, double y) const {
    const State& s = states_[k];
    return std::fabs(sim::wrap_angle(sim::det_atan2(y - s.y, x - s.x) - s.heading));
  }
  bool is_ahead(size_t k, double x, double y) const { return bearing(k, x, y) < kAhead; }
  bool is_behind(size_t k, double x, double y) const { return bearing(k, x, y) > kBehind; }

  Contact contact(size_t k, size_t i, const OtherPose& p, const Corners& box) const {
    if (std::fabs(states_[k].v) <= kStopped) return Contact::kStoppedEgo;
    if (world_.others[i].kind == Kind::kOther || p.speed <= kStopped) return Contact::kStoppedTrack;
    if (is_behind(k, p.x, p.y)) return Contact::kActiveRear;
    const std::array<Vec2, 2> front{boxes_[k][0], boxes_[k][3]};
    return touches_polygon(front, box) ? Contact::kActiveFront : Contact::kActiveLateral;
  }

  void contacts() {
    std::set<std::pair<size_t, Contact>> seen;
    first_contact_.assign(world_.others.size(), steps());
    for (size_t k = 0; k < steps(); ++k) {
      for (size_t i = 0; i < world_.others.size(); ++i) {
        const OtherPose* p = other_at(i, k);
        if (!p || cleared_[i]) continue;
        const Corners box = box_of(i, *p);
        if (!touch(boxes_[k], box)) continue;
        first_contact_[i] = std::min(first_contact_[i], k);
        const Contact type = contact(k, i, *p, box);
        const bool at_fault = type == Contact::kStoppedTrack || type == Contact::kActiveFront ||
                              (type == Contact::kActiveLateral && (areas_[k].multiple || areas_[k].off_road));
        if (seen.emplace(i, type).second) out_.contacts.push_back({static_cast<int>(k), i, type, at_fault});
        if (!at_fault) {
          cleared_[i] = true;
          continue;
        }
        first_fault_ = std::min(first_fault_, k);
        out_.nc = std::min(out_.nc, world_.others[i].kind == Kind::kOther ? 0.5 : 0.0);
      }
    }
  }

  /// May the ego's course be to blame for what happens with an agent there?
  bool concerns(size_t k, double x, double y) const {
    if (is_ahead(k, x, y)) return true;
    return (areas_[k].multiple || areas_[k].off_road || areas_[k].rear_in_intersection) && !is_behind(k, x, y);
  }

  // NAVSIM: the ego at constant velocity, the others where they will be.
  bool time_to_collision() {
    std::vector<bool> cleared(world_.others.size());  // of this metric: contacts clear nobody here
    for (size_t k = 0; k + 9 < steps(); ++k) {
      const double speed = std::fabs(states_[k].v);
      if (speed < kNoSpeed) continue;
      for (const size_t j : {0, 3, 6, 9}) {
        const Corners moved = corners_of(ahead_of(centres_[k], speed * static_cast<double>(j) * kStep), body_.length, body_.width);
        for (size_t i = 0; i < world_.others.size(); ++i) {
          const OtherPose* p = other_at(i, k + j);
          if (!p || cleared[i] || !touch(moved, box_of(i, *p))) continue;
          if (concerns(k, p->x, p->y)) {
            out_.first_ttc = static_cast<int>(k);
            return true;
          }
          cleared[i] = true;
        }
      }
    }
    return false;
  }

  // nuPlan: everybody at constant velocity.
  void constant_velocity() {
    const auto take = [&](double t) { out_.least_time_s = std::min(out_.least_time_s.value_or(1e9), t); };
    if (first_fault_ < steps()) take(0);
    for (size_t k = 0; k < steps(); ++k) {
      const double speed = std::fabs(states_[k].v);
      if (speed <= kNoSpeed) continue;
      for (size_t i = 0; i < world_.others.size(); ++i) {
        const OtherPose* p = other_at(i, k);
        if (!p || first_contact_[i] <= k || !concerns(k, p->x, p->y)) continue;
        for (int j = 1; j <= kHorizonTenths; ++j) {
          const double t = j * kStep;
          if (out_.least_time_s && t >= *out_.least_time_s) break;
          const Pose there = ahead_of({p->x, p->y, p->heading}, p->speed * t);
          const Corners box = corners_of(there, world_.others[i].length, world_.others[i].width);
          if (touch(corners_of(ahead_of(centres_[k], speed * t), body_.length, body_.width), box)) take(t);
        }
      }
    }
    out_.ttc_constant = out_.least_time_s && *out_.least_time_s <= kLookAhead ? 0 : 1;
  }

  void progress_and_lane() {
    int away = 0;
    for (size_t k = 0; k < steps(); ++k) {
      if (areas_[k].centre_in_intersection) continue;
      const bool far = nearest_on(world_.centre_line, {centres_[k].x, centres_[k].y}).distance > kLaneDistance;
      away = far ? away + 1 : 0;
      if (away >= kLaneSteps) out_.lane_keeping = 0;
    }
    if (steps() == 0) return;
    const auto arc = [&](const Pose& p) { return nearest_on(world_.centre_line, {p.x, p.y}).arc; };
    out_.progress_m = std::max(0.0, arc(centres_.back()) - arc(centres_.front()));
  }

  std::span<const State> states_;
  const Surroundings& world_;
  Body body_;
  std::vector<Pose> centres_;
  std::vector<Corners> boxes_;
  std::vector<Area> areas_;
  std::vector<bool> cleared_;          // contacts that were not the ego's fault
  std::vector<size_t> first_contact_;  // by agent
  size_t first_fault_ = SIZE_MAX;
  TrackScore out_;
};

/// 1 where the expert has 0.
double excused(double own, double expert) { return expert == 0 ? 1 : own; }

}  // namespace

TrackScore score_track(std::span<const State> states, const Surroundings& world, const Body& body) {
  return Scorer(states, world, body).run();
}

double ego_progress(const TrackScore& own, const TrackScore& expert) {
  const double largest = std::max(own.progress_m * own.product(), expert.progress_m * expert.product());
  return largest > kLeastProgress ? std::clamp(own.progress_m / largest, 0.0, 1.0) : 1.0;
}

double ego_progress_loop(const TrackScore& own, const TrackScore& expert) {
  return expert.progress_m > kLeastProgress ? std::min(1.0, own.progress_m / expert.progress_m) : 1.0;
}

double pdms(const TrackScore& own, const TrackScore& expert) {
  return own.nc * own.dac * (5 * own.ttc + 5 * ego_progress(own, expert) + 2 * (own.comfort.all() ? 1 : 0)) / 12;
}

double loop_score(const TrackScore& own, const TrackScore& expert) {
  return own.nc * own.dac * own.tlc *
         (5 * ego_progress_loop(own, expert) + 5 * own.ttc_constant + 2 * (own.comfort_loop.all() ? 1 : 0)) / 12;
}

double neuro_ncap(bool collided, Vec2 ego_velocity, Vec2 other_velocity, double reference_speed) {
  if (!collided) return 5;
  const double impact = sim::det_hypot(ego_velocity.x - other_velocity.x, ego_velocity.y - other_velocity.y);
  return 4 * std::max(0.0, 1 - impact / reference_speed);
}

double epdms(const TrackScore& own, const TrackScore& expert, bool history_comfort, bool expert_history_comfort,
             double extended_comfort) {
  const double product =
      excused(own.nc, expert.nc) * excused(own.dac, expert.dac) * excused(own.ddc, expert.ddc) * excused(own.tlc, expert.tlc);
  const double progress = excused(ego_progress(own, expert), ego_progress(expert, own));
  const double comfort = excused(history_comfort ? 1 : 0, expert_history_comfort ? 1 : 0);
  return product *
         (5 * excused(own.ttc, expert.ttc) + 5 * progress + 2 * excused(own.lane_keeping, expert.lane_keeping) + 2 * comfort +
          2 * extended_comfort) /
         16;
}

}  // namespace slip::drive
