// SPDX-License-Identifier: Apache-2.0
// A native Prismatic checkpoint (MiniVLA, OpenVLA before its conversion) -> a Hugging Face folder in OpenVLA's layout, which
// openvla.h reads [docs/notes/checkpoints.md#minivla]. The .pt file is read as data (core/torch_zip.h); nothing of it is executed.
//
// Names: dino_featurizer.X -> vision_backbone.featurizer.X (`gamma` -> `scale_factor`), siglip_featurizer.X ->
// vision_backbone.fused_featurizer.X, projector.{0,2,4} -> projector.fc{1,2,3}, llm.X -> language_model.X. Sizes follow from the
// tensors' shapes; heads do not: they are known for the published widths, and may be given in the run's config.json as
// `text_config` and `timm_model_args`, whose keys override what is derived.
#pragma once
#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "base/cancel.h"
#include "base/result.h"

namespace slip {

struct ConvertOptions {
  std::filesystem::path source;     // a .pt file, or the run's folder: its newest step in checkpoints/
  std::filesystem::path tokenizer;  // folder with the text model's tokenizer; empty: none is written
};
struct Converted {
  std::filesystem::path checkpoint;
  int64_t tensors = 0, bytes = 0, left_out = 0;  // left_out: buffers that are no weights, a head equal to the embedding
  std::vector<std::string> notes;
};

/// Writes `out` whole or not at all (it must not exist). kBadInput: a checkpoint of another kind, or damaged.
/// `tell`: bytes that are written, and all of them.
Result<Converted> convert_prismatic(const ConvertOptions& options, const std::filesystem::path& out,
                                    const std::function<void(int64_t bytes, int64_t total)>& tell = {},
                                    const CancelToken& cancel = {});

}  // namespace slip
