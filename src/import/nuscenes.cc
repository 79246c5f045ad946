// SPDX-License-Identifier: Apache-2.0
// See nuscenes.h.
#include "import/nuscenes.h"

#include <algorithm>
#include <cmath>
#include <unordered_map>

#include "base/json.h"

namespace slip {
namespace {

constexpr size_t kMostTableBytes = size_t{4} << 30;  // trainval's sample_data.json has 1.2 GB
constexpr std::string_view kLidar = "LIDAR_TOP";

using Vec3 = std::array<double, 3>;

struct Pose3 {
  std::array<double, 4> q{};  // w, x, y, z
  Vec3 at{};
};

std::array<Vec3, 3> matrix(const std::array<double, 4>& raw) {
  const double norm = std::sqrt(raw[0] * raw[0] + raw[1] * raw[1] + raw[2] * raw[2] + raw[3] * raw[3]);
  const double w = raw[0] / norm, x = raw[1] / norm, y = raw[2] / norm, z = raw[3] / norm;
  return {{{1 - 2 * (y * y + z * z), 2 * (x * y - w * z), 2 * (x * z + w * y)},
           {2 * (x * y + w * z), 1 - 2 * (x * x + z * z), 2 * (y * z - w * x)},
           {2 * (x * z - w * y), 2 * (y * z + w * x), 1 - 2 * (x * x + y * y)}}};
}

/// `p` as `from` sees it: its place and the direction of its x axis, flat.
Pose seen_from(const Pose3& from, const Pose3& p) {
  const auto r = matrix(from.q), o = matrix(p.q);
  const Vec3 d{p.at[0] - from.at[0], p.at[1] - from.at[1], p.at[2] - from.at[2]};
  const auto along = [&](size_t axis, const Vec3& v) { return r[0][axis] * v[0] + r[1][axis] * v[1] + r[2][axis] * v[2]; };
  const Vec3 forward{o[0][0], o[1][0], o[2][0]};
  return {along(0, d), along(1, d), std::atan2(along(1, forward), along(0, forward))};
}

Pose flat(const Pose3& p) {
  const auto r = matrix(p.q);
  return {p.at[0], p.at[1], std::atan2(r[1][0], r[0][0])};
}

/// Microseconds that a double holds exactly (until the year 2255), so that differences of two do not overflow.
Result<int64_t> time_of(const json::object& row, const std::string& where) {
  constexpr int64_t kLatest = int64_t{1} << 53;
  SLIP_TRY(const int64_t us, get_int(row, "timestamp", where));
  if (us < 0 || us > kLatest) return bad_input("{}: timestamp: expected 0 to {} microseconds, got {}", where, kLatest, us);
  return us;
}

/// One table: rows by token.
class Table {
 public:
  static Result<Table> read(const std::filesystem::path& folder, std::string_view table) {
    Table t;
    t.where_ = (folder / fmt::format("{}.json", table)).string();
    SLIP_TRY(t.rows_, read_json(t.where_, kMostTableBytes));
    if (!t.rows_.is_array()) return bad_input("{}: expected an array of rows, got another value", t.where_);
    for (const json::value& row : t.rows_.get_array()) {
      if (!row.is_object()) return bad_input("{}: expected rows to be objects, got another value", t.where_);
      SLIP_TRY(std::string token, get_string(row.get_object(), "token", t.where_));
      if (!t.by_token_.emplace(token, &row.get_object()).second)
        return bad_input("{}: expected each token once, got {} twice", t.where_, token);
    }
    return t;
  }
  Result<const json::object*> row(const std::string& token) const {
    const auto at = by_token_.find(token);
    if (at == by_token_.end()) return bad_input("{}: expected a row with token {}, got none", where_, token);
    return at->second;
  }
  Result<const json::object*> row_of(const json::object& from, std::string_view key, const Table& other) const {
    SLIP_TRY(const std::string token, get_string(from, key, other.where_));
    return row(token);
  }
  const json::array& rows() const { return rows_.get_array(); }
  const std::string& where() const { return where_; }

