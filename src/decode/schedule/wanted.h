// SPDX-License-Identifier: Apache-2.0
// Fields that are wanted before the others (DecodeOptions::wanted_first): who must wait for whom. One of them can always work while any is open,
// because what it depends on is wanted too.
#pragma once
#include <algorithm>
#include <span>
#include <vector>

#include "decode/sequence/strand.h"
#include "lm/graph_visibility.h"

namespace slip {

class WantedFirst {
 public:
  void find(const GraphVisibility& visibility, size_t fields, std::span<const int32_t> first) {
    wanted_.assign(first.empty() ? 0 : fields, 0);
    alone_ = false;
    for (const int32_t f : first) {
      wanted_[static_cast<size_t>(f)] = 1;
      for (const int32_t a : visibility.ancestors(f)) wanted_[static_cast<size_t>(a)] = 1;
    }
  }
  /// If one of `ready` is wanted, keeps the wanted ones alone. `of_first(strand)`: does the strand belong to the first answer?
  template <class OfFirst>
  void keep(std::vector<Strand*>& ready, OfFirst&& of_first) {
    if (wanted_.empty()) return;
    const auto waits = [&](const Strand* s) { return wanted_[static_cast<size_t>(*s->field)] == 0 || !of_first(*s); };
    alone_ = !std::all_of(ready.begin(), ready.end(), waits);
    if (alone_) std::erase_if(ready, waits);
  }
  /// In the pass for which keep() was called last.
  bool holds_back(int32_t field, size_t answer) const { return alone_ && (answer > 0 || wanted_[static_cast<size_t>(field)] == 0); }

 private:
  std::vector<uint8_t> wanted_;  // by field; empty: none before others
  bool alone_ = false;
};

}  // namespace slip
