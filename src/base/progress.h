// SPDX-License-Identifier: Apache-2.0
// A progress bar on stderr for work that lasts: shown only when stderr is a terminal, and only once two seconds have passed.
#pragma once
#include <chrono>
#include <cstdint>
#include <string>

namespace slip {

class Progress {
 public:
  /// `total` <= 0: unknown, a count is shown in place of a bar.
  Progress(std::string what, int64_t total);
  ~Progress();
  /// Call as often as you like: it draws at most ten times a second. `note` stands behind the bar.
  void update(int64_t done, const std::string& note = {});
  void finish();

 private:
  using Clock = std::chrono::steady_clock;
  std::string what_;
  int64_t total_;
  Clock::time_point start_, last_;
  bool terminal_, shown_ = false;
};

/// "3 s", "2 min 5 s", "1 h 4 min".
std::string human_duration(double seconds);

}  // namespace slip
