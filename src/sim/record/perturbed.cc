// SPDX-License-Identifier: Apache-2.0
// Records from where the expert would not be: beside the lane's middle, turned, at another speed. Who learns from the expert's own states
// alone never sees what brings a car back, and a model that drives sees little else.
#include <algorithm>

#include "base/check.h"
#include "sim/builder.h"
#include "sim/cot.h"
#include "sim/labels.h"
#include "sim/math.h"
#include "sim/record/make.h"
#include "sim/record/seen.h"
#include "sim/render/render.h"

namespace slip::sim {
namespace {

constexpr double kMostSide = 1.2, kMostTurn = 0.09, kSlowest = 0.7, kFastest = 1.15;  // m, rad, of the scene's speed
constexpr int kTries = 4;

struct Start {
  Pose pose;
  double v = 0, offset = 0;
};

/// `share` of what was drawn: a start that the expert cannot drive from is tried again nearer to his own.
Start start_of(const Scene& sc, double side, double turn, double pace, double share) {
  const double d = sc.d0 + share * side;
  const Pose p = sc.route.at(0, d);
  return {{p.x, p.y, p.yaw + share * turn}, sc.v0 * (1 + share * (pace - 1)), d};
}

/// A history that does not tell how the ego was moved aside: straight on, at a steady speed.
void straight_history(double v, Labels& l) {
  for (size_t i = 0; i < l.history.size(); ++i) {
    const double t = 0.25 * (static_cast<double>(i) - 15);
    l.history[i] = {static_cast<float>(t), static_cast<float>(v * t), 0, static_cast<float>(v), 0, 0, 0};
  }
}

}  // namespace

Result<Record> make_perturbed(uint64_t seed, std::optional<uint32_t> family, bool with_images) {
  SLIP_TRY(Drawn d, draw_accepted(seed, family));
  d.scene.usual_v = d.scene.v0;
  PhiloxStream g(seed, 0x9E27);
  const double side = g.uniform(-kMostSide, kMostSide), turn = g.uniform(-kMostTurn, kMostTurn);
  const double pace = g.uniform(kSlowest, kFastest);
  double share = 1;
  for (int i = 0; i < kTries; ++i, share *= 0.6) {
    const Start start = start_of(d.scene, side, turn, pace, share);
    const Scene sc = seen_by(d.scene, start.pose, start.v, 0, start.offset, 0);
    const Plan plan = drive(sc);
    if (!plan.ok()) continue;
    Record r;
    r.labels = labels_of(sc, plan);
    if (acts_on_the_unseen(r.labels)) continue;
    straight_history(start.v, r.labels);
    r.labels.pre_onset = false;  // the ego has something to mend at once
    r.labels.unknown = kMoved;
    r.labels.seed = seed;
    r.labels.family = d.labels.family;
    const Moment moment = moment_of(d.scene, 0, start.pose, start.v);
    r.labels.bodies = seen_bodies(moment);
    r.labels.cot = std::make_shared<const CotLabels>(describe_scene(sc, r.labels, true));
    if (with_images) {
      r.images.resize(kCameras * kImageBytes);
      render_all(moment, r.images);
    }
    return r;
  }
  return make_record(seed, family, with_images);
}

Result<Record> make_mixed(uint64_t seed, double perturbed, std::optional<uint32_t> family, bool with_images) {
  PhiloxStream g(seed, 0x9E28);
  SLIP_TRY(Record r, g.uniform() < perturbed ? make_perturbed(seed, family, with_images) : make_record(seed, family, with_images));
  if (perturbed > 0 && !r.labels.bodies) {
    SLIP_TRY(const Moment moment, moment_at(seed, family));
    r.labels.bodies = seen_bodies(moment);
    SLIP_TRY(CotLabels cot, cot_labels(seed, family));
    r.labels.cot = std::make_shared<const CotLabels>(std::move(cot));
  }
  return r;
}

}  // namespace slip::sim
