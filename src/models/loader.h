// SPDX-License-Identifier: Apache-2.0
// A checkpoint's names -> the decoder's and the tower's weights. Releases prefix the same tensors differently; the prefix whose
// anchor tensor is there wins, and is reported. A tied head is the embedding, whether or not a copy is stored.
#pragma once
#include <array>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "models/config/config.h"
#include "models/config/dino_qwen.h"
#include "models/vision/history_encoder.h"
#include "models/vision/qwen_vision.h"
#include "models/vision/vit_tower.h"
#include "models/weights/weight_reader.h"

namespace slip {

/// What releases put before `layers.0. ...` and `embed_tokens.weight`: text models and Qwen's first release; transformers from 4.52
/// on; Llava's and Mistral 3's releases; Nemotron-Labs-Diffusion, alone and inside a multimodal folder; and parts of larger ones.
inline constexpr std::array<std::string_view, 8> kTextPrefixes = {
    "model.",         "model.language_model.", "language_model.model.",    "encoder.", "language_model.encoder.",
    "model.encoder.", "thinker.model.",        "vlm.model.language_model."};

/// The name layout of a checkpoint.
struct NameLayout {
  std::string text, vision, head;  // prefixes, and the head's full name; vision is empty without a tower
};
/// The first prefix under which the text's embedding, first layer and last norm are stored (else the first with an embedding, so that
/// what is missing can be listed). kBadInput names what was tried.
Result<NameLayout> find_layout(const Checkpoint& checkpoint, const ModelConfig& config);

struct LoadedWeights {
  DecoderWeights decoder;
  std::optional<VisionWeights> vision;
  std::optional<VitTowerWeights> vit_tower;
  std::optional<HistoryWeights> history;
  std::string text_prefix, vision_prefix;  // the name layout that was found
  std::vector<std::string> notes;          // what a person should know: a stored head that is not used ...
};

/// One decoder layer by the names of Hugging Face checkpoints behind `prefix`: "input_layernorm.weight", "self_attn.q_proj.weight" ...;
/// biases and the norms of q and k where the options have them.
LayerWeights read_layer(WeightReader& reader, const DecoderOptions& options, const std::string& prefix, WeightType type);

/// Bytes that loading will take, and that the machine can give.
struct MemoryNeed {
  int64_t weights = 0, cache = 0;
  int64_t activations = 0;  // of a pass of kPassRows rows, or as many as there are slots; and of the tower for as many features
  int64_t total() const { return weights + cache + activations; }
};
/// Rows that the estimate of activations is for. A longer prompt needs more.
inline constexpr int64_t kPassRows = 512;
/// Where the system says what it can give; other files in tests.
struct MemoryFiles {
  std::filesystem::path meminfo = "/proc/meminfo";
  std::filesystem::path own_groups = "/proc/self/cgroup";  // the process's groups
  std::filesystem::path groups = "/sys/fs/cgroup";         // version 2 here, version 1 in memory/
};
/// MemAvailable of this machine, or less where a control group that holds the process has less left (file pages, which can be
/// dropped, are not counted as used); -1 where that cannot be read.
int64_t available_memory(const MemoryFiles& files = {});
/// kResource when the need exceeds what is available (>= 0).
Status check_memory(const MemoryNeed& need, int64_t available, std::string_view where);

/// Checks every tensor first (kBadInput: all missing names, or the first wrong shape), then memory (kResource when weights and a
/// cache of `slots` do not fit in what is available), then packs. `need` (may be null) gets the estimate. `keys`: the cache's numbers;
/// none: kv_type_of(type). `slots` 0: the decoder runs elsewhere, and neither its cache nor its activations lie here.
Result<LoadedWeights> load_weights(const Checkpoint& checkpoint, const ModelConfig& config, WeightType type, int32_t slots,
                                   ThreadPool& pool, const LoadProgress& progress = {}, MemoryNeed* need = nullptr,
                                   std::optional<KvType> keys = {});

/// The same wishes, but what they become goes to `sink` (a packed folder in the making). `planned` is called between the two goes with
/// the bytes that will be read; its error ends the work. `hash` (may be null) gets WeightReader::source_hash.
Status stream_weights(const Checkpoint& checkpoint, const ModelConfig& config, WeightType type, ThreadPool& pool,
                      const LoadProgress& progress, WeightSink& sink, const std::function<Status(int64_t)>& planned,
                      uint64_t* hash);

/// The estimate alone, no tensor touched.
Result<MemoryNeed> estimate_memory(const Checkpoint& checkpoint, const ModelConfig& config, WeightType type, int32_t slots,
                                   ThreadPool& pool, std::optional<KvType> keys = {});

}  // namespace slip
