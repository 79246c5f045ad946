// SPDX-License-Identifier: Apache-2.0
// See prismatic.h.
#include "convert/prismatic.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <map>
#include <optional>

#include "base/json.h"
#include "convert/folder_writer.h"
#include "core/torch_zip.h"
#include "models/config/config.h"
#include "models/config/config_reader.h"
#include "text/tokenizer.h"

namespace slip {
namespace {

namespace fs = std::filesystem;
using Tensors = std::map<std::string, TensorView>;

constexpr int32_t kExtraTokens = 256;

// ---- finding the files ----

struct Source {
  fs::path checkpoint, folder;  // the run's folder: config.json, dataset_statistics.json
  json::object config;
};

Result<fs::path> newest_step(const fs::path& folder) {
  std::error_code ec;
  fs::path best;
  for (const auto& e : fs::directory_iterator(folder / "checkpoints", ec)) {
    const std::string name = e.path().filename().string();
    if (e.path().extension() == ".pt" && name.starts_with("step-") && name > best.filename().string()) best = e.path();
  }
  if (best.empty()) return bad_input("{}: expected checkpoints/step-*.pt, got none", folder.string());
  return best;
}

Result<Source> find_source(const fs::path& path) {
  Source s;
  std::error_code ec;
  if (!fs::exists(path, ec)) return bad_input("{}: expected a .pt file or a run's folder, got nothing there", path.string());
  if (fs::is_directory(path, ec)) {
    s.folder = path;
    SLIP_TRY(s.checkpoint, newest_step(path));
  } else {
    s.checkpoint = path;
    s.folder = fs::absolute(path, ec).parent_path();
    if (s.folder.filename() == "checkpoints") s.folder = s.folder.parent_path();
  }
  const fs::path config = s.folder / "config.json";
  if (!fs::exists(config, ec)) return bad_input("{}: expected the run's config.json, got none", s.folder.string());
  SLIP_TRY(const json::value value, read_json(config, size_t{16} << 20));
  if (!value.is_object()) return bad_input("{}: expected a JSON object, got {}", config.string(), cut(value));
  s.config = value.get_object();
  return s;
}

// ---- names ----

bool replace_front(std::string& s, std::string_view from, std::string_view to) {
  if (!s.starts_with(from)) return false;
  s.replace(0, from.size(), to);
  return true;
}

// The name in OpenVLA's layout; nothing for what is no weight.
std::optional<std::string> new_name(const std::vector<std::string>& path) {
  if (path.size() != 3 || path[0] != "model") return std::nullopt;
  std::string name = path[2];
  if (path[1] == "vision_backbone") {
    if (!replace_front(name, "dino_featurizer.", "vision_backbone.featurizer.") &&
        !replace_front(name, "siglip_featurizer.", "vision_backbone.fused_featurizer.") &&
        !replace_front(name, "featurizer.", "vision_backbone.featurizer."))
      return std::nullopt;
    if (name.ends_with(".gamma")) name.replace(name.size() - 5, 5, "scale_factor");
    return name;
  }
  if (path[1] == "projector") {
    for (const auto& [from, to] :
         {std::pair{"projector.0.", "projector.fc1."}, {"projector.2.", "projector.fc2."}, {"projector.4.", "projector.fc3."}})
      if (replace_front(name, from, to)) return name;
    return std::nullopt;
  }
  if (path[1] == "llm_backbone" && replace_front(name, "llm.", "language_model.") && !name.ends_with("rotary_emb.inv_freq"))
    return name;
  return std::nullopt;
}

// ---- sizes ----

struct Shapes {
  const Tensors& tensors;
  const std::string where;
  Result<std::vector<int64_t>> of(const std::string& name, size_t rank) const {
    const auto at = tensors.find(name);
    if (at == tensors.end()) return bad_input("{}: expected a tensor that becomes {}, got none", where, name);
    if (at->second.shape.size() != rank ||
        std::any_of(at->second.shape.begin(), at->second.shape.end(), [](int64_t n) { return n < 1 || n > (1 << 24); }))
      return bad_input("{}: tensor {}: expected {} sizes of at least 1, got others", where, name, rank);
    return at->second.shape;
  }
  // Numbers behind `front`, from 0 on.
  int64_t count(const std::string& front, const std::string& back) const {
    int64_t n = 0;
    while (tensors.contains(front + std::to_string(n) + back)) ++n;
    return n;
  }
};

// Heads of the published towers, by width [timm]; -1: not known.
int64_t tower_heads(int64_t width) {
  for (const auto& [w, heads] : {std::pair<int64_t, int64_t>{384, 6}, {768, 12}, {1024, 16}, {1152, 16}})
    if (w == width) return heads;
  return -1;
}

Result<json::object> tower_args(const Shapes& s, const std::string& prefix, const json::object* given) {
  SLIP_TRY(const auto patch, s.of(prefix + "patch_embed.proj.weight", 4));
  SLIP_TRY(const auto positions, s.of(prefix + "pos_embed", 3));
  SLIP_TRY(const auto fc1, s.of(prefix + "blocks.0.mlp.fc1.weight", 2));
  const bool cls = s.tensors.contains(prefix + "cls_token");
  int64_t registers = 0;
  if (s.tensors.contains(prefix + "reg_token")) {
    SLIP_TRY(const auto r, s.of(prefix + "reg_token", 3));
    registers = r[1];
  }
  const bool patches_only = !cls || registers > 0;
  const int64_t patches = positions[1] - (patches_only ? 0 : 1);
  const auto side = static_cast<int64_t>(std::lround(std::sqrt(static_cast<double>(patches))));
  if (side * side != patches || patch[2] != patch[3])
    return bad_input("{}: {}pos_embed: expected a square of patches, got {}", s.where, prefix, patches);
  const int64_t width = patch[0];
  json::object args{{"depth", s.count(prefix + "blocks.", ".norm1.weight")},
                    {"embed_dim", width},
                    {"num_heads", tower_heads(width)},
                    // A quotient that times the width gives the hidden width again when cut down.
                    {"mlp_ratio", (static_cast<double>(fc1[0]) + 0.25) / static_cast<double>(width)},
                    {"patch_size", patch[2]},
                    {"img_size", side * patch[2]},
                    {"class_token", cls},
                    {"reg_tokens", registers},
                    {"no_embed_class", patches_only}};
  if (s.tensors.contains(prefix + "blocks.0.ls1.scale_factor")) args["init_values"] = 1e-5;
  for (const auto& member : given ? *given : json::object()) args[member.key()] = member.value();
  if (args.at("num_heads") == json::value(-1))
    return bad_input(
        "{}: expected timm_model_args with num_heads in config.json, since the width {} is of no published tower, got none",
        s.where, width);
  return args;
}

// Head widths of the published text models, by width.
int64_t head_width(int64_t width, bool qwen) {
  if (qwen && width == 896) return 64;
  for (const int64_t w : {1536, 2048, 3584, 4096, 5120})
    if (w == width) return 128;
  return -1;
}

Result<json::object> text_config(const Shapes& s, const json::object* given) {
  const std::string p = "language_model.model.", layer = p + "layers.0.";
  SLIP_TRY(const auto embed, s.of(p + "embed_tokens.weight", 2));
  SLIP_TRY(const auto q, s.of(layer + "self_attn.q_proj.weight", 2));
  SLIP_TRY(const auto k, s.of(layer + "self_attn.k_proj.weight", 2));
  SLIP_TRY(const auto gate, s.of(layer + "mlp.gate_proj.weight", 2));
  const bool qwen = s.tensors.contains(layer + "self_attn.q_proj.bias");
  const int64_t head = head_width(embed[1], qwen);
  json::object o{{"model_type", qwen ? "qwen2" : "llama"},
                 {"vocab_size", embed[0]},
                 {"hidden_size", embed[1]},
                 {"intermediate_size", gate[0]},
                 {"num_hidden_layers", s.count(p + "layers.", ".input_layernorm.weight")},
                 {"rope_theta", qwen ? 1e6 : 1e4},
                 // Native runs use the text model's own configuration, not the class's defaults
                 // [docs/notes/checkpoints.md#minivla].
                 {"rms_norm_eps", qwen ? 1e-6 : 1e-5},
                 {"max_position_embeddings", qwen ? 32768 : 4096},
                 {"tie_word_embeddings", !s.tensors.contains("language_model.lm_head.weight")}};
  if (head > 0) {
    o["num_attention_heads"] = q[0] / head;
    o["num_key_value_heads"] = k[0] / head;
  }
  for (const auto& member : given ? *given : json::object()) o[member.key()] = member.value();
  if (!o.contains("num_attention_heads"))
    return bad_input(
        "{}: expected text_config with num_attention_heads in config.json, since the width {} is of no published model, got none",
        s.where, embed[1]);
  return o;
}

// ---- the folder ----

std::string text_at(const json::object& o, std::string_view key) {
  const json::value* v = o.if_contains(key);
  return v && v->is_string() ? std::string(v->get_string()) : std::string();
}
const json::object* object_at(const json::object& o, std::string_view key) {
  const json::value* v = o.if_contains(key);
  return v ? v->if_object() : nullptr;
}

// Which ids are actions: MiniVLA's 256 extra tokens behind the tokenizer's own, or the last 256 of the base vocabulary. The action
// tokenizer's name says which; only runs without one are judged by the name of the model below. The other published names
// (libero_vq_extra_action_tokenizer, bridge_vq_extra_...) decode ids through a learned codebook.
Result<bool> extra_tokens(const json::object& config, const std::string& where) {
  const json::object* vla = object_at(config, "vla");
  const json::value* name = vla ? vla->if_contains("action_tokenizer") : nullptr;
  if (!name || name->is_null())
    return text_at(vla ? *vla : config, vla ? "base_vlm" : "llm_backbone_id").find("extra") != std::string::npos;
  if (*name == json::value("extra_action_tokenizer")) return true;
  if (*name == json::value("action_tokenizer")) return false;
  return unsupported("{}: vla: action_tokenizer: expected action_tokenizer or extra_action_tokenizer, got {}", where, cut(*name));
}

// Ids of the vocabulary without its added tokens, as the native action tokenizer counts them (`vocab_size` of the library's
// tokenizers): 32000 of Llama 2 with a padding token behind, 151643 of Qwen2.5 with its special tokens.
Result<int32_t> base_vocabulary(const json::value& tokenizer, const std::string& where) {
  const json::object* root = tokenizer.if_object();
  const json::object* model = root ? object_at(*root, "model") : nullptr;
  const json::object* vocab = model ? object_at(*model, "vocab") : nullptr;
  if (!vocab) return bad_input("{}: expected model.vocab, got none", where);
  return static_cast<int32_t>(vocab->size());
}

// tokenizer.json with <|extra_0|> .. <|extra_255|> behind its ids, unless they are there.
Status write_tokenizer(const fs::path& from, const fs::path& to, bool extra, int32_t vocab, int32_t& bound) {
  SLIP_TRY(const Tokenizer tokenizer, Tokenizer::load(from));
  std::error_code ec;
  for (const char* name : {"vocab.json", "merges.txt", "tokenizer_config.json", "added_tokens.json"}) {
    if (!fs::exists(from / name, ec)) continue;
    SLIP_TRY(const std::string bytes, read_file(from / name));
    SLIP_TRY_(write_file(to / name, bytes));
  }
  const fs::path file = from / "tokenizer.json";
  if (!fs::exists(file, ec)) return bad_input("{}: expected tokenizer.json, got none", from.string());
  SLIP_TRY(json::value value, read_json(file));
  if (!extra) {
    SLIP_TRY(bound, base_vocabulary(value, file.string()));
  } else if (const auto last = tokenizer.find(fmt::format("<|extra_{}|>", kExtraTokens - 1))) {
    bound = last->value + 1;
  } else {
    json::object* object = value.if_object();
    json::value* added = object ? object->if_contains("added_tokens") : nullptr;
    if (!added || !added->is_array()) return bad_input("{}: expected added_tokens, got none", file.string());
    for (int32_t i = 0; i < kExtraTokens; ++i)
      added->get_array().push_back(json::object{{"id", tokenizer.size() + i},
                                                {"content", fmt::format("<|extra_{}|>", i)},
                                                {"single_word", false},
                                                {"lstrip", false},
                                                {"rstrip", false},
                                                {"normalized", false},
                                                {"special", true}});
    bound = tokenizer.size() + kExtraTokens;
  }
  if (bound > vocab)
    return bad_input("{}: expected at most {} ids as the checkpoint has rows, got {}", from.string(), vocab, bound);
  return write_file(to / "tokenizer.json", json::serialize(value));
}

// Without a tokenizer: the published vocabularies.
Result<int32_t> known_bound(int32_t vocab, bool extra) {
  if (vocab == 151936) return extra ? 151921 : 151643;  // 151665 ids of Qwen2.5 and 256 extra ones; or its base vocabulary
  if (vocab == 32064) return 32000;                     // Llama 2's 32000, a padding token, padded to 64
  return bad_input("convert: expected --tokenizer, since {} rows are of no published vocabulary, got none", vocab);
}

json::object preprocessor(int64_t side, size_t towers, const std::string& strategy) {
  const json::object dino{{"mean", {0.485, 0.456, 0.406}}, {"std", {0.229, 0.224, 0.225}}};
  const json::object siglip{{"mean", {0.5, 0.5, 0.5}}, {"std", {0.5, 0.5, 0.5}}};
  const json::array square{side, side};
  json::array resize, crop, normalize;
  normalize.push_back(dino);
  for (size_t i = 0; i < towers; ++i) {
    const bool naive = strategy == "resize-naive";
    json::object one{{"interpolation", 3}, {"antialias", true}};
    one["size"] = naive ? json::value(square) : json::value(side);
    resize.push_back(std::move(one));
    crop.push_back(json::object{{"output_size", square}});
  }
  if (towers == 2) normalize.push_back(siglip);
  json::object o{{"image_processor_type", "PrismaticImageProcessor"},
                 {"image_resize_strategy", strategy},
                 {"tvf_resize_params", resize},
                 {"tvf_crop_params", crop},
                 {"tvf_normalize_params", normalize},
                 {"tvf_do_letterbox", strategy == "letterbox"}};
  if (strategy == "letterbox") o["tvf_letterbox_fill"] = {123, 116, 103};  // int(mean * 255)
  return o;
}

struct Folder {
  Source source;
  Tensors tensors;
  json::object config;
  int64_t left_out = 0;
};

Status collect(const TorchFile& file, Folder& f) {
  for (const TorchFile::Entry& e : file.tensors()) {
    const auto name = e.path.empty() || e.path[0] != "model" ? std::nullopt : new_name(e.path);
    const DType t = e.view.dtype;
    if (!name || (t != DType::kF32 && t != DType::kBF16 && t != DType::kF16 && t != DType::kF64)) {
      ++f.left_out;
      continue;
    }
    TensorView view = e.view;
    view.name = *name;
    if (!f.tensors.emplace(*name, std::move(view)).second)
      return bad_input("{}: expected one tensor that becomes {}, got two", f.source.checkpoint.string(), *name);
  }
  if (f.tensors.empty())
    return bad_input("{}: expected {{\"model\": {{\"vision_backbone\", \"projector\", \"llm_backbone\"}}}}, got none of them",
                     f.source.checkpoint.string());
  const auto head = f.tensors.find("language_model.lm_head.weight"),
             embed = f.tensors.find("language_model.model.embed_tokens.weight");
  if (head != f.tensors.end() && embed != f.tensors.end() && head->second.dtype == embed->second.dtype &&
      head->second.shape == embed->second.shape &&
      std::memcmp(head->second.bytes.data(), embed->second.bytes.data(), head->second.bytes.size()) == 0) {
    f.tensors.erase(head);  // tied
    ++f.left_out;
  }
  return {};
}

std::string stored_type(const Tensors& tensors) {
  const DType t = tensors.begin()->second.dtype;
  return t == DType::kF32 ? "float32" : t == DType::kF16 ? "float16" : t == DType::kF64 ? "float64" : "bfloat16";
}

Status make_config(Folder& f, const std::string& where) {
  const Shapes shapes{f.tensors, where};
  const json::object& given = f.source.config;
  const bool fused = f.tensors.contains("vision_backbone.fused_featurizer.pos_embed");
  const json::value* args = given.if_contains("timm_model_args");
  const json::array* list = args ? args->if_array() : nullptr;
  json::array towers, ids, sizes;
  for (size_t i = 0; i < (fused ? 2u : 1u); ++i) {
    const json::object* own = list && i < list->size() ? (*list)[i].if_object() : nullptr;
    SLIP_TRY(json::object t, tower_args(shapes, i == 0 ? "vision_backbone.featurizer." : "vision_backbone.fused_featurizer.", own));
    const bool cls = t.at("class_token") == json::value(true);
    ids.push_back(cls ? "vit_large_patch14_reg4_dinov2.lvd142m" : "vit_so400m_patch14_siglip_224");
    sizes.push_back(t.at("img_size"));
    towers.push_back(std::move(t));
  }
  SLIP_TRY(json::object text, text_config(shapes, object_at(given, "text_config")));
  const std::string strategy = text_at(given, "image_resize_strategy");
  f.config = {{"architectures", {"OpenVLAForActionPrediction"}},
              {"model_type", "openvla"},
              {"torch_dtype", stored_type(f.tensors)},
              {"use_fused_vision_backbone", fused},
              {"image_resize_strategy", strategy.empty() ? "resize-naive" : strategy},
              {"image_sizes", sizes},
              {"timm_model_ids", ids},
              {"timm_model_args", towers},
              {"n_action_bins", 256},
              {"text_config", text}};
  return {};
}

// Everything but the weights' numbers.
Status write_around(const ConvertOptions& options, const fs::path& to, Folder& f, Converted& done) {
  const auto vocab = static_cast<int32_t>(f.tensors.at("language_model.model.embed_tokens.weight").shape[0]);
  SLIP_TRY(const bool extra, extra_tokens(f.source.config, (f.source.folder / "config.json").string()));
  int32_t bound = 0;
  if (options.tokenizer.empty()) {
    SLIP_TRY(bound, known_bound(vocab, extra));
    done.notes.push_back("no tokenizer was given (--tokenizer): forward works, run needs one");
  } else {
    SLIP_TRY_(write_tokenizer(options.tokenizer, to, extra, vocab, bound));
  }
  f.config["pad_to_multiple_of"] = vocab - bound;  // the published readers' name for what lies beyond the action ids
  // What is written has to be a folder that loads.
  SLIP_TRY(const ModelConfig config, parse_model_config(f.config, done.checkpoint.string() + ": as converted"));
  SLIP_TRY_(write_file(to / "config.json", pretty(f.config)));
  const VitConfig& vit = config.vit_tower->vits[0];
  SLIP_TRY_(write_file(to / "preprocessor_config.json",
                       pretty(preprocessor(int64_t{vit.grid_rows} * vit.patch, config.vit_tower->vits.size(),
                                           text_at(f.config, "image_resize_strategy")))));
  std::error_code ec;
  const fs::path stats = f.source.folder / "dataset_statistics.json";
  if (!fs::exists(stats, ec)) {
    done.notes.push_back("no dataset_statistics.json beside the run's config.json: actions cannot be put in physical units");
    return {};
  }
  SLIP_TRY(const std::string bytes, read_file(stats, size_t{64} << 20));
  return write_file(to / "dataset_statistics.json", bytes);
}

}  // namespace

Result<Converted> convert_prismatic(const ConvertOptions& options, const fs::path& out) {
  Folder f;
  SLIP_TRY(f.source, find_source(options.source));
  SLIP_TRY(const TorchFile file, TorchFile::open(f.source.checkpoint));
  SLIP_TRY_(collect(file, f));
  SLIP_TRY_(make_config(f, f.source.checkpoint.string()));
  Converted done{f.source.checkpoint, static_cast<int64_t>(f.tensors.size()), 0, f.left_out, {}};
  std::vector<TensorToWrite> tensors;
  for (const auto& [name, view] : f.tensors) {
    tensors.push_back({name, view.dtype, view.shape, view.bytes});
    done.bytes += static_cast<int64_t>(view.bytes.size());
  }
  SLIP_TRY(AtomicFolder folder, AtomicFolder::create(out, done.bytes));
  SLIP_TRY_(write_around(options, folder.path(), f, done));
  SLIP_TRY_(write_safetensors(folder.path() / "model.safetensors", tensors));
  SLIP_TRY_(folder.commit());
  return done;
}

}  // namespace slip
