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

/// A bit of Labels::unknown beside those of sim::Unknown: the ego is not where `seed` and `family` put it, nor need anybody else be. The labels
/// themselves are all true; what else a seed tells (moment_at, cot_labels) is not of this record.
constexpr uint32_t kMoved = 32;
static_assert(kMoved == 2 * kImported);

/// The scene's beginning with an ego where the expert would not be: up to 1.2 m beside his place and 5 degrees turned, at 0.7 to 1.15 of his
/// speed, drawn from the seed; the future is the expert's from there, the history straight on. A start that cannot be driven from is
/// tried nearer to his own; the fourth time it is make_record.
Result<Record> make_perturbed(uint64_t seed, std::optional<uint32_t> family = {}, bool with_images = true);

/// make_perturbed for that share of all seeds, make_record for the rest: whichever it is, a seed's record does not depend on the set it is in.
/// With a share above 0 all records tell the bodies around and the texts of drive-cot, so that those of a set are of one size.
Result<Record> make_mixed(uint64_t seed, double perturbed, std::optional<uint32_t> family = {}, bool with_images = true);

}  // namespace slip::sim
