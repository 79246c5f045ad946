// SPDX-License-Identifier: Apache-2.0
// What passes cost, kept between runs of the program (user_cache.h). The key is the caller's: processor, build, model, type, threads.
#pragma once
#include <optional>
#include <string>

#include "decode/draft_length/model.h"
#include "forecast/user_cache.h"

namespace slip {

class CostStore {
 public:
  explicit CostStore(UserCache cache) : cache_(std::move(cache)) {}
  std::optional<CostTable> find(const std::string& key) const;
  void keep(const std::string& key, const CostTable& table) const;
  void drop(const std::string& key) const;

 private:
  UserCache cache_;
};

}  // namespace slip
