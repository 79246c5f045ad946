// SPDX-License-Identifier: Apache-2.0
// `slipstream serve`: loads a model and answers until it is told to stop.
#pragma once

#include <string>
#include <vector>

#include "base/result.h"
#include "slipstream/engine.h"

namespace slip::server {

struct ServeOptions {
  std::string model, host = "127.0.0.1", api_key_file, media_path, page_folder, metrics_prefix = "slipstream:", port_file, name;
  std::vector<std::string> forms;  // NAME=FILE
  int port = 8080;
  double drain_timeout_s = 30, deadline_ms = 0;
  int32_t most_per_key = 0, workers = 2;
  slipstream::EngineOptions engine;
  slipstream::ServiceOptions service;
  slipstream::DecoderChoice decoder;
};

/// Returns when SIGTERM or SIGINT was received and what was under way has ended, or `drain_timeout_s` has passed.
Status serve(const ServeOptions& options, const slipstream::Progress& progress);

}  // namespace slip::server
