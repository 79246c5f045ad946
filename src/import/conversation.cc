// SPDX-License-Identifier: Apache-2.0
// Reading conversations from JSON; see conversation.h. The set on disk is in conversation_set.cc.
#include "import/conversation.h"

#include "import/json_records.h"

namespace slip {
namespace {

constexpr std::string_view kMark = "<image>";
constexpr size_t kMostTurns = 4096;

Result<std::string> role_of(const std::string& said, std::string_view where) {
  if (said == "human" || said == "user") return std::string("user");
  if (said == "gpt" || said == "assistant") return std::string("assistant");
  if (said == "system") return said;
  return bad_input("{}: expected a role of human, user, gpt, assistant or system, got {}", where, said);
}

/// The pictures that "<image>" stands for, in order.
struct Pictures {
  std::vector<std::string> paths;
  size_t used = 0;
};

/// Text with its marks as segments.
Status add_text(std::string_view text, Pictures& pictures, ConversationTurn& turn, std::string_view where) {
  for (;;) {
    const size_t at = text.find(kMark);
    if (at != 0 && !text.empty()) turn.content.emplace_back(std::string(text.substr(0, at)));
    if (at == std::string_view::npos) return {};
    if (pictures.used == pictures.paths.size())
      return bad_input("{}: expected as many <image> as there are pictures, got more than {}", where, pictures.paths.size());
    SLIP_TRY(std::string path, picture_path(pictures.paths[pictures.used++], where));
    turn.content.emplace_back(ConversationImage{std::move(path), {}});
    text.remove_prefix(at + kMark.size());
    if (text.starts_with('\n')) text.remove_prefix(1);
  }
}

Status add_parts(const json::array& parts, Pictures& pictures, ConversationTurn& turn, std::string_view where) {
  for (const json::value& v : parts) {
    if (!v.is_object()) return bad_input("{}: content: expected objects, got {}", where, json::serialize(v).substr(0, 60));
    const json::object& o = v.get_object();
    SLIP_TRY(const std::string type, get_string(o, "type", where));
    if (type == "text") {
      SLIP_TRY(const std::string text, get_string(o, "text", where));
      SLIP_TRY_(add_text(text, pictures, turn, where));
    } else if (type == "image") {
      SLIP_TRY(const std::string said, get_string(o, "image", where));
      SLIP_TRY(std::string path, picture_path(said, where));
      turn.content.emplace_back(ConversationImage{std::move(path), {}});
    } else {
      return bad_input("{}: content: expected type text or image, got {}", where, type);
    }
  }
  return {};
}

Status check_order(const Conversation& c, std::string_view where) {
  std::string_view want = "user";
  for (size_t i = 0; i < c.turns.size(); ++i) {
    const std::string_view role = c.turns[i].role;
    if (i == 0 && role == "system") continue;
    if (role != want) return bad_input("{}: expected turn {} by the {}, got the {}", where, i + 1, want, role);
    want = want == "user" ? "assistant" : "user";
  }
  if (c.turns.back().role != "assistant")
    return bad_input("{}: expected the last turn by the assistant, got the {}", where, c.turns.back().role);
  return {};
}

}  // namespace

Result<Conversation> parse_conversation(const json::value& v, std::string_view where) {
  if (!v.is_object()) return bad_input("{}: expected an object, got {}", where, json::serialize(v).substr(0, 60));
  const json::object& o = v.get_object();
  Conversation out;
  if (const json::value* id = o.if_contains("id")) out.id = id->is_string() ? std::string(id->get_string()) : json::serialize(*id);
  const bool chat = o.contains("messages");
  SLIP_TRY(const json::array* turns, get_array(o, chat ? "messages" : "conversations", where));
  if (turns->empty() || turns->size() > kMostTurns)
    return bad_input("{}: expected 1 to {} turns, got {}", where, kMostTurns, turns->size());
  SLIP_TRY(std::vector<std::string> paths, picture_names(o, where));
  Pictures pictures{std::move(paths), 0};
  for (const json::value& t : *turns) {
    if (!t.is_object()) return bad_input("{}: expected turns to be objects, got {}", where, json::serialize(t).substr(0, 60));
    SLIP_TRY(const std::string said, get_string(t.get_object(), chat ? "role" : "from", where));
    ConversationTurn turn;
    SLIP_TRY(turn.role, role_of(said, where));
    const json::value* content = t.get_object().if_contains(chat ? "content" : "value");
    if (content && content->is_string())
      SLIP_TRY_(add_text(content->get_string(), pictures, turn, where));
    else if (content && content->is_array() && chat)
      SLIP_TRY_(add_parts(content->get_array(), pictures, turn, where));
    else
      return bad_input("{}: expected a turn's {} to be text{}, got {}", where, chat ? "content" : "value",
                       chat ? " or an array of parts" : "", content ? json::serialize(*content).substr(0, 60) : "nothing");
    out.turns.push_back(std::move(turn));
  }
  SLIP_TRY_(check_order(out, where));
  if (pictures.used != pictures.paths.size())
    return bad_input("{}: expected as many <image> as there are pictures, got {} for {}", where, pictures.used,
                     pictures.paths.size());
  return out;
}

Status each_conversation(const std::filesystem::path& file,
                         const std::function<Status(const Conversation&, std::string_view, int64_t)>& take) {
  return each_json_record(file, [&](const json::value& v, std::string_view where, int64_t done) -> Status {
    SLIP_TRY(const Conversation c, parse_conversation(v, where));
    return take(c, where, done);
  });
}

}  // namespace slip
