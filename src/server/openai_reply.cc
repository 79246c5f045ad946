// SPDX-License-Identifier: Apache-2.0
// See openai_reply.h.
#include "server/openai_reply.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <random>

namespace slip::server {
namespace {

std::string fresh_id(std::string_view prefix) {
  static const uint64_t start = std::random_device{}();
  static std::atomic<uint64_t> next{0};
  return fmt::format("{}-{:08x}{:08x}", prefix, start, next++);
}

json::value parsed(std::string_view text) {
  auto value = parse_json(text, "value");
  return value ? std::move(*value) : json::value(text);
}

json::object own_part(const slipstream::Answer& answer, const slipstream::Served& served) {
  json::object out;
  if (json::value all = parsed(answer.to_json()); all.is_object()) out = std::move(all.get_object());
  out.erase("answer");
  out.erase("tokens");
  out.erase("model");
  out.erase("trajectory_head");  // a folder of this machine
  if (json::value* remarks = out.if_contains("remarks"); remarks && remarks->is_array())
    for (json::value& remark : remarks->get_array())
      if (remark.is_string()) remark = in_requests_words(remark.get_string());
  out["queue_ms"] = served.queue_ms;
  out["run_ms"] = served.run_ms;
  out["reproducible"] = answer.decoder.exact;
  return out;
}

}  // namespace

ReplyHead reply_head(bool chat, std::string model, std::string fingerprint) {
  return {fresh_id(chat ? "chatcmpl" : "cmpl"), std::move(model), std::move(fingerprint),
          std::chrono::duration_cast<std::chrono::seconds>(std::chrono::system_clock::now().time_since_epoch()).count(), chat};
}

const char* finish_reason(const slipstream::Answer& a, size_t choice) {
  return (choice < a.finishes.size() ? a.finishes[choice] : a.finish) == "length" ? "length" : "stop";
}

json::object usage_of(const slipstream::Answer& a, const CompletionRequest& request) {
  const slipstream::Statistics& s = a.statistics;
  const int64_t tokens = request.request.rollouts > 1 ? s.all_tokens : s.tokens * std::max(1, request.choices);
  return {{"prompt_tokens", s.prompt_rows},
          {"completion_tokens", tokens},
          {"total_tokens", s.prompt_rows + tokens},
          {"prompt_tokens_details", {{"cached_tokens", s.reused_rows}}},
          {"completion_tokens_details",
           {{"accepted_prediction_tokens", s.accepted},
            {"rejected_prediction_tokens", s.tested - s.accepted},
            {"reasoning_tokens", 0}}}};
}

namespace {

json::object head_object(const ReplyHead& head, std::string_view chat, std::string_view text) {
  return {{"id", head.id},
          {"object", head.chat ? chat : text},
          {"created", head.created},
          {"model", head.model},
          {"system_fingerprint", head.fingerprint}};
}

/// OpenAI's number for what cannot be, because JSON has no infinity.
double finite(double log_prob) { return std::max(log_prob, -9999.0); }

json::object whole_choice(const ReplyHead& head, int32_t index, std::string_view text, const char* finish,
                          json::value log_probs = {}) {
  json::object out{{"index", index}};
  if (head.chat)
    out["message"] = {{"role", "assistant"}, {"content", text}, {"refusal", nullptr}};
  else
    out["text"] = text;
  out["logprobs"] = std::move(log_probs);
  out["finish_reason"] = finish;
  return out;
}

}  // namespace

namespace {

/// A token as chat's lists tell it.
json::object log_prob_entry(const std::string& spelled, double log_prob) {
  json::array numbers;
  for (const char c : spelled) numbers.emplace_back(static_cast<uint8_t>(c));
  return {{"token", slipstream::to_valid_utf8(spelled)}, {"logprob", finite(log_prob)}, {"bytes", std::move(numbers)}};
}

bool goes_on(char c) { return (static_cast<unsigned char>(c) & 0xC0) == 0x80; }

/// Where each token of an answer begins in its text. A special token has letters and takes no room there, since the text leaves it out; bytes
/// that are no character show as U+FFFD; and some vocabularies put a blank in front of a text, which is not told.
class TextPlaces {
 public:
  explicit TextPlaces(std::string_view text) : text_(text) {}
  bool at_end() const { return at_ == text_.size(); }
  /// Whole characters before the next token.
  size_t characters() const { return characters_ - (at_ < text_.size() && goes_on(text_[at_]) ? 1 : 0); }
  /// What begins a character stands behind the one before, of which a token's broken bytes may have had the look.
  void meet(std::string_view bytes) {
    if (!bytes.empty() && !goes_on(bytes[0]))
      while (!at_end() && goes_on(text_[at_])) pass(1);
  }
  void take(std::string_view bytes) {
    if (bytes.empty() || found(bytes)) return;
    if (at_ == 0 && bytes[0] == ' ' && found(bytes.substr(1))) return;
    if (found(slipstream::to_valid_utf8(bytes))) return;
    while (!bytes.empty() && goes_on(bytes[0]))
      bytes.remove_prefix(1);  // of a character that is broken, and stands there as one mark
    if (!bytes.empty()) found(slipstream::to_valid_utf8(bytes));
  }