 private:
  std::string where_;
  json::value rows_;
  std::unordered_map<std::string, const json::object*> by_token_;
};

template <size_t N>
Result<std::array<double, N>> numbers(const json::object& row, std::string_view key, const std::string& where) {
  SLIP_TRY(const json::array* a, get_array(row, key, where));
  std::array<double, N> out{};
  if (a->size() != N) return bad_input("{}: {}: expected {} numbers, got {}", where, key, N, a->size());
  for (size_t i = 0; i < N; ++i) {
    if (!(*a)[i].is_number()) return bad_input("{}: {}: expected numbers, got {}", where, key, json::serialize((*a)[i]));
    out[i] = (*a)[i].to_number<double>();
  }
  return out;
}

Result<Pose3> pose_of(const json::object& row, const std::string& where) {
  Pose3 p;
  SLIP_TRY(p.q, numbers<4>(row, "rotation", where));
  SLIP_TRY(p.at, numbers<3>(row, "translation", where));
  if (p.q == std::array<double, 4>{}) return bad_input("{}: rotation: expected a quaternion, got zeros", where);
  return p;
}

struct Tables {
  Table scene, sample, sample_data, ego_pose, sensor, calibrated, annotation, instance, category;
};

Result<Tables> read_tables(const std::filesystem::path& f) {
  SLIP_TRY(Table scene, Table::read(f, "scene"));
  SLIP_TRY(Table sample, Table::read(f, "sample"));
  SLIP_TRY(Table data, Table::read(f, "sample_data"));
  SLIP_TRY(Table pose, Table::read(f, "ego_pose"));
  SLIP_TRY(Table sensor, Table::read(f, "sensor"));
  SLIP_TRY(Table calibrated, Table::read(f, "calibrated_sensor"));
  SLIP_TRY(Table annotation, Table::read(f, "sample_annotation"));
  SLIP_TRY(Table instance, Table::read(f, "instance"));
  SLIP_TRY(Table category, Table::read(f, "category"));
  return Tables{std::move(scene),      std::move(sample),     std::move(data),     std::move(pose),    std::move(sensor),
                std::move(calibrated), std::move(annotation), std::move(instance), std::move(category)};
}

/// What the rows of sample_data say of one sample.
struct Seen {
  std::map<std::string, std::string> files;
  std::optional<Pose3> ego;
  std::vector<std::pair<int64_t, Pose3>> lidar;  // sweeps too
};

using BySample = std::unordered_map<std::string, Seen>;

Result<BySample> sort_sample_data(const Tables& t) {
  BySample out;
  const std::string& where = t.sample_data.where();
  for (const json::value& v : t.sample_data.rows()) {
    const json::object& row = v.get_object();
    SLIP_TRY(const json::object* calibrated, t.calibrated.row_of(row, "calibrated_sensor_token", t.sample_data));
    SLIP_TRY(const json::object* sensor, t.sensor.row_of(*calibrated, "sensor_token", t.calibrated));
    SLIP_TRY(const std::string channel, get_string(*sensor, "channel", t.sensor.where()));
    SLIP_TRY(const std::string sample, get_string(row, "sample_token", where));
    SLIP_TRY(const bool key_frame, get_bool(row, "is_key_frame", where));
    Seen& seen = out[sample];
    if (key_frame) {
      SLIP_TRY(seen.files[channel], get_string(row, "filename", where));
    }
    if (channel != kLidar) continue;
    SLIP_TRY(const json::object* pose, t.ego_pose.row_of(row, "ego_pose_token", t.sample_data));
    SLIP_TRY(const Pose3 ego, pose_of(*pose, t.ego_pose.where()));
    SLIP_TRY(const int64_t time, time_of(row, where));
    seen.lidar.emplace_back(time, ego);
    if (key_frame) seen.ego = ego;
  }
  return out;
}

using Boxes = std::unordered_map<std::string, std::vector<std::pair<NuScenesBox, Pose3>>>;

Result<Boxes> sort_annotations(const Tables& t) {
  Boxes out;
  const std::string& where = t.annotation.where();
  for (const json::value& v : t.annotation.rows()) {
    const json::object& row = v.get_object();
    SLIP_TRY(const std::string sample, get_string(row, "sample_token", where));
    NuScenesBox box;
    SLIP_TRY(box.instance, get_string(row, "instance_token", where));
    SLIP_TRY(const json::object* instance, t.instance.row(box.instance));
    SLIP_TRY(const json::object* category, t.category.row_of(*instance, "category_token", t.instance));
    SLIP_TRY(box.category, get_string(*category, "name", t.category.where()));
    SLIP_TRY(box.width_length_height, numbers<3>(row, "size", where));
    SLIP_TRY(const Pose3 pose, pose_of(row, where));
    out[sample].emplace_back(std::move(box), pose);
  }
  return out;
}

/// A scene's samples by their links.
Result<std::vector<const json::object*>> chain_of(const Tables& t, const json::object& scene) {
  std::vector<const json::object*> out;
  SLIP_TRY(std::string token, get_string(scene, "first_sample_token", t.scene.where()));
  while (!token.empty()) {
    if (out.size() > t.sample.rows().size()) return bad_input("{}: expected samples in a row, got a circle", t.sample.where());
    SLIP_TRY(const json::object* row, t.sample.row(token));
    out.push_back(row);
    SLIP_TRY(token, get_string(*row, "next", t.sample.where()));
  }
  return out;
}

struct Posed {
  NuScenesSample sample;
  Pose3 ego;
};

void add_neighbours(std::vector<Posed>& all) {
  constexpr size_t kPast = 4, kFuture = 6;
  for (size_t i = 0; i < all.size(); ++i) {
    for (size_t k = i - std::min(i, kPast); k < i; ++k) all[i].sample.past.push_back(seen_from(all[i].ego, all[k].ego));
    for (size_t k = i + 1; k < std::min(all.size(), i + 1 + kFuture); ++k)
      all[i].sample.future.push_back(seen_from(all[i].ego, all[k].ego));
  }
}

Result<NuScenesScene> read_scene(const Tables& t, const json::object& row, const BySample& data, const Boxes& boxes) {
  NuScenesScene out;
  SLIP_TRY(out.name, get_string(row, "name", t.scene.where()));
  SLIP_TRY(const auto chain, chain_of(t, row));
  std::vector<Posed> posed;
  std::vector<std::pair<int64_t, Pose3>> lidar;
  for (const json::object* s : chain) {
    Posed p;
    SLIP_TRY(p.sample.token, get_string(*s, "token", t.sample.where()));
    SLIP_TRY(p.sample.timestamp_us, time_of(*s, t.sample.where()));
    const auto seen = data.find(p.sample.token);
    if (seen == data.end() || !seen->second.ego)
      return bad_input("{}: expected a {} key frame of sample {}, got none", t.sample_data.where(), kLidar, p.sample.token);
    p.sample.files = seen->second.files;
    p.ego = *seen->second.ego;
    p.sample.flat = flat(p.ego);
    lidar.insert(lidar.end(), seen->second.lidar.begin(), seen->second.lidar.end());
    if (const auto b = boxes.find(p.sample.token); b != boxes.end())
      for (const auto& [box, pose] : b->second) {
        p.sample.boxes.push_back(box);
        p.sample.boxes.back().pose = seen_from(p.ego, pose);
      }
    posed.push_back(std::move(p));
  }
  add_neighbours(posed);
  std::sort(lidar.begin(), lidar.end(), [](const auto& a, const auto& b) { return a.first < b.first; });
  const auto seconds = [&](int64_t us) { return static_cast<double>(us - lidar.front().first) / 1e6; };
  for (const auto& [time, pose] : lidar) out.track.push_back({seconds(time), flat(pose)});
  for (Posed& p : posed) {
    out.seconds.push_back(seconds(p.sample.timestamp_us));
    out.samples.push_back(std::move(p.sample));
  }
  return out;
}

}  // namespace

Result<std::vector<NuScenesScene>> read_nuscenes(const std::filesystem::path& folder) {
  SLIP_TRY(const Tables t, read_tables(folder));
  SLIP_TRY(const BySample data, sort_sample_data(t));
  SLIP_TRY(const Boxes boxes, sort_annotations(t));
  std::vector<NuScenesScene> out;
  for (const json::value& v : t.scene.rows()) {
    SLIP_TRY(NuScenesScene scene, read_scene(t, v.get_object(), data, boxes));
    out.push_back(std::move(scene));
  }
  return out;
}

}  // namespace slip
