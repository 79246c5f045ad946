// SPDX-License-Identifier: Apache-2.0
// `preprocess`, `forward`, `form`: commands about a model folder that answer no request (`inspect`: inspect_command.cc).
#include <algorithm>

#include "base/progress.h"
#include "cli/commands.h"
#include "cli/output.h"
#include "core/safetensors.h"
#include "engine/engine.h"
#include "form/schema/outline.h"
#include "models/model.h"
#include "models/rows_file.h"
#include "models/vision/image_rules.h"

namespace slip::cli {

namespace {

// Patches of all images as one matrix (Qwen2-VL), or planes: C x H x W of one image, N x C x H x W of several.
Result<std::vector<int64_t>> pixel_shape(const std::vector<PatchGrid>& grids, std::span<const std::string> files) {
  const PatchGrid& first = grids.front();
  int64_t numbers = 0;
  for (size_t i = 0; i < grids.size(); ++i) {
    numbers += static_cast<int64_t>(grids[i].values.size());
    if (first.plane_height > 0 && (grids[i].plane_height != first.plane_height || grids[i].plane_width != first.plane_width))
      return unsupported("{}: expected planes of one size, {} x {}, got {} x {}", files[i], first.plane_width, first.plane_height,
                         grids[i].plane_width, grids[i].plane_height);
  }
  if (first.plane_height == 0) return std::vector<int64_t>{numbers / first.patch_dim, first.patch_dim};
  const int64_t n = static_cast<int64_t>(grids.size()), area = int64_t{first.plane_height} * first.plane_width;
  std::vector<int64_t> shape{numbers / n / area, first.plane_height, first.plane_width};
  if (n > 1) shape.insert(shape.begin(), n);
  return shape;
}

}  // namespace

Status preprocess(const PreprocessOptions& o) {
  SLIP_TRY(const ImageRules rules, ImageRules::need(o.model));
  std::vector<float> pixels;
  std::vector<int64_t> sizes;
  std::vector<PatchGrid> grids;
  json::array shown;
  for (const std::string& file : o.images) {
    SLIP_TRY(const Image image, load_image(file, ImageOptions{.alpha = o.alpha == "white" ? AlphaMode::kWhite : AlphaMode::kDrop}));
    auto grid = rules.apply(image);
    if (!grid) return Error{grid.error().kind, fmt::format("{}: {}", file, grid.error().message)};
    pixels.insert(pixels.end(), grid->values.begin(), grid->values.end());
    sizes.insert(sizes.end(), {grid->t, grid->h, grid->w});
    shown.push_back(json::object{{"image", file},
                                 {"width", image.width},
                                 {"height", image.height},
                                 {"grid_thw", {grid->t, grid->h, grid->w}},
                                 {"tokens", grid->merged()}});
    grids.push_back(std::move(*grid));
  }
  SLIP_TRY(const std::vector<int64_t> shape, pixel_shape(grids, o.images));
  const std::vector<TensorToWrite> tensors{
      {"pixel_values", DType::kF32, shape, std::as_bytes(std::span(pixels))},
      {"grid_thw", DType::kI64, {static_cast<int64_t>(o.images.size()), 3}, std::as_bytes(std::span(sizes))}};
  SLIP_TRY_(write_safetensors(o.out, tensors));
  if (o.json) {
    print_json({{"images", shown}, {"out", o.out}});
  } else {
    for (const json::value& v : shown) print_text(json::serialize(v) + "\n");
  }
  return {};
}

namespace {

// "-" is standard input; its images start where the program runs.
Result<RowsFile> rows_from(const std::string& file) {
  if (file != "-") return read_rows_file(file);
  SLIP_TRY(const std::string text, read_input(file));
  SLIP_TRY(const json::value value, parse_json(text, "standard input"));
  return parse_rows(value, "standard input", "");
}

}  // namespace

Status forward(const ForwardOptions& o) {
  SLIP_TRY(const RowsFile file, rows_from(o.rows));
  SLIP_TRY(const WeightType natural, natural_type(o.model, "float32"));
  SLIP_TRY(const WeightType type, o.dtype.empty() ? natural : weight_type(o.dtype, ""));
  const int slots = std::max<int>(64, static_cast<int>(file.rows.size()));
  SLIP_TRY(const std::unique_ptr<Model> model,
           load_model(o.model, {.type = type, .threads = o.threads, .slots = slots, .device = o.device}));
  SLIP_TRY(const RowFeatures features, model->row_features(file));
  SLIP_TRY(const std::vector<float> logits, forward_rows(model->lm(), file, features, {.split = o.split, .slots = {}}));
  const int64_t vocab = model->lm().info().vocab;
  SLIP_TRY_(write_logits(o.out, logits, vocab));
  if (o.json) {
    print_json({{"rows", file.rows.size()}, {"vocab", vocab}, {"passes", plan_passes(file, o.split).size() - 1}, {"out", o.out}});
  }
  return {};
}

namespace {

bool is_action_form(std::string_view form) { return form == "openvla-action" || form == "minivla-action"; }

Result<json::value> config_of(const std::string& model) {
  const std::string where = (std::filesystem::path(model) / "config.json").string();
  SLIP_TRY(json::value config, read_json(where));
  if (!config.is_object()) return bad_input("{}: expected an object, got another type", where);
  return config;
}

// The form of actions with a model's own bins and as many numbers as its statistics have; nothing for another model.
Result<std::optional<json::value>> action_schema_of(const FormOptions& o) {
  if (o.model.empty()) return std::optional<json::value>{};
  SLIP_TRY(const json::value config, config_of(o.model));
  if (!is_openvla_config(config.get_object())) return std::optional<json::value>{};
  SLIP_TRY(const std::optional<Tokenizer> tokenizer, load_tokenizer(o.model));
  SLIP_TRY(const ModelConfig parsed, load_config(o.model, tokenizer ? &*tokenizer : nullptr));
  if (!tokenizer) return bad_input("{}: a form: expected a tokenizer in the folder, got none", o.model);
  if (!parsed.action) return std::optional<json::value>{};
  SLIP_TRY(json::value schema, own_action_schema(*parsed.action, *tokenizer, o.unnorm_key));
  return std::optional(std::move(schema));
}

// The schema document of a built-in, a file, or the one that a model folder was trained for.
Result<json::value> schema_of(const FormOptions& o) {
  if (o.form == "model" && o.model.empty()) return usage_error("form model: expected --model, got none");
  if (o.form == "model" || is_action_form(o.form)) {
    SLIP_TRY(std::optional<json::value> own, action_schema_of(o));
    if (own) return std::move(*own);
  }
  if (!o.unnorm_key.empty())
    return usage_error("--unnorm-key: expected the form of actions of a model with statistics, got form {}", o.form);
  if (o.form == "model") {
    SLIP_TRY(const json::value config, config_of(o.model));
    SLIP_TRY(const TaskOptions task, task_options(config.get_object(), (std::filesystem::path(o.model) / "config.json").string()));
    return task_schema(task);
  }
  if (auto builtin = builtin_schema(o.form)) return std::move(*builtin);
  if (o.form.find('/') == std::string::npos && o.form.find('.') == std::string::npos)
    return bad_input("form: expected a built-in ({}), `model`, or a JSON Schema file, got {}", fmt::join(builtin_forms(), ", "),
                     o.form);
  return read_json(o.form, size_t{16} << 20);
}

// Without a model: what the schema alone says, and the document itself in JSON.
Status explain_schema(const FormOptions& o, json::value schema) {
  if (!o.json) {
    SLIP_TRY(const std::string text, outline(schema, o.form));
    print_text(text);
    return {};
  }
  SLIP_TRY(json::object shown, outline_json(schema, o.form));
  shown["schema"] = std::move(schema);
  print_json(shown);
  return {};
}

}  // namespace

Status form(const FormOptions& o) {
  SLIP_TRY(json::value schema, schema_of(o));
  if (o.schema) {
    print_text(o.json ? json::serialize(schema) + "\n" : pretty(schema));
    return {};
  }
  if (o.model.empty()) return explain_schema(o, std::move(schema));
  SLIP_TRY(const std::optional<Tokenizer> tokenizer, load_tokenizer(o.model));
  if (!tokenizer) return bad_input("{}: expected a tokenizer, got none", o.model);
  SLIP_TRY(const ModelConfig config, load_config(o.model, &*tokenizer));
  const DraftRule& rule = config.decoder.rule;
  SLIP_TRY(
      const CompiledForm form,
      compile_schema(schema, o.form,
                     {&*tokenizer, rule.has_null ? std::optional<TokenId>(rule.null_token) : std::nullopt, config.decoder.vocab}));
  if (o.json) {
    print_json(describe_json(form.form, &*tokenizer));
  } else {
    print_text(describe(form.form, &*tokenizer));
  }
  return {};
}

}  // namespace slip::cli
