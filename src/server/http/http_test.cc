// SPDX-License-Identifier: Apache-2.0
// Connections as clients see them: how long they may wait, what bodies and messages may hold, and what an exception ends.
#include "server/http/http.h"

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/beast/core.hpp>
#include <boost/beast/websocket.hpp>
#include <condition_variable>
#include <mutex>
#include <new>
#include <thread>

namespace slip::server {
namespace {

namespace asio = boost::asio;
namespace beast = boost::beast;
using namespace std::chrono_literals;
using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point begin) { return std::chrono::duration<double>(Clock::now() - begin).count(); }

/// Waits until it is opened; what is opened stays so.
class Gate {
 public:
  void open() {
    const std::lock_guard lock(mutex_);
    open_ = true;
    changed_.notify_all();
  }
  bool wait(std::chrono::milliseconds most = 20s) {
    std::unique_lock lock(mutex_);
    return changed_.wait_for(lock, most, [this] { return open_; });
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  bool open_ = false;
};

/// Answers with the length of the body, or in two pieces; its websockets do as they are told.
class Answers final : public Application {
 public:
  bool admits(HttpRequest&, HttpReply&) override { return true; }
  void handle(std::shared_ptr<Exchange> exchange) override {
    if (exchange->request().path == "/stream") {
      exchange->begin_stream({200, "text/plain", {}, {}});
      for (const char* piece : {"one", "two"}) exchange->send(piece);
      return exchange->end();
    }
    if (exchange->request().path == "/pieces") {
      const auto once = std::make_shared<const std::string>("again "), end = std::make_shared<const std::string>("end");
      const Pieces pieces{once, once, end};
      if (exchange->request().query != "stream") return exchange->reply({.body = "once, ", .more = pieces});
      exchange->begin_stream({200, "text/plain", {}, {}});
      exchange->send(pieces);
      return exchange->end();
    }
    if (exchange->request().path == "/later") return at_later(exchange);
    if (exchange->request().path == "/took") {
      const auto took =
          std::chrono::duration_cast<std::chrono::milliseconds>(exchange->request().whole - exchange->request().arrived);
      return exchange->reply({200, "text/plain", fmt::format("{} ms", took.count()), {}});
    }
    exchange->reply({200, "text/plain", fmt::format("{} bytes", exchange->request().body.size()), {}});
  }
  bool handle_now(const HttpRequest& request, HttpReply& reply) override {
    reply = {200, "text/plain", "here", {}};
    return request.path == "/now";
  }
  std::shared_ptr<SocketUser> upgrade(const HttpRequest&, HttpReply&) override { return user; }
  HttpReply error(int status, std::string_view message) override { return {status, "text/plain", std::string(message), {}}; }

  std::shared_ptr<SocketUser> user;
  std::function<void(const std::shared_ptr<Exchange>&)> at_later;
};

class User final : public SocketUser {
 public:
  void opened(std::shared_ptr<Socket> socket) override { at_opened(socket); }
  void received(std::string message, bool) override { at_received(message); }
  void closed() override { at_closed(); }

  std::function<void(const std::shared_ptr<Socket>&)> at_opened = [](const auto&) {};
  std::function<void(const std::string&)> at_received = [](const auto&) {};
  std::function<void()> at_closed = [] {};
};

/// A connection that sends what it is given.
class Line {
 public:
  explicit Line(uint16_t port) : socket_(::socket(AF_INET, SOCK_STREAM, 0)) {
    sockaddr_in to{};
    to.sin_family = AF_INET;
    to.sin_port = htons(port);
    to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    EXPECT_EQ(::connect(socket_, reinterpret_cast<const sockaddr*>(&to), sizeof to), 0);
  }
  ~Line() { hang_up(); }
  Line(const Line&) = delete;
  Line& operator=(const Line&) = delete;
  void hang_up() {
    if (socket_ >= 0) ::close(socket_);
    socket_ = -1;
  }
  bool send(std::string_view text) {
    while (!text.empty()) {
      const ssize_t n = ::send(socket_, text.data(), text.size(), MSG_NOSIGNAL);
      if (n <= 0) return false;
      text.remove_prefix(static_cast<size_t>(n));
    }
    return true;
  }
  /// What has come within `most`; empty where nothing has, or the other side has closed.
  std::string receive(std::chrono::milliseconds most = 20s) {
    pollfd look{.fd = socket_, .events = POLLIN, .revents = 0};
    if (::poll(&look, 1, static_cast<int>(most.count())) <= 0) return "";
    std::string out(4096, '\0');
    const ssize_t n = ::recv(socket_, out.data(), out.size(), 0);
    out.resize(static_cast<size_t>(std::max<ssize_t>(0, n)));
    closed_ = n <= 0;
    return out;
  }
  /// What has come up to `last`, or within as long as receive() waits.
  std::string receive_to(std::string_view last) {
    std::string all;
    for (std::string more = receive(); !more.empty(); more = all.ends_with(last) ? "" : receive()) all += more;
    return all;
  }
  /// Seconds until the other side closes; what it still says is passed over.
  double until_closed() {
    const auto begin = Clock::now();
    while (!closed_ && seconds_since(begin) < 20) receive(20s);
    return seconds_since(begin);
  }
  bool closed() {
    receive(0ms);
    return closed_;
  }

