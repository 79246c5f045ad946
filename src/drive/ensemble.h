// SPDX-License-Identifier: Apache-2.0
// Plans of successive answers averaged over the moments that they speak of: temporal ensembling [Zhao 2023, ACT, section IV]. Every answer
// plans some seconds and is followed for tenths of one; the ones before it said something of the same seconds.
//
//   position at time t = sum_k w_k p_k(t) / sum_k w_k over the plans that reach t,   w_k = 1 - age_k / window, the newest one's 1
//
// in world coordinates. `careful` makes w_k smaller by how far a plan would go beyond both of the two newest ones:
//
//   w_k = (1 - age_k / window) clamp(1.5 - ahead_k / 1 m, 0, 1),   ahead_k = way_k - max(way of the newest, way of the one before)
//
// in metres along the plans over the next two seconds. What was planned before an obstacle was seen is forgotten once two plans in a row brake for it; one that brakes alone changes
// little. The first point is averaged too, so that a plan need not begin at the car; where an older plan ends, its weight goes. ACT has weights exp(-m k) that prefer the oldest plan; here the newest counts most, and a line of weights is the same
// number on every machine.
#pragma once
#include <deque>

#include "drive/planner.h"

namespace slip::drive {

class EnsemblePlanner : public Planner {
 public:
  /// `inner` outlives it; plans older than `window_s` > 0 are forgotten. An answer without a plan is passed on as it is, and is no part of later averages.
  EnsemblePlanner(Planner& inner, double window_s, bool careful = false) : inner_(inner), window_s_(window_s), careful_(careful) {}
  Result<Planned> plan(const Situation& s, const CancelToken& cancel) override;

 private:
  struct Kept {
    int64_t origin_ms = 0;
    std::vector<sim::Vec2> points;
    double dt = 0;
  };
  double weight(const Kept& k, int64_t now_ms, const Kept& newest) const;

  Planner& inner_;
  double window_s_;
  bool careful_;
  uint64_t seed_ = 0;    // of the drive
  int64_t time_ms_ = 0;  // of its last decision
  std::deque<Kept> kept_;
};

}  // namespace slip::drive
