// SPDX-License-Identifier: Apache-2.0
// Which word was meant, for error messages.
#pragma once
#include <span>
#include <string>
#include <string_view>

namespace slip {

/// The name that differs least from `given` (letters added, left out, changed or swapped with their neighbour: Damerau's restricted distance);
/// empty where none is near: a third of given's letters may differ, and one of a short word's.
std::string near_word(std::string_view given, std::span<const std::string> names);

}  // namespace slip
