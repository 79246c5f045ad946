// SPDX-License-Identifier: Apache-2.0
// What a benchmark needs of HTTP: questions to one server over a connection that is kept, answers whole or line by line. One thread at a time.
#pragma once
#include <functional>
#include <string>
#include <string_view>

#include "base/result.h"

namespace slip::cli {

class HttpClient {
 public:
  /// Of "http://HOST:PORT". kUsage for another address; nothing is connected yet.
  static Result<HttpClient> of(std::string_view url, std::string key);
  HttpClient(HttpClient&& other) noexcept;
  HttpClient& operator=(HttpClient&& other) noexcept;
  ~HttpClient();

  struct Reply {
    int status = 0;
    std::string body;  // without the lines that were told
  };
  /// With `on_line` a reply of status 200 is told line by line as it comes. kResource where the server cannot be reached or hangs up;
  /// kCancelled by the token, within 10 ms: the connection is closed, which is how a server hears of it.
  Result<Reply> ask(std::string_view method, std::string_view path, std::string_view body, const CancelToken& cancel,
                    const std::function<void(std::string_view line)>& on_line = {});

 private:
  HttpClient(std::string host, std::string port, std::string key);
  Status connect();
  void close();
  Status send(std::string_view bytes, const CancelToken& cancel);
  /// More bytes into `read_`.
  Status receive(const CancelToken& cancel);
  Result<std::string> take_line(const CancelToken& cancel);
  Status take(size_t bytes, const CancelToken& cancel, std::string& out);
  Result<Reply> read_reply(const CancelToken& cancel, const std::function<void(std::string_view line)>& on_line);

  std::string host_, port_, key_, read_;
  int socket_ = -1;
};

}  // namespace slip::cli
