// SPDX-License-Identifier: Apache-2.0
// A ViT's table of positions for images of another size.
#pragma once
#include <cstdint>
#include <span>
#include <vector>

namespace slip {

/// A table of rows x columns positions of D numbers, resampled as torch.nn.functional.interpolate does it for a given size
/// (bicubic, align_corners false), in f32 steps of its own; the table itself where the size is the same.
std::vector<float> resample_positions(std::span<const float> table_PD, int32_t rows, int32_t columns, int32_t width,
                                      int32_t to_rows, int32_t to_columns, bool antialias);

}  // namespace slip
