// SPDX-License-Identifier: Apache-2.0
// `slipstream serve`: loads a model and answers until it is told to stop.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "slipstream/engine.h"

namespace slip::server {

struct ServeOptions {
  std::string model, host = "127.0.0.1", api_key_file, media_path, page_folder, metrics_prefix = "slipstream:", port_file, name;
  std::vector<std::string> forms;  // NAME=FILE
  std::vector<std::string> hosts;  // names beside localhost by which a server without keys on a loopback address may be asked
  int port = 8080;
  double drain_timeout_s = 30, deadline_ms = 0;
  int32_t most_per_key = 0, workers = 2;
  slipstream::EngineOptions engine;
  slipstream::ServiceOptions service;
  slipstream::DecoderChoice decoder;
};

/// Where a server answers: "http://127.0.0.1:8080/", an IPv6 address in brackets.
std::string url_of(std::string_view host, int port);

/// Returns when SIGTERM or SIGINT was received and what was under way has ended, or `drain_timeout_s` has passed. kUsage for options that
/// are none, before anything is read or listened to.
Status serve(const ServeOptions& options, const slipstream::Progress& progress);

}  // namespace slip::server
