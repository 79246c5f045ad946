// SPDX-License-Identifier: Apache-2.0
// See driven.h.
#include "drive/driven.h"

#include <algorithm>
#include <cmath>

#include "base/philox.h"
#include "drive/episode.h"
#include "sim/cot.h"
#include "sim/expert.h"
#include "sim/labels.h"
#include "sim/math.h"
#include "sim/record/make.h"
#include "sim/record/seen.h"
#include "sim/render/render.h"

namespace slip::drive {

namespace {

using sim::Vec2;

constexpr uint32_t kStream = 0xD21E;
constexpr double kMostTurn = 0.12, kMostBend = 0.01;  // rad, 1/m
constexpr double kSlowest = 0.3, kFastest = 1.3;      // of the plan's speed
/// How long either lasts, s.
struct Turns {
  double least_wrong, most_wrong, least_right, most_right;
};
constexpr Turns kAstray = {0.3, 2.0, 0.5, 4.0}, kLearner = {3.0, 9.0, 0.3, 2.0};

enum class Wrong { kTurned, kKept, kPaced, kLearner };

/// The expert, and what he does wrong for a while.
class Disturbed : public Planner {
 public:
  Disturbed(uint64_t seed, uint32_t family, double chance, bool with_images, Planner* learner,
            const std::function<Status(sim::Record&&)>& take)
      : g_(seed, kStream),
        seed_(seed),
        family_(family),
        chance_(chance),
        images_(with_images),
        learner_(learner),
        turns_(learner ? kLearner : kAstray),
        take_(take) {
    until_ms_ = learner ? 0 : 1000 * g_.uniform(0, turns_.most_right);
  }

  Result<Planned> plan(const Situation& s, const CancelToken& cancel) override {
    const auto step = static_cast<int>(s.origin_ms / 100);
    const sim::Scene seen = s.world.seen_from(step, s.origin, s.acceleration);
    const sim::Plan right = sim::drive(seen);
    if (g_.uniform() < chance_) SLIP_TRY_(keep(s, seen, right));
    turn_over(static_cast<double>(s.time_ms));
    std::vector<Vec2> local;
    if (!wrong_) {
      for (const sim::FutureState& f : right.future) local.push_back({f.x, f.y});
      return Planned{to_world(local, s.origin), sim::kDt};
    }
    if (wrong_ == Wrong::kLearner) return learner_->plan(s, cancel);
    for (int i = 1; i <= sim::kFutureSteps; ++i) local.push_back(point(*wrong_, s, right, i));
    return Planned{to_world(local, s.origin), sim::kDt};
  }

 private:
  /// From right to wrong and back.
  void turn_over(double now_ms) {
    if (now_ms < until_ms_) return;
    const double which = g_.uniform(), much = g_.uniform(-1, 1);
    const double wrong_s = g_.uniform(turns_.least_wrong, turns_.most_wrong),
                 right_s = g_.uniform(turns_.least_right, turns_.most_right);
    if (wrong_) {
      wrong_.reset();
      until_ms_ = now_ms + 1000 * right_s;
      return;
    }
    wrong_ = learner_ ? Wrong::kLearner : which < 0.45 ? Wrong::kTurned : which < 0.7 ? Wrong::kKept : Wrong::kPaced;
    much_ = much;
    until_ms_ = now_ms + 1000 * wrong_s;
  }

  Vec2 point(Wrong how, const Situation& s, const sim::Plan& right, int i) const {
    const auto& f = right.future;
    const double t = sim::kDt * i;
    if (how == Wrong::kKept) {
      const Motion m = bicycle_step({0, 0, 0, s.origin.v}, 0, kMostBend * much_, t);
      return {m.x, m.y};
    }
    if (how == Wrong::kTurned) {
      const auto& p = f[static_cast<size_t>(i - 1)];
      const double c = sim::det_cos(kMostTurn * much_), n = sim::det_sin(kMostTurn * much_);
      return {p.x * c - p.y * n, p.x * n + p.y * c};
    }
    const double pace = much_ < 0 ? 1 + much_ * (1 - kSlowest) : 1 + much_ * (kFastest - 1);
    const double u = std::min(pace * i, static_cast<double>(sim::kFutureSteps));
    const auto k = static_cast<size_t>(u);
    const auto at = [&](size_t j) {
      return j == 0 ? Vec2{} : Vec2{f[std::min<size_t>(j, 64) - 1].x, f[std::min<size_t>(j, 64) - 1].y};
    };
    const Vec2 a = at(k), b = at(k + 1);
    const double part = u - static_cast<double>(k);
    return {a.x + part * (b.x - a.x), a.y + part * (b.y - a.y)};
  }

  Status keep(const Situation& s, const sim::Scene& seen, const sim::Plan& right) {
    if (right.collided) return {};
    sim::Record r;
    r.labels = sim::labels_of(seen, right);
    if (sim::acts_on_the_unseen(r.labels)) return {};
    r.labels.history = s.history;
    r.labels.intent = s.intent;
    r.labels.pre_onset = false;
    r.labels.unknown = sim::kMoved;
    r.labels.seed = seed_;
    r.labels.family = family_;
    const sim::Moment moment = s.world.moment(static_cast<double>(s.time_ms) / 1000, s.ego);
    r.labels.bodies = sim::seen_bodies(moment);
    r.labels.cot = std::make_shared<const sim::CotLabels>(sim::describe_scene(seen, r.labels, true));
    if (images_) {
      r.images.resize(sim::kCameras * sim::kImageBytes);
      sim::render_all(moment, r.images);
    }
    return take_(std::move(r));
  }

  PhiloxStream g_;
  uint64_t seed_;
  uint32_t family_;
  double chance_;
  bool images_;
  Planner* learner_;
  Turns turns_;
  const std::function<Status(sim::Record&&)>& take_;
  std::optional<Wrong> wrong_;
  double much_ = 0, until_ms_ = 0;
};

}  // namespace

Status driven_records(uint64_t seed, std::optional<uint32_t> family, int frames, bool with_images, Planner* learner,
                      const std::function<Status(sim::Record&&)>& take, const CancelToken& cancel) {
  const uint32_t f = family.value_or(sim::family_of_seed(seed));
  EpisodeSettings settings{.seed = seed, .family = f, .mode = Mode::kAsync};
  settings.delay.fixed_ms = 100 * static_cast<int64_t>(seed % 3) + (learner ? 100 : 0);
  const double decisions = learner ? 100.0 * kDriveSteps / static_cast<double>(settings.delay.fixed_ms) : kDriveSteps;
  Disturbed driver(seed, f, frames / decisions, with_images, learner, take);
  SLIP_TRY_(drive_episode(settings, driver, cancel));
  return {};
}

}  // namespace slip::drive
