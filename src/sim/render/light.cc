// SPDX-License-Identifier: Apache-2.0
// What the environment means in numbers. Weather is drawn to be seen: overcast skies are grey, wet roads dark and shiny,
// snow covers what is not driven on, fog eats contrast by exp(-beta z).
#include "sim/render/light.h"

#include <algorithm>
#include <bit>
#include <cmath>

#include "sim/math.h"

namespace slip::sim {
namespace {

double extinction(const Environment& env) {
  // Visibility (5 % contrast) is 3 / beta: 3.7 km clear, 600 m in rain, 430 m in snow, 86 m in fog unless told.
  double beta = 0.0008;
  if (env.weather == Weather::kRain) beta = 0.005;
  if (env.weather == Weather::kSnow) beta = 0.007;
  if (env.weather == Weather::kFog) beta = 0.035;
  if (env.fog_beta_per_m > 0) beta = env.weather == Weather::kFog ? env.fog_beta_per_m : std::max(beta, env.fog_beta_per_m);
  return std::min(beta, 2.0);
}

void set_sky(Atmosphere& air, const Environment& env) {
  const bool clear = env.weather == Weather::kClear;
  switch (env.lighting) {
    case Lighting::kDay:
      air.sky_top = clear ? Rgb{74, 132, 210} : Rgb{138, 144, 152};
      air.sky_horizon = clear ? Rgb{190, 212, 232} : Rgb{188, 192, 196};
      air.light = clear ? std::array{256, 254, 246} : std::array{206, 210, 216};
      break;
    case Lighting::kDusk:
      air.sky_top = clear ? Rgb{62, 58, 104} : Rgb{70, 70, 86};
      air.sky_horizon = clear ? Rgb{246, 146, 84} : Rgb{140, 118, 112};
      air.light = clear ? std::array{164, 128, 112} : std::array{122, 114, 116};
      break;
    case Lighting::kNight:
      air.sky_top = clear ? Rgb{6, 9, 22} : Rgb{14, 15, 20};
      air.sky_horizon = clear ? Rgb{26, 30, 48} : Rgb{40, 40, 46};
      air.light = {58, 61, 78};
      break;
  }
  if (env.weather == Weather::kRain) air.sky_top = scaled(air.sky_top, 0.78F), air.sky_horizon = scaled(air.sky_horizon, 0.82F);
  if (env.weather == Weather::kSnow) air.sky_top = mixed(air.sky_top, air.sky_horizon, 150);
  if (env.weather == Weather::kFog) air.sky_top = mixed(air.sky_top, air.sky_horizon, 220);
  air.fog = air.sky_horizon;
}

void set_ground(Atmosphere& air, const Environment& env) {
  auto& g = air.ground;
  g = {GroundLook{{84, 116, 54}, 30, 22, 0},   GroundLook{{92, 93, 97}, 12, 6, 24},   GroundLook{{166, 161, 152}, 11, 8, 10},
       GroundLook{{232, 232, 226}, 16, 8, 10}, GroundLook{{236, 186, 36}, 16, 8, 10}, GroundLook{{240, 240, 236}, 14, 6, 10},
       GroundLook{{238, 238, 234}, 14, 6, 10}, GroundLook{{150, 66, 52}, 18, 10, 16}, GroundLook{{38, 34, 32}, 26, 14, 0},
       GroundLook{{96, 112, 130}, 4, 6, 120},  GroundLook{{114, 114, 124}, 12, 6, 20}};
  const auto at = [&](Ground k) -> GroundLook& { return g[static_cast<size_t>(k)]; };
  const bool wet = env.wet || env.weather == Weather::kRain;
  for (GroundLook& look : g) {
    if (wet) look.colour = scaled(look.colour, 0.68F), look.shine = look.shine * 4 + 8;
    if (env.icy) look.colour = mixed(look.colour, {196, 216, 236}, 74), look.shine = look.shine * 3 + 20;
  }
  if (wet) at(Ground::kPuddle).shine = 230;
  if (env.weather != Weather::kSnow) return;
  at(Ground::kGrass) = {{232, 236, 242}, 10, 16, 0};
  at(Ground::kSidewalk) = {{214, 218, 226}, 14, 26, 0};
  at(Ground::kAsphalt) = {{150, 154, 162}, 14, 52, 10};
  at(Ground::kParking) = {{178, 182, 190}, 12, 40, 0};
  at(Ground::kBikeLane).colour = mixed(at(Ground::kBikeLane).colour, {220, 224, 230}, 110);
  at(Ground::kLaneLineYellow).colour = mixed(at(Ground::kLaneLineYellow).colour, {230, 232, 236}, 70);
}

void set_depth_tables(Atmosphere& air, double beta) {
  for (int i = 0; i < kDepthSteps; ++i) {
    // The middle of the step, back from the float's top bits to metres.
    const float inverse = std::bit_cast<float>((static_cast<uint32_t>(i + (127 << 5)) << 18) + (1U << 17));
    const double z = kDepthOne / static_cast<double>(inverse);
    air.clearness[static_cast<size_t>(i)] = static_cast<uint16_t>(256.0 * det_exp(-beta * std::min(z, 1e5)));
    // Low beams: nothing under the bumper, full from 6 m, half at 30 m.
    const double reach = 1.0 / (1.0 + (z / 30.0) * (z / 30.0)), start = std::clamp((z - 1.5) / 5.0, 0.25, 1.0);
    air.beam[static_cast<size_t>(i)] = static_cast<uint16_t>(256.0 * std::min(reach * start, 1.0));
  }
}

}  // namespace

Atmosphere make_atmosphere(const Environment& env, double ego_yaw) {
  Atmosphere air;
  const bool night = env.lighting == Lighting::kNight, dusk = env.lighting == Lighting::kDusk,
             clear = env.weather == Weather::kClear;
  const double turn = std::fabs(env.sun_azimuth_rad) < 1e4 && std::fabs(ego_yaw) < 1e4 ? env.sun_azimuth_rad - ego_yaw : 0;
  const double up = dusk ? 0.30 : 0.62, flat = std::sqrt(1 - up * up);
  air.shading.sun = {static_cast<float>(flat * det_cos(turn)), static_cast<float>(flat * det_sin(turn)), static_cast<float>(up)};
  air.shading.ambient = clear && !night ? 0.62F : 0.8F;
  air.shading.diffuse = clear && !night ? 0.48F : 0.18F;
  air.shading.lamps_lit = night || dusk;
  air.shading.snow = env.weather == Weather::kSnow;
  air.headlamps = night;
  air.shadow = night ? 236 : clear ? 150 : 200;
  air.grain = night ? 4 : 2;
  air.weather = env.weather;
  air.seed = look_hash(static_cast<uint32_t>(env.texture_seed), static_cast<uint32_t>(env.texture_seed >> 32));
  set_sky(air, env);
  set_ground(air, env);
  set_depth_tables(air, extinction(env));
  return air;
}

}  // namespace slip::sim
