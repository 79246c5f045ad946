// SPDX-License-Identifier: Apache-2.0
// See mcap.h. A record is u8 code, u64 length, content; strings and maps carry their length in bytes as u32.
#include "import/mcap.h"

#include <algorithm>
#include <cstring>

namespace slip {
namespace {

constexpr std::string_view kMagic{"\x89MCAP0\r\n", 8};
constexpr uint64_t kRecordHead = 9;
enum Code : uint8_t {
  kHeader = 1,
  kFooter = 2,
  kSchema = 3,
  kChannel = 4,
  kMessage = 5,
  kChunk = 6,
  kMessageIndex = 7,
  kChunkIndex = 8,
  kAttachment = 9,
  kStatistics = 11,
  kMetadata = 12,
  kDataEnd = 15,
};

/// Reads a record's content from its beginning; after a failure `ok` is false and values are zero.
struct Fields {
  Bytes left;
  bool ok = true;

  Bytes take(uint64_t n) {
    if (n > left.size()) {
      ok = false;
      left = {};
      return {};
    }
    const Bytes out = left.first(n);
    left = left.subspan(n);
    return out;
  }
  template <class T>
  T number() {
    T v{};
    if (const Bytes b = take(sizeof v); !b.empty()) std::memcpy(&v, b.data(), sizeof v);
    return v;
  }
  std::string text() {
    const Bytes b = take(number<uint32_t>());
    return {reinterpret_cast<const char*>(b.data()), b.size()};
  }
  std::map<std::string, std::string> map() {
    Fields inner{take(number<uint32_t>())};
    std::map<std::string, std::string> out;
    while (inner.ok && !inner.left.empty()) {
      std::string key = inner.text();
      out[std::move(key)] = inner.text();
    }
    ok = ok && inner.ok;
    return out;
  }
};

}  // namespace

McapReader::McapReader(Bytes file, std::string name) : file_(file), name_(std::move(name)) {}

Error McapReader::ends_early(std::string_view what, uint64_t want, uint64_t got) const {
  return bad_input("{}: {} at byte {}: expected {} bytes, got a file that ends after {}", name_, what, at_, want, got);
}

Status McapReader::open() {
  const std::string_view begin(reinterpret_cast<const char*>(file_.data()), std::min(file_.size(), kMagic.size()));
  if (begin != kMagic) return bad_input("{}: expected an MCAP file (magic \\x89MCAP0), got another file", name_);
  at_ = kMagic.size();
  opened_ = true;
  return {};
}

Result<std::optional<McapMessage>> McapReader::next() {
  if (!opened_) SLIP_TRY_(open());
  while (!closed_) {
    const bool in_chunk = !chunk_.empty();
    const Bytes rest = in_chunk ? chunk_ : file_.subspan(at_);
    if (rest.size() < kRecordHead) {
      if (in_chunk)
        return bad_input("{}: a chunk before byte {}: expected whole records, got {} bytes more", name_, at_, rest.size());
      return ends_early("a record", kRecordHead, rest.size());
    }
    const auto code = static_cast<uint8_t>(rest[0]);
    uint64_t length = 0;
    std::memcpy(&length, rest.data() + 1, sizeof length);
    if (length > rest.size() - kRecordHead) {
      if (in_chunk)
        return bad_input("{}: a chunk before byte {}: expected a record of {} bytes in it, got {}", name_, at_, length,
                         rest.size() - kRecordHead);
      return ends_early("a record", length, rest.size() - kRecordHead);
    }
    const Bytes content = rest.subspan(kRecordHead, length);
    if (in_chunk)
      chunk_ = chunk_.subspan(kRecordHead + length);
    else
      at_ += kRecordHead + length;
    SLIP_TRY(std::optional<McapMessage> message, record(code, content));
    if (message) return message;
  }
  const Bytes end = file_.subspan(at_);
  if (end.size() < kMagic.size()) return ends_early("the closing magic", kMagic.size(), end.size());
  if (std::string_view(reinterpret_cast<const char*>(end.data()), kMagic.size()) != kMagic)
    return bad_input("{}: expected the closing magic at byte {}, got other bytes", name_, at_);
  return std::optional<McapMessage>{};
}

Status McapReader::chunk(Bytes content) {
  Fields f{content};
  f.take(16);  // first and last time
  const auto size = f.number<uint64_t>();
  const auto crc = f.number<uint32_t>();
  const std::string compression = f.text();
  const Bytes records = f.take(f.number<uint64_t>());
  if (!f.ok) return bad_input("{}: a chunk before byte {}: expected a whole one, got a part", name_, at_);
  if (!compression.empty())
    return unsupported("{}: a chunk before byte {}: expected one without compression (mcap compress --compression none), got {}",
                       name_, at_, compression);
  if (size != records.size())
    return bad_input("{}: a chunk before byte {}: expected {} bytes of records, got {}", name_, at_, size, records.size());
  if (const uint32_t is = crc != 0 ? crc32(records) : 0; is != crc)
    return bad_input("{}: a chunk before byte {}: expected the CRC-32 of its records to be {:08x}, got {:08x}", name_, at_, crc,
                     is);
  chunk_ = records;
  return {};
}

Result<std::optional<McapMessage>> McapReader::record(uint8_t code, Bytes content) {
  Fields f{content};
  std::optional<McapMessage> out;
  if (code == kHeader) {
    profile_ = f.text();
    library_ = f.text();
  } else if (code == kFooter) {
    closed_ = true;
  } else if (code == kSchema) {
    const auto id = f.number<uint16_t>();
    std::string name = f.text();
    schemas_[id] = {std::move(name), f.text()};
  } else if (code == kChannel) {
    const auto id = f.number<uint16_t>();
    const auto schema = f.number<uint16_t>();
    McapChannel c{.topic = f.text(), .encoding = f.text(), .schema = {}, .schema_encoding = {}, .metadata = f.map()};
    if (const auto at = schemas_.find(schema); at != schemas_.end()) std::tie(c.schema, c.schema_encoding) = at->second;
    channels_[id] = std::move(c);
  } else if (code == kMessage) {
    McapMessage m{.channel_id = f.number<uint16_t>(),
                  .sequence = f.number<uint32_t>(),
                  .log_time_ns = f.number<uint64_t>(),
                  .publish_time_ns = f.number<uint64_t>(),
                  .data = f.left};
    if (f.ok && !channels_.contains(m.channel_id))
      return bad_input("{}: a message before byte {}: expected a channel that is known, got {}", name_, at_, m.channel_id);
    out = m;
  } else if (code == kChunk) {
    if (!chunk_.empty()) return bad_input("{}: a chunk before byte {}: expected no chunk in it, got one", name_, at_);
    SLIP_TRY_(chunk(content));
  } else if (code == kAttachment) {
    f.take(16);  // times
    McapAttachment a{f.text(), f.text(), f.take(f.number<uint64_t>())};
    const auto crc = f.number<uint32_t>();
    if (f.ok && crc != 0 && crc32(content.first(content.size() - 4)) != crc)
      return bad_input("{}: attachment {} before byte {}: expected its CRC-32 to be {:08x}, got another", name_, a.name, at_, crc);
    attachments_.push_back(std::move(a));
  } else if (code == kMetadata) {
    std::string name = f.text();
    metadata_[std::move(name)] = f.map();
  }
  if (!f.ok) return bad_input("{}: a record of kind {} before byte {}: expected a whole one, got a part", name_, code, at_);
  return out;
}

namespace {

template <class T>
void put_number(std::string& to, T v) {
  to.append(reinterpret_cast<const char*>(&v), sizeof v);
}
void put_text(std::string& to, std::string_view text) {
  put_number(to, static_cast<uint32_t>(text.size()));
  to.append(text);
}
void put_record(std::string& to, Code code, std::string_view content) {
  to.push_back(static_cast<char>(code));
  put_number(to, uint64_t{content.size()});
  to.append(content);
}

constexpr size_t kChunkBytes = 4U << 20;

}  // namespace

McapWriter::McapWriter(std::string_view library) {
  std::string header;
  put_text(header, "");
  put_text(header, library);
  put(kMagic);
  std::string record;
  put_record(record, kHeader, header);
  put(record);
}

void McapWriter::put(std::string_view bytes) {
  out_.append(bytes);
  written_ += bytes.size();
}

uint16_t McapWriter::add_channel(const McapChannel& c, std::string_view schema_text) {
  std::string records, content;
  uint16_t schema = 0;
  if (!schema_text.empty()) {
    schema = ++schemas_;
    put_number(content, schema);
    put_text(content, c.schema);
    put_text(content, c.schema_encoding);
    put_text(content, schema_text);
    put_record(records, kSchema, content);
  }
  const uint16_t id = ++channels_;
  content.clear();
  put_number(content, id);
  put_number(content, schema);
  put_text(content, c.topic);
  put_text(content, c.encoding);
  std::string map;
  for (const auto& [key, value] : c.metadata) {
    put_text(map, key);
    put_text(map, value);
  }
  put_text(content, map);
  put_record(records, kChannel, content);
  chunk_.append(records);
  definitions_.append(records);
  return id;
}

void McapWriter::add(uint16_t channel, uint64_t time_ns, std::string_view data) {
  std::string content;
  put_number(content, channel);
  put_number(content, static_cast<uint32_t>(counts_[channel]++));
  put_number(content, time_ns);
  put_number(content, time_ns);
  content.append(data);
  index_[channel].emplace_back(time_ns, chunk_.size());
  put_record(chunk_, kMessage, content);
  if (chunk_.size() >= kChunkBytes) close_chunk();
}

void McapWriter::close_chunk() {
  if (index_.empty()) return;  // channels alone wait for their first message
  Indexed entry{.start = ~uint64_t{0}, .at = written_, .size = chunk_.size(), .index_at = {}};
  for (const auto& [channel, messages] : index_)
    for (const auto& [time, offset] : messages) {
      entry.start = std::min(entry.start, time);
      entry.end = std::max(entry.end, time);
    }
  first_ = std::min(first_, entry.start);
  last_ = std::max(last_, entry.end);
  std::string content, record;
  put_number(content, entry.start);
  put_number(content, entry.end);
  put_number(content, uint64_t{chunk_.size()});
  put_number(content, crc32(std::as_bytes(std::span(chunk_))));
  put_text(content, "");
  put_number(content, uint64_t{chunk_.size()});
  content.append(chunk_);
  put_record(record, kChunk, content);
  entry.length = record.size();
  put(record);
  const uint64_t indices = written_;
  for (const auto& [channel, messages] : index_) {
    entry.index_at[channel] = written_;
    content.clear();
    put_number(content, channel);
    put_number(content, static_cast<uint32_t>(16 * messages.size()));
    for (const auto& [time, offset] : messages) {
      put_number(content, time);
      put_number(content, offset);
    }
    record.clear();
    put_record(record, kMessageIndex, content);
    put(record);
  }
  entry.index_length = written_ - indices;
  chunks_.push_back(std::move(entry));
  chunk_.clear();
  index_.clear();
}

std::string McapWriter::take() { return std::exchange(out_, {}); }

std::string McapWriter::finish() {
  close_chunk();
  std::string record, content;
  put_number(content, uint32_t{0});  // no sum of the data section
  put_record(record, kDataEnd, content);
  put(record);
  const uint64_t summary = written_;
  put(definitions_);
  uint64_t messages = 0;
  std::string counts;
  for (const auto& [channel, n] : counts_) {
    messages += n;
    put_number(counts, channel);
    put_number(counts, n);
  }
  record.clear();
  for (const Indexed& c : chunks_) {
    content.clear();
    for (const uint64_t v : {c.start, c.end, c.at, c.length}) put_number(content, v);
    put_number(content, static_cast<uint32_t>(10 * c.index_at.size()));
    for (const auto& [channel, at] : c.index_at) {
      put_number(content, channel);
      put_number(content, at);
    }
    put_number(content, c.index_length);
    put_text(content, "");
    put_number(content, c.size);
    put_number(content, c.size);
    put_record(record, kChunkIndex, content);
  }
  content.clear();
  put_number(content, messages);
  put_number(content, schemas_);
  put_number(content, uint32_t{channels_});
  put_number(content, uint32_t{0});  // attachments
  put_number(content, uint32_t{0});  // metadata
  put_number(content, static_cast<uint32_t>(chunks_.size()));
  put_number(content, chunks_.empty() ? uint64_t{0} : first_);
  put_number(content, last_);
  put_text(content, counts);
  put_record(record, kStatistics, content);
  put(record);
  content.clear();
  put_number(content, summary);
  put_number(content, uint64_t{0});  // no summary offsets
  put_number(content, uint32_t{0});  // no sum of the summary
  record.clear();
  put_record(record, kFooter, content);
  put(record);
  put(kMagic);
  return take();
}

}  // namespace slip
