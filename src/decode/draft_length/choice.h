// SPDX-License-Identifier: Apache-2.0
// How many draws of each strand go into a pass: the total with the most expected progress per millisecond.
//
// Draws are taken in order of what they add. Along a strand that falls (survival is a product), so what is taken is a beginning of
// every strand, and, where each draw costs one row, the best set of its size. All totals are looked at: the cost of rows is a
// staircase and the ratio has many peaks, so that stopping at the first fall (CaDDTree) would stop before stairs that are free.
#pragma once
#include <cstdint>
#include <span>
#include <vector>

#include "decode/draft_length/costs.h"

namespace slip {

/// What one more draw adds.
struct DrawValue {
  float gain = 0;
  float verify_rows = 1, draft_rows = 1;  // on average, where it may lie behind an END
};
struct StrandValues {
  std::span<const DrawValue> drafts;
  float gain = 1;  // of the pass without draws: the token it gives whatever the drafts do
  float verify_rows = 1, draft_rows = 0;
};

/// Milliseconds of a round.
struct RoundCost {
  const CostTable* pass = nullptr;
  const CostTable* draft = nullptr;
  /// kPaid: drafts cost nothing (more). kRows: a draft pass over the drafts' rows. kSteps: a step for every draw of the longest strand,
  /// all strands side by side.
  enum class Drafts : uint8_t { kPaid, kRows, kSteps } drafts = Drafts::kPaid;
  double paid = 0;
  /// Requests that do the same in the same passes: a pass has so many times the rows. The round's total stands for all of them, and they
  /// gain alike, so the best total is the best for all together: where rows cost, drafts pay less the more there are.
  double company = 1;
  double ms(double verify_rows, double draft_rows, int32_t strands, int32_t longest) const;
};

class DraftLengthChoice {
 public:
  /// take[i]: draws of strand i, from its beginning. No draw is taken beyond `most_rows` rows of the verifying pass.
  void choose(std::span<const StrandValues> strands, const RoundCost& cost, int32_t most_rows, std::span<int32_t> take);
  double gain() const { return gain_; }
  double verify_rows() const { return verify_rows_; }
  double draft_rows() const { return draft_rows_; }
  /// Draws looked at and heap steps in all calls so far: what bounds the time.
  int64_t operations() const { return operations_; }

 private:
  struct Next {
    float gain;
    int32_t strand;
  };
  std::vector<Next> heap_;
  std::vector<int32_t> order_, taken_;
  double gain_ = 0, verify_rows_ = 0, draft_rows_ = 0;
  int64_t operations_ = 0;
};

}  // namespace slip
