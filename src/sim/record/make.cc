// SPDX-License-Identifier: Apache-2.0
// From a seed to a record: draw, drive, refuse what the expert cannot drive cleanly, judge, and render.
#include <algorithm>

#include "base/check.h"
#include "sim/builder.h"
#include "sim/labels.h"
#include "sim/record/make.h"
#include "sim/render/render.h"

namespace slip::sim {

std::string_view words(Longitudinal v) {
  static constexpr std::string_view kWords[] = {"keep speed", "speed up", "slow down", "come to stop"};
  return kWords[static_cast<int>(v)];
}
std::string_view words(Lateral v) {
  static constexpr std::string_view kWords[] = {"go straight", "lane follow", "turn left",
                                                "turn right",  "change left", "change right"};
  return kWords[static_cast<int>(v)];
}

Vec2 future_at(const Labels& l, double t_s) {
  const double u = std::clamp(t_s / kDt, 0.0, double{kFutureSteps});
  const auto i = static_cast<size_t>(u);
  const double f = u - static_cast<double>(i);
  const auto at = [&](size_t k) {
    return k == 0 ? Vec2{}
                  : Vec2{l.future[std::min<size_t>(k, kFutureSteps) - 1].x, l.future[std::min<size_t>(k, kFutureSteps) - 1].y};
  };
  const Vec2 a = at(i), b = at(i + 1);
  return {a.x + f * (b.x - a.x), a.y + f * (b.y - a.y)};
}

bool acts_on_the_unseen(const Labels& l) {
  for (size_t c = 0; c < 12; ++c)
    if (l.causal[c] && !l.visible[c]) return true;
  return false;
}

Result<Drawn> draw_accepted(uint64_t seed, std::optional<uint32_t> family) {
  const uint32_t f = family.value_or(family_of_seed(seed));
  if (f >= family_names().size()) return bad_input("family: expected 0 to {}, got {}", family_names().size() - 1, f);
  int unseen = 0;
  for (uint32_t attempt = 0; attempt < 64; ++attempt) {
    Scene sc = draw_scene(seed, f, attempt);
    const Plan plan = drive(sc);
    if (!plan.ok()) continue;
    Labels l = judge(sc, plan);
    if (acts_on_the_unseen(l)) {
      ++unseen;
      continue;
    }
    l.seed = seed;
    l.family = f;
    return Drawn{std::move(sc), std::move(l), static_cast<int>(attempt) - unseen, unseen};
  }
  SLIP_CHECK(false, "under one scene in ten is refused, so that 64 in a row do not happen");
}

Result<Record> make_record(uint64_t seed, std::optional<uint32_t> family, bool with_images) {
  SLIP_TRY(Drawn d, draw_accepted(seed, family));
  Record r;
  if (with_images) {
    const Moment m = moment_of(d.scene, 0.0, {0, 0, 0}, d.scene.v0);
    r.images.resize(kCameras * kImageBytes);
    render_all(m, r.images);
  }
  r.labels = std::move(d.labels);
  return r;
}

}  // namespace slip::sim
