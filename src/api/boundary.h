// SPDX-License-Identifier: Apache-2.0
// The library's edge: what is thrown inside comes out as an error.
#pragma once
#include <exception>
#include <new>
#include <type_traits>
#include <utility>

#include "base/check.h"
#include "base/result.h"

namespace slip::api {

/// What `work` returns, a Result; a broken invariant of ours is kInternal, an allocation that failed kResource.
template <class F>
std::invoke_result_t<F> bounded(F&& work) {
  try {
    return std::forward<F>(work)();
  } catch (const std::bad_alloc&) {
    return Error{ErrorKind::kResource, "memory: expected enough of it, got an allocation that failed"};
  } catch (const std::exception& e) {
    return Error{ErrorKind::kInternal, fmt::format("internal error: {}", e.what())};
  }
}

}  // namespace slip::api
