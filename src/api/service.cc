// SPDX-License-Identifier: Apache-2.0
// slipstream::Service over slip::Service.
#include <cmath>
#include <condition_variable>
#include <fstream>
#include <mutex>

#include "api/answers.h"
#include "api/boundary.h"
#include "api/callbacks.h"
#include "api/choice.h"
#include "api/engines.h"
#include "api/request/checks.h"
#include "api/request/earlier.h"
#include "api/request/requests.h"
#include "api/told.h"
#include "base/content_hash.h"
#include "base/room.h"
#include "service/service.h"
#include "slipstream/engine.h"

namespace slipstream {

namespace api = slip::api;
using slip::Result;

namespace {

// Files of weights are large: of each its size and 4 KiB of every MiB. Enough against mistakes; a folder made to deceive is not looked for.
uint64_t hash_of_file(const std::filesystem::path& file, uint64_t h) {
  std::error_code ec;
  const uint64_t bytes = std::filesystem::file_size(file, ec);
  std::ifstream in(file, std::ios::binary);
  std::string part(4096, '\0');
  h = slip::fnv1a(file.filename().string() + fmt::format(":{}", bytes), h);
  for (uint64_t at = 0; at < bytes; at += uint64_t{1} << 20) {
    in.seekg(static_cast<std::streamoff>(at));
    in.read(part.data(), static_cast<std::streamsize>(part.size()));
    h = slip::fnv1a(std::string_view(part).substr(0, static_cast<size_t>(in.gcount())), h);
    in.clear();
  }
  return h;
}

/// `head`: the folder of the trajectory head that was loaded beside the model; empty: none.
std::string fingerprint_of(const ModelInfo& info, const std::string& head) {
  std::vector<std::filesystem::path> files;
  std::error_code ec;
  for (const std::string& folder : {info.folder, head}) {
    if (folder.empty()) continue;
    const auto first = static_cast<ptrdiff_t>(files.size());
    for (const auto& entry : std::filesystem::directory_iterator(folder, ec))
      if (entry.is_regular_file(ec) && entry.path().extension() != ".md") files.push_back(entry.path());
    std::sort(files.begin() + first, files.end());
  }
  uint64_t h = slip::kFnvStart;
  for (const auto& file : files) h = hash_of_file(file, h);
  for (const std::string& word : {info.dtype, info.kv_type, info.device, instruction_set(), std::string(version())})
    h = slip::fnv1a(word + "|", h);
  return fmt::format("slip-{:016x}", h);
}

Served served_from(const slip::Served& s) {
  return {static_cast<Fate>(s.fate), s.queue_ms, s.run_ms, s.predicted_ms, s.retry_after_s, s.prompt_rows, s.kept_rows};
}

/// A NaN is on neither side of a bound.
slip::Status check_terms(const Terms& t) {
  if (t.deadline_ms >= 0) return {};
  return slip::usage_error("terms: deadline_ms: expected a number of at least 0 (none), got {}", t.deadline_ms);
}

slip::Status check_options(const ServiceOptions& o) {
  if (o.most_running < 1) return slip::usage_error("service: most_running: expected at least 1, got {}", o.most_running);
  if (o.most_waiting < 0) return slip::usage_error("service: most_waiting: expected at least 0, got {}", o.most_waiting);
  if (!(o.pass_budget_ms > 0) || !std::isfinite(o.pass_budget_ms))
    return slip::usage_error("service: pass_budget_ms: expected a number above 0, got {}", o.pass_budget_ms);
  if (o.feature_bytes < 0)
    return slip::usage_error("service: feature_bytes: expected at least 0 (none are kept), got {}", o.feature_bytes);
  if (o.picture_bytes < 0) return slip::usage_error("service: picture_bytes: expected at least 0, got {}", o.picture_bytes);
  return {};
}

/// Of terms that check_terms takes.
slip::Terms terms_from(const Terms& t) {
  slip::Terms out{.key = t.key, .batch = t.batch, .partial = t.partial};
  constexpr double kMostMs = 1e9;  // eleven days; what is beyond is none
  if (t.deadline_ms > 0 && t.deadline_ms < kMostMs)
    out.deadline = slip::Clock::now() +
                   std::chrono::duration_cast<slip::Clock::duration>(std::chrono::duration<double, std::milli>(t.deadline_ms));
  return out;
}

/// Requests that cost alike, but for what there is to read.
slip::RequestKind kind_of(const Request& r) {
  const std::string form = r.form_schema.empty() ? r.form : fmt::format("schema {:x}", slip::fnv1a(r.form_schema, 1));
  slip::RequestKind out{.name = fmt::format("{}|{}|{}|{}|{}|{}|{}|{}{}", form, r.decoder.preset, r.decoder.drafter, r.rollouts,
                                            r.images.size(), r.videos.size(), r.form == "none" ? r.max_tokens : 0,
                                            r.trajectory_head, r.fast_plan ? "|fast" : "")};
  out.text_bytes = static_cast<int64_t>(api::text_bytes_of(r));
  return out;
}

}  // namespace

struct [[gnu::visibility("hidden")]] Service::Impl {
  Engine engine;
  std::string fingerprint;
  slip::Room pictures;                     // of requests that wait, as the tower takes them
  std::unique_ptr<slip::Service> service;  // before the engine it ends

