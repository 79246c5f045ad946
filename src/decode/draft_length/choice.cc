// SPDX-License-Identifier: Apache-2.0
#include "decode/draft_length/choice.h"

#include <algorithm>
#include <cmath>

namespace slip {

double RoundCost::ms(double verify_rows, double draft_rows, int32_t strands, int32_t longest) const {
  const auto rows = [&](double n) { return static_cast<int32_t>(std::lround(n * company)); };
  const double verify = pass->ms(rows(verify_rows)) + paid;
  switch (drafts) {
    case Drafts::kPaid:
      return verify;
    case Drafts::kRows:
      return verify + draft->ms(rows(draft_rows));
    case Drafts::kSteps:
      return verify + longest * draft->ms(rows(strands));
  }
  return verify;
}

void DraftLengthChoice::choose(std::span<const StrandValues> strands, const RoundCost& cost, int32_t most_rows,
                               std::span<int32_t> take) {
  const auto n = static_cast<int32_t>(strands.size());
  const auto less = [](const Next& a, const Next& b) { return a.gain < b.gain || (a.gain == b.gain && a.strand > b.strand); };
  heap_.clear();
  order_.clear();
  taken_.assign(strands.size(), 0);
  double gain = 0, verify = 0, draft = 0;
  for (int32_t i = 0; i < n; ++i) {
    const StrandValues& s = strands[static_cast<size_t>(i)];
    gain += s.gain;
    verify += s.verify_rows;
    draft += s.draft_rows;
    if (!s.drafts.empty()) heap_.push_back({s.drafts[0].gain, i});
  }
  std::make_heap(heap_.begin(), heap_.end(), less);
  size_t best = 0;
  double best_rate = gain / cost.ms(verify, 0, n, 0);  // nothing drafted: no draft pass
  gain_ = gain;
  verify_rows_ = verify;
  draft_rows_ = 0;
  int32_t longest = 0;
  while (!heap_.empty()) {
    std::pop_heap(heap_.begin(), heap_.end(), less);
    const int32_t i = heap_.back().strand;
    heap_.pop_back();
    ++operations_;
    const StrandValues& s = strands[static_cast<size_t>(i)];
    int32_t& taken = taken_[static_cast<size_t>(i)];
    const DrawValue& d = s.drafts[static_cast<size_t>(taken)];
    if (verify + d.verify_rows > most_rows) continue;  // this strand gets no further
    gain += d.gain;
    verify += d.verify_rows;
    draft += d.draft_rows;
    longest = std::max(longest, ++taken);
    order_.push_back(i);
    if (const double rate = gain / cost.ms(verify, draft, n, longest); rate > best_rate) {
      best_rate = rate;
      best = order_.size();
      gain_ = gain;
      verify_rows_ = verify;
      draft_rows_ = draft;
    }
    if (static_cast<size_t>(taken) < s.drafts.size()) {
      heap_.push_back({s.drafts[static_cast<size_t>(taken)].gain, i});
      std::push_heap(heap_.begin(), heap_.end(), less);
    }
  }
  std::fill(take.begin(), take.end(), 0);
  for (size_t k = 0; k < best; ++k) ++take[static_cast<size_t>(order_[k])];
}

}  // namespace slip
