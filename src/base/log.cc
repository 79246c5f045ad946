// SPDX-License-Identifier: Apache-2.0
// See log.h: a line is one write to stderr.
#include "base/log.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdlib>

#include "base/standard_streams.h"

namespace slip {

namespace {

constexpr std::array<std::string_view, 5> kWords = {"debug", "info", "warn", "error", "off"};

std::atomic<int>& level_store() {
  static std::atomic<int> level{[] {
    const char* word = std::getenv("SLIPSTREAM_LOG");
    if (word && *word != 0 && std::find(kWords.begin(), kWords.end(), word) == kWords.end())
      write_log(LogLevel::kWarn, fmt::format("SLIPSTREAM_LOG: expected debug, info, warn, error or off, got {}", word));
    return static_cast<int>(word ? log_level_named(word) : LogLevel::kWarn);
  }()};
  return level;
}

}  // namespace

LogLevel log_level_named(std::string_view word) {
  for (size_t i = 0; i < kWords.size(); ++i)
    if (kWords[i] == word) return static_cast<LogLevel>(i);
  return LogLevel::kWarn;
}

LogLevel log_level() { return static_cast<LogLevel>(level_store().load(std::memory_order_relaxed)); }
void set_log_level(LogLevel level) { level_store().store(static_cast<int>(level), std::memory_order_relaxed); }

void write_log(LogLevel level, std::string_view text) {
  std::string line = fmt::format("slipstream: {}: {}", kWords[static_cast<size_t>(level)], text);
  for (char& c : line)
    if (c == '\n' || c == '\r') c = ' ';
  line += '\n';
  say(line);
}

}  // namespace slip
