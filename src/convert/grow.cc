// SPDX-License-Identifier: Apache-2.0
// See grow.h.
#include "convert/grow.h"

#include <fmt/ranges.h>
#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <optional>
#include <string>
#include <vector>

#include "base/check.h"
#include "base/file.h"
#include "base/files/atomic_folder.h"
#include "base/json.h"
#include "convert/folder_writer.h"
#include "core/safetensors.h"
#include "models/loader.h"
#include "models/model.h"
#include "models/weights/packed_folder.h"

namespace slip {
namespace {

namespace fs = std::filesystem;

enum class Axis : uint8_t { kSame, kWidth, kHeads, kKvHeads, kMlp };
enum class Factor : uint8_t { kOne, kStream, kGain, kFinalGain };

struct Rule {
  std::string_view name;  // behind the layer's number, or the end of the whole name
  Axis rows, columns;     // a vector has rows alone
  Factor factor = Factor::kOne;
  bool adds = false;  // to the stream: zeros in added layers
};

constexpr std::array<Rule, 18> kLayerRules = {{
    {"input_layernorm.weight", Axis::kWidth, Axis::kSame, Factor::kGain},
    {"post_attention_layernorm.weight", Axis::kWidth, Axis::kSame, Factor::kGain},
    {"self_attn.q_proj.weight", Axis::kHeads, Axis::kWidth},
    {"self_attn.k_proj.weight", Axis::kKvHeads, Axis::kWidth},
    {"self_attn.v_proj.weight", Axis::kKvHeads, Axis::kWidth},
    {"self_attn.q_proj.bias", Axis::kHeads, Axis::kSame},
    {"self_attn.k_proj.bias", Axis::kKvHeads, Axis::kSame},
    {"self_attn.v_proj.bias", Axis::kKvHeads, Axis::kSame},
    {"self_attn.q_norm.weight", Axis::kSame, Axis::kSame},
    {"self_attn.k_norm.weight", Axis::kSame, Axis::kSame},
    {"self_attn.o_proj.weight", Axis::kWidth, Axis::kHeads, Factor::kStream, true},
    {"self_attn.o_proj.bias", Axis::kWidth, Axis::kSame, Factor::kStream, true},
    {"mlp.gate_proj.weight", Axis::kMlp, Axis::kWidth},
    {"mlp.up_proj.weight", Axis::kMlp, Axis::kWidth},
    {"mlp.down_proj.weight", Axis::kWidth, Axis::kMlp, Factor::kStream, true},
    {"mlp.down_proj.bias", Axis::kWidth, Axis::kSame, Factor::kStream, true},
    // The drafter's adapter (linear_spec_lora).
    {"self_attn.o_proj.lora_A.weight", Axis::kSame, Axis::kHeads},
    {"self_attn.o_proj.lora_B.weight", Axis::kWidth, Axis::kSame, Factor::kStream, true},
}};
constexpr std::array<Rule, 5> kOtherRules = {{
    {"embed_tokens.weight", Axis::kSame, Axis::kWidth, Factor::kStream},
    {"lm_head.weight", Axis::kSame, Axis::kWidth},
    {"norm.weight", Axis::kWidth, Axis::kSame, Factor::kFinalGain},
    {"merger.mlp.2.weight", Axis::kWidth, Axis::kSame, Factor::kStream},
    {"merger.mlp.2.bias", Axis::kWidth, Axis::kSame, Factor::kStream},
}};
constexpr std::string_view kAdapter = "linear_spec_lora";

struct Shape {
  const DecoderOptions& was;
  const GrowOptions& by;
  double stream() const { return std::sqrt(static_cast<double>(by.times)); }
  int64_t before(Axis axis, int64_t stored) const {
    switch (axis) {
      case Axis::kWidth:
        return was.width;
      case Axis::kHeads:
        return int64_t{was.heads} * was.head_width;
      case Axis::kKvHeads:
        return int64_t{was.kv_heads} * was.head_width;
      case Axis::kMlp:
        return was.mlp_width;
      case Axis::kSame:
        break;
    }
    return stored;
  }
  int64_t after(Axis axis, int64_t stored) const {
    const int64_t n = before(axis, stored);
    return axis == Axis::kSame ? n : axis == Axis::kMlp ? n * by.times * by.mlp : n * by.times;
  }
  float factor(Factor f) const {
    const double s = stream();
    const double gain = was.tied_head ? 1 / (s * s) : 1 / s;  // the tied head multiplies by the stream's factor
    return static_cast<float>(f == Factor::kStream ? s : f == Factor::kGain ? 1 / s : f == Factor::kFinalGain ? gain : 1.0);
  }
};

/// A tensor as it will be: the numbers of `source`, the rest zeros.
struct Made {
  TensorPlan plan;
  const TensorView* source = nullptr;
  float factor = 1;  // 0: all zeros
};

struct LayerName {
  std::string_view before, after;  // "...layers." and what stands behind the number
  int64_t number = 0;
};
std::optional<LayerName> layer_name(std::string_view name) {
  constexpr std::string_view kLayers = "layers.";
  const size_t at = name.find(kLayers);
  if (at == std::string_view::npos) return {};
  size_t end = at + kLayers.size();
  int64_t number = 0;
  while (end < name.size() && name[end] >= '0' && name[end] <= '9' && number < 1 << 20) number = number * 10 + (name[end++] - '0');
  if (end == at + kLayers.size() || end >= name.size() || name[end] != '.') return {};
  return LayerName{name.substr(0, at + kLayers.size()), name.substr(end + 1), number};
}

const Rule* rule_of(std::span<const Rule> rules, std::string_view name, bool whole) {
  for (const Rule& r : rules)
    if (whole ? name == r.name : name == r.name || (name.ends_with(r.name) && name[name.size() - r.name.size() - 1] == '.'))
      return &r;
  return nullptr;
}

/// Shapes of `t` under a rule, before (checked) and after.
Result<std::vector<int64_t>> grown_shape(const TensorView& t, const Rule& rule, const Shape& shape) {
  std::vector<int64_t> want, out;
  const std::array<Axis, 2> axes = {rule.rows, rule.columns};
  for (size_t d = 0; d < t.shape.size() && d < 2; ++d) {
    want.push_back(shape.before(axes[d], t.shape[d]));
    out.push_back(shape.after(axes[d], t.shape[d]));
  }
  if (t.shape.size() > 2 || want != t.shape)
    return bad_input("tensor {}: expected shape [{}], got [{}]", t.name, fmt::join(want, ", "), fmt::join(t.shape, ", "));
  return out;
}

Status plan_one(const TensorView& t, const Shape& shape, std::vector<Made>& out) {
  if (t.dtype != DType::kBF16 && t.dtype != DType::kF32 && t.dtype != DType::kF16)
    return unsupported("grow: tensor {}: expected bf16, f16 or f32, got another type (a quantised release?)", t.name);
  const auto layer = layer_name(t.name);
  const bool tower = t.name.find("visual.") != std::string::npos;
  const Rule* rule = tower   ? rule_of(kOtherRules, t.name, false)
                     : layer ? rule_of(kLayerRules, layer->after, true)
                             : rule_of(kOtherRules, t.name, false);
  if (tower && (!rule || !rule->name.starts_with("merger"))) {
    out.push_back({{t.name, t.dtype, t.shape}, &t});
    return {};
  }
  if (!rule)
    return unsupported("grow: tensor {}: expected one of a Qwen2-, Qwen3-, Llama- or Mistral-like decoder, got another", t.name);
  SLIP_TRY(const std::vector<int64_t> grown, grown_shape(t, *rule, shape));
  const float factor = shape.factor(rule->factor);
  out.push_back({{t.name, t.dtype, grown}, &t, factor});
  for (int more = 1; layer && !tower && more < shape.by.layers; ++more)
    out.push_back(
        {{fmt::format("{}{}.{}", layer->before, layer->number + int64_t{more} * shape.was.layers, layer->after), t.dtype, grown},
         &t,
         rule->adds ? 0 : factor});
  return {};
}

constexpr int64_t kGrownPiece = int64_t{1} << 20;  // bytes at a time: a tensor that is made of a 7B's takes 20 GB and more

void put_row(std::span<const float> row, DType dtype, std::byte* to) {
  for (size_t i = 0; i < row.size(); ++i) {
    if (dtype == DType::kF32) {
      std::memcpy(to + 4 * i, &row[i], 4);
    } else {
      const uint16_t half = dtype == DType::kF16 ? float_to_f16(row[i]) : to_bf16(row[i]).bits;
      std::memcpy(to + 2 * i, &half, 2);
    }
  }
}

/// What all tensors of a folder are written with.
struct Writing {
  TensorFileWriter& to;
  const CancelToken& cancel;
  const std::function<void(int64_t)>& wrote;
};

/// Row by row, in pieces: memory does not go by the size of what is made.
Status write_one(const Writing& writing, size_t tensor, const Made& m) {
  const std::vector<int64_t>& was = m.source->shape;
  if (m.factor == 1 && m.plan.shape == was) {
    SLIP_TRY_(writing.to.write(tensor, 0, m.source->bytes.data(), m.source->bytes.size()));
    writing.wrote(m.plan.bytes());
    return {};
  }
  const bool matrix = was.size() == 2;
  const int64_t stored = matrix ? was[0] : 1, rows = m.factor == 0 ? 0 : stored, lines = matrix ? m.plan.shape[0] : 1;
  const int64_t columns = m.source->elements() / std::max<int64_t>(1, stored);
  const int64_t line_bytes = m.plan.bytes() / std::max<int64_t>(1, lines);
  const int64_t at_once = std::max<int64_t>(1, kGrownPiece / std::max<int64_t>(1, line_bytes));
  std::vector<float> row(static_cast<size_t>(columns));
  std::vector<std::byte> piece;
  for (int64_t first = 0; first < lines; first += at_once) {
    SLIP_TRY_(writing.cancel.check("growing", static_cast<int64_t>(tensor), "tensors"));
    piece.assign(static_cast<size_t>(std::min(at_once, lines - first) * line_bytes), std::byte{0});
    for (int64_t r = first; r < std::min(first + at_once, rows); ++r) {
      read_as_f32(*m.source, r * columns, row);
      for (float& x : row) {
        x *= m.factor;
        if (!std::isfinite(x)) return bad_input("grow: tensor {}: expected finite numbers, got {}", m.source->name, x);
      }
      put_row(row, m.plan.dtype, piece.data() + (r - first) * line_bytes);
    }
    SLIP_TRY_(writing.to.write(tensor, first * line_bytes, piece.data(), piece.size()));
    writing.wrote(static_cast<int64_t>(piece.size()));
  }
  return {};
}

struct Sizes {
  int64_t bytes = 0, parameters = 0, before = 0;
};
Sizes sizes_of(const std::vector<Made>& all) {
  Sizes s;
  for (const Made& m : all) {
    s.bytes += m.plan.bytes();
    s.parameters += m.plan.bytes() / static_cast<int64_t>(size_of(m.plan.dtype));
  }
  return s;
}

Result<std::vector<Made>> plan(const Checkpoint& checkpoint, const Shape& shape) {
  std::vector<Made> out;
  for (const auto& [name, t] : checkpoint.tensors()) SLIP_TRY_(plan_one(t, shape, out));
  return out;
}

Status write_tensors(const std::vector<Made>& all, const fs::path& file, const GrowOptions& o,
                     const std::function<void(int64_t)>& wrote) {
  std::vector<TensorPlan> plans;
  plans.reserve(all.size());
  for (const Made& m : all) plans.push_back(m.plan);
  SLIP_TRY(TensorFileWriter writer, TensorFileWriter::create(file, std::move(plans)));
  for (size_t i = 0; i < all.size(); ++i) {
    SLIP_TRY_(o.cancel.check("growing", static_cast<int64_t>(i), "tensors"));
    SLIP_TRY_(write_one({writer, o.cancel, wrote}, i, all[i]));
  }
  return writer.commit();
}

json::object grown_config(json::object config, const Shape& shape, const std::string& from) {
  json::value* nested = config.if_contains("text_config");
  json::object& text = nested && nested->is_object() ? nested->get_object() : config;
  const DecoderOptions& d = shape.was;
  const GrowOptions& by = shape.by;
  text["hidden_size"] = d.width * by.times;
  text["intermediate_size"] = d.mlp_width * by.times * by.mlp;
  text["num_hidden_layers"] = d.layers * by.layers;
  text["num_attention_heads"] = d.heads * by.times;
  text["num_key_value_heads"] = d.kv_heads * by.times;
  if (json::value* types = text.if_contains("layer_types"); types && types->is_array()) {
    const json::array once = types->get_array();
    for (int i = 1; i < by.layers; ++i) types->get_array().insert(types->get_array().end(), once.begin(), once.end());
  }
  if (json::value* vision = config.if_contains("vision_config"); vision && vision->is_object())
    vision->get_object()["out_hidden_size"] = d.width * by.times;
  const std::string note =
      fmt::format("A measuring shape: {}, grown by zeros. In the same type its answers are that model's.", from);
  if (json::value* own = config.if_contains("slipstream"); own && own->is_object()) {
    own->get_object()["note"] = note;
    own->get_object().erase("weights");  // chosen for the small one's accuracy and time
  }
  config["grown"] = json::object{{"from", from}, {"times", by.times}, {"mlp", by.mlp}, {"layers", by.layers}, {"note", note}};
  return config;
}

/// Calibration is the model's, costs are another's: they are estimated by what a pass reads.
Status write_calibration(const fs::path& from, const fs::path& to, double ratio) {
  std::error_code none;
  if (!fs::exists(from, none)) return {};
  SLIP_TRY(json::value v, read_json(from));
  if (!v.is_object()) return {};
  json::object& o = v.get_object();
  for (const char* key : {"pass", "draft"})
    if (json::value* costs = o.if_contains(key); costs && costs->is_object())
      if (json::value* us = costs->get_object().if_contains("microseconds"); us && us->is_array())
        for (json::value& x : us->get_array())
          if (x.is_number()) x = static_cast<int64_t>(std::llround(x.to_number<double>() * ratio));
  o["machine"] = fmt::format("estimated: the costs of the model before, times {:.2f}", ratio);
  return write_file(to, pretty(v));
}

/// Hashes that hold for these bits as they did for the model's before: f32, bf16 and int8 where no sum is cut otherwise.
Status write_golden(const fs::path& from, const fs::path& to, const Grown& grown) {
  std::error_code none;
  if (!fs::exists(from, none)) return {};
  SLIP_TRY(json::value v, read_json(from));
  if (!v.is_object()) return {};
  json::object& o = v.get_object();
  if (!grown.same_bits_avx512)
    for (const char* wide : {"avx512", "amx"}) o.erase(wide);
  if (!grown.same_bits_avx2) o.clear();
  for (auto& isa : o)
    if (isa.value().is_object()) isa.value().get_object().erase("int4");
  return o.empty() ? Status{} : write_file(to, pretty(v));
}

Status write_rest(const fs::path& model, const fs::path& to, const json::object& config, const Grown& grown, const Shape& shape) {
  SLIP_TRY_(write_file(to / "config.json", pretty(config)));
  std::error_code ec;
  for (const fs::directory_entry& entry : fs::directory_iterator(model, ec)) {
    const std::string name = entry.path().filename().string();
    std::error_code failed;
    const bool text = name.ends_with(".json") || name.ends_with(".jinja") || name == "merges.txt" || name == "tokenizer.model";
    const bool own = name == "config.json" || name == "width.json" || name == "text.width.json" || name == "golden.json" ||
                     name == "trainer.json" || name.ends_with(".index.json");
    if (!text || own || name.starts_with('.') || !entry.is_regular_file(failed)) continue;
    fs::copy_file(entry.path(), to / name, failed);
    if (failed) return bad_input("{}: expected a file that can be copied, got: {}", entry.path().string(), failed.message());
  }
  if (ec) return bad_input("{}: expected a readable folder, got: {}", model.string(), ec.message());
  const double ratio = static_cast<double>(grown.parameters) / static_cast<double>(std::max<int64_t>(1, grown.parameters_before));
  for (const char* name : {"width.json", "text.width.json"}) SLIP_TRY_(write_calibration(model / name, to / name, ratio));
  SLIP_TRY_(write_golden(model / "golden.json", to / "golden.json", grown));
  return write_file(
      to / "README.md",
      fmt::format("# A measuring shape\n\n`{}` grown by zeros: {:.1f} million parameters in place of {:.1f}, hidden size {}, {} "
                  "layers. It answers "
                  "as that model does and knows nothing more; made by `slipstream grow` to measure time with real acceptance.\n",
                  model.filename().string(), static_cast<double>(grown.parameters) * 1e-6,
                  static_cast<double>(grown.parameters_before) * 1e-6, shape.was.width * shape.by.times,
                  shape.was.layers * shape.by.layers));
}

Status check(const GrowOptions& o, const ModelConfig& config, const fs::path& model) {
  if (o.times != 1 && o.times != 4 && o.times != 16 && o.times != 64)
    return usage_error("grow: --times: expected 1, 4, 16 or 64 (others would round), got {}", o.times);
  for (const auto& [what, n] : {std::pair{"--mlp", o.mlp}, std::pair{"--layers", o.layers}})
    if (n < 1 || n > 64) return usage_error("grow: {}: expected 1 to 64, got {}", what, n);
  if (o.times == 1 && o.mlp == 1 && o.layers == 1) return usage_error("grow: expected something to grow, got factors of 1 alone");
  if (config.action || config.history || config.vit_tower)
    return unsupported("{}: grow: expected a text model or one with Qwen2.5-VL's tower, got {}", model.string(),
                       config.architecture);
  const DecoderOptions& d = config.decoder;
  constexpr int64_t kMost = 1 << 20;
  if (int64_t{d.width} * o.times > kMost || int64_t{d.mlp_width} * o.times * o.mlp > kMost || int64_t{d.layers} * o.layers > 4096)
    return bad_input("{}: grow: expected at most {} numbers in a row and 4096 layers, got {}, {} and {}", model.string(), kMost,
                     int64_t{d.width} * o.times, int64_t{d.mlp_width} * o.times * o.mlp, int64_t{d.layers} * o.layers);
  return {};
}

/// The new folder reads as the shape that was meant.
Status check_made(const fs::path& folder, const Shape& shape) {
  SLIP_TRY(const ModelConfig made, load_config(folder, nullptr));
  const DecoderOptions &a = made.decoder, &b = shape.was;
  const GrowOptions& by = shape.by;
  if (a.width == b.width * by.times && a.heads == b.heads * by.times && a.kv_heads == b.kv_heads * by.times &&
      a.head_width == b.head_width && a.mlp_width == b.mlp_width * by.times * by.mlp && a.layers == b.layers * by.layers)
    return {};
  return unsupported("grow: expected a config.json that says its shape by the usual keys, got one that is read as {} x {} layers",
                     a.width, a.layers);
}

}  // namespace

Result<Grown> grow(const fs::path& model, const fs::path& out, const GrowOptions& options,
                   const std::function<void(int64_t, int64_t)>& progress) {
  SLIP_TRY_(check_outside(model, out, "grow"));
  SLIP_TRY(const ModelConfig config, load_config(model, nullptr));
  SLIP_TRY(const std::optional<PackedFolder> packed, read_packed_folder(model));
  if (packed) return bad_input("{}: expected a folder with weights as released, got a packed one", model.string());
  SLIP_TRY_(check(options, config, model));
  SLIP_TRY(const json::value stored, read_json(model / "config.json"));
  SLIP_TRY(const Checkpoint checkpoint, Checkpoint::open_folder(model));
  // What does not load does not grow either: every tensor must be there in its shape.
  ThreadPool pool(1);
  if (const auto loads = estimate_memory(checkpoint, config, WeightType::kBF16, 1, pool); !loads) return loads.error();
  const Shape shape{config.decoder, options};
  SLIP_TRY(const std::vector<Made> tensors, plan(checkpoint, shape));
  std::error_code none;
  std::optional<Checkpoint> adapter;
  std::vector<Made> adapter_tensors;
  if (fs::exists(model / kAdapter / "adapter_model.safetensors", none)) {
    SLIP_TRY(adapter, Checkpoint::open_file(model / kAdapter / "adapter_model.safetensors"));
    SLIP_TRY(adapter_tensors, plan(*adapter, shape));
  }
  const Sizes sizes = sizes_of(tensors), of_adapter = sizes_of(adapter_tensors);
  Grown grown{
      .parameters = sizes.parameters, .bytes = sizes.bytes + of_adapter.bytes, .tensors = static_cast<int64_t>(tensors.size())};
  for (const auto& [name, t] : checkpoint.tensors()) grown.parameters_before += t.elements();
  grown.same_bits_avx2 = options.times == 1 || config.decoder.width % 32 == 0;
  grown.same_bits_avx512 = options.times == 1 || config.decoder.width % 64 == 0;
  constexpr int64_t kSmallFiles = int64_t{64} << 20;
  SLIP_TRY(AtomicFolder folder, AtomicFolder::create(out, grown.bytes + kSmallFiles));
  int64_t done = 0;
  const auto wrote = [&](int64_t bytes) {
    done += bytes;
    if (progress) progress(done, grown.bytes);
  };
  SLIP_TRY_(write_tensors(tensors, folder.path() / "model.safetensors", options, wrote));
  if (adapter) {
    fs::create_directories(folder.path() / kAdapter, none);
    fs::copy_file(model / kAdapter / "adapter_config.json", folder.path() / kAdapter / "adapter_config.json", none);
    if (none) return bad_input("{}: expected an adapter_config.json, got: {}", (model / kAdapter).string(), none.message());
    SLIP_TRY_(write_tensors(adapter_tensors, folder.path() / kAdapter / "adapter_model.safetensors", options, wrote));
  }
  SLIP_TRY_(write_rest(model, folder.path(), grown_config(stored.get_object(), shape, model.filename().string()), grown, shape));
  SLIP_TRY_(check_made(folder.path(), shape));
  for (const fs::directory_entry& entry : fs::directory_iterator(model, none)) {
    const std::string name = entry.path().filename().string();
    const bool head =
        entry.is_directory(none) ? fs::exists(entry.path() / "config.json", none) && name != kAdapter : name.ends_with(".bin");
    if (head) grown.left_behind.push_back(name);
  }
  std::sort(grown.left_behind.begin(), grown.left_behind.end());
  SLIP_TRY_(folder.commit());
  return grown;
}

}  // namespace slip
