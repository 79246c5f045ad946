// SPDX-License-Identifier: Apache-2.0
// MCAP files (mcap.dev, version 0), as robots and Foxglove record them: read as a stream, so that a file that was cut off still gives what
// came before; written in chunks with an index. Chunks are read and written uncompressed.
#pragma once
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "import/crc.h"

namespace slip {

struct McapChannel {
  std::string topic, encoding, schema, schema_encoding;
  std::map<std::string, std::string> metadata;
};
struct McapMessage {
  uint16_t channel_id = 0;
  uint32_t sequence = 0;
  uint64_t log_time_ns = 0, publish_time_ns = 0;
  Bytes data;
};
struct McapAttachment {
  std::string name, media_type;
  Bytes data;
};

class McapReader {
 public:
  /// The bytes outlive the reader; `name` opens messages.
  McapReader(Bytes file, std::string name);
  /// The next message in file order, or nothing behind the last. kBadInput for a wrong magic, a file that ends early, a chunk or attachment
  /// with another CRC-32, a message of an unknown channel; kUnsupported for a compressed chunk. Unknown records are skipped.
  Result<std::optional<McapMessage>> next();
  const McapChannel& channel(uint16_t id) const { return channels_.at(id); }
  const std::string& profile() const { return profile_; }
  const std::string& library() const { return library_; }
  const std::vector<McapAttachment>& attachments() const { return attachments_; }  // so far
  const std::map<std::string, std::map<std::string, std::string>>& metadata() const { return metadata_; }

 private:
  Status open();
  Result<std::optional<McapMessage>> record(uint8_t code, Bytes content);
  Status chunk(Bytes content);
  Error ends_early(std::string_view what, uint64_t want, uint64_t got) const;

  Bytes file_, chunk_;
  std::string name_, profile_, library_;
  uint64_t at_ = 0;
  bool opened_ = false, closed_ = false;
  std::map<uint16_t, std::pair<std::string, std::string>> schemas_;  // name, encoding
  std::map<uint16_t, McapChannel> channels_;
  std::vector<McapAttachment> attachments_;
  std::map<std::string, std::map<std::string, std::string>> metadata_;
};

/// A file under construction. Messages come in any order of time; their chunks are indexed.
class McapWriter {
 public:
  McapWriter(std::string_view library);
  /// The new channel's id. `schema_text`: a JSON Schema, with encoding "jsonschema"; empty: a channel without a schema.
  uint16_t add_channel(const McapChannel& channel, std::string_view schema_text);
  void add(uint16_t channel, uint64_t time_ns, std::string_view data);
  /// What is complete so far, taken out of the writer; `finish` gives the rest.
  std::string take();
  std::string finish();

 private:
  struct Indexed {
    uint64_t start = 0, end = 0, at = 0, length = 0, size = 0, index_length = 0;
    std::map<uint16_t, uint64_t> index_at;
  };
  void close_chunk();
  void put(std::string_view bytes);

  std::string out_, chunk_, definitions_;
  uint64_t written_ = 0;  // bytes taken out, and those in out_
  std::map<uint16_t, std::vector<std::pair<uint64_t, uint64_t>>> index_;
  std::vector<Indexed> chunks_;
  std::map<uint16_t, uint64_t> counts_;
  uint16_t channels_ = 0, schemas_ = 0;
  uint64_t first_ = ~uint64_t{0}, last_ = 0;
};

}  // namespace slip
