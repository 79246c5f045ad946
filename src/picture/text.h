// SPDX-License-Identifier: Apache-2.0
// Text in the picture: made printable, cut and wrapped to a width that the pen measures.
#pragma once
#include <string>
#include <string_view>
#include <vector>

#include "picture/pen.h"

namespace slip::picture {

/// Valid UTF-8: what is none becomes U+FFFD, control characters become spaces.
std::string plain(std::string_view s);

/// At most `width` pixels; what is longer ends in `end`.
std::string cut(const Pen& pen, std::string_view s, int width, int size = kText, std::string_view end = "...");

/// Lines of at most `width` pixels, broken at spaces; a longer word is broken anywhere.
std::vector<std::string> wrap(const Pen& pen, std::string_view text, int width, int size = kText);

/// "-" for what is not finite or too large to mean anything.
std::string number(double v, int digits, bool sign = false);

}  // namespace slip::picture
