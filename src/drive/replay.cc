// SPDX-License-Identifier: Apache-2.0
// See replay.h.
#include "drive/replay.h"

#include <algorithm>

#include "base/file.h"
#include "base/files/atomic_folder.h"
#include "image/image.h"
#include "import/foxglove.h"
#include "import/mcap.h"
#include "import/mcap_drive.h"
#include "sim/record.h"
#include "sim/render/render.h"

namespace slip::drive {

namespace {

json::array points_json(std::span<const sim::Vec2> points) {
  json::array out;
  for (const sim::Vec2& p : points) out.push_back(json::array{p.x, p.y});
  return out;
}

std::string_view word_of(Kind k) {
  static constexpr std::string_view kWords[] = {"vehicle", "pedestrian", "bicycle", "other"};
  return kWords[static_cast<size_t>(k)];
}

json::object step_json(const Snapshot& s) {
  json::array actors;
  for (const ActorNow& a : s.actors) actors.push_back(json::array{a.x, a.y, a.heading, a.speed});
  return {{"t", static_cast<double>(s.time_ms) / 1000},
          {"ego", json::array{s.ego.x, s.ego.y, s.ego.heading, s.ego.v}},
          {"actors", std::move(actors)},
          {"plan", points_json(s.plan)},
          {"age_ms", s.age_ms}};
}

void tell(const Drawn& drawn, const Episode& e, size_t i) {
  if (drawn) drawn(static_cast<int64_t>(i) + 1, static_cast<int64_t>(e.snapshots.size()));
}

}  // namespace

Result<json::object> replay_of(const Episode& e, const EpisodeSettings& settings) {
  SLIP_TRY(const World world, World::make(settings.seed, settings.family, settings.reactive));
  const Surroundings map = world.map();
  json::array actors, lanes, steps;
  for (size_t i = 0; i < world.scene().actors.size(); ++i) {
    const Other o = world.other(i);
    actors.push_back(json::object{{"id", o.id}, {"kind", word_of(o.kind)}, {"length", o.length}, {"width", o.width}});
  }
  for (const Lane& l : map.lanes) lanes.push_back(points_json(l.polygon));
  for (const Snapshot& s : e.snapshots) steps.push_back(step_json(s));
  return json::object{
      {"family", sim::family_names()[settings.family]},
      {"seed", settings.seed},
      {"seconds_per_step", kStep},
      {"ego", {{"length", kEgoBody.length}, {"width", kEgoBody.width}, {"rear_to_centre", kEgoBody.rear_to_centre}}},
      {"actors", std::move(actors)},
      {"lanes", std::move(lanes)},
      {"centre_line", points_json(map.centre_line)},
      {"steps", std::move(steps)}};
}

Status write_frames(const Episode& e, const std::filesystem::path& folder, const CancelToken& cancel, const Drawn& drawn) {
  SLIP_TRY(AtomicFolder out, AtomicFolder::create(folder, 0));
  std::vector<uint8_t> pictures(sim::kCameras * sim::kImageBytes);
  Image wide{sim::kCameras * sim::kImageWidth, sim::kImageHeight, {}};
  wide.rgb.resize(pictures.size());
  constexpr size_t kLine = size_t{sim::kImageWidth} * 3;
  for (size_t i = 0; i < e.snapshots.size(); ++i) {
    SLIP_TRY_(cancel.check("drawing", static_cast<int64_t>(i), "frames"));
    sim::render_all(e.snapshots[i].moment, pictures);
    for (size_t c = 0; c < sim::kCameras; ++c)
      for (size_t y = 0; y < sim::kImageHeight; ++y)
        std::copy_n(pictures.data() + c * sim::kImageBytes + y * kLine, kLine, wide.rgb.data() + (y * sim::kCameras + c) * kLine);
    SLIP_TRY_(save_png(out.path() / fmt::format("{:03}.png", i), wide));
    tell(drawn, e, i);
  }
  return out.commit();
}

namespace {

constexpr uint64_t kBegin = 1'000'000'000 * uint64_t{1'000'000'000};  // ns
struct Channels {
  std::array<uint16_t, sim::kCameras> cameras{};
  uint16_t pose = 0, plan = 0, actors = 0, drive = 0;
};

Channels add_channels(McapWriter& w) {
  const auto channel = [&](std::string_view topic, const char* schema, std::string_view text) {
    return w.add_channel(
        {.topic = std::string(topic), .encoding = "json", .schema = schema, .schema_encoding = "jsonschema", .metadata = {}}, text);
  };
  Channels c;
  for (size_t i = 0; i < c.cameras.size(); ++i) c.cameras[i] = channel(kCameraTopics[i], "foxglove.CompressedImage", kImageSchema);
  c.pose = channel("/ego/pose", "foxglove.PoseInFrame", kPoseSchema);
  c.plan = channel("/ego/plan", "foxglove.PosesInFrame", kPosesSchema);
  c.actors = channel("/actors", "foxglove.SceneUpdate", kSceneSchema);
  c.drive = channel("/drive", "slipstream.Drive", R"({"type":"object"})");
  return c;
}

json::object box_json(const std::string& id, uint64_t ns, const ActorNow& a, const Other& o) {
  constexpr double kHeight = 1.6;
  json::object pose = pose_json(a.x, a.y, a.heading);
  pose["position"].as_object()["z"] = kHeight / 2;
  return {{"timestamp", stamp(ns)},
          {"frame_id", "scene"},
          {"id", id},
          {"lifetime", {{"sec", 0}, {"nsec", 200'000'000}}},
          {"frame_locked", false},
          {"cubes", json::array{json::object{{"pose", std::move(pose)},
                                             {"size", {{"x", o.length}, {"y", o.width}, {"z", kHeight}}},
                                             {"color", {{"r", 0.6}, {"g", 0.6}, {"b", 0.65}, {"a", 1.0}}}}}}};
}

void add_step(McapWriter& w, const Channels& c, const Snapshot& s, uint64_t ns, const std::vector<Other>& others) {
  const json::object head{{"timestamp", stamp(ns)}, {"frame_id", "scene"}};
  json::object pose = head, plan = head;
  pose["pose"] = pose_json(s.ego.x, s.ego.y, s.ego.heading);
  json::array poses, entities;
  for (const sim::Vec2& p : s.plan) poses.push_back(pose_json(p.x, p.y, 0));
  plan["poses"] = std::move(poses);
  for (size_t i = 0; i < s.actors.size(); ++i) entities.push_back(box_json(others[i].id, ns, s.actors[i], others[i]));
  w.add(c.pose, ns, json::serialize(pose));
  w.add(c.plan, ns, json::serialize(plan));
  w.add(c.actors, ns, json::serialize(json::object{{"deletions", json::array{}}, {"entities", std::move(entities)}}));
  w.add(c.drive, ns, json::serialize(json::object{{"speed_mps", s.ego.v}, {"age_ms", s.age_ms}}));
}

std::vector<Other> others_of(const World& world) {
  std::vector<Other> out;
  for (size_t i = 0; i < world.scene().actors.size(); ++i) out.push_back(world.other(i));
  return out;
}

}  // namespace

