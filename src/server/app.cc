// SPDX-License-Identifier: Apache-2.0
// See app.h. Completions are in completing.cc, the websocket in policy_socket.cc.
#include "server/app.h"

#include <arpa/inet.h>

#include <algorithm>
#include <array>
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

/// A Host header's name: without its port, the brackets of an IPv6 address and the root's dot.
std::string name_of_host(std::string_view host) {
  if (host.starts_with('[')) return lower(host.substr(1, std::min(host.find(']'), host.size()) - 1));
  std::string name = lower(host.substr(0, host.find(':')));
  if (name.ends_with('.')) name.pop_back();
  return name;
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

/// Ids to put together, and the bytes in which they may be written.
constexpr size_t kMostIds = size_t{1} << 20, kMostOfIds = size_t{16} << 20;

constexpr std::array<std::string_view, 4> kPosts{"/v1/chat/completions", "/v1/completions", "/tokenize", "/detokenize"};
constexpr std::array<std::string_view, 9> kGets{"/",          "/livez",    "/health", "/healthz", "/metrics",
                                                "/v1/models", "/v1/forms", "/props",  "/v1/scene"};
constexpr std::string_view kOneModel = "/v1/models/", kOneForm = "/v1/forms/";
bool reads(const HttpRequest& r) { return r.method == "GET" || r.method == "HEAD"; }

/// Asks without a body, and so without room for one.
bool only_asks(const HttpRequest& head) {
  const std::string_view length = head.field("content-length");
  return reads(head) && (length.empty() || length == "0") && head.field("transfer-encoding").empty() &&
         head.field("upgrade").empty();
}
bool is_open(std::string_view path) { return path == "/health" || path == "/livez" || path == "/healthz"; }

}  // namespace

bool is_loopback(const std::string& host) {
  in_addr four{};
  if (::inet_pton(AF_INET, host.c_str(), &four) == 1) return ntohl(four.s_addr) >> 24 == 127;
  in6_addr six{};
  if (::inet_pton(AF_INET6, host.c_str(), &six) != 1) return host == "localhost";
  return IN6_IS_ADDR_LOOPBACK(&six) || (IN6_IS_ADDR_V4MAPPED(&six) && six.s6_addr[12] == 127);
}

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
  if (r.status == 401) out.header.emplace_back("WWW-Authenticate", "Bearer");
  return out;
}

HttpReply App::reject(const Refusal& r, const char* reason) {
  metrics_.rejected(reason);
  return refuse(r);
}

HttpReply App::error(int status, std::string_view message) {
  const bool full = status == 503;
  const char* const code = full ? "bodies" : status == 413 ? "body_too_large" : "malformed";
  return reject({.status = status,
                 .message = std::string(message),
                 .type = full ? "overloaded_error" : "invalid_request_error",
                 .code = code,
                 .retry_after_s = full ? 1.0 : 0.0},
                code);
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
  const size_t end = shown.find(' ');
  const std::string scheme = lower(shown.substr(0, end));
  if (scheme != "bearer" && scheme != "api-key") return std::nullopt;
  shown.remove_prefix(std::min(shown.find_first_not_of(' ', end), shown.size()));
  for (const std::string& key : options_.keys)
    if (same_secret(key, shown)) return key;
  return std::nullopt;
}

bool App::admits(HttpRequest& head, HttpReply& refusal) {
  const bool of_page = options_.page_folder.empty() && built_in_page(head.path) != nullptr;
  if (only_asks(head) && (is_open(head.path) || of_page)) return true;
  if (!key_of(head)) {
    refusal = reject({.status = 401,
                      .message = "authorization: expected a key of this server (Authorization: Bearer KEY), got none or another",
                      .type = "authentication_error",
                      .code = "invalid_api_key"},
                     "key");
    return false;
  }
  return is_proper(head, refusal) && take_room(head, refusal);
}

/// A page of another site may give its own name this machine's loopback address, and then comes from its own server for the browser. Where
/// nobody shows a key, the names that lead here are the only ones that may be asked by.
bool App::is_own_host(const HttpRequest& head) const {
  const std::string_view host = head.field("host");
  if (!options_.asks_host || host.empty()) return true;  // browsers always name one
  const std::string name = name_of_host(host);
  return is_loopback(name) || std::find(options_.hosts.begin(), options_.hosts.end(), name) != options_.hosts.end();
}

