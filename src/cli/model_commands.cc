// SPDX-License-Identifier: Apache-2.0
// `inspect`, `preprocess`, `forward`, `form`: commands about a model folder that answer no request.
#include <algorithm>

#include "base/progress.h"
#include "cli/commands.h"
#include "cli/output.h"
#include "core/safetensors.h"
#include "engine/engine.h"
#include "models/model.h"
#include "models/rows_file.h"

namespace slip::cli {

namespace {

json::value id_json(const std::optional<TokenId>& id) { return id ? json::value(id->value) : json::value(nullptr); }

json::object attributes_json(const ModelConfig& c) {
  const DecoderOptions& d = c.decoder;
  json::object out{{"architecture", c.architecture},
                   {"model_type", c.model_type},
                   {"dtype", c.stored_dtype},
                   {"vocab", d.vocab},
                   {"width", d.width},
                   {"layers", d.layers},
                   {"heads", d.heads},
                   {"kv_heads", d.kv_heads},
                   {"head_width", d.head_width},
                   {"mlp_width", d.mlp_width},
                   {"norm_eps", d.norm_eps},
                   {"qkv_bias", d.qkv_bias},
                   {"qk_norm", d.qk_norm},
                   {"tied_head", d.tied_head},
                   {"max_positions", c.max_positions}};
  out["draft_rule"] = {{"shift", d.rule.shift},
                       {"context", d.rule.block_causal_context ? "block-causal" : "causal"},
                       {"block_size", d.rule.block_size},
                       {"mask", d.rule.has_mask ? json::value(d.rule.mask.value) : json::value(nullptr)},
                       {"null", d.rule.has_null ? json::value(d.rule.null_token.value) : json::value(nullptr)}};
  json::array eos;
  for (const TokenId e : c.eos) eos.emplace_back(e.value);
  out["eos"] = std::move(eos);
  if (c.vision) {
    const VisionConfig& v = *c.vision;
    out["vision"] = {{"depth", v.depth}, {"width", v.width}, {"heads", v.heads},   {"mlp_width", v.mlp_width},
                     {"patch", v.patch}, {"merge", v.merge}, {"window", v.window}, {"image_token", id_json(c.image_token)}};
  }
  return out;
}

void print_rows(const json::object& o, const std::string& indent) {
  for (const auto& [key, value] : o) {
    if (const json::object* inner = value.if_object()) {
      print_text(fmt::format("{}{}\n", indent, std::string_view(key)));
      print_rows(*inner, indent + "  ");
    } else {
      const std::string text = value.is_string() ? std::string(value.get_string()) : json::serialize(value);
      print_text(fmt::format("{}{:<{}} {}\n", indent, std::string_view(key), 22 - static_cast<int>(indent.size()), text));
    }
  }
}

}  // namespace

Status inspect(const InspectOptions& o) {
  SLIP_TRY(const std::optional<Tokenizer> tokenizer, load_tokenizer(o.model));
  SLIP_TRY(const ModelConfig config, load_config(o.model, tokenizer ? &*tokenizer : nullptr));
  SLIP_TRY(const Checkpoint checkpoint, Checkpoint::open_folder(o.model));
  json::object out = attributes_json(config);
  int64_t parameters = 0, bytes = 0;
  for (const auto& [name, t] : checkpoint.tensors()) {
    parameters += t.elements();
    bytes += static_cast<int64_t>(t.bytes.size());
  }
  out["tensors"] = checkpoint.tensors().size();
  out["parameters"] = parameters;
  out["stored_bytes"] = bytes;
  out["tokenizer"] = tokenizer ? json::value(tokenizer->size()) : json::value("none");
  json::object memory;
  ThreadPool pool(1);
  for (const auto& [word, type] : {std::pair{"f32", WeightType::kF32}, {"bf16", WeightType::kBF16}, {"int8", WeightType::kI8}}) {
    SLIP_TRY(const MemoryNeed need, estimate_memory(checkpoint, config, type, 4096, pool));
    memory[word] = {{"weights_bytes", need.weights}, {"cache_bytes_at_4096_slots", need.cache}};
  }
  out["memory"] = std::move(memory);
  if (o.json) {
    print_json(out);
  } else {
    print_rows(out, "");
  }
  return {};
}

Status preprocess(const PreprocessOptions& o) {
  SLIP_TRY(const PreprocessorConfig config, read_preprocessor_config(std::filesystem::path(o.model) / "preprocessor_config.json"));
  std::vector<float> pixels;
  std::vector<int64_t> grids;
  json::array shown;
  for (const std::string& file : o.images) {
    SLIP_TRY(const Image image, load_image(file, ImageOptions{.alpha = o.alpha == "white" ? AlphaMode::kWhite : AlphaMode::kDrop}));
    auto grid = qwen_patches(image, config);
    if (!grid) return bad_input("{}: {}", file, grid.error().message);
    pixels.insert(pixels.end(), grid->values.begin(), grid->values.end());
    grids.insert(grids.end(), {grid->t, grid->h, grid->w});
    shown.push_back(json::object{{"image", file},
                                 {"width", image.width},
                                 {"height", image.height},
                                 {"grid_thw", {grid->t, grid->h, grid->w}},
                                 {"tokens", grid->merged()}});
  }
  const int64_t patch = config.patch_dim();
  const std::vector<TensorToWrite> tensors{
      {"pixel_values", DType::kF32, {static_cast<int64_t>(pixels.size()) / patch, patch}, std::as_bytes(std::span(pixels))},
      {"grid_thw", DType::kI64, {static_cast<int64_t>(o.images.size()), 3}, std::as_bytes(std::span(grids))}};
  SLIP_TRY_(write_safetensors(o.out, tensors));
  if (o.json) {
    print_json({{"images", shown}, {"out", o.out}});
  } else {
    for (const json::value& v : shown) print_text(json::serialize(v) + "\n");
  }
  return {};
}

Status forward(const ForwardOptions& o) {
  SLIP_TRY(const RowsFile file, read_rows_file(o.rows));
  SLIP_TRY(const WeightType type, weight_type(o.dtype, ""));
  const int slots = std::max<int>(64, static_cast<int>(file.rows.size()));
  SLIP_TRY(const std::unique_ptr<Model> model, load_model(o.model, {type, o.threads, slots}));
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

// The schema document of a built-in, a file, or the one that a model folder was trained for.
Result<json::value> schema_of(const std::string& form, const std::string& model) {
  if (form == "model") {
    if (model.empty()) return usage_error("form model: expected --model, got none");
    const std::string where = (std::filesystem::path(model) / "config.json").string();
    SLIP_TRY(const json::value config, read_json(where));
    if (!config.is_object()) return bad_input("{}: expected an object, got another type", where);
    SLIP_TRY(const TaskOptions task, task_options(config.get_object(), where));
    return task_schema(task);
  }
  if (auto builtin = builtin_schema(form)) return std::move(*builtin);
  if (form.find('/') == std::string::npos && form.find('.') == std::string::npos)
    return bad_input("form: expected a built-in ({}), `model`, or a JSON Schema file, got {}", fmt::join(builtin_forms(), ", "),
                     form);
  return read_json(form, size_t{16} << 20);
}

}  // namespace

Status form(const FormOptions& o) {
  SLIP_TRY(json::value schema, schema_of(o.form, o.model));
  if (o.schema || o.model.empty()) {
    // Without a model there are no tokens to explain; the document itself says fields, budgets and sections.
    print_text(o.json ? json::serialize(schema) + "\n" : pretty(schema));
    return {};
  }
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
