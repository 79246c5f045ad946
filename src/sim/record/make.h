// SPDX-License-Identifier: Apache-2.0
// Scene, expert, labels and cameras put together: a record from a seed.
#pragma once
#include <cstdint>
#include <optional>

#include "base/result.h"
#include "sim/record.h"

namespace slip::sim {

/// Simulates and labels; renders when `with_images`. Same bytes from the same (version, seed, family) on any machine and compiler.
/// kBadInput for an unknown family.
Result<Record> make_record(uint64_t seed, std::optional<uint32_t> family = {}, bool with_images = true);

/// A later frame of the same scene: the ego has followed the expert's plan for t_s (rounded to tenths of a second), actors have
/// moved; history, labels and future are those of that moment, in its own ego frame. t_s = 0 is make_record, byte for byte.
/// kBadInput for t_s outside 0 .. kMostFrameS.
constexpr double kMostFrameS = 1.5;
Result<Record> make_frame(uint64_t seed, std::optional<uint32_t> family, double t_s, bool with_images = true);

}  // namespace slip::sim
