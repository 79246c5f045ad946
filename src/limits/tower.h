// SPDX-License-Identifier: Apache-2.0
// Times of a vision tower's operations by the roofline, as roofline.h has them for a decoder: weights are read once for all pictures,
// activations once in and once out, a patch meets the patches of its window or of its frame. Qwen2.5-VL's tower (windows, gated MLP,
// merger) and plain ViTs (prefix rows, full attention); norms, biases and rotations are left out.
#pragma once
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "limits/roofline.h"

namespace slip {

struct TowerShape {
  std::string name;  // before its operations' names, where there are several towers
  int64_t depth = 0, width = 0, mlp_width = 0, heads = 0;
  int64_t patch_numbers = 0;       // that a patch's embedding reads
  int64_t full_blocks = 0;         // that attend within frames; the others within windows
  int64_t window_patches = 0;      // of a whole window
  int64_t prefix_rows = 0;         // of every picture beside its patches
  bool gated = true;               // gate, up and down; else up and down
  int64_t merge = 1;               // patches on a side of a feature
  std::vector<int64_t> projector;  // widths from a feature's input to its output: {D, ..., out}; empty: none here
};

/// Patches of one picture.
struct TowerGrid {
  int64_t rows = 0, columns = 0, frames = 1;
  int64_t patches() const { return rows * columns * frames; }
};

/// The tower over these pictures. `activation_bytes`: of a number; 0: as the weights. kUsage for an unknown type.
Result<PassTime> tower_pass(const TowerShape& shape, const Machine& machine, std::span<const TowerGrid> pictures,
                            std::string_view type, double activation_bytes = 0);

/// Multiplications and additions of its products, and of its attention.
struct TowerWork {
  double products = 0, attention = 0;
};
TowerWork tower_work(const PassTime& pass);

}  // namespace slip
