// SPDX-License-Identifier: Apache-2.0
// Reading conversations from JSON; see conversation.h. The set on disk is in conversation_set.cc.
#include "import/conversation.h"

#include <algorithm>

namespace slip {
namespace {

constexpr std::string_view kMark = "<image>";
constexpr size_t kMostTurns = 4096, kMostLine = size_t{64} << 20, kMostFile = size_t{4} << 30;

Result<std::string> role_of(const std::string& said, std::string_view where) {
  if (said == "human" || said == "user") return std::string("user");
  if (said == "gpt" || said == "assistant") return std::string("assistant");
  if (said == "system") return said;
  return bad_input("{}: expected a role of human, user, gpt, assistant or system, got {}", where, said);
}

Result<ConversationImage> picture(const std::string& path, std::string_view where) {
  const std::filesystem::path p(path);
  const bool leaves = p.is_absolute() || std::find(p.begin(), p.end(), std::filesystem::path("..")) != p.end();
  if (path.empty() || leaves || path.find('\0') != std::string::npos)
    return bad_input("{}: expected an image file inside of the folder of pictures, got \"{}\"", where, path);
  return ConversationImage{path, {}};
}

/// The pictures that "<image>" stands for, in order.
struct Pictures {
  std::vector<std::string> paths;
  size_t used = 0;
};

Result<Pictures> pictures_of(const json::object& o, std::string_view where) {
  Pictures out;
  for (const char* key : {"image", "images"}) {
    const json::value* v = o.if_contains(key);
    if (!v || v->is_null()) continue;
    if (v->is_string()) {
      out.paths.emplace_back(v->get_string());
      continue;
    }
    if (!v->is_array()) return bad_input("{}: {}: expected a path or an array of paths, got another value", where, key);
    for (const json::value& e : v->get_array()) {
      if (!e.is_string()) return bad_input("{}: {}: expected paths, got {}", where, key, json::serialize(e).substr(0, 60));
      out.paths.emplace_back(e.get_string());
    }
  }
  return out;
}

/// Text with its marks as segments.
Status add_text(std::string_view text, Pictures& pictures, ConversationTurn& turn, std::string_view where) {
  for (;;) {
    const size_t at = text.find(kMark);
    if (at != 0 && !text.empty()) turn.content.emplace_back(std::string(text.substr(0, at)));
    if (at == std::string_view::npos) return {};
    if (pictures.used == pictures.paths.size())
      return bad_input("{}: expected as many <image> as there are pictures, got more than {}", where, pictures.paths.size());
    SLIP_TRY(ConversationImage image, picture(pictures.paths[pictures.used++], where));
    turn.content.emplace_back(std::move(image));
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
      SLIP_TRY(const std::string path, get_string(o, "image", where));
      SLIP_TRY(ConversationImage image, picture(path, where));
      turn.content.emplace_back(std::move(image));
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
  SLIP_TRY(Pictures pictures, pictures_of(o, where));
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
  SLIP_TRY(const MappedFile map, MappedFile::open(file));
  std::string_view text(reinterpret_cast<const char*>(map.bytes().data()), map.bytes().size());
  if (text.starts_with("\xEF\xBB\xBF")) text.remove_prefix(3);
  const size_t first = text.find_first_not_of(" \t\r\n");
  if (first != std::string_view::npos && text[first] == '[') {
    if (text.size() > kMostFile)
      return bad_input("{}: expected an array of at most {} bytes, got {}: JSON lines may be longer", file.string(), kMostFile,
                       text.size());
    SLIP_TRY(const json::value v, parse_json(text, file.string()));
    int64_t number = 0;
    for (const json::value& e : v.get_array()) {
      const std::string where = fmt::format("{}: record {}", file.string(), ++number);
      SLIP_TRY(const Conversation c, parse_conversation(e, where));
      SLIP_TRY_(take(c, where, 0));
    }
    return {};
  }
  int64_t number = 0;
  for (size_t at = 0; at < text.size();) {
    const size_t end = std::min(text.find('\n', at), text.size());
    const std::string_view line = text.substr(at, end - at);
    at = end + 1;
    ++number;
    if (line.find_first_not_of(" \t\r") == std::string_view::npos) continue;
    const std::string where = fmt::format("{}: line {}", file.string(), number);
    if (line.size() > kMostLine) return bad_input("{}: expected at most {} bytes, got {}", where, kMostLine, line.size());
    SLIP_TRY(const json::value v, parse_json(line, where));
    SLIP_TRY(const Conversation c, parse_conversation(v, where));
    SLIP_TRY_(take(c, where, static_cast<int64_t>(at)));
  }
  return {};
}

}  // namespace slip