bool App::is_proper(const HttpRequest& head, HttpReply& refusal) {
  const auto forbid = [&](std::string message, const char* code) {
    refusal = reject({.status = 403, .message = std::move(message), .type = "permission_error", .code = code}, code);
    return false;
  };
  if (!is_own_host(head))
    return forbid(fmt::format("host: expected localhost, a loopback address or a name that the server was started with, got {}",
                              cut(head.field("host"))),
                  "host");
  const bool asks = head.method == "POST" || !head.field("upgrade").empty();
  if (asks && is_of_another_site(head))
    return forbid(fmt::format("origin: expected this server's own page or none, got {}", cut(head.field("origin"))), "origin");
  const std::string coding = lower(head.field("content-encoding"));
  if (head.method == "POST" && !coding.empty() && coding != "identity") {
    refusal = reject({.status = 415,
                      .message = fmt::format("content-encoding: expected none, got {}", cut(coding)),
                      .code = "unsupported_media_type"},
                     "media_type");
    return false;
  }
  if (head.method != "POST" || is_json(head)) return true;
  refusal = reject({.status = 415,
                    .message = fmt::format("content-type: expected application/json, got {}", cut(head.field("content-type"))),
                    .code = "unsupported_media_type"},
                   "media_type");
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
  if (!reads(r)) return false;
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
  } else if (r.path == "/v1/models" || r.path.starts_with(kOneModel)) {
    reply = models(r.path == "/v1/models" ? "" : r.path.substr(kOneModel.size()));
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
    auto reply = reads(r) ? got(r) : std::nullopt;
    exchange->reply(reply ? std::move(*reply) : no_such(r));
  } catch (const std::exception& e) {
    exchange->reply(of_exception(e));
  }
}

HttpReply App::of_exception(const std::exception& e) {
  return refuse(
      {.status = 500, .message = fmt::format("internal error: {}", e.what()), .type = "server_error", .code = "internal"});
}

std::optional<HttpReply> App::got(const HttpRequest& r) {
  if (r.path == "/v1/forms") return forms("");
  if (r.path.starts_with(kOneForm)) return forms(r.path.substr(kOneForm.size()));
  if (r.path == "/props") return props();
  if (r.path == "/v1/scene") return scene(r);
  if (options_.page_folder.empty()) return std::nullopt;
  auto file = page_in_folder(options_.page_folder, r.path);
  if (!file) return std::nullopt;
  return HttpReply{200, file->type, file->content, {{"Cache-Control", "no-cache"}}};
}

HttpReply App::no_such(const HttpRequest& r) {
  const auto one_of = [&](const auto& paths) { return std::find(paths.begin(), paths.end(), r.path) != paths.end(); };
  const bool posted = one_of(kPosts);
  if (!posted && (reads(r) || !(one_of(kGets) || r.path.starts_with(kOneModel) || r.path.starts_with(kOneForm))))
    return reject({.status = 404, .message = "path: expected one of this server, got " + cut(r.path), .code = "not_found"},
                  "not_found");
  HttpReply out = reject({.status = 405,
                          .message = fmt::format("method: expected {}, got {}", posted ? "POST" : "GET or HEAD", cut(r.method)),
                          .code = "method_not_allowed"},
                         "method");
  out.header.emplace_back("Allow", posted ? "POST" : "GET, HEAD");
  return out;
}

HttpReply App::models(const std::string& id) {
  slipstream::Service* const s = service_;
  json::object model;
  if (s)
    model = {{"id", options_.model_name},
             {"object", "model"},
             {"created", 0},
             {"owned_by", "slipstream"},
             {"max_model_len", longest_context(s->info())}};
  if (id.empty()) return json_reply({{"object", "list"}, {"data", s ? json::array{std::move(model)} : json::array{}}});
  if (const auto no = not_ready()) return reject(*no, no->code.c_str());
  const auto name = from_percent(id);
  if (name && *name == options_.model_name) return json_reply(std::move(model));
  return reject({.status = 404,
                 .message = fmt::format("model: expected {}, got {}", options_.model_name, cut(id)),
                 .param = "model",
                 .code = "model_not_found"},
                "not_found");
}

HttpReply App::tokens(const HttpRequest& request, bool back) {
  const auto refused = [this](const Refusal& r) { return reject(r, "bad_request"); };
  if (const auto no = not_ready()) return reject(*no, no->code.c_str());
  if (back && request.body.size() > kMostOfIds)
    return refused({.message = fmt::format("body: expected at most {} bytes of ids, got {}", kMostOfIds, request.body.size()),
                    .code = "above_limit"});
  auto body = parse_json(request.body, "body");
  if (!body || !body->is_object())
    return refused({.message = body ? "body: expected an object, got another type" : body.error().message, .code = "invalid_json"});
  if (const auto flaw = check_written(request.body, "body")) return refused(*flaw);
  Reader in(body->get_object(), "");
  CompletionRequest named{.model = in.text("model").value_or("")};
  if (const auto other = check_names(named, options_.model_name, "")) return refused(*other);
  json::object out;
  if (const auto no = back ? detokenize(in, out) : tokenize(in, out)) return refused(*no);
  return json_reply(out);
}

