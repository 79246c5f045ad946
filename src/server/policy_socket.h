// SPDX-License-Identifier: Apache-2.0
// The openpi policy protocol on a websocket: metadata first, then observations in, actions out, msgpack both ways (docs/guide/serving.md).
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "server/http.h"
#include "server/msgpack.h"
#include "slipstream/engine.h"

namespace slip::server {

class App;

std::shared_ptr<SocketUser> make_policy_user(App& app, std::string key);

/// An observation: images (arrays of bytes, height x width x 3, or JPEG, PNG, WebP bytes), "ego" {"intent", "history" [16, 7]} or "prompt",
/// and "seed", "temperature", "decoder", "form", "deadline_ms", "frame_id".
struct Observation {
  slipstream::Request request;
  double deadline_ms = 0;
  Packed frame_id;
  std::string endpoint;
};
struct ImageLimits;
Result<Observation> read_observation(std::string_view message, const ImageLimits& limits);
/// {"actions": f32[T, 2], "server_timing", "frame_id", "text", "fields"}.
std::string pack_actions(const slipstream::Answer& answer, const Packed& frame_id, double infer_ms, double prev_total_ms);

}  // namespace slip::server
