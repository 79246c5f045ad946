// SPDX-License-Identifier: Apache-2.0
// See http.h. Coroutines of Boost.Asio on one thread; what other threads say is posted to it.
#include "server/http/http.h"

#include <poll.h>

#include <boost/asio/awaitable.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/beast/core.hpp>
#include <boost/beast/http.hpp>
#include <boost/beast/websocket.hpp>
#include <thread>

#include "base/log.h"
#include "server/http/connection.h"
#include "server/http/conversation.h"
#include "server/http/mailbox.h"

namespace slip::server {

std::string lower(std::string_view text) {
  std::string out(text);
  for (char& c : out) c = static_cast<char>(c >= 'A' && c <= 'Z' ? c + 32 : c);
  return out;
}

namespace {

namespace asio = boost::asio;
namespace beast = boost::beast;
namespace http = beast::http;
namespace websocket = beast::websocket;
using tcp = asio::ip::tcp;
using beast::error_code;
using Clock = std::chrono::steady_clock;

constexpr int kWriteSeconds = 30;
constexpr unsigned kChunkedVersion = 11;  // HTTP/1.1
/// Bytes that are read ahead, or kept until a head, a chunk's size or the trailers are whole.
constexpr size_t kMostBuffered = size_t{64} << 10;
constexpr std::chrono::milliseconds kPause{
    50};  // before another connection is taken, where there was nothing left for the one before

template <class Message>
HttpRequest head_of(const Message& m) {
  HttpRequest out;
  out.method = std::string(m.method_string());
  std::string_view target(m.target().data(), m.target().size());
  if (target.starts_with("http://")) {  // the absolute form, as proxies send it
    target.remove_prefix(std::min(target.find_first_of("/?", 7), target.size()));
    if (target.empty()) target = "/";
  }
  const size_t mark = target.find('?');
  out.path = std::string(target.substr(0, mark));
  if (mark != std::string_view::npos) out.query = std::string(target.substr(mark + 1));
  for (const auto& field : m)
    out.header[lower({field.name_string().data(), field.name_string().size()})] =
        std::string(field.value().data(), field.value().size());
  return out;
}

std::vector<asio::const_buffer> buffers_of(const std::string& text, const Pieces& more) {
  std::vector<asio::const_buffer> out{asio::buffer(text)};
  for (const auto& piece : more) out.push_back(asio::buffer(*piece));
  return out;
}

/// A body that takes memory as it comes, where Beast's own takes what is announced.
struct ComingBody {
  using value_type = std::string;
  class reader {
   public:
    template <bool kIsRequest, class Fields>
    reader(http::header<kIsRequest, Fields>& /*head*/, std::string& body) : body_(body) {}
    void init(const boost::optional<uint64_t>& /*announced*/, error_code& ec) { ec = {}; }
    template <class Buffers>
    size_t put(const Buffers& buffers, error_code& ec) {
      ec = {};
      for (const asio::const_buffer piece : beast::buffers_range_ref(buffers))
        body_.append(static_cast<const char*>(piece.data()), piece.size());
      return beast::buffer_bytes(buffers);
    }
    void finish(error_code& ec) { ec = {}; }

   private:
    std::string& body_;
  };
};
using RequestParser = http::request_parser<ComingBody>;

class Exchanged final : public Exchange, public std::enable_shared_from_this<Exchanged> {
 public:
  Exchanged(asio::io_context& io, HttpRequest request, std::shared_ptr<BodyRoom> room, Workers& heavy, Workers& replies,
            const CancelToken& all)
      : request_(std::move(request)),
        room_(std::move(room)),
        heavy_(heavy),
        replies_(replies),
        hang_up_(CancelToken::child_of(all)),
        box(io) {}
  const HttpRequest& request() const override { return request_; }
  CancelToken& hang_up() override { return hang_up_; }
  void reply(HttpReply r) override { box.put({Mailbox::Mail::kReply, std::move(r), {}}); }
  void begin_stream(HttpReply head) override { box.put({Mailbox::Mail::kHead, std::move(head), {}}); }
  void send(std::string chunk) override {
    if (!chunk.empty()) box.put({Mailbox::Mail::kChunk, {}, std::move(chunk)});
  }
  void send(Pieces chunk) override {
    if (asio::buffer_size(buffers_of({}, chunk)) > 0) box.put({Mailbox::Mail::kChunk, {.more = std::move(chunk)}, {}});
  }
  void end() override { box.put({Mailbox::Mail::kEnd, {}, {}}); }
  void apart(std::function<void()> work) override {
    heavy_.post([self = shared_from_this(), work = std::move(work)] { guarded(work, [&](const char*) { self->give_up(); }); });
  }
  void later(std::function<void()> work) override {
    replies_.post([self = shared_from_this(), work = std::move(work)] {
      if (!self->gone_) guarded(work, [&](const char*) { self->give_up(); });
    });
  }
  void give_up() noexcept override { box.close(); }
  void hear_hang_up() {
    gone_ = true;
    hang_up_.cancel();
  }

