// SPDX-License-Identifier: Apache-2.0
// Inside of server/http/: a websocket. One coroutine reads, one writes, and both hold the connection.
#pragma once
#include <boost/asio/awaitable.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/beast/core.hpp>
#include <boost/beast/http.hpp>
#include <boost/beast/websocket.hpp>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <utility>

#include "server/http/connection.h"
#include "server/http/mailbox.h"

namespace slip::server {

/// The application's side of one.
class Socketed final : public Socket, public std::enable_shared_from_this<Socketed> {
 public:
  Socketed(boost::asio::io_context& io, HttpRequest request, Workers& workers)
      : request_(std::move(request)), workers_(workers), box(io) {}
  const HttpRequest& request() const override { return request_; }
  void send(std::string message, bool binary) override { box.put({Mailbox::Mail::kMessage, {}, std::move(message), binary}); }
  void close(std::string reason) override { box.put({Mailbox::Mail::kClose, {}, std::move(reason)}); }

  /// What `work` throws, as where memory is short, ends this socket and nothing beside it.
  void run(std::function<void()> work) override {
    const std::lock_guard lock(mutex_);
    work_.push_back(std::move(work));
    if (work_.size() > 1) return;  // who is at work takes it
    try {
      if (!workers_.post([self = shared_from_this()] { self->work_off(); })) work_.pop_back();
    } catch (...) {
      work_.pop_back();
      throw;
    }
  }

 private:
  void work_off() {
    for (bool more = true; more;) {
      guarded(first(), [this](const char* what) { give_up(what); });
      std::function<void()> done;  // what it holds goes without the lock
      const std::lock_guard lock(mutex_);
      done.swap(work_.front());
      work_.pop_front();
      more = !work_.empty();
    }
  }
  std::function<void()>& first() {
    const std::lock_guard lock(mutex_);
    return work_.front();
  }
  void give_up(const char* what) noexcept {
    guarded([&] { close(fmt::format("internal error: {}", what)); }, [&](const char*) { box.close(); });
  }

  HttpRequest request_;
  Workers& workers_;
  std::mutex mutex_;
  std::deque<std::function<void()>> work_;  // the first is under way

 public:
  Mailbox box;
};

class Conversation : public std::enable_shared_from_this<Conversation> {
  using Message = boost::beast::flat_buffer;
  template <class T>
  using Awaitable = boost::asio::awaitable<T>;
  using ErrorCode = boost::beast::error_code;

 public:
  Conversation(boost::asio::io_context& io, Workers& workers, const HttpOptions& options, std::shared_ptr<Connection> connection,
               HttpRequest request, std::shared_ptr<SocketUser> user)
      : io_(io),
        options_(options),
        connection_(std::move(connection)),
        user_(std::move(user)),
        socket_(std::make_shared<Socketed>(io, std::move(request), workers)),
        ws_(connection_->stream) {}

  /// From the answer to the upgrade until the other side has closed.
  static Awaitable<void> hold(std::shared_ptr<Conversation> self,
                              boost::beast::http::request<boost::beast::http::string_body> upgrade) {
    return self->talk(self, std::move(upgrade));
  }

 private:
  static constexpr std::chrono::milliseconds kLookAround{250};  // how late an idle one hears that the server drains
  /// Messages that nobody has read yet, and replies that it has not taken: with more of them it is not listened to.
  static constexpr int kMostUnread = 4;
  static constexpr size_t kMostUntaken = 64;

  Awaitable<void> talk(std::shared_ptr<Conversation> self, boost::beast::http::request<boost::beast::http::string_body> upgrade) {
    namespace websocket = boost::beast::websocket;
    connection_->stream.expires_never();
    ws_.set_option(websocket::stream_base::timeout::suggested(boost::beast::role_type::server));
    ws_.read_message_max(options_.body_bytes);
    ws_.set_option(websocket::permessage_deflate{});
    ErrorCode ec;
    co_await ws_.async_accept(upgrade, into(ec));
    if (ec) co_return;
    const std::shared_ptr<void> at_end(nullptr, [self](void*) { self->end(); });
    socket_->run([self] { self->user_->opened(self->socket_); });
    boost::asio::co_spawn(io_, write(self), boost::asio::detached);
    co_await read(self);
  }

  /// The other side has closed, or nothing more can be read.
  void end() noexcept {
    ended_ = true;
    socket_->box.close();
    if (connection_->counts->stopped) return;  // nobody is called any more
    guarded([&] { socket_->run([self = shared_from_this()] { self->user_->closed(); }); }, [](const char*) {});
  }

