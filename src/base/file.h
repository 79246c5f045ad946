// SPDX-License-Identifier: Apache-2.0
// Files: whole reads, atomic writes (beside, then renamed), read-only memory maps.
#pragma once
#include <cstddef>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace slip {

/// Whole file; kBadInput with the system's reason if it cannot be read, is a folder or a pipe (without waiting for its writer), or
/// exceeds max_bytes.
Result<std::string> read_file(const std::filesystem::path& file, size_t max_bytes = size_t{1} << 31);
/// The same of what a person names on a command line: a pipe (of `<(command)`) or a device is read to its end.
Result<std::string> read_stream(const std::filesystem::path& file, size_t max_bytes = size_t{1} << 31);
/// Writes beside and renames: readers see the old file or the new one, never half of one (devices and pipes: see AtomicFile).
Status write_file(const std::filesystem::path& file, std::string_view bytes);

/// A file that appears under its name only at commit(), when the disk has it; removed again if that never happens (Ctrl-C, error), by the
/// next writer of the same file where the process was killed. Folders that lead to it are made. A symbolic link stays: what it points to is
/// replaced. A file that is there must be writable, and its mode stays. The file that standard output or error goes
/// to is written through that. A target that is there and no regular
/// file (/dev/null, a pipe) is written to directly, and write_at fails where it cannot seek.
class AtomicFile {
 public:
  static Result<AtomicFile> create(const std::filesystem::path& file);
  AtomicFile(AtomicFile&&) noexcept;
  AtomicFile& operator=(AtomicFile&&) = delete;
  ~AtomicFile();
  Status write(const void* data, size_t bytes);
  Status write_at(size_t offset, const void* data, size_t bytes);
  Status commit();

 private:
  AtomicFile() = default;
  Status open_beside(const std::filesystem::path& file, unsigned mode);
  std::filesystem::path target_, temp_;  // temp_ is empty when target_ is written directly
  std::vector<std::filesystem::path> made_;
  int fd_ = -1;
};

/// Can it be written? Hours may lie between this and its writing. Nothing of an empty name, and of a pipe, which would be at its end for its reader.
Status check_writable(const std::filesystem::path& file);

/// A read-only map of a whole file; the bytes live as long as any copy of the map. An empty file has an empty span.
class MappedFile {
 public:
  static Result<MappedFile> open(const std::filesystem::path& file);
  std::span<const std::byte> bytes() const { return bytes_; }
  const std::filesystem::path& path() const { return path_; }
  /// Asks for pages of 2 MB, which spare page walks where a whole map is streamed. Granted for what the system has yet to read, by
  /// file systems that cache files in large pieces (ext4 from Linux 6.16 on, xfs); nothing changes where it is not.
  void prefer_large_pages() const;

 private:
  std::shared_ptr<void> hold_;
  std::span<const std::byte> bytes_;
  std::filesystem::path path_;
};

/// Has the system forget what it caches of a file and read it again in large pages, if it can: a file that was just written is cached
/// in small ones, and every map of it gets those. Takes the time of writing and reading it; a failure changes nothing.
void cache_in_large_pages(const std::filesystem::path& file);

}  // namespace slip
