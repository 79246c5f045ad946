// SPDX-License-Identifier: Apache-2.0
// Conversations on disk; the layout is told in conversation.h. Opening reads the index, a record's sum is checked when it is asked for.
#include <cstring>

#include "base/content_hash.h"
#include "image/image.h"
#include "import/conversation.h"

namespace slip {
namespace {

constexpr std::string_view kMagic = "SLIPCHT1", kFormat = "slipstream conversation set", kFile = "conversations.slip";
constexpr uint64_t kHeader = 64, kEntry = 4;
constexpr uint32_t kVersion = 1;

template <class T>
T number_at(Bytes b, uint64_t at) {
  T v{};
  std::memcpy(&v, b.data() + at, sizeof v);
  return v;
}

}  // namespace

Result<ConversationSetWriter> ConversationSetWriter::create(const std::filesystem::path& dir) {
  std::error_code ec;
  std::filesystem::create_directories(dir, ec);
  if (ec) return bad_input("{}: expected a folder that can be made, got {}", dir.string(), ec.message());
  if (std::filesystem::exists(dir / "index.json", ec)) return bad_input("{}: expected no record set there, got one", dir.string());
  SLIP_TRY(AtomicFile file, AtomicFile::create(dir / kFile));
  const std::string header(kHeader, '\0');
  SLIP_TRY_(file.write(header.data(), header.size()));
  return ConversationSetWriter(dir, std::move(file));
}

Status ConversationSetWriter::add(const Conversation& c, const std::filesystem::path& pictures, std::string_view where) {
  json::array turns;
  std::string blobs;
  for (const ConversationTurn& t : c.turns) {
    json::array content;
    for (const auto& item : t.content) {
      if (const auto* text = std::get_if<std::string>(&item)) {
        content.emplace_back(*text);
        continue;
      }
      const auto& image = std::get<ConversationImage>(item);
      const std::filesystem::path file = pictures / image.path;
      if (std::error_code ec; !std::filesystem::is_regular_file(file, ec))
        return bad_input("{}: expected an image file {}, got nothing there", where, file.string());
      SLIP_TRY(const std::string bytes, read_file(file));
      SLIP_TRY_(decode_image(std::as_bytes(std::span(bytes)), fmt::format("{}: {}", where, file.string())));
      content.push_back(json::object{{"path", image.path}, {"at", blobs.size()}, {"bytes", bytes.size()}});
      blobs += bytes;
    }
    turns.push_back(json::object{{"role", t.role}, {"content", std::move(content)}});
  }
  const std::string text = json::serialize(json::object{{"id", c.id}, {"turns", std::move(turns)}});
  SLIP_TRY_(file_.write(text.data(), text.size()));
  SLIP_TRY_(file_.write(blobs.data(), blobs.size()));
  const uint64_t sum = fnv1a(std::as_bytes(std::span(blobs)), fnv1a(std::as_bytes(std::span(text))));
  for (const uint64_t v : {at_, uint64_t{text.size()}, uint64_t{text.size() + blobs.size()}, sum}) index_.push_back(v);
  at_ += text.size() + blobs.size();
  return {};
}

Status ConversationSetWriter::finish() {
  const Bytes index = std::as_bytes(std::span(index_));
  SLIP_TRY_(file_.write(index.data(), index.size()));
  std::string header(kMagic);
  const uint32_t version = kVersion;
  header.append(reinterpret_cast<const char*>(&version), 4).append(4, '\0');
  for (const uint64_t v : {static_cast<uint64_t>(size()), at_, fnv1a(index)})
    header.append(reinterpret_cast<const char*>(&v), sizeof v);
  header.resize(kHeader);
  SLIP_TRY_(file_.write_at(0, header.data(), header.size()));
  SLIP_TRY_(file_.commit());
  return write_file(dir_ / "index.json",
                    pretty(json::object{{"format", kFormat}, {"version", kVersion}, {"records", size()}, {"file", kFile}}));
}

bool ConversationSet::is_one(const std::filesystem::path& dir) {
  std::error_code ec;
  if (!std::filesystem::is_directory(dir, ec)) return false;
  const auto v = read_json(dir / "index.json");
  if (!v || !v->is_object()) return false;
  const json::value* format = v->get_object().if_contains("format");
  return format && format->is_string() && format->get_string() == kFormat;
}

Result<ConversationSet> ConversationSet::open(const std::filesystem::path& dir) {
  SLIP_TRY(MappedFile map, MappedFile::open(dir / kFile));
  const std::string name = map.path().string();
  const Bytes b = map.bytes();
  if (b.size() < kHeader || std::memcmp(b.data(), kMagic.data(), kMagic.size()) != 0)
    return bad_input("{}: expected a conversation set (magic {}), got another file", name, kMagic);
  if (const auto version = number_at<uint32_t>(b, 8); version != kVersion)
    return bad_input("{}: expected version {}, got {}", name, kVersion, version);
  const auto records = number_at<uint64_t>(b, 16), at = number_at<uint64_t>(b, 24), sum = number_at<uint64_t>(b, 32);
  if (at < kHeader || at > b.size() || records != (b.size() - at) / (kEntry * 8) || (b.size() - at) % (kEntry * 8) != 0)
    return bad_input("{}: expected an index of {} records behind byte {}, got {} bytes", name, records, at, b.size());
  if (fnv1a(b.subspan(at)) != sum) return bad_input("{}: expected the index's sum {:016x}, got another", name, sum);
  ConversationSet out(map);
  out.index_.resize(records * kEntry);
  if (records > 0) std::memcpy(out.index_.data(), b.data() + at, records * kEntry * 8);
  for (uint64_t i = 0; i < records; ++i) {
    const uint64_t* e = &out.index_[i * kEntry];
    if (e[0] < kHeader || e[0] > at || e[1] > e[2] || e[2] > at - e[0])
      return bad_input("{}: record {}: expected bytes inside of the file, got {} at {}", name, i, e[2], e[0]);
  }
  return out;
}

Result<Conversation> ConversationSet::get(int64_t i) const {
  const std::string where = fmt::format("{}: record {}", file_.path().string(), i);
  if (i < 0 || i >= size()) return bad_input("{}: expected an index below {}, got {}", where, size(), i);
  const uint64_t* e = &index_[static_cast<size_t>(i) * kEntry];
  const Bytes all = file_.bytes().subspan(e[0], e[2]), blobs = all.subspan(e[1]);
  if (fnv1a(all) != e[3]) return bad_input("{}: expected the sum {:016x}, got another", where, e[3]);
  SLIP_TRY(const json::value v, parse_json({reinterpret_cast<const char*>(all.data()), e[1]}, where));
  if (!v.is_object()) return bad_input("{}: expected an object, got another value", where);
  Conversation out;
  SLIP_TRY(out.id, get_string(v.get_object(), "id", where));
  SLIP_TRY(const json::array* turns, get_array(v.get_object(), "turns", where));
  for (const json::value& t : *turns) {
    if (!t.is_object()) return bad_input("{}: turns: expected objects, got another value", where);
    ConversationTurn turn;
    SLIP_TRY(turn.role, get_string(t.get_object(), "role", where));
    SLIP_TRY(const json::array* content, get_array(t.get_object(), "content", where));
    for (const json::value& item : *content) {
      if (item.is_string()) {
        turn.content.emplace_back(std::string(item.get_string()));
        continue;
      }
      if (!item.is_object()) return bad_input("{}: content: expected texts and pictures, got another value", where);
      const json::object& o = item.get_object();
      SLIP_TRY(const int64_t at, get_int(o, "at", where));
      SLIP_TRY(const int64_t bytes, get_int(o, "bytes", where));
      if (at < 0 || bytes < 0 || static_cast<uint64_t>(at) > blobs.size() ||
          static_cast<uint64_t>(bytes) > blobs.size() - static_cast<uint64_t>(at))
        return bad_input("{}: expected a picture inside of the record, got {} bytes at {}", where, bytes, at);
      SLIP_TRY(std::string path, get_string(o, "path", where));
      turn.content.emplace_back(
          ConversationImage{std::move(path), blobs.subspan(static_cast<size_t>(at), static_cast<size_t>(bytes))});
    }
    out.turns.push_back(std::move(turn));
  }
  return out;
}

}  // namespace slip