std::optional<Refusal> App::detokenize(Reader& in, json::object& out) const {
  std::vector<int32_t> ids;
  const json::array* list = in.array("tokens");
  if (!list) in.fail("tokens", "expected a list of ids, got none");
  if (list && list->size() > kMostIds) in.fail("tokens", fmt::format("expected at most {} ids, got {}", kMostIds, list->size()));
  for (size_t i = 0; in.ok() && i < list->size(); ++i) {
    const json::value& id = (*list)[i];
    if (id.is_int64() && id.get_int64() >= 0 && id.get_int64() <= INT32_MAX)
      ids.push_back(static_cast<int32_t>(id.get_int64()));
    else
      in.fail("tokens", fmt::format("expected ids, got {}", shown_value(id)));
  }
  in.end();
  if (!in.ok()) return in.refusal();
  auto text = service_.load()->detokenize(ids);
  if (!text) return Refusal{.message = outward(text.error()).message, .param = "tokens"};
  out = {{"prompt", *text}, {"content", *text}};
  return std::nullopt;
}

std::optional<Refusal> App::tokenize(Reader& in, json::object& out) const {
  const size_t most = options_.allowed.most_text_bytes;
  auto text = in.text("prompt");
  const auto content = in.text("content");
  if (text && content) in.fail("content", "expected none beside prompt, got one");
  if (!text) text = content;
  if (!text) in.fail("prompt", "expected a text, got none");
  if (text && text->size() > most) in.fail("prompt", fmt::format("expected at most {} bytes, got {}", most, text->size()));
  in.boolean("add_special_tokens");  // of the model's own prompt, whose tokens are told
  in.nothing("return_token_strs", "ids alone");
  in.end();
  if (!in.ok()) return in.refusal();
  auto ids = service_.load()->tokenize(*text);
  if (!ids) return Refusal{.message = outward(ids.error()).message, .param = "prompt"};
  out = {{"tokens", json::value_from(*ids)}, {"count", ids->size()}, {"max_model_len", longest_context(service_.load()->info())}};
  return std::nullopt;
}

HttpReply App::forms(const std::string& path) {
  if (const auto no = not_ready()) return reject(*no, no->code.c_str());
  const slipstream::ModelInfo& info = service_.load()->info();
  if (!path.empty()) {
    const std::string name = from_percent(path).value_or("");
    if (const auto at = options_.allowed.forms.find(name); at != options_.allowed.forms.end())
      return {200, "application/json", at->second, {}};
    if (name != "model" && !options_.allowed.builtin.contains(name))
      return reject({.status = 404, .message = "form: expected one of GET /v1/forms, got " + cut(path), .code = "not_found"},
                    "not_found");
    auto told = slipstream::explain_form(name, info.folder);
    if (!told) return reject({.message = outward(told.error()).message, .param = "form"}, "bad_request");
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
  if (const auto no = not_ready()) return reject(*no, no->code.c_str());
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
  bool named = false;
  for (std::string_view rest = request.query; !rest.empty();) {
    const std::string_view part = rest.substr(0, rest.find('&'));
    rest.remove_prefix(std::min(rest.size(), part.size() + 1));
    if (!part.starts_with("seed=") || std::exchange(named, true))
      return reject({.message = "query: expected seed=N alone, got " + cut(part), .code = "bad_input"}, "bad_request");
    const auto [stop, ec] = std::from_chars(part.data() + 5, part.data() + part.size(), seed);
    if (ec != std::errc{} || stop != part.data() + part.size())
      return reject({.message = "seed: expected a whole number, got " + cut(part.substr(5)), .param = "seed"}, "bad_request");
  }
  const auto scene = slipstream::describe_scene(seed);
  if (!scene) return reject({.message = scene.error().message, .param = "seed"}, "bad_request");
  return {200, "application/json", scene->json, {}};
}

std::shared_ptr<SocketUser> App::upgrade(const HttpRequest& request, HttpReply& refusal) {
  if (const auto no = not_ready()) {
    refusal = reject(*no, no->code.c_str());
    return nullptr;
  }
  if (request.path != "/") {
    refusal = reject({.status = 404, .message = "websocket: expected the path /, got another", .code = "not_found"}, "not_found");
    return nullptr;
  }
  return make_policy_user(*this, key_of(request).value_or(""));
}

}  // namespace slip::server
