// SPDX-License-Identifier: Apache-2.0
// What can go wrong, and how to stop: Result, cancellation, progress. Nothing in this interface throws for what the world does; a
// broken invariant of the library itself comes back as ErrorKind::kInternal.
#pragma once
#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <variant>

namespace slipstream {

/// What kind of thing went wrong; the value is the command line's exit code.
enum class ErrorKind : int {
  kInternal = 1,     // the library is wrong
  kUsage = 2,        // an option or argument
  kBadInput = 3,     // a file or a request
  kUnsupported = 4,  // valid, but not done here
  kResource = 5,     // memory or device
  kCheckFailed = 6,  // a check that was asked for: verify, limits of an evaluation
  kCancelled = 130,  // CancelToken, deadline, Ctrl-C
};

/// `message` reads "<thing>: expected <x>, got <y>", one line, no trailing period.
struct Error {
  ErrorKind kind = ErrorKind::kInternal;
  std::string message;
};

/// Holds a T or an Error: a subset of std::expected. Dereferencing an error is undefined: test first.
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

/// Says that nobody waits for a piece of work any more. Copies share one state; a default-made token can be cancelled, too. Polled
/// before every forward pass, between images, and between parts of long work: an answer ends within one pass. Thread-safe.
class CancelToken {
 public:
  using Clock = std::chrono::steady_clock;
  CancelToken() : state_(std::make_shared<State>()) {}
  /// A token that is cancelled when `parent` is, or by itself.
  static CancelToken child_of(const CancelToken& parent);
  /// The work is to be finished by then. The earliest of several deadlines holds.
  void set_deadline(Clock::time_point deadline);
  void cancel() { state_->cancelled.store(true, std::memory_order_relaxed); }  ///< from any thread, for good
  bool cancelled() const;                                                      ///< by cancel(), a parent, or the process's Ctrl-C
  bool late(Clock::time_point now = Clock::now()) const;                       ///< its deadline, or a parent's, has passed
  /// kCancelled: "<stage>: expected to finish, got cancelled after <done> <what>"; "interrupted" after the process's Ctrl-C.
  Status check(std::string_view stage, int64_t done, std::string_view what) const;
  /// Cancelled with the process's Ctrl-C as well, for programs that handle signals through this library (the command line).
  static CancelToken of_process();

 private:
  struct State {
    std::atomic<bool> cancelled{false};
    std::atomic<int64_t> deadline_ns{INT64_MAX};  // of Clock
    std::shared_ptr<State> parent;
    bool (*also)() = nullptr;  // a further reason to stop
  };
  std::shared_ptr<State> state_;
};

/// Long work tells how far it is: `done` of `total` (0: not known) of a stage ("loading", "verifying"). Called from the working thread.
using Progress = std::function<void(std::string_view stage, int64_t done, int64_t total)>;

}  // namespace slipstream
