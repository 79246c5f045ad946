// SPDX-License-Identifier: Apache-2.0
// What is written beside its target and renamed: names, who holds them, and what a killed process left behind. A writer holds a lock on its
// temporary file or folder (flock, which the system lets go when the process ends, however it ends); what nobody holds is a leftover. The
// same lock on a whole folder keeps a second writer out.
#pragma once
#include <filesystem>
#include <optional>
#include <vector>

#include "base/result.h"

namespace slip {

/// A descriptor that is closed with its owner, and its lock with it.
class Held {
 public:
  Held() = default;
  explicit Held(int fd) : fd_(fd) {}
  Held(Held&& other) noexcept;
  Held& operator=(Held&& other) noexcept;
  ~Held();
  int fd() const { return fd_; }

 private:
  int fd_ = -1;
};

/// A name beside `target` that no other process has: "<target>.tmp-<process>-<number>".
std::filesystem::path name_beside(const std::filesystem::path& target);

/// Locks an open file or folder for its writer. False: it was taken for a leftover and removed in between, or another holds it. File systems
/// without locks hold everything.
bool hold(int fd);

/// Removes a file, or a folder with all that is in it; links are removed and not followed. Holds one descriptor at most, none for what is
/// no folder or is empty: what is unfinished goes also where descriptors are scarce. False where something stays.
bool remove_tree(const std::filesystem::path& path) noexcept;

/// Removes the temporaries in `folder` whose names begin with `prefix` and that nobody holds. Are there others, which somebody is writing?
bool remove_leftovers(const std::filesystem::path& folder, std::string_view prefix);

/// Is somebody writing a file of this name beside its place (AtomicFile)?
bool is_being_written(const std::filesystem::path& file);

/// Holds a folder that is there against other writers. kBadInput names the folder where another process holds it.
Result<Held> hold_folder(const std::filesystem::path& folder);

/// Makes the folders that are to hold `file`: those that were not there, outermost first. kBadInput with the system's reason.
Result<std::vector<std::filesystem::path>> make_parents(const std::filesystem::path& file);
/// Removes those that are empty again, innermost first.
void unmake(const std::vector<std::filesystem::path>& folders);

/// Has the system write a folder's files, and the folder itself, to the disk.
Status sync_folder(const std::filesystem::path& folder);

}  // namespace slip
