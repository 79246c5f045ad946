// SPDX-License-Identifier: Apache-2.0
// Forecasts of a kind of request, kept between runs of the program (user_cache.h): one answer of a small model takes less time than forecasting all
// its decoders does. The key is the caller's: whatever forecasts go by, the prices of passes with it (words_of).
#pragma once
#include <optional>
#include <string>

#include "forecast/automatic.h"
#include "forecast/user_cache.h"

namespace slip {

class ForecastStore {
 public:
  explicit ForecastStore(UserCache cache) : cache_(std::move(cache)) {}
  std::optional<Foretold> find(const std::string& key) const;
  void keep(const std::string& key, const Foretold& foretold) const;

 private:
  UserCache cache_;
};

/// Prices as a key has them: to the nanosecond, as CostStore keeps them.
std::string words_of(const CostTable& costs);

}  // namespace slip
