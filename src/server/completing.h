// SPDX-License-Identifier: Apache-2.0
// One completion on its way: from a body that was read to the last byte of its reply.
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "base/measure.h"
#include "server/app.h"

namespace slip::server {

/// An error of the engine as HTTP tells it.
Refusal refusal_of(const slipstream::Error& error);
/// What became of a request that was not answered.
Refusal refusal_of(const slipstream::Error& error, const slipstream::Served& served);
/// What is asked of the model that answers, before its pictures are decoded: is it this one (`model` is its name), does it have the trajectory
/// head that is wanted (`head`: its folder, or none), and do its form and max_tokens fit? The request is put into the engine's words.
std::optional<Refusal> check_asked(CompletionRequest& request, slipstream::Service& service, const std::string& model,
                                   const std::string& head, const Allowed& allowed);

/// A reply's text, whose first `choices` choices have no `logprobs`, with these in each of them; they are there once. `log_probs`: JSON.
Pieces with_log_probs(std::string_view text, int32_t choices, std::string_view log_probs);

/// Tokens and drafts of an answer that may not come to its end.
class SoFar {
 public:
  void take(const slipstream::Event& event);
  /// Their `usage`, with the rows of the prompt where it has run.
  json::object usage(const CompletionRequest& request, const slipstream::Served& served) const;

 private:
  slipstream::Statistics statistics_;
};

/// A reply of one choice with so many of them, which differ in their index alone.
json::object with_choices(json::object reply, int32_t choices);

class Completing : public std::enable_shared_from_this<Completing> {
 public:
  Completing(App& app, std::shared_ptr<Exchange> exchange, CompletionRequest request, std::string key);
  /// On a worker. With pictures or a schema of its own, what follows is done apart.
  void start();

 private:
  /// Form, pictures, then the service.
  void begin();
  void refuse(const Refusal& refusal, const char* reason);
  /// Nobody waits for it any more, or it is late: told.
  bool is_over();
  /// Decodes the pictures, in `room` among those of others. False: it has ended, and told why.
  bool read_pictures(std::shared_ptr<void>& room);
  double deadline_ms() const;  // from its beginning; 0: none
  void told(const slipstream::Event& e);
  void done(slipstream::Result<slipstream::Answer>& answer, const slipstream::Served& served);
  /// The whole reply, or the end of a stream, not on the service's thread: it may be large.
  void reply(const slipstream::Answer& answer, const slipstream::Served& served);
  std::string take_log_probs(const slipstream::Answer& answer);
  void begin_stream();
  void send(json::object object);
  void end_stream(const slipstream::Answer& answer, const slipstream::Served& served);
  void send_rest(const slipstream::Answer& answer);
  void send_usage(json::object usage);
  void end();
  void tell_part(const slipstream::Served& served);
  void fail(const slipstream::Error& error, const slipstream::Served& served);
  TokenBytes bytes_of() const;
  std::string session_name() const { return key_ + "\n" + request_.session; }

  App& app_;
  const std::shared_ptr<Exchange> exchange_;
  CompletionRequest request_;
  const std::string key_;
  const Clock::time_point begun_ = exchange_->request().arrived, whole_ = exchange_->request().whole;
  ReplyHead head_;
  // What has been told so far, on the service's thread; then its reply's.
  bool streaming_ = false, sent_text_ = false;
  double first_ms_ = 0;
  std::string content_;
  json::object fields_;
  PlanSoFar plan_;
  SoFar so_far_;
  std::shared_ptr<void> under_way_;
};

}  // namespace slip::server
