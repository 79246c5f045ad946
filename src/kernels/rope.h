// SPDX-License-Identifier: Apache-2.0
// Angles of rotary embedding [Su et al., RoFormer], as tables for `rotate`: default, multimodal in chunks (Qwen2.5-VL),
// YaRN [Peng et al.], llama3 scaling, and the 2-D form of vision towers. Inverse frequencies and angles are f32, as in
// transformers, which checkpoints are trained with; cosine and sine of that f32 angle are right to the
// last bit.
#pragma once
#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <variant>
#include <vector>

#include "base/ids.h"

namespace slip {

struct RopeDefault {};
/// Without attention_factor: 0.1 mscale ln(factor) + 1 over the same with mscale_all_dim when both are given and not
/// zero, else 0.1 ln(factor) + 1.
struct RopeYarn {
  double factor = 1, original_max_position = 0, beta_fast = 32, beta_slow = 1;
  std::optional<double> mscale, mscale_all_dim, attention_factor;
  bool truncate = true;  // whole indices as ends of the ramp
};
struct RopeLlama3 {
  double factor = 8, low_freq_factor = 1, high_freq_factor = 4, original_max_position = 8192;
};
/// "linear": positions divided by the factor.
struct RopeLinear {
  double factor = 1;
};

struct RopeSpec {
  int32_t width = 0;  // rotated numbers of a head, even; pairs (i, i + width / 2)
  double theta = 1e4;
  std::variant<RopeDefault, RopeYarn, RopeLlama3, RopeLinear> scaling;
  /// Pairs that follow t, h and w, in that order (Qwen2.5-VL: 16, 24, 24); all zero: every pair follows t.
  std::array<int32_t, 3> sections{};
};

/// Positions whose cosines are computed once (1 ms for a head of 32): a double-precision cosine takes 5 ns, a row of a pass 16.
inline constexpr int32_t kTablePositions = 2048;

/// angle of pair i at position p = p.axis[i] * inverse_K2[i]; cosine and sine are multiplied by `factor` (YaRN).
struct RopeFrequencies {
  enum class Axis : uint8_t { kT, kH, kW };
  std::vector<float> inverse_K2;
  std::vector<Axis> axis_K2;
  float factor = 1;
  /// Cosines (then sines) of positions 0 .. kTablePositions - 1, as rope_tables gives them: position x half. May be empty.
  std::vector<float> cos_PK2, sin_PK2;
  int32_t half() const { return static_cast<int32_t>(inverse_K2.size()); }
};

RopeFrequencies rope_frequencies(const RopeSpec& spec);
/// Vision towers: the first quarter of the head turns with h, the second with w, each with theta^(-4 i / head_width);
/// pairs (i, i + head_width / 2). Position::t is not used. head_width divisible by 4.
RopeFrequencies vision_rope_frequencies(int32_t head_width, double theta = 1e4);

/// cos_TK2, sin_TK2: positions.size() x half each.
void rope_tables(const RopeFrequencies& frequencies, std::span<const Position> positions, float* cos_TK2, float* sin_TK2);

/// Ministral 3's factor on q: 1 + beta ln(1 + floor(position / original_max_position)).
float query_scale(double beta, double original_max_position, int32_t position);

}  // namespace slip
