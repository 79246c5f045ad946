// SPDX-License-Identifier: Apache-2.0
// What stands behind the C interface's handles, and how a call ends: a status, a message of this thread, and never an exception.
#pragma once
#include <cstdint>
#include <mutex>
#include <new>
#include <string>
#include <string_view>
#include <utility>

#include "slipstream.h"
#include "slipstream/engine.h"

/// The first member of every handle: a handle of another kind, or memory that never was one, is told from it.
enum class slip_kind : uint64_t {
  kEngine = 0x656e69676e652031,
  kAnswer = 0x61736b6572616e32,
  kCancel = 0x6c65636e61632033,
};

struct slip_engine {
  slip_kind kind = slip_kind::kEngine;
  slipstream::Engine engine;
  std::string info;
};

struct slip_answer {
  slip_kind kind = slip_kind::kAnswer;
  slipstream::Answer answer;
  std::string json, trace;
  std::mutex drawing;
  std::string png;  // empty until it is asked for
};

struct slip_cancel {
  slip_kind kind = slip_kind::kCancel;
  slipstream::CancelToken token;
};

namespace slip::capi {

inline bool is(const slip_engine* h) { return h && h->kind == slip_kind::kEngine; }
inline bool is(const slip_answer* h) { return h && h->kind == slip_kind::kAnswer; }
inline bool is(const slip_cancel* h) { return h && h->kind == slip_kind::kCancel; }

/// Keeps the message for slip_last_error and gives the status. Does not throw: without memory the message is a shorter one.
slip_status fail(const slipstream::Error& error) noexcept;
slip_status fail(slipstream::ErrorKind kind, std::string_view message) noexcept;

/// Runs a call's body, which gives a slipstream::Status or a Result; what is thrown becomes a status, too.
slip_status failed_by_exception() noexcept;
template <class Body>
slip_status guarded(Body&& body) noexcept {
  try {
    const auto outcome = std::forward<Body>(body)();
    return outcome ? SLIP_OK : fail(outcome.error());
  } catch (...) {
    return failed_by_exception();
  }
}

/// kUsage: "<function>: expected <what>, got <got>".
slipstream::Error misuse(const char* function, const char* what, const char* got);

}  // namespace slip::capi
