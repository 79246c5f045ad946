// SPDX-License-Identifier: Apache-2.0
// See codebook.h.
#include "plan/codebook.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "base/check.h"
#include "base/json/shown.h"
#include "base/philox.h"

namespace slip {

namespace {

constexpr double kFrontM = 2;
constexpr int32_t kMostCodes = 65536, kMostSteps = 64;
constexpr std::string_view kFormat = "slipstream-codebook";

Pose after(const Pose& from, const Pose& piece) {
  const Waypoint at = to_world({piece.x, piece.y}, from);
  return {at.x, at.y, from.yaw_rad + piece.yaw_rad};
}

Pose seen_from(const Pose& from, const Pose& pose) {
  const Waypoint at = to_ego({pose.x, pose.y}, from);
  return {at.x, at.y, std::remainder(pose.yaw_rad - from.yaw_rad, 2 * M_PI)};
}

/// A pose as four numbers whose squared differences add up to the distance of poses: itself and its front.
std::array<double, 4> corners(const Pose& p) {
  return {p.x, p.y, p.x + kFrontM * std::cos(p.yaw_rad), p.y + kFrontM * std::sin(p.yaw_rad)};
}
/// The pose of such numbers; of a mean, whose front need not be 2 m away, the direction towards it.
Pose pose_of(std::span<const float> c) {
  const std::array<double, 4> d = {c[0], c[1], c[2], c[3]};
  return {d[0], d[1], std::atan2(d[3] - d[1], d[2] - d[0])};
}

/// Pieces side by side as their corners, `width` numbers each.
class Pieces {
 public:
  explicit Pieces(size_t steps) : width_(4 * steps) {}
  void add(std::span<const Pose> piece) {
    for (const Pose& p : piece)
      for (const double v : corners(p)) numbers_.push_back(static_cast<float>(v));
  }
  void add(std::span<const float> numbers) { numbers_.insert(numbers_.end(), numbers.begin(), numbers.end()); }
  size_t count() const { return numbers_.size() / width_; }
  size_t width() const { return width_; }
  std::span<float> operator[](size_t i) { return {numbers_.data() + i * width_, width_}; }
  std::span<const float> operator[](size_t i) const { return {numbers_.data() + i * width_, width_}; }

  struct Nearest {
    size_t index = 0;
    float distance2 = 0;
  };
  /// The lowest of equal ones. The sum is given up where it is larger than the best: pieces differ most in what stands last, so it begins there.
  Nearest nearest(std::span<const float> other) const {
    Nearest best{0, INFINITY};
    for (size_t i = 0; i < count(); ++i) {
      const std::span<const float> a = (*this)[i];
      float sum = 0;
      for (size_t k = width_; k > 0 && sum < best.distance2; k -= 4)
        for (size_t n = k - 4; n < k; ++n) sum += (a[n] - other[n]) * (a[n] - other[n]);
      if (sum < best.distance2) best = {i, sum};
    }
    return best;
  }

