// SPDX-License-Identifier: Apache-2.0
// Between the files of cot: the objects that a scene's text names, the most important first.
#pragma once
#include <string>
#include <string_view>
#include <vector>

#include "sim/cot.h"
#include "sim/world.h"

namespace slip::sim {

struct SeenObject {
  const Actor* actor = nullptr;
  bool causal = false;    // its class decides what the expert does, and it stands or comes in the way
  double distance_m = 0;  // from the front bumper
  std::string_view name;  // as the enumeration calls it
  std::string_view justification;
};
inline constexpr std::string_view kSetsPace = "sets our pace, we follow it", kSlower = "is slower than us, we keep a gap";

/// Visible objects of critical classes, at most kCotObjects: causal ones first, then the nearer ones. Things that stand about in
/// numbers (cones, barriers, debris) count once.
std::vector<SeenObject> critical_objects(const Scene& sc, const Labels& l);
void describe_objects(std::span<const SeenObject> objects, CotLabels& out);

/// "5 m", "10 m", "20 m", "30 m", "40 m", "60 m": bands that a picture shows.
std::string distance_band(double m);

}  // namespace slip::sim
