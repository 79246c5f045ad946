// SPDX-License-Identifier: Apache-2.0
// From a seed to a record: draw, drive, refuse what the expert cannot drive cleanly, label, and render.
#include "sim/record/make.h"

#include "base/check.h"
#include "sim/builder.h"
#include "sim/labels.h"
#include "sim/render/render.h"

namespace slip::sim {

Result<Drawn> draw_accepted(uint64_t seed, std::optional<uint32_t> family) {
  const uint32_t f = family.value_or(family_of_seed(seed));
  if (f >= family_names().size()) return bad_input("family: expected 0 to {}, got {}", family_names().size() - 1, f);
  int unseen = 0;
  for (uint32_t attempt = 0; attempt < 64; ++attempt) {
    Scene sc = draw_scene(seed, f, attempt);
    const Plan plan = drive(sc);
    if (!plan.ok()) continue;
    Labels l = labels_of(sc, plan);
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