 private:
  HttpRequest request_;
  const std::shared_ptr<BodyRoom> room_;
  Workers &heavy_, &replies_;
  CancelToken hang_up_;
  std::atomic<bool> gone_{false};

 public:
  Mailbox box;
  bool watched = true;  // by the reading thread: the connection is there and belongs to this request
};

/// Has the other side gone? Bytes that wait to be read are a further request: they say neither that it has nor that it has not.
bool is_gone(tcp::socket& socket) {
  pollfd look{.fd = socket.native_handle(), .events = POLLRDHUP, .revents = 0};
  return ::poll(&look, 1, 0) > 0 && (look.revents & (POLLRDHUP | POLLHUP | POLLERR)) != 0;
}

/// How a body is framed by anything but its length or plain chunks is not known here, nor where it ends. Of two hosts nobody could say which is meant.
std::string wrong_in_head(const HttpRequest& head, size_t hosts) {
  const std::string_view coding = head.field("transfer-encoding");
  if (!coding.empty() && lower(coding) != "chunked") return "transfer-encoding: expected chunked or none, got another";
  return hosts > 1 ? fmt::format("host: expected one, got {}", hosts) : "";
}

class Server final : public HttpServer {
 public:
  Server(const HttpOptions& options, Application& application)
      : options_(options), application_(application), workers_(options.workers), heavy_(options.workers) {}
  ~Server() override { Server::stop(); }
  void stop() override {
    counts_->stopped = true;
    io_.stop();
    if (thread_.joinable()) thread_.join();
    workers_.join();
    heavy_.join();
    replies_.join();
  }
  Status begin() {
    error_code ec;
    const auto address = asio::ip::make_address(options_.host, ec);
    if (ec) return usage_error("--host: expected an IP address, got {}", options_.host);
    const tcp::endpoint at(address, options_.port);
    acceptor_.open(at.protocol(), ec);
    if (!ec) acceptor_.set_option(asio::socket_base::reuse_address(true), ec);
    if (!ec) acceptor_.bind(at, ec);
    if (!ec) acceptor_.listen(1024, ec);
    if (ec) return resource_error("{}:{}: expected an address that is free, got: {}", options_.host, options_.port, ec.message());
    port_ = acceptor_.local_endpoint().port();
    accept();
    thread_ = std::thread([this] { serve(); });
    return {};
  }
  uint16_t port() const override { return port_; }
  void stop_accepting() override {
    asio::post(io_, [this] {
      error_code ec;
      acceptor_.close(ec);
    });
    counts_->draining = true;
    time_is_up_.cancel();
  }
  int open_connections() const override { return counts_->open; }

 private:
  /// What finds no memory ends one connection, or one attempt to take one, and nothing beside it.
  void serve() noexcept {
    while (!io_.stopped()) {
      guarded(
          [this] {
            if (!accepting_ && acceptor_.is_open()) accept();
            io_.run();
          },
          note);
    }
  }
  static void note(const char* what) noexcept {
    guarded([&] { log(LogLevel::kDebug, "serve: connection: {}", what); }, [](const char*) {});
  }

  /// Takes the next connection, and all behind it.
  void accept() {
    acceptor_.async_accept([this, attempt = attempt()](error_code ec, tcp::socket socket) mutable {
      attempt.reset();
      if (ec == asio::error::operation_aborted || !acceptor_.is_open()) return;
      if (ec) return accept_later();                                       // no descriptors left: others must go first
      if (counts_->open < options_.connections) begin(std::move(socket));  // else it is closed
      accept();
    });
  }
  void accept_later() {
    pause_.expires_after(kPause);
    pause_.async_wait([this, attempt = attempt()](error_code) mutable {
      attempt.reset();
      if (acceptor_.is_open()) accept();
    });
  }
  /// Somebody will take the next connection, as long as this is there. Where it goes with what found no memory, serve() begins anew.
  using Attempt = std::unique_ptr<bool, void (*)(bool*)>;
  Attempt attempt() {
    accepting_ = true;
    return Attempt(&accepting_, [](bool* accepting) { *accepting = false; });
  }
  void begin(tcp::socket socket) {
    error_code ec;
    socket.set_option(tcp::no_delay(true), ec);
    asio::co_spawn(io_, session(std::make_shared<Connection>(std::move(socket), counts_)), asio::detached);
  }

