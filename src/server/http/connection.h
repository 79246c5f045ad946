// SPDX-License-Identifier: Apache-2.0
// Inside of server/http/: what requests and websockets of a connection share. Memory may be short anywhere: a coroutine whose next step
// finds none is destroyed where it waits, so that what has to be undone is undone by destructors.
#pragma once
#include <algorithm>
#include <atomic>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/redirect_error.hpp>
#include <boost/asio/thread_pool.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <boost/beast/core.hpp>
#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <utility>

#include "server/http/http.h"

namespace slip::server {

constexpr std::chrono::milliseconds kBreath{2};  // between looks at what cannot be waited for

inline auto into(boost::beast::error_code& ec) { return boost::asio::redirect_error(boost::asio::use_awaitable, ec); }

/// What all connections count together; the last of them may end behind the server.
struct Counts {
  std::atomic<int> open{0};         // connections
  std::atomic<uint64_t> bodies{0};  // bytes that have room
  std::atomic<bool> draining{false}, stopped{false};
};

/// Room for a body, which it takes as it comes, until its request is answered. It grows on the reading thread alone.
class BodyRoom {
 public:
  explicit BodyRoom(std::shared_ptr<Counts> counts) : counts_(std::move(counts)) {}
  ~BodyRoom() { counts_->bodies -= bytes_; }
  BodyRoom(const BodyRoom&) = delete;
  BodyRoom& operator=(const BodyRoom&) = delete;
  uint64_t bytes() const { return bytes_; }
  /// So many bytes from now on. False, and as it was, where all bodies would then hold more than `all`.
  bool resize(uint64_t bytes, uint64_t all) {
    if (bytes > bytes_ && counts_->bodies + (bytes - bytes_) > all) return false;
    counts_->bodies += bytes - bytes_;  // modulo 2^64
    bytes_ = bytes;
    return true;
  }

 private:
  const std::shared_ptr<Counts> counts_;
  uint64_t bytes_ = 0;
};
/// Bodies larger than this leave an eighth of the room to smaller ones, where there is room for eight of the largest.
constexpr uint64_t kSmallBody = uint64_t{1} << 20;
inline uint64_t limit_of_all(const HttpOptions& o, uint64_t bytes) {
  const bool leaves = bytes > kSmallBody && o.all_bodies_bytes / 8 >= o.body_bytes;
  return leaves ? o.all_bodies_bytes - o.all_bodies_bytes / 8 : o.all_bodies_bytes;
}
/// Where a body's room is not enough for what has `come` of it and a piece more, a quarter more: who announces much and sends little holds little.
constexpr uint64_t kFirstPiece = uint64_t{64} << 10;
inline uint64_t next_room(const BodyRoom& room, uint64_t come, uint64_t most) {
  const uint64_t need = std::min(most, come + kFirstPiece);
  return need <= room.bytes() ? room.bytes() : std::min(most, std::max(room.bytes() + room.bytes() / 4, need));
}

/// A client's line, open as long as somebody holds it.
struct Connection {
  Connection(boost::asio::ip::tcp::socket socket, std::shared_ptr<Counts> all) : stream(std::move(socket)), counts(std::move(all)) {
    ++counts->open;
  }
  ~Connection() {
    boost::beast::error_code ec;
    stream.socket().shutdown(boost::asio::ip::tcp::socket::shutdown_both, ec);
    --counts->open;
  }
  Connection(const Connection&) = delete;
  Connection& operator=(const Connection&) = delete;

  boost::beast::tcp_stream stream;
  const std::shared_ptr<Counts> counts;
};

/// Threads for the application's work.
class Workers {
 public:
  explicit Workers(int threads) : pool_(static_cast<size_t>(std::max(1, threads))) {}
  /// False behind join(): nobody will do it.
  template <class Work>
  bool post(Work&& work) {
    const std::lock_guard lock(mutex_);
    if (!closed_) boost::asio::post(pool_, std::forward<Work>(work));
    return !closed_;
  }
  /// Returns when all that was posted is done.
  void join() {
    {
      const std::lock_guard lock(mutex_);
      closed_ = true;
    }
    pool_.join();
  }

 private:
  boost::asio::thread_pool pool_;
  std::mutex mutex_;
  bool closed_ = false;
};

/// Until when a body of so many bytes must be there: who sends slowly holds its room no longer than its size explains.
inline std::chrono::steady_clock::time_point end_of_body(const HttpOptions& options, uint64_t bytes) {
  return std::chrono::steady_clock::now() + std::chrono::seconds(options.body_s) +
         std::chrono::milliseconds(1000 * bytes / std::max<size_t>(1, options.least_bytes_per_s));
}

/// Calls `work`; what it throws, as where memory is short, is told to `give_up`.
template <class Work, class GiveUp>
void guarded(Work&& work, GiveUp&& give_up) noexcept {
  try {
    work();
  } catch (const std::exception& e) {
    give_up(e.what());
  } catch (...) {
    give_up("an exception");
  }
}

}  // namespace slip::server
