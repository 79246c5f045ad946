// SPDX-License-Identifier: Apache-2.0
// `format` of strings and x-format of numbers, as regular expressions.
#pragma once
#include <optional>
#include <string>
#include <string_view>

namespace slip {

/// The pattern of date, time, date-time, duration, uuid, ipv4, ipv6, email, hostname, uri; nothing for a format that is an annotation alone.
std::optional<std::string> pattern_of_format(std::string_view format);
/// "0.00" -> digit, point, two digits.
std::string pattern_of_number_format(std::string_view spelled);

}  // namespace slip
