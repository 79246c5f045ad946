// SPDX-License-Identifier: Apache-2.0
// What only forms have whose answers a checkpoint was trained to write: padding, lines, bins, instances, arrays as text.
#pragma once
#include <string_view>

namespace slip {

inline constexpr std::string_view kTrainedKeywords[] = {
    "x-null-pad",    "x-end",        "x-content",     "x-instances", "x-instance-separator",
    "x-placeholder", "x-unused",     "x-instance-of", "x-instance",  "x-layout",
    "x-label",       "x-before",     "x-after",       "x-bins",      "x-space",
    "x-separator",   "x-independent"};

}  // namespace slip