  asio::awaitable<bool> write(beast::tcp_stream& stream, HttpReply r, bool keep, unsigned version, bool head_only) {
    http::response<http::string_body> out(static_cast<http::status>(r.status), version);
    if (!r.type.empty()) out.set(http::field::content_type, r.type);
    for (const auto& [name, value] : r.header) out.set(name, value);
    out.keep_alive(keep);
    out.content_length(asio::buffer_size(buffers_of(r.body, r.more)));
    const bool in_pieces = !head_only && !r.more.empty();
    if (!head_only && !in_pieces) out.body() = std::move(r.body);
    stream.expires_after(std::chrono::seconds(kWriteSeconds));
    http::response_serializer<http::string_body> serializer(out);
    error_code ec;
    if (head_only || in_pieces)
      co_await http::async_write_header(stream, serializer, into(ec));
    else
      co_await http::async_write(stream, serializer, into(ec));
    if (!ec && in_pieces) co_await asio::async_write(stream, buffers_of(r.body, r.more), into(ec));
    co_return !ec;
  }

  asio::awaitable<void> session(std::shared_ptr<Connection> connection) {
    beast::flat_buffer buffer(kMostBuffered);
    try {
      for (bool keep = co_await one(connection, buffer); keep;)
        keep = co_await another(connection->stream, buffer) && co_await one(connection, buffer);
    } catch (const std::exception& e) {
      note(e.what());
    }
  }

  /// Waits for the first byte of a further request. Connections that only wait take half of the places at most: beyond that they are
  /// given up as early as those that never ask.
  asio::awaitable<bool> another(beast::tcp_stream& stream, beast::flat_buffer& buffer) {
    if (buffer.size() > 0) co_return true;
    const bool crowded = counts_->open > options_.connections / 2;
    stream.expires_after(std::chrono::seconds(crowded ? std::min(options_.head_s, options_.idle_s) : options_.idle_s));
    error_code ec;
    constexpr size_t kPiece = 4096;
    buffer.commit(co_await stream.async_read_some(buffer.prepare(kPiece), into(ec)));
    co_return !ec;
  }

  Clock::time_point end_of_piece(Clock::time_point end) const {
    return std::min(end, Clock::now() + std::chrono::seconds(options_.piece_s));
  }

  /// One request; whether another may follow.
  asio::awaitable<bool> one(const std::shared_ptr<Connection>& connection, beast::flat_buffer& buffer) {
    beast::tcp_stream& stream = connection->stream;
    RequestParser parser;
    parser.header_limit(16 << 10);
    parser.body_limit(options_.body_bytes);
    error_code ec;
    stream.expires_after(std::chrono::seconds(options_.head_s));
    co_await http::async_read_header(stream, buffer, parser, into(ec));
    if (ec) co_return co_await refuse_malformed(stream, ec);
    HttpRequest request = head_of(parser.get());
    const unsigned version = parser.get().version();
    HttpReply refusal;
    const std::string wrong = wrong_in_head(request, parser.get().count(http::field::host));
    if (!wrong.empty()) refusal = application_.error(400, wrong);
    if (!wrong.empty() || !application_.admits(request, refusal)) {
      co_await write(stream, refusal, false, version, request.method == "HEAD");
      co_return co_await linger(stream);
    }
    if (websocket::is_upgrade(parser.get()))
      co_return co_await talk(connection, http::request<http::string_body>(std::move(parser.release().base())), std::move(request));
    const auto room = co_await read_body(stream, buffer, parser);
    if (!room) co_return false;
    const bool keep = parser.get().keep_alive() && !counts_->draining, head_only = request.method == "HEAD";
    request.body = std::move(parser.get().body());
    request.whole = Clock::now();
    HttpReply now;
    if (application_.handle_now(request, now)) co_return co_await write(stream, now, keep, version, head_only) && keep;
    co_return co_await answer(stream, std::move(request), room, keep, version, head_only) && keep;
  }

