// SPDX-License-Identifier: Apache-2.0
// The library's edge: what is thrown inside comes out as an error.
#pragma once
#include <exception>
#include <new>
#include <stdexcept>
#include <system_error>
#include <type_traits>
#include <utility>

#include "base/check.h"
#include "base/result.h"

namespace slip::api {

/// What `work` returns, a Result; a broken invariant of ours, or what a caller's function throws, is kInternal, an allocation that failed or a
/// thread that cannot start kResource.
template <class F>
std::invoke_result_t<F> bounded(F&& work) {
  try {
    return std::forward<F>(work)();
  } catch (const std::bad_alloc&) {
    return Error{ErrorKind::kResource, "memory: expected enough of it, got an allocation that failed"};
  } catch (const std::length_error&) {
    return Error{ErrorKind::kResource, "memory: expected enough of it, got a size beyond all memory"};
  } catch (const std::system_error& e) {
    return Error{ErrorKind::kResource, fmt::format("system: expected threads and files, got: {}", e.what())};
  } catch (const std::exception& e) {
    return Error{ErrorKind::kInternal, fmt::format("internal error: {}", e.what())};
  } catch (...) {  // a caller's function may throw anything
    return Error{ErrorKind::kInternal, "internal error: expected no exception, got an unknown one"};
  }
}

}  // namespace slip::api
