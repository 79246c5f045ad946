// SPDX-License-Identifier: Apache-2.0
// slipstream::Engine over slip::Engine.
#include "slipstream/engine.h"

#include <chrono>

#include "api/answers.h"
#include "api/boundary.h"
#include "api/choice.h"
#include "api/engines.h"
#include "api/requests.h"
#include "api/slots.h"
#include "base/measure.h"
#include "models/weights/packed_folder.h"
#include "task/prompt.h"

namespace slipstream {

namespace api = slip::api;

namespace {

std::string_view word_of(slip::KvType type) {
  return type == slip::KvType::kF32 ? "f32" : type == slip::KvType::kBF16 ? "bf16" : "int8";
}

// The form that the folder was trained for: its own object for the driving task, or OpenVLA's kind of actions.
std::string form_of(slip::Engine& engine, const std::string& folder) {
  const auto config = api::config_of(folder);
  if (config && config->contains("slipstream")) return std::string(slip::words(engine.task().form));
  const auto& action = engine.model().config().action;
  if (!action) return "";
  return action->prompt == slip::ActionConfig::Prompt::kQwen ? "minivla-action" : "openvla-action";
}

ModelInfo info_of(slip::Engine& engine, const std::string& folder) {
  slip::Model& model = engine.model();
  const slip::LmInfo& lm = model.lm().info();
  const slip::ModelOptions& o = model.options();
  return {.folder = folder,
          .model_type = model.config().model_type,
          .dtype = std::string(slip::word_of_type(o.type)),
          .kv_type = std::string(word_of(o.kv_type.value_or(slip::kv_type_of(o.type)))),
          .device = o.device,
          .vocab = lm.vocab,
          .hidden_size = lm.hidden_size,
          .slots = lm.slots,
          .vision = model.vision() != nullptr,
          .can_draft = lm.rule.has_mask,
          .has_draft_adapter = lm.has_draft_adapter,
          .form = form_of(engine, folder),
          .visibility = std::string(api::word_of(engine.visibility()))};
}

// What a caller sees while passes run: each pass, a form's fields as they are complete, and free text as it becomes certain.
class Told {
 public:
  Told(const OnEvent& on_event, const slip::Tokenizer* tokenizer, slip::FormPtr form, bool text)
      : on_event_(on_event), tokenizer_(tokenizer), form_(std::move(form)) {
    if (text && tokenizer) stream_.emplace(*tokenizer, true);
  }
  void field(int32_t index, std::span<const slip::TokenId> content) {
    if (!form_ || !tokenizer_) return;
    const auto value = slip::parse_field(*form_, static_cast<size_t>(index), content, *tokenizer_);
    if (!value) return;  // the answer will say what is wrong with it
    const FieldValue told = api::field_value(form_->form.fields()[static_cast<size_t>(index)].name, *value);
    Event event = at(forwards_, tokens_);
    event.kind = Event::Kind::kField;
    event.field = &told;
    on_event_(event);
  }
  void pass(const slip::DecodeProgress& p) {
    forwards_ = p.forwards;
    tokens_ = p.decided;
    Event event = at(p.forwards, p.decided);
    if (stream_) text(p.tokens, event);
    event.kind = Event::Kind::kPass;
    on_event_(event);
  }
  /// What the last passes left unsaid of a text.
  void end(const slip::Answer& a) {
    if (!stream_) return;
    const Event event = at(a.decoded.statistics.forwards, static_cast<int64_t>(a.decoded.tokens.size()));
    text(a.decoded.tokens, event);
    say(stream_->flush(), event);
  }

 private:
  Event at(int64_t forwards, int64_t tokens) const {
    Event out;
    out.forwards = forwards;
    out.tokens = tokens;
    out.elapsed_ms = slip::ms_since(start_);
    return out;
  }
  void text(std::span<const slip::TokenId> tokens, const Event& event) {
    std::string fresh;
    for (; seen_ < tokens.size(); ++seen_) fresh += stream_->push(tokens[seen_]);
    say(fresh, event);
  }
  void say(const std::string& fresh, Event event) {
    if (fresh.empty()) return;
    event.kind = Event::Kind::kText;
    event.text = fresh;
    on_event_(event);
  }

  const OnEvent& on_event_;
  const slip::Tokenizer* tokenizer_;
  const slip::FormPtr form_;
  int64_t forwards_ = 0, tokens_ = 0;
  const slip::Clock::time_point start_ = slip::Clock::now();
  std::optional<slip::StreamDecoder> stream_;
  size_t seen_ = 0;
};

}  // namespace

Engine::Engine(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Engine::Engine(Engine&&) noexcept = default;
Engine& Engine::operator=(Engine&&) noexcept = default;
Engine::~Engine() = default;

Result<Engine> Engine::load(const std::string& folder, const EngineOptions& o, const Progress& progress,
                            const CancelToken& cancel) {
  return api::bounded([&]() -> Result<Engine> {
    slip::EngineOptions options{.dtype = o.dtype, .threads = o.threads, .device = o.device, .kv_type = o.kv_type};
    if (o.slots > 0) options.slots = o.slots;
    auto impl = std::make_unique<Impl>();
    SLIP_TRY(impl->engine, slip::Engine::load(folder, options, api::load_progress(progress, cancel)));
    impl->info = info_of(*impl->engine, folder);
    return Engine(std::move(impl));
  });
}

Result<Engine> Engine::load_for(const Request& request, const std::string& folder, const EngineOptions& options,
                                const Progress& progress, const CancelToken& cancel) {
  SLIP_TRY_(check_request(request, folder));
  EngineOptions enough = options;
  if (enough.slots <= 0) {
    SLIP_TRY(enough.slots, api::bounded([&] { return api::slots_for(request, folder); }));
  }
  return load(folder, enough, progress, cancel);
}

const ModelInfo& Engine::info() const { return impl_->info; }

Result<Answer> Engine::answer(const Request& request, const OnEvent& on_event) {
  return api::bounded([&] { return impl_->answer(request, on_event); });
}

Result<Answer> Engine::Impl::answer(const Request& asked, const OnEvent& on_event) {
  SLIP_TRY_(api::check_use(asked, info.folder, engine->visibility(), engine->model().config().action.has_value()));
  SLIP_TRY_(api::check_words(asked));
  SLIP_TRY(slip::Request request, api::engine_request(asked));
  const bool text = api::is_free_text(asked);
  SLIP_TRY(request.method, api::method_from(asked.decoder, request.visibility, engine.get(), !text));
  SLIP_TRY_(asked.cancel.check("admit", 0, "passes"));
  std::optional<Told> told;
  if (on_event) {
    slip::FormPtr form;
    if (!text) {
      SLIP_TRY(form, engine->form_of(request));
    }
    told.emplace(on_event, engine->model().tokenizer(), std::move(form), text && asked.rollouts == 1);
    request.context.on_field = [&](int32_t field, std::span<const slip::TokenId> content) { told->field(field, content); };
    request.context.on_progress = [&](const slip::DecodeProgress& p) { told->pass(p); };
  }
  SLIP_TRY(slip::Answer answer, engine->run(request));
  if (told) told->end(answer);
  request.context.on_progress = nullptr;
  request.context.on_field = nullptr;
  return api::answer_from(std::move(answer), std::move(request), asked, info);
}

}  // namespace slipstream
