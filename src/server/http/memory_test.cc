// SPDX-License-Identifier: Apache-2.0
// Memory that is short while a server reads and answers: each allocation of its threads is refused once, and the server goes on. The
// operators of this program stand for the machine's.
#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <atomic>
#include <cstdlib>
#include <mutex>
#include <new>
#include <string>
#include <thread>

#include "server/http/http.h"

namespace {

std::atomic<int64_t> allocations{0};     // by the server's threads
std::atomic<int64_t> first_refused{-1};  // none below 0
std::atomic<int64_t> refused_in_row{0};
thread_local bool is_client = false;

bool is_refused() {
  if (is_client) return false;
  const int64_t n = allocations++, first = first_refused;
  return first >= 0 && n >= first && n < first + refused_in_row;
}

}  // namespace

[[gnu::noinline]] void* operator new(size_t bytes) {
  void* at = is_refused() ? nullptr : std::malloc(bytes == 0 ? 1 : bytes);
  if (!at) throw std::bad_alloc();
  return at;
}
[[gnu::noinline]] void operator delete(void* at) noexcept { std::free(at); }
[[gnu::noinline]] void operator delete(void* at, size_t) noexcept { std::free(at); }

namespace slip::server {
namespace {

using namespace std::chrono_literals;
using Clock = std::chrono::steady_clock;

/// Answers at once, in one piece or in three; its websocket sends back what it hears.
class Echo final : public Application {
 public:
  bool admits(HttpRequest&, HttpReply&) override { return true; }
  void handle(std::shared_ptr<Exchange> exchange) override {
    if (exchange->request().path == "/later")
      return exchange->later([exchange] { exchange->reply({.body = "late", .more = {std::make_shared<const std::string>("r")}}); });
    if (exchange->request().path != "/stream") return exchange->reply({200, "text/plain", exchange->request().body, {}});
    exchange->begin_stream({200, "text/plain", {}, {}});
    for (int i = 0; i < 3; ++i) exchange->send(std::string(100, 'a'));
    exchange->end();
  }
  bool handle_now(const HttpRequest& request, HttpReply& reply) override {
    if (request.path != "/now") return false;
    reply = {200, "text/plain", "here", {}};
    return true;
  }
  std::shared_ptr<SocketUser> upgrade(const HttpRequest&, HttpReply&) override { return std::make_shared<User>(); }
  HttpReply error(int status, std::string_view message) override { return {status, "text/plain", std::string(message), {}}; }

 private:
  class User final : public SocketUser {
   public:
    void opened(std::shared_ptr<Socket> socket) override {
      const std::lock_guard lock(mutex_);
      socket_ = std::move(socket);
    }
    void received(std::string message, bool binary) override {
      const std::lock_guard lock(mutex_);
      if (socket_) socket_->send(std::move(message), binary);
    }
    void closed() override {
      const std::lock_guard lock(mutex_);
      socket_.reset();
    }

   private:
    std::mutex mutex_;
    std::shared_ptr<Socket> socket_;
  };
};

/// What a client says, and how what it hears ends; then more of the same.
struct Case {
  const char* name;
  std::string words;
  const char* last;
  std::string more_words = {};
  const char* more_last = "";
};

/// Hears what comes until `last` is in it, the other side closes, or it is time.
bool hear(int line, std::string_view last, Clock::time_point until) {
  std::string out;
  while (out.find(last) == std::string::npos) {
    const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(until - Clock::now());
    pollfd look{.fd = line, .events = POLLIN, .revents = 0};
    if (left <= 0ms || ::poll(&look, 1, static_cast<int>(left.count())) <= 0) return false;
    char piece[4096];
    const ssize_t n = ::recv(line, piece, sizeof piece, 0);
    if (n <= 0) return false;
    out.append(piece, static_cast<size_t>(n));
  }
  return true;
}

bool say(int line, std::string_view words) {
  return ::send(line, words.data(), words.size(), MSG_NOSIGNAL) == static_cast<ssize_t>(words.size());
}

/// Whether all was heard within `most`.
bool is_answered(uint16_t port, const Case& c, std::chrono::milliseconds most) {
  const int line = ::socket(AF_INET, SOCK_STREAM, 0);
  sockaddr_in to{};
  to.sin_family = AF_INET;
  to.sin_port = htons(port);
  to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  const auto until = Clock::now() + most;
  const bool all = ::connect(line, reinterpret_cast<const sockaddr*>(&to), sizeof to) == 0 && say(line, c.words) &&
                   hear(line, c.last, until) &&
                   (c.more_words.empty() || (say(line, c.more_words) && hear(line, c.more_last, until)));
  ::close(line);
  return all;
}

const Case kNow{"now", "GET /now HTTP/1.1\r\nHost: x\r\n\r\n", "here"};

void PrintTo(const Case& c, std::ostream* out) { *out << c.name; }

class ShortMemory : public testing::TestWithParam<Case> {
 protected:
  void SetUp() override { is_client = true; }
};

TEST_P(ShortMemory, EndsAConnectionAtMost) {
  const Case& c = GetParam();
  Echo application;
  HttpOptions options;
  options.port = 0;
  const auto server = HttpServer::listen(options, application);
  ASSERT_TRUE(server);
  const uint16_t port = (*server)->port();
  const int64_t before = allocations;
  ASSERT_TRUE(is_answered(port, c, 10s));
  while ((*server)->open_connections() > 0) std::this_thread::sleep_for(1ms);
  const int64_t count = allocations - before;
  ASSERT_GT(count, 5);
  for (const int64_t in_row : {1, 3, 40}) {
    for (int64_t k = 0; k <= count; ++k) {
      SCOPED_TRACE(testing::Message() << "allocation " << k << ", " << in_row << " in a row");
      refused_in_row = in_row;
      first_refused = allocations + k;
      is_answered(port, c, 100ms);
      first_refused = -1;
      ASSERT_TRUE(is_answered(port, kNow, 10s));
    }
  }
  for (const auto begin = Clock::now(); (*server)->open_connections() > 0 && Clock::now() - begin < 20s;)
    std::this_thread::sleep_for(5ms);
  EXPECT_EQ((*server)->open_connections(), 0);
}

const std::string kFrame("\x81\x82\0\0\0\0hi", 8);  // a text of two letters, its mask of zeros

INSTANTIATE_TEST_SUITE_P(
    Http, ShortMemory,
    testing::Values(kNow,
                    Case{"reply", "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 300\r\n\r\n" + std::string(299, 'b') + "c", "bc"},
                    Case{"chunked", "POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n", "abc"},
                    Case{"stream", "GET /stream HTTP/1.1\r\nHost: x\r\n\r\n", "0\r\n\r\n"},
                    Case{"later", "GET /later HTTP/1.1\r\nHost: x\r\n\r\n", "later"},
                    Case{"two", kNow.words + "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 3\r\n\r\nend", "end"},
                    Case{"malformed", "GET /now HTTP/1.1\r\nbad\r\n\r\n", "well-formed"},
                    Case{"websocket",
                         "GET / HTTP/1.1\r\nHost: x\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Version: 13\r\n"
                         "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n",
                         "\r\n\r\n", kFrame, "\x81\x02hi"}),
    [](const auto& info) { return info.param.name; });

}  // namespace
}  // namespace slip::server
