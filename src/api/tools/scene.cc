// SPDX-License-Identifier: Apache-2.0
// slipstream::describe_scene: a simulated scene as the page and other tools draw it. All positions are in the ego frame of that moment.
#include <array>
#include <cmath>

#include "api/boundary.h"
#include "api/tools/reports.h"
#include "image/image.h"
#include "sim/record.h"
#include "sim/record/make.h"
#include "sim/render/render.h"
#include "sim/world.h"
#include "slipstream/engine.h"
#include "task/prompt.h"

namespace slip::api {
namespace {

constexpr double kSeenM = 90;  // what lies farther away is left out

/// RFC 4648, with padding.
std::string base64(std::span<const std::byte> bytes) {
  static constexpr char kDigits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::string out;
  out.reserve((bytes.size() + 2) / 3 * 4);
  for (size_t i = 0; i < bytes.size(); i += 3) {
    const auto byte = [&](size_t k) { return i + k < bytes.size() ? std::to_integer<uint32_t>(bytes[i + k]) : 0U; };
    const uint32_t three = byte(0) << 16 | byte(1) << 8 | byte(2);
    for (size_t k = 0; k < 4; ++k) out += i + k <= bytes.size() ? kDigits[three >> (18 - 6 * k) & 63] : '=';
  }
  return out;
}

sim::Vec2 in_frame_of(const sim::Pose& ego, sim::Vec2 p) {
  const double dx = p.x - ego.x, dy = p.y - ego.y, c = std::cos(ego.yaw), s = std::sin(ego.yaw);
  return {dx * c + dy * s, dy * c - dx * s};
}

json::array point(sim::Vec2 p) {
  const auto centimetres = [](double v) { return std::round(v * 100) / 100; };
  return {centimetres(p.x), centimetres(p.y)};
}

json::array roads_of(const sim::Moment& m) {
  json::array out;
  for (const sim::GroundPatch& patch : m.ground) {
    if (patch.kind != sim::Ground::kAsphalt) continue;
    json::array corners;
    for (const sim::Vec2 p : patch.corners) corners.push_back(point(in_frame_of(m.ego, p)));
    out.push_back(std::move(corners));
  }
  return out;
}

json::array agents_of(const sim::Moment& m) {
  json::array out;
  for (const sim::Agent& a : m.agents) {
    const sim::Vec2 at = in_frame_of(m.ego, {a.pose.x, a.pose.y});
    if (std::hypot(at.x, at.y) > kSeenM) continue;
    const json::array p = point(at);
    out.push_back(json::object{{"x", p[0]},
                               {"y", p[1]},
                               {"heading_rad", a.pose.yaw - m.ego.yaw},
                               {"length_m", a.length},
                               {"width_m", a.width},
                               {"speed_mps", a.speed_mps}});
  }
  return out;
}

json::array cameras_json() {
  static constexpr std::array<const char*, sim::kCameras> kNames = {"front left", "front", "front right"};
  const auto cameras = sim::front_cameras();
  json::array out;
  for (size_t i = 0; i < cameras.size(); ++i) {
    const sim::Camera& c = cameras[i];
    out.push_back(json::object{{"name", kNames[i]},
                               {"yaw_rad", c.yaw_rad},
                               {"pitch_rad", c.pitch_rad},
                               {"forward_m", c.forward_m},
                               {"height_m", c.height_m},
                               {"fov_rad", c.fov_rad},
                               {"width", c.width},
                               {"height", c.height}});
  }
  return out;
}

json::object ego_json(const sim::Labels& labels) {
  json::array history;
  for (const sim::EgoState& s : labels.history) history.push_back(json::array{s.t_s, s.x, s.y, s.vx, s.vy, s.ax, s.ay});
  return {{"intent", words(labels.intent)}, {"history", std::move(history)}};
}

}  // namespace

Result<slipstream::Report> describe_scene(uint64_t seed, double frame_s) {
  SLIP_TRY(const sim::Record record, sim::make_frame(seed, {}, frame_s));
  const sim::Labels& labels = record.labels;
  SLIP_TRY(const sim::Moment moment, sim::moment_at(labels.seed, labels.family, labels.frame_s));
  json::array images, truth, history;
  for (const Image& image : camera_images(record.images)) {
    SLIP_TRY(const std::vector<std::byte> png, encode_png(image));
    images.push_back(json::value("data:image/png;base64," + base64(png)));
  }
  for (double t_s = 0.25; t_s <= 5; t_s += 0.25) truth.push_back(point(sim::future_at(labels, t_s)));
  for (const sim::EgoState& s : labels.history) history.push_back(point({s.x, s.y}));
  const json::object out{{"seed", seed},
                         {"frame_s", frame_s},
                         {"family", sim::family_names()[labels.family]},
                         {"ego", ego_json(labels)},
                         {"images", std::move(images)},
                         {"cameras", cameras_json()},
                         {"truth", std::move(truth)},
                         {"history", std::move(history)},
                         {"agents", agents_of(moment)},
                         {"roads", roads_of(moment)}};
  return report_of(out, pretty(out));
}

}  // namespace slip::api

namespace slipstream {

Result<Report> describe_scene(uint64_t seed, double frame_s) {
  return slip::api::bounded([&] { return slip::api::describe_scene(seed, frame_s); });
}

}  // namespace slipstream
