// SPDX-License-Identifier: Apache-2.0
// What the server answers: its paths, who may ask, how many at once. It knows neither sockets nor the engine's inside.
#pragma once

#include <atomic>
#include <list>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>

#include "base/room.h"
#include "server/http/http.h"
#include "server/metrics.h"
#include "server/openai_reply.h"
#include "server/sessions.h"

namespace slip::server {

struct AppOptions {
  std::vector<std::string> keys;   // none: everybody may ask
  bool asks_host = false;          // only who names this machine's loopback, or one of `hosts`, is answered
  std::vector<std::string> hosts;  // names in lower case, without a port
  int32_t most_per_key = 0;        // requests of a key under way and waiting; 0: no limit
  std::string model_name, metrics_prefix = "slipstream:", page_folder;
  Allowed allowed;
  double default_deadline_ms = 0;
  slipstream::DecoderChoice decoder;  // of requests that name none
  std::string trajectory_head;        // folder, of requests that ask for it; empty: none
};

/// Is it localhost or an address that leads to this machine alone (127.0.0.0/8, ::1)?
bool is_loopback(const std::string& host);

class App final : public Application {
 public:
  explicit App(AppOptions options);
  ~App() override;
  /// From now on it answers; before, and after drain(), it says that it does not.
  void serve(slipstream::Service& service);
  void drain() { draining_ = true; }
  /// So from the signal on, not only from when somebody has seen it.
  bool draining() const;
  /// Requests that have been taken and are not answered.
  int under_way() const { return under_way_; }

  bool admits(HttpRequest& head, HttpReply& refusal) override;
  void handle(std::shared_ptr<Exchange> exchange) override;
  bool handle_now(const HttpRequest& request, HttpReply& reply) override;
  std::shared_ptr<SocketUser> upgrade(const HttpRequest& request, HttpReply& refusal) override;
  HttpReply error(int status, std::string_view message) override;

  /// Counts a request of a key until the last owner of what comes back is gone; null where the key has `most` already (0: no limit).
  std::shared_ptr<void> take_place(const std::string& key, int32_t most);

  /// An error as somebody outside is told it.
  slipstream::Error outward(slipstream::Error error) const;

  Metrics& metrics() { return metrics_; }
  slipstream::Service* service() { return service_; }
  const AppOptions& options() const { return options_; }
  Sessions& sessions() { return sessions_; }

 private:
  friend class Completing;
  bool is_proper(const HttpRequest& head, HttpReply& refusal);
  bool take_room(HttpRequest& head, HttpReply& refusal);
  bool is_own_host(const HttpRequest& head) const;
  static HttpReply refuse(const Refusal& refusal);
  static HttpReply of_exception(const std::exception& e);
  /// The same, counted.
  HttpReply reject(const Refusal& refusal, const char* reason);
  HttpReply no_such(const HttpRequest& request);
  std::optional<HttpReply> got(const HttpRequest& request);
  std::optional<Refusal> not_ready() const;
  std::optional<std::string> key_of(const HttpRequest& request) const;
  void complete(const std::shared_ptr<Exchange>& exchange, bool chat);
  HttpReply tokens(const HttpRequest& request, bool back);
  std::optional<Refusal> tokenize(Reader& in, json::object& out) const;
  std::optional<Refusal> detokenize(Reader& in, json::object& out) const;
  HttpReply models(const std::string& id);
  HttpReply forms(const std::string& path);
  HttpReply props();
  HttpReply scene(const HttpRequest& request);

  const AppOptions options_;
  Metrics metrics_;
  Sessions sessions_;
  Room pictures_{int64_t{2} << 30};  // that are decoded, until they are ready for the tower
  std::atomic<slipstream::Service*> service_{nullptr};
  std::atomic<bool> draining_{false};
  std::atomic<int> under_way_{0}, arriving_{0};  // arriving_: questions whose bodies come, wait for a worker, or are read by one
  std::mutex mutex_;
  std::map<std::string, int32_t> by_key_;
};

}  // namespace slip::server