  Awaitable<void> read(std::shared_ptr<Conversation> self) {
    ErrorCode ec;
    for (;;) {
      while (!ended_ && (unread_ >= kMostUnread || socket_->box.size() >= kMostUntaken)) {
        boost::asio::steady_timer pause(io_, kBreath);
        co_await pause.async_wait(into(ec));
      }
      Message message;
      const std::shared_ptr<BodyRoom> room = co_await read_message(message, ec);
      if (!room) co_return;
      ++unread_;
      const std::shared_ptr<void> one_more(nullptr,
                                           [self](void*) { --self->unread_; });  // goes when it was received, or could not be
      auto text = std::make_shared<std::string>(boost::beast::buffers_to_string(message.data()));
      message = {};
      socket_->run([self, room, one_more, binary = ws_.got_binary(), text] { self->user_->received(std::move(*text), binary); });
    }
  }

  /// A message and its room among the bodies of requests; null where it did not come to its end. Its first piece takes no room while it comes; what
  /// comes behind that is not read before there is room for it.
  Awaitable<std::shared_ptr<BodyRoom>> read_message(Message& message, ErrorCode& ec) {
    const auto room = std::make_shared<BodyRoom>(connection_->counts);
    do {
      co_await ws_.async_read_some(message, kFirstPiece - message.size(), into(ec));
    } while (!ec && !ws_.is_message_done() && message.size() < kFirstPiece);
    if (!ec && !ws_.is_message_done() && !co_await read_rest(message, *room, ec)) co_return nullptr;
    if (ec) co_return nullptr;
    room->resize(message.size(), UINT64_MAX);  // it is there, whatever others hold
    co_return room;
  }
  /// False where the connection ended, or the time for so large a message.
  Awaitable<bool> read_rest(Message& message, BodyRoom& room, ErrorCode& ec) {
    const auto end = end_of_body(options_, options_.body_bytes);
    boost::asio::steady_timer late(io_, end);
    const auto coming = std::make_shared<bool>(true);  // the stream may be gone when the timer's word arrives
    late.async_wait([stream = &connection_->stream, coming = std::weak_ptr<bool>(coming)](ErrorCode stopped) {
      if (!stopped && !coming.expired()) stream->cancel();
    });
    while (!ec && !ws_.is_message_done()) {
      if (std::chrono::steady_clock::now() >= end) co_return false;  // the timer's word came between two reads, where it stops none
      const uint64_t next = next_room(room, message.size(), options_.body_bytes);
      while (!ended_ && !room.resize(next, limit_of_all(options_, next))) {
        if (std::chrono::steady_clock::now() >= end) co_return false;
        boost::asio::steady_timer pause(io_, kBreath);
        co_await pause.async_wait(into(ec));
      }
      if (ended_) co_return false;
      co_await ws_.async_read_some(message, std::max<uint64_t>(1, next - message.size()), into(ec));
    }
    co_return !ec;
  }

  static Awaitable<void> write(std::shared_ptr<Conversation> self) {
    const std::shared_ptr<void> at_end(nullptr, [self](void*) {
      self->socket_->box.shut();
      if (std::exchange(self->ended_, true) || self->said_goodbye_ || self->connection_->counts->stopped) return;
      self->connection_->stream.cancel();  // nothing more can be written: who reads need not wait either
    });
    co_await self->write_mail();
  }

  Awaitable<void> write_mail() {
    namespace websocket = boost::beast::websocket;
    ErrorCode ec;
    while (!ended_ && !ec) {
      auto mail = socket_->box.get();
      if (!mail && connection_->counts->draining) {
        co_await ws_.async_close(websocket::close_reason(websocket::close_code::going_away, "the server drains"), into(ec));
        said_goodbye_ = true;
        co_return;
      }
      if (!mail) {
        co_await socket_->box.wait(kLookAround);
        continue;
      }
      if (mail->kind == Mailbox::Mail::kMessage) {
        ws_.binary(mail->binary);
        co_await ws_.async_write(boost::asio::buffer(mail->text), into(ec));
      } else if (mail->kind == Mailbox::Mail::kClose && !ended_) {
        co_await ws_.async_close(websocket::close_reason(websocket::close_code::policy_error, mail->text.substr(0, 120)), into(ec));
        said_goodbye_ = true;
        co_return;
      }
    }
  }

  boost::asio::io_context& io_;
  const HttpOptions& options_;
  const std::shared_ptr<Connection> connection_;
  const std::shared_ptr<SocketUser> user_;
  const std::shared_ptr<Socketed> socket_;
  boost::beast::websocket::stream<boost::beast::tcp_stream&> ws_;
  bool ended_ = false, said_goodbye_ = false;  // by the reading thread
  std::atomic<int> unread_{0};
};

}  // namespace slip::server
