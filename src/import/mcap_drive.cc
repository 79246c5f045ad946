// SPDX-License-Identifier: Apache-2.0
// See mcap_drive.h.
#include "import/mcap_drive.h"

#include <algorithm>
#include <cmath>

#include "base/json.h"

namespace slip {
namespace {

constexpr std::string_view kPoseTopic = "/ego/pose", kAlphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
}  // namespace

std::string to_base64(std::string_view bytes) {
  std::string out;
  out.reserve((bytes.size() + 2) / 3 * 4);
  for (size_t i = 0; i < bytes.size(); i += 3) {
    uint32_t v = 0;
    const size_t n = std::min<size_t>(3, bytes.size() - i);
    for (size_t k = 0; k < 3; ++k) v = v << 8 | (k < n ? static_cast<uint8_t>(bytes[i + k]) : 0U);
    for (size_t k = 0; k < 4; ++k) out.push_back(k <= n ? kAlphabet[v >> (18 - 6 * k) & 63U] : '=');
  }
  return out;
}

Result<std::string> from_base64(std::string_view text, std::string_view name) {
  if (text.size() % 4 != 0) return bad_input("{}: expected base64 in groups of four, got {} characters", name, text.size());
  std::string out;
  out.reserve(text.size() / 4 * 3);
  for (size_t i = 0; i < text.size(); i += 4) {
    uint32_t v = 0;
    const bool last = i + 4 == text.size();
    const size_t pad = !last ? 0 : text[i + 3] != '=' ? 0 : text[i + 2] != '=' ? 1 : 2;
    for (size_t k = 0; k < 4; ++k) {
      const size_t at = k >= 4 - pad ? 0 : kAlphabet.find(text[i + k]);
      if (at == std::string_view::npos) return bad_input("{}: expected base64, got '{}' at character {}", name, text[i + k], i + k);
      v = v << 6 | static_cast<uint32_t>(at);
    }
    for (size_t k = 0; k < 3 - pad; ++k) out.push_back(static_cast<char>(v >> (16 - 8 * k) & 255U));
  }
  return out;
}

std::vector<double> McapDrive::moments(double every_s) const {
  std::vector<double> out;
  for (const Picture& p : cameras[1]) out.push_back(p.t_s);
  if (!out.empty() || poses.empty()) return out;
  for (double t = poses.front().t_s; t <= poses.back().t_s; t += every_s) out.push_back(t);
  return out;
}

Result<std::vector<uint8_t>> McapDrive::pictures_at(double now_s) const {
  std::array<std::optional<Image>, sim::kCameras> images;
  for (size_t c = 0; c < cameras.size(); ++c) {
    const auto behind =
        std::upper_bound(cameras[c].begin(), cameras[c].end(), now_s + 1e-6, [](double t, const Picture& p) { return t < p.t_s; });
    if (behind == cameras[c].begin()) continue;
    const Picture& p = *(behind - 1);
    SLIP_TRY(images[c], decode_image(std::as_bytes(std::span(p.bytes)), p.name));
  }
  return record_pictures(images);
}

namespace {

struct ReadPose {
  std::string frame;
  Pose pose;
};

Result<ReadPose> pose_of(const json::object& o, const std::string& where) {
  ReadPose out{"ego", {}};
  if (!o.contains("pose")) {
    SLIP_TRY(out.pose.x, get_number(o, "x", where));
    SLIP_TRY(out.pose.y, get_number(o, "y", where));
    SLIP_TRY(out.pose.yaw_rad, get_number(o, "yaw", where));
    return out;
  }
  SLIP_TRY(out.frame, string_or(o, "frame_id", "ego", where));
  SLIP_TRY(const json::object* pose, get_object(o, "pose", where));
  SLIP_TRY(const json::object* at, get_object(*pose, "position", where));
  SLIP_TRY(const json::object* q, get_object(*pose, "orientation", where));
  SLIP_TRY(out.pose.x, get_number(*at, "x", where));
  SLIP_TRY(out.pose.y, get_number(*at, "y", where));
  std::array<double, 4> v{};
  for (const auto& [key, value] : {std::pair{"w", &v[0]}, {"x", &v[1]}, {"y", &v[2]}, {"z", &v[3]}}) {
    SLIP_TRY(*value, get_number(*q, key, where));
  }
  if (v == std::array<double, 4>{}) return bad_input("{}: orientation: expected a quaternion, got zeros", where);
  const auto& [w, x, y, z] = v;  // of any length
  out.pose.yaw_rad = std::atan2(2 * (w * z + x * y), w * w + x * x - y * y - z * z);
  return out;
}

Result<json::object> object_of(Bytes data, const std::string& where) {
  SLIP_TRY(json::value v, parse_json({reinterpret_cast<const char*>(data.data()), data.size()}, where));
  if (!v.is_object()) return bad_input("{}: expected an object, got another value", where);
  return std::move(v.get_object());
}

Result<std::string> picture_of(const McapChannel& channel, Bytes data, const std::string& where) {
  if (channel.encoding != "json") return std::string(reinterpret_cast<const char*>(data.data()), data.size());
  SLIP_TRY(const json::object o, object_of(data, where));
  SLIP_TRY(const std::string text, get_string(o, "data", where));
  return from_base64(text, where);
}

/// Poses by their frame, in the order in which frames begin; pictures by camera.
struct Collected {
  std::vector<McapDrive> drives;
  std::array<std::vector<McapDrive::Picture>, sim::kCameras> pictures;