 private:
  int socket_;
  bool closed_ = false;
};

constexpr std::string_view kNow = "GET /now HTTP/1.1\r\nHost: x\r\n\r\n";
std::string post(size_t length) { return fmt::format("POST / HTTP/1.1\r\nHost: x\r\nContent-Length: {}\r\n\r\n", length); }

class Http : public testing::Test {
 protected:
  void listen(HttpOptions options) {
    options.port = 0;
    auto server = HttpServer::listen(options, application);
    ASSERT_TRUE(server) << server.error().message;
    server_ = std::move(*server);
  }
  uint16_t port() const { return server_->port(); }
  bool answers() {
    Line line(port());
    return line.send(kNow) && line.receive().ends_with("here");
  }

  Answers application;
  std::unique_ptr<HttpServer> server_;
};

/// A client's websocket, by calls that wait.
class WebSocketLine {
 public:
  explicit WebSocketLine(uint16_t port) : ws_(io_) {
    ws_.next_layer().connect({asio::ip::make_address("127.0.0.1"), port});
    ws_.handshake("127.0.0.1", "/");
    ws_.binary(true);
  }
  void send(const std::string& message) { ws_.write(asio::buffer(message)); }
  /// Why the other side closed.
  std::string until_closed() {
    beast::flat_buffer buffer;
    beast::error_code ec;
    while (!ec) ws_.read(buffer, ec);
    return std::string(ws_.reason().reason.c_str());
  }
  void hang_up() { ws_.next_layer().close(); }

