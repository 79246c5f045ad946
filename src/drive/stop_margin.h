// SPDX-License-Identifier: Apache-2.0
// Stops a little before where a plan stops. A model that judges distances to some metres stands too near as often as too far; one is a
// collision and the other is not.
//
//   s'(t) = s(t) max(0, S - m) / S   along the plan's own path, where the plan stands in its last second;  S: its length, m: the margin
//
// The speed falls by the same factor from the first point on, so that the car brakes earlier and no harder. Plans that go on stay as they are.
#pragma once
#include <vector>

#include "drive/planner.h"

namespace slip::drive {

/// A plan's points, `dt` seconds apart, with the margin kept; as they are where the plan does not come to a stand (0.5 m in its last second).
std::vector<sim::Vec2> with_stop_margin(std::vector<sim::Vec2> points, double dt, double margin_m);

class StopMarginPlanner : public Planner {
 public:
  /// `inner` outlives it. An answer without a plan is passed on as it is.
  StopMarginPlanner(Planner& inner, double margin_m) : inner_(inner), margin_m_(margin_m) {}
  Result<Planned> plan(const Situation& s, const CancelToken& cancel) override;

 private:
  Planner& inner_;
  double margin_m_;
};

}  // namespace slip::drive
