// SPDX-License-Identifier: Apache-2.0
// From a few waypoints to a trajectory: quintic pieces of one knot interval each, through (0, 0) now and through all waypoints.
// Every fit is a linear map of one axis' waypoints (and of the measured start velocity where it is used), so it is a small
// matrix, made once; its transpose carries gradients back.
//
// kJmtPaperCompat is what the papers' evaluation code computes [Fast-dDrive, dVLM-AD]: velocities and accelerations at the knots
// by finite differences, with the sign of the first acceleration flipped; kJmtFixed mends the sign. Neither minimises anything
// globally. kMinJerk... do: the squared jerk over the whole time, with continuous fourth derivatives at the knots. On recorded
// urban driving their reconstruction error is 2.3 cm against 4.0 cm and their jerk a third.
//
// kRounded knows that waypoints are said in steps, and that a curve through rounded places bends where the car would not. It is the least
// squared jerk of all curves whose waypoints round to those that are said (plan/rounded_fit.h): not linear in them.
#pragma once
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "plan/trajectory.h"

namespace slip {

enum class Fit : uint8_t {
  kJmtPaperCompat,
  kJmtFixed,
  kMinJerkV0,    // start velocity measured; start acceleration and both end derivatives free
  kMinJerkFree,  // start velocity free too
  kLinear,
  kRounded,  // kMinJerkV0 through places that round to the waypoints
};
/// "jmt-paper", "jmt-fixed", "minjerk-v0", "minjerk", "linear", "rounded".
std::string_view name_of(Fit fit);
std::optional<Fit> fit_named(std::string_view name);

struct FitSpec {
  Fit fit = Fit::kJmtPaperCompat;
  int knots = 5;  // W: waypoints at 1 / knot_rate_hz, 2 / knot_rate_hz, ...
  double knot_rate_hz = 1;
  int points = 20;  // results at 1 / rate_hz, 2 / rate_hz, ...; the last one not after the last knot
  double rate_hz = 4;
  /// Where consecutive waypoints lie within 5 cm, the ego stands: velocity and acceleration are zero at both, so that the fit
  /// does not overshoot a stop and roll back. Off in the papers' fits. No effect on kLinear; kRounded stands where its last waypoints are
  /// one place, and only there.
  bool monotone_stop = false;
  /// kRounded: half of the step in which waypoints are said, in metres: the places lie within so far of them along each axis. And whether
  /// the start velocity was measured; else it is free.
  double rounding_m = 0;
  bool start_known = true;
};

/// points_P = matrix_PN * inputs_N for one axis; inputs are the W waypoints and, where it is used, v0 in m/s. kRounded puts the
/// places that it chooses in the waypoints' stead.
class FitMap {
 public:
  /// kBadInput for numbers that do not fit together (knots 1 to 64, kMinJerkFree and kRounded without a start velocity need 2, rates
  /// positive, no extrapolation; kRounded: rounding of 0 to 5 m, waypoints at 2 Hz at most).
  static Result<FitMap> make(const FitSpec& spec);

  const FitSpec& spec() const { return spec_; }
  bool uses_v0() const { return spec_.fit == Fit::kMinJerkV0 || (spec_.fit == Fit::kRounded && spec_.start_known); }
  size_t inputs() const { return static_cast<size_t>(spec_.knots) + uses_v0(); }
  /// Row-major, points x inputs, as it is without any stop.
  std::span<const double> matrix() const { return matrix_; }

  /// kBadInput unless there are `knots` waypoints, all numbers finite. `v0` in m/s; ignored by fits that do not use it.
  Result<Trajectory> apply(std::span<const Waypoint> waypoints, Waypoint v0_mps = {}) const;

 private:
  explicit FitMap(const FitSpec& spec) : spec_(spec) {}
  FitSpec spec_;
  std::vector<double> matrix_, jerk_;  // jerk_: of kRounded, rounded_fit.h's J over the inputs
};

/// Several answers to one request: each is fitted, then averaged with equal weights.
struct RolloutFit {
  Trajectory mean;
  std::vector<double> spread_m;  // per point: root mean square distance of the rollouts from the mean
};
/// Of what is fitted already. kBadInput where there is none and where their points differ in number.
Result<RolloutFit> average_of(std::span<const Trajectory> each);
Result<RolloutFit> average_rollouts(const FitMap& map, std::span<const std::vector<Waypoint>> rollouts, Waypoint v0_mps = {});

}  // namespace slip