Status write_mcap(const Episode& e, const EpisodeSettings& settings, const std::filesystem::path& file, const CancelToken& cancel,
                  const Drawn& drawn) {
  SLIP_TRY(const World world, World::make(settings.seed, settings.family, settings.reactive));
  const std::vector<Other> others = others_of(world);
  SLIP_TRY(AtomicFile out, AtomicFile::create(file));
  const auto write = [&](const std::string& bytes) { return bytes.empty() ? Status() : out.write(bytes.data(), bytes.size()); };
  McapWriter w("slipstream");
  const Channels channels = add_channels(w);
  std::vector<uint8_t> pictures(sim::kCameras * sim::kImageBytes);
  for (size_t i = 0; i < e.snapshots.size(); ++i) {
    SLIP_TRY_(cancel.check("drawing", static_cast<int64_t>(i), "frames"));
    const Snapshot& s = e.snapshots[i];
    const uint64_t ns = kBegin + static_cast<uint64_t>(s.time_ms) * 1'000'000;
    add_step(w, channels, s, ns, others);
    sim::render_all(s.moment, pictures);
    for (size_t c = 0; c < sim::kCameras; ++c) {
      const auto part = std::span(pictures).subspan(c * sim::kImageBytes, sim::kImageBytes);
      SLIP_TRY(const std::string message,
               image_message({sim::kImageWidth, sim::kImageHeight, {part.begin(), part.end()}}, ns, kCameraTopics[c].substr(1)));
      w.add(channels.cameras[c], ns, message);
    }
    SLIP_TRY_(write(w.take()));
    tell(drawn, e, i);
  }
  SLIP_TRY_(write(w.finish()));
  return out.commit();
}

