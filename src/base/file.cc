// SPDX-License-Identifier: Apache-2.0
// POSIX files behind file.h.
#include "base/file.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>

#include "base/files/beside.h"
#include "base/interrupt.h"

namespace slip {

namespace fs = std::filesystem;

namespace {

std::string reason() { return std::strerror(errno); }

struct Fd {
  int fd = -1;
  ~Fd() {
    if (fd >= 0) ::close(fd);
  }
};

std::string_view kind_of(mode_t mode) {
  return S_ISDIR(mode) ? "folder" : S_ISFIFO(mode) ? "pipe" : S_ISCHR(mode) || S_ISBLK(mode) ? "device" : "special file";
}

// Opens for reading and checks that it is a regular file; the size comes back with it.
Result<size_t> open_regular(const fs::path& file, Fd& out) {
  if (file.native().find('\0') != std::string::npos)  // the system would open the file of the part before it
    return bad_input("{}: expected a file name without a zero byte, got one with it", std::string(file.c_str()));
  out.fd = ::open(file.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);  // a pipe without a writer would wait for one
  if (out.fd < 0) return bad_input("{}: expected a readable file, got: {}", file.string(), reason());
  struct stat st {};
  if (::fstat(out.fd, &st) != 0) return bad_input("{}: expected a readable file, got: {}", file.string(), reason());
  if (!S_ISREG(st.st_mode)) return bad_input("{}: expected a regular file, got a {}", file.string(), kind_of(st.st_mode));
  return static_cast<size_t>(st.st_size);
}

// The file that a chain of symbolic links names, whether or not it exists; 40 hops are Linux's own limit.
fs::path end_of_links(fs::path file) {
  std::error_code ec;
  for (int hop = 0; hop < 40 && fs::is_symlink(fs::symlink_status(file, ec)); ++hop) {
    const fs::path next = fs::read_symlink(file, ec);
    if (ec) break;
    file = file.parent_path() / next;
  }
  return file;
}

}  // namespace

Result<std::string> read_file(const fs::path& file, size_t max_bytes) {
  Fd fd;
  SLIP_TRY(const size_t size, open_regular(file, fd));
  if (size > max_bytes) return bad_input("{}: expected at most {} bytes, got {}", file.string(), max_bytes, size);
  std::string bytes(size, '\0');
  size_t done = 0;
  while (done < size) {
    const ssize_t n = ::read(fd.fd, bytes.data() + done, size - done);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return bad_input("{}: expected a readable file, got: {}", file.string(), reason());
    if (n == 0) return bad_input("{}: expected {} bytes, got {} (the file shrank while it was read)", file.string(), size, done);
    done += static_cast<size_t>(n);
  }
  return bytes;
}

Result<std::string> read_stream(const fs::path& file, size_t max_bytes) {
  std::error_code ec;
  const fs::file_status what = fs::status(file, ec);
  if (!fs::is_fifo(what) && !fs::is_character_file(what)) return read_file(file, max_bytes);
  const Fd fd{::open(file.c_str(), O_RDONLY | O_CLOEXEC)};
  if (fd.fd < 0) return bad_input("{}: expected a readable file, got: {}", file.string(), reason());
  std::string bytes;
  std::array<char, 1 << 16> part;
  for (;;) {
    const ssize_t n = ::read(fd.fd, part.data(), part.size());
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return bad_input("{}: expected a readable file, got: {}", file.string(), reason());
    if (n == 0) return bytes;
    if (bytes.size() + static_cast<size_t>(n) > max_bytes)
      return bad_input("{}: expected at most {} bytes, got more", file.string(), max_bytes);
    bytes.append(part.data(), static_cast<size_t>(n));
  }
}

Status write_file(const fs::path& file, std::string_view bytes) {
  SLIP_TRY(AtomicFile out, AtomicFile::create(file));
  SLIP_TRY_(out.write(bytes.data(), bytes.size()));
  return out.commit();
}

Status check_writable(const fs::path& file) {
  std::error_code ec;
  if (file.empty() || fs::is_fifo(file, ec)) return {};
  SLIP_TRY(const AtomicFile trial, AtomicFile::create(file));
  return {};
}

Result<AtomicFile> AtomicFile::create(const fs::path& file) {
  AtomicFile out;
  struct stat st {};
  const bool there = ::stat(file.c_str(), &st) == 0;
  if (there && !S_ISREG(st.st_mode)) {
    out.target_ = file;
    // Of a folder the system says that it is one; at a pipe it waits for a reader.
    while ((out.fd_ = ::open(file.c_str(), O_WRONLY | O_CLOEXEC)) < 0 && errno == EINTR) SLIP_TRY_(check_interrupt());
    if (out.fd_ < 0) return bad_input("{}: expected a writable place, got: {}", file.string(), reason());
    return out;
  }
  // /dev/stdout, or its file by name: replaced, what goes to the descriptor would go nowhere.
  for (const int open : {STDOUT_FILENO, STDERR_FILENO}) {
    struct stat at {};
    if (!there || ::fstat(open, &at) != 0 || at.st_dev != st.st_dev || at.st_ino != st.st_ino) continue;
    out.target_ = file;
    out.fd_ = ::fcntl(open, F_DUPFD_CLOEXEC, 0);
    if (out.fd_ < 0) return bad_input("{}: expected a writable place, got: {}", file.string(), reason());
    return out;
  }
  // Renaming asks only for the folder's permission: the file's own is asked for here.
  if (there && ::access(file.c_str(), W_OK) != 0)
    return bad_input("{}: expected a writable file, got: {}", file.string(), reason());
  out.target_ = end_of_links(file);
  SLIP_TRY(out.made_, make_parents(out.target_));
  remove_leftovers(out.target_.parent_path(), out.target_.filename().string() + ".tmp-");
  SLIP_TRY_(out.open_beside(file, there ? st.st_mode & 0777 : 0644));
  if (there) ::fchmod(out.fd_, st.st_mode & 0777);  // whatever the umask took; a file system without modes has none to keep
  return out;
}

// Another process may take a new file for a leftover before its lock is there: then a second one is made.
Status AtomicFile::open_beside(const fs::path& file, unsigned mode) {
  constexpr int kTries = 100;
  for (int i = 0; i < kTries; ++i) {
    temp_ = name_beside(target_);
    const HoldOffEnd held;
    remember_temporary(temp_);
    fd_ = ::open(temp_.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, static_cast<mode_t>(mode));
    if (fd_ >= 0 && hold(fd_)) return {};
    const std::string why = reason();
    forget_temporary(temp_);
    if (fd_ < 0) {
      unmake(made_);
      return bad_input("{}: expected a writable place, got: {}", file.string(), why);
    }
    ::close(std::exchange(fd_, -1));
  }
  return resource_error("{}: expected a temporary file of its own, got none in {} tries", file.string(), kTries);
}

AtomicFile::AtomicFile(AtomicFile&& other) noexcept
    : target_(std::move(other.target_)),
      temp_(std::move(other.temp_)),
      made_(std::move(other.made_)),
      fd_(std::exchange(other.fd_, -1)) {}

AtomicFile::~AtomicFile() {
  if (fd_ < 0) return;
  ::close(fd_);
  if (temp_.empty()) return;
  ::unlink(temp_.c_str());
  forget_temporary(temp_);
  unmake(made_);
}

Status AtomicFile::write(const void* data, size_t bytes) {
  const char* p = static_cast<const char*>(data);
  while (bytes > 0) {
    const ssize_t n = ::write(fd_, p, bytes);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return resource_error("{}: expected to write {} bytes, got: {}", target_.string(), bytes, reason());
    p += n;
    bytes -= static_cast<size_t>(n);
  }
  return {};
}

Status AtomicFile::write_at(size_t offset, const void* data, size_t bytes) {
  const char* p = static_cast<const char*>(data);
  while (bytes > 0) {
    const ssize_t n = ::pwrite(fd_, p, bytes, static_cast<off_t>(offset));
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return resource_error("{}: expected to write {} bytes, got: {}", target_.string(), bytes, reason());
    p += n;
    offset += static_cast<size_t>(n);
    bytes -= static_cast<size_t>(n);
  }
  return {};
}

Status AtomicFile::commit() {
  // Renamed before its bytes are on the disk, a file may be empty after a power cut, and the one that it replaced is gone.
  const bool synced = temp_.empty() || ::fsync(fd_) == 0 || errno == EINVAL || errno == EROFS || errno == ENOTSUP;
  const int sync_error = errno;
  const bool closed = ::close(std::exchange(fd_, -1)) == 0 && synced;
  if (!synced) errno = sync_error;
  if (temp_.empty()) {
    if (closed) return {};
    return resource_error("{}: expected to finish writing, got: {}", target_.string(), reason());
  }
  const bool ok = closed && ::rename(temp_.c_str(), target_.c_str()) == 0;
  const std::string why = ok ? "" : reason();
  forget_temporary(temp_);
  if (ok) return {};
  ::unlink(temp_.c_str());
  unmake(made_);
  return resource_error("{}: expected to put the file in place, got: {}", target_.string(), why);
}

Result<MappedFile> MappedFile::open(const fs::path& file) {
  Fd fd;
  SLIP_TRY(const size_t size, open_regular(file, fd));
  MappedFile out;
  out.path_ = file;
  if (size == 0) return out;
  void* p = ::mmap(nullptr, size, PROT_READ, MAP_PRIVATE, fd.fd, 0);
  if (p == MAP_FAILED) return resource_error("{}: expected to map {} bytes, got: {}", file.string(), size, reason());
  out.hold_ = std::shared_ptr<void>(p, [size](void* q) { ::munmap(q, size); });
  out.bytes_ = {static_cast<const std::byte*>(p), size};
  return out;
}

void MappedFile::prefer_large_pages() const {
  if (!bytes_.empty()) ::madvise(const_cast<std::byte*>(bytes_.data()), bytes_.size(), MADV_HUGEPAGE);
}

void cache_in_large_pages(const fs::path& file) {
  {
    Fd fd;
    if (!open_regular(file, fd) || ::fdatasync(fd.fd) != 0) return;  // pages that are not written yet cannot be forgotten
    if (::posix_fadvise(fd.fd, 0, 0, POSIX_FADV_DONTNEED) != 0) return;
  }
  const auto map = MappedFile::open(file);
  if (!map) return;
  map->prefer_large_pages();
  for (size_t i = 0; i < map->bytes().size(); i += size_t{1} << 12)
    static_cast<void>(*static_cast<volatile const std::byte*>(&map->bytes()[i]));
}

}  // namespace slip
