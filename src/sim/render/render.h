// SPDX-License-Identifier: Apache-2.0
// The cameras of the simulator: a software rasteriser that turns a Moment into pictures, the same bytes on any machine.
// Bits are stable because no libm transcendental reaches a value (sim/math.h has its own), products are never fused
// (-ffp-contract=off), polygons are filled with integer edge walks, and noise is a hash of integer coordinates.
// Thread rule: every function may run on any number of threads at once; scratch memory is per thread.
#pragma once
#include <array>
#include <cstdint>
#include <optional>
#include <span>

#include "sim/scene.h"

namespace slip::sim {

/// Front-left (+45 degrees), front, front-right (-45): 420 x 448, field of view 1.2 rad (neighbours overlap by 24 degrees),
/// pitched 0.12 rad down so that the road fills three fifths of the picture. Camera::pitch_rad is positive upwards.
std::array<Camera, 3> front_cameras();

/// Bytes of one picture: width * height * 3.
constexpr size_t image_bytes(const Camera& c) { return size_t{3} * static_cast<size_t>(c.width) * static_cast<size_t>(c.height); }

/// rgb (image_bytes, rows top to bottom) = what `camera` sees. What stands farther than 300 m, or is not finite, is left out.
void render(const Moment& moment, const Camera& camera, std::span<uint8_t> rgb);

/// The three front_cameras() one after another: byte for byte three calls of render, but bodies are built once.
void render_all(const Moment& moment, std::span<uint8_t> three_images);

struct Pixel {
  double x = 0, y = 0;
};
/// Where the world point (x, y, z) appears: x to the right, y down, pixel (0, 0) covers [0, 1) x [0, 1). Nothing when the
/// point lies nearer than 0.2 m to the image plane or behind it, or outside the picture.
std::optional<Pixel> project(const Camera& camera, const Pose& ego, double x, double y, double z);

}  // namespace slip::sim
