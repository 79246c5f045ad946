// SPDX-License-Identifier: Apache-2.0
// The library's edge: what is thrown inside comes out as an error.
#pragma once
#include <exception>
#include <new>
#include <stdexcept>
#include <string_view>
#include <system_error>
#include <type_traits>
#include <utility>

#include "api/arithmetic.h"
#include "base/check.h"
#include "base/result.h"

namespace slip::api {

/// The exception in flight as an error. `function` names the caller's function that threw it ("on_event"): of such a one an allocation that
/// failed is kResource, and all else kInternal in its own words. Empty: the library threw it. Then a size beyond all memory, or a thread that
/// cannot start, is kResource too, and a broken invariant kInternal.
inline Error error_of_exception(std::string_view function = {}) {
  const auto of_caller = [&](std::string_view words) {
    return Error{ErrorKind::kInternal, fmt::format("{}: expected no exception, got: {}", function, words)};
  };
  try {
    throw;
  } catch (const std::bad_alloc&) {
    return Error{ErrorKind::kResource, fmt::format("{}: expected enough of it, got an allocation that failed",
                                                   function.empty() ? std::string("memory") : fmt::format("{}: memory", function))};
  } catch (const std::exception& e) {
    if (!function.empty()) return of_caller(e.what());
    if (dynamic_cast<const std::length_error*>(&e))
      return Error{ErrorKind::kResource, "memory: expected enough of it, got a size beyond all memory"};
    if (dynamic_cast<const std::system_error*>(&e))
      return Error{ErrorKind::kResource, fmt::format("system: expected threads and files, got: {}", e.what())};
    return Error{ErrorKind::kInternal, fmt::format("internal error: {}", e.what())};
  } catch (...) {  // a caller's function may throw anything
    if (!function.empty()) return of_caller("one without words");
    return Error{ErrorKind::kInternal, "internal error: expected no exception, got an unknown one"};
  }
}

/// What `work` returns, a Result; what is thrown in it comes back as an error. It has the usual arithmetic.
template <class F>
std::invoke_result_t<F> bounded(F&& work) {
  const UsualArithmetic arithmetic;
  try {
    return std::forward<F>(work)();
  } catch (...) {
    return error_of_exception();
  }
}

}  // namespace slip::api