 private:
  size_t width_;
  std::vector<float> numbers_;
};

/// The whole pieces of all futures.
Pieces pieces_of(std::span<const std::vector<Pose>> futures, size_t steps) {
  Pieces out(steps);
  std::vector<Pose> piece(steps);
  for (const std::vector<Pose>& future : futures)
    for (size_t begin = 0; begin + steps <= future.size(); begin += steps) {
      const Pose from = begin == 0 ? Pose{} : future[begin - 1];
      for (size_t i = 0; i < steps; ++i) piece[i] = seen_from(from, future[begin + i]);
      out.add(piece);
    }
  return out;
}

/// Pieces drawn in a keyed order, each different from all that were taken before: many cars stand, and one of those is a cluster.
Result<Pieces> first_centres(const Pieces& all, size_t steps, const TrajectoryCodebook::MakeOptions& o) {
  std::vector<uint32_t> order(all.count());
  for (size_t i = 0; i < order.size(); ++i) order[i] = static_cast<uint32_t>(i);
  constexpr uint64_t kStream = 0x636f6465;  // "code"
  PhiloxStream draw(o.seed, kStream);
  for (size_t i = order.size(); i > 1; --i) std::swap(order[i - 1], order[draw.below(static_cast<uint32_t>(i))]);
  constexpr float kSameM2 = 1e-6F;  // a millimetre in all: below what the file's rounding tells apart
  Pieces out(steps);
  for (size_t i = 0; i < order.size() && out.count() < static_cast<size_t>(o.codes); ++i)
    if (const auto piece = all[order[i]]; out.count() == 0 || out.nearest(piece).distance2 >= kSameM2) out.add(piece);
  if (out.count() < static_cast<size_t>(o.codes))
    return bad_input("codebook: expected at least {} different pieces of path, got {}", o.codes, out.count());
  return out;
}

/// Every centre becomes the mean of the pieces that are nearest to it. Returns how far pieces lay from their centres before: the root mean
/// square over all points, metres.
double move_centres(const Pieces& all, Pieces& centres) {
  const size_t codes = centres.count(), width = all.width();
  std::vector<double> sums(codes * width, 0);
  std::vector<int64_t> members(codes, 0);
  std::vector<Pieces::Nearest> far;  // of every piece: its own number, and its distance
  double error = 0;
  for (size_t i = 0; i < all.count(); ++i) {
    const auto [c, d] = centres.nearest(all[i]);
    const auto piece = all[i];
    for (size_t k = 0; k < width; ++k) sums[c * width + k] += static_cast<double>(piece[k]);
    ++members[c];
    far.push_back({i, d});
    error += static_cast<double>(d);
  }
  const auto empty = static_cast<size_t>(std::count(members.begin(), members.end(), 0));
  std::partial_sort(
      far.begin(), far.begin() + static_cast<std::ptrdiff_t>(std::min(empty, far.size())), far.end(),
      [](const auto& a, const auto& b) { return a.distance2 > b.distance2 || (a.distance2 == b.distance2 && a.index < b.index); });
  size_t taken = 0;
  for (size_t c = 0; c < codes; ++c) {
    const auto centre = centres[c];
    if (members[c] == 0) {
      const auto piece = std::as_const(all)[far[taken++].index];  // there are more pieces than codes
      std::copy(piece.begin(), piece.end(), centre.begin());
      continue;
    }
    for (size_t k = 0; k < width; ++k) centre[k] = static_cast<float>(sums[c * width + k] / static_cast<double>(members[c]));
  }
  const size_t points = width / 2;  // of two numbers each
  return std::sqrt(error / static_cast<double>(all.count()) / static_cast<double>(points));
}

/// The poses of one code out of its numbers.
Status read_code(const json::value& code, size_t steps, std::string_view where, std::vector<Pose>& out) {
  const json::array* numbers = code.if_array();
  if (!numbers || numbers->size() != 3 * steps)
    return bad_input("{}: codes: expected {} numbers in each (x, y and yaw at {} times), got {}", where, 3 * steps, steps,
                     numbers ? fmt::format("{}", numbers->size()) : "another type");
  std::vector<double> all;
  // No car goes farther than 1,000 m in 6.4 s; and sums of many codes stay finite.
  for (const json::value& n : *numbers) {
    if (!n.is_number() || !(std::fabs(n.to_number<double>()) <= 1000))
      return bad_input("{}: codes: expected numbers from -1000 to 1000, got {}", where,
                       n.is_number() ? fmt::format("{}", n.to_number<double>()) : "another type");
    all.push_back(n.to_number<double>());
  }
  for (size_t i = 0; i < all.size(); i += 3) out.push_back({all[i], all[i + 1], all[i + 2]});
  return {};
}

}  // namespace

double distance2_m2(const Pose& a, const Pose& b) {
  const std::array<double, 4> p = corners(a), q = corners(b);
  double sum = 0;
  for (size_t i = 0; i < p.size(); ++i) sum += (p[i] - q[i]) * (p[i] - q[i]);
  return sum;
}

Result<TrajectoryCodebook> TrajectoryCodebook::make(std::span<const std::vector<Pose>> futures, const MakeOptions& o) {
  if (o.codes < 2 || o.codes > kMostCodes) return bad_input("codebook: codes: expected 2 to {}, got {}", kMostCodes, o.codes);
  if (o.steps < 1 || o.steps > kMostSteps) return bad_input("codebook: steps: expected 1 to {}, got {}", kMostSteps, o.steps);
  const auto steps = static_cast<size_t>(o.steps);
  const Pieces all = pieces_of(futures, steps);
  SLIP_TRY(Pieces centres, first_centres(all, steps, o));
  for (int32_t i = 0; i < o.iterations; ++i) {
    const double error = move_centres(all, centres);
    if (o.told) SLIP_TRY_(o.told(i, error));
  }
  TrajectoryCodebook out;
  out.steps_ = o.steps;
  // Rounded as the file holds it, so that what is made and what is read are one.
  const auto rounded = [](double v) { return std::round(v * 1e4) / 1e4; };
  for (size_t c = 0; c < centres.count(); ++c)
    for (size_t k = 0; k < centres.width(); k += 4) {
      const Pose p = pose_of(std::as_const(centres)[c].subspan(k, 4));
      out.poses_.push_back({rounded(p.x), rounded(p.y), rounded(p.yaw_rad)});
    }
  return out;
}

std::vector<int32_t> TrajectoryCodebook::encode(std::span<const Pose> future, int32_t count) const {
  const auto steps = static_cast<size_t>(steps_);
  SLIP_CHECK(count >= 1 && future.size() > static_cast<size_t>(count - 1) * steps,
             "callers have a future that reaches into the last code");
  std::vector<int32_t> out;
  Pose from;
  for (size_t begin = 0; out.size() < static_cast<size_t>(count); begin += steps) {
    std::vector<Pose> truth;
    for (size_t i = begin; i < std::min(begin + steps, future.size()); ++i) truth.push_back(seen_from(from, future[i]));
    int32_t best = 0;
    double least = INFINITY;
    for (int32_t c = 0; c < codes(); ++c) {
      double sum = 0;
      for (size_t i = truth.size(); i > 0 && sum < least; --i) sum += distance2_m2(piece(c)[i - 1], truth[i - 1]);
      if (sum < least) best = c, least = sum;
    }
    out.push_back(best);
    from = after(from, piece(best).back());
  }
  return out;
}

std::vector<Pose> TrajectoryCodebook::decode(std::span<const int32_t> codes) const {
  std::vector<Pose> out;
  Pose from;
  for (const int32_t c : codes) {
    SLIP_CHECK(c >= 0 && c < this->codes(), "callers have codes of this book");
    for (const Pose& p : piece(c)) out.push_back(after(from, p));
    from = out.back();
  }
  return out;
}

json::object TrajectoryCodebook::to_json() const {
  json::array all;
  for (int32_t c = 0; c < codes(); ++c) {
    json::array code;
    for (const Pose& p : piece(c))
      for (const double v : {p.x, p.y, p.yaw_rad}) code.emplace_back(v);
    all.emplace_back(std::move(code));
  }
  return {{"format", kFormat}, {"step_s", kStepS}, {"steps", steps_}, {"codes", std::move(all)}};
}

Result<TrajectoryCodebook> TrajectoryCodebook::parse(const json::value& v, std::string_view where) {
  if (!v.is_object()) return bad_input("{}: expected an object, got another type", where);
  const json::object& o = v.get_object();
  SLIP_TRY(const std::string format, get_string(o, "format", where));
  if (format != kFormat) return bad_input("{}: format: expected {}, got {}", where, kFormat, shown(format));
  SLIP_TRY(const double step, get_number(o, "step_s", where));
  if (!(std::fabs(step - kStepS) < 1e-9)) return unsupported("{}: step_s: expected {}, got {}", where, kStepS, step);
  SLIP_TRY(const int64_t steps, get_int(o, "steps", where));
  if (steps < 1 || steps > kMostSteps) return bad_input("{}: steps: expected 1 to {}, got {}", where, kMostSteps, steps);
  SLIP_TRY(const json::array* codes, get_array(o, "codes", where));
  if (codes->size() < 2 || codes->size() > kMostCodes)
    return bad_input("{}: codes: expected 2 to {}, got {}", where, kMostCodes, codes->size());
  TrajectoryCodebook out;
  out.steps_ = static_cast<int32_t>(steps);
  for (const json::value& code : *codes) SLIP_TRY_(read_code(code, static_cast<size_t>(steps), where, out.poses_));
  return out;
}

Result<std::shared_ptr<const TrajectoryCodebook>> TrajectoryCodebook::load(const std::filesystem::path& file) {
  SLIP_TRY(const json::value v, read_json(file));
  SLIP_TRY(TrajectoryCodebook out, parse(v, file.string()));
  return std::make_shared<const TrajectoryCodebook>(std::move(out));
}

Trajectory resampled(std::span<const Pose> path, double rate_hz) {
  SLIP_CHECK(rate_hz > 0, "a rate is positive");
  Trajectory out{rate_hz, {}};
  const auto at = [&](size_t i) { return i == 0 ? Waypoint{} : Waypoint{path[i - 1].x, path[i - 1].y}; };
  constexpr double kPathHz = 10;
  for (int64_t k = 1;; ++k) {
    const double t = static_cast<double>(k) * kPathHz / rate_hz;  // in steps of the path
    const double whole = std::floor(t + 1e-9), part = std::max(0.0, t - whole);
    const auto before = static_cast<size_t>(whole);
    if (before > path.size() || (before == path.size() && part > 1e-6)) return out;
    const Waypoint a = at(before), b = part > 1e-6 ? at(before + 1) : a;
    out.points.push_back({a.x + part * (b.x - a.x), a.y + part * (b.y - a.y)});
  }
}

}  // namespace slip
