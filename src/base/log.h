// SPDX-License-Identifier: Apache-2.0
// The log: one line per event on stderr, "slipstream: info: <text>". SLIPSTREAM_LOG=debug|info|warn|error|off chooses what is
// shown (default warn: results and errors are not log lines). Lines of several threads do not mix.
#pragma once
#include <fmt/format.h>

#include <string>
#include <string_view>
#include <utility>

namespace slip {

enum class LogLevel : int { kDebug, kInfo, kWarn, kError, kOff };

/// What is shown; read from the environment at first use. Unknown words mean warn.
LogLevel log_level();
/// For tests and for doors with a flag of their own.
void set_log_level(LogLevel level);
/// The level that a word names, or warn.
LogLevel log_level_named(std::string_view word);
void write_log(LogLevel level, std::string_view text);

/// The text is formatted only when it is shown.
template <class... A>
void log(LogLevel level, fmt::format_string<A...> f, A&&... a) {
  if (level >= log_level()) write_log(level, fmt::format(f, std::forward<A>(a)...));
}

}  // namespace slip
