// SPDX-License-Identifier: Apache-2.0
// Name layouts and the list of tensors that each family needs; see loader.h.
#include "models/loader.h"
#include "models/vision/history_encoder.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cstring>
#include <fstream>
#include <limits>
#include <span>

namespace slip {
namespace {

using Parts = std::vector<WeightReader::Part>;

constexpr std::array<std::string_view, 2> kVisionPrefixes = {"visual.", "model.visual."};
constexpr std::array<std::string_view, 6> kHeads = {"lm_head.weight",         "language_model.lm_head.weight",
                                                    "diffusion_head.weight",  "language_model.diffusion_head.weight",
                                                    "thinker.lm_head.weight", "vlm.lm_head.weight"};

// The first prefix with all anchors; else the first with the first of them.
Result<std::string> find_prefix(const Checkpoint& checkpoint, std::span<const std::string_view> prefixes,
                                std::initializer_list<std::string_view> anchors) {
  std::string tried;
  std::optional<std::string> half;
  for (const std::string_view prefix : prefixes) {
    const auto stored = [&](std::string_view anchor) { return checkpoint.has(std::string(prefix) + std::string(anchor)); };
    if (std::all_of(anchors.begin(), anchors.end(), stored)) return std::string(prefix);
    if (!half && stored(*anchors.begin())) half = prefix;
    tried += (tried.empty() ? "" : ", ") + std::string(prefix) + std::string(*anchors.begin());
  }
  if (half) return *half;
  return bad_input("{}: expected one of the tensors {}, got none", checkpoint.path().string(), tried);
}

std::string find_head(const Checkpoint& checkpoint) {
  for (const std::string_view name : kHeads)
    if (checkpoint.has(name)) return std::string(name);
  return std::string(kHeads[0]);
}

std::vector<float> bias(WeightReader& reader, bool present, const Parts& parts) {
  return present ? reader.vector(parts) : std::vector<float>{};
}

}  // namespace

LayerWeights read_layer(WeightReader& reader, const DecoderOptions& o, const std::string& p, WeightType type) {
  const int64_t d = o.width, f = o.mlp_width, q = int64_t{o.heads} * o.head_width, kv = int64_t{o.kv_heads} * o.head_width;
  const std::string a = p + "self_attn.", m = p + "mlp.";
  LayerWeights w;
  w.attention_norm_D = reader.vector({{p + "input_layernorm.weight", {d}}});
  w.mlp_norm_D = reader.vector({{p + "post_attention_layernorm.weight", {d}}});
  w.qkv = reader.matrix(type, {{a + "q_proj.weight", {q, d}}, {a + "k_proj.weight", {kv, d}}, {a + "v_proj.weight", {kv, d}}});
  w.qkv_bias = bias(reader, o.qkv_bias, {{a + "q_proj.bias", {q}}, {a + "k_proj.bias", {kv}}, {a + "v_proj.bias", {kv}}});
  if (o.qk_norm) {
    w.q_norm_K = reader.vector({{a + "q_norm.weight", {o.head_width}}});
    w.k_norm_K = reader.vector({{a + "k_norm.weight", {o.head_width}}});
  }
  w.o = reader.matrix(type, {{a + "o_proj.weight", {d, q}}});
  w.o_bias = bias(reader, o.o_bias, {{a + "o_proj.bias", {d}}});
  w.gate_up = reader.matrix(type, {{m + "gate_proj.weight", {f, d}}, {m + "up_proj.weight", {f, d}}});
  w.gate_up_bias = bias(reader, o.mlp_bias, {{m + "gate_proj.bias", {f}}, {m + "up_proj.bias", {f}}});
  w.down = reader.matrix(type, {{m + "down_proj.weight", {d, f}}});
  w.down_bias = bias(reader, o.mlp_bias, {{m + "down_proj.bias", {d}}});
  return w;
}

namespace {

// All wishes, in one order for both goes.
void read_all(WeightReader& reader, const ModelConfig& config, const NameLayout& layout, WeightType type, LoadedWeights& out) {
  const DecoderOptions& o = config.decoder;
  const WeightType embedding = embedding_type(type, o.tied_head), tower = vision_type(type);
  DecoderWeights& w = out.decoder;
  const auto shared = [](PackedMatrix m) { return std::make_shared<const PackedMatrix>(std::move(m)); };
  w.embedding = shared(reader.matrix(embedding, {{layout.text + "embed_tokens.weight", {o.vocab, o.width}}}));
  if (!o.tied_head) w.head = shared(reader.matrix(head_type(type), {{layout.head, {o.vocab, o.width}}}));
  w.layers.clear();
  for (int32_t i = 0; i < o.layers; ++i)
    w.layers.push_back(read_layer(reader, o, layout.text + "layers." + std::to_string(i) + ".", type));
  w.final_norm_D = reader.vector({{layout.text + "norm.weight", {o.width}}});
  if (config.vision) out.vision = read_vision_weights(reader, *config.vision, layout.vision, tower);
  if (config.vit_tower) out.vit_tower = read_vit_tower_weights(reader, *config.vit_tower, tower);
  if (config.history) out.history = read_history_weights(reader, *config.history, o.width);
}

void note_stored_head(const Checkpoint& checkpoint, const ModelConfig& config, const NameLayout& layout, LoadedWeights& out) {
  const TensorView* head = checkpoint.find(layout.head);
  const TensorView* embedding = checkpoint.find(layout.text + "embed_tokens.weight");
  if (!config.decoder.tied_head || !head || !embedding) return;
  const bool equal = head->bytes.size() == embedding->bytes.size() &&
                     std::memcmp(head->bytes.data(), embedding->bytes.data(), head->bytes.size()) == 0;
  out.notes.push_back(equal ? layout.head + " is stored although tied; the embedding is used"
                            : layout.head + " is stored although tied and differs from the embedding; the embedding is used");
}

// Numbers per row that a pass keeps at a time: the residual stream, its norm and update, queries twice (before and after rotation), what
// was attended, keys and values, and the MLP's gated row.
int64_t pass_numbers(const DecoderOptions& o) {
  return int64_t{3} * o.width + int64_t{3} * o.heads * o.head_width + int64_t{2} * o.kv_heads * o.head_width + o.mlp_width;
}
int64_t tower_numbers(const VisionConfig& v) { return int64_t{10} * v.width + int64_t{3} * v.mlp_width; }

MemoryNeed memory_need(const WeightReader& reader, const ModelConfig& config, KvType keys, int32_t slots) {
  const DecoderOptions& o = config.decoder;
  MemoryNeed need;
  need.weights = reader.bytes_needed();
  need.cache = static_cast<int64_t>(KvArena::bytes_needed(o.layers, slots, o.kv_heads, o.head_width, keys));
  const int64_t rows = std::min<int64_t>(slots, kPassRows);
  need.activations = rows * pass_numbers(o) * 4;
  if (config.vision) need.activations += rows * config.vision->merge * config.vision->merge * tower_numbers(*config.vision) * 4;
  return need;
}

// The number behind `key` in a file of lines "key number ..."; with an empty key the file's first. -1: none ("max" too).
int64_t value_of(const std::filesystem::path& path, std::string_view key) {
  std::ifstream file(path);
  std::string word;
  int64_t number = 0;
  if (key.empty()) return file >> number ? number : -1;
  while (file >> word) {
    if (word == key) return file >> number ? number : -1;
    file.ignore(256, '\n');
  }
  return -1;
}

struct GroupFiles {
  const char *folder, *limit, *used, *inactive, *active;
};
constexpr GroupFiles kVersion2 = {"", "memory.max", "memory.current", "inactive_file", "active_file"};
constexpr GroupFiles kVersion1 = {"memory", "memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file",
                                  "total_active_file"};

// Bytes that a control group may still take; without a limit the largest number.
int64_t left_in(const std::filesystem::path& group, const GroupFiles& names) {
  const int64_t limit = value_of(group / names.limit, ""), used = value_of(group / names.used, "");
  if (limit < 0 || used < 0) return std::numeric_limits<int64_t>::max();
  const int64_t pages = std::max<int64_t>(value_of(group / "memory.stat", names.inactive), 0) +
                        std::max<int64_t>(value_of(group / "memory.stat", names.active), 0);
  return std::max<int64_t>(limit - std::max<int64_t>(used - pages, 0), 0);
}

}  // namespace

/// A model that leaves out the last of its layers would answer, and nonsense. `start`: what is before their numbers.
Status check_layers(const Checkpoint& checkpoint, const std::string& start, int32_t layers) {
  for (auto at = checkpoint.tensors().lower_bound(start); at != checkpoint.tensors().end() && at->first.starts_with(start); ++at) {
    const std::string_view rest = std::string_view(at->first).substr(start.size());
    int32_t number = 0;
    const auto [end, error] = std::from_chars(rest.data(), rest.data() + rest.size(), number);
    if (error == std::errc() && number >= layers)
      return bad_input("{}: expected the tensors of {} layers, as config.json says, got {}", checkpoint.path().string(), layers,
                       at->first);
  }
  return {};
}

Status check_tower(const Checkpoint& checkpoint, const VitConfig& tower) {
  const VitNames names = vit_names(tower);
  SLIP_TRY_(check_layers(checkpoint, tower.prefix + names.block, tower.depth));
  if (tower.registers == 0 && checkpoint.has(tower.prefix + names.registers))
    return bad_input("{}: expected no registers, as config.json says, got {}", checkpoint.path().string(),
                     tower.prefix + names.registers);
  return {};
}

Result<NameLayout> find_layout(const Checkpoint& checkpoint, const ModelConfig& config) {
  NameLayout layout;
  SLIP_TRY(layout.text,
           find_prefix(checkpoint, kTextPrefixes, {"embed_tokens.weight", "norm.weight", "layers.0.input_layernorm.weight"}));
  if (config.vision) {
    SLIP_TRY(layout.vision, find_prefix(checkpoint, kVisionPrefixes, {"patch_embed.proj.weight"}));
    SLIP_TRY_(check_layers(checkpoint, layout.vision + "blocks.", config.vision->depth));
  }
  if (config.vit_tower)
    for (const VitConfig& tower : config.vit_tower->vits) SLIP_TRY_(check_tower(checkpoint, tower));
  layout.head = find_head(checkpoint);
  SLIP_TRY_(check_layers(checkpoint, layout.text + "layers.", config.decoder.layers));
  return layout;
}

int64_t available_memory(const MemoryFiles& files) {
  int64_t available = value_of(files.meminfo, "MemAvailable:");
  if (available < 0) return -1;
  available *= 1024;
  std::ifstream own(files.own_groups);
  std::string line;
  const auto ask = [&](const GroupFiles& names, std::string_view group) {  // and those that hold it
    const std::filesystem::path root = files.groups / names.folder;
    for (;; group = group.substr(0, group.rfind('/'))) {
      available = std::min(available, left_in(root / group.substr(std::min<size_t>(group.size(), 1)), names));
      if (group.empty()) return;
    }
  };
  ask(kVersion2, "");
  ask(kVersion1, "");
  while (std::getline(own, line)) {  // "0::/a/b", or "4:memory:/a/b" in version 1
    const std::string_view text = line;
    const size_t first = text.find(':'), second = text.find(':', first + 1);
    if (second == std::string_view::npos || text.size() <= second + 1 || text[second + 1] != '/') continue;
    const std::string_view controllers = text.substr(first + 1, second - first - 1);
    if (controllers.empty()) ask(kVersion2, text.substr(second + 1));
    if (controllers == "memory") ask(kVersion1, text.substr(second + 1));
  }
  return available;
}

Status check_memory(const MemoryNeed& need, int64_t available, std::string_view where) {
  if (available < 0 || need.total() <= available) return {};
  return resource_error("{}: expected {} MB of memory (weights {}, key/value cache {}, activations {}), got {} MB available", where,
                        need.total() >> 20, need.weights >> 20, need.cache >> 20, need.activations >> 20, available >> 20);
}

Result<LoadedWeights> load_weights(const Checkpoint& checkpoint, const ModelConfig& config, WeightType type, int32_t slots,
                                   ThreadPool& pool, const LoadProgress& progress, MemoryNeed* need, std::optional<KvType> keys) {
  SLIP_TRY(const NameLayout layout, find_layout(checkpoint, config));
  WeightReader reader(checkpoint, pool, progress);
  LoadedWeights out;
  out.text_prefix = layout.text;
  out.vision_prefix = layout.vision;
  read_all(reader, config, layout, type, out);
  SLIP_TRY_(reader.end_check());
  const MemoryNeed estimate = memory_need(reader, config, keys.value_or(kv_type_of(type)), slots);
  if (need) *need = estimate;
  SLIP_TRY_(check_memory(estimate, available_memory(), checkpoint.path().string()));
  read_all(reader, config, layout, type, out);
  SLIP_TRY_(reader.end_load());
  note_stored_head(checkpoint, config, layout, out);
  return out;
}

Status stream_weights(const Checkpoint& checkpoint, const ModelConfig& config, WeightType type, ThreadPool& pool,
                      const LoadProgress& progress, WeightSink& sink, const std::function<Status(int64_t)>& planned,
                      uint64_t* hash) {
  SLIP_TRY(const NameLayout layout, find_layout(checkpoint, config));
  WeightReader reader(checkpoint, pool, progress, &sink);
  LoadedWeights unused;
  read_all(reader, config, layout, type, unused);
  SLIP_TRY_(reader.end_check());
  SLIP_TRY_(planned(reader.bytes_read()));
  read_all(reader, config, layout, type, unused);
  SLIP_TRY_(reader.end_load());
  if (hash) *hash = reader.source_hash();
  return {};
}

Result<MemoryNeed> estimate_memory(const Checkpoint& checkpoint, const ModelConfig& config, WeightType type, int32_t slots,
                                   ThreadPool& pool, std::optional<KvType> keys) {
  SLIP_TRY(const NameLayout layout, find_layout(checkpoint, config));
  WeightReader reader(checkpoint, pool, {});
  LoadedWeights unused;
  read_all(reader, config, layout, type, unused);
  SLIP_TRY_(reader.end_check());
  return memory_need(reader, config, keys.value_or(kv_type_of(type)), slots);
}

}  // namespace slip
