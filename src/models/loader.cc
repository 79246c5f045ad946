// SPDX-License-Identifier: Apache-2.0
// Name layouts and the list of tensors that each family needs; see loader.h.
#include "models/loader.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <fstream>
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

MemoryNeed memory_need(const WeightReader& reader, const ModelConfig& config, WeightType type, int32_t slots) {
  const DecoderOptions& o = config.decoder;
  MemoryNeed need;
  need.weights = reader.bytes_needed();
  need.cache = static_cast<int64_t>(KvArena::bytes_needed(o.layers, slots, o.kv_heads, o.head_width, kv_type_of(type)));
  const int64_t rows = std::min<int64_t>(slots, kPassRows);
  need.activations = rows * pass_numbers(o) * 4;
  if (config.vision) need.activations += rows * config.vision->merge * config.vision->merge * tower_numbers(*config.vision) * 4;
  return need;
}

}  // namespace

Result<NameLayout> find_layout(const Checkpoint& checkpoint, const ModelConfig& config) {
  NameLayout layout;
  SLIP_TRY(layout.text,
           find_prefix(checkpoint, kTextPrefixes, {"embed_tokens.weight", "norm.weight", "layers.0.input_layernorm.weight"}));
  if (config.vision) {
    SLIP_TRY(layout.vision, find_prefix(checkpoint, kVisionPrefixes, {"patch_embed.proj.weight"}));
  }
  layout.head = find_head(checkpoint);
  return layout;
}

int64_t available_memory() {
  std::ifstream file("/proc/meminfo");
  std::string key;
  int64_t kilobytes = 0;
  while (file >> key >> kilobytes) {
    if (key == "MemAvailable:") return kilobytes * 1024;
    file.ignore(256, '\n');
  }
  return -1;
}

Status check_memory(const MemoryNeed& need, int64_t available, std::string_view where) {
  if (available < 0 || need.total() <= available) return {};
  return resource_error("{}: expected {} MB of memory (weights {}, key/value cache {}, activations {}), got {} MB available", where,
                        need.total() >> 20, need.weights >> 20, need.cache >> 20, need.activations >> 20, available >> 20);
}

Result<LoadedWeights> load_weights(const Checkpoint& checkpoint, const ModelConfig& config, WeightType type, int32_t slots,
                                   ThreadPool& pool, const LoadProgress& progress, MemoryNeed* need) {
  SLIP_TRY(const NameLayout layout, find_layout(checkpoint, config));
  WeightReader reader(checkpoint, pool, progress);
  LoadedWeights out;
  out.text_prefix = layout.text;
  out.vision_prefix = layout.vision;
  read_all(reader, config, layout, type, out);
  SLIP_TRY_(reader.end_check());
  const MemoryNeed estimate = memory_need(reader, config, type, slots);
  if (need) *need = estimate;
  SLIP_TRY_(check_memory(estimate, available_memory(), checkpoint.path().string()));
  read_all(reader, config, layout, type, out);
  SLIP_TRY_(reader.end_load());
  note_stored_head(checkpoint, config, layout, out);
  return out;
}

Status stream_weights(const Checkpoint& checkpoint, const ModelConfig& config, WeightType type, ThreadPool& pool,
                      const LoadProgress& progress, WeightSink& sink, const std::function<Status(int64_t)>& planned, uint64_t* hash) {
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
                                   ThreadPool& pool) {
  SLIP_TRY(const NameLayout layout, find_layout(checkpoint, config));
  WeightReader reader(checkpoint, pool, {});
  LoadedWeights unused;
  read_all(reader, config, layout, type, unused);
  SLIP_TRY_(reader.end_check());
  return memory_need(reader, config, type, slots);
}

}  // namespace slip
