// SPDX-License-Identifier: Apache-2.0
// See case.h. Tests: tests/cli/limits_test.cc
#include "api/tools/limits/case.h"

#include "engine/conversation.h"
#include "engine/engine.h"
#include "engine/resources.h"
#include "models/adapter.h"
#include "models/config/openvla.h"
#include "models/draft/dflash.h"
#include "models/vision/image_rules.h"
#include "models/weights/packed_folder.h"
#include "models/weights/weight_reader.h"
#include "task/wod.h"

namespace slip::api {

namespace {

namespace fs = std::filesystem;

constexpr int32_t kUsualText = 512;  // rows of a prompt's text where the folder does not tell it
/// Fast-dDrive's budget: 960 patches and 240 feature rows a picture.
constexpr int32_t kUsualWidth = 560, kUsualHeight = 336;

Status place(const std::string& asked, LimitsCase& out) {
  std::error_code ec;
  const fs::path path(asked);
  const bool file = fs::is_regular_file(path, ec);
  if (fs::is_directory(path, ec) || (!file && path.extension() != ".json")) {
    out.folder = path;
    return {};
  }
  if (file && path.extension() != ".json")
    return bad_input("{}: expected a model folder or a config.json, got another file", asked);
  out.folder = path.has_parent_path() ? path.parent_path() : fs::path(".");
  out.lone = path.filename() != "config.json";
  return {};
}

Status read_config(const fs::path& file, LimitsCase& out, json::object& raw) {
  const std::string where = file.string();
  SLIP_TRY(json::value value, read_json(file, size_t{16} << 20));
  if (!value.is_object()) return bad_input("{}: expected an object, got another type", where);
  raw = std::move(value.get_object());
  SLIP_TRY(out.task, task_options(raw, where));
  if (!out.lone) {
    auto tokenizer = load_tokenizer(out.folder);
    if (!tokenizer) return tokenizer.error();
    if (*tokenizer) out.tokenizer = std::make_shared<const Tokenizer>(std::move(**tokenizer));
    SLIP_TRY(out.config, load_config(out.folder, out.tokenizer.get()));
  } else {
    SLIP_TRY(out.config, parse_model_config(raw, where));
  }
  return {};
}

Status read_type(const std::string& dtype, LimitsCase& out) {
  SLIP_TRY(WeightType type, weight_type(dtype, out.config.stored_dtype));
  const auto meant = weight_type_named(out.task.weights);
  if (dtype == "auto" && out.lone && meant) type = *meant;
  if (dtype == "auto" && !out.lone) {
    SLIP_TRY(type, natural_type(out.folder, out.config.stored_dtype, meant));
  }
  out.type = word_of_type(type);
  out.head_type = word_of_type(head_type(type));
  out.tower_type = word_of_type(vision_type(type));
  return {};
}

Result<CompiledForm> compile_own(const LimitsCase& c) {
  const FormTokens tokens{.tokenizer = c.tokenizer.get(),
                          .null_token = c.info.rule.has_null ? std::optional(c.info.rule.null_token) : std::nullopt,
                          .vocab = c.info.vocab,
                          .positions = c.config.max_positions,
                          .graph = c.task.visibility == Visibility::kGraph};
  if (c.config.action) {
    SLIP_TRY(const json::value schema, own_action_schema(*c.config.action, *c.tokenizer, ""));
    return compile_schema(schema, std::string_view(schema.at("title").as_string()), tokens);
  }
  SLIP_TRY(const CodebookPtr codebook, load_codebook(c.task, c.folder));
  return task_form(c.task, tokens, codebook);
}

/// The form that the model was trained for. Where it cannot be laid out, free text stands for it and a note says so.
void read_form(bool own_task, LimitsCase& out) {
  if (!own_task && !out.config.action) return;
  const std::string name(out.config.action ? "of actions" : words(out.task.form));
  if (!out.tokenizer) {
    out.notes.push_back(
        fmt::format("form {}: expected tokenizer.json beside config.json, got none: free text stands for it", name));
    return;
  }
  auto form = compile_own(out);
  if (form)
    out.form = std::move(*form);
  else
    out.notes.push_back(fmt::format("form {}: {}: free text stands for it", name, form.error().message));
}

Result<HeadCase> read_head(const LimitsCase& c, const fs::path& folder) {
  const fs::path file = folder / "config.json";
  SLIP_TRY(const json::value value, read_json(file, size_t{16} << 20));
  if (!value.is_object()) return bad_input("{}: expected an object, got another type", file.string());
  json::object raw = value.get_object();
  SLIP_TRY(const json::object* inner, get_object(raw, "dflash_config", file.string()));
  const Keys top{raw, file.string()}, dflash{*inner, file.string() + ": dflash_config"};
  HeadCase out{.folder = folder.string(), .shape = {}};
  SLIP_TRY(out.block, (dflash.has("block_size") ? dflash : top).integer("block_size", 16, 2, 4096));
  SLIP_TRY(out.image_context, dflash.flag("image_context", !c.config.vision));
  json::object qwen3 = raw;  // its layers are Qwen3's, whatever the file calls them
  qwen3["architectures"] = json::array{"Qwen3ForCausalLM"};
  qwen3["model_type"] = "qwen3";
  SLIP_TRY(const ModelConfig parsed, parse_model_config(qwen3, file.string()));
  out.shape.decoder = decoder_shape_of(parsed.decoder);
  size_t taps = static_cast<size_t>(parsed.decoder.layers);
  if (dflash.has("target_layer_ids")) {
    SLIP_TRY(const json::array* ids, get_array(*inner, "target_layer_ids", dflash.where));
    taps = ids->size();
  }
  out.shape.taps = static_cast<int64_t>(taps) * c.shape.hidden;
  std::error_code ec;
  if (!fs::exists(folder / "draft_vocab.json", ec)) return out;
  SLIP_TRY(const json::value ids, read_json(folder / "draft_vocab.json"));
  if (ids.is_array() && !ids.get_array().empty()) out.shape.decoder.vocab = static_cast<int64_t>(ids.get_array().size());
  return out;
}

void read_companions(LimitsCase& out) {
  std::error_code ec;
  if (out.lone) return;
  if (fs::is_directory(out.folder / kDraftAdapterFolder, ec)) {
    out.adapter = (out.folder / kDraftAdapterFolder).string();
    out.info.has_draft_adapter = true;
  }
  if (!fs::exists(out.folder / "dflash" / "config.json", ec)) return;
  auto head = read_head(out, out.folder / "dflash");
  if (head)
    out.head = std::move(*head);
  else
    out.notes.push_back(fmt::format("dflash: {}", head.error().message));
}

// ---- pictures and the prompt

/// A picture of this size to the tower: the folder's own rules, or what the configuration alone says.
Status lay_picture(const LimitsCase& c, PictureCase& p) {
  std::optional<ImageRules> rules;
  if (!c.lone) {
    SLIP_TRY(rules, ImageRules::load(c.folder, c.config));
  }
  if (c.config.vision) {
    const PreprocessorConfig usual{.patch_size = c.config.vision->patch, .merge_size = c.config.vision->merge};
    const PreprocessorConfig& how = rules && rules->qwen() ? *rules->qwen() : usual;
    SLIP_TRY(const Size size, smart_resize(p.height, p.width, how.factor(), how.min_pixels, how.max_pixels));
    p.grid = {size.height / how.patch_size, size.width / how.patch_size};
    p.rows = p.grid.patches() / (int64_t{1} * how.merge_size * how.merge_size);
    return {};
  }
  const VitTowerConfig& tower = *c.config.vit_tower;
  const VitConfig& first = tower.vits.front();
  p.grid = {first.grid_rows, first.grid_columns};
  p.rows = int64_t{first.grid_rows / tower.pool} * (first.grid_columns / tower.pool);
  if (!rules || first.interpolation == VitConfig::Interpolation::kNone) {  // pictures of one size
    p.width = first.grid_columns * first.patch;
    p.height = first.grid_rows * first.patch;
    return {};
  }
  SLIP_TRY(p.rows, rules->rows(p.height, p.width));
  const int64_t pool = int64_t{1} * tower.pool * tower.pool, patches = p.rows * pool;
  p.grid = {1, patches};  // attention within a frame asks for their number alone
  return {};
}

Status read_pictures(const slipstream::LimitsOptions& o, bool own_task, LimitsCase& out) {
  const bool tower = out.config.vision || out.config.vit_tower;
  if (!tower) return {};
  out.towers = tower_shapes_of(out.config);
  PictureCase& p = out.pictures;
  p.count = o.images >= 0 ? o.images : own_task && !out.task.cameras ? 0 : out.config.action ? 1 : sim::kCameras;
  p.width = o.image_width > 0 ? o.image_width : own_task ? sim::kImageWidth : kUsualWidth;
  p.height = o.image_height > 0 ? o.image_height : own_task ? sim::kImageHeight : kUsualHeight;
  return p.count > 0 ? lay_picture(out, p) : Status();
}

/// Rows of the task's prompt without its pictures; nothing where the folder does not tell them.
std::optional<int64_t> task_text_rows(const LimitsCase& c) {
  if (!c.tokenizer) return std::nullopt;
  std::string text;
  if (c.config.action) {
    text = openvla_prompt(c.config.action->prompt, "pick up the cup");
  } else {
    const auto chat = ChatTemplate::load(c.folder);
    if (!chat) return std::nullopt;
    const PromptText around = prompt_text(c.task, standing_ego());
    const auto rendered =
        chat->render(own_message(around.before_images + "<image>" + around.after_images, static_cast<size_t>(c.pictures.count), 0));
    if (!rendered) return std::nullopt;
    text = *rendered;
  }
  const auto tokens = prompt_tokens(c.config, *c.tokenizer, text);
  if (!tokens) return std::nullopt;
  const auto places = c.config.image_token ? std::count(tokens->begin(), tokens->end(), *c.config.image_token) : 0;
  return static_cast<int64_t>(tokens->size()) - places + (c.config.history ? 1 : 0);
}

void read_prompt(const slipstream::LimitsOptions& o, bool own_task, LimitsCase& out) {
  if (o.prompt_rows > 0) {
    out.prompt_rows = o.prompt_rows;
    out.prompt_words = "--prompt-rows";
    return;
  }
  const std::optional<int64_t> told = own_task || out.config.action ? task_text_rows(out) : std::nullopt;
  const int64_t text = told.value_or(kUsualText), pictures = out.pictures.count * out.pictures.rows;
  out.prompt_rows = static_cast<int32_t>(std::min<int64_t>(text + pictures, 1 << 20));
  out.prompt_words = fmt::format("{} of {}text, {} of {} pictures", text, told ? "the task's " : "", pictures, out.pictures.count);
}

}  // namespace

DecoderShape decoder_shape_of(const DecoderOptions& o) {
  return {o.width, o.layers, o.heads, o.kv_heads, o.head_width, o.mlp_width, o.vocab};
}

TowerShape tower_shape_of(const VisionConfig& c) {
  const int64_t side = c.window / c.patch, joined = int64_t{c.width} * c.merge * c.merge;
  return {.name = "",
          .depth = c.depth,
          .width = c.width,
          .mlp_width = c.mlp_width,
          .heads = c.heads,
          .patch_numbers = c.patch_numbers(),
          .full_blocks = static_cast<int64_t>(c.full_attention_blocks.size()),
          .window_patches = side * side,
          .merge = c.merge,
          .projector = {joined, joined, c.out_width}};
}

std::vector<TowerShape> tower_shapes_of(const ModelConfig& config) {
  std::vector<TowerShape> out;
  if (config.vision) out.push_back(tower_shape_of(*config.vision));
  if (!config.vit_tower) return out;
  const VitTowerConfig& tower = *config.vit_tower;
  for (const VitConfig& v : tower.vits)
    out.push_back({.name = tower.vits.size() > 1 ? fmt::format("ViT {}: ", out.size() + 1) : "",
                   .depth = v.used_depth,
                   .width = v.width,
                   .mlp_width = v.mlp_width,
                   .heads = v.heads,
                   .patch_numbers = v.patch_numbers(),
                   .full_blocks = v.used_depth,
                   .prefix_rows = v.prefix_rows(),
                   .gated = v.swiglu,
                   .merge = tower.pool,
                   .projector = {}});
  if (out.empty()) return out;
  for (const auto& layer : tower.projector) {
    if (out.back().projector.empty()) out.back().projector.push_back(layer.in);
    out.back().projector.push_back(layer.out);
  }
  return out;
}

Result<LimitsCase> LimitsCase::load(const std::string& asked, const slipstream::LimitsOptions& o) {
  LimitsCase out;
  SLIP_TRY_(place(asked, out));
  std::error_code ec;
  const fs::path file = out.lone ? fs::path(asked) : out.folder / "config.json";
  json::object raw;
  SLIP_TRY_(read_config(file, out, raw));
  SLIP_TRY_(read_type(o.dtype, out));
  const bool own_task = raw.contains("slipstream");
  out.shape = decoder_shape_of(out.config.decoder);
  out.info = info_of(out.config.decoder, kDefaultSlots);
  read_form(own_task, out);
  read_companions(out);
  SLIP_TRY_(read_pictures(o, own_task, out));
  read_prompt(o, own_task, out);
  return out;
}

Status LimitsCase::need_weights(std::string_view what) const {
  const auto checkpoint = lone ? Result<Checkpoint>(bad_input("no folder")) : Checkpoint::open_folder(folder);
  if (checkpoint) return {};
  std::error_code ec;
  const bool shards =
      !lone && (fs::exists(folder / "model.safetensors", ec) || fs::exists(folder / "model.safetensors.index.json", ec));
  if (shards) return checkpoint.error();
  return bad_input("{}: expected weights beside config.json (model.safetensors), got none in {}; predictions alone need none", what,
                   folder.string());
}

}  // namespace slip::api
