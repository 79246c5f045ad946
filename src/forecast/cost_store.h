// SPDX-License-Identifier: Apache-2.0
// What passes cost, kept between runs of the program: $XDG_CACHE_HOME/slipstream or ~/.cache/slipstream, one small file a key. A file counts
// only whole (checksum), for exactly its key (processor, build, model, type, threads: the caller's), and for a month; anything else is
// as if it were not there. Losing the folder costs a measurement.
#pragma once
#include <chrono>
#include <filesystem>
#include <optional>
#include <string>

#include "decode/draft_length/model.h"

namespace slip {

class CostStore {
 public:
  /// In the user's cache folder; a store that keeps nothing where there is none.
  static CostStore of_user();
  explicit CostStore(std::filesystem::path folder) : folder_(std::move(folder)) {}
  using Days = std::chrono::sys_days;
  std::optional<CostTable> find(const std::string& key, Days today = now()) const;
  /// Written beside and renamed. A folder that cannot be written is no error: the next run measures again.
  void keep(const std::string& key, const CostTable& table, Days today = now()) const;
  void drop(const std::string& key) const;
  std::filesystem::path file_of(const std::string& key) const;

 private:
  static Days now() { return std::chrono::floor<std::chrono::days>(std::chrono::system_clock::now()); }
  std::filesystem::path folder_;
};

}  // namespace slip
