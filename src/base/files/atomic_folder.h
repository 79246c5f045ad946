// SPDX-License-Identifier: Apache-2.0
// Folders that appear whole or not at all.
#pragma once
#include <cstdint>
#include <filesystem>
#include <vector>

#include "base/files/beside.h"
#include "base/result.h"

namespace slip {

/// A folder that takes its name at commit(); removed with all that is in it when that never happens (error, Ctrl-C).
class AtomicFolder {
 public:
  /// Folders that lead to it are made. kBadInput when `target` exists or another process is making it; kResource when less than `bytes` are
  /// free there. What a killed process left of the same target is removed.
  static Result<AtomicFolder> create(const std::filesystem::path& target, int64_t bytes);
  AtomicFolder(AtomicFolder&& other) noexcept;
  AtomicFolder& operator=(AtomicFolder&&) = delete;
  ~AtomicFolder();
  const std::filesystem::path& path() const { return temp_; }  // where to write
  Status commit();

 private:
  AtomicFolder() = default;
  std::filesystem::path target_, temp_;
  std::vector<std::filesystem::path> made_;
  Held held_;
};

/// Can a folder of this name be made? Hours may lie between this and its making.
Status check_new_folder(const std::filesystem::path& target);

}  // namespace slip
