// SPDX-License-Identifier: Apache-2.0
// The two merge loops of bpe.h.
#include "text/bpe.h"

#include <climits>
#include <queue>
#include <tuple>

namespace slip {

namespace {
constexpr size_t kScanLimit = 48;  // symbols; scanning is quadratic, and pieces of text are seldom longer
}

void Bpe::add_merge(int32_t left, int32_t right, int32_t rank, int32_t merged) {
  merges_[static_cast<uint64_t>(static_cast<uint32_t>(left)) << 32 | static_cast<uint32_t>(right)] = {rank, merged};
}

void Bpe::merge(std::vector<int32_t>& symbols) const {
  if (symbols.size() <= kScanLimit) {
    merge_by_scan(symbols);
  } else {
    merge_by_heap(symbols);
  }
}

void Bpe::merge_by_scan(std::vector<int32_t>& symbols) const {
  // candidates[i] is the merge of symbols i and i + 1; only two change per step.
  const Merge none{INT32_MAX, -1};
  std::vector<Merge> candidates;
  const auto look = [&](size_t i) {
    const Merge* m = find(symbols[i], symbols[i + 1]);
    return m ? *m : none;
  };
  for (size_t i = 0; i + 1 < symbols.size(); ++i) candidates.push_back(look(i));
  while (!candidates.empty()) {
    size_t best = 0;
    for (size_t i = 1; i < candidates.size(); ++i) {
      if (candidates[i].rank < candidates[best].rank) best = i;
    }
    if (candidates[best].merged < 0) break;
    symbols[best] = candidates[best].merged;
    symbols.erase(symbols.begin() + static_cast<std::ptrdiff_t>(best) + 1);
    candidates.erase(candidates.begin() + static_cast<std::ptrdiff_t>(best));
    if (best < candidates.size()) candidates[best] = look(best);
    if (best > 0) candidates[best - 1] = look(best - 1);
  }
}

void Bpe::merge_by_heap(std::vector<int32_t>& symbols) const {
  // A linked list over the original places; a heap entry is stale when its two symbols are no longer what they were.
  struct Link {
    int32_t symbol;
    int previous, next;
  };
  struct Candidate {
    int32_t rank;
    int at;
    int32_t left, right, merged;
    bool operator>(const Candidate& o) const { return std::tie(rank, at) > std::tie(o.rank, o.at); }
  };
  if (symbols.empty()) return;
  const int n = static_cast<int>(symbols.size());
  std::vector<Link> links;
  links.reserve(symbols.size());
  for (int i = 0; i < n; ++i) links.push_back({symbols[static_cast<size_t>(i)], i - 1, i + 1 < n ? i + 1 : -1});
  const auto link = [&](int i) -> Link& { return links[static_cast<size_t>(i)]; };
  std::priority_queue<Candidate, std::vector<Candidate>, std::greater<>> heap;
  const auto push = [&](int at) {
    if (at < 0 || link(at).next < 0) return;
    const int32_t left = link(at).symbol, right = link(link(at).next).symbol;
    if (const Merge* m = find(left, right)) heap.push({m->rank, at, left, right, m->merged});
  };
  for (int i = 0; i + 1 < n; ++i) push(i);
  while (!heap.empty()) {
    const Candidate c = heap.top();
    heap.pop();
    const int next = link(c.at).next;
    if (link(c.at).symbol != c.left || next < 0 || link(next).symbol != c.right) continue;
    link(c.at).symbol = c.merged;
    link(c.at).next = link(next).next;
    if (link(next).next >= 0) link(link(next).next).previous = c.at;
    link(next).symbol = -1;
    push(link(c.at).previous);
    push(c.at);
  }
  symbols.clear();
  for (int i = 0; i >= 0; i = link(i).next) symbols.push_back(link(i).symbol);
}

}  // namespace slip
