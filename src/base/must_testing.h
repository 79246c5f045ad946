// SPDX-License-Identifier: Apache-2.0
// The value of a result that a test cannot go on without.
#pragma once
#include <stdexcept>
#include <utility>

#include "base/result.h"

namespace slip {

/// The value. An error is thrown with its message: the test that asked fails there, and the next one runs.
template <class T>
T must(Result<T> r) {
  if (!r) throw std::runtime_error(r.error().message);
  return std::move(*r);
}

}  // namespace slip
