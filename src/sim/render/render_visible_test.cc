// SPDX-License-Identifier: Apache-2.0
// What the pictures tell: class, lamps, signals, weather and hour are visible in the pixels.
#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "sim/render/render_testing.h"

namespace slip::sim {
namespace {

TEST(Render, EveryClassIsVisibleAtTwentyMetres) {
  const Bytes empty = picture(road());
  for (int t = 0; t < kAgentTypes; ++t) {
    Moment m = road();
    m.agents.push_back(agent(static_cast<AgentType>(t), 21.5, -1.75, 0.5));
    // 15 pixels a metre at 20 m: a cone of 0.8 m has about 60 pixels, a pedestrian 200, a car 800.
    const auto type = static_cast<AgentType>(t);
    const bool small = type == AgentType::kCone || type == AgentType::kDebris;
    EXPECT_GE(changed(picture(m), empty), small ? 45 : 150) << "type " << t;
  }
}

TEST(Render, NoTwoClassesLookAlike) {
  std::vector<Bytes> seen;
  for (int t = 0; t < kAgentTypes; ++t) {
    Moment m = road();
    Agent a = agent(AgentType::kCar, 17, -1.75, 0.4);
    a.type = static_cast<AgentType>(t);  // the same place, size and colour for all
    m.agents.push_back(a);
    seen.push_back(picture(m));
    for (int u = 0; u < t; ++u) EXPECT_GE(changed(seen[static_cast<size_t>(u)], seen.back(), 40), 60) << u << " and " << t;
  }
}

TEST(Render, LampsAndPartsChangePixelsDayAndNight) {
  for (const Lighting lighting : {Lighting::kDay, Lighting::kDusk, Lighting::kNight}) {
    const auto differs = [&](AgentType type, auto&& set) {
      Moment m = road();
      m.env.lighting = lighting;
      m.agents.push_back(agent(type, 21.5, -1.75));
      const Bytes off = picture(m);
      set(m.agents.back().looks);
      return changed(off, picture(m), 40);
    };
    for (int t = 0; t < kAgentTypes; ++t) {
      const auto type = static_cast<AgentType>(t);
      const bool vehicle = t <= static_cast<int>(AgentType::kMotorcycle) ||
                           (t >= static_cast<int>(AgentType::kAmbulance) && t <= static_cast<int>(AgentType::kPolice));
      if (!vehicle) continue;
      EXPECT_GE(differs(type, [](AgentLooks& k) { k.brake = true; }), 10) << "brake " << t;
      EXPECT_GE(differs(type, [](AgentLooks& k) { k.indicator_left = true; }), 6) << "left " << t;
      EXPECT_GE(differs(type, [](AgentLooks& k) { k.hazard = true; }), 12) << "hazard " << t;
    }
    for (const AgentType type : {AgentType::kAmbulance, AgentType::kFireTruck, AgentType::kPolice}) {
      EXPECT_GE(differs(type, [](AgentLooks& k) { k.beacons = true; }), 60);
    }
    EXPECT_GE(differs(AgentType::kCar, [](AgentLooks& k) { k.door_open = true; }), 60);
    EXPECT_GE(differs(AgentType::kSchoolBus, [](AgentLooks& k) { k.stop_arm = true; }), 60);
  }
}

TEST(Render, AnIndicatorBlinksOnItsOwnSide) {
  for (const bool left : {true, false}) {
    Moment m = road();
    m.agents.push_back(agent(AgentType::kCar, 15, -1.75));
    const Bytes off = picture(m);
    (left ? m.agents[0].looks.indicator_left : m.agents[0].looks.indicator_right) = true;
    const Bytes on = picture(m);
    double sum = 0, n = 0;
    for (size_t i = 0; i < on.size(); i += 3) {
      if (on[i] - off[i] < 60) continue;
      sum += static_cast<double>(i / 3 % 420), n += 1;
    }
    ASSERT_GT(n, 4);
    EXPECT_EQ(sum / n < 210, left);
  }
}

TEST(Render, TheLitLampStandsInItsPlaceWithItsColour) {
  for (const Weather weather : {Weather::kClear, Weather::kRain, Weather::kFog}) {
    for (int state = 0; state < 3; ++state) {
      Moment m = road();
      m.env.weather = weather;
      m.lights.push_back({{30, -5, kPi}, 4.5, static_cast<LightState>(state)});
      const auto at = project(front_cameras()[1], m.ego, 30, -5, 4.5 + 0.7 * (1 - state));
      ASSERT_TRUE(at);
      const Bytes p = picture(m);
      const uint8_t* c = &p[(static_cast<size_t>(at->y) * 420 + static_cast<size_t>(at->x)) * 3];
      if (state == 2)
        EXPECT_GT(c[1], c[0] + 50);
      else
        EXPECT_GT(c[0], c[2] + 50);
      EXPECT_EQ(state == 0, c[0] > c[1] + 60);
    }
  }
}

TEST(Render, WeatherAndHourAreVisible) {
  const Bytes clear = pictures(golden_moment(0));
  const auto distance = [&](const Bytes& b) {
    double sum = 0;
    for (size_t i = 0; i < b.size(); ++i) sum += std::abs(int{b[i]} - int{clear[i]});
    return sum / static_cast<double>(b.size());
  };
  for (const Weather w : {Weather::kRain, Weather::kFog, Weather::kSnow}) {
    Moment m = golden_moment(0);
    m.env.weather = w;
    EXPECT_GT(distance(pictures(m)), 12) << static_cast<int>(w);
  }
  for (const Lighting l : {Lighting::kDusk, Lighting::kNight}) {
    Moment m = golden_moment(0);
    m.env.lighting = l;
    EXPECT_GT(distance(pictures(m)), 25) << static_cast<int>(l);
  }
}

TEST(Render, FogLeavesExpMinusBetaZOfTheContrast) {
  // A white wall over a black one's picture: their difference at distance z is the clear one's times exp(-beta (z - z0)).
  const auto contrast = [](double z, double beta) {
    Moment m = road();
    m.env.weather = Weather::kFog;
    m.env.fog_beta_per_m = beta;
    m.ego = {};
    double level[2];
    for (int k = 0; k < 2; ++k) {
      m.scenery = {{SceneryKind::kBuilding, {z + 1.5 + 5, 0, 0}, 10, 2, 2.6, k ? Rgb{240, 240, 240} : Rgb{0, 0, 0}}};
      const auto at = project(front_cameras()[1], m.ego, z + 1.5, 0, 0.35);
      level[k] = picture(m)[(static_cast<size_t>(at->y) * 420 + static_cast<size_t>(at->x)) * 3];
    }
    return level[1] - level[0];
  };
  const double near = contrast(20, 0.03), far = contrast(50, 0.03);
  EXPECT_NEAR(far / near, std::exp(-0.03 * 30), 0.04);  // 2 levels of rounding and grain in 60, and the depth steps of 2.2 %
}

}  // namespace
}  // namespace slip::sim
