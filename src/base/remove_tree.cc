// SPDX-License-Identifier: Apache-2.0
// Tests: RemoveTree.HoldsOneDescriptor, base_test.cc
#include "base/remove_tree.h"

#include <dirent.h>
#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <memory>
#include <new>
#include <string>
#include <string_view>

namespace slip {
namespace {

/// Unlinks what is no folder. Comes back with a folder that is left, empty where there is none. The descriptor is closed by then, so that the
/// next one is at hand for that folder.
std::string unlink_files(const std::string& folder) {
  std::string left;
  const std::unique_ptr<DIR, int (*)(DIR*)> open(::opendir(folder.c_str()), ::closedir);
  if (!open) return left;
  while (const dirent* entry = ::readdir(open.get())) {
    const std::string_view name = entry->d_name;
    if (name == "." || name == ".." || ::unlinkat(::dirfd(open.get()), entry->d_name, 0) == 0 || errno == ENOENT) continue;
    left = folder;
    left += '/';
    left += name;
  }
  return left;
}

bool gone(const std::string& path) {
  return ::unlink(path.c_str()) == 0 || errno == ENOENT || ::rmdir(path.c_str()) == 0 || errno == ENOENT;
}

bool removed(const std::string& path) {
  if (gone(path)) return true;
  for (std::string last;;) {
    const std::string below = unlink_files(path);
    if (below.empty() || below == last || !removed(below)) return gone(path);
    last = below;
  }
}

}  // namespace

bool remove_tree(const std::filesystem::path& path) noexcept {
  try {
    return removed(path.string());
  } catch (const std::bad_alloc&) {
    return false;
  }
}

}  // namespace slip
