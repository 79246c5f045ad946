// SPDX-License-Identifier: Apache-2.0
// What a file of lines was asked for. A line says it under "asked"; files that are gone on with, or merged, must agree.
#pragma once
#include <filesystem>
#include <string>
#include <string_view>

#include "base/json.h"
#include "base/result.h"
#include "slipstream/engine.h"

namespace slip::api {

/// 16 hex digits that tell a folder's weights from others of the same shape, the same wherever the folder lies: FNV-1a of config.json, and of
/// each .safetensors file's name, size and sixteen pieces of 4 KiB, evenly spaced. Not a checksum: a change between the pieces is not seen.
std::string weights_mark(const std::filesystem::path& folder);

/// {"weights", "dtype", "kv", "device"} of a model under these options.
json::object asked_of_model(const std::filesystem::path& folder, const slipstream::EngineOptions& how);
/// The parts of a choice as options would say them: "scaffold-spec --width fixed:4".
std::string choice_line(const slipstream::DecoderChoice& choice);

/// kBadInput, which names the first setting where the line's "asked" differs from `asked`. What a line does not say is taken: files of before.
Status check_asked(const json::object& line, const json::object& asked, std::string_view where);

}  // namespace slip::api
