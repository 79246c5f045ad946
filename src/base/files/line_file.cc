// SPDX-License-Identifier: Apache-2.0
// See line_file.h.
#include "base/files/line_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <string>

#include "base/file.h"

namespace slip {

Result<size_t> whole_lines(std::string_view text, const TakeLine& take) {
  size_t whole = 0;
  for (int64_t number = 1; whole < text.size(); ++number) {
    const size_t end = text.find('\n', whole);
    if (end == std::string_view::npos) break;
    SLIP_TRY_(take(text.substr(whole, end - whole), number));
    whole = end + 1;
  }
  return whole;
}

Result<LineFile> LineFile::open(const std::filesystem::path& file, std::string_view beginning, const TakeLine& take) {
  LineFile out;
  out.file_ = file;
  const auto unwritable = [&] { return bad_input("{}: expected a writable file, got: {}", file.string(), std::strerror(errno)); };
  if (!file.has_filename()) return bad_input("{}: expected a file, got a folder", file.string());
  struct stat st {};
  if (::stat(file.c_str(), &st) == 0 && !S_ISREG(st.st_mode)) {
    out.held_ = Held(::open(file.c_str(), O_WRONLY | O_CLOEXEC));
    if (out.held_.fd() < 0) return unwritable();
    return out;
  }
  SLIP_TRY(const auto made, make_parents(file));
  remove_leftovers(file.parent_path(), file.filename().string() + ".tmp-");  // of a killed run that was to write it whole
  out.held_ = Held(::open(file.c_str(), O_RDWR | O_CREAT | O_APPEND | O_CLOEXEC, 0644));
  if (out.held_.fd() < 0) {
    const Error why = unwritable();
    unmake(made);
    return why;
  }
  if (!hold(out.held_.fd()))
    return bad_input("{}: expected a file that nobody else is writing to, got one that another process is", file.string());
  SLIP_TRY(const std::string text, read_file(file));
  SLIP_TRY(const size_t whole, whole_lines(text, take));
  const std::string_view tail = std::string_view(text).substr(whole);
  if (!tail.starts_with(beginning) && !beginning.starts_with(tail))
    return bad_input("{}: expected lines of an earlier run, or an empty file, got an end that is none of its lines", file.string());
  if (!tail.empty() && ::ftruncate(out.held_.fd(), static_cast<off_t>(whole)) != 0) return unwritable();
  return out;
}

Status LineFile::add(std::string_view line) {
  const std::string whole = std::string(line) + "\n";
  for (size_t done = 0; done < whole.size();) {
    const ssize_t n = ::write(held_.fd(), whole.data() + done, whole.size() - done);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return resource_error("{}: expected room for a line, got: {}", file_.string(), std::strerror(errno));
    done += static_cast<size_t>(n);
  }
  return {};
}

Status LineFile::sync() {
  if (::fsync(held_.fd()) == 0 || errno == EINVAL || errno == EROFS) return {};  // what is no file has no disk
  return resource_error("{}: expected to be kept by its disk, got: {}", file_.string(), std::strerror(errno));
}

}  // namespace slip
