// SPDX-License-Identifier: Apache-2.0
// See comma.h. The earth is taken as a sphere for "up": 0.2 degrees off at worst, no matter over a minute of driving.
#include "import/comma.h"

#include <charconv>
#include <cmath>
#include <cstring>
#include <numbers>
#include <optional>

#include "base/file.h"

namespace slip {
namespace {

constexpr size_t kMostBytes = size_t{1} << 30;
using Vec3 = std::array<double, 3>;

Vec3 cross(const Vec3& a, const Vec3& b) {
  return {a[1] * b[2] - a[2] * b[1], a[2] * b[0] - a[0] * b[2], a[0] * b[1] - a[1] * b[0]};
}
double dot(const Vec3& a, const Vec3& b) { return a[0] * b[0] + a[1] * b[1] + a[2] * b[2]; }
Vec3 unit(const Vec3& a) {
  const double n = std::sqrt(dot(a, a));
  return {a[0] / n, a[1] / n, a[2] / n};
}

/// What follows 'key': in a header's dictionary.
std::string_view value_of(std::string_view header, std::string_view key) {
  const size_t at = header.find(key);
  if (at == std::string_view::npos) return {};
  const size_t begin = header.find_first_not_of(": ", at + key.size());
  return begin == std::string_view::npos ? std::string_view{} : header.substr(begin);
}

Result<std::vector<int64_t>> shape_of(std::string_view text, std::string_view name) {
  std::vector<int64_t> out;
  const size_t close = text.find(')');
  if (!text.starts_with('(') || close == std::string_view::npos)
    return bad_input("{}: expected a shape in the header, got none", name);
  for (size_t at = 1; at < close;) {
    at = text.find_first_not_of(", ", at);
    if (at >= close) break;
    int64_t n = 0;
    const auto [end, error] = std::from_chars(text.data() + at, text.data() + close, n);
    if (error != std::errc{} || n < 0 || n > (int64_t{1} << 32) || out.size() == 8)
      return bad_input("{}: expected a shape of whole numbers, got {}", name, text.substr(0, close + 1));
    out.push_back(n);
    at = static_cast<size_t>(end - text.data());
  }
  return out;
}

}  // namespace

Result<NpyArray> read_npy(std::string_view bytes, std::string_view name) {
  if (!bytes.starts_with("\x93NUMPY") || bytes.size() < 10)
    return bad_input("{}: expected a NumPy array (.npy), got another file", name);
  const auto version = static_cast<uint8_t>(bytes[6]);
  if (version < 1 || version > 3) return bad_input("{}: expected format 1 to 3, got {}", name, version);
  const size_t lead = version == 1 ? 10 : 12;
  uint32_t length = 0;
  if (bytes.size() < lead) return bad_input("{}: expected a header, got a file that ends in it", name);
  std::memcpy(&length, bytes.data() + 8, lead - 8);
  if (length > bytes.size() - lead) return bad_input("{}: expected a header of {} bytes, got a file that ends in it", name, length);
  const std::string_view header = bytes.substr(lead, length), data = bytes.substr(lead + length);
  if (!value_of(header, "'descr'").starts_with("'<f8'")) return bad_input("{}: expected numbers of type <f8, got others", name);
  if (!value_of(header, "'fortran_order'").starts_with("False")) return bad_input("{}: expected C order, got Fortran's", name);
  NpyArray out;
  SLIP_TRY(out.shape, shape_of(value_of(header, "'shape'"), name));
  uint64_t n = 1;
  for (const int64_t d : out.shape) {
    n *= static_cast<uint64_t>(d);
    if (n > data.size() / sizeof(double)) break;  // more than the file has: said below, before the product wraps
  }
  if (n * sizeof(double) != data.size())
    return bad_input("{}: expected as many numbers as its shape says, got {} bytes", name, data.size());
  out.values.resize(n);
  if (n > 0) std::memcpy(out.values.data(), data.data(), data.size());
  return out;
}

namespace {

namespace fs = std::filesystem;

/// Where a segment keeps an array; in global_pose where it keeps none.
fs::path place_of(const fs::path& segment, const std::string& what) {
  fs::path found = segment / "global_pose" / what;
  for (const auto& folder : {segment / "global_pose", segment})
    for (const std::string& file : {what, what + ".npy"})
      if (fs::is_regular_file(folder / file)) found = folder / file;
  return found;
}

Result<NpyArray> load(const fs::path& file, int64_t columns) {
  SLIP_TRY(const std::string bytes, read_file(file, kMostBytes));
  SLIP_TRY(NpyArray a, read_npy(bytes, file.string()));
  const bool flat = columns == 1 && a.shape.size() == 1, rows = a.shape.size() == 2 && a.shape[1] == columns;
  if (!flat && !rows) return bad_input("{}: expected {} numbers a row, got another shape", file.string(), columns);
  for (const double v : a.values)
    if (!std::isfinite(v)) return bad_input("{}: expected finite numbers, got {}", file.string(), v);
  return a;
}

/// The segment's camera as quaternions, where it has them; a row of zeros is none.
Result<std::optional<NpyArray>> load_orientations(const fs::path& segment, size_t frames) {
  const fs::path file = place_of(segment, "frame_orientations");
  if (!fs::exists(file)) return std::optional<NpyArray>();
  SLIP_TRY(NpyArray q, load(file, 4));
  if (q.values.size() != 4 * frames)
    return bad_input("{}: expected an orientation for each of {} frames, got {}", file.string(), frames, q.values.size() / 4);
  for (size_t i = 0; i < frames; ++i)
    if (q.values[4 * i] == 0 && q.values[4 * i + 1] == 0 && q.values[4 * i + 2] == 0 && q.values[4 * i + 3] == 0)
      return bad_input("{}: expected a quaternion in row {}, got zeros", file.string(), i);
  return std::optional(std::move(q));
}

Vec3 row(const NpyArray& a, size_t i) { return {a.values[3 * i], a.values[3 * i + 1], a.values[3 * i + 2]}; }

/// The directions at a place on the earth.
struct Ground {
  Vec3 east, north;
  static Ground at(const Vec3& place) {
    const Vec3 up = unit(place), east = unit(cross({0, 0, 1}, up));
    return {east, cross(up, east)};
  }
  double heading(const Vec3& v) const { return std::atan2(dot(north, v), dot(east, v)); }
  double length(const Vec3& v) const { return std::hypot(dot(east, v), dot(north, v)); }
};

/// The first axis of the frame that the quaternion leads to the earth's from: forward, of any length [docs/notes/driving.md#comma2k19].
Vec3 forward(const NpyArray& quaternions, size_t i) {
  const double *q = quaternions.values.data() + 4 * i, w = q[0], x = q[1], y = q[2], z = q[3];
  return {w * w + x * x - y * y - z * z, 2 * (x * y + w * z), 2 * (x * z - w * y)};
}

constexpr double kMovesMps = 0.5;  // below, the velocity is mostly noise

/// Headings of frames that stand are the camera's, turned by what lies between camera and velocity while the car moves: how the device is
/// mounted, 0.9 degrees in the public example. A car that goes where its camera does not look backs.
void turn_by_camera(const Ground& ground, const NpyArray& velocities, const NpyArray& orientations, std::vector<double>& headings) {
  Waypoint mount;
  for (size_t i = 0; i < headings.size(); ++i) {
    const double speed = ground.length(row(velocities, i)), camera = ground.heading(forward(orientations, i));
    if (speed <= kMovesMps) continue;
    if (std::cos(headings[i] - camera) < 0) headings[i] += std::numbers::pi;
    mount = {mount.x + speed * std::cos(headings[i] - camera), mount.y + speed * std::sin(headings[i] - camera)};
  }
  for (size_t i = 0; i < headings.size(); ++i)
    if (ground.length(row(velocities, i)) <= kMovesMps)
      headings[i] = ground.heading(forward(orientations, i)) + std::atan2(mount.y, mount.x);
}

/// Headings of frames that stand are those of the motion before, or of the first one; a segment that never moves points east.
void keep_while_standing(const Ground& ground, const NpyArray& velocities, std::vector<double>& headings) {
  const auto moves = [&](size_t i) { return ground.length(row(velocities, i)) > kMovesMps; };
  size_t first = 0;
  while (first < headings.size() && !moves(first)) ++first;
  const double begin = first < headings.size() ? headings[first] : 0;
  for (size_t i = 0; i < headings.size(); ++i)
    if (!moves(i)) headings[i] = i < first ? begin : headings[i - 1];
}

}  // namespace

Result<CommaSegment> read_comma(const fs::path& segment) {
  const std::string name = segment.string();
  SLIP_TRY(const NpyArray times, load(place_of(segment, "frame_times"), 1));
  SLIP_TRY(const NpyArray positions, load(place_of(segment, "frame_positions"), 3));
  SLIP_TRY(const NpyArray velocities, load(place_of(segment, "frame_velocities"), 3));
  const size_t n = times.values.size();
  if (n < 2 || positions.values.size() != 3 * n || velocities.values.size() != 3 * n)
    return bad_input("{}: expected at least two frames with a position and a velocity each, got {}, {} and {}", name, n,
                     positions.values.size() / 3, velocities.values.size() / 3);
  SLIP_TRY(const std::optional<NpyArray> orientations, load_orientations(segment, n));
  const Vec3 start = row(positions, 0);
  const Ground ground = Ground::at(start);
  std::vector<double> headings(n);
  for (size_t i = 0; i < n; ++i) headings[i] = ground.heading(row(velocities, i));
  if (orientations) {
    turn_by_camera(ground, velocities, *orientations, headings);
  } else {
    keep_while_standing(ground, velocities, headings);
  }
  std::vector<TimedPose> poses;
  std::vector<double> seconds;
  for (size_t i = 0; i < n; ++i) {
    const Vec3 p = row(positions, i), d{p[0] - start[0], p[1] - start[1], p[2] - start[2]};
    seconds.push_back(times.values[i] - times.values[0]);
    poses.push_back({seconds.back(), {dot(ground.east, d), dot(ground.north, d), headings[i]}});
  }
  SLIP_TRY(TrackPieces track, TrackPieces::of(std::move(poses), name));
  fs::path pictures = segment / "frames";
  if (!fs::is_directory(pictures)) pictures.clear();
  return CommaSegment{std::move(track), std::move(seconds), std::move(pictures)};
}

}  // namespace slip
