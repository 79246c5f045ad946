// SPDX-License-Identifier: Apache-2.0
// The last pass, row by row: ground texture by world place, light, headlamps, fog, grain; then glows, drops and flakes.
// Everything per pixel is integer arithmetic and table look-ups; what is constant along a row is computed in double once.
#include <algorithm>
#include <bit>
#include <cmath>

#include "sim/math.h"
#include "sim/render/light.h"

namespace slip::sim {
namespace {

constexpr int kTile = 128;  // 16 KiB of noise stay in the first-level cache
using NoiseTile = std::array<uint8_t, kTile * kTile>;

const NoiseTile& noise_tile() {
  static const NoiseTile tile = [] {
    NoiseTile t{};
    for (uint32_t i = 0; i < t.size(); ++i) t[i] = static_cast<uint8_t>(look_hash(i, 0x5117) >> 11);
    return t;
  }();
  return tile;
}

int noise(const NoiseTile& t, uint32_t x, uint32_t y) { return static_cast<int>(t[(y % kTile) * kTile + x % kTile]) - 128; }

size_t depth_step(int32_t inverse_depth) {
  return (std::bit_cast<uint32_t>(static_cast<float>(inverse_depth)) >> 18) - (127U << 5);
}

uint32_t to_fixed(double metres) {  // 1/65536 m, wrapping every 65 km; texture may repeat
  return std::fabs(metres) < 1e9 ? static_cast<uint32_t>(det_floor(metres * 65536.0)) : 0;
}

struct Colour {
  int r, g, b;
};

/// What the ground texture needs, constant along one row.
struct GroundLine {
  uint32_t x = 0, y = 0, step_x = 0, step_y = 0, shift = 12;
  int graze = 0, clearness = 256, beam = 0;
};

GroundLine ground_line(const View& v, int row, const Atmosphere& air, const Pose& ego) {
  const GroundRow g = ground_row(v, row);
  GroundLine line;
  if (!g.seen) return line;
  const bool sane = std::fabs(ego.yaw) < 1e4;
  const double c = sane ? det_cos(ego.yaw) : 1, s = sane ? det_sin(ego.yaw) : 0;
  line.x = to_fixed(ego.x + g.x * c - g.y * s);
  line.y = to_fixed(ego.y + g.x * s + g.y * c);
  line.step_x = to_fixed(g.step_x * c - g.step_y * s);
  line.step_y = to_fixed(g.step_x * s + g.step_y * c);
  // Cells of 1/16 m, doubled while a pixel is wider than a cell.
  for (double cell = 1.0 / 16; cell < g.depth_m / v.focal_px && line.shift < 19; cell *= 2) ++line.shift;
  const double steep = std::min(v.position[2] / g.depth_m, 1.0);
  line.graze = static_cast<int>(256 * (0.25 + 0.75 * det_exp(-5 * steep)));
  const size_t step = depth_step(static_cast<int32_t>(std::min(kDepthOne / g.depth_m, 2e9)));
  line.clearness = air.clearness[step];
  line.beam = air.beam[step];
  return line;
}

Colour ground_colour(const Atmosphere& air, const NoiseTile& tile, const GroundLine& line, uint32_t x, uint8_t tag) {
  const GroundLook& look = air.ground[std::min<size_t>(tag & 0x1F, kGroundKinds - 1)];
  const uint32_t wx = line.x + line.step_x * x + air.seed * 65536, wy = line.y + line.step_y * x + (air.seed >> 8) * 65536;
  const int fine = noise(tile, wx >> line.shift, wy >> line.shift);
  // The coarse cells (1 m) are looked up at a place shaken by the fine noise, which frays their square borders.
  const auto shake = static_cast<uint32_t>(fine * 192);
  const int coarse = noise(tile, (wx + shake) >> 16, (wy + shake) >> 16);
  const int delta = (fine * look.fine + coarse * look.coarse) >> 7;
  Colour c{look.colour.r + delta, look.colour.g + delta, look.colour.b + delta};
  if (look.shine > 0) {
    const int k = std::clamp((look.shine * line.graze >> 8) + (coarse * look.shine >> 10), 0, 230);
    c.r += (air.sky_horizon.r - c.r) * k >> 8;
    c.g += (air.sky_horizon.g - c.g) * k >> 8;
    c.b += (air.sky_horizon.b - c.b) * k >> 8;
  }
  if ((tag & kTagShadow) != 0) c = {c.r * air.shadow >> 8, c.g * air.shadow >> 8, c.b * air.shadow >> 8};
  return c;
}

Rgb sky_colour(const View& v, const Atmosphere& air, int row) {
  const double up = (v.centre_y - (row + 0.5)) / v.focal_px, rise = v.forward[2] + v.up[2] * up;
  const double t = std::clamp(rise / 0.5, 0.0, 1.0);
  return mixed(air.sky_horizon, air.sky_top, static_cast<int>(256 * t * (1.6 - 0.6 * t)));
}

/// Headlamps by column, of 256 (twice daylight at full): a bright lobe straight ahead and a dim one as wide as the street.
void beam_columns(const View& v, std::vector<int>& columns) {
  columns.resize(static_cast<size_t>(v.width));
  for (int x = 0; x < v.width; ++x) {
    const double side = (x + 0.5 - v.centre_x) / v.focal_px;
    const double dx = v.forward[0] + v.right[0] * side, dy = v.forward[1] + v.right[1] * side;
    const double away = 1 - dx / std::sqrt(dx * dx + dy * dy);
    columns[static_cast<size_t>(x)] = static_cast<int>(256 * (0.72 * det_exp(-away / 0.06) + 0.28 * det_exp(-away / 0.6)));
  }
}

uint8_t to_byte(int v) { return static_cast<uint8_t>(std::clamp(v, 0, 255)); }

void finish_row(const Canvas& canvas, const View& v, const Atmosphere& air, const Pose& ego, int row,
                const std::vector<int>& columns, uint8_t* out) {
  const NoiseTile& tile = noise_tile();
  const GroundLine line = ground_line(v, row, air, ego);
  const Rgb sky = sky_colour(v, air, row);
  const size_t at = static_cast<size_t>(row) * static_cast<size_t>(canvas.width);
  const uint32_t* colour = &canvas.colour[at];
  const int32_t* depth = &canvas.inverse_depth[at];
  const uint32_t grain_y = static_cast<uint32_t>(row) + (air.seed >> 5);
  // Low beams are cut off above the horizon, where a quarter remains.
  const double rise = v.forward[2] + v.up[2] * (v.centre_y - row) / v.focal_px;
  const int row_beam = static_cast<int>(std::clamp(256 * (1 - 6 * rise), 64.0, 256.0));
  for (int x = 0; x < canvas.width; ++x, out += 3) {
    const auto tag = static_cast<uint8_t>(colour[x] >> 24);
    Colour c{};
    int clear = 256, beam = 0;
    if ((tag & kTagGround) != 0) {
      c = ground_colour(air, tile, line, static_cast<uint32_t>(x), tag);
      clear = line.clearness, beam = line.beam;
    } else if (tag == kTagSky) {
      c = {sky.r, sky.g, sky.b};
    } else {
      c = {static_cast<int>(colour[x] & 255), static_cast<int>(colour[x] >> 8 & 255), static_cast<int>(colour[x] >> 16 & 255)};
      const size_t step = depth_step(depth[x]);
      clear = air.clearness[step], beam = air.beam[step];
    }
    if (tag == kTagEmissive) {
      clear += (256 - clear) >> 2;  // lamps carry farther through fog than paint does
    } else if (tag != kTagSky) {
      const int lamp = air.headlamps ? beam * columns[static_cast<size_t>(x)] * row_beam >> 15 : 0;
      c.r = std::min(c.r * (air.light[0] + lamp) >> 8, 255);
      c.g = std::min(c.g * (air.light[1] + (lamp * 246 >> 8)) >> 8, 255);
      c.b = std::min(c.b * (air.light[2] + (lamp * 214 >> 8)) >> 8, 255);
    }
    if (tag != kTagSky) {
      c.r = air.fog.r + ((c.r - air.fog.r) * clear >> 8);
      c.g = air.fog.g + ((c.g - air.fog.g) * clear >> 8);
      c.b = air.fog.b + ((c.b - air.fog.b) * clear >> 8);
    }
    const int grain = noise(tile, static_cast<uint32_t>(x) + air.seed + grain_y * 31, grain_y) * air.grain >> 7;
    out[0] = to_byte(c.r + grain), out[1] = to_byte(c.g + grain), out[2] = to_byte(c.b + grain);
  }
}

void add(uint8_t* p, Rgb c, int k) {
  p[0] = to_byte(p[0] + (c.r * k >> 8)), p[1] = to_byte(p[1] + (c.g * k >> 8)), p[2] = to_byte(p[2] + (c.b * k >> 8));
}
void blend(uint8_t* p, Rgb c, int k) {
  p[0] = to_byte(p[0] + ((c.r - p[0]) * k >> 8)), p[1] = to_byte(p[1] + ((c.g - p[1]) * k >> 8)),
  p[2] = to_byte(p[2] + ((c.b - p[2]) * k >> 8));
}

/// Light scattered around one lamp, unless something nearer hides the lamp's middle.
void draw_glow(const Canvas& canvas, const Atmosphere& air, const Glow& g, std::span<uint8_t> rgb) {
  const int w = canvas.width, h = canvas.height;
  if (!(g.x >= 0 && g.x < static_cast<float>(w) && g.y >= 0 && g.y < static_cast<float>(h))) return;
  const int cx = static_cast<int>(g.x), cy = static_cast<int>(g.y);
  const int32_t there = canvas.inverse_depth[static_cast<size_t>(cy) * static_cast<size_t>(w) + static_cast<size_t>(cx)];
  if (there - g.inverse_depth > g.inverse_depth / 32) return;
  const bool murky = air.weather != Weather::kClear;
  const int strength = ((air.headlamps           ? 170
                         : air.shading.lamps_lit ? 120
                                                 : 60) +
                        (murky ? 30 : 0)) *
                           air.clearness[depth_step(g.inverse_depth)] >>
                       8;
  const int r = static_cast<int>(g.radius_px) + (air.headlamps ? 3 : 1);
  for (int y = std::max(0, cy - r); y <= std::min(h - 1, cy + r); ++y) {
    for (int x = std::max(0, cx - r); x <= std::min(w - 1, cx + r); ++x) {
      const int fall = 256 - ((x - cx) * (x - cx) + (y - cy) * (y - cy)) * 256 / (r * r);
      if (fall > 0)
        add(&rgb[(static_cast<size_t>(y) * static_cast<size_t>(w) + static_cast<size_t>(x)) * 3], g.colour,
            (fall * fall >> 8) * strength >> 8);
    }
  }
}

void draw_drops(const Canvas& canvas, const Atmosphere& air, uint32_t seed, std::span<uint8_t> rgb) {
  const auto w = static_cast<uint32_t>(canvas.width), h = static_cast<uint32_t>(canvas.height);
  const Rgb c = air.headlamps ? Rgb{104, 108, 118} : Rgb{206, 212, 220};
  for (uint32_t i = 0; i < w * h / 420; ++i) {
    const uint32_t a = look_hash(seed, i, 1), length = 10 + (a >> 22) % 26;
    uint32_t x = (a % w) * 256, y = (a >> 9) % h;
    for (uint32_t k = 0; k < length && y < h && x < w * 256; ++k, ++y, x += 44) {
      blend(&rgb[(static_cast<size_t>(y) * w + x / 256) * 3], c, 84);
    }
  }
}

void draw_flakes(const Canvas& canvas, const Atmosphere& air, uint32_t seed, std::span<uint8_t> rgb) {
  const int w = canvas.width, h = canvas.height;
  const Rgb c = air.headlamps ? Rgb{150, 152, 160} : Rgb{250, 251, 253};
  for (uint32_t i = 0; i < static_cast<uint32_t>(w * h) / 300; ++i) {
    const uint32_t a = look_hash(seed, i, 2);
    const int cx = static_cast<int>(a % static_cast<uint32_t>(w)), cy = static_cast<int>((a >> 10) % static_cast<uint32_t>(h));
    const int r = a >> 27 == 0 ? 3 : a >> 29 < 3 ? 2 : 1;
    for (int y = std::max(0, cy - r); y <= std::min(h - 1, cy + r); ++y) {
      for (int x = std::max(0, cx - r); x <= std::min(w - 1, cx + r); ++x) {
        if ((x - cx) * (x - cx) + (y - cy) * (y - cy) > r * r) continue;
        blend(&rgb[(static_cast<size_t>(y) * static_cast<size_t>(w) + static_cast<size_t>(x)) * 3], c, 200);
      }
    }
  }
}

}  // namespace

void finish(Canvas& canvas, const View& v, const Atmosphere& air, const Pose& ego, uint32_t frame, std::span<uint8_t> rgb) {
  thread_local std::vector<int> columns;
  if (air.headlamps) beam_columns(v, columns);
  const size_t row_bytes = static_cast<size_t>(canvas.width) * 3;
  for (int row = 0; row < canvas.height; ++row)
    finish_row(canvas, v, air, ego, row, columns, &rgb[static_cast<size_t>(row) * row_bytes]);
  for (const Glow& g : canvas.glows) draw_glow(canvas, air, g, rgb);
  const uint32_t seed = look_hash(air.seed, frame);
  if (air.weather == Weather::kRain) draw_drops(canvas, air, seed, rgb);
  if (air.weather == Weather::kSnow) draw_flakes(canvas, air, seed, rgb);
}

}  // namespace slip::sim
