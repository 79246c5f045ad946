// SPDX-License-Identifier: Apache-2.0
// Reading PEFT's folder; what is taken and what is refused is in adapter.h.
#include "models/adapter.h"

#include <cmath>

#include "models/config/config_reader.h"
#include "models/loader.h"
#include "models/weights/weight_reader.h"

namespace slip {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kModule = "self_attn.o_proj.lora_";

struct AdapterConfig {
  int32_t rank = 0;
  float scale = 1;
};

// Whether a key asks for something: null, false and empty lists and objects do not.
bool asks(const Keys& keys, std::string_view key) {
  if (!keys.has(key)) return false;
  const json::value& v = keys.object.at(key);
  if (v.is_bool()) return v.get_bool();
  if (const auto* list = v.if_array()) return !list->empty();
  if (const auto* object = v.if_object()) return !object->empty();
  return true;
}

Status check_modules(const Keys& keys) {
  const json::value* modules = keys.object.if_contains("target_modules");
  const bool one = modules && ((modules->is_string() && modules->get_string() == "o_proj") ||
                               (modules->is_array() && modules->get_array().size() == 1 && modules->get_array()[0].is_string() &&
                                modules->get_array()[0].get_string() == "o_proj"));
  if (one) return {};
  return unsupported("{}: target_modules: expected [\"o_proj\"], got {}", keys.where, modules ? cut(*modules) : "none");
}

Result<AdapterConfig> read_config(const fs::path& folder) {
  const fs::path file = folder / "adapter_config.json";
  SLIP_TRY(const json::value value, read_json(file, size_t{1} << 20));
  if (!value.is_object()) return bad_input("{}: expected a JSON object, got {}", file.string(), cut(value));
  const Keys keys{value.get_object(), file.string()};
  SLIP_TRY(const std::string type, keys.text("peft_type", "LORA"));
  if (type != "LORA") return unsupported("{}: peft_type: expected LORA, got {}", keys.where, type);
  SLIP_TRY_(check_modules(keys));
  SLIP_TRY(const std::string bias, keys.text("bias", "none"));
  if (bias != "none") return unsupported("{}: bias: expected none, got {}", keys.where, bias);
  for (const std::string_view key : {"use_dora", "lora_bias", "fan_in_fan_out", "rank_pattern", "alpha_pattern",
                                     "layers_to_transform", "layer_replication", "modules_to_save", "trainable_token_indices"})
    if (asks(keys, key))
      return unsupported("{}: {}: expected a plain adapter of every layer's o_proj, got {}", keys.where, key,
                         cut(keys.object.at(key)));
  constexpr int64_t kMaxRank = 1 << 14;  // 128 times the published one; larger is a broken file
  if (!keys.has("r")) return bad_input("{}: r: expected the rank, got none", keys.where);
  AdapterConfig config;
  SLIP_TRY(config.rank, keys.integer("r", 0, 1, kMaxRank));
  SLIP_TRY(const double alpha, keys.number("lora_alpha", 8, -1e6, 1e6));  // 8: the library's default
  SLIP_TRY(const bool root, keys.flag("use_rslora", false));
  config.scale = static_cast<float>(alpha / (root ? std::sqrt(double{1} * config.rank) : config.rank));
  return config;
}

// The base models' name layouts behind PEFT's own prefix.
Result<std::string> find_layout(const Checkpoint& checkpoint) {
  for (const std::string_view layout : kTextPrefixes) {
    const std::string prefix = fmt::format("base_model.model.{}layers.", layout);
    if (checkpoint.has(fmt::format("{}0.{}A.weight", prefix, kModule))) return prefix;
  }
  return bad_input("{}: expected a tensor base_model.model.<layout>layers.0.{}A.weight, got none", checkpoint.path().string(),
                   kModule);
}

}  // namespace

Result<DraftAdapter> load_draft_adapter(const fs::path& folder, const DecoderOptions& decoder, WeightType type, ThreadPool& pool) {
  SLIP_TRY(const AdapterConfig config, read_config(folder));
  SLIP_TRY(const Checkpoint checkpoint, Checkpoint::open_file(folder / "adapter_model.safetensors"));
  SLIP_TRY(const std::string prefix, find_layout(checkpoint));
  const int64_t q = int64_t{decoder.heads} * decoder.head_width, rank = config.rank;
  const WeightType stored = embedding_type(type, false);  // low-rank products are small: integers would save nothing
  WeightReader reader(checkpoint, pool, {});
  DraftAdapter adapter;
  adapter.rank = config.rank;
  adapter.scale = config.scale;
  const auto read = [&] {
    adapter.layers.clear();
    for (int32_t i = 0; i < decoder.layers; ++i) {
      const std::string name = fmt::format("{}{}.{}", prefix, i, kModule);
      DraftAdapter::Layer& layer = adapter.layers.emplace_back();
      layer.a = reader.matrix(stored, {{name + "A.weight", {rank, q}}});
      layer.b = reader.matrix(stored, {{name + "B.weight", {decoder.width, rank}}});
    }
  };
  read();
  SLIP_TRY_(reader.end_check());
  const size_t expected = 2 * static_cast<size_t>(decoder.layers);
  if (checkpoint.tensors().size() != expected)
    return bad_input("{}: expected {} tensors, A and B of o_proj in each of {} layers, got {}", checkpoint.path().string(),
                     expected, decoder.layers, checkpoint.tensors().size());
  read();
  SLIP_TRY_(reader.end_load());
  return adapter;
}

}  // namespace slip
