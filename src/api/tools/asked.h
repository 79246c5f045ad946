// SPDX-License-Identifier: Apache-2.0
// What a file of lines was asked for. A line says it under "asked"; files that are gone on with, or merged, must agree.
#pragma once
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"
#include "base/result.h"
#include "slipstream/engine.h"

namespace slip::api {

/// 16 hex digits that tell a model's folder, a record set's or a file from others of the same shape, the same wherever it lies
/// (mark_of_files). Of a model these are its weights and what answers go by (configurations, tokenizer,
/// calibrations), heads and adapter in folders of its own with it; of a record set (a folder with an index.json) index and shards.
std::string mark_of(const std::filesystem::path& what);

/// {"weights", "dtype", "kv", "device", "parts"} of a model under these options; parts: marks of the files and folders that choices and head name.
/// Threads and instruction set are left out: the first changes no bit, and files of different machines may be merged.
json::object asked_of_model(const std::filesystem::path& folder, const slipstream::EngineOptions& how,
                            const std::vector<slipstream::DecoderChoice>& choices = {}, const std::string& trajectory_head = {});
/// The parts of a choice as options would say them: "scaffold-spec --width fixed:4".
std::string choice_line(const slipstream::DecoderChoice& choice);

/// kBadInput, which names the first setting where the line's "asked" differs from `asked`. What a line does not say is taken: files of before. A model's
/// path counts only where nothing is said of its weights.
Status check_asked(const json::object& line, const json::object& asked, std::string_view where);

/// kUsage where `count` seeds from the first on are more than there are.
Status check_seeds(uint64_t first, int64_t count);

/// kUsage where an output would stand among the files of a record set that is read. Nothing of an empty name.
Status check_not_in_set(const std::string& file, const std::string& set);

/// check_writable of a figure, and kUnsupported where this build draws none.
Status check_figure_target(const std::filesystem::path& file);

/// kUsage where two outputs of one command are one file. Those that are empty are not asked for.
Status check_outputs(const std::vector<std::pair<std::string_view, std::string>>& files);

}  // namespace slip::api
