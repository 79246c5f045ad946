// SPDX-License-Identifier: Apache-2.0
// `width.json` beside a model: what a measured draft length knows, as a file. `eval --calibrate` makes one.
#pragma once
#include <filesystem>

#include "decode/draft_length/model.h"

namespace slip {

Result<DraftLengthModel> read_draft_length_model(const std::filesystem::path& file);
Status write_draft_length_model(const DraftLengthModel& model, const std::filesystem::path& file);

}  // namespace slip
