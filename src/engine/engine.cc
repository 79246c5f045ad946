// SPDX-License-Identifier: Apache-2.0
// See engine.h.
#include "engine/engine.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cmath>

#include "base/log.h"
#include "base/measure.h"

namespace slip {

namespace {

constexpr std::string_view kImageMark = "<image>";

// One user message: all images, then all videos stand at the mark, or in front where there is none.
ChatMessage user_message(const std::string& text, size_t images, size_t videos) {
  ChatMessage m{"user", {}};
  const size_t mark = text.find(kImageMark);
  const std::string before = mark == std::string::npos ? "" : text.substr(0, mark);
  const std::string after = mark == std::string::npos ? text : text.substr(mark + kImageMark.size());
  if (!before.empty()) m.content.emplace_back(TextItem{before});
  for (size_t i = 0; i < images; ++i) m.content.emplace_back(ImageItem{});
  for (size_t i = 0; i < videos; ++i) m.content.emplace_back(VideoItem{});
  m.content.emplace_back(TextItem{after});
  return m;
}

bool has_chat_template(const std::filesystem::path& folder) {
  std::error_code ec;
  for (const char* name : {"chat_template.json", "chat_template.jinja"})
    if (std::filesystem::exists(folder / name, ec)) return true;
  const auto config = read_json(folder / "tokenizer_config.json");
  return config && config->is_object() && config->get_object().contains("chat_template");
}

// Text without a chat template, between what the tokenizer's own template puts around a text (a Llama's BOS), unless it is spelled out.
Result<Prompt> plain_prompt(Model& model, std::string_view text) {
  SLIP_TRY(std::vector<TokenId> tokens, model.prompt_tokens(text));
  const TemplateIds& around = model.tokenizer()->template_ids();
  if (!std::ranges::equal(std::span(tokens).first(std::min(tokens.size(), around.front.size())), around.front))
    tokens.insert(tokens.begin(), around.front.begin(), around.front.end());
  tokens.insert(tokens.end(), around.back.begin(), around.back.end());
  return model.build_prompt(tokens);
}

// What free text may not draw: rows of the head that no id of the tokenizer names, which nobody trained, and the mask.
std::vector<TokenId> denied_in_text(Model& model) {
  const LmInfo& info = model.lm().info();
  std::vector<TokenId> out;
  const int32_t named = std::min(model.tokenizer() ? model.tokenizer()->size() : info.vocab, info.vocab);
  if (info.rule.has_mask && info.rule.mask.value < named) out.push_back(info.rule.mask);
  for (int32_t id = named; id < info.vocab; ++id) out.push_back({id});
  return out;
}

// The fit is stated for any number of waypoints at 1 Hz; a form without a trajectory has no plan.
Status fit_plan(const Request& request, const std::vector<std::vector<Waypoint>>& rollouts, Plan& plan) {
  if (rollouts.empty() || rollouts.front().size() < 2) return {};
  FitSpec spec{.fit = request.fit, .knots = static_cast<int>(rollouts.front().size())};
  spec.points = spec.knots * 4;
  SLIP_TRY(const FitMap map, FitMap::make(spec));
  Waypoint v0;
  if (request.ego) v0 = {request.ego->history.back().vx, request.ego->history.back().vy};
  SLIP_TRY(RolloutFit fit, average_rollouts(map, rollouts, v0));
  plan.fitted = std::move(fit.mean);
  plan.spread_m = std::move(fit.spread_m);
  return {};
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

Result<std::unique_ptr<Engine>> Engine::load(const std::filesystem::path& folder, const EngineOptions& options,
                                             const LoadProgress& progress) {
  std::unique_ptr<Engine> out(new Engine);
  out->options_ = options;
  const std::string where = (folder / "config.json").string();
  SLIP_TRY(const json::value config, read_json(folder / "config.json"));
  if (!config.is_object()) return bad_input("{}: expected an object, got another type", where);
  SLIP_TRY(out->task_, task_options(config.get_object(), where));
  SLIP_TRY(const ModelConfig parsed, parse_model_config(config, where));
  SLIP_TRY(WeightType type, weight_type(options.dtype, parsed.stored_dtype));
  if (options.dtype == "auto") {
    SLIP_TRY(type, natural_type(folder, parsed.stored_dtype));
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
  log(LogLevel::kInfo, "admit: {}: {}, names {}*, {}, {} slots; {}", folder.string(), model.config().model_type,
      model.text_prefix(), word_of_type(type), options.slots, isa_choice().reason);
  for (const std::string& note : model.notes()) log(LogLevel::kInfo, "admit: {}", note);
  return out;
}

Result<const CompiledForm*> Engine::form(const std::string& asked, std::string_view unnorm_key) {
  const std::string name = is_action_form(asked) ? fmt::format("actions as in {}", unnorm_key) : asked;
  if (const auto at = forms_.find(name); at != forms_.end()) return const_cast<const CompiledForm*>(at->second.get());
  const Tokenizer* tokenizer = model_->tokenizer();
  if (!tokenizer) return bad_input("{}: a form: expected a tokenizer in the folder, got none", model_->folder().string());
  const DraftRule& rule = model_->lm().info().rule;
  const FormTokens tokens{tokenizer, rule.has_null ? std::optional<TokenId>(rule.null_token) : std::nullopt,
                          model_->lm().info().vocab};
  std::unique_ptr<CompiledForm> made;
  if (is_action_form(asked)) {
    SLIP_TRY(const json::value schema, own_action_schema(*model_->config().action, *tokenizer, unnorm_key));
    SLIP_TRY(CompiledForm form, compile_schema(schema, std::string_view(schema.at("title").as_string()), tokens));
    made = std::make_unique<CompiledForm>(std::move(form));
  } else if (name == "model") {
    SLIP_TRY(CompiledForm form, task_form(task_, tokens));
    made = std::make_unique<CompiledForm>(std::move(form));
  } else {
    json::value schema;
    if (auto builtin = builtin_schema(name)) {
      schema = std::move(*builtin);
    } else if (name.find('/') == std::string::npos && name.find('.') == std::string::npos) {
      return bad_input("--form: expected a built-in ({}), `model`, or a JSON Schema file, got {}", fmt::join(builtin_forms(), ", "),
                       name);
    } else {
      SLIP_TRY(schema, read_json(name, size_t{16} << 20));
    }
    SLIP_TRY(CompiledForm form, compile_schema(schema, name, tokens));
    made = std::make_unique<CompiledForm>(std::move(form));
  }
  const CompiledForm* out = made.get();
  forms_.emplace(name, std::move(made));
  return out;
}

Result<std::string> Engine::user_text(const Request& request) const {
  if (!request.ego) return request.prompt;
  const PromptText text = prompt_text(task_.prompt, *request.ego, task_.form);
  std::string history;  // the row of a model that takes the ego history as one
  if (const auto& h = model_->config().history) {
    SLIP_TRY(const Tokenizer* tokenizer, model_->need_tokenizer());
    history = tokenizer->token_text(h->token);
  }
  return text.before_images + std::string(kImageMark) + history + text.after_images;
}

// Cameras side by side: each is one thread's work of some ten milliseconds, and the tower, which follows, keeps all threads busy.
Status Engine::preprocess(std::span<const Image> images, const CancelToken& cancel, std::vector<PatchGrid>& grids) {
  std::vector<std::optional<Result<PatchGrid>>> made(images.size());
  std::atomic<int64_t> done{0};
  model_->pool().run(static_cast<int64_t>(images.size()), [&](int64_t i) {
    const auto at = static_cast<size_t>(i);
    if (const Status wanted = cancel.check("encode", done, "images"); !wanted) {
      made[at] = wanted.error();
      return;
    }
    try {
      made[at] = model_->preprocess(images[at]);
    } catch (const std::bad_alloc&) {
      made[at] = resource_error("image {}: expected memory for its patches, got none", i);
    }
    ++done;
  });
  for (auto& grid : made) {
    if (!*grid) return grid->error();
    grids.push_back(std::move(**grid));
  }
  return {};
}

Result<std::vector<VideoPatches>> Engine::preprocess(std::span<const VideoClip> clips, const CancelToken& cancel) const {
  std::vector<VideoPatches> out;
  if (clips.empty()) return out;
  if (!model_->preprocessor() || !model_->config().video_token)
    return unsupported("{}: videos: expected a model with Qwen2.5-VL's tower and a token for videos, got {}", folder().string(),
                       model_->config().architecture);
  for (const VideoClip& clip : clips) {
    SLIP_TRY_(cancel.check("encode", static_cast<int64_t>(out.size()), "videos"));
    SLIP_TRY(VideoPatches made, video_patches(clip.frames, clip.fps, *model_->preprocessor()));
    out.push_back(std::move(made));
  }
  return out;
}

Result<Prompt> Engine::prompt(const Request& request) {
  std::vector<PatchGrid> grids;
  const bool blind = request.ego && !task_.cameras;  // records bring pictures that this model was not trained to see
  SLIP_TRY_(preprocess(blind ? std::span<const Image>() : request.images, request.context.cancel, grids));
  SLIP_TRY(const std::vector<VideoPatches> videos, preprocess(request.videos, request.context.cancel));
  SLIP_TRY_(request.context.cancel.check("encode", static_cast<int64_t>(grids.size() + videos.size()), "images"));
  if (model_->config().action) return action_prompt(request, grids);
  SLIP_TRY(const std::string text, user_text(request));
  if (!chat_known_ && has_chat_template(model_->folder())) {
    SLIP_TRY(chat_, ChatTemplate::load(model_->folder()));
  }
  chat_known_ = true;
  if (!chat_) {
    if (!grids.empty() || !videos.empty())
      return unsupported("{}: images: expected a chat template that says where they go, got none", model_->folder().string());
    if (text.empty()) return bad_input("--prompt: expected text, got nothing");
    return plain_prompt(*model_, text);
  }
  const std::vector<ChatMessage> messages{user_message(text, grids.size(), videos.size())};
  SLIP_TRY(const std::string rendered, chat_->render(messages));
  if (!videos.empty()) {
    SLIP_TRY(const std::vector<TokenId> tokens, model_->prompt_tokens(rendered));
    return build_video_prompt(*model_, tokens, grids, videos);
  }
  return model_->build_prompt(std::string_view(rendered), grids, history_numbers(request));
}

Result<DecodeOptions> Engine::decode_options(const Request& request, const CompiledForm* compiled) {
  const Form* form = compiled ? &compiled->form : nullptr;
  DecodeOptions options = request.decode;
  for (const auto& [name, temperature] : request.section_temperatures) {
    bool found = false;
    for (size_t s = 0; form && s < form->sections().size(); ++s) {
      if (form->sections()[s].name != name) continue;
      options.section_temperature.emplace_back(static_cast<int32_t>(s), temperature);
      found = true;
    }
    if (!found) return bad_input("--section-temperature: expected a section of the form, got {}", name);
    if (std::count_if(request.section_temperatures.begin(), request.section_temperatures.end(),
                      [&](const auto& other) { return other.first == name; }) > 1)
      return usage_error("--section-temperature: expected each section once, got {} twice", name);
  }
  options.end_tokens = model_->config().eos;
  if (!form && !model_->config().action) options.denied = denied_in_text(*model_);  // actions: as published, from all rows
  if (const auto& action = model_->config().action; action && !form) {  // as published: as many tokens as numbers, no end token
    SLIP_TRY(const auto* statistics, choose_statistics(*action, request.unnorm_key));
    options.limit = static_cast<int>(statistics->second.q01.size());
    options.end_tokens.clear();
  }
  options.forced = form != nullptr;  // every exact decoder gives a form's answer the same tokens (decision 0003)
  options.visibility = request.visibility.value_or(visibility());
  options.reuse_prompt = options.reuse_prompt || request.reuse_prompt;
  const bool graph_schedule = request.method.schedule == Schedule::kFields, graph = options.visibility == Visibility::kGraph;
  if (form && graph_schedule && !graph)
    return unsupported("{}: expected graph visibility (a model trained for it, or --law graph), got chain visibility",
                       request.method.preset);
  if (form && request.method.schedule == Schedule::kSections && graph)
    return unsupported("{}: expected chain visibility (a model trained for it, or --law chain), got graph visibility",
                       request.method.preset);
  return options;
}

Result<DecodeContext> Engine::decode_context(const Request& request, const CompiledForm* compiled) {
  DecodeContext context = request.context;
  if (request.reuse_prompt && !context.prefix_cache) context.prefix_cache = &prefix_cache_;
  SLIP_TRY_(resources_.attach(*this, request, compiled, context));
  return context;
}

Status Engine::decode_rollouts(const Request& request, const Prompt& prompt, Answer& answer) {
  const Form* form = answer.form ? &answer.form->form : nullptr;
  SLIP_TRY(const DecodeOptions options, decode_options(request, answer.form));
  SLIP_TRY(DecodeContext context, decode_context(request, answer.form));
  SLIP_TRY_(resources_.attach_draft_length(*this, request, answer.form, prompt, context));
  SLIP_TRY(const std::vector<double> scale, action_scale(request));
  SLIP_TRY_(resolve_method(answer.method, answer.form, scale));
  SLIP_TRY(std::vector<Decoded> decoded,
           Decoder(model_->lm(), answer.method).rollouts(prompt, form, options, request.rollouts, context));
  const auto start = Clock::now();
  std::vector<std::vector<Waypoint>> rollouts;
  const Tokenizer& tokenizer = *model_->tokenizer();
  for (size_t r = 0; r < decoded.size(); ++r) {
    if (!form || !decoded[r].valid) continue;
    SLIP_TRY(std::vector<FieldValue> values, parse(*answer.form, decoded[r].tokens, tokenizer));
    rollouts.push_back(waypoints_of(*form, values));
    if (r == 0) {
      answer.plan.waypoints = rollouts.front();
      answer.values = std::move(values);
    }
  }
  answer.decoded = std::move(decoded.front());
  answer.text =
      answer.form ? answer_text(*answer.form, answer.decoded.tokens, tokenizer) : tokenizer.decode(answer.decoded.tokens, true);
  SLIP_TRY_(fit_plan(request, rollouts, answer.plan));
  answer.stages.plan_ms = ms_since(start);
  return {};
}

Result<Answer> Engine::run(const Request& request) {
  const auto start = Clock::now();
  Answer out;
  out.method = request.method;
  if (!model_->tokenizer()) return bad_input("{}: expected a tokenizer in the folder, got none", model_->folder().string());
  if (!request.form.empty()) {
    const auto form_start = Clock::now();
    if (is_action_form(request.form)) SLIP_TRY_(check_statistics(request));
    SLIP_TRY(out.form, form(request.form, request.unnorm_key));
    out.stages.form_ms = ms_since(form_start);
  }
  const auto encode_start = Clock::now();
  SLIP_TRY(const Prompt rows, prompt(request));
  out.stages.encode_ms = ms_since(encode_start);
  SLIP_TRY_(decode_rollouts(request, rows, out));
  SLIP_TRY_(read_action(request, out));
  out.stages.total_ms = ms_since(start);
  const Statistics& n = out.decoded.statistics;
  log(LogLevel::kDebug,
      "reply: {}: form {:.1f}, encode {:.1f}, prefill {:.1f}, draft {:.1f}, verify {:.1f}, plan {:.1f}, total {:.1f} ms; {} passes",
      out.method.preset, out.stages.form_ms, out.stages.encode_ms, n.ms.prefill, n.ms.draft, n.ms.verify, out.stages.plan_ms,
      out.stages.total_ms, n.forwards);
  if (n.nan_rows > 0) log(LogLevel::kWarn, "reply: {} rows were not finite: the answer is not to be trusted", n.nan_rows);
  return out;
}

}  // namespace slip