  /// The body behind a head; null where it did not come to its end, or found no room beside those of others.
  asio::awaitable<std::shared_ptr<BodyRoom>> read_body(beast::tcp_stream& stream, beast::flat_buffer& buffer,
                                                       RequestParser& parser) {
    const auto announced = parser.content_length();
    const uint64_t most = announced ? *announced : parser.chunked() ? options_.body_bytes : 0;
    const auto room = std::make_shared<BodyRoom>(counts_);
    // What is announced and would not fit now is refused before it comes.
    bool fits = !announced || most == 0 || counts_->bodies + most <= limit_of_all(options_, most);
    error_code ec;
    if (fits && lower({parser.get()[http::field::expect].data(), parser.get()[http::field::expect].size()}) == "100-continue") {
      http::response<http::empty_body> go(http::status::continue_, parser.get().version());
      http::response_serializer<http::empty_body> serializer(go);
      co_await http::async_write(stream, serializer, into(ec));
    }
    parser.eager(true);
    std::string& body = parser.get().body();
    for (const auto end = end_of_body(options_, most); fits && !ec && !parser.is_done();) {
      const uint64_t next = next_room(*room, body.size(), most);
      fits = room->resize(next, limit_of_all(options_, next));
      if (!fits) break;
      body.reserve(room->bytes());
      stream.expires_at(end_of_piece(end));
      co_await http::async_read_some(stream, buffer, parser, into(ec));
    }
    if (!fits) {
      body = {};
      room->resize(0, 0);
      co_await write(stream, application_.error(503, "body: expected room for it beside those of others, got none"), false,
                     parser.get().version(), false);
      co_await linger(stream);
      co_return nullptr;
    }
    if (!ec) co_return room;
    co_await refuse_malformed(stream, ec);
    co_return nullptr;
  }

  asio::awaitable<bool> refuse_malformed(beast::tcp_stream& stream, error_code ec) {
    if (ec == http::error::end_of_stream || ec == asio::error::eof || ec == asio::error::connection_reset) co_return false;
    int status = 400;
    if (ec == beast::error::timeout) status = 408;
    if (ec == http::error::body_limit) status = 413;
    if (ec == http::error::header_limit) status = 431;
    if (status == 408) {  // the stream is closed by its timer: nothing can be said
      co_return false;
    }
    const std::string message = status == 413 ? fmt::format("body: expected at most {} bytes, got more", options_.body_bytes)
                                              : fmt::format("http: expected a well-formed request, got: {}", ec.message());
    co_await write(stream, application_.error(status, message), false, 11, false);
    co_return co_await linger(stream);
  }

  /// Reads on for a moment, so that a client that still sends gets to read the reply before the connection goes.
  asio::awaitable<bool> linger(beast::tcp_stream& stream) {
    error_code ec;
    stream.socket().shutdown(tcp::socket::shutdown_send, ec);
    std::array<char, 16384> sink;
    size_t left = options_.body_bytes * 2;
    stream.expires_after(std::chrono::seconds(5));
    while (!ec && left > 0) {
      const size_t n = co_await stream.async_read_some(asio::buffer(sink), into(ec));
      left -= std::min(left, n);
    }
    co_return false;
  }