namespace {

constexpr MapColour kRoad{0.82, 0.83, 0.85}, kLine{1, 1, 1}, kBody{0.45, 0.47, 0.5}, kPerson{0.9, 0.62, 0};
constexpr MapColour kOwn{0, 0.447, 0.698}, kBest{0, 0.62, 0.451}, kHit{0.835, 0.369, 0}, kRed{0.8, 0.1, 0.1};

std::vector<std::pair<double, double>> outline(const Polygon& p) {
  std::vector<std::pair<double, double>> out;
  for (const sim::Vec2& v : p) out.emplace_back(v.x, v.y);
  return out;
}
MapShape box_shape(const sim::Pose& centre, double length, double width, const MapColour& colour, double opacity) {
  const Corners c = corners_of(centre, length, width);
  return {.points = {{c[0].x, c[0].y}, {c[1].x, c[1].y}, {c[2].x, c[2].y}, {c[3].x, c[3].y}},
          .closed = true,
          .fill = colour,
          .opacity = opacity};
}
MapShape track_shape(const Episode& e, const MapColour& colour, bool dashed) {
  MapShape out{.stroke = colour, .stroke_px = 2.5, .dashed = dashed};
  for (const Snapshot& s : e.snapshots) {
    const sim::Pose p = ahead_of({s.ego.x, s.ego.y, s.ego.heading}, kEgoBody.rear_to_centre);
    out.points.emplace_back(p.x, p.y);
  }
  return out;
}

void add_road(const Surroundings& map, MapView& out) {
  for (const Polygon& p : map.drivable) out.shapes.push_back({.points = outline(p), .closed = true, .fill = kRoad});
  for (const Polygon& p : map.intersections) out.shapes.push_back({.points = outline(p), .closed = true, .fill = kRoad});
  for (const Lane& l : map.lanes) out.shapes.push_back({.points = outline(l.polygon), .closed = true, .stroke = kLine});
  for (const RedArea& r : map.red)
    out.shapes.push_back({.points = outline(r.polygon), .closed = true, .fill = kRed, .opacity = 0.25});
}

/// Boxes of everybody every second, the later the fuller; who was hit by the ego's fault is red.
void add_boxes(const Episode& e, const std::vector<Other>& others, MapView& out) {
  std::vector<bool> hit(others.size());
  for (const ContactEvent& c : e.track.contacts) hit[c.other] = hit[c.other] || c.at_fault;
  for (size_t k = 0; k < e.snapshots.size(); k += 10) {
    const Snapshot& s = e.snapshots[k];
    const double opacity = 0.15 + 0.75 * static_cast<double>(k) / static_cast<double>(e.snapshots.size());
    for (size_t i = 0; i < s.actors.size(); ++i) {
      const bool person = others[i].kind == Kind::kPedestrian || others[i].kind == Kind::kBicycle;
      out.shapes.push_back(box_shape({s.actors[i].x, s.actors[i].y, s.actors[i].heading}, others[i].length, others[i].width,
                                     hit[i]   ? kHit
                                     : person ? kPerson
                                              : kBody,
                                     opacity));
    }
    out.shapes.push_back(box_shape(ahead_of({s.ego.x, s.ego.y, s.ego.heading}, kEgoBody.rear_to_centre), kEgoBody.length,
                                   kEgoBody.width, kOwn, opacity));
  }
}

}  // namespace

Result<MapView> view_of(const Episode& e, const Episode& expert, const EpisodeSettings& settings, std::string title) {
  SLIP_TRY(const World world, World::make(settings.seed, settings.family, settings.reactive));
  MapView out{.title = std::move(title), .shapes = {}, .legend = {}};
  add_road(world.map(), out);
  add_boxes(e, others_of(world), out);
  out.shapes.push_back(track_shape(expert, kBest, true));
  out.shapes.push_back(track_shape(e, kOwn, false));
  out.legend = {{kOwn, "driven, a box every second"}, {kBest, "the expert's way"}, {kBody, "others"}, {kHit, "hit"}};
  constexpr double kBeside = 11, kBeyond = 22;
  out.x_low = out.y_low = 1e9, out.x_high = out.y_high = -1e9;
  for (const Episode* one : {&e, &expert})
    for (const Snapshot& s : one->snapshots) {
      out.x_low = std::min(out.x_low, s.ego.x - kBeyond), out.x_high = std::max(out.x_high, s.ego.x + kBeyond);
      out.y_low = std::min(out.y_low, s.ego.y - kBeside), out.y_high = std::max(out.y_high, s.ego.y + kBeside);
    }
  return out;
}

}  // namespace slip::drive
