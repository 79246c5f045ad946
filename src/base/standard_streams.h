// SPDX-License-Identifier: Apache-2.0
// The descriptors 0, 1 and 2, whatever the caller of the program did with them.
#pragma once
#include <string_view>

namespace slip {

/// Puts /dev/null on each of the descriptors 0, 1 and 2 that is closed (`<&- >&-`), so that no file or pipe of ours gets its number.
/// The wrong way round, 0 for writing, 1 and 2 for reading: reading and writing fail as they do on a closed one. First in main.
void open_closed_streams();

/// Text to stderr, in one write where it can; what a full or closed stderr does not take is lost (fmt::print throws there).
void say(std::string_view text) noexcept;

}  // namespace slip
