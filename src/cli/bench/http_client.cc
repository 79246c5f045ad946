// SPDX-License-Identifier: Apache-2.0
// See http_client.h.
#include "cli/bench/http_client.h"

#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <utility>

namespace slip::cli {
namespace {

constexpr int kLookMs = 5;  // between looks at the token

bool is_field(std::string_view line, std::string_view name) {
  return line.size() > name.size() && line[name.size()] == ':' &&
         std::equal(name.begin(), name.end(), line.begin(),
                    [](char a, char b) { return a == (b >= 'A' && b <= 'Z' ? b + 32 : b); });
}

std::string_view value_of(std::string_view line) {
  line.remove_prefix(line.find(':') + 1);
  while (line.starts_with(' ')) line.remove_prefix(1);
  return line;
}

}  // namespace

HttpClient::HttpClient(std::string host, std::string port, std::string key)
    : host_(std::move(host)), port_(std::move(port)), key_(std::move(key)) {}
HttpClient::HttpClient(HttpClient&& other) noexcept
    : host_(std::move(other.host_)),
      port_(std::move(other.port_)),
      key_(std::move(other.key_)),
      read_(std::move(other.read_)),
      socket_(std::exchange(other.socket_, -1)) {}
HttpClient& HttpClient::operator=(HttpClient&& other) noexcept {
  std::swap(host_, other.host_);
  std::swap(port_, other.port_);
  std::swap(key_, other.key_);
  std::swap(read_, other.read_);
  std::swap(socket_, other.socket_);
  return *this;
}
HttpClient::~HttpClient() { close(); }

Result<HttpClient> HttpClient::of(std::string_view url, std::string key) {
  constexpr std::string_view kScheme = "http://";
  std::string_view rest = url;
  if (rest.starts_with(kScheme)) rest.remove_prefix(kScheme.size());
  while (rest.ends_with('/')) rest.remove_suffix(1);
  const size_t colon = rest.rfind(':');
  if (!url.starts_with(kScheme) || colon == 0 || colon == std::string_view::npos || colon + 1 == rest.size() ||
      rest.find('/') != std::string_view::npos)
    return usage_error("--url: expected http://HOST:PORT, got {}", url);
  return HttpClient(std::string(rest.substr(0, colon)), std::string(rest.substr(colon + 1)), std::move(key));
}

void HttpClient::close() {
  if (socket_ >= 0) ::close(socket_);
  socket_ = -1;
  read_.clear();
}

Status HttpClient::connect() {
  addrinfo hints{}, *found = nullptr;
  hints.ai_socktype = SOCK_STREAM;
  if (getaddrinfo(host_.c_str(), port_.c_str(), &hints, &found) != 0)
    return resource_error("{}:{}: expected an address, got none", host_, port_);
  for (const addrinfo* a = found; a && socket_ < 0; a = a->ai_next) {
    socket_ = ::socket(a->ai_family, a->ai_socktype | SOCK_CLOEXEC, a->ai_protocol);
    if (socket_ >= 0 && ::connect(socket_, a->ai_addr, a->ai_addrlen) != 0) close();
  }
  freeaddrinfo(found);
  if (socket_ < 0) return resource_error("{}:{}: expected a server that listens, got none", host_, port_);
  const int on = 1;
  setsockopt(socket_, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
  return {};
}

Status HttpClient::send(std::string_view bytes, const CancelToken& cancel) {
  while (!bytes.empty()) {
    pollfd p{socket_, POLLOUT, 0};
    ::poll(&p, 1, kLookMs);
    SLIP_TRY_(cancel.check("ask", 0, "bytes"));
    if (p.revents == 0) continue;
    const ssize_t n = ::send(socket_, bytes.data(), bytes.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
    if (n < 0 && errno != EAGAIN && errno != EINTR)
      return resource_error("{}:{}: expected to send, got a closed connection", host_, port_);
    bytes.remove_prefix(static_cast<size_t>(std::max<ssize_t>(0, n)));
  }
  return {};
}

Status HttpClient::receive(const CancelToken& cancel) {
  for (;;) {
    pollfd p{socket_, POLLIN, 0};
    ::poll(&p, 1, kLookMs);
    SLIP_TRY_(cancel.check("ask", static_cast<int64_t>(read_.size()), "bytes"));
    if (p.revents == 0) continue;
    char buffer[16384];
    const ssize_t n = ::recv(socket_, buffer, sizeof buffer, MSG_DONTWAIT);
    if (n > 0) {
      read_.append(buffer, static_cast<size_t>(n));
      return {};
    }
    if (n == 0 || (errno != EAGAIN && errno != EINTR))
      return resource_error("{}:{}: expected a reply, got a closed connection", host_, port_);
  }
}

Result<std::string> HttpClient::take_line(const CancelToken& cancel) {
  size_t end = read_.find('\n');
  for (; end == std::string::npos; end = read_.find('\n')) SLIP_TRY_(receive(cancel));
  std::string line = read_.substr(0, end);
  read_.erase(0, end + 1);
  if (line.ends_with('\r')) line.pop_back();
  return line;
}

Status HttpClient::take(size_t bytes, const CancelToken& cancel, std::string& out) {
  while (read_.size() < bytes) SLIP_TRY_(receive(cancel));
  out.append(read_, 0, bytes);
  read_.erase(0, bytes);
  return {};
}

Result<HttpClient::Reply> HttpClient::read_reply(const CancelToken& cancel, const std::function<void(std::string_view)>& on_line) {
  Reply reply;
  SLIP_TRY(const std::string first, take_line(cancel));
  if (first.size() < 12 || !first.starts_with("HTTP/1.1 "))
    return resource_error("{}:{}: expected a reply of HTTP/1.1, got another", host_, port_);
  std::from_chars(first.data() + 9, first.data() + 12, reply.status);
  size_t length = 0;
  bool chunked = false;
  for (;;) {
    SLIP_TRY(const std::string line, take_line(cancel));
    if (line.empty()) break;
    const std::string_view value = value_of(line);
    if (is_field(line, "content-length")) std::from_chars(value.data(), value.data() + value.size(), length);
    chunked |= is_field(line, "transfer-encoding") && value == "chunked";
  }
  const auto tell = [&] {
    for (size_t end = 0; on_line && reply.status == 200 && (end = reply.body.find('\n')) != std::string::npos;) {
      on_line(std::string_view(reply.body).substr(0, end));
      reply.body.erase(0, end + 1);
    }
  };
  if (!chunked) {
    SLIP_TRY_(take(length, cancel, reply.body));
    tell();
    return reply;
  }
  for (;;) {
    SLIP_TRY(const std::string line, take_line(cancel));
    std::from_chars(line.data(), line.data() + line.size(), length = 0, 16);
    SLIP_TRY_(take(length, cancel, reply.body));
    SLIP_TRY(const std::string end, take_line(cancel));
    if (length == 0) return reply;
    tell();
  }
}

Result<HttpClient::Reply> HttpClient::ask(std::string_view method, std::string_view path, std::string_view body,
                                          const CancelToken& cancel, const std::function<void(std::string_view)>& on_line) {
  if (socket_ < 0) SLIP_TRY_(connect());
  std::string head = fmt::format("{} {} HTTP/1.1\r\nHost: {}:{}\r\nContent-Type: application/json\r\nContent-Length: {}\r\n",
                                 method, path, host_, port_, body.size());
  if (!key_.empty()) head += fmt::format("Authorization: Bearer {}\r\n", key_);
  Status sent = send(head + "\r\n", cancel);
  if (sent) sent = send(body, cancel);
  Result<Reply> reply = sent ? read_reply(cancel, on_line) : Result<Reply>(sent.error());
  if (!reply) close();
  return reply;
}

}  // namespace slip::cli
