// SPDX-License-Identifier: Apache-2.0
// The openpi policy protocol on a websocket: metadata first, then observations in, actions out, msgpack both ways (docs/guide/serving.md).
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "server/http/http.h"
#include "server/msgpack.h"
#include "slipstream/engine.h"

namespace slip::server {

class App;

std::shared_ptr<SocketUser> make_policy_user(App& app, std::string key);

/// An observation: images (arrays of bytes, height x width x 3, or JPEG, PNG, WebP bytes), "ego" {"intent", "history" [16, 7]} or "prompt",
/// and "seed", "temperature", "decoder", "form", "deadline_ms", "partial", "trajectory_head", "fast_plan", "frame_id".
struct Observation {
  slipstream::Request request;
  bool trajectory_head = false;  // the server's own
  bool names_auto = false;       // "decoder": "auto", as CompletionRequest::names_auto
  bool partial = false;          // where the deadline passes, the plan so far is wanted
  double deadline_ms = 0;
  Packed frame_id;
  std::string endpoint;
};
struct ImageLimits;
/// `frame_id` is set as soon as it is read, so that an error can tell whose it is.
Result<Observation> read_observation(std::string_view message, const ImageLimits& limits, Packed& frame_id);
/// {"actions": f32[T, 2], "server_timing", "frame_id", "text", "fields", "plan_source"}.
std::string pack_actions(const slipstream::Answer& answer, const Packed& frame_id, double infer_ms, double prev_total_ms);
class PlanSoFar;
/// What there is when the deadline has passed: {"actions", "server_timing", "frame_id", "partial": true, "plan_source", "after_section"}.
std::string pack_partial(const PlanSoFar& plan, const Packed& frame_id, double infer_ms, double prev_total_ms);

}  // namespace slip::server
