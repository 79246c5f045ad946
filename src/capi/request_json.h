// SPDX-License-Identifier: Apache-2.0
// The request and the engine's options as JSON documents: what slipstream.h takes, and anything else that is told in JSON what to ask. Keys are
// those of the command line, and each stands for one member of Request.
#pragma once
#include <string_view>
#include <vector>

#include "base/result.h"
#include "slipstream/engine.h"

namespace slip {

/// A request. `document` empty: the default one. `name` opens error messages. Files that it names (image_files, record, form) are read, so that
/// kBadInput may be about one of them. Whether the combination makes sense is the engine's to say. `cancel` becomes the request's token; a
/// deadline in the document is set on it.
Result<slipstream::Request> request_from_json(std::string_view document, std::string_view name,
                                              slipstream::CancelToken cancel = {});

/// dtype, kv, device, threads, slots, trajectory_head. `document` empty: the defaults.
Result<slipstream::EngineOptions> engine_options_from_json(std::string_view document, std::string_view name);

/// The keys that these documents may have.
std::vector<std::string_view> request_keys();
std::vector<std::string_view> engine_option_keys();

/// What was loaded, one line of JSON.
std::string info_json(const slipstream::ModelInfo& info);

}  // namespace slip
