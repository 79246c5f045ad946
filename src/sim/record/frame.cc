// SPDX-License-Identifier: Apache-2.0
// Later frames of a scene: the same world some tenths of a second on, in the coordinates that the ego then has.
#include <algorithm>

#include "sim/builder.h"
#include "sim/cot.h"
#include "sim/labels.h"
#include "sim/math.h"
#include "sim/record/make.h"
#include "sim/render/render.h"

namespace slip::sim {
namespace {

Pose moved(const Pose& ego, const Pose& p) {
  const Pose q = seen_from(ego, p);
  return {q.x, q.y, wrap_angle(q.yaw)};
}

/// The actor from `step` on. Tracks reach 3 s past the horizon; what is asked beyond their end stands still.
void advance(Actor& a, const Pose& ego, double s0, int step) {
  const Actor before = a;
  a.later.clear();
  for (int k = 0; k < kTrackSteps; ++k) {
    TrackPoint& p = a.point(k);
    p = before.at(k + step);
    const Pose q = moved(ego, {p.x, p.y, p.yaw});
    p.x = q.x, p.y = q.y, p.yaw = q.yaw, p.s -= s0;
  }
  a.agent.pose = {a.track[0].x, a.track[0].y, a.track[0].yaw};
  a.agent.speed_mps = a.track[0].v;
}

}  // namespace

Scene seen_by(const Scene& whole, const Pose& ego, double v, double a, double offset, int step) {
  Scene sc = whole;
  const double t = kDt * step;
  const double s_ref = whole.ref.project({ego.x, ego.y}).s, s_route = whole.route.project({ego.x, ego.y}).s;
  sc.ref = whole.ref.seen_from(ego, s_ref);
  sc.route = whole.route.seen_from(ego, s_route);
  sc.junction.s -= s_ref;
  sc.stop_s -= s_ref;
  for (double& s : sc.crosswalks) s -= s_ref;
  if (sc.exit_crosswalk) *sc.exit_crosswalk -= s_route;
  for (Actor& actor : sc.actors) advance(actor, ego, s_route, step);
  for (TrafficLight& l : sc.lights) l.pose = moved(ego, l.pose);
  for (Sign& s : sc.signs) s.pose = moved(ego, s.pose);
  for (Scenery& s : sc.scenery) s.pose = moved(ego, s.pose);
  for (GroundPatch& g : sc.extra_ground)
    for (Vec2& c : g.corners) {
      const Pose q = seen_from(ego, {c.x, c.y, 0});
      c = {q.x, q.y};
    }
  sc.v0 = v;
  sc.a0 = a;
  sc.brake_began_s = 0;
  sc.d0 = offset;
  sc.react_s = std::max(0.0, sc.react_s - t);
  sc.shift_s = std::max(0.0, sc.shift_s - t);
  return sc;
}

Result<DrawnFrame> draw_frame(uint64_t seed, std::optional<uint32_t> family, double t_s) {
  if (!(t_s >= 0 && t_s <= kMostFrameS)) return bad_input("frame: expected 0 to {} s, got {}", kMostFrameS, t_s);
  SLIP_TRY(Drawn d, draw_accepted(seed, family));
  const auto step = static_cast<int>(det_round(t_s / kDt));
  if (step == 0) {
    const double v0 = d.scene.v0;
    return DrawnFrame{d.scene, std::move(d.scene), std::move(d.labels), 0.0, {}, v0};
  }
  const Plan plan = drive(d.scene, 0, step);
  DrawnFrame out{{},         seen_by(d.scene, plan.start, plan.start_v, plan.start_a, plan.start_offset, step),
                 {},         kDt * step,
                 plan.start, plan.start_v};
  out.labels = labels_of(out.scene, plan, d.scene, drive(d.scene), step);
  out.labels.seed = seed;
  out.labels.family = d.labels.family;
  out.labels.frame_s = static_cast<float>(out.t_s);
  out.whole = std::move(d.scene);
  return out;
}

Result<Moment> moment_at(uint64_t seed, std::optional<uint32_t> family, double t_s) {
  SLIP_TRY(const DrawnFrame d, draw_frame(seed, family, t_s));
  return moment_of(d.whole, d.t_s, d.ego, d.ego_speed_mps);
}

Result<Record> make_frame(uint64_t seed, std::optional<uint32_t> family, double t_s, bool with_images) {
  SLIP_TRY(DrawnFrame d, draw_frame(seed, family, t_s));
  Record r;
  if (with_images) {
    r.images.resize(kCameras * kImageBytes);
    render_all(moment_of(d.whole, d.t_s, d.ego, d.ego_speed_mps), r.images);
  }
  r.labels = std::move(d.labels);
  return r;
}

Result<CotLabels> cot_labels(uint64_t seed, std::optional<uint32_t> family, double t_s) {
  SLIP_TRY(const DrawnFrame d, draw_frame(seed, family, t_s));
  return describe_scene(d.scene, d.labels);
}

}  // namespace slip::sim
