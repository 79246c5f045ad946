// SPDX-License-Identifier: Apache-2.0
// What stands behind slipstream::Engine.
#pragma once
#include <unistd.h>

#include <memory>

#include "engine/engine.h"
#include "slipstream/engine.h"

namespace slipstream {

struct [[gnu::visibility("hidden")]] Engine::Impl {
  std::unique_ptr<slip::Engine> engine;
  ModelInfo info;
  pid_t process = ::getpid();

  /// A fork has the engine's memory and none of its threads.
  bool is_of_this_process() const { return process == ::getpid(); }
  Result<Answer> answer(const Request& asked, const OnEvent& on_event);
};

}  // namespace slipstream

namespace slip::api {

/// What loading tells and asks on behalf of a caller.
inline LoadProgress load_progress(const slipstream::Progress& progress, const CancelToken& cancel) {
  LoadProgress out{{}, cancel};
  if (progress) out.tell = [&progress](int64_t done, int64_t total) { progress("loading", done, total); };
  return out;
}

}  // namespace slip::api
