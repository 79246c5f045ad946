// SPDX-License-Identifier: Apache-2.0
// Words of JSON results that no lower floor needs.
#pragma once
#include <array>
#include <string_view>

#include "kernels/kernels.h"

namespace slip::api {

inline std::string_view word_of(Isa isa) {
  return std::array<std::string_view, 4>{"portable", "avx2", "avx512", "neon"}[static_cast<size_t>(isa)];
}

}  // namespace slip::api
