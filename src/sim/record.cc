// SPDX-License-Identifier: Apache-2.0
// Labels between their samples: see record.h.
#include "sim/record.h"

#include <algorithm>

#include "sim/world.h"

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

}  // namespace slip::sim
