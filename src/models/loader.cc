// SPDX-License-Identifier: Apache-2.0
// Name layouts and the list of tensors that each family needs; see loader.h.
#include "models/loader.h"

#include <array>
#include <cstring>
#include <fstream>
#include <span>

namespace slip {
namespace {

using Parts = std::vector<WeightReader::Part>;

constexpr std::array<std::string_view, 2> kVisionPrefixes = {"visual.", "model.visual."};
constexpr std::array<std::string_view, 3> kHeads = {"lm_head.weight", "language_model.lm_head.weight", "diffusion_head.weight"};

Result<std::string> find_prefix(const Checkpoint& checkpoint, std::span<const std::string_view> prefixes, std::string_view anchor) {
  std::string tried;
  for (const std::string_view prefix : prefixes) {
    const std::string name = std::string(prefix) + std::string(anchor);
    if (checkpoint.has(name)) return std::string(prefix);
    tried += (tried.empty() ? "" : ", ") + name;
  }
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

struct Layout {
  std::string text, vision, head;
};

// All wishes, in one order for both goes.
void read_all(WeightReader& reader, const ModelConfig& config, const Layout& layout, WeightType type, LoadedWeights& out) {
  const DecoderOptions& o = config.decoder;
  // An embedding of its own is looked up, never multiplied: int8 would cost accuracy and save nothing per pass.
  const WeightType embedding = !o.tied_head && type == WeightType::kI8 ? WeightType::kBF16 : type;
  DecoderWeights& w = out.decoder;
  const auto shared = [](PackedMatrix m) { return std::make_shared<const PackedMatrix>(std::move(m)); };
  w.embedding = shared(reader.matrix(embedding, {{layout.text + "embed_tokens.weight", {o.vocab, o.width}}}));
  if (!o.tied_head) w.head = shared(reader.matrix(type, {{layout.head, {o.vocab, o.width}}}));
  w.layers.clear();
  for (int32_t i = 0; i < o.layers; ++i)
    w.layers.push_back(read_layer(reader, o, layout.text + "layers." + std::to_string(i) + ".", type));
  w.final_norm_D = reader.vector({{layout.text + "norm.weight", {o.width}}});
  if (config.vision) out.vision = read_vision_weights(reader, *config.vision, layout.vision, type);
}

Result<Layout> find_layout(const Checkpoint& checkpoint, const ModelConfig& config) {
  Layout layout;
  SLIP_TRY(layout.text, find_prefix(checkpoint, kTextPrefixes, "embed_tokens.weight"));
  if (config.vision) {
    SLIP_TRY(layout.vision, find_prefix(checkpoint, kVisionPrefixes, "patch_embed.proj.weight"));
  }
  layout.head = find_head(checkpoint);
  return layout;
}

void note_stored_head(const Checkpoint& checkpoint, const ModelConfig& config, const Layout& layout, LoadedWeights& out) {
  const TensorView* head = checkpoint.find(layout.head);
  const TensorView* embedding = checkpoint.find(layout.text + "embed_tokens.weight");
  if (!config.decoder.tied_head || !head || !embedding) return;
  const bool equal = head->bytes.size() == embedding->bytes.size() &&
                     std::memcmp(head->bytes.data(), embedding->bytes.data(), head->bytes.size()) == 0;
  out.notes.push_back(equal ? layout.head + " is stored although tied; the embedding is used"
                            : layout.head + " is stored although tied and differs from the embedding; the embedding is used");
}

MemoryNeed memory_need(const WeightReader& reader, const ModelConfig& config, int32_t slots) {
  const DecoderOptions& o = config.decoder;
  return {reader.bytes_needed(), static_cast<int64_t>(KvArena::bytes_needed(o.layers, slots, o.kv_heads, o.head_width))};
}

}  // namespace

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
  return resource_error("{}: expected {} MB of memory (weights {}, key/value cache {}), got {} MB available", where,
                        need.total() >> 20, need.weights >> 20, need.cache >> 20, available >> 20);
}

Result<LoadedWeights> load_weights(const Checkpoint& checkpoint, const ModelConfig& config, WeightType type, int32_t slots,
                                   ThreadPool& pool, const LoadProgress& progress, MemoryNeed* need) {
  SLIP_TRY(const Layout layout, find_layout(checkpoint, config));
  WeightReader reader(checkpoint, pool, progress);
  LoadedWeights out;
  out.text_prefix = layout.text;
  out.vision_prefix = layout.vision;
  read_all(reader, config, layout, type, out);
  SLIP_TRY_(reader.end_check());
  const MemoryNeed estimate = memory_need(reader, config, slots);
  if (need) *need = estimate;
  SLIP_TRY_(check_memory(estimate, available_memory(), checkpoint.path().string()));
  read_all(reader, config, layout, type, out);
  SLIP_TRY_(reader.end_load());
  note_stored_head(checkpoint, config, layout, out);
  return out;
}

Result<MemoryNeed> estimate_memory(const Checkpoint& checkpoint, const ModelConfig& config, WeightType type, int32_t slots,
                                   ThreadPool& pool) {
  SLIP_TRY(const Layout layout, find_layout(checkpoint, config));
  WeightReader reader(checkpoint, pool, {});
  LoadedWeights unused;
  read_all(reader, config, layout, type, unused);
  SLIP_TRY_(reader.end_check());
  return memory_need(reader, config, slots);
}

}  // namespace slip