  Impl(Engine e, int64_t picture_bytes) : engine(std::move(e)), pictures(picture_bytes) {}
  slip::Engine& inner() { return *engine.impl().engine; }
  const ModelInfo& info() const { return engine.info(); }
  /// As Engine::answer takes it.
  Request meant(const Request& given) const { return api::with_form(given, info().form.empty() ? "none" : info().form); }

  struct Prepared {
    slip::Request request;
    slip::FormPtr form;
    bool text = false;
  };
  /// kUnsupported in a fork: the service's thread is the parent's, and may have held a lock when the process forked.
  Status check_process() {
    if (engine.impl().is_of_this_process()) return {};
    return slip::unsupported("service: expected the process that started it, got a fork of it, which has none of its threads");
  }
  Result<Prepared> prepare(const Request& asked);
  /// Copies what it takes of the request; `on_done` is the caller's still where there is an error, and `refused` says whether it is a full queue's.
  Result<slip::Ask> ask_of(const Request& given, const Terms& terms, OnEvent on_event, const OnDone& on_done, Served& refused);
  slip::Status preprocess(slip::Request & request);
};

/// On the caller's thread, so that the service's does passes alone. The pictures themselves are let go, unless a draft model may want them.
slip::Status Service::Impl::preprocess(slip::Request& request) {
  const bool blind = request.ego && !inner().task().cameras;
  for (const slip::Image& image : blind ? std::span<const slip::Image>() : request.images) {
    SLIP_TRY_(request.context.cancel.check("encode", static_cast<int64_t>(request.grids.size()), "images"));
    SLIP_TRY(slip::PatchGrid grid, inner().model().preprocess(image));
    if (grid.content.empty()) grid.content = slip::content_hash(std::span<const float>(grid.values));
    request.grids.push_back(std::move(grid));
  }
  if (!std::holds_alternative<slip::ModelSpec>(request.method.drafter)) request.images = {};
  return {};
}

Result<Service::Impl::Prepared> Service::Impl::prepare(const Request& asked) {
  slip::Engine& e = inner();
  SLIP_TRY_(api::check_asked(asked, info().folder, e.visibility(), e.model().config().action.has_value()));
  Prepared p;
  SLIP_TRY(p.request, api::engine_request(asked));
  p.text = api::is_free_text(asked);
  if (!p.text) {
    SLIP_TRY(p.form, e.form_of(p.request));
    p.request.compiled = p.form;
  }
  SLIP_TRY(const DecoderChoice choice, api::decoder_of(asked));
  SLIP_TRY(const std::optional<slip::Visibility> visibility, api::visibility_named(asked.visibility));
  SLIP_TRY(p.request.method, api::method_from(choice, visibility, &e, !p.text));
  // Where nobody has chosen a draft length, drafts are priced with what shares the pass.
  const slip::MethodWords words = slip::words_of(p.request.method);
  if (choice.preset.empty() && choice.width.empty() && words.drafter != "none" && words.verifier == "exact") {
    auto method = slip::with_parts(p.request.method, "", "", "", "measured");
    if (method) p.request.method = std::move(*method);
  }
  SLIP_TRY_(api::take_earlier(asked, e, p.form.get(), p.request));
  SLIP_TRY_(preprocess(p.request));
  return p;
}

namespace {

/// As api::bounded, also where there is no memory for the words of an error.
template <class F>
Result<Answer> in_memory(F&& work) {
  try {
    return api::bounded(std::forward<F>(work));
  } catch (const std::bad_alloc&) {
    return slip::Error{slip::ErrorKind::kResource, "no memory"};  // short enough to need none
  }
}

/// What pictures of a request hold while it waits.
int64_t picture_bytes_of(const slip::Request& request) {
  size_t bytes = 0;
  for (const slip::Image& image : request.images) bytes += image.rgb.size();
  for (const slip::VideoClip& clip : request.videos)
    for (const slip::Image& frame : clip.frames) bytes += frame.rgb.size();
  for (const slip::PatchGrid& grid : request.grids)
    bytes += grid.values.size() * sizeof(float) + (grid.source ? grid.source->image->rgb.size() : 0);
  return static_cast<int64_t>(bytes);
}

/// A copy to show, without its pictures, which are large.
slip::Request without_pictures(slip::Request& request) {
  std::vector<slip::Image> images = std::exchange(request.images, {});
  std::vector<slip::PatchGrid> grids = std::exchange(request.grids, {});
  slip::Request shown = request;
  request.images = std::move(images);
  request.grids = std::move(grids);
  shown.context = {};
  shown.on_plan = nullptr;
  return shown;
}

}  // namespace

Service::Service(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Service::Service(Service&&) noexcept = default;
Service& Service::operator=(Service&& other) noexcept {
  if (this == &other) return *this;
  Service gone(std::move(*this));
  impl_ = std::move(other.impl_);
  return *this;
}
// As Engine's.
Service::~Service() {
  if (impl_ && !impl_->engine.impl().is_of_this_process()) static_cast<void>(impl_.release());
}

Result<Service> Service::start(Engine engine, const ServiceOptions& o, const CancelToken& cancel) {
  return api::bounded([&]() -> Result<Service> {
    if (!engine.impl().is_of_this_process())
      return slip::unsupported(
          "service: expected the process that loaded the engine, got a fork of it, which has none of its threads");
    SLIP_TRY_(check_options(o));
    auto impl = std::make_unique<Impl>(std::move(engine), o.picture_bytes);
    impl->fingerprint = fingerprint_of(impl->info(), impl->inner().options().trajectory_head);
    const slip::ServiceOptions options{.most_running = o.most_running,
                                       .most_waiting = o.most_waiting,
                                       .pass_budget_ms = o.pass_budget_ms,
                                       .feature_bytes = static_cast<size_t>(o.feature_bytes)};
    SLIP_TRY(impl->service, slip::Service::start(impl->inner(), options, cancel));
    return Service(std::move(impl));
  });
}

const ModelInfo& Service::info() const { return impl_->info(); }
const std::string& Service::fingerprint() const { return impl_->fingerprint; }

Result<slip::Ask> Service::Impl::ask_of(const Request& given, const Terms& terms, OnEvent on_event, const OnDone& on_done,
                                        Served& refused) {
  SLIP_TRY_(check_process());
  SLIP_TRY_(check_terms(terms));
  slip::Terms when = terms_from(terms);  // a deadline runs from here on
  const Request request = meant(given);
  SLIP_TRY(Prepared prepared, prepare(request));
  slip::Ask ask{.request = std::move(prepared.request), .terms = std::move(when), .done = {}, .kind = kind_of(request)};
  if (const int64_t bytes = picture_bytes_of(ask.request); bytes > 0 && !(ask.pictures = pictures.take(bytes))) {
    refused = served_from(service->outlook(ask.kind, ask.terms));
    refused.fate = Fate::kFull;
    return slip::resource_error("admit: expected room for the pictures of a further request, got a full queue");
  }
  std::shared_ptr<api::Told> told;
  std::optional<api::GuardedEvents> guard;
  if (on_event) {
    ask.request.context.cancel = CancelToken::child_of(request.cancel);
    guard.emplace(std::move(on_event), ask.request.context.cancel);
    const bool whole = request.rollouts == 1;
    told = std::make_shared<api::Told>(guard->events(), inner().model().tokenizer(), prepared.form, prepared.text && whole,
                                       request.stop, whole);
    told->listen(ask.request, inner().plan_fit(ask.request));
  }
  Request asked = request;  // what the answer's own words go by; pictures are left out
  for (Image& image : asked.images) image = {};
  for (Video& video : asked.videos) video = {};
  slip::Request shown = without_pictures(ask.request);
  ask.done = [told, guard, asked = std::move(asked), shown = std::move(shown), impl = this, on_done](
                 slip::Result<slip::Answer> answer, const slip::Served& served) mutable {
    Served how = served_from(served);
    Result<Answer> result = in_memory([&]() -> Result<Answer> {
      if (answer && told) told->end(*answer);
      if (guard)
        if (auto thrown = guard->thrown()) {
          how.fate = Fate::kFailed;
          return std::move(*thrown);
        }
      if (!answer) return answer.error();
      return api::answer_from(std::move(*answer), std::move(shown), std::move(asked), impl->info());
    });
    api::call_guarded("on_done", [&] { on_done(std::move(result), how); });
  };
  return ask;
}

void Service::submit(const Request& request, const Terms& terms, OnEvent on_event, OnDone on_done) {
  // What is thrown has not reached on_done: the service calls it last of all, and then nothing throws.
  Served refused{.fate = Fate::kFailed};
  Status handed = api::bounded([&]() -> Status {
    SLIP_TRY(slip::Ask ask, impl_->ask_of(request, terms, std::move(on_event), on_done, refused));
    impl_->service->submit(std::move(ask));
    return {};
  });
  if (handed) return;
  if (handed.error().kind == ErrorKind::kCancelled) refused.fate = Fate::kCancelled;
  api::call_guarded("on_done", [&] { on_done(std::move(handed.error()), refused); });
}

Result<Answer> Service::answer(const Request& request, const Terms& terms, const OnEvent& on_event, Served* served) {
  if (impl_->service->is_this_thread())
    return slip::usage_error(
        "service: expected a thread that may wait, got its own, which would wait for itself: submit does not wait");
  std::mutex mutex;
  std::condition_variable done;
  std::optional<Result<Answer>> result;
  submit(request, terms, on_event, [&](Result<Answer> answer, const Served& s) {
    const std::lock_guard lock(mutex);
    result = std::move(answer);
    if (served) *served = s;
    done.notify_one();
  });
  std::unique_lock lock(mutex);
  done.wait(lock, [&] { return result.has_value(); });
  return std::move(*result);
}

Served Service::outlook(const Request& request, const Terms& terms) const {
  Served out;
  if (!impl_->check_process() || !check_terms(terms)) {
    out.fate = Fate::kFailed;
    return out;
  }
  return served_from(impl_->service->outlook(kind_of(impl_->meant(request)), terms_from(terms)));
}

Result<int64_t> Service::most_tokens(const Request& given) {
  return api::bounded([&]() -> Result<int64_t> {
    SLIP_TRY_(impl_->check_process());
    const Request request = impl_->meant(given);
    if (api::is_free_text(request)) return int64_t{0};
    slip::Request r;
    r.form = request.form;
    r.form_schema = request.form_schema;
    r.unnorm_key = request.unnorm_key;
    SLIP_TRY(const slip::FormPtr form, impl_->inner().form_of(r));
    return int64_t{form->form.length()};
  });
}

Result<std::vector<int32_t>> Service::tokenize(std::string_view text) const {
  return api::bounded([&]() -> Result<std::vector<int32_t>> {
    if (!slip::is_valid_utf8(text)) return slip::bad_input("prompt: expected valid UTF-8, got other bytes");
    SLIP_TRY(const std::vector<slip::TokenId> ids, impl_->inner().model().prompt_tokens(text));
    std::vector<int32_t> out;
    out.reserve(ids.size());
    for (const slip::TokenId id : ids) out.push_back(id.value);
    return out;
  });
}

Result<std::string> Service::detokenize(const std::vector<int32_t>& ids) const {
  return api::bounded([&]() -> Result<std::string> {
    SLIP_TRY(const slip::Tokenizer* tokenizer, impl_->inner().model().need_tokenizer());
    std::vector<slip::TokenId> tokens;
    for (const int32_t id : ids) {
      if (id < 0 || id >= tokenizer->size()) return slip::bad_input("tokens: expected ids below {}, got {}", tokenizer->size(), id);
      tokens.push_back({id});
    }
    return slip::to_valid_utf8(tokenizer->decode(tokens));
  });
}

std::string Service::token_bytes(int32_t id) const {
  slip::Model& model = impl_->inner().model();
  const slip::DraftRule& rule = model.lm().info().rule;
  if (rule.has_null && id == rule.null_token.value) return "";  // answer_text leaves it out
  const slip::Tokenizer* tokenizer = model.tokenizer();
  return tokenizer && id >= 0 && id < tokenizer->size() ? std::string(tokenizer->token_bytes({id})) : "";
}

ServiceLoad Service::load() const {
  if (!impl_->check_process()) return {};
  const slip::ServiceLoad l = impl_->service->load();
  return {l.running,     l.waiting,           l.room,   l.pages,        l.pages_held, l.pages_kept,
          l.prompt_rows, l.prompt_rows_found, l.images, l.images_found, l.passes};
}

void Service::on_pass(std::function<void(const PassShared&)> told) {
  impl_->service->on_pass([told = std::move(told)](const slip::PassTold& p) {
    api::call_guarded("on_pass", [&] { told({p.rows, p.prompt_rows, p.requests, p.ms, p.draft}); });
  });
}

}  // namespace slipstream
