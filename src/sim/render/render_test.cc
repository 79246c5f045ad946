// SPDX-License-Identifier: Apache-2.0
// What the pictures promise: the same bytes everywhere, shapes where a projection in long double says, nearer over farther, no crash
// on any moment. What can be seen in the pixels: render_visible_test.cc.
#include <gtest/gtest.h>

#include <chrono>
#include <cmath>
#include <cstdio>
#include <limits>
#include <string>
#include <thread>
#include <vector>

#include "base/philox.h"
#include "sim/math.h"
#include "sim/render/raster.h"
#include "sim/render/render_testing.h"

namespace slip::sim {
namespace {

TEST(Render, GivesTheSameBytesOnEveryMachine) {
  // g++ 12 -O0, -O2, -O3 and clang++ 14 -O2 agree on these.
  static constexpr uint64_t kGolden[6] = {0x24B7F6FB3A0CC407U, 0x533DF271E6491B22U, 0xFE187DE6A0838391U,
                                          0xDEC8F27614F3EB90U, 0x99BC99D792962AD9U, 0x79C911A8EC41DF2FU};
  for (int i = 0; i < 6; ++i) EXPECT_EQ(fnv1a(pictures(golden_moment(i))), kGolden[i]) << "moment " << i;
}

TEST(Render, OwesNothingToEarlierPicturesOrToTheThread) {
  const Moment day = golden_moment(0), night = golden_moment(5);
  const Bytes first = pictures(day);
  pictures(night);
  Camera small;
  small.width = 64, small.height = 48;
  picture(night, small);
  EXPECT_EQ(pictures(day), first);
  Bytes other;
  std::thread([&] { other = pictures(day); }).join();
  EXPECT_EQ(other, first);
}

TEST(Render, AllCamerasTogetherEqualEachAlone) {
  const Moment m = golden_moment(1);
  Bytes alone;
  for (const Camera& c : front_cameras()) {
    const Bytes one = picture(m, c);
    alone.insert(alone.end(), one.begin(), one.end());
  }
  EXPECT_EQ(pictures(m), alone);
}

struct Corner {
  long double x, y;
};

/// The pinhole written down once more, with the C library and no basis vectors: turn by yaw, tilt by pitch, divide.
Corner project_oracle(const Camera& c, long double x, long double y, long double z) {
  const long double yaw = static_cast<long double>(c.yaw_rad), pitch = static_cast<long double>(c.pitch_rad);
  x -= static_cast<long double>(c.forward_m), z -= static_cast<long double>(c.height_m);
  const long double ahead = x * std::cos(yaw) + y * std::sin(yaw), left = y * std::cos(yaw) - x * std::sin(yaw);
  const long double deep = ahead * std::cos(pitch) + z * std::sin(pitch), up = z * std::cos(pitch) - ahead * std::sin(pitch);
  const long double focal = c.width / 2.0L / std::tan(static_cast<long double>(c.fov_rad) / 2);
  return {c.width / 2.0L - focal * left / deep, c.height / 2.0L - focal * up / deep};
}

/// How far (x, y) lies inside the convex hull of the points; negative outside.
long double depth_in_hull(const std::vector<Corner>& points, long double x, long double y) {
  long double inside = 1e9L;
  for (size_t i = 0; i < points.size(); ++i) {
    for (size_t j = 0; j < points.size(); ++j) {
      const long double ex = points[j].x - points[i].x, ey = points[j].y - points[i].y, len = std::sqrt(ex * ex + ey * ey);
      if (i == j || len < 1e-9L) continue;
      bool edge = true;  // of the hull: all points on one side
      for (const Corner& p : points) edge = edge && ex * (p.y - points[i].y) - ey * (p.x - points[i].x) >= -1e-9L * len;
      if (edge) inside = std::min(inside, (ex * (y - points[i].y) - ey * (x - points[i].x)) / len);
    }
  }
  return inside;
}

struct Stage {
  Mesh mesh;
  Canvas canvas;
  void box(const Pose& pose, Range x, Range y, Range z, Rgb c) {
    BodyBuilder b(mesh, Shading{1, 0, {0, 0, 1}, false, false}, Pose{});
    ASSERT_TRUE(b.begin(pose));
    b.box(x, y, z, c);
    b.end();
  }
  void draw(const Camera& c) {
    const View v = make_view(c);
    canvas.clear(v);
    draw_bodies(canvas, v, mesh);
  }
  uint32_t at(int x, int y) const {
    return canvas.colour[static_cast<size_t>(y) * static_cast<size_t>(canvas.width) + static_cast<size_t>(x)];
  }
};

TEST(Render, ABoxCoversTheHullOfItsProjectedCorners) {
  PhiloxStream rng(5, 0);
  for (int round = 0; round < 12; ++round) {
    const Camera camera = front_cameras()[static_cast<size_t>(round % 3)];
    const double range = rng.uniform(7, 40), bearing = camera.yaw_rad + rng.uniform(-0.4, 0.4);
    const Pose pose{camera.forward_m + range * det_cos(bearing), range * det_sin(bearing), rng.uniform(-3, 3)};
    const auto l = static_cast<float>(rng.uniform(0.3, 3)), w = static_cast<float>(rng.uniform(0.3, 2)),
               h = static_cast<float>(rng.uniform(0.5, 4));
    Stage stage;
    stage.box(pose, {-l, l}, {-w, w}, {0.3F, h + 0.3F}, {200, 10, 10});
    stage.draw(camera);
    std::vector<Corner> corners;
    for (int i = 0; i < 8; ++i) {
      const long double x = static_cast<long double>(i & 1 ? l : -l), y = static_cast<long double>(i & 2 ? w : -w);
      const long double c = std::cos(static_cast<long double>(pose.yaw)), s = std::sin(static_cast<long double>(pose.yaw));
      corners.push_back(project_oracle(camera, static_cast<long double>(pose.x) + x * c - y * s,
                                       static_cast<long double>(pose.y) + x * s + y * c,
                                       static_cast<long double>(i & 4 ? h + 0.3F : 0.3F)));
    }
    int wrong = 0;
    for (int y = 0; y < camera.height; ++y) {
      for (int x = 0; x < camera.width; ++x) {
        // Corners snap to 1/256 pixel and vertices are floats: a pixel centre within 0.02 of the outline may fall either way.
        const long double d = depth_in_hull(corners, x + 0.5L, y + 0.5L);
        const bool covered = (stage.at(x, y) >> 24) == kTagBody;
        wrong += (d > 0.02L && !covered) || (d < -0.02L && covered);
      }
    }
    EXPECT_EQ(wrong, 0) << "round " << round;
  }
}

TEST(Render, ProjectSaysWhereTheOracleSays) {
  PhiloxStream rng(6, 0);
  for (int i = 0; i < 2000; ++i) {
    const Camera camera = front_cameras()[static_cast<size_t>(i % 3)];
    const Pose ego{rng.uniform(-500, 500), rng.uniform(-500, 500), rng.uniform(-3, 3)};
    const double x = rng.uniform(-20, 60), y = rng.uniform(-40, 40), z = rng.uniform(0, 6);
    const double c = std::cos(ego.yaw), s = std::sin(ego.yaw);
    const auto got = project(camera, ego, ego.x + x * c - y * s, ego.y + x * s + y * c, z);
    const double ahead = (x - camera.forward_m) * std::cos(camera.yaw_rad) + y * std::sin(camera.yaw_rad);
    if (ahead < 1) {
      EXPECT_TRUE(ahead > 0.1 || !got);
      continue;
    }
    const Corner want =
        project_oracle(camera, static_cast<long double>(x), static_cast<long double>(y), static_cast<long double>(z));
    const bool inside = want.x >= 0 && want.x < camera.width && want.y >= 0 && want.y < camera.height;
    ASSERT_EQ(got.has_value(), inside);
    if (got) {
      EXPECT_NEAR(got->x, static_cast<double>(want.x), 1e-6);
      EXPECT_NEAR(got->y, static_cast<double>(want.y), 1e-6);
    }
  }
}

TEST(Render, NearerHidesFartherInEitherOrder) {
  for (const bool near_first : {true, false}) {
    Stage stage;
    for (const bool near : {near_first, !near_first}) {
      if (near)
        stage.box({10, 0, 0.4}, {-1, 1}, {-1, 1}, {0, 2}, {250, 0, 0});
      else
        stage.box({20, 0, 0.1}, {-1, 1}, {-8, 8}, {0, 3.5F}, {0, 250, 0});
    }
    const Camera camera = front_cameras()[1];
    stage.draw(camera);
    const auto middle = project(camera, {}, 9.5, 0, 1), behind = project(camera, {}, 19, 6, 1);
    ASSERT_TRUE(middle && behind);
    EXPECT_EQ(stage.at(static_cast<int>(middle->x), static_cast<int>(middle->y)) & 0xFFFF, 250U);
    EXPECT_EQ(stage.at(static_cast<int>(behind->x), static_cast<int>(behind->y)) & 0xFFFF, 250U << 8);
  }
}

TEST(Render, PatchesThatShareAnEdgeNeitherOverlapNorLeaveAGap) {
  PhiloxStream rng(7, 0);
  Camera camera = front_cameras()[1];
  const View v = make_view(camera);
  const auto count = [](const Canvas& c, Ground k) {
    int n = 0;
    for (const uint32_t p : c.colour) n += (p >> 24) == (kTagGround | static_cast<uint32_t>(k));
    return n;
  };
  for (int i = 0; i < 60; ++i) {
    const double x = rng.uniform(-3, 40), y = rng.uniform(-10, 10);
    const Vec2 p[4] = {{x, y},
                       {x + rng.uniform(2, 40), y + rng.uniform(-1, 1)},
                       {x + rng.uniform(2, 30), y + rng.uniform(3, 9)},
                       {x + rng.uniform(-1, 1), y + rng.uniform(3, 9)}};
    Canvas parts, whole;
    parts.clear(v), whole.clear(v);
    const Vec2 a[3] = {p[0], p[1], p[2]}, b[3] = {p[0], p[2], p[3]};
    paint_ground(parts, v, a, Ground::kAsphalt, false);
    const int first = count(parts, Ground::kAsphalt);
    paint_ground(parts, v, b, Ground::kPuddle, false);
    EXPECT_EQ(count(parts, Ground::kAsphalt), first) << "overlap";
    // The union of two triangles of a convex quadrilateral is the quadrilateral; of a concave one it is not painted here.
    const auto side = [](Vec2 o, Vec2 q, Vec2 r) { return (q.x - o.x) * (r.y - o.y) - (q.y - o.y) * (r.x - o.x); };
    bool convex = true;
    for (size_t k = 0; k < 4; ++k) convex = convex && side(p[k], p[(k + 1) % 4], p[(k + 2) % 4]) > 0;
    if (!convex) continue;
    paint_ground(whole, v, p, Ground::kAsphalt, false);
    EXPECT_EQ(count(whole, Ground::kAsphalt), count(parts, Ground::kAsphalt) + count(parts, Ground::kPuddle)) << "gap";
  }
}

double wild(PhiloxStream& rng) {
  switch (rng.below(12)) {
    case 0:
      return std::numeric_limits<double>::quiet_NaN();
    case 1:
      return std::numeric_limits<double>::infinity();
    case 2:
      return -1e300;
    case 3:
      return 0;
    case 4:
      return rng.uniform(-1e7, 1e7);
    default:
      return rng.uniform(-12, 12);
  }
}

TEST(Render, DrawsAnyMomentWithoutHarm) {
  PhiloxStream rng(8, 0);
  Camera camera = front_cameras()[1];
  for (int round = 0; round < 300; ++round) {
    camera.width = 1 + static_cast<int>(rng.below(90)), camera.height = 1 + static_cast<int>(rng.below(90));
    camera.yaw_rad = rng.uniform(-4, 4), camera.pitch_rad = rng.uniform(-1.4, 1.4), camera.height_m = rng.uniform(-1, 5);
    Moment m;
    const bool tame = round % 2 == 0;  // half the rounds stay near the camera, where clipping happens
    const auto number = [&] { return tame ? rng.uniform(-12, 12) : wild(rng); };
    const auto pose = [&] { return Pose{number(), number(), number()}; };
    if (!tame) m.ego = pose();
    m.env = {static_cast<Lighting>(rng.below(3)),
             static_cast<Weather>(rng.below(4)),
             number(),
             number(),
             rng.chance(0.5),
             rng.chance(0.5),
             rng.bits()};
    for (int i = 0; i < 20; ++i) {
      GroundPatch patch{static_cast<Ground>(rng.below(11)), {}};
      for (uint32_t k = rng.below(7); k > 0; --k) patch.corners.push_back({number(), number()});
      m.ground.push_back(patch);
      Agent a{static_cast<uint32_t>(i),
              static_cast<AgentType>(rng.below(kAgentTypes)),
              pose(),
              number(),
              number(),
              number(),
              number(),
              {}};
      a.looks.brake = a.looks.beacons = a.looks.hazard = a.looks.door_open = a.looks.stop_arm = rng.chance(0.5);
      m.agents.push_back(a);
      m.lights.push_back({pose(), number(), static_cast<LightState>(rng.below(3))});
      m.signs.push_back({static_cast<SignKind>(rng.below(7)), pose(), number(), static_cast<int>(rng.bits())});
      m.scenery.push_back({static_cast<SceneryKind>(rng.below(4)), pose(), number(), number(), number(), {}});
    }
    picture(m, camera);
  }
}

TEST(Render, TellsItsSpeed) {
  for (const int i : {0, 5}) {
    const Moment m = golden_moment(i);
    Bytes out = pictures(m);
    const auto begin = std::chrono::steady_clock::now();
    for (int k = 0; k < 20; ++k) render_all(m, out);
    const double ms = std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - begin).count() / 20;
    std::printf("three cameras, busy street %s: %.2f ms\n", i == 0 ? "by day" : "on a rainy night", ms);
  }
}

}  // namespace
}  // namespace slip::sim
