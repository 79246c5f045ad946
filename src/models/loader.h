// SPDX-License-Identifier: Apache-2.0
// A checkpoint's names -> the decoder's and the tower's weights. Releases prefix the same tensors differently; the prefix whose
// anchor tensor is there wins, and is reported. A tied head is the embedding, whether or not a copy is stored.
#pragma once
#include <array>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "models/config.h"
#include "models/qwen_vision.h"
#include "models/weight_reader.h"

namespace slip {

/// What releases put before `layers.0. ...` and `embed_tokens.weight`.
inline constexpr std::array<std::string_view, 4> kTextPrefixes = {"model.", "model.language_model.", "language_model.model.",
                                                                  "encoder."};

struct LoadedWeights {
  DecoderWeights decoder;
  std::optional<VisionWeights> vision;
  std::string text_prefix, vision_prefix;  // the name layout that was found
  std::vector<std::string> notes;          // what a person should know: a stored head that is not used ...
};

/// Bytes that loading will take, and that the machine can give.
struct MemoryNeed {
  int64_t weights = 0, cache = 0;
  int64_t total() const { return weights + cache; }
};
/// MemAvailable of this machine; -1 where that cannot be read.
int64_t available_memory();
/// kResource when the need exceeds what is available (>= 0).
Status check_memory(const MemoryNeed& need, int64_t available, std::string_view where);

/// Checks every tensor first (kBadInput: all missing names, or the first wrong shape), then memory (kResource when weights and a
/// cache of `slots` do not fit in what is available), then packs. `need` (may be null) gets the estimate.
Result<LoadedWeights> load_weights(const Checkpoint& checkpoint, const ModelConfig& config, WeightType type, int32_t slots,
                                   ThreadPool& pool, const LoadProgress& progress = {}, MemoryNeed* need = nullptr);

/// The estimate alone, no tensor touched.
Result<MemoryNeed> estimate_memory(const Checkpoint& checkpoint, const ModelConfig& config, WeightType type, int32_t slots,
                                   ThreadPool& pool);

}  // namespace slip
