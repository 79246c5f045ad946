// SPDX-License-Identifier: Apache-2.0
// What the program finds out about a machine and keeps between runs: $XDG_CACHE_HOME/slipstream or ~/.cache/slipstream, one small file a key. A
// file counts only whole (checksum), for exactly its key and for a month; anything else is as if it were not there. Losing the folder costs
// the time of finding out again.
#pragma once
#include <chrono>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>

#include "base/json.h"

namespace slip {

class UserCache {
 public:
  /// In the user's cache folder; one that keeps nothing where there is none.
  static UserCache of_user();
  explicit UserCache(std::filesystem::path folder) : folder_(std::move(folder)) {}
  using Days = std::chrono::sys_days;
  /// What was kept of this kind ("costs", "forecasts") under this key.
  std::optional<json::object> find(std::string_view kind, const std::string& key, Days today = now()) const;
  /// Written beside and renamed; files of the kind that count no more are removed. A folder that cannot be written is no error: the next run finds
  /// out again.
  void keep(std::string_view kind, const std::string& key, json::object body, Days today = now()) const;
  void drop(std::string_view kind, const std::string& key) const;
  std::filesystem::path file_of(std::string_view kind, const std::string& key) const;

 private:
  static Days now() { return std::chrono::floor<std::chrono::days>(std::chrono::system_clock::now()); }
  void remove_old(std::string_view kind) const;
  std::filesystem::path folder_;
};

}  // namespace slip
