// SPDX-License-Identifier: Apache-2.0
// Do the prices of passes still hold? One answer that took four times what it was priced at disproves prices of an earlier run; several whose
// geometric mean is off by two disprove any. Tests: PriceWatch.*
#pragma once
#include <algorithm>
#include <cmath>
#include <cstdint>

namespace slip {

class PriceWatch {
 public:
  /// An answer of `priced_ms` took `took_ms`; `kept`: the prices are of an earlier run. True where they shall be measured again.
  bool disproved(double took_ms, double priced_ms, bool kept) {
    if (!(took_ms > 0 && priced_ms > 0)) return false;
    const double off = std::log(took_ms / priced_ms);
    off_ += (off - off_) * std::max(kNewest, 1 / static_cast<double>(++answers_));
    return (kept && std::abs(off) > std::log(kOnce)) || (answers_ >= wait_ && std::abs(off_) > std::log(kOften));
  }
  /// Others are looked at from now on, of prompts of another length.
  void other_prices() { off_ = 0, answers_ = 0; }
  /// They have been measured again. A machine that is never quiet gets no third table for long: the wait grows by eight each time.
  void renewed() {
    other_prices();
    wait_ = std::min<int64_t>(wait_ * 8, 1 << 20);
  }

 private:
  static constexpr double kOnce = 4, kOften = 2, kNewest = 0.2;
  double off_ = 0;  // log(took / priced), the newest answer a fifth of it
  int64_t answers_ = 0, wait_ = 8;
};

}  // namespace slip
