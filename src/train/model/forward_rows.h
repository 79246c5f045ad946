// SPDX-License-Identifier: Apache-2.0
// Logits of rows with explicit visibility, from the trainer's model: what a test compares with the engine's. Same rows file as
// the command line's `forward`: {"rows": [{"token": 12, "position": 7, "sees": [[0, 8]]}, {"image": 0, "patch": 3, ...}]}.
#pragma once
#include <filesystem>
#include <string>
#include <vector>

#include "base/json.h"
#include "train/model/model_torch.h"
#include "train/model/rows.h"

namespace slip {

/// A pass over the file's rows that wants every row's logits. `pixels`: a safetensors file with pixel_values (P x numbers) and
/// grid_thw (C x 3) when rows name images; may be empty.
Result<RowBatch> rows_from_json(const json::object& rows, const ModelShape& shape, const std::filesystem::path& pixels,
                                const std::string& where);
/// A model with a checkpoint's weights.
Result<TrainModel> load_model(const std::filesystem::path& folder, Precision precision);
/// `slipstream-train --forward`: writes {"logits": rows x V}.
Status forward_rows(const std::filesystem::path& model, const std::filesystem::path& rows, const std::filesystem::path& pixels,
                    const std::filesystem::path& out, Precision precision);

}  // namespace slip