 private:
  /// A text may end within its last token, before a stop or half a character.
  bool found(std::string_view bytes) {
    const std::string_view here = text_.substr(at_, bytes.size());
    if (here.empty() || !bytes.starts_with(here)) return false;
    pass(here.size());
    return true;
  }
  void pass(size_t bytes) {
    for (; bytes > 0; --bytes) characters_ += goes_on(text_[at_++]) ? 0 : 1;
  }
  const std::string_view text_;
  size_t at_ = 0, characters_ = 0;
};

}  // namespace

std::vector<size_t> text_offsets(std::string_view text, const std::vector<std::string>& tokens, bool ends) {
  std::vector<size_t> out;
  TextPlaces places(text);
  for (const std::string& token : tokens) {
    places.meet(token);
    if (ends && places.at_end()) break;
    out.push_back(places.characters());
    places.take(token);
  }
  return out;
}

json::value log_probs_of(const CompletionRequest& request, const slipstream::Answer& a, const TokenBytes& bytes) {
  const std::vector<double> each = request.log_probs ? a.token_log_probs() : std::vector<double>();
  if (each.size() != a.tokens.size() || each.empty()) return nullptr;
  const bool asks_top = request.request.top_log_probs > 0;
  const auto likely = asks_top ? a.token_top_log_probs() : std::vector<std::vector<slipstream::LikelyToken>>();
  json::array content, tokens, log_probs, tops;
  std::vector<std::string> spelled;
  for (const int32_t token : a.tokens) spelled.push_back(bytes(token));
  // Free text ends before a stop and without the model's end: tokens behind it have no place in it.
  const std::vector<size_t> offsets = text_offsets(a.text, spelled, !a.finish.empty());
  for (size_t i = 0; i < offsets.size(); ++i) {
    json::array top_of_chat;
    json::object top;
    for (size_t k = 0; i < likely.size() && k < likely[i].size(); ++k) {
      const std::string other = bytes(likely[i][k].id);
      top_of_chat.emplace_back(log_prob_entry(other, likely[i][k].log_prob));
      // Two ids may have one spelling: the likelier one is told.
      top.emplace(slipstream::to_valid_utf8(other), finite(likely[i][k].log_prob));
    }
    json::object entry = log_prob_entry(spelled[i], each[i]);
    tokens.emplace_back(entry.at("token"));
    entry["top_logprobs"] = std::move(top_of_chat);
    content.emplace_back(std::move(entry));
    tops.emplace_back(std::move(top));
    log_probs.emplace_back(finite(each[i]));
  }
  if (request.chat) return json::object{{"content", std::move(content)}, {"refusal", nullptr}};
  return json::object{{"tokens", std::move(tokens)},
                      {"token_logprobs", std::move(log_probs)},
                      {"top_logprobs", asks_top ? json::value(std::move(tops)) : json::value()},
                      {"text_offset", json::value_from(offsets)}};
}

json::object completion(const ReplyHead& head, const CompletionRequest& request, const slipstream::Answer& answer,
                        const slipstream::Served& served, const TokenBytes& bytes) {
  json::object out = head_object(head, "chat.completion", "text_completion");
  json::array choices;
  const json::value log_probs = log_probs_of(request, answer, bytes);
  for (int32_t i = 0; i < request.choices; ++i) {
    const auto at = static_cast<size_t>(i);
    choices.emplace_back(
        whole_choice(head, i, at < answer.texts.size() ? answer.texts[at] : answer.text, finish_reason(answer, at), log_probs));
  }
  out["choices"] = std::move(choices);
  out["usage"] = usage_of(answer, request);
  out["slipstream"] = own_part(answer, served);
  return out;
}

json::object plan_json(const slipstream::Trajectory& plan) {
  const auto points = [](const std::vector<slipstream::Point>& of) {
    json::array out;
    for (const slipstream::Point& p : of) out.push_back(json::array{p[0], p[1]});
    return out;
  };
  json::object out{{"waypoints", points(plan.waypoints)}, {"rate_hz", 1}};
  if (!plan.points_4hz.empty()) out["fit"] = {{"rate_hz", 4}, {"points", points(plan.points_4hz)}};
  out["infeasible"] = json::value_from(plan.infeasible);
  return out;
}

void PlanSoFar::take(const slipstream::Event& event) {
  const bool head = event.plan_source == "head";
  const int rank = !head ? 2 : event.final ? 3 : 1;
  if (rank < rank_) return;
  rank_ = rank;
  trajectory_ = *event.plan;
  source_ = event.plan_source;
  after_section_ = event.after_section;
}

namespace {

void add_source(std::string_view source, std::string_view after_section, json::object& out) {
  out["plan_source"] = source;
  if (source == "head") out["after_section"] = after_section;
}

}  // namespace

json::object partial_part(const json::object& fields, const PlanSoFar& plan, const slipstream::Served& served) {
  json::object out{{"partial", true}, {"fields", fields}, {"queue_ms", served.queue_ms}, {"run_ms", served.run_ms}};
  out["trajectory"] = plan.empty() ? json::value() : json::value(plan_json(plan.trajectory()));
  if (!plan.empty()) add_source(plan.source(), plan.after_section(), out);
  return out;
}

json::object partial_completion(const ReplyHead& head, const std::string& content, const json::object& fields,
                                const PlanSoFar& plan, const slipstream::Served& served) {
  json::object out = head_object(head, "chat.completion", "text_completion");
  out["choices"] = json::array{whole_choice(head, 0, content, "length")};
  out["partial"] = true;
  out["slipstream"] = partial_part(fields, plan, served);
  return out;
}

std::string event(const json::object& object) { return "data: " + slipstream::to_valid_utf8(json::serialize(object)) + "\n\n"; }

json::object chunk(const ReplyHead& head, json::array choices) {
  json::object out = head_object(head, "chat.completion.chunk", "text_completion");
  out["choices"] = std::move(choices);
  return out;
}

json::object text_choice(const ReplyHead& head, int32_t index, std::string_view text, bool first, const char* finish) {
  json::object out{{"index", index}};
  if (head.chat) {
    json::object delta;
    if (first) delta["role"] = "assistant";
    if (!text.empty() || first) delta["content"] = text;
    out["delta"] = std::move(delta);
  } else {
    out["text"] = text;
  }
  out["logprobs"] = nullptr;
  out["finish_reason"] = finish ? json::value(finish) : json::value();
  return out;
}

json::object event_chunk(const ReplyHead& head, const slipstream::Event& e) {
  json::object out = chunk(head, {}), ours;
  if (e.kind == slipstream::Event::Kind::kField) {
    ours["event"] = "field";
    ours["name"] = e.field->name;
    ours["value"] = parsed(e.field->json);
  } else if (e.kind == slipstream::Event::Kind::kPlan) {
    ours["event"] = "plan";
    ours["trajectory"] = plan_json(*e.plan);
    add_source(e.plan_source, e.after_section, ours);
    ours["final"] = e.final;
  } else {
    ours["event"] = "pass";
    ours["rows"] = e.rows;
    ours["proposed"] = e.proposed;
    ours["tested"] = e.tested;
    ours["accepted"] = e.accepted;
  }
  ours["forwards"] = e.forwards;
  ours["tokens"] = e.tokens;
  ours["elapsed_ms"] = e.elapsed_ms;
  out["slipstream"] = std::move(ours);
  return out;
}

std::string without_folder(std::string message, std::string_view folder, std::string_view name) {
  while (folder.ends_with('/')) folder.remove_suffix(1);
  if (folder.empty() || folder == "." || folder == "..") return message;
  constexpr std::string_view kBefore = " (", kBehind = "/:,; )";  // a path ends there: it is not a part of another word
  for (size_t at = 0; (at = message.find(folder, at)) != std::string::npos;) {
    const size_t end = at + folder.size();
    const bool whole = (at == 0 || kBefore.find(message[at - 1]) != std::string_view::npos) &&
                       (end == message.size() || kBehind.find(message[end]) != std::string_view::npos);
    if (whole) message.replace(at, folder.size(), name);
    at += whole ? name.size() : 1;
  }
  return message;
}

}  // namespace slip::server
