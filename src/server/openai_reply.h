// SPDX-License-Identifier: Apache-2.0
// Answers as OpenAI's objects: whole, and as chunks of a stream.
#pragma once
#include <functional>
#include <string>

#include "server/openai_request.h"

namespace slip::server {

/// What all objects of one reply share.
struct ReplyHead {
  std::string id, model, fingerprint;
  int64_t created = 0;
  bool chat = true;
};
ReplyHead reply_head(bool chat, std::string model, std::string fingerprint);

/// The bytes of one token.
using TokenBytes = std::function<std::string(int32_t)>;

/// chat.completion or text_completion, with `slipstream`: fields, plan, decoder, settings, statistics.
json::object completion(const ReplyHead& head, const CompletionRequest& request, const slipstream::Answer& answer,
                        const slipstream::Served& served, const TokenBytes& bytes);
/// A choice's `logprobs`: the tokens of the text with the logarithms of their probabilities, 0 where the form left no choice; as chat's
/// {"content": [{"token", "logprob", "bytes", "top_logprobs"}]} or the lists of completions. Null where they were not asked for.
json::value log_probs_of(const CompletionRequest& request, const slipstream::Answer& answer, const TokenBytes& bytes);
/// Where each of an answer's tokens, given as bytes, begins in its text, in characters. `ends`: only those that begin before the text's end.
std::vector<size_t> text_offsets(std::string_view text, const std::vector<std::string>& tokens, bool ends);
/// A plan that is complete, as the result object tells it.
json::object plan_json(const slipstream::Trajectory& plan);
/// The best plan so far: a trajectory head's last, else the answer's own, else the head's newest early one.
class PlanSoFar {
 public:
  /// An event of kind kPlan.
  void take(const slipstream::Event& event);
  bool empty() const { return rank_ == 0; }
  const slipstream::Trajectory& trajectory() const { return trajectory_; }
  const std::string& source() const { return source_; }
  const std::string& after_section() const { return after_section_; }

 private:
  slipstream::Trajectory trajectory_;
  std::string source_, after_section_;  // the latter of a head's
  int rank_ = 0;
};
/// What was certain when the deadline passed: content and fields so far, and the plan or null with where it comes from; "partial": true. As a
/// whole reply, and its part `slipstream` alone.
json::object partial_completion(const ReplyHead& head, const std::string& content, const json::object& fields,
                                const PlanSoFar& plan, const slipstream::Served& served);
json::object partial_part(const json::object& fields, const PlanSoFar& plan, const slipstream::Served& served);
/// OpenAI's `usage`. Greedy choices are copies of one answer, and count as often as they are told.
json::object usage_of(const slipstream::Answer& answer, const CompletionRequest& request);

/// One server-sent event: "data: {...}\n\n". Events are unnamed.
std::string event(const json::object& object);
inline constexpr std::string_view kDone = "data: [DONE]\n\n";
json::object chunk(const ReplyHead& head, json::array choices);
/// {"index", "delta": {"content"}, "finish_reason"} or {"index", "text", ...}.
json::object text_choice(const ReplyHead& head, int32_t index, std::string_view text, bool first, const char* finish = nullptr);
/// A chunk without choices that says which field is complete, or the plan, or that a pass has run.
json::object event_chunk(const ReplyHead& head, const slipstream::Event& event);

/// A message for who asks from outside: `name` stands where the model's folder did.
std::string without_folder(std::string message, std::string_view folder, std::string_view name);

/// "length" where a choice's free text ended for want of tokens.
const char* finish_reason(const slipstream::Answer& answer, size_t choice = 0);

}  // namespace slip::server
