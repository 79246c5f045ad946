// SPDX-License-Identifier: Apache-2.0
// Result<T>: the one way in which the wrongness of the world (a file, a flag, a request, memory) is reported.
// A subset of std::expected's interface (g++ 12 has std::expected only in C++23). Broken invariants of our own use
// SLIP_CHECK (check.h); wrong numbers are data.
#pragma once
#include <fmt/format.h>

#include <string>
#include <type_traits>
#include <utility>
#include <variant>

namespace slip {

/// What kind of thing went wrong; the value is the command line's exit code.
enum class ErrorKind : int {
  kInternal = 1,     // we are wrong
  kUsage = 2,        // a flag or argument
  kBadInput = 3,     // a file or a request
  kUnsupported = 4,  // valid, but not done here
  kResource = 5,     // memory or device
  kCheckFailed = 6,  // `verify`, `eval --require`
  kCancelled = 130,  // Ctrl-C
};

/// `message` reads "<thing>: expected <x>, got <y>", one line, no trailing period.
struct Error {
  ErrorKind kind = ErrorKind::kInternal;
  std::string message;
};

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

/// Holds a T or an Error. Dereferencing an error is undefined: test first, or use SLIP_TRY.
template <class T>
class [[nodiscard]] Result {
 public:
  using value_type = T;
  Result(T value) : v_(std::in_place_index<0>, std::move(value)) {}      // NOLINT: implicit on purpose
  Result(Error error) : v_(std::in_place_index<1>, std::move(error)) {}  // NOLINT
  template <class U>
  requires(std::is_convertible_v<U, T> && !std::is_same_v<std::remove_cvref_t<U>, T> &&
           !std::is_same_v<std::remove_cvref_t<U>, Error> && !std::is_same_v<std::remove_cvref_t<U>, Result>) Result(U&& value)
      : v_(std::in_place_index<0>, std::forward<U>(value)) {}  // NOLINT

  bool has_value() const { return v_.index() == 0; }
  explicit operator bool() const { return has_value(); }
  T& value() & { return *std::get_if<0>(&v_); }
  const T& value() const& { return *std::get_if<0>(&v_); }
  T&& value() && { return std::move(*std::get_if<0>(&v_)); }
  T& operator*() & { return value(); }
  const T& operator*() const& { return value(); }
  T&& operator*() && { return std::move(*this).value(); }
  T* operator->() { return std::get_if<0>(&v_); }
  const T* operator->() const { return std::get_if<0>(&v_); }
  Error& error() & { return *std::get_if<1>(&v_); }
  const Error& error() const& { return *std::get_if<1>(&v_); }
  Error&& error() && { return std::move(*std::get_if<1>(&v_)); }
  template <class U>
  T value_or(U&& other) const& {
    return has_value() ? value() : static_cast<T>(std::forward<U>(other));
  }

 private:
  std::variant<T, Error> v_;
};

template <>
class [[nodiscard]] Result<void> {
 public:
  Result() = default;
  Result(Error error) : error_(std::move(error)), ok_(false) {}  // NOLINT
  bool has_value() const { return ok_; }
  explicit operator bool() const { return ok_; }
  Error& error() & { return error_; }
  const Error& error() const& { return error_; }
  Error&& error() && { return std::move(error_); }

 private:
  Error error_;
  bool ok_ = true;
};

using Status = Result<void>;

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