  McapDrive& drive(const std::string& frame) {
    const auto at = std::find_if(drives.begin(), drives.end(), [&](const McapDrive& d) { return d.frame == frame; });
    if (at != drives.end()) return *at;
    drives.push_back({frame, {}, {}});
    return drives.back();
  }
};

Status add_message(const McapMessage& m, const McapChannel& channel, double t_s, const std::string& where, Collected& out) {
  if (channel.topic == kPoseTopic) {
    if (channel.encoding != "json") return unsupported("{}: expected poses as JSON, got {}", where, channel.encoding);
    SLIP_TRY(const json::object o, object_of(m.data, where));
    SLIP_TRY(const ReadPose p, pose_of(o, where));
    out.drive(p.frame).poses.push_back({t_s, p.pose});
    return {};
  }
  const auto* camera = std::find(kCameraTopics.begin(), kCameraTopics.end(), channel.topic);
  if (camera == kCameraTopics.end()) return {};
  SLIP_TRY(std::string bytes, picture_of(channel, m.data, where));
  out.pictures[static_cast<size_t>(camera - kCameraTopics.begin())].push_back({t_s, std::move(bytes), where});
  return {};
}

}  // namespace

Result<std::vector<McapDrive>> read_mcap_drives(Bytes file, const std::string& name) {
  McapReader reader(file, name);
  Collected all;
  std::optional<uint64_t> start;
  for (int64_t number = 0;; ++number) {
    SLIP_TRY(const std::optional<McapMessage> m, reader.next());
    if (!m) break;
    if (!start) start = m->log_time_ns;
    const double t_s = static_cast<double>(static_cast<int64_t>(m->log_time_ns - *start)) / 1e9;
    const McapChannel& channel = reader.channel(m->channel_id);
    SLIP_TRY_(add_message(*m, channel, t_s, fmt::format("{}: message {} of {}", name, number, channel.topic), all));
  }
  if (all.drives.empty()) return bad_input("{}: expected poses on {}, got none", name, kPoseTopic);
  const auto earlier = [](const auto& a, const auto& b) { return a.t_s < b.t_s; };
  for (McapDrive& d : all.drives) {
    std::stable_sort(d.poses.begin(), d.poses.end(), earlier);
    for (size_t c = 0; c < d.cameras.size(); ++c) {
      std::stable_sort(all.pictures[c].begin(), all.pictures[c].end(), earlier);
      for (const McapDrive::Picture& p : all.pictures[c])
        if (p.t_s >= d.poses.front().t_s && p.t_s <= d.poses.back().t_s) d.cameras[c].push_back(p);
    }
  }
  return std::move(all.drives);
}

}  // namespace slip
