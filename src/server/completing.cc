// SPDX-License-Identifier: Apache-2.0
// See completing.h.
#include "server/completing.h"

#include "base/log.h"

namespace slip::server {

using slipstream::ErrorKind;
using slipstream::Fate;

Refusal refusal_of(const slipstream::Error& e) {
  switch (e.kind) {
    case ErrorKind::kUsage:
    case ErrorKind::kBadInput:  // a prompt beyond the model's positions, or what else makes no sense
      return {.status = 400,
              .message = e.message,
              .code = e.message.starts_with("context: ") ? "context_length_exceeded" : "bad_input"};
    case ErrorKind::kUnsupported:
      return {.status = 400, .message = e.message, .code = "unsupported"};
    case ErrorKind::kResource:
      if (e.message.find("slots") != std::string::npos)
        return {.status = 400, .message = e.message, .code = "context_length_exceeded"};
      return {.status = 503, .message = e.message, .type = "overloaded_error", .code = "resources", .retry_after_s = 1};
    case ErrorKind::kCancelled:
      return {.status = 499, .message = e.message, .type = "cancelled_error", .code = "cancelled"};
    default:
      return {.status = 500, .message = e.message, .type = "server_error", .code = "internal"};
  }
}

Refusal refusal_of(const slipstream::Error& e, const slipstream::Served& s) {
  if (s.fate == Fate::kFull || s.fate == Fate::kTooLate)
    return {.status = 503,
            .message = e.message,
            .type = "overloaded_error",
            .code = s.fate == Fate::kFull ? "queue_full" : "deadline_unreachable",
            .retry_after_s = std::max(0.1, s.retry_after_s)};
  if (s.fate == Fate::kLate) return {.status = 504, .message = e.message, .type = "timeout_error", .code = "deadline_exceeded"};
  return refusal_of(e);
}

void App::complete(const std::shared_ptr<Exchange>& exchange, bool chat) {
  if (const auto no = not_ready()) {
    metrics_.rejected(no->code == "draining" ? "draining" : "loading");
    return exchange->reply(refuse(*no));
  }
  auto read = read_completion(exchange->request().body, chat, options_.allowed);
  if (const auto* no = std::get_if<Refusal>(&read)) {
    metrics_.rejected("bad_request");
    return exchange->reply(refuse(*no));
  }
  std::make_shared<Completing>(*this, exchange, std::move(std::get<CompletionRequest>(read)),
                               key_of(exchange->request()).value_or(""))
      ->start();
}

Completing::Completing(App& app, std::shared_ptr<Exchange> exchange, CompletionRequest request, std::string key)
    : app_(app), exchange_(std::move(exchange)), request_(std::move(request)), key_(std::move(key)) {
  head_ = reply_head(request_.chat, app_.options_.model_name, app_.service()->fingerprint());
}

std::optional<Refusal> check_asked(CompletionRequest& request, slipstream::Service& service, const std::string& model,
                                   const std::string& head, const Allowed& allowed) {
  if (auto wrong = check_names(request, model, head)) return wrong;
  auto most = service.most_tokens(request.request);
  if (!most) {
    most.error().message = without_folder(std::move(most.error().message), service.info().folder, model);
    Refusal r = refusal_of(most.error());
    r.param = "response_format";
    return r;
  }
  return check_max_tokens(request, *most, allowed);
}

namespace {

Refusal out_of_time() {
  return {.status = 503,
          .message = "server: expected time to finish the answer, got none left: it drains",
          .type = "overloaded_error",
          .code = "draining",
          .retry_after_s = 1};
}

}  // namespace

void Completing::refuse(const Refusal& refusal, const char* reason) {
  app_.metrics_.rejected(reason);
  exchange_->reply(App::refuse(refusal));
}

double Completing::deadline_ms() const {
  return request_.terms.deadline_ms > 0 ? request_.terms.deadline_ms : app_.options_.default_deadline_ms;
}

bool Completing::is_over() {
  const bool gone = exchange_->hang_up().cancelled();
  if (!gone && (deadline_ms() <= 0 || ms_since(begun_) < deadline_ms())) return false;
  fail({ErrorKind::kCancelled, gone ? "admit: expected to finish, got cancelled after 0 passes"
                                    : "admit: expected to finish before the deadline, got 0 passes done"},
       {.fate = gone ? Fate::kCancelled : Fate::kLate});
  return true;
}

bool Completing::read_pictures(std::shared_ptr<void>& room) {
  const auto no = [&](const Refusal& r, const char* reason) {
    refuse(r, reason);
    return false;
  };
  const int64_t bytes = decoded_bytes(request_.images), most = app_.pictures_.most();
  if (bytes > most)
    return no({.message = fmt::format("images: expected pictures of at most {} bytes decoded, all together, got {}", most, bytes),
               .param = "messages",
               .code = "invalid_image"},
              "bad_request");
  room = app_.pictures_.take(bytes);
  if (!room)
    return no(refusal_of({ErrorKind::kResource, "admit: expected room for the pictures of a further request, got a full server"},
                         {.fate = Fate::kFull, .retry_after_s = 1}),
              "full");
  for (size_t i = 0; i < request_.images.size(); ++i) {
    if (is_over()) return false;
    if (const auto wrong = decode_image(request_, i, app_.options_.allowed.images))
      return no(*wrong, wrong->status == 503 ? "full" : "bad_request");
  }
  request_.images.clear();
  return true;
}

void Completing::start() {
  if (request_.images.empty() && !request_.brings_schema) return begin();
  exchange_->apart([self = shared_from_this()] {
    try {
      if (!self->is_over()) self->begin();
    } catch (const std::exception& e) {
      self->exchange_->reply(App::of_exception(e));
    }
  });
}

void Completing::begin() {
  const AppOptions& options = app_.options_;
  if (const auto wrong = check_asked(request_, *app_.service(), options.model_name, options.trajectory_head, options.allowed))
    return refuse(*wrong, "bad_request");
  under_way_ = app_.take_place(key_, app_.options_.most_per_key);
  if (!under_way_)
    return refuse({.status = 429,
                   .message = fmt::format("key: expected at most {} requests under way, got one more", app_.options_.most_per_key),
                   .type = "rate_limit_error",
                   .code = "quota",
                   .retry_after_s = 1},
                  "quota");
  slipstream::Request& r = request_.request;
  slipstream::Terms terms = request_.terms;
  terms.key = key_;
  terms.deadline_ms = deadline_ms();
  take_own_decoder(app_.options_.decoder, request_.names_auto, r);
  if (terms.deadline_ms > 0) terms.deadline_ms = std::max(1e-3, terms.deadline_ms - ms_since(begun_));
  r.images.resize(request_.images.size());  // before they are read: how many there are is what counts
  const slipstream::Served outlook = app_.service()->outlook(r, terms);
  r.images.clear();
  if (outlook.fate == Fate::kFull || outlook.fate == Fate::kTooLate)
    return refuse(refusal_of({ErrorKind::kResource, outlook.fate == Fate::kFull
                                                        ? "admit: expected room for a further request, got a full server"
                                                        : "admit: expected a deadline that can be met, got one before that"},
                             outlook),
                  outlook.fate == Fate::kFull ? "full" : "deadline");
  const auto decoding = Clock::now();
  std::shared_ptr<void> room;  // until the service has taken the pictures
  if (!read_pictures(room)) return;
  if (!request_.session.empty() && r.prediction.empty()) r.previous = app_.sessions_.last(session_name());
  r.cancel = exchange_->hang_up();
  // Counted from the request's arrival: what its pictures took is gone.
  if (terms.deadline_ms > 0) terms.deadline_ms = std::max(1e-3, terms.deadline_ms - ms_since(decoding));
  const auto self = shared_from_this();
  exchange_->request().place.reset();  // before it is answered, for whoever asks next
  app_.service()->submit(
      r, terms, [self](const slipstream::Event& e) { self->told(e); },
      [self](slipstream::Result<slipstream::Answer> answer, const slipstream::Served& served) {
        try {
          self->done(answer, served);
        } catch (const std::exception&) {  // no memory for a reply
          self->exchange_->give_up();
          throw;
        }
      });
  r.images = {};  // nobody looks at them any more
}

TokenBytes Completing::bytes_of() const {
  return [service = app_.service()](int32_t id) { return service->token_bytes(id); };
}

void Completing::begin_stream() {
  if (streaming_) return;
  streaming_ = true;
  exchange_->begin_stream({200, "text/event-stream", "", {{"Cache-Control", "no-cache"}, {"X-Accel-Buffering", "no"}}});
}

void Completing::send(json::object object) { exchange_->send(event(object)); }

void Completing::told(const slipstream::Event& e) {
  using Kind = slipstream::Event::Kind;
  const bool tells = e.kind == Kind::kText || e.kind == Kind::kField || e.kind == Kind::kPlan;
  if (tells && first_ms_ == 0) first_ms_ = std::max(ms_since(whole_), 1e-3);
  so_far_.take(e);
  if (e.kind == Kind::kText) content_ += e.text;
  if (e.kind == Kind::kField && request_.partial) {
    auto value = parse_json(e.field->json, "value");
    fields_[e.field->name] = value ? std::move(*value) : json::value(e.field->text);
  }
  if (e.kind == Kind::kPlan && request_.partial) plan_.take(e);
  const bool early = e.kind == Kind::kPlan && request_.request.fast_plan;
  if (!request_.stream || (e.kind != Kind::kText && !request_.include_fields && !early)) return;
  begin_stream();
  if (e.kind != Kind::kText) return send(event_chunk(head_, e));
  send(chunk(head_, {text_choice(head_, 0, e.text, !std::exchange(sent_text_, true))}));
}

/// The answer goes to its session before somebody can ask for the next one, and to the thread that makes the reply's text.
void Completing::done(slipstream::Result<slipstream::Answer>& answer, const slipstream::Served& served) {
  if (!answer) return fail(answer.error(), served);
  app_.metrics_.answered(*answer, served, first_ms_, finish_reason(*answer), ms_since(whole_));
  const auto made = std::make_shared<const slipstream::Answer>(std::move(*answer));
  if (!request_.session.empty()) app_.sessions_.keep(session_name(), made);
  exchange_->later([self = shared_from_this(), made, served] { self->reply(*made, served); });
}

Pieces with_log_probs(std::string_view text, int32_t choices, std::string_view log_probs) {
  constexpr std::string_view kNone = "\"logprobs\":null";  // stands in no value, whose quotes are escaped
  const auto with = std::make_shared<const std::string>(fmt::format("\"logprobs\":{}", log_probs));
  Pieces out;
  for (int32_t i = 0; i < choices; ++i) {
    const size_t at = text.find(kNone);
    if (at == std::string_view::npos) break;
    out.push_back(std::make_shared<const std::string>(text.substr(0, at)));
    out.push_back(with);
    text.remove_prefix(at + kNone.size());
  }
  out.push_back(std::make_shared<const std::string>(text));
  return out;
}

/// The log-probabilities as text; empty where there are none. From then on the request makes replies without them.
std::string Completing::take_log_probs(const slipstream::Answer& answer) {
  if (!request_.log_probs) return "";
  const json::value log_probs = log_probs_of(request_, answer, bytes_of());
  request_.log_probs = false;
  return log_probs.is_null() ? "" : slipstream::to_valid_utf8(json::serialize(log_probs));
}

void Completing::reply(const slipstream::Answer& answer, const slipstream::Served& served) {
  if (request_.stream) return end_stream(answer, served);
  const std::string log_probs = take_log_probs(answer);
  HttpReply out;
  out.body = slipstream::to_valid_utf8(json::serialize(completion(head_, request_, answer, served, bytes_of())));
  if (!log_probs.empty()) {
    out.more = with_log_probs(out.body, request_.choices, log_probs);
    out.body.clear();
  }
  exchange_->reply(std::move(out));
}

/// What of the texts has not been told.
void Completing::send_rest(const slipstream::Answer& answer) {
  for (int32_t i = 0; i < request_.choices; ++i) {
    const auto at = static_cast<size_t>(i);
    const std::string whole = slipstream::to_valid_utf8(at < answer.texts.size() ? answer.texts[at] : answer.text);
    std::string_view text = whole;
    if (i == 0) {
      if (!text.starts_with(content_))
        log(LogLevel::kError, "serve: {}: what was streamed is not the answer's beginning", head_.id);
      text.remove_prefix(std::min(text.size(), content_.size()));
    }
    if (!text.empty() || (i == 0 && !sent_text_)) send(chunk(head_, {text_choice(head_, i, text, i > 0 || !sent_text_)}));
  }
}

void Completing::end_stream(const slipstream::Answer& answer, const slipstream::Served& served) {
  begin_stream();
  send_rest(answer);
  const std::string log_probs = take_log_probs(answer);
  json::array ends;
  for (int32_t i = 0; i < request_.choices; ++i)
    ends.emplace_back(text_choice(head_, i, "", false, finish_reason(answer, static_cast<size_t>(i))));
  json::object end = chunk(head_, std::move(ends));
  CompletionRequest of_no_choice;
  of_no_choice.choices = 0;
  end["slipstream"] = completion(head_, of_no_choice, answer, served, bytes_of()).at("slipstream");
  if (log_probs.empty())
    send(std::move(end));
  else
    exchange_->send(with_log_probs(event(end), request_.choices, log_probs));
  send_usage(usage_of(answer, request_));
  Completing::end();
}

void Completing::send_usage(json::object usage) {
  if (!request_.include_usage) return;
  json::object out = chunk(head_, {});
  out["usage"] = std::move(usage);
  send(std::move(out));
}

void Completing::end() {
  exchange_->send(std::string(kDone));
  exchange_->end();
}

void SoFar::take(const slipstream::Event& e) {
  statistics_.tokens = statistics_.all_tokens = std::max(statistics_.tokens, e.tokens);
  if (e.kind != slipstream::Event::Kind::kPass) return;
  statistics_.tested = e.tested;
  statistics_.accepted = e.accepted;
}

json::object SoFar::usage(const CompletionRequest& request, const slipstream::Served& served) const {
  slipstream::Answer answer;
  answer.statistics = statistics_;
  answer.statistics.prompt_rows = served.prompt_rows;
  answer.statistics.reused_rows = served.kept_rows;
  return usage_of(answer, request);
}

json::object with_choices(json::object reply, int32_t choices) {
  json::array& all = reply.at("choices").as_array();
  const json::value first = all.front();
  for (int32_t i = 1; i < choices; ++i) {
    json::object one = first.as_object();
    one["index"] = i;
    all.emplace_back(std::move(one));
  }
  return reply;
}

void Completing::fail(const slipstream::Error& error, const slipstream::Served& served) {
  app_.metrics_.failed(served.fate, error.kind);
  if (served.fate == Fate::kLate && request_.partial) return tell_part(served);
  // Who waits for it still is told, at the end of the server's time.
  const Refusal refusal =
      served.fate == Fate::kCancelled && app_.draining() ? out_of_time() : refusal_of(app_.outward(error), served);
  if (!streaming_) return exchange_->reply(App::refuse(refusal));
  send_usage(so_far_.usage(request_, served));  // before the error, behind which clients read nothing
  send(error_body(refusal));
  end();
}

/// What was certain when the deadline passed. Greedy choices are copies; of rollouts no text is told before they end.
void Completing::tell_part(const slipstream::Served& served) {
  const json::object usage = so_far_.usage(request_, served);
  if (!request_.stream) {
    json::object out = with_choices(partial_completion(head_, content_, fields_, plan_, served), request_.choices);
    out["usage"] = usage;
    return exchange_->reply({200, "application/json", slipstream::to_valid_utf8(json::serialize(out)), {}});
  }
  begin_stream();
  json::array ends;
  for (int32_t i = 0; i < request_.choices; ++i) {
    const bool told = i == 0 ? sent_text_ : !content_.empty();
    if (i > 0 && told) send(chunk(head_, {text_choice(head_, i, content_, true)}));
    ends.emplace_back(text_choice(head_, i, "", !told, "length"));
  }
  json::object last = chunk(head_, std::move(ends));
  last["partial"] = true;
  last["slipstream"] = partial_part(fields_, plan_, served);
  send(std::move(last));
  send_usage(usage);
  end();
}

}  // namespace slip::server
