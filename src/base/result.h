// SPDX-License-Identifier: Apache-2.0
// Result<T> of the public interface (slipstream/error.h) with what the inside needs to make and to pass on errors. It is the one way in
// which the wrongness of the world (a file, a flag, a request, memory) is reported. Broken invariants of our own use SLIP_CHECK
// (check.h); wrong numbers are data.
#pragma once
#include <fmt/format.h>

#include <string>
#include <utility>

#include "slipstream/error.h"

namespace slip {

using slipstream::CancelToken;
using slipstream::Error;
using slipstream::ErrorKind;
using slipstream::Result;
using slipstream::Status;

template <class... A>
Error bad_input(fmt::format_string<A...> f, A&&... a) {
  return {ErrorKind::kBadInput, fmt::format(f, std::forward<A>(a)...)};
}
template <class... A>
Error unsupported(fmt::format_string<A...> f, A&&... a) {
  return {ErrorKind::kUnsupported, fmt::format(f, std::forward<A>(a)...)};
}
template <class... A>
Error usage_error(fmt::format_string<A...> f, A&&... a) {
  return {ErrorKind::kUsage, fmt::format(f, std::forward<A>(a)...)};
}
template <class... A>
Error resource_error(fmt::format_string<A...> f, A&&... a) {
  return {ErrorKind::kResource, fmt::format(f, std::forward<A>(a)...)};
}
template <class... A>
Error check_failed(fmt::format_string<A...> f, A&&... a) {
  return {ErrorKind::kCheckFailed, fmt::format(f, std::forward<A>(a)...)};
}

}  // namespace slip

#define SLIP_CAT_(a, b) a##b
#define SLIP_CAT(a, b) SLIP_CAT_(a, b)
/// SLIP_TRY(const auto x, expr); declares x from a Result, or returns its error. SLIP_TRY_(expr); for Result<void>.
#define SLIP_TRY(decl, ...)                                                                    \
  auto SLIP_CAT(slip_try_, __LINE__) = (__VA_ARGS__);                                          \
  if (!SLIP_CAT(slip_try_, __LINE__)) return std::move(SLIP_CAT(slip_try_, __LINE__)).error(); \
  decl = std::move(*SLIP_CAT(slip_try_, __LINE__))
#define SLIP_TRY_(...)                                               \
  do {                                                               \
    auto slip_try_status = (__VA_ARGS__);                            \
    if (!slip_try_status) return std::move(slip_try_status).error(); \
  } while (0)
