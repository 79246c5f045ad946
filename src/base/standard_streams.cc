// SPDX-License-Identifier: Apache-2.0
// See standard_streams.h.
#include "base/standard_streams.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>

namespace slip {

void open_closed_streams() {
  for (const int fd : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO}) {
    if (::fcntl(fd, F_GETFD) >= 0 || errno != EBADF) continue;
    // The lowest number that is free, which is fd: those below it are open by now.
    [[maybe_unused]] const int null = ::open("/dev/null", fd == STDIN_FILENO ? O_WRONLY : O_RDONLY);
  }
}

void say(std::string_view text) noexcept { [[maybe_unused]] const size_t said = std::fwrite(text.data(), 1, text.size(), stderr); }

}  // namespace slip
