// SPDX-License-Identifier: Apache-2.0
// See serve.h. It listens before the model is loaded, so that whoever asks is told to wait; at the end the service goes before the sockets.
#include "server/serve.h"

#include <malloc.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <thread>

#include "base/file.h"
#include "base/interrupt.h"
#include "base/json/flaws.h"
#include "base/json/shown.h"
#include "base/log.h"
#include "server/app.h"
#include "server/files/below.h"

namespace slip::server {
namespace {

using Clock = std::chrono::steady_clock;
constexpr int kDefaultSlots = 32768;                    // committed by the system where they are written only
constexpr int kLeastSlots = 129, kMostSlots = 1 << 24;  // costs are measured at the start, by passes of up to 128 rows behind one

Result<std::vector<std::string>> read_keys(const std::string& file) {
  std::vector<std::string> out;
  if (file.empty()) return out;
  SLIP_TRY(const std::string text, read_file(file, size_t{1} << 20));
  for (size_t at = 0; at < text.size();) {
    const size_t end = std::min(text.find('\n', at), text.size());
    std::string line = text.substr(at, end - at);
    while (!line.empty() && (line.back() == '\r' || line.back() == ' ')) line.pop_back();
    if (!line.empty() && line[0] != '#') out.push_back(std::move(line));
    at = end + 1;
  }
  if (out.empty()) return bad_input("{}: expected a key a line, got none", file);
  return out;
}

/// Metrics are a letter or more behind it.
bool begins_metrics(std::string_view prefix) {
  const auto fits = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' || c == ':';
  };
  return std::all_of(prefix.begin(), prefix.end(), fits) && (prefix.empty() || prefix[0] < '0' || prefix[0] > '9');
}

Status check_words(const ServeOptions& o) {
  if (!begins_metrics(o.metrics_prefix))
    return usage_error("--metrics-prefix: expected letters, digits, _ and :, no digit first, got {}", shown(o.metrics_prefix));
  if (o.engine.slots != 0 && (o.engine.slots < kLeastSlots || o.engine.slots > kMostSlots))
    return usage_error("--slots: expected 0 (which is {}) or {} to {}, got {}", kDefaultSlots, kLeastSlots, kMostSlots,
                       o.engine.slots);
  if (!o.hosts.empty() && (!o.api_key_file.empty() || !is_loopback(o.host)))
    return usage_error("--allow-host: expected a server without keys on a loopback address, which alone looks at names, got {}",
                       o.api_key_file.empty() ? shown(o.host) : "one with keys");
  for (const std::string& host : o.hosts)
    if (host.empty() || host.find_first_of(":/[] ") != std::string::npos)
      return usage_error("--allow-host: expected a host's name without port, got {}", shown(host));
  return {};
}

Result<AppOptions> app_options(const ServeOptions& o) {
  AppOptions out;
  SLIP_TRY_(check_words(o));
  if (!o.media_path.empty()) SLIP_TRY_(check_folder("--media-path", o.media_path));
  if (!o.page_folder.empty()) SLIP_TRY_(check_folder("--page", o.page_folder));
  SLIP_TRY(out.keys, read_keys(o.api_key_file));
  out.asks_host = out.keys.empty() && is_loopback(o.host);
  for (const std::string& host : o.hosts) out.hosts.push_back(lower(host));
  out.most_per_key = o.most_per_key;
  const std::filesystem::path folder = std::filesystem::weakly_canonical(o.model);
  out.model_name = o.name.empty() ? folder.filename().string() : o.name;
  out.metrics_prefix = o.metrics_prefix;
  out.page_folder = o.page_folder;
  out.default_deadline_ms = o.deadline_ms;
  SLIP_TRY_(slipstream::check_decoder(o.decoder, o.model));
  out.decoder = o.decoder;
  out.trajectory_head = o.engine.trajectory_head;
  out.allowed.images.media_path = o.media_path;
  for (std::string& form : slipstream::builtin_forms()) out.allowed.builtin.insert(std::move(form));
  for (const std::string& form : o.forms) {
    const size_t equals = form.find('=');
    if (equals == 0 || equals == std::string::npos) return usage_error("--form: expected NAME=FILE, got {}", form);
    const std::string name = form.substr(0, equals);
    if (name == "model" || name == "none" || out.allowed.builtin.contains(name) || out.allowed.forms.contains(name))
      return usage_error("--form: expected a name that no other form has, got {}", name);
    SLIP_TRY(std::string text, read_file(form.substr(equals + 1), size_t{16} << 20));
    SLIP_TRY_(check_json(text, form.substr(equals + 1)));
    out.allowed.forms[name] = std::move(text);
  }
  return out;
}

/// Bodies and pictures come and go in every size: what is large is the system's again as soon as it is free, and threads share heaps.
void keep_memory_flat() {
#ifdef __GLIBC__
  ::mallopt(M_MMAP_THRESHOLD, 1 << 20);
  ::mallopt(M_ARENA_MAX, 4);
#endif
}
/// What lies free between what is used, in pieces too small for the above.
void give_memory_back() {
#ifdef __GLIBC__
  ::malloc_trim(0);
#endif
}

/// Meanwhile, a tenth of a second behind the last of some requests, their memory goes back.
void wait_until_told(const App& app) {
  constexpr int kRested = 10;
  for (int idle = kRested; !interrupted(); std::this_thread::sleep_for(std::chrono::milliseconds(10))) {
    idle = app.under_way() > 0 ? 0 : std::min(idle + 1, kRested + 1);
    if (idle == kRested) give_memory_back();
  }
}

}  // namespace

