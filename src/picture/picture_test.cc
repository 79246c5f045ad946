// SPDX-License-Identifier: Apache-2.0
// What the picture promises: any input draws, the same input draws the same bytes, and what was answered can be seen. Pixels are read from the
// PNG; the SVG is drawn by the same calls.
#include "picture/picture.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <limits>
#include <regex>
#include <span>
#include <string>
#include <utility>

#include "base/file.h"
#include "sim/record.h"
#include "sim/render/render.h"

namespace slip {
namespace {

constexpr double kNan = std::numeric_limits<double>::quiet_NaN(), kInfinity = std::numeric_limits<double>::infinity();

void patch(sim::Moment& m, sim::Ground kind, double x0, double x1, double y0, double y1) {
  m.ground.push_back({kind, {{x0, y0}, {x1, y0}, {x1, y1}, {x0, y1}}});
}

sim::Agent agent(sim::AgentType type, double x, double y, double yaw, double speed_mps, double length, double width,
                 double height) {
  sim::Agent a;
  a.type = type, a.pose = {x, y, yaw}, a.speed_mps = speed_mps;
  a.length = length, a.width = width, a.height = height;
  a.looks.colour = {60, 110, 180};
  return a;
}

/// A street with a crosswalk, a pedestrian on it, a truck that stands, oncoming traffic and roadworks; the ego stands turned.
sim::Moment street() {
  sim::Moment m;
  m.ego = {0, -1.75, 0.02};
  m.ego_speed_mps = 9;
  m.env.texture_seed = 5;
  for (int i = -1; i < 6; ++i) patch(m, sim::Ground::kAsphalt, 20.0 * i, 20.0 * (i + 1), -7, 7);
  patch(m, sim::Ground::kSidewalk, -20, 120, 7, 10);
  patch(m, sim::Ground::kSidewalk, -20, 120, -10, -7);
  patch(m, sim::Ground::kLaneLineYellow, -20, 120, -0.08, 0.08);
  for (int i = -3; i < 20; ++i) patch(m, sim::Ground::kLaneLineWhite, 6.0 * i, 6.0 * i + 3, -3.57, -3.43);
  patch(m, sim::Ground::kStopLine, 33, 33.4, -7, 0);
  for (int i = 0; i < 9; ++i) patch(m, sim::Ground::kCrosswalk, 34.5, 37.5, -6.6 + 1.5 * i, -5.9 + 1.5 * i);
  m.agents = {agent(sim::AgentType::kCar, 24, 1.75, 3.14, 8, 4.5, 1.85, 1.5),
              agent(sim::AgentType::kTruck, 44, -1.6, 0, 3, 8.5, 2.5, 3.4),
              agent(sim::AgentType::kPedestrian, 36, -4, 1.57, 1.4, 0.5, 0.6, 1.75),
              agent(sim::AgentType::kCyclist, 15, -5.8, 0, 4, 1.8, 0.6, 1.75),
              agent(sim::AgentType::kCone, 20, -6.5, 0, 0, 0.4, 0.4, 0.8),
              agent(sim::AgentType::kAmbulance, 12, 5, 3.14, 12, 6, 2.1, 2.6)};
  m.lights.push_back({{39, -7.8, 3.14}, 4.5, sim::LightState::kRed});
  m.signs.push_back({sim::SignKind::kSpeedLimit, {14, -7.6, 3.14}, 2.2, 30});
  for (int i = 0; i < 12; ++i) {
    const double side = i % 2 == 0 ? 1 : -1;
    m.scenery.push_back({sim::SceneryKind::kBuilding, {18.0 * (i / 2), side * 18, 0}, 14, 11, 8, {150, 140, 130}});
    m.scenery.push_back({sim::SceneryKind::kTree, {18.0 * (i / 2) + 9, side * 11, 0}, 3, 3, 6, {}});
  }
  return m;
}

std::vector<Image> cameras(const sim::Moment& m) {
  std::vector<Image> out;
  for (const sim::Camera& c : sim::front_cameras()) {
    Image i{c.width, c.height, std::vector<uint8_t>(sim::image_bytes(c))};
    sim::render(m, c, i.rgb);
    out.push_back(std::move(i));
  }
  return out;
}

/// Everything filled: braking gently and bending to the left.
PictureInput full() {
  PictureInput in;
  in.title = "seed 1204  pedestrian at a crosswalk";
  in.moment = street();
  in.images = cameras(*in.moment);
  in.simulated_cameras = true;
  for (int i = 1; i <= 20; ++i) {
    const double t = 0.25 * i, x = 9 * t - 0.6 * t * t;
    in.path.push_back({x, 0.0016 * x * x});
    in.truth_path.push_back({0.96 * x, -0.0008 * x * x});
    if (i % 4 == 0) in.waypoints.push_back(in.path.back());
  }
  for (int i = -15; i <= 0; ++i) in.history.push_back({9.2 * 0.25 * i, 0.0});
  for (size_t i = 0; i < sim::kObjectClasses.size(); ++i) {
    in.objects.emplace_back(sim::kObjectClasses[i], i < 3 || i == 4 || i == 8);
    in.truth_objects.emplace_back(i < 3 || i == 4 || i == 7);
  }
  in.explanation =
      "A pedestrian walks onto the crosswalk ahead while the light shows red, and a truck stands behind it; the car eases off "
      "early, keeps clear of the cyclist on the right and comes to rest before the stop line.";
  in.longitudinal = "come to stop", in.lateral = "lane follow";
  in.facts = {
      {"decoder", "scaffold spec"},         {"forwards", "23"}, {"tokens", "212"}, {"time", "184.2 ms"}, {"exact", "lossless"},
      {"model", "fast-ddrive-w 0.6B int8"}, {"seed", "1204"},   {"threads", "2"}};
  return in;
}

int changed(const Image& a, const Image& b, int x0, int x1, int y0, int y1) {
  int n = 0;
  for (int y = y0; y < y1; ++y) {
    for (int x = x0; x < x1; ++x) {
      const auto i = static_cast<size_t>(3 * (y * a.width + x));
      n += a.rgb[i] != b.rgb[i] || a.rgb[i + 1] != b.rgb[i + 1] || a.rgb[i + 2] != b.rgb[i + 2];
    }
  }
  return n;
}

Image plain_image(int width, int height) {
  Image out{width, height, {}};
  for (int i = 0; i < width * height; ++i) out.rgb.insert(out.rgb.end(), {90, 120, 150});
  return out;
}

bool is_whole(const Image& i) { return i.width == 1600 && i.height == 900 && i.rgb.size() == size_t{1600} * 900 * 3; }

std::string bytes_of(const PictureInput& in, FigureFormat format) {
  const auto bytes = draw_picture(in, format);
  EXPECT_TRUE(bytes) << bytes.error().message;
  return bytes ? *bytes : "";
}

/// The pixels; without any where the picture could not be drawn.
Image drawn(const PictureInput& in) {
  const std::string png = bytes_of(in, FigureFormat::kPng);
  auto image = decode_image(std::as_bytes(std::span(png)), "picture.png");
  EXPECT_TRUE(image);
  return image ? *std::move(image) : Image{1600, 900, std::vector<uint8_t>(size_t{1600} * 900 * 3)};
}

/// Kept for a look when the variable names a folder.
void keep(const Image& image, const std::string& name) {
  const char* folder = std::getenv("SLIP_KEEP_PICTURES");
  if (folder == nullptr) return;
  EXPECT_TRUE(save_png(std::string(folder) + "/" + name + ".png", image).has_value());
}

TEST(Picture, TheSameInputGivesTheSameBytes) {
  EXPECT_TRUE(bytes_of(full(), FigureFormat::kPng) == bytes_of(full(), FigureFormat::kPng));
  // The names of an SVG's surfaces go on counting within a process.
  const auto svg = [] {
    return std::regex_replace(bytes_of(full(), FigureFormat::kSvg), std::regex("(id=\"|#)(surface|image)[0-9]+"), "$2");
  };
  EXPECT_TRUE(svg() == svg());
  const Image image = drawn(full());
  EXPECT_TRUE(is_whole(image));
  keep(image, "full");
}

size_t count(std::string_view text, std::string_view part) {
  size_t n = 0;
  for (size_t at = text.find(part); at != std::string_view::npos; at = text.find(part, at + 1)) ++n;
  return n;
}

TEST(Picture, AnSvgHoldsTheCamerasAsImagesAndTheRestAsShapes) {
  PictureInput in = full();
  const std::string svg = bytes_of(in, FigureFormat::kSvg);
  EXPECT_TRUE(svg.starts_with("<?xml"));
  EXPECT_NE(svg.find("viewBox=\"0 0 1600 900\""), std::string::npos);
  EXPECT_EQ(count(svg, "data:image/png;base64,"), 3U);
  in.images.clear();
  const std::string without = bytes_of(in, FigureFormat::kSvg);
  EXPECT_EQ(count(without, "data:image"), 0U) << "a part that was drawn in pixels";
  EXPECT_GT(count(without, "<path"), 200U);
  const char* folder = std::getenv("SLIP_KEEP_PICTURES");
  EXPECT_TRUE(folder == nullptr || write_file(std::string(folder) + "/full.svg", svg));
}

TEST(Picture, ThePathLiesOnTheRoadOfTheFrontCamera) {
  const PictureInput with = full();
  PictureInput without = with;
  without.path.clear(), without.waypoints.clear(), without.truth_path.clear();
  const Image a = drawn(with), b = drawn(without);
  const int cameras_top = 54, horizon = 54 + 110, cameras_bottom = 54 + 380;
  EXPECT_GT(changed(a, b, 392, 740, horizon, cameras_bottom), 3000);
  EXPECT_EQ(changed(a, b, 392, 740, cameras_top, horizon), 0) << "the sky";
  PictureInput foreign = with;
  foreign.simulated_cameras = false;
  PictureInput foreign_without = without;
  foreign_without.simulated_cameras = false;
  const int seen = changed(drawn(foreign), drawn(foreign_without), 20, 1118, cameras_top, cameras_bottom);
  EXPECT_EQ(seen, 0) << "an unknown camera";
}

TEST(Picture, EveryPartOfTheAnswerShows) {
  const PictureInput base = full();
  const Image image = drawn(base);
  const auto differs = [&](auto change, int least) {
    PictureInput in = base;
    change(in);
    EXPECT_GE(changed(image, drawn(in), 0, 1600, 0, 900), least);
  };
  differs([](PictureInput& in) { in.objects[3].second = true; }, 1000);
  differs([](PictureInput& in) { in.truth_objects[3] = true; }, 100);
  differs([](PictureInput& in) { in.explanation = "Clear road."; }, 200);
  differs([](PictureInput& in) { in.longitudinal = "speed up"; }, 50);
  differs([](PictureInput& in) { in.lateral = "turn left"; }, 50);
  differs([](PictureInput& in) { in.facts[1].second = "24"; }, 10);
  differs([](PictureInput& in) { in.waypoints[4].x += 1; }, 50);
  differs([](PictureInput& in) { in.truth_path.clear(); }, 500);
  differs([](PictureInput& in) { in.history.clear(); }, 50);
  differs([](PictureInput& in) { in.moment->agents.pop_back(); }, 500);
  differs([](PictureInput& in) { in.moment.reset(); }, 10000);
}

/// A reasoning in lines in place of the classes, as drive-cot gives it.
PictureInput reasoned(int objects) {
  PictureInput in = full();
  in.objects.clear(), in.truth_objects.clear();
  PictureGroup scene{"SCENE", "", {}}, things{"CRITICAL OBJECTS", "truth: cyclist", {}};
  for (const char* name : {"light", "weather", "road", "road type", "lane", "traffic light", "rules"})
    scene.lines.push_back({name, "two lanes our way, one oncoming, parking on the right, sidewalk", "",
                           name[0] == 't'   ? 3
                           : name[0] == 'l' ? 0
                                            : 1});
  for (int i = 0; i < objects; ++i)
    things.lines.push_back({"open door", "parked car, door open; ahead right, 10 m", "reaches into our lane, we keep clear", 0});
  in.reasoning = {scene, things};
  return in;
}

TEST(Picture, AReasoningShowsInLinesAndKeepsToItsPlace) {
  const PictureInput base = reasoned(2);
  const Image image = drawn(base);
  keep(image, "reasoning");
  const auto differs = [&](auto change, int least) {
    PictureInput in = base;
    change(in);
    EXPECT_GE(changed(image, drawn(in), 1000, 1600, 0, 900), least);
  };
  differs([](PictureInput& in) { in.reasoning[0].lines[0].text = "night"; }, 100);
  differs([](PictureInput& in) { in.reasoning[1].lines[1].label = "car"; }, 50);
  differs([](PictureInput& in) { in.reasoning[1].lines[1].more = "stands"; }, 100);
  differs([](PictureInput& in) { in.reasoning[1].note.clear(); }, 50);
  differs([](PictureInput& in) { in.reasoning[1].lines.pop_back(); }, 500);
  // However much is said, behaviour, trajectory, explanation and statistics stand where they stood, and nothing leaves the panel.
  const Image long_one = drawn(reasoned(40)), longer = drawn(reasoned(60));
  keep(long_one, "reasoning-long");
  EXPECT_EQ(changed(long_one, longer, 0, 1600, 0, 900), 0);
  EXPECT_EQ(changed(image, long_one, 1000, 1600, 800, 900), 0) << "statistics";
  EXPECT_EQ(changed(image, long_one, 1580, 1600, 0, 900), 0) << "margin";
}

TEST(Picture, WhatMattersLeastOfAReasoningIsLeftOutFirst) {
  PictureInput in = reasoned(6);  // more than there is room for
  const Image image = drawn(in);
  in.reasoning[0].lines[5].text = "red";  // the heaviest weight: not shown
  EXPECT_EQ(changed(image, drawn(in), 0, 1600, 0, 900), 0);
  in.reasoning[1].lines[2].more = "far away";  // weight 0
  EXPECT_GT(changed(image, drawn(in), 0, 1600, 0, 900), 100);
}

TEST(Picture, AStreetSeenFromAnotherPlaceOfTheWorldLooksTheSame) {
  PictureInput in = full();
  in.images.clear();
  const Image here = drawn(in);
  sim::Moment& m = *in.moment;
  const auto move = [](auto& p) {  // a quarter turn and a shift
    const double x = p.x;
    p.x = 100 - p.y, p.y = 40 + x;
  };
  const auto move_pose = [&](sim::Pose& p) { move(p), p.yaw += std::acos(-1.0) / 2; };
  move_pose(m.ego);
  for (auto& g : m.ground)
    for (auto& c : g.corners) move(c);
  for (auto& a : m.agents) move_pose(a.pose);
  for (auto& l : m.lights) move_pose(l.pose);
  for (auto& s : m.signs) move_pose(s.pose);
  for (auto& s : m.scenery) move_pose(s.pose);
  const Image there = drawn(in);
  int most = 0;
  for (size_t i = 0; i < here.rgb.size(); ++i) most = std::max(most, std::abs(int{here.rgb[i]} - int{there.rgb[i]}));
  EXPECT_LE(most, 1) << "rounding of the coordinates may tip one level";
}

TEST(Picture, APlanThatStandsStillIsSaidInTheFrontCamera) {
  PictureInput in = full();
  in.path.assign(20, {0.01, 0}), in.waypoints.assign(5, {0.01, 0}), in.truth_path.clear();
  const Image still = drawn(in);
  keep(still, "still");
  in.path.clear(), in.waypoints.clear();
  EXPECT_GT(changed(still, drawn(in), 392, 740, 54, 446), 2000);
}

TEST(Picture, NothingGivenStillDraws) {
  const Image image = drawn({});
  EXPECT_TRUE(is_whole(image));
  keep(image, "empty");
}

TEST(Picture, BrokenNumbersAreSkipped) {
  PictureInput in = full();
  const Image clean = drawn(in);
  in.path.insert(in.path.begin() + 5, {{kNan, 1}, {kInfinity, kInfinity}, {1e300, -1e300}});
  in.truth_path.push_back({kNan, kNan});
  in.history.push_back({-kInfinity, kNan});
  in.moment->ground.push_back({sim::Ground::kAsphalt, {{kNan, 0}, {1, 1}, {2, 0}}});
  in.moment->ground.push_back({sim::Ground::kAsphalt, {{1, 1}}});
  in.moment->agents.push_back(agent(sim::AgentType::kCar, kNan, 0, kInfinity, kNan, 4, 2, 1));
  in.moment->scenery.push_back({sim::SceneryKind::kTree, {kNan, 0, 0}, kInfinity, kNan, 8, {}});
  in.moment->lights.push_back({{kNan, 1e300, 0}, 4.5, sim::LightState::kRed});
  const Image broken = drawn(in);
  EXPECT_EQ(changed(clean, broken, 0, 1118, 0, 900), 0);
  in.moment->ego = {kNan, kInfinity, kNan};
  in.waypoints = {{kNan, kNan}, {1e300, 0}};
  EXPECT_TRUE(is_whole(drawn(in)));
}

TEST(Picture, ExtremeInputStaysInItsPlace) {
  PictureInput in = full();
  in.title = std::string(5000, 'T');
  in.explanation = std::string(3000, 'x') + " caf\xC3\xA9 \xE2\x80\x9Cquoted\xE2\x80\x9D \xFF\n" + std::string(3000, 'y');
  in.longitudinal = std::string(300, 'l'), in.lateral = std::string(21, 'm');
  for (int i = 0; i < 40; ++i) {
    in.objects.emplace_back(std::string(60, 'o'), i % 2 == 0);
    in.facts.emplace_back(std::string(i * 5, 'k'), std::string(i * 7, 'v'));
    in.fields.emplace_back("field " + std::to_string(i), std::string(i * 3, 'w'));
  }
  in.truth_path.clear();
  in.waypoints.assign(30, {0, 0});
  in.path.clear();
  for (int i = 0; i < 400; ++i) in.path.push_back({2.0 * i, 30 * std::sin(0.05 * i)});
  in.images = {plain_image(1, 1), plain_image(3000, 10), plain_image(10, 3000), plain_image(640, 480), Image{5, 5, {1, 2, 3}},
               Image{},           plain_image(420, 448), plain_image(420, 448), plain_image(99, 50)};
  const Image image = drawn(in);
  EXPECT_TRUE(is_whole(image));
  keep(image, "extreme");
  for (int y = 0; y < 900; ++y) {  // the margins and the space between the columns stay empty
    for (const int x : {0, 18, 1581, 1599, 1124}) {
      const auto i = static_cast<size_t>(3 * (y * 1600 + x));
      const bool in_title = x == 1124 && y < 50;
      ASSERT_TRUE(in_title || image.rgb[i] == 17) << x << ", " << y;
    }
  }
}

TEST(Picture, ATurnAndANightKeepTheirPlaces) {
  PictureInput in = full();
  in.moment->env.lighting = sim::Lighting::kNight;
  in.images = cameras(*in.moment);
  in.path.clear(), in.truth_path.clear(), in.waypoints.clear();
  for (int i = 1; i <= 20; ++i) {
    const double turned = std::min(1.57, 0.09 * i), on = std::max(0.0, i - 17.4) * 1.2;
    in.path.push_back({9 * std::sin(turned), 9 - 9 * std::cos(turned) + on});
    if (i % 4 == 0) in.waypoints.push_back(in.path.back());
  }
  in.truth_objects.clear();
  in.explanation = std::string(12, 'a');
  for (int i = 0; i < 60; ++i) in.explanation += " the car waits";
  const Image image = drawn(in);
  EXPECT_TRUE(is_whole(image));
  keep(image, "turn");
}

TEST(Picture, DrawsOneToSixPhotographs) {
  for (int n = 1; n <= 6; ++n) {
    PictureInput in = full();
    in.moment.reset();
    in.simulated_cameras = false;
    in.images.clear();
    for (int i = 0; i < n; ++i) in.images.push_back(plain_image(960, 540));
    const Image image = drawn(in);
    EXPECT_TRUE(is_whole(image));
    keep(image, "photographs-" + std::to_string(n));
  }
}

}  // namespace
}  // namespace slip
