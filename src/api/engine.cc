// SPDX-License-Identifier: Apache-2.0
// slipstream::Engine over slip::Engine.
#include "slipstream/engine.h"

#include <chrono>

#include "api/answers.h"
#include "api/boundary.h"
#include "api/callbacks.h"
#include "api/choice.h"
#include "api/engines.h"
#include "api/request/checks.h"
#include "api/request/earlier.h"
#include "api/request/requests.h"
#include "api/slots.h"
#include "api/told.h"
#include "base/measure.h"
#include "base/threads/threads.h"
#include "engine/text_end.h"
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
  return action ? std::string(api::form_of_actions(*action)) : "";
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
          .positions = model.config().max_positions,
          .vision = model.vision() != nullptr,
          .can_draft = lm.rule.has_mask,
          .has_draft_adapter = lm.has_draft_adapter,
          .form = form_of(engine, folder),
          .visibility = std::string(api::word_of(engine.visibility()))};
}

}  // namespace

Engine::Engine(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Engine::Engine(Engine&&) noexcept = default;
Engine& Engine::operator=(Engine&& other) noexcept {
  if (this == &other) return *this;
  Engine gone(std::move(*this));
  impl_ = std::move(other.impl_);
  return *this;
}
// A fork leaves it where it lies: its threads are the parent's, and cannot be waited for.
Engine::~Engine() {
  if (impl_ && !impl_->is_of_this_process()) static_cast<void>(impl_.release());
}

Result<Engine> Engine::load(const std::string& folder, const EngineOptions& o, const Progress& progress,
                            const CancelToken& cancel) {
  return api::bounded([&]() -> Result<Engine> {
    if (o.threads < 0) return slip::usage_error("threads: expected 0 (every core) or more, got {}", o.threads);
    if (o.slots < 0) return slip::usage_error("slots: expected 0 (enough) or more, got {}", o.slots);
    slip::EngineOptions options{.dtype = o.dtype,
                                .threads = slip::threads_for(o.threads),
                                .device = o.device,
                                .kv_type = o.kv_type,
                                .trajectory_head = o.trajectory_head};
    if (o.slots > 0) options.slots = o.slots;
    auto impl = std::make_unique<Impl>();
    SLIP_TRY(impl->engine, slip::Engine::load(folder, options, api::load_progress(progress, cancel)));
    impl->info = info_of(*impl->engine, folder);
    return Engine(std::move(impl));
  });
}

Result<Engine> Engine::load_for(const Request& asked, const std::string& folder, const EngineOptions& options,
                                const Progress& progress, const CancelToken& cancel) {
  SLIP_TRY_(check_request(asked, folder));
  SLIP_TRY_(api::bounded([&] { return api::check_question(asked); }));
  const Request request = api::with_form(asked, own_form(folder));
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

Result<Answer> Engine::Impl::answer(const Request& given, const OnEvent& on_event) {
  if (!is_of_this_process())
    return slip::unsupported("engine: expected the process that loaded it, got a fork of it, which has none of its threads");
  const Request asked = api::with_form(given, info.form.empty() ? "none" : info.form);
  SLIP_TRY_(api::check_asked(asked, info.folder, engine->visibility(), engine->model().config().action.has_value()));
  SLIP_TRY(slip::Request request, api::engine_request(asked));
  const bool text = api::is_free_text(asked);
  SLIP_TRY(const DecoderChoice decoder, api::decoder_of(asked));
  SLIP_TRY(request.method, api::method_from(decoder, request.visibility, engine.get(), !text));
  SLIP_TRY_(asked.cancel.check("admit", 0, "passes"));
  slip::FormPtr form;
  if (!text && (on_event || !asked.previous_answer.empty() || api::may_draft_earlier(asked))) {
    SLIP_TRY(form, engine->form_of(request));
  }
  SLIP_TRY_(api::take_earlier(asked, *engine, form.get(), request));
  std::optional<api::Told> told;
  std::optional<api::GuardedEvents> guard;
  if (on_event) {
    request.context.cancel = CancelToken::child_of(asked.cancel);
    guard.emplace(on_event, request.context.cancel);
    told.emplace(guard->events(), engine->model().tokenizer(), form, text && asked.rollouts == 1, asked.stop);
    told->listen(request, engine->plan_fit(request));
  }
  auto ran = engine->run(request);
  if (ran && told) told->end(*ran);
  if (guard)
    if (auto thrown = guard->thrown()) return std::move(*thrown);
  SLIP_TRY(slip::Answer answer, std::move(ran));
  request.context.on_progress = nullptr;
  request.context.on_prefill = nullptr;
  request.context.on_field = nullptr;
  request.context.previous = nullptr;
  request.on_plan = nullptr;
  return api::answer_from(std::move(answer), std::move(request), asked, info);
}

}  // namespace slipstream