std::string url_of(std::string_view host, int port) {
  return host.find(':') == std::string_view::npos ? fmt::format("http://{}:{}/", host, port)
                                                  : fmt::format("http://[{}]:{}/", host, port);
}

Status serve(const ServeOptions& o, const slipstream::Progress& progress) {
  keep_memory_flat();
  set_interrupt_grace(static_cast<int>(o.drain_timeout_s * 1000) + 10'000);
  SLIP_TRY(AppOptions app_options_read, app_options(o));
  App app(std::move(app_options_read));
  const HttpOptions http{.host = o.host, .port = static_cast<uint16_t>(o.port), .workers = std::max(1, o.workers)};
  SLIP_TRY(const std::unique_ptr<HttpServer> server, HttpServer::listen(http, app));
  if (!o.port_file.empty()) SLIP_TRY_(write_file(o.port_file, fmt::format("{}\n", server->port())));
  slipstream::EngineOptions engine_options = o.engine;
  if (engine_options.slots <= 0) engine_options.slots = kDefaultSlots;
  const CancelToken cancel = CancelToken::of_process();
  auto engine = slipstream::Engine::load(o.model, engine_options, progress, cancel);
  auto service = engine ? slipstream::Service::start(std::move(*engine), o.service, cancel) : engine.error();
  if (!service && service.error().kind == ErrorKind::kCancelled)
    return {};  // told to end before it was ready: nothing is under way
  {
    SLIP_TRY(slipstream::Service running, std::move(service));
    app.serve(running);
    if (log_level() < LogLevel::kError)  // --quiet
      write_log(LogLevel::kInfo, fmt::format("serve: {} at {}", app.options().model_name, url_of(o.host, server->port())));
    wait_until_told(app);
    app.drain();
    const auto end = Clock::now() + std::chrono::duration<double>(o.drain_timeout_s);
    while (app.under_way() > 0 && Clock::now() < end) std::this_thread::sleep_for(std::chrono::milliseconds(5));
    server->stop_accepting();  // so long /health says that it drains
    // Replies that are made still have to be written.
    for (int i = 0; i < 200 && server->open_connections() > 0; ++i) std::this_thread::sleep_for(std::chrono::milliseconds(5));
    server->stop();  // before the service goes: nobody asks it any more
  }
  return {};
}

}  // namespace slip::server
