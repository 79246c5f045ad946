// SPDX-License-Identifier: Apache-2.0
// Inside of server/http/, whose sources alone have Boost.Asio: how the threads that answer speak to the one that reads and writes.
#pragma once
#include <boost/asio/awaitable.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/redirect_error.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <chrono>
#include <deque>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <utility>

#include "server/http/http.h"

namespace slip::server {

/// Things said by other threads, in order, for one coroutine that waits for them.
class Mailbox {
  using Clock = std::chrono::steady_clock;

 public:
  struct Mail {
    enum Kind { kReply, kHead, kChunk, kEnd, kMessage, kClose } kind;
    HttpReply reply;
    std::string text;
    bool binary = false;
  };
  explicit Mailbox(boost::asio::io_context& io)
      : io_(io), bell_(std::make_shared<boost::asio::steady_timer>(io, Clock::time_point::max())) {}
  /// Where memory is short, this and all that follows gives way to close().
  void put(Mail mail) noexcept {
    const std::lock_guard lock(mutex_);
    if (shut_ || closing_) return;
    try {
      mail_.push_back(std::move(mail));
      if (mail_.size() == 1) ring();
    } catch (const std::exception&) {
      closing_ = true;
    }
  }
  /// As mail of kind kClose behind what is there; it takes no memory, and may be heard as late as a wait ends.
  void close() noexcept {
    const std::lock_guard lock(mutex_);
    closing_ = true;
    try {
      ring();
    } catch (const std::exception&) {  // it is heard later
    }
  }
  void shut() {
    const std::lock_guard lock(mutex_);
    shut_ = true;
    mail_.clear();
  }
  size_t size() {
    const std::lock_guard lock(mutex_);
    return mail_.size();
  }
  std::optional<Mail> get() {
    const std::lock_guard lock(mutex_);
    if (mail_.empty() && std::exchange(closing_, false)) return Mail{Mail::kClose, {}, {}};
    if (mail_.empty()) return std::nullopt;
    Mail out = std::move(mail_.front());
    mail_.pop_front();
    return out;
  }
  /// On the reading thread: until there is mail, or `most`.
  boost::asio::awaitable<void> wait(Clock::duration most) {
    {
      const std::lock_guard lock(mutex_);
      if (!mail_.empty() || closing_) co_return;
      bell_->expires_after(most);
    }
    boost::system::error_code ec;
    co_await bell_->async_wait(boost::asio::redirect_error(boost::asio::use_awaitable, ec));
  }

 private:
  void ring() {
    boost::asio::post(io_, [bell = bell_] { bell->cancel(); });
  }

  boost::asio::io_context& io_;
  std::shared_ptr<boost::asio::steady_timer> bell_;
  std::mutex mutex_;
  std::deque<Mail> mail_;
  bool shut_ = false, closing_ = false;
};

}  // namespace slip::server
