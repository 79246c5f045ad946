// SPDX-License-Identifier: Apache-2.0
// Inside of record sets: labels as blocks of fixed size, little endian. A record has the labels' own; then, in sets whose egos may be elsewhere than
// where their seeds put them, what stands around and what drive-cot would say.
#pragma once
#include <span>
#include <string>
#include <vector>

#include "base/result.h"
#include "sim/cot_labels.h"
#include "sim/record.h"
#include "sim/record/seen.h"

namespace slip::sim {

constexpr size_t kExplanationBytes = 600, kCotBytes = 2046;

struct LabelBlock {
  uint64_t seed;
  uint32_t family;
  uint8_t intent, longitudinal, lateral, pre_onset;
  float v0;
  uint16_t critical, visible, causal, text_bytes;
  uint32_t unknown;  // of sim::Unknown
  float history[16][7];
  float future[64][6];
  char text[kExplanationBytes];
};
static_assert(sizeof(LabelBlock) == 32 + 448 + 1536 + 600);

struct BodyBlock {
  uint32_t count;
  uint8_t what[kMostBodies];
  float box[kMostBodies][7];
};
static_assert(sizeof(BodyBlock) == 4 + 64 + 1792);

/// The texts of drive-cot, a line each.
struct CotBlock {
  uint16_t text_bytes;
  char text[kCotBytes];
};
static_assert(sizeof(CotBlock) == 2048);

LabelBlock label_block(const Labels& l);
BodyBlock body_block(std::span<const SeenBody> bodies);
/// kBadInput where the texts are longer than a block.
Result<CotBlock> cot_block(const CotLabels& cot, uint64_t seed);

/// kBadInput for what no writer writes; `name` is the file's.
Result<Labels> labels_in(const LabelBlock& b, const std::string& name);
Result<std::vector<SeenBody>> bodies_in(const BodyBlock& b, const std::string& name, uint64_t seed);
Result<CotLabels> cot_in(const CotBlock& b, const std::string& name, uint64_t seed);

}  // namespace slip::sim