 private:
  asio::io_context io_;
  beast::websocket::stream<asio::ip::tcp::socket> ws_;
};

TEST_F(Http, AnAnsweredConnectionMayBeIdleLongerThanAHeadMayTake) {
  listen({.head_s = 1, .idle_s = 3});
  Line line(port());
  ASSERT_TRUE(line.send(kNow));
  EXPECT_TRUE(line.receive().ends_with("here"));
  std::this_thread::sleep_for(1600ms);
  ASSERT_TRUE(line.send(kNow));
  EXPECT_TRUE(line.receive().ends_with("here")) << "behind a pause of more than head_s";
  const double s = line.until_closed();
  EXPECT_GT(s, 2.5);
  EXPECT_LT(s, 10);
}

TEST_F(Http, AHeadHasItsTimeFromItsFirstByteOn) {
  listen({.head_s = 1, .idle_s = 60});
  Line silent(port());
  EXPECT_LT(silent.until_closed(), 10) << "who never asks";
  Line line(port());
  ASSERT_TRUE(line.send(kNow));
  EXPECT_TRUE(line.receive().ends_with("here"));
  ASSERT_TRUE(line.send("GET /now HT"));
  EXPECT_LT(line.until_closed(), 10) << "a further head that does not end";
}

TEST_F(Http, WaitingConnectionsKeepNobodyOut) {
  listen({.head_s = 1, .idle_s = 60, .connections = 2});
  Line first(port()), second(port());
  for (Line* line : {&first, &second}) {
    ASSERT_TRUE(line->send(kNow));
    EXPECT_TRUE(line->receive().ends_with("here"));
  }
  EXPECT_LT(second.until_closed(), 10) << "of more than half of the places";
}

TEST_F(Http, ABodyHasTimeByItsSize) {
  listen({.body_s = 1, .piece_s = 10, .least_bytes_per_s = 1000});
  Line slow(port());  // 4 s for 3000 bytes, which take 2
  ASSERT_TRUE(slow.send(post(3000)));
  for (int i = 0; i < 10; ++i) {
    std::this_thread::sleep_for(200ms);
    ASSERT_TRUE(slow.send(std::string(300, 'x')));
  }
  EXPECT_TRUE(slow.receive().ends_with("3000 bytes"));
  Line slower(port());  // 1.1 s for 100 bytes, which would take 10
  ASSERT_TRUE(slower.send(post(100)));
  const auto begin = Clock::now();
  for (int i = 0; i < 100 && !slower.closed(); ++i) {
    slower.send("x");
    std::this_thread::sleep_for(100ms);
  }
  EXPECT_TRUE(slower.closed());
  EXPECT_LT(seconds_since(begin), 8) << "though bytes come all the time";
}

TEST_F(Http, ARequestIsWholeWhenItsBodyIs) {
  listen({});
  Line line(port());
  ASSERT_TRUE(line.send("POST /took HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\n\r\na"));
  std::this_thread::sleep_for(300ms);
  ASSERT_TRUE(line.send("b"));
  const std::string reply = line.receive_to(" ms");
  EXPECT_GE(std::atoi(reply.c_str() + reply.rfind('\n') + 1), 250) << reply;
}

TEST_F(Http, ABodyThatStopsComingIsCutOff) {
  listen({.body_s = 60, .piece_s = 1});
  Line line(port());
  ASSERT_TRUE(line.send(post(100) + "begin"));
  EXPECT_LT(line.until_closed(), 10);
}

/// Room is taken by what comes, not by what is announced.
TEST_F(Http, WhoAnnouncesAndSendsNothingKeepsNobodyOut) {
  constexpr size_t kBody = size_t{1} << 20;
  listen({.body_bytes = kBody, .all_bodies_bytes = 2 * kBody});
  std::vector<std::unique_ptr<Line>> idle;
  for (int i = 0; i < 8; ++i) {
    idle.push_back(std::make_unique<Line>(port()));
    ASSERT_TRUE(idle.back()->send(post(kBody)));
  }
  std::this_thread::sleep_for(100ms);
  Line line(port());
  ASSERT_TRUE(line.send(post(kBody) + std::string(kBody, 'x')));
  EXPECT_TRUE(line.receive_to("bytes").ends_with("1048576 bytes"));
}

TEST_F(Http, BodiesThatComeHaveTheirBoundTogether) {
  constexpr size_t kBody = size_t{1} << 20;
  listen({.body_bytes = kBody, .all_bodies_bytes = 2 * kBody});
  Line first(port()), second(port());
  const std::string almost(kBody - 1, 'x');
  for (Line* line : {&first, &second}) ASSERT_TRUE(line->send(post(kBody)));
  std::this_thread::sleep_for(100ms);
  ASSERT_TRUE(first.send(almost));
  Line third(port());
  ASSERT_TRUE(third.send(post(kBody / 4) + "x"));
  std::this_thread::sleep_for(100ms);
  second.send(almost);
  EXPECT_EQ(second.receive().substr(0, 12), "HTTP/1.1 503") << "the others hold more than the half";
  ASSERT_TRUE(first.send("x"));
  EXPECT_TRUE(first.receive_to("bytes").ends_with("1048576 bytes"));
  ASSERT_TRUE(third.send(std::string(kBody / 4 - 1, 'x')));
  EXPECT_TRUE(third.receive_to("bytes").ends_with("262144 bytes"));
}

TEST_F(Http, MessagesOfWebsocketsTakeRoomAmongBodies) {
  constexpr size_t kBody = 200'000;
  const auto user = std::make_shared<User>();
  Gate came, go;
  user->at_received = [&](const std::string& message) {
    EXPECT_EQ(message.size(), 150'000U);
    came.open();
    go.wait();
  };
  application.user = user;
  listen({.body_bytes = kBody, .all_bodies_bytes = kBody});
  WebSocketLine ws(port());
  ws.send(std::string(150'000, 'x'));
  ASSERT_TRUE(came.wait());
  Line line(port());
  ASSERT_TRUE(line.send(post(100'000)));
  EXPECT_EQ(line.receive().substr(0, 12), "HTTP/1.1 503") << "the message is still being read";
  go.open();
  bool answered = false;
  for (const auto begin = Clock::now(); !answered && seconds_since(begin) < 10; std::this_thread::sleep_for(10ms)) {
    Line again(port());
    again.send(post(100'000) + std::string(100'000, 'x'));
    answered = again.receive().starts_with("HTTP/1.1 200");
  }
  EXPECT_TRUE(answered) << "its room is given back";
  ws.hang_up();
  server_.reset();
}

TEST_F(Http, AWebsocketIsNotReadWhileThereIsNoRoom) {
  constexpr size_t kBody = 200'000;
  const auto user = std::make_shared<User>();
  Gate came;
  user->at_received = [&](const std::string&) { came.open(); };
  application.user = user;
  listen({.body_bytes = kBody, .all_bodies_bytes = kBody});
  Line line(port());
  ASSERT_TRUE(line.send(post(150'000) + "begin"));
  std::this_thread::sleep_for(100ms);
  WebSocketLine ws(port());
  std::thread sends([&] { ws.send(std::string(150'000, 'x')); });
  EXPECT_FALSE(came.wait(300ms));
  line.hang_up();
  EXPECT_TRUE(came.wait());
  sends.join();
  ws.hang_up();
  server_.reset();
}

/// What a user of a websocket throws closes that one.
TEST_F(Http, AnExceptionEndsItsWebsocketAlone) {
  listen({});
  const auto no_memory = [] { throw std::bad_alloc(); };
  const auto no_exception = [] { throw 7; };
  std::vector<std::shared_ptr<User>> users;
  for (int i = 0; i < 4; ++i) users.push_back(std::make_shared<User>());
  users[0]->at_opened = [&](const auto&) { no_memory(); };
  users[1]->at_opened = [&](const auto& socket) { socket->run(no_memory); };
  users[2]->at_received = [&](const auto&) { no_memory(); };
  users[3]->at_opened = [&](const auto& socket) { socket->run(no_exception); };
  for (const auto& user : users) {
    application.user = user;
    WebSocketLine ws(port());
    ws.send("x");
    EXPECT_EQ(ws.until_closed().find("internal error: "), 0U);
    EXPECT_TRUE(answers());
  }
  Gate closed;
  const auto last = std::make_shared<User>();
  last->at_closed = [&] {
    closed.open();
    no_memory();
  };
  application.user = last;
  { WebSocketLine ws(port()); }
  EXPECT_TRUE(closed.wait());
  EXPECT_TRUE(answers());
  server_.reset();
}

/// What stands between the parts of a chunked body has an end, too.
TEST_F(Http, ChunksHaveShortHeads) {
  listen({});
  const std::string head = "POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n";
  for (const std::string begin : {"1;", "0", "0\r\nX: ", "0\r\nX: y\r\n"}) {
    Line line(port());
    ASSERT_TRUE(line.send(head + begin));
    const std::string more = begin.ends_with("\r\n") ? "a: b\r\n" : begin == "0" ? "0" : "a";
    std::string piece;
    while (piece.size() < 4096) piece += more;
    size_t sent = 0;
    for (bool open = true; open && sent < size_t{16} << 20; sent += piece.size())
      open = line.send(piece) && line.receive(0ms).empty();
    EXPECT_LT(sent, size_t{8} << 20) << begin;
  }
}

/// A piece that stands in a text several times is held once, and written as often as it stands there.
TEST_F(Http, TextsInPiecesAreWrittenWhole) {
  listen({});
  Line line(port());
  ASSERT_TRUE(line.send("GET /pieces HTTP/1.1\r\nHost: x\r\n\r\n"));
  const std::string whole = line.receive_to("end");
  EXPECT_NE(whole.find("Content-Length: 21\r\n"), std::string::npos) << whole;
  EXPECT_TRUE(whole.ends_with("\r\n\r\nonce, again again end")) << whole;
  ASSERT_TRUE(line.send("GET /pieces?stream HTTP/1.1\r\nHost: x\r\n\r\n"));
  const std::string stream = line.receive_to("0\r\n\r\n");
  EXPECT_TRUE(stream.ends_with("\r\n\r\nf\r\nagain again end\r\n0\r\n\r\n")) << stream;
}

/// What is put off waits for no worker, comes in order, ends its own exchange alone, and is dropped behind the server's end.
TEST_F(Http, WhatIsPutOffIsDoneOnAThreadOfItsOwn) {
  Gate go;
  std::shared_ptr<Exchange> kept;
  application.at_later = [&](const std::shared_ptr<Exchange>& exchange) {
    if (exchange->request().query == "throws") return exchange->later([] { throw std::bad_alloc(); });
    kept = exchange;
    exchange->begin_stream({200, "text/plain", {}, {}});
    exchange->later([exchange] { exchange->send("one"); });
    exchange->later([exchange] {
      exchange->send("two");
      exchange->end();
    });
    go.wait();  // the only worker
  };
  listen({.workers = 1});
  Line line(port());
  ASSERT_TRUE(line.send("GET /later HTTP/1.1\r\nHost: x\r\n\r\n"));
  const std::string all = line.receive_to("0\r\n\r\n");
  EXPECT_TRUE(all.ends_with("3\r\none\r\n3\r\ntwo\r\n0\r\n\r\n")) << all;
  go.open();
  Line short_of_memory(port());
  ASSERT_TRUE(short_of_memory.send("GET /later?throws HTTP/1.1\r\nHost: x\r\n\r\n"));
  EXPECT_LT(short_of_memory.until_closed(), 10);
  EXPECT_TRUE(answers());
  server_->stop();
  bool done = false;
  kept->later([&] { done = true; });
  EXPECT_FALSE(done);
  kept.reset();
  server_.reset();
}

TEST_F(Http, WhatIsHeavyKeepsNoWorkerFromOthers) {
  Gate begun, go;
  application.at_later = [&](const std::shared_ptr<Exchange>& exchange) {
    exchange->apart([&, exchange] {
      begun.open();
      go.wait();
      exchange->reply({200, "text/plain", "heavy", {}});
    });
  };
  listen({.workers = 1});
  Line heavy(port()), light(port());
  ASSERT_TRUE(heavy.send("GET /later HTTP/1.1\r\nHost: x\r\n\r\n"));
  ASSERT_TRUE(begun.wait());
  ASSERT_TRUE(light.send("GET / HTTP/1.1\r\nHost: x\r\n\r\n"));
  EXPECT_TRUE(light.receive_to("bytes").ends_with("0 bytes"));
  go.open();
  EXPECT_TRUE(heavy.receive_to("heavy").ends_with("heavy"));
}

TEST_F(Http, ARequestHasOneHostAndAPathOfAnyForm) {
  listen({});
  for (const char* path : {"/now", "http://x/now", "http://x:80/now?a=b"}) {
    Line here(port());
    ASSERT_TRUE(here.send(fmt::format("GET {} HTTP/1.1\r\nHost: x\r\n\r\n", path)));
    EXPECT_TRUE(here.receive_to("here").ends_with("here")) << path;
  }
  Line line(port());
  ASSERT_TRUE(line.send("GET / HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n"));
  EXPECT_EQ(line.receive().substr(0, 12), "HTTP/1.1 400");
}

/// What is under way when the server's time is up hears of it, and can still say so; who has gone is told nothing.
TEST_F(Http, WhatIsUnderWayAtTheEndHasALastWord) {
  std::shared_ptr<Exchange> kept;
  Gate came;
  application.at_later = [&](const std::shared_ptr<Exchange>& exchange) {
    exchange->begin_stream({200, "text/plain", {}, {}});
    exchange->send("begin");
    kept = exchange;
    came.open();
  };
  listen({});
  Line line(port());
  ASSERT_TRUE(line.send("GET /later HTTP/1.1\r\nHost: x\r\n\r\n"));
  ASSERT_TRUE(came.wait());
  EXPECT_TRUE(line.receive_to("begin\r\n").ends_with("begin\r\n"));
  EXPECT_FALSE(kept->hang_up().cancelled());
  server_->stop_accepting();
  EXPECT_TRUE(kept->hang_up().cancelled());
  kept->later([kept] {
    kept->send("the end");
    kept->end();
  });
  EXPECT_EQ(line.receive_to("0\r\n\r\n"), "7\r\nthe end\r\n0\r\n\r\n");
  kept.reset();
  server_.reset();
}

TEST_F(Http, WhatIsPutOffForWhoHasGoneIsDropped) {
  std::shared_ptr<Exchange> kept;
  Gate came;
  application.at_later = [&](const std::shared_ptr<Exchange>& exchange) {
    kept = exchange;
    came.open();
  };
  listen({});
  Line line(port());
  ASSERT_TRUE(line.send("GET /later HTTP/1.1\r\nHost: x\r\n\r\n"));
  ASSERT_TRUE(came.wait());
  line.hang_up();
  for (const auto begin = Clock::now(); !kept->hang_up().cancelled() && seconds_since(begin) < 20;)
    std::this_thread::sleep_for(1ms);
  std::atomic<bool> done{false};
  kept->later([&] { done = true; });
  kept.reset();
  server_->stop();  // behind all that was put off
  EXPECT_FALSE(done);
  server_.reset();
}

/// Who speaks HTTP/1.0 knows no chunks: a stream's end is the connection's.
TEST_F(Http, StreamsOfOlderClientsEndWithTheConnection) {
  listen({});
  Line line(port());
  ASSERT_TRUE(line.send("GET /stream HTTP/1.0\r\nHost: x\r\nConnection: keep-alive\r\n\r\n"));
  std::string all;
  for (std::string piece = line.receive(); !piece.empty(); piece = line.receive()) all += piece;
  EXPECT_EQ(all.find("chunked"), std::string::npos);
  EXPECT_TRUE(all.ends_with("\r\n\r\nonetwo")) << all;
}

}  // namespace
}  // namespace slip::server
