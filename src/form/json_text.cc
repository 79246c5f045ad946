// SPDX-License-Identifier: Apache-2.0
// Formatting rules in json_text.h. Boost.JSON itself writes 1.5 as 1.5E0, which no training answer contains. It reads decimals
// of up to 15 digits exactly (20,000 random ones per length), so that the shortest digits are the ones that were written.
#include "form/json_text.h"

#include <array>
#include <charconv>
#include <cmath>

#include "base/check.h"

namespace slip {

std::string python_number(double value) {
  SLIP_CHECK(std::isfinite(value), "the reader of schemas refuses numbers that are not finite");
  std::array<char, 32> buffer{};
  const auto written = std::to_chars(buffer.data(), buffer.data() + buffer.size(), value, std::chars_format::scientific);
  const std::string_view text(buffer.data(), written.ptr);
  const size_t e = text.find('e');
  int exponent = 0;
  std::from_chars(text.data() + e + (text[e + 1] == '+' ? 2 : 1), written.ptr, exponent);
  const std::string sign = text[0] == '-' ? "-" : "";
  std::string digits;
  for (const char c : text.substr(0, e))
    if (c >= '0' && c <= '9') digits += c;
  const auto count = static_cast<int>(digits.size());
  if (exponent < -4 || exponent >= 16)  // Python's bounds of plain notation
    return fmt::format("{}{}{}{}e{}{:02}", sign, digits[0], count > 1 ? "." : "", digits.substr(1), exponent < 0 ? '-' : '+',
                       std::abs(exponent));
  if (exponent < 0) return sign + "0." + std::string(static_cast<size_t>(-exponent - 1), '0') + digits;
  if (count <= exponent + 1) return sign + digits + std::string(static_cast<size_t>(exponent + 1 - count), '0') + ".0";
  return sign + digits.insert(static_cast<size_t>(exponent) + 1, ".");
}

std::string plain_json(const json::value& value) {
  return value.is_double() ? python_number(value.get_double()) : json::serialize(value);
}

}  // namespace slip
