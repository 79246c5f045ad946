// SPDX-License-Identifier: Apache-2.0
// Text in the picture: three sizes of the 6 x 10 font, made ASCII, cut, wrapped or set flush right.
#pragma once
#include <string>
#include <string_view>
#include <vector>

#include "image/canvas.h"

namespace slip::picture {

/// Sizes of the 6 x 10 font in half pixels: 2 is plain, 3 is smoothed.
inline constexpr int kSmall = 2, kText = 3, kLarge = 4;
inline constexpr int kLine = 19;  // from line to line of kText

constexpr int width_of(std::string_view s, int size) { return static_cast<int>(s.size()) * Canvas::kGlyphWidth * size / 2; }

/// One character per code point: typographic quotes and dashes become ASCII, the rest "?"; control characters become spaces.
std::string plain(std::string_view s);

/// At most `width` pixels; what is longer ends in "...".
std::string cut(std::string_view s, int width, int size);

/// Lines of at most `width` pixels, broken at spaces; a longer word is broken anywhere.
std::vector<std::string> wrap(std::string_view text, int width, int size);

/// "-" for what is not finite or too large to mean anything.
std::string number(double v, int digits, bool sign = false);

/// One line with its upper left corner at (x, y); write_right ends before `right`.
void write(Canvas& canvas, int x, int y, std::string_view s, Colour c, int size = kText);
void write_right(Canvas& canvas, int right, int y, std::string_view s, Colour c, int size = kText);

}  // namespace slip::picture
