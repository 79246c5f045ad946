// SPDX-License-Identifier: Apache-2.0
// slipstream::inspect: what a model folder is, every option in force and where it came from, the name layout found, what else lies beside
// the weights, and the memory that each weight type needs. Headers alone are read, never weights. What is wrong with a part that other
// calls can do without (tokenizer, chat template, one weight type) is said in its place.
#include <algorithm>
#include <filesystem>
#include <map>

#include "api/boundary.h"
#include "api/tools/reports.h"
#include "core/safetensors.h"
#include "models/adapter.h"
#include "models/loader.h"
#include "models/model.h"
#include "models/weights/packed_folder.h"
#include "slipstream/model.h"
#include "task/prompt.h"

namespace slip::api {
namespace {

constexpr int32_t kSlots = 4096;  // of the cache in the estimate; the default of `run`

json::value id_json(const std::optional<TokenId>& id) { return id ? json::value(id->value) : json::value(nullptr); }

json::object rope_json(const DecoderOptions& d) {
  static constexpr const char* kTypes[] = {"default", "yarn", "llama3", "linear"};
  json::object out{{"type", kTypes[d.rope.scaling.index()]}, {"theta", d.rope.theta}};
  if (const auto* y = std::get_if<RopeYarn>(&d.rope.scaling)) {
    out["factor"] = y->factor;
    out["original_positions"] = y->original_max_position;
  } else if (const auto* l = std::get_if<RopeLlama3>(&d.rope.scaling)) {
    out["factor"] = l->factor;
    out["original_positions"] = l->original_max_position;
  } else if (const auto* n = std::get_if<RopeLinear>(&d.rope.scaling)) {
    out["factor"] = n->factor;
  }
  if (const auto& s = d.rope.sections; s[0] + s[1] + s[2] > 0) out["sections"] = {s[0], s[1], s[2]};
  if (d.q_scale_beta != 0) out["query_scale"] = {{"beta", d.q_scale_beta}, {"positions", d.q_scale_positions}};
  return out;
}

json::value window_json(const DecoderOptions& d) {
  if (d.window == 0) return nullptr;
  json::array layers;
  for (size_t i = 0; i < d.slides_L.size(); ++i)
    if (d.slides_L[i]) layers.emplace_back(i);
  const bool all = layers.size() == d.slides_L.size();
  return json::object{{"keys", d.window}, {"layers", all ? json::value("all") : json::value(std::move(layers))}};
}

const char* tower_word(const ModelConfig& c) {
  if (c.vision) return "qwen2_5_vl";
  if (c.vit_tower) return "plain ViT";
  return c.family->tower == Tower::kNotDone && !c.notes.empty() ? "not read" : "none";
}

json::object attributes_json(const ModelConfig& c) {
  const DecoderOptions& d = c.decoder;
  json::object out{{"architecture", c.architecture},
                   {"model_type", c.model_type},
                   {"family", c.family->name},
                   {"config_class", c.config_class},
                   {"dtype", c.stored_dtype},
                   {"quantization", c.quantization.empty() ? json::value(nullptr) : json::value(c.quantization)},
                   {"vocab", d.vocab},
                   {"width", d.width},
                   {"layers", d.layers},
                   {"heads", d.heads},
                   {"kv_heads", d.kv_heads},
                   {"head_width", d.head_width},
                   {"mlp_width", d.mlp_width},
                   {"norm_eps", std::stod(fmt::format("{}", d.norm_eps))},  // as the file has it, not as f32 widens it
                   {"qkv_bias", d.qkv_bias},
                   {"o_bias", d.o_bias},
                   {"mlp_bias", d.mlp_bias},
                   {"qk_norm", d.qk_norm},
                   {"tied_head", d.tied_head},
                   {"max_positions", c.max_positions},
                   {"rope", rope_json(d)},
                   {"window", window_json(d)}};
  out["can_draft"] = d.rule.has_mask;
  out["draft_rule"] = {
      {"family_drafts", c.family->drafts},  // models of this kind were published to draft; of this folder it says nothing
      {"shift", d.rule.shift},
      {"context", d.rule.block_causal_context ? "block-causal" : "causal"},
      {"block_size", d.rule.block_size},
      {"mask", d.rule.has_mask ? json::value(d.rule.mask.value) : json::value(nullptr)},
      {"null", d.rule.has_null ? json::value(d.rule.null_token.value) : json::value(nullptr)}};
  json::array eos;
  for (const TokenId e : c.eos) eos.emplace_back(e.value);
  out["bos"] = id_json(c.bos);
  out["eos"] = std::move(eos);
  out["tower"] = tower_word(c);
  if (c.vision) {
    const VisionConfig& v = *c.vision;
    out["vision"] = {{"depth", v.depth}, {"width", v.width}, {"heads", v.heads},   {"mlp_width", v.mlp_width},
                     {"patch", v.patch}, {"merge", v.merge}, {"window", v.window}, {"image_token", id_json(c.image_token)}};
  }
  return out;
}

json::array options_json(const ModelConfig& c) {
  json::array out;
  for (const ConfigOption& o : c.options) out.push_back(json::object{{"key", o.key}, {"value", o.value}, {"from", o.from}});
  return out;
}

// What a packed folder holds: its matrices by type with their bytes and the errors of packing, and what it was made of.
json::object packed_json(const Checkpoint& checkpoint, const PackedFolder& packed) {
  struct Sum {
    int64_t matrices = 0, numbers = 0, bytes = 0;
    double error = 0, largest = 0;
  };
  std::map<std::string_view, Sum> sums;
  const json::value* errors = packed.errors.if_contains("relative_error_of_matrices");
  for (const auto& [name, entry] : packed.matrices) {
    Sum& sum = sums[word_of_type(entry.type)];
    ++sum.matrices;
    sum.numbers += (entry.rows - entry.padding) * entry.columns;
    if (const auto tensor = checkpoint.tensors().find(name); tensor != checkpoint.tensors().end())
      sum.bytes += static_cast<int64_t>(tensor->second.bytes.size());
    const json::value* error = errors && errors->is_object() ? errors->get_object().if_contains(name) : nullptr;
    if (!error || !error->is_number()) continue;
    sum.error += error->to_number<double>();
    sum.largest = std::max(sum.largest, error->to_number<double>());
  }
  json::object by_type;
  for (const auto& [type, sum] : sums)
    by_type[type] = {{"matrices", sum.matrices},
                     {"numbers", sum.numbers},
                     {"bytes", sum.bytes},
                     {"mean_error", sum.error / static_cast<double>(sum.matrices)},
                     {"largest_error", sum.largest}};
  return {{"type", word_of_type(packed.type)},
          {"version", kPackedVersion},
          {"matrices", packed.matrices.size()},
          {"holds", std::move(by_type)},
          {"source", packed.source}};
}

// Parameters and bytes as stored; a packed matrix counts what it was packed from.
void add_sizes(const Checkpoint& checkpoint, const std::optional<PackedFolder>& packed, json::object& out) {
  int64_t parameters = 0, bytes = 0;
  for (const auto& [name, t] : checkpoint.tensors()) {
    const auto matrix = packed ? packed->matrices.find(name) : decltype(packed->matrices.end()){};
    const bool is_packed = packed && matrix != packed->matrices.end();
    parameters += is_packed ? (matrix->second.rows - matrix->second.padding) * matrix->second.columns : t.elements();
    bytes += static_cast<int64_t>(t.bytes.size());
  }
  if (packed) out["packed"] = packed_json(checkpoint, *packed);
  out["tensors"] = checkpoint.tensors().size();
  out["parameters"] = parameters;
  out["stored_bytes"] = bytes;
}

Status add_layout(const Checkpoint& checkpoint, const ModelConfig& config, json::object& out) {
  SLIP_TRY(const NameLayout layout, find_layout(checkpoint, config));
  const bool stored = checkpoint.has(layout.head);
  out["layout"] = {{"text", layout.text}, {"head", stored ? json::value(layout.head) : json::value("the embedding")}};
  if (!layout.vision.empty()) out["layout"].as_object()["vision"] = layout.vision;
  if (stored && config.decoder.tied_head) out["layout"].as_object()["head_is_used"] = false;
  return {};
}

json::object memory_json(const Checkpoint& checkpoint, const ModelConfig& config, const std::optional<PackedFolder>& packed) {
  json::object memory;
  ThreadPool pool(1);
  for (const WeightType type : {WeightType::kF32, WeightType::kBF16, WeightType::kI8, WeightType::kI4}) {
    if (packed && type != packed->type) continue;
    const auto need = estimate_memory(checkpoint, config, type, kSlots, pool);
    memory[word_of_type(type)] = need ? json::value{{"weights_bytes", need->weights}, {"cache_bytes_at_4096_slots", need->cache}}
                                      : json::value(need.error().message);
  }
  return memory;
}

void add_companions(const std::filesystem::path& folder, const Result<std::optional<Tokenizer>>& tokenizer, json::object& out) {
  std::error_code ec;
  if (!tokenizer) {
    out["tokenizer"] = tokenizer.error().message;
  } else {
    out["tokenizer"] = *tokenizer ? json::value((*tokenizer)->size()) : json::value("none");
  }
  const auto chat = ChatTemplate::load(folder);
  out["chat_template"] = chat ? "known" : chat.error().message;
  out["preprocessor"] = std::filesystem::exists(folder / "preprocessor_config.json", ec);
  out["draft_adapter"] = std::filesystem::is_directory(folder / kDraftAdapterFolder, ec);
}

std::string text_of(const json::value& v) { return v.is_string() ? std::string(v.get_string()) : json::serialize(v); }

void add_rows(const json::object& o, const std::string& indent, std::string& text) {
  for (const auto& [key, value] : o) {
    if (const json::object* inner = value.if_object()) {
      text += fmt::format("{}{}\n", indent, std::string_view(key));
      add_rows(*inner, indent + "  ", text);
    } else if (key == "options") {
      text += "options\n";
      for (const json::value& option : value.as_array())
        text += fmt::format("  {:<36} {:<24} {}\n", std::string_view(option.at("key").as_string()), text_of(option.at("value")),
                            std::string_view(option.at("from").as_string()));
    } else {
      text += fmt::format("{}{:<{}} {}\n", indent, std::string_view(key), 22 - static_cast<int>(indent.size()), text_of(value));
    }
  }
}

/// The type of `--dtype auto` on the processor. A "slipstream" object that is wrong says nothing here; loading tells what is wrong with it.
Result<std::string> usual_type(const std::string& folder, const ModelConfig& config) {
  SLIP_TRY(const json::value stored, read_json(std::filesystem::path(folder) / "config.json"));
  const auto task = task_options(stored.as_object(), "config.json");
  SLIP_TRY(const WeightType type,
           natural_type(folder, config.stored_dtype, task ? weight_type_named(task->weights) : std::nullopt));
  return std::string(word_of_type(type));
}

Result<slipstream::Report> inspect(const std::string& folder) {
  const auto tokenizer = load_tokenizer(folder);
  SLIP_TRY(const ModelConfig config, load_config(folder, tokenizer && *tokenizer ? &**tokenizer : nullptr));
  SLIP_TRY(const Checkpoint checkpoint, Checkpoint::open_folder(folder));
  SLIP_TRY(const std::optional<PackedFolder> packed, read_packed_folder(folder));
  json::object out = attributes_json(config);
  SLIP_TRY(out["runs_in"], usual_type(folder, config));
  add_sizes(checkpoint, packed, out);
  SLIP_TRY_(add_layout(checkpoint, config, out));
  add_companions(folder, tokenizer, out);
  out["memory"] = memory_json(checkpoint, config, packed);
  json::array notes;
  for (const std::string& note : config.notes) notes.emplace_back(note);
  out["notes"] = std::move(notes);
  out["options"] = options_json(config);
  std::string text;
  add_rows(out, "", text);
  return report_of(out, std::move(text));
}

}  // namespace
}  // namespace slip::api

namespace slipstream {

Result<Report> inspect(const std::string& folder) {
  return slip::api::bounded([&] { return slip::api::inspect(folder); });
}

}  // namespace slipstream