  asio::awaitable<bool> answer(beast::tcp_stream& stream, HttpRequest request, std::shared_ptr<BodyRoom> room, bool keep,
                               unsigned version, bool head_only) {
    const auto exchange = std::make_shared<Exchanged>(io_, std::move(request), std::move(room), heavy_, replies_, time_is_up_);
    bool taken = false;
    const std::shared_ptr<void> at_end(nullptr, [this, exchange, &taken, &socket = stream.socket()](void*) {
      if (!taken) exchange->hear_hang_up();
      exchange->box.shut();
      exchange->watched = false;
      error_code ec;
      if (!counts_->stopped) socket.cancel(ec);  // the watch
    });
    workers_.post([this, exchange] { guarded([&] { application_.handle(exchange); }, [&](const char*) { exchange->give_up(); }); });
    watch(stream.socket(), exchange);
    const bool chunks = version >= kChunkedVersion;  // before that the end of a stream is the connection's
    bool alive = true, open = true;
    for (bool done = false; alive && !done;) {
      auto mail = exchange->box.get();
      if (!mail) {
        stream.expires_never();
        co_await exchange->box.wait(std::chrono::seconds(5));
        continue;
      }
      switch (mail->kind) {
        case Mailbox::Mail::kReply:
          alive = co_await write(stream, std::move(mail->reply), keep, version, head_only);
          done = true;
          break;
        case Mailbox::Mail::kHead:
          alive = co_await write_head(stream, mail->reply, keep, version);
          break;
        case Mailbox::Mail::kChunk: {
          stream.expires_after(std::chrono::seconds(kWriteSeconds));
          error_code ec;
          const std::vector<asio::const_buffer> text = buffers_of(mail->text, mail->reply.more);
          if (chunks)
            co_await asio::async_write(stream, http::make_chunk(text), into(ec));
          else
            co_await asio::async_write(stream, text, into(ec));
          alive = !ec;
          break;
        }
        case Mailbox::Mail::kEnd: {
          error_code ec;
          stream.expires_after(std::chrono::seconds(kWriteSeconds));
          if (chunks) co_await asio::async_write(stream, http::make_chunk_last(), into(ec));
          alive = !ec;
          open = chunks;
          done = true;
          break;
        }
        case Mailbox::Mail::kClose:
          alive = false;
          break;
        default:
          break;
      }
    }
    taken = alive;
    co_return alive&& open;
  }

  /// The token is cancelled as soon as the other side closes. Where it has sent its next request already, whose bytes would wake a watch
  /// again and again, it is looked at now and then.
  static void watch(tcp::socket& socket, const std::shared_ptr<Exchanged>& exchange) {
    socket.async_wait(tcp::socket::wait_read, [&socket, exchange](error_code ec) {
      if (!ec) look(socket, exchange);
    });
  }
  static void look(tcp::socket& socket, const std::shared_ptr<Exchanged>& exchange) {
    if (!exchange->watched) return;
    if (is_gone(socket)) {
      exchange->hear_hang_up();
      return exchange->box.put({Mailbox::Mail::kClose, {}, {}});
    }
    const auto pause = std::make_shared<asio::steady_timer>(socket.get_executor(), kBreath);
    pause->async_wait([&socket, exchange, pause](error_code) { look(socket, exchange); });
  }

  asio::awaitable<bool> write_head(beast::tcp_stream& stream, const HttpReply& r, bool keep, unsigned version) {
    http::response<http::empty_body> head(static_cast<http::status>(r.status), version);
    head.set(http::field::content_type, r.type);
    for (const auto& [name, value] : r.header) head.set(name, value);
    head.keep_alive(keep && version >= kChunkedVersion);
    head.chunked(version >= kChunkedVersion);
    http::response_serializer<http::empty_body> serializer(head);
    stream.expires_after(std::chrono::seconds(kWriteSeconds));
    error_code ec;
    co_await http::async_write_header(stream, serializer, into(ec));
    co_return !ec;
  }

  asio::awaitable<bool> talk(const std::shared_ptr<Connection>& connection, http::request<http::string_body> upgrade,
                             HttpRequest request) {
    HttpReply refusal;
    const std::shared_ptr<SocketUser> user = application_.upgrade(request, refusal);
    if (!user)
      co_await write(connection->stream, refusal, false, upgrade.version(), false);
    else
      co_await Conversation::hold(std::make_shared<Conversation>(io_, workers_, options_, connection, std::move(request), user),
                                  std::move(upgrade));
    co_return false;
  }

  const HttpOptions options_;
  Application& application_;
  const std::shared_ptr<Counts> counts_ = std::make_shared<Counts>();
  CancelToken time_is_up_;  // for what is under way
  bool accepting_ = false;
  Workers workers_, heavy_, replies_{1};  // go behind what waits in io_ and may hold a place in their order
  asio::io_context io_{1};
  const asio::executor_work_guard<asio::io_context::executor_type> open_{io_.get_executor()};  // it runs until it is stopped
  tcp::acceptor acceptor_{io_};
  asio::steady_timer pause_{io_};
  std::thread thread_;
  uint16_t port_ = 0;
};

}  // namespace

Result<std::unique_ptr<HttpServer>> HttpServer::listen(const HttpOptions& options, Application& application) {
  auto server = std::make_unique<Server>(options, application);
  SLIP_TRY_(server->begin());
  return std::unique_ptr<HttpServer>(std::move(server));
}

}  // namespace slip::server
