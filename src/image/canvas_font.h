// SPDX-License-Identifier: Apache-2.0
// The built-in font: printable ASCII, 5 x 8 pixels inside a cell of 6 x 10 (one column and two rows stay free).
#pragma once
#include <array>
#include <cstdint>

namespace slip::image_detail {

/// rows[y] bit (4 - x) is the pixel at column x; rows 0..6 stand on the base line, row 7 is for descenders.
using Glyph = std::array<uint8_t, 8>;
/// The glyph of a byte; a box for what is not printable ASCII.
Glyph glyph_of(unsigned char character);

}  // namespace slip::image_detail
