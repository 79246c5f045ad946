// SPDX-License-Identifier: Apache-2.0
// `width.json` beside a model: what a measured draft length knows, as a file. `eval --calibrate` makes one, and `bench text --calibrate` one of free text.
#pragma once
#include <filesystem>

#include "decode/draft_length/model.h"

namespace slip {

/// Drafts in a round that a file may speak of.
inline constexpr int32_t kMostDraftsKept = 64;

Result<DraftLengthModel> read_draft_length_model(const std::filesystem::path& file);
Status write_draft_length_model(const DraftLengthModel& model, const std::filesystem::path& file);

}  // namespace slip
