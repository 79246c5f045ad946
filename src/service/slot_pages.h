// SPDX-License-Identifier: Apache-2.0
// Whose slots of the arena are whose. Slots come in pages; a request holds as many as it may need at worst before its first pass, so
// nothing that runs is ever sent away for want of memory. Pages of prompts stay behind under what they hold (tokens, image rows,
// positions, and what stands before them), so that later prompts with the same beginning share them: a page has a count of those who
// hold it, and one that nobody holds is kept until its place is wanted, the longest unused first.
//
// A prompt's row sees the rows before it and nothing else, so equal beginnings have equal keys, bit for bit (contract W). Tokens are
// compared themselves; an image's row goes by 128 keyed bits of its numbers.
#pragma once
#include <cstdint>
#include <list>
#include <optional>
#include <span>
#include <unordered_map>
#include <vector>

#include "lm/lm.h"

namespace slip {

/// What a row of a prompt is.
struct PromptRow {
  uint64_t low = 0, high = 0;  // a token: its id and 0; an image's row: bits of its numbers, high is not 0
  Position position;
  bool operator==(const PromptRow&) const = default;
};
std::vector<PromptRow> rows_of(const Prompt& prompt, int32_t width);

class SlotPages {
 public:
  static constexpr int32_t kPage = 16;
  explicit SlotPages(int32_t slots);

  /// What a request holds: page k has its slots kPage k .. kPage (k + 1) - 1. Its prompt's first `known` rows are there already.
  struct Held {
    std::vector<int32_t> pages;
    int32_t known = 0, shared = 0;  // rows; pages at the beginning that are held with others
    std::vector<PromptRow> prompt;
    int32_t published = 0;  // pages of the prompt that others may find
  };
  /// Room for `slots`; nothing where as many are not free now. The prompt's last row is always the request's own: a decoder may run it
  /// again. `share`: look for what is kept.
  std::optional<Held> hold(std::vector<PromptRow> prompt, int64_t slots, bool share = true);
  /// The prompt's rows before `written` are there: their whole pages can be found by others from now on.
  void publish(Held& held, int32_t written);
  void release(Held&& held);

  int32_t pages() const { return static_cast<int32_t>(pages_.size()); }
  /// Could it ever be held?
  bool fits(int64_t slots) const { return slots <= int64_t{pages()} * kPage; }
  int32_t held() const { return held_; }                               // pages
  int32_t kept() const { return static_cast<int32_t>(kept_.size()); }  // held by nobody, with rows that may be wanted again
  int64_t queries() const { return queries_; }                         // rows of prompts that were looked for
  int64_t hits() const { return hits_; }                               // and found
  /// Forgets what nobody holds.
  void forget();

 private:
  struct Page {
    int32_t users = 0;
    uint64_t id = 0;      // of what it holds; 0: nothing that others may find
    uint64_t before = 0;  // id of the page before it
    uint64_t hash = 0;
    std::vector<PromptRow> rows;
    std::list<int32_t>::iterator kept;
    bool is_kept = false;
  };
  std::optional<int32_t> find(uint64_t before, std::span<const PromptRow> rows) const;
  void use(int32_t page);
  void drop(int32_t page);
  void take_free(int32_t count, std::vector<int32_t>& out);

  std::vector<Page> pages_;
  std::unordered_multimap<uint64_t, int32_t> by_hash_;
  std::list<int32_t> kept_;  // longest unused first
  uint64_t next_id_ = 1;
  int32_t held_ = 0;
  int64_t queries_ = 0, hits_ = 0;
};

}  // namespace slip
