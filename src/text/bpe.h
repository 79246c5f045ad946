// SPDX-License-Identifier: Apache-2.0
// Byte-pair encoding of one piece (Sennrich et al. 2016): of all adjacent pairs the one of lowest rank is merged, leftmost
// first, until none has a rank. Symbols are ids of the vocabulary throughout.
#pragma once
#include <cstdint>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace slip {

class Bpe {
 public:
  /// The pair (left, right) becomes `merged`; the later of two equal pairs counts.
  void add_merge(int32_t left, int32_t right, int32_t rank, int32_t merged);
  void reserve(size_t merges) { merges_.reserve(merges); }
  /// Merges in place. Short pieces by scanning, long ones with a heap, O(n log n); both give the same.
  void merge(std::vector<int32_t>& symbols) const;
  void merge_by_scan(std::vector<int32_t>& symbols) const;
  void merge_by_heap(std::vector<int32_t>& symbols) const;

 private:
  struct Merge {
    int32_t rank, merged;
  };
  struct Mix {
    size_t operator()(uint64_t k) const {
      k *= 0x9e3779b97f4a7c15;
      return static_cast<size_t>(k ^ k >> 32);
    }
  };
  const Merge* find(int32_t left, int32_t right) const {
    const auto it = merges_.find(static_cast<uint64_t>(static_cast<uint32_t>(left)) << 32 | static_cast<uint32_t>(right));
    return it == merges_.end() ? nullptr : &it->second;
  }
  std::unordered_map<uint64_t, Merge, Mix> merges_;
};

}  // namespace slip
