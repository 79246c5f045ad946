// SPDX-License-Identifier: Apache-2.0
// See beside.h.
#include "base/files/beside.h"

#include <dirent.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstring>
#include <memory>
#include <new>
#include <utility>

#include "base/interrupt.h"

namespace slip {

namespace fs = std::filesystem;

namespace {

// flock, where the file system knows it (not on every network's, and not every kind of file).
enum class Lock { kMine, kAnothers, kNone };
Lock lock_of(int fd) {
  int done = -1;
  do done = ::flock(fd, LOCK_EX | LOCK_NB);
  while (done != 0 && errno == EINTR);
  return done == 0 ? Lock::kMine : errno == EWOULDBLOCK ? Lock::kAnothers : Lock::kNone;
}

// "<anything>.tmp-<digits>-<digits>", or what an interrupt put aside to remove.
bool is_temporary(std::string_view name) {
  if (name.ends_with(".gone")) name.remove_suffix(5);
  const size_t at = name.rfind(".tmp-");
  if (at == std::string_view::npos) return false;
  const std::string_view numbers = name.substr(at + 5);
  const size_t dash = numbers.find('-');
  return dash != std::string_view::npos && dash > 0 && dash + 1 < numbers.size() &&
         numbers.find_first_not_of("0123456789-") == std::string_view::npos;
}

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

Held::Held(Held&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
Held& Held::operator=(Held&& other) noexcept {
  if (fd_ >= 0 && this != &other) ::close(fd_);
  fd_ = std::exchange(other.fd_, -1);
  return *this;
}
Held::~Held() {
  if (fd_ >= 0) ::close(fd_);
}

fs::path name_beside(const fs::path& target) {
  static std::atomic<int> serial{0};
  fs::path out = target;
  out += fmt::format(".tmp-{}-{}", ::getpid(), serial++);
  return out;
}

bool hold(int fd) {
  const Lock lock = lock_of(fd);
  struct stat st {};
  return lock == Lock::kNone || (lock == Lock::kMine && ::fstat(fd, &st) == 0 && st.st_nlink > 0);
}

bool remove_tree(const std::filesystem::path& path) noexcept {
  try {
    return removed(path.string());
  } catch (const std::bad_alloc&) {
    return false;
  }
}

bool remove_leftovers(const fs::path& folder, std::string_view prefix) {
  bool others = false;
  std::error_code ec;
  std::vector<fs::path> found;
  for (fs::directory_iterator it(folder.empty() ? "." : folder, ec), end; !ec && it != end; it.increment(ec)) {
    const std::string name = it->path().filename().string();
    if (name.starts_with(prefix) && is_temporary(name)) found.push_back(it->path());
  }
  for (const fs::path& file : found) {
    const Held at(::open(file.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOFOLLOW));
    if (at.fd() < 0) continue;
    const Lock lock = lock_of(at.fd());
    if (lock == Lock::kMine) remove_tree(file);
    others |= lock == Lock::kAnothers;
  }
  return others;
}

bool is_being_written(const fs::path& file) { return remove_leftovers(file.parent_path(), file.filename().string() + ".tmp-"); }

Result<Held> hold_folder(const fs::path& folder) {
  Held out(::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (out.fd() < 0) return bad_input("{}: expected a folder to write to, got: {}", folder.string(), std::strerror(errno));
  if (lock_of(out.fd()) == Lock::kAnothers)
    return bad_input("{}: expected a folder that nobody else is writing to, got one that another process is", folder.string());
  return out;
}

Result<std::vector<fs::path>> make_parents(const fs::path& file) {
  std::vector<fs::path> missing;
  std::error_code ec;
  for (fs::path at = file.parent_path(); !at.empty() && !fs::exists(at, ec); at = at.parent_path()) {
    missing.push_back(at);
    if (at == at.parent_path()) break;
  }
  std::reverse(missing.begin(), missing.end());
  const HoldOffEnd held;  // a folder that the handler has just put aside must not come back
  std::vector<fs::path> made;
  for (const fs::path& folder : missing) {
    if (fs::create_directory(folder, ec)) made.push_back(folder);
    const std::string why = ec.message();
    std::error_code now;
    if (!ec || fs::is_directory(folder, now)) continue;  // another may make it at the same time
    unmake(made);
    return bad_input("{}: expected a folder that can be made, got: {}", folder.string(), why);
  }
  return made;
}

void unmake(const std::vector<fs::path>& folders) {
  for (auto at = folders.rbegin(); at != folders.rend(); ++at)
    if (::rmdir(at->c_str()) != 0) return;
}

Status sync_folder(const fs::path& folder) {
  std::error_code ec;
  std::vector<fs::path> all{folder};
  for (fs::recursive_directory_iterator it(folder, ec), end; !ec && it != end; it.increment(ec))
    if (it->is_regular_file(ec) || it->is_directory(ec)) all.push_back(it->path());
  for (const fs::path& file : all) {
    const Held at(::open(file.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW));
    if (at.fd() < 0 || ::fsync(at.fd()) == 0 || errno == EINVAL || errno == EROFS || errno == ENOTSUP) continue;
    return resource_error("{}: expected to write it to the disk, got: {}", file.string(), std::strerror(errno));
  }
  return {};
}

}  // namespace slip
