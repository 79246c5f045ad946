// SPDX-License-Identifier: Apache-2.0
// slipstream::parse_messages: a conversation as chat interfaces write it.
#include "api/boundary.h"
#include "api/request/requests.h"
#include "base/json.h"
#include "base/json/flaws.h"
#include "base/json/shown.h"
#include "slipstream/model.h"
#include "slipstream/request.h"

namespace slip::api {

Status check_role(std::string_view role, std::string_view where) {
  if (role == "system" || role == "user" || role == "assistant") return {};
  return bad_input("{}: role: expected system, user or assistant, got {}", where, shown(slipstream::to_valid_utf8(role)));
}

namespace {

constexpr size_t kMostMessages = 1024;

/// A part of a message's content: text as it is, or the mark of an image or video.
Result<std::string> part_text(const json::value& v, const std::string& where) {
  const json::object* o = v.if_object();
  if (!o) return bad_input("{}: expected an object with type, got another value", where);
  SLIP_TRY(const std::string type, get_string(*o, "type", where));
  if (type != "text" && type != "image" && type != "video")
    return bad_input(
        "{}: type: expected text, image or video, got {}{}", where, type,
        type == "image_url" ? ": pictures come with the request, and {\"type\": \"image\"} marks where one stands" : "");
  const std::string_view own = type == "text" ? "text" : "";
  for (const auto& member : *o)
    if (member.key() != "type" && std::string_view(member.key()) != own)
      return bad_input("{}: expected the key{} type{}, got {}", where, own.empty() ? "" : "s", own.empty() ? "" : " and text",
                       std::string_view(member.key()));
  if (type == "image") return std::string("<image>");
  if (type == "video") return std::string("<video>");
  return get_string(*o, "text", where);
}

Result<std::string> content_text(const json::object& message, const std::string& where) {
  const json::value* content = message.if_contains("content");
  if (!content) return bad_input("{}: expected the keys role and content, got no content", where);
  if (content->is_string()) return std::string(content->get_string());
  const json::array* parts = content->if_array();
  if (!parts) return bad_input("{}: content: expected a text or an array of parts, got another value", where);
  std::string out;
  for (size_t i = 0; i < parts->size(); ++i) {
    SLIP_TRY(const std::string part, part_text((*parts)[i], fmt::format("{}: content[{}]", where, i)));
    out += part;
  }
  return out;
}

Result<slipstream::Message> read_message(const json::value& v, const std::string& where, size_t i) {
  const json::object* o = v.if_object();
  if (!o) return bad_input("{}: expected an object with role and content, got another value", where);
  for (const auto& member : *o)
    if (member.key() != "role" && member.key() != "content")
      return bad_input("{}: expected the keys role and content, got {}", where, std::string_view(member.key()));
  slipstream::Message out;
  SLIP_TRY(out.role, get_string(*o, "role", where));
  SLIP_TRY_(check_role(out.role, where));
  if (out.role == "system" && i > 0) return bad_input("{}: role: expected the system's turn first, got it behind others", where);
  SLIP_TRY(out.text, content_text(*o, where));
  return out;
}

Result<std::vector<slipstream::Message>> parse(std::string_view document, std::string_view name) {
  SLIP_TRY(const json::value v, parse_json(document, name));
  SLIP_TRY_(check_json(document, name));
  const json::array* a = v.if_array();
  if (!a && v.is_object()) {  // a request of a chat interface
    const json::value* inner = v.get_object().if_contains("messages");
    a = inner ? inner->if_array() : nullptr;
  }
  if (!a) return bad_input("{}: expected an array of messages, got another value", name);
  if (a->empty() || a->size() > kMostMessages)
    return bad_input("{}: expected 1 to {} messages, got {}", name, kMostMessages, a->size());
  std::vector<slipstream::Message> out;
  for (size_t i = 0; i < a->size(); ++i) {
    SLIP_TRY(out.emplace_back(), read_message((*a)[i], fmt::format("{}[{}]", name, i), i));
  }
  if (out.back().role != "user") return bad_input("{}: expected the user's turn last, got the {}'s", name, out.back().role);
  return out;
}

}  // namespace

}  // namespace slip::api

namespace slipstream {

Result<std::vector<Message>> parse_messages(std::string_view json, std::string_view name) {
  return slip::api::bounded([&] { return slip::api::parse(json, name); });
}

}  // namespace slipstream
