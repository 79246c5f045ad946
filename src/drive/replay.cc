// SPDX-License-Identifier: Apache-2.0
// See replay.h.
#include "drive/replay.h"

#include <algorithm>

#include "image/image.h"
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
  constexpr std::string_view kWords[] = {"vehicle", "pedestrian", "bicycle", "other"};
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

Status write_frames(const Episode& e, const std::filesystem::path& folder, const CancelToken& cancel) {
  std::error_code ec;
  std::filesystem::create_directories(folder, ec);
  if (ec) return bad_input("{}: expected a folder that can be made, got {}", folder.string(), ec.message());
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
    SLIP_TRY_(save_png(folder / fmt::format("{:03}.png", i), wide));
  }
  return {};
}

}  // namespace slip::drive
