// SPDX-License-Identifier: Apache-2.0
// Drawing of progress.h's bar.
#include "base/progress.h"

#include <fmt/format.h>
#include <unistd.h>

#include <cmath>

#include "base/standard_streams.h"

namespace slip {

Progress::Progress(std::string what, int64_t total)
    : what_(std::move(what)), total_(total), start_(Clock::now()), last_(start_), terminal_(::isatty(STDERR_FILENO) != 0) {}

Progress::~Progress() { finish(); }

void Progress::update(int64_t done, const std::string& note) {
  if (!terminal_) return;
  const auto now = Clock::now();
  const double elapsed_s = std::chrono::duration<double>(now - start_).count();
  if (elapsed_s < 2 || (shown_ && now - last_ < std::chrono::milliseconds(100))) return;
  last_ = now;
  shown_ = true;
  if (total_ <= 0) {
    say(fmt::format("\r\033[K{}  {}  {}", what_, done, note));
  } else {
    constexpr int kWidth = 30;
    const double share = static_cast<double>(done) / static_cast<double>(total_);
    const int full = static_cast<int>(share * kWidth);
    const double left_s = share > 0 ? elapsed_s * (1 - share) / share : 0;
    say(fmt::format("\r\033[K{}  [{}{}] {}/{}  {} left  {}", what_, std::string(static_cast<size_t>(full), '#'),
                    std::string(static_cast<size_t>(kWidth - full), '.'), done, total_, human_duration(left_s), note));
  }
}

void Progress::finish() {
  if (!shown_) return;
  shown_ = false;
  say("\r\033[K");
}

std::string human_duration(double seconds) {
  const auto s = static_cast<int64_t>(std::llround(seconds));
  if (s < 60) return fmt::format("{} s", s);
  if (s < 3600) return fmt::format("{} min {} s", s / 60, s % 60);
  return fmt::format("{} h {} min", s / 3600, s % 3600 / 60);
}

}  // namespace slip
