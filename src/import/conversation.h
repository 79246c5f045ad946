// SPDX-License-Identifier: Apache-2.0
// Conversations about pictures as LLaVA and Qwen-VL are tuned on them: a JSON array, or JSON lines. Two spellings of one thing:
//   {"id": "1", "image": "a.jpg" (or "images": [..]), "conversations": [{"from": "human", "value": "<image>\nWhat is this?"},
//                                                                       {"from": "gpt", "value": "A road."}]}
//   {"messages": [{"role": "user", "content": [{"type": "image", "image": "a.jpg"}, {"type": "text", "text": ".."}]}, ..]}
// "<image>" stands for the next picture, and one line break behind it belongs to it. Roles: system (first, if at all), then user and
// assistant in turn, the assistant last. Paths are relative to the folder of pictures and stay in it.
//
// On disk such a set is one file: header of 64 bytes (magic "SLIPCHT1", u32 version, u32 0, u64 records, u64 place of the index, u64 FNV-1a
// of the index, zeros), then each record's JSON and its picture files as they are, then the index: place, bytes of the JSON, bytes of all,
// FNV-1a of all, u64 each.
#pragma once
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "base/file.h"
#include "base/json.h"
#include "import/crc.h"

namespace slip {

struct ConversationImage {
  std::string path;  // as the file says it
  Bytes bytes;       // in a set: the picture file
};
struct ConversationTurn {
  std::string role;                                                   // system, user, assistant
  std::vector<std::variant<std::string, ConversationImage>> content;  // no empty texts
};
struct Conversation {
  std::string id;
  std::vector<ConversationTurn> turns;
};

/// One record. `where` opens messages ("FILE: line 3"). kBadInput names what is wrong: shape, role, order of roles, number of pictures, a
/// path that leaves the folder.
Result<Conversation> parse_conversation(const json::value& v, std::string_view where);

/// Every record of a file, one after the other, with its line (of JSON lines) or number (of an array), from 1. A byte-order mark, CRLF and
/// blank lines pass. An error of `take` ends the reading.
Status each_conversation(const std::filesystem::path& file,
                         const std::function<Status(const Conversation&, std::string_view where, int64_t bytes_done)>& take);

class ConversationSetWriter {
 public:
  static Result<ConversationSetWriter> create(const std::filesystem::path& dir);
  /// Reads the record's pictures from `pictures`. kBadInput for one that is none (it is decoded).
  Status add(const Conversation& c, const std::filesystem::path& pictures, std::string_view where);
  Status finish();
  int64_t size() const { return static_cast<int64_t>(index_.size()) / 4; }

 private:
  ConversationSetWriter(std::filesystem::path dir, AtomicFile file) : dir_(std::move(dir)), file_(std::move(file)) {}
  std::filesystem::path dir_;
  AtomicFile file_;
  std::vector<uint64_t> index_;
  uint64_t at_ = 64;
};

class ConversationSet {
 public:
  /// Whether a folder says of itself that it holds one.
  static bool is_one(const std::filesystem::path& dir);
  static Result<ConversationSet> open(const std::filesystem::path& dir);
  int64_t size() const { return static_cast<int64_t>(index_.size()) / 4; }
  /// Pictures point into the set.
  Result<Conversation> get(int64_t i) const;

 private:
  explicit ConversationSet(MappedFile file) : file_(std::move(file)) {}
  MappedFile file_;
  std::vector<uint64_t> index_;
};

}  // namespace slip
