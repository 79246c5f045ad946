// SPDX-License-Identifier: Apache-2.0
// HTTP and websockets for an application that knows neither of them. One thread reads and writes; the application is called on workers and answers
// from any thread, now or later; what is heavy before a request is asked has threads of its own, and large replies are made on one. Boost.Beast stays inside of http.cc.
//
// Limits: a request's head must be there within 16 KiB and within `head_s`, counted for a connection's first request from its opening and for
// further ones from their first byte. Its body must be there within `body_bytes` and within `body_s` plus the time that its size takes at
// `least_bytes_per_s`, and no piece of it may come later than `piece_s` behind the one before. What stands between its chunks, and its trailers,
// have 64 KiB. A connection that was answered waits `idle_s` for its next request, or `head_s` where more than half of all `connections` are open. A reply, or a piece of a stream, must be taken within
// 30 s. A message of a websocket has the limits of the largest body. Who hangs up is noticed at once: the exchange's token is cancelled.
//
// Bodies that come or are read by the application have `all_bodies_bytes` together, messages of websockets among them. They take room as they
// come, a quarter more again and again, and those above 1 MiB leave an eighth to smaller ones. A request that finds none, or announces more than there is, is refused; a websocket is not read until
// there is.
#pragma once
#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/result.h"

namespace slip::server {

/// Capital letters of ASCII become small ones: names of fields, hosts and schemes have no case.
std::string lower(std::string_view text);

struct HttpRequest {
  std::string method, path, query;            // path: without the query, percent-decoding left to whoever needs it
  std::map<std::string, std::string> header;  // names in lower case
  std::string body;
  std::chrono::steady_clock::time_point arrived = std::chrono::steady_clock::now();  // when its head was read ...
  std::chrono::steady_clock::time_point whole = arrived;                             // ... and all of its body
  mutable std::shared_ptr<void> place;  // the application's, from admits() until who handles it lets go
  std::string_view field(const std::string& name) const {
    const auto at = header.find(name);
    return at == header.end() ? std::string_view() : std::string_view(at->second);
  }
};

/// A text in pieces. One that stands in it several times is there once.
using Pieces = std::vector<std::shared_ptr<const std::string>>;

struct HttpReply {
  int status = 200;
  std::string type = "application/json";
  std::string body;
  std::vector<std::pair<std::string, std::string>> header;
  Pieces more = {};  // of the body, behind `body`
};

/// One request and its answer. Thread-safe. Exactly one of reply(), begin_stream() .. end() and give_up() is called; what comes after a
/// hang-up is dropped.
class Exchange {
 public:
  virtual ~Exchange() = default;
  virtual const HttpRequest& request() const = 0;
  /// Cancelled when the other side has gone, or the server has no more time for what is under way.
  virtual CancelToken& hang_up() = 0;
  virtual void reply(HttpReply reply) = 0;
  /// A body of unknown length, in chunks: server-sent events.
  virtual void begin_stream(HttpReply head) = 0;
  virtual void send(std::string chunk) = 0;
  virtual void send(Pieces chunk) = 0;
  virtual void end() = 0;
  /// What may take seconds before a request is asked, such as reading its pictures: on threads for that, as many as there are workers, so that small
  /// requests need not wait for it. Always done, but behind the server's end; what it throws gives the exchange up.
  virtual void apart(std::function<void()> work) = 0;
  /// What takes time, such as the text of a large reply: on a thread for that, one behind the other. What it throws gives the exchange up; where the
  /// other side has gone, and behind the server's end, it is dropped.
  virtual void later(std::function<void()> work) = 0;
  /// In place of what is left of an answer, where memory is too short for it: the connection closes.
  virtual void give_up() noexcept = 0;
};

/// A websocket that is open. Thread-safe.
class Socket {
 public:
  virtual ~Socket() = default;
  virtual const HttpRequest& request() const = 0;  // of the upgrade
  virtual void send(std::string message, bool binary) = 0;
  virtual void close(std::string reason) = 0;
  /// On a worker, behind what is under way for this socket.
  virtual void run(std::function<void()> work) = 0;
};
/// What the application does with one; calls come one after another on workers.
class SocketUser {
 public:
  virtual ~SocketUser() = default;
  virtual void opened(std::shared_ptr<Socket> socket) = 0;
  virtual void received(std::string message, bool binary) = 0;
  virtual void closed() = 0;
};

class Application {
 public:
  virtual ~Application() = default;
  /// Before a body is read: a reply refuses the request. On the reading thread: quick.
  virtual bool admits(HttpRequest& head, HttpReply& refusal) = 0;
  /// On a worker.
  virtual void handle(std::shared_ptr<Exchange> exchange) = 0;
  /// Small questions, answered on the reading thread so that they are answered under any load; false: to a worker.
  virtual bool handle_now(const HttpRequest& request, HttpReply& reply) = 0;
  /// Null: no websocket there (the reply says so).
  virtual std::shared_ptr<SocketUser> upgrade(const HttpRequest& request, HttpReply& refusal) = 0;
  /// The body of an error of HTTP itself: too large, malformed.
  virtual HttpReply error(int status, std::string_view message) = 0;
};

struct HttpOptions {
  std::string host = "127.0.0.1";
  uint16_t port = 8080;
  size_t body_bytes = size_t{32} << 20, all_bodies_bytes = size_t{512} << 20;
  int head_s = 10, idle_s = 300, body_s = 60, piece_s = 30;
  size_t least_bytes_per_s = size_t{256} << 10;  // a body of 32 MiB then has 188 s
  int workers = 2;
  int connections = 1024;
};

class HttpServer {
 public:
  /// Listens. kResource where the address cannot be had.
  static Result<std::unique_ptr<HttpServer>> listen(const HttpOptions& options, Application& application);
  /// Ends all connections.
  virtual ~HttpServer() = default;
  virtual uint16_t port() const = 0;
  /// No further connections. What is under way has had its time: its tokens are cancelled, and what is then said of it is still written.
  virtual void stop_accepting() = 0;
  virtual int open_connections() const = 0;
  /// Ends all connections and calls no application any more. What others still say to exchanges is dropped.
  virtual void stop() = 0;
};

}  // namespace slip::server
