// SPDX-License-Identifier: Apache-2.0
// See app.h. Completions are in completing.cc, the websocket in policy_socket.cc.
#include "server/app.h"

#include <charconv>

#include "base/interrupt.h"
#include "server/completing.h"
#include "server/openai_reply.h"
#include "server/page.h"
#include "server/policy_socket.h"

namespace slip::server {
namespace {

/// Positions that prompt and answer have together.
int32_t longest_context(const slipstream::ModelInfo& info) {
  return info.positions > 0 ? std::min(info.slots, info.positions) : info.slots;
}

HttpReply json_reply(const json::value& value, int status = 200) {
  return {status, "application/json", slipstream::to_valid_utf8(json::serialize(value)), {}};
}

/// Equal without telling by its time where they differ.
bool same_secret(std::string_view a, std::string_view b) {
  unsigned char differ = a.size() != b.size();
  for (size_t i = 0; i < a.size(); ++i) differ |= static_cast<unsigned char>(a[i] ^ (b.empty() ? 1 : b[i % b.size()]));
  return differ == 0;
}

std::string lower(std::string_view text) {
  std::string out(text);
  for (char& c : out) c = c >= 'A' && c <= 'Z' ? static_cast<char>(c + 32) : c;
  return out;
}

/// Asked by a page of another site, in the browser of somebody who can reach this server.
bool is_of_another_site(const HttpRequest& head) {
  const std::string origin = lower(head.field("origin"));
  if (origin.empty()) return false;
  const size_t at = origin.find("://");
  return at == std::string::npos || origin.substr(at + 3) != lower(head.field("host"));
}

bool is_json(const HttpRequest& head) {
  std::string type = lower(head.field("content-type"));
  type = type.substr(0, type.find(';'));
  while (type.ends_with(' ')) type.pop_back();
  return type.empty() || type == "application/json" || type.ends_with("+json");
}

/// Of a text to split: more would keep a worker busy for seconds.
constexpr size_t kMostText = size_t{4} << 20;

/// Asks without a body, and so without room for one.
bool only_asks(const HttpRequest& head) {
  const std::string_view length = head.field("content-length");
  return (head.method == "GET" || head.method == "HEAD") && (length.empty() || length == "0") &&
         head.field("transfer-encoding").empty() && head.field("upgrade").empty();
}
bool is_open(std::string_view path) { return path == "/health" || path == "/livez" || path == "/healthz"; }

}  // namespace

App::App(AppOptions options) : options_(std::move(options)), metrics_(options_.metrics_prefix, options_.model_name) {}
App::~App() = default;

bool App::draining() const { return draining_ || interrupted(); }

void App::serve(slipstream::Service& service) {
  service.on_pass([this](const slipstream::PassShared& pass) { metrics_.passed(pass); });
  service_ = &service;
}

namespace {

bool is_question(const HttpRequest& r) {
  return r.method == "POST" && (r.path == "/v1/chat/completions" || r.path == "/v1/completions");
}

}  // namespace

std::shared_ptr<void> App::take_place(const std::string& key, int32_t most) {
  const std::lock_guard lock(mutex_);
  if (const auto at = by_key_.find(key); most > 0 && at != by_key_.end() && at->second >= most) return nullptr;
  ++by_key_[key];
  ++under_way_;
  return {this, [key](void* p) {
            App& app = *static_cast<App*>(p);
            const std::lock_guard gone(app.mutex_);
            if (--app.by_key_[key] <= 0) app.by_key_.erase(key);
            --app.under_way_;
          }};
}

slipstream::Error App::outward(slipstream::Error error) const {
  if (slipstream::Service* const s = service_)
    error.message = without_folder(std::move(error.message), s->info().folder, options_.model_name);
  return error;
}

HttpReply App::refuse(const Refusal& r) {
  HttpReply out = json_reply(error_body(r), r.status);
  if (r.retry_after_s > 0)
    out.header.emplace_back("Retry-After", fmt::format("{}", std::max(1, static_cast<int>(r.retry_after_s + 0.999))));
  return out;
}

HttpReply App::error(int status, std::string_view message) {
  const bool full = status == 503;
  return refuse({.status = status,
                 .message = std::string(message),
                 .type = full ? "overloaded_error" : "invalid_request_error",
                 .code = full            ? "bodies"
                         : status == 413 ? "body_too_large"
                                         : "malformed",
                 .retry_after_s = full ? 1.0 : 0.0});
}

std::optional<Refusal> App::not_ready() const {
  if (draining())
    return Refusal{.status = 503,
                   .message = "server: expected one that takes requests, got one that drains",
                   .type = "overloaded_error",
                   .code = "draining",
                   .retry_after_s = 1};
  if (!service_)
    return Refusal{.status = 503,
                   .message = "server: expected a loaded model, got one that loads",
                   .type = "overloaded_error",
                   .code = "loading",
                   .retry_after_s = 1};
  return std::nullopt;
}

/// Whose request it is: the key that it shows; everybody is the same where there are no keys.
std::optional<std::string> App::key_of(const HttpRequest& request) const {
  if (options_.keys.empty()) return "";
  std::string_view shown = request.field("authorization");
  for (const char* scheme : {"Bearer ", "Api-Key "})
    if (shown.starts_with(scheme)) {
      shown.remove_prefix(std::string_view(scheme).size());
      for (const std::string& key : options_.keys)
        if (same_secret(key, shown)) return key;
    }
  return std::nullopt;
}

bool App::admits(HttpRequest& head, HttpReply& refusal) {
  const bool of_page = options_.page_folder.empty() && built_in_page(head.path) != nullptr;
  if (only_asks(head) && (is_open(head.path) || of_page)) return true;
  if (!key_of(head)) {
    refusal = refuse({.status = 401,
                      .message = "authorization: expected a key of this server (Authorization: Bearer KEY), got none or another",
                      .type = "authentication_error",
                      .code = "invalid_api_key"});
    return false;
  }
  return is_proper(head, refusal) && take_room(head, refusal);
}

bool App::is_proper(const HttpRequest& head, HttpReply& refusal) {
  const bool asks = head.method == "POST" || !head.field("upgrade").empty();
  if (asks && is_of_another_site(head)) {
    refusal = refuse({.status = 403,
                      .message = fmt::format("origin: expected this server's own page or none, got {}", cut(head.field("origin"))),
                      .type = "permission_error",
                      .code = "origin"});
    return false;
  }
  if (head.method != "POST" || is_json(head)) return true;
  refusal = refuse({.status = 415,
                    .message = fmt::format("content-type: expected application/json, got {}", cut(head.field("content-type"))),
                    .code = "unsupported_media_type"});
  return false;
}

/// A full server says so before it reads pictures that it has no room for; what still comes, or has still to be read, takes room too.
bool App::take_room(HttpRequest& head, HttpReply& refusal) {
  slipstream::Service* const s = service_;
  if (!s || !is_question(head)) return true;
  slipstream::Served outlook = s->outlook({}, {});
  const slipstream::ServiceLoad load = s->load();
  if (load.running + load.waiting + arriving_ >= load.room) outlook.fate = slipstream::Fate::kFull;
  if (outlook.fate != slipstream::Fate::kFull) {
    ++arriving_;
    head.place = std::shared_ptr<void>(&arriving_, [](void* n) { --*static_cast<std::atomic<int>*>(n); });
    return true;
  }
  metrics_.rejected("full");
  refusal = refuse(
      refusal_of({slipstream::ErrorKind::kResource, "admit: expected room for a further request, got a full queue"}, outlook));
  return false;
}

bool App::handle_now(const HttpRequest& r, HttpReply& reply) {
  if (r.method != "GET" && r.method != "HEAD") return false;
  if (r.path == "/livez") {
    reply = json_reply({{"status", "ok"}});
  } else if (r.path == "/health" || r.path == "/healthz") {
    const auto no = not_ready();
    reply = no ? refuse(*no) : json_reply({{"status", "ok"}});
  } else if (r.path == "/metrics") {
    slipstream::Service* s = service_;
    slipstream::ServiceLoad load;
    if (s) load = s->load();
    reply = {200, "text/plain; version=0.0.4", metrics_.text(s ? &load : nullptr), {}};
  } else if (r.path == "/v1/models") {
    json::array data;
    if (slipstream::Service* s = service_)
      data.emplace_back(json::object{{"id", options_.model_name},
                                     {"object", "model"},
                                     {"created", 0},
                                     {"owned_by", "slipstream"},
                                     {"max_model_len", longest_context(s->info())}});
    reply = json_reply({{"object", "list"}, {"data", std::move(data)}});
  } else if (const PageFile* file = options_.page_folder.empty() ? built_in_page(r.path) : nullptr) {
    reply = {200, std::string(file->type), std::string(file->content), {{"Cache-Control", "no-cache"}}};
  } else {
    return false;
  }
  return true;
}

void App::handle(std::shared_ptr<Exchange> exchange) {
  const HttpRequest& r = exchange->request();
  ++under_way_;
  const std::unique_ptr<std::atomic<int>, void (*)(std::atomic<int>*)> busy(&under_way_, [](std::atomic<int>* n) { --*n; });
  // Given back once it is read, by Completing before the service counts it, else here.
  const std::shared_ptr<void> given_back(nullptr, [exchange](void*) { exchange->request().place.reset(); });
  try {
    if (r.method == "POST" && r.path == "/v1/chat/completions") return complete(exchange, true);
    if (r.method == "POST" && r.path == "/v1/completions") return complete(exchange, false);
    if (r.method == "POST" && (r.path == "/tokenize" || r.path == "/detokenize"))
      return exchange->reply(tokens(r, r.path == "/detokenize"));
    if (r.method == "GET" && r.path == "/v1/forms") return exchange->reply(forms(""));
    if (r.method == "GET" && r.path.starts_with("/v1/forms/")) return exchange->reply(forms(r.path.substr(10)));
    if (r.method == "GET" && r.path == "/props") return exchange->reply(props());
    if (r.method == "GET" && r.path == "/v1/scene") return exchange->reply(scene(r));
    if (r.method == "GET" && !options_.page_folder.empty())
      if (auto file = page_in_folder(options_.page_folder, r.path))
        return exchange->reply({200, file->type, file->content, {{"Cache-Control", "no-cache"}}});
    const bool post_only =
        r.path == "/v1/chat/completions" || r.path == "/v1/completions" || r.path == "/tokenize" || r.path == "/detokenize";
    exchange->reply(
        refuse({.status = post_only ? 405 : 404,
                .message = fmt::format("{}: expected {}, got {}", post_only ? "method" : "path",
                                       post_only ? "POST" : "one of this server", post_only ? r.method : r.path.substr(0, 100)),
                .code = post_only ? "method_not_allowed" : "not_found"}));
  } catch (const std::exception& e) {
    exchange->reply(refuse(
        {.status = 500, .message = fmt::format("internal error: {}", e.what()), .type = "server_error", .code = "internal"}));
  }
}

HttpReply App::tokens(const HttpRequest& request, bool back) {
  if (const auto no = not_ready()) return refuse(*no);
  auto body = parse_json(request.body, "body");
  if (!body || !body->is_object())
    return refuse({.message = body ? "body: expected an object, got another type" : body.error().message, .code = "invalid_json"});
  if (const auto flaw = check_written(request.body, "body")) return refuse(*flaw);
  Reader in(body->get_object(), "");
  for (const char* key : {"model", "add_special_tokens", "return_token_strs"}) in.ignore(key);
  json::object out;
  if (back) {
    std::vector<int32_t> ids;
    const json::array* list = in.array("tokens");
    if (!list) in.fail("tokens", "expected a list of ids, got none");
    for (size_t i = 0; list && i < list->size(); ++i) {
      if (!(*list)[i].is_int64() || (*list)[i].get_int64() < 0 || (*list)[i].get_int64() > INT32_MAX)
        in.fail("tokens", fmt::format("expected ids, got {}", shown_value((*list)[i])));
      ids.push_back(in.ok() ? static_cast<int32_t>((*list)[i].get_int64()) : 0);
    }
    in.end();
    if (!in.ok()) return refuse(*in.refusal());
    auto text = service_.load()->detokenize(ids);
    if (!text) return refuse({.message = outward(text.error()).message, .param = "tokens"});
    out = {{"prompt", *text}, {"content", *text}};
  } else {
    auto text = in.text("prompt");
    if (!text) text = in.text("content");
    if (!text) in.fail("prompt", "expected a text, got none");
    if (text && text->size() > kMostText)
      in.fail("prompt", fmt::format("expected at most {} bytes, got {}", kMostText, text->size()));
    in.ignore("content");
    in.end();
    if (!in.ok()) return refuse(*in.refusal());
    auto ids = service_.load()->tokenize(*text);
    if (!ids) return refuse({.message = outward(ids.error()).message, .param = "prompt"});
    out = {{"tokens", json::value_from(*ids)}, {"count", ids->size()}, {"max_model_len", longest_context(service_.load()->info())}};
  }
  return json_reply(out);
}

HttpReply App::forms(const std::string& name) {
  if (const auto no = not_ready()) return refuse(*no);
  const slipstream::ModelInfo& info = service_.load()->info();
  if (!name.empty()) {
    if (const auto at = options_.allowed.forms.find(name); at != options_.allowed.forms.end())
      return {200, "application/json", at->second, {}};
    if (name != "model" && !options_.allowed.builtin.contains(name))
      return refuse({.status = 404, .message = "form: expected one of GET /v1/forms, got another", .code = "not_found"});
    auto told = slipstream::explain_form(name, info.folder);
    if (!told) return refuse({.message = outward(told.error()).message, .param = "form"});
    return {200, "application/json", told->json, {}};
  }
  json::array data;
  const auto add = [&](const std::string& id, bool own) {
    data.emplace_back(json::object{{"id", id}, {"object", "form"}, {"trained", own}});
  };
  if (!info.form.empty()) add("model", true);
  for (const std::string& form : options_.allowed.builtin) add(form, form == info.form);
  for (const auto& [form, schema] : options_.allowed.forms) add(form, false);
  return json_reply({{"object", "list"}, {"data", std::move(data)}});
}

HttpReply App::props() {
  if (const auto no = not_ready()) return refuse(*no);
  slipstream::Service& s = *service_.load();
  const slipstream::ModelInfo& i = s.info();
  const slipstream::ServiceLoad load = s.load();
  return json_reply(
      {{"model", options_.model_name},
       {"model_type", i.model_type},
       {"dtype", i.dtype},
       {"kv", i.kv_type},
       {"device", i.device},
       {"form", i.form},
       {"visibility", i.visibility},
       {"law", i.visibility},  // its old name
       {"vision", i.vision},
       {"can_draft", i.can_draft},
       {"slots", i.slots},
       {"fingerprint", s.fingerprint()},
       {"version", slipstream::version()},
       {"instruction_set", slipstream::instruction_set()},
       {"load", {{"running", load.running}, {"waiting", load.waiting}, {"pages", load.pages}, {"pages_held", load.pages_held}}}});
}

/// A simulated scene: what a request takes, and what the page draws around it.
HttpReply App::scene(const HttpRequest& request) {
  uint64_t seed = 900000017;
  if (request.query.starts_with("seed=")) {
    const std::string_view digits = std::string_view(request.query).substr(5);
    const auto [stop, ec] = std::from_chars(digits.data(), digits.data() + digits.size(), seed);
    if (ec != std::errc{} || stop != digits.data() + digits.size())
      return refuse({.message = "seed: expected a whole number, got another value", .param = "seed"});
  }
  const auto scene = slipstream::describe_scene(seed);
  if (!scene) return refuse({.message = scene.error().message, .param = "seed"});
  return {200, "application/json", scene->json, {}};
}

std::shared_ptr<SocketUser> App::upgrade(const HttpRequest& request, HttpReply& refusal) {
  if (const auto no = not_ready()) {
    refusal = refuse(*no);
    return nullptr;
  }
  if (request.path != "/") {
    refusal = refuse({.status = 404, .message = "websocket: expected the path /, got another", .code = "not_found"});
    return nullptr;
  }
  return make_policy_user(*this, key_of(request).value_or(""));
}

}  // namespace slip::server
