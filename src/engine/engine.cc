// SPDX-License-Identifier: Apache-2.0
// See engine.h; what becomes of a request is in answering.cc.
#include "engine/engine.h"

#include "base/log.h"
#include "engine/answering.h"
#include "engine/automatic.h"

namespace slip {

namespace {

bool has_chat_template(const std::filesystem::path& folder) {
  std::error_code ec;
  for (const char* name : {"chat_template.json", "chat_template.jinja"})
    if (std::filesystem::exists(folder / name, ec)) return true;
  const auto config = read_json(folder / "tokenizer_config.json");
  return config && config->is_object() && config->get_object().contains("chat_template");
}

}  // namespace

Result<WeightType> weight_type(std::string_view word, std::string_view stored_dtype) {
  if (word == "auto") return stored_dtype == "float32" ? WeightType::kF32 : WeightType::kBF16;
  if (const auto type = weight_type_named(word)) return *type;
  return unsupported("--dtype: expected auto, f32, bf16, int8 or int4, got {}", word);
}

Result<std::optional<KvType>> kv_type_named(std::string_view word) {
  if (word == "auto") return std::optional<KvType>{};
  if (word == "f32") return std::optional(KvType::kF32);
  if (word == "bf16") return std::optional(KvType::kBF16);
  if (word == "int8") return std::optional(KvType::kI8);
  return unsupported("--kv: expected auto, f32, bf16 or int8, got {}", word);
}

Engine::Engine() : automatic_(std::make_unique<Automatic>()) {}
Engine::~Engine() = default;

Result<std::unique_ptr<Engine>> Engine::load(const std::filesystem::path& folder, const EngineOptions& options,
                                             const LoadProgress& progress) {
  std::unique_ptr<Engine> out(new Engine);
  out->options_ = options;
  const std::string where = (folder / "config.json").string();
  SLIP_TRY(const json::value config, read_json(folder / "config.json"));
  if (!config.is_object()) return bad_input("{}: expected an object, got another type", where);
  SLIP_TRY(out->task_, task_options(config.get_object(), where));
  SLIP_TRY(CodebookPtr codebook, load_codebook(out->task_, folder));
  SLIP_TRY(const ModelConfig parsed, parse_model_config(config, where));
  SLIP_TRY(WeightType type, weight_type(options.dtype, parsed.stored_dtype));
  if (options.dtype == "auto") {
    const bool here = options.device.empty() || options.device == "cpu";  // devices have types of their own
    SLIP_TRY(type, natural_type(folder, parsed.stored_dtype, here ? weight_type_named(out->task_.weights) : std::nullopt));
  }
  SLIP_TRY(const std::optional<KvType> keys, kv_type_named(options.kv_type));
  const ModelOptions how{.type = type,
                         .threads = options.threads,
                         .slots = options.slots,
                         .draft_adapter = {},
                         .device = options.device,
                         .kv_type = keys};
  SLIP_TRY(out->model_, load_model(folder, how, progress));
  const Model& model = *out->model_;
  // A tokenizer that is damaged is told now, and not by the first answer. Without one, or with one of another kind, a model still takes tokens.
  const auto tokenizer = model.need_tokenizer();
  std::error_code ec;
  const bool there = std::filesystem::exists(folder / "tokenizer.json", ec) || std::filesystem::exists(folder / "vocab.json", ec);
  if (!tokenizer && there && tokenizer.error().kind == ErrorKind::kBadInput) return tokenizer.error();
  out->has_chat_template_ = has_chat_template(folder);
  out->forms_ = std::make_unique<Forms>(*out->model_, out->task_, std::move(codebook));
  if (!options.trajectory_head.empty()) SLIP_TRY_(out->resources_.trajectory_head(*out, options.trajectory_head));
  log(LogLevel::kInfo, "admit: {}: {}, names {}*, {}, {} slots; {}", folder.string(), model.config().model_type,
      model.text_prefix(), word_of_type(type), options.slots, isa_choice().reason);
  for (const std::string& note : model.notes()) log(LogLevel::kInfo, "admit: {}", note);
  return out;
}

Result<FormPtr> Engine::form_of(const Request& request) {
  if (request.compiled) return request.compiled;
  if (!request.form_schema.empty()) return forms_->of_schema(request.form_schema);
  return forms_->named(request.form, request.unnorm_key);
}

Result<const ChatTemplate*> Engine::chat_template() const {
  if (!has_chat_template_) return static_cast<const ChatTemplate*>(nullptr);
  if (!model_->chat()) return model_->chat().error();
  return &*model_->chat();
}

PlanFit Engine::plan_fit(const Request& request) const {
  constexpr double kCoarse = 0.05;  // metres: finer steps bend no curve that a car can follow
  const bool coarse = task_.waypoint_step_m > kCoarse;
  return {.fit = request.fit.value_or(coarse ? Fit::kRounded : Fit::kJmtPaperCompat), .rounding_m = task_.waypoint_step_m / 2};
}

Result<Prompt> Engine::prompt(const Request& request) {
  SLIP_TRY(const Turns::Turn turn, turns_.wait(request.context.cancel));
  return Answering(*this, request).encode();
}

Result<Answer> Engine::run(const Request& request) { return Answering(*this, request).run(); }

Result<Answer> Engine::run(const Request& request, Seat& seat) { return Answering(*this, request, &seat).run(); }

Result<CostTable> Engine::measure(int32_t visible, const CancelToken& cancel) {
  SLIP_TRY(const Turns::Turn turn, turns_.wait(cancel));
  prefix_cache_.crop(0);
  SLIP_TRY(CostTable costs, resources_.measure_passes(*this, visible, cancel));
  automatic_->lend(costs);
  return costs;
}

void Engine::use_costs(const CostTable& costs) {
  resources_.use_passes(costs);
  automatic_->lend(costs);
}

}  // namespace slip
