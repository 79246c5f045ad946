// SPDX-License-Identifier: Apache-2.0
// See json_records.h.
#include "import/json_records.h"

#include <algorithm>

#include "base/file.h"

namespace slip {
namespace {

constexpr size_t kMostLine = size_t{64} << 20, kMostFile = size_t{4} << 30;
constexpr size_t kMostPictures = 16, kMostNumbers = 256;  // of a step; published robots: 1 to 3, 7 to 14

}  // namespace

Result<std::string> picture_path(const std::string& path, std::string_view where) {
  const std::filesystem::path p(path);
  const bool leaves = p.is_absolute() || std::find(p.begin(), p.end(), std::filesystem::path("..")) != p.end();
  if (path.empty() || leaves || path.find('\0') != std::string::npos)
    return bad_input("{}: expected an image file inside of the folder of pictures, got \"{}\"", where, path);
  return path;
}

Result<std::vector<std::string>> picture_names(const json::object& o, std::string_view where) {
  std::vector<std::string> out;
  for (const char* key : {"image", "images"}) {
    const json::value* v = o.if_contains(key);
    if (!v || v->is_null()) continue;
    if (v->is_string()) {
      out.emplace_back(v->get_string());
      continue;
    }
    if (!v->is_array()) return bad_input("{}: {}: expected a path or an array of paths, got another value", where, key);
    for (const json::value& e : v->get_array()) {
      if (!e.is_string()) return bad_input("{}: {}: expected paths, got {}", where, key, json::serialize(e).substr(0, 60));
      out.emplace_back(e.get_string());
    }
  }
  return out;
}

Status each_json_record(const std::filesystem::path& file,
                        const std::function<Status(const json::value&, std::string_view, int64_t)>& take) {
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
      SLIP_TRY_(take(e, where, 0));
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
    SLIP_TRY_(take(v, where, static_cast<int64_t>(at)));
  }
  return {};
}

Result<RobotStep> parse_robot_step(const json::value& v, std::string_view where) {
  if (!v.is_object()) return bad_input("{}: expected an object, got {}", where, json::serialize(v).substr(0, 60));
  const json::object& o = v.get_object();
  RobotStep out;
  SLIP_TRY(const std::vector<std::string> names, picture_names(o, where));
  if (names.empty() || names.size() > kMostPictures)
    return bad_input("{}: image: expected 1 to {} pictures, got {}", where, kMostPictures, names.size());
  for (const std::string& name : names) {
    SLIP_TRY(std::string path, picture_path(name, where));
    out.pictures.push_back(std::move(path));
  }
  SLIP_TRY(out.instruction, get_string(o, "instruction", where));
  if (out.instruction.find_first_not_of(" \t\r\n") == std::string::npos)
    return bad_input("{}: instruction: expected words, got none", where);
  SLIP_TRY(const json::array* action, get_array(o, "action", where));
  if (action->empty() || action->size() > kMostNumbers)
    return bad_input("{}: action: expected 1 to {} numbers, got {}", where, kMostNumbers, action->size());
  for (const json::value& n : *action) {
    if (!n.is_number()) return bad_input("{}: action: expected numbers, got {}", where, json::serialize(n).substr(0, 60));
    out.action.push_back(n.to_number<double>());
  }
  return out;
}

Status each_robot_step(const std::filesystem::path& file, const std::function<Status(RobotStep&&, std::string_view)>& take) {
  return each_json_record(file, [&](const json::value& v, std::string_view where, int64_t) -> Status {
    SLIP_TRY(RobotStep step, parse_robot_step(v, where));
    for (const std::string& name : step.pictures)
      if (std::error_code ec; !std::filesystem::is_regular_file(file.parent_path() / name, ec))
        return bad_input("{}: expected an image file {}, got nothing there", where, (file.parent_path() / name).string());
    return take(std::move(step), where);
  });
}

}  // namespace slip
