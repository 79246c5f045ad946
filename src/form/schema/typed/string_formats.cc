// SPDX-License-Identifier: Apache-2.0
// Each is a part of what the format allows that every validator accepts: years 1000 to 2999 with their leap days, no leap seconds, hosts of
// letters and digits.
#include "form/schema/typed/string_formats.h"

#include "base/result.h"

namespace slip {

std::optional<std::string> pattern_of_format(std::string_view format) {
  static const std::string kDate =  // RFC 3339
      "(?:[12][0-9]{3}-(?:(?:0[13578]|1[02])-(?:0[1-9]|[12][0-9]|3[01])|(?:0[469]|11)-(?:0[1-9]|[12][0-9]|30)|"
      "02-(?:0[1-9]|1[0-9]|2[0-8]))|(?:[12][0-9](?:0[48]|[2468][048]|[13579][26])|(?:12|16|20|24|28)00)-02-29)";
  static const std::string kTime =
      "(?:[01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9](?:\\.[0-9]{1,6})?(?:Z|[+-](?:[01][0-9]|2[0-3]):[0-5][0-9])";
  static const std::string kLabel = "[a-z0-9](?:[a-z0-9-]{0,14}[a-z0-9])?";
  static const std::string kLastLabel = "[a-z](?:[a-z0-9-]{0,14}[a-z0-9])?";
  static const std::string kByte = "(?:25[0-5]|2[0-4][0-9]|1[0-9][0-9]|[1-9]?[0-9])";
  if (format == "date") return "^" + kDate + "$";
  if (format == "time") return "^" + kTime + "$";
  if (format == "date-time") return "^" + kDate + "T" + kTime + "$";
  if (format == "duration")
    return "^P(?:[1-9][0-9]{0,2}D(?:T[1-9][0-9]?H)?|T(?:[1-9][0-9]?H)?[1-9][0-9]?M|T[1-9][0-9]?S|[1-9][0-9]?W)$";
  if (format == "uuid") return "^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$";
  if (format == "ipv4") return "^" + kByte + "(?:\\." + kByte + "){3}$";
  if (format == "ipv6") {  // in full, or with so many groups before `::` and fewer behind it than are left
    std::string all = "^(?:(?:[0-9a-f]{1,4}:){7}[0-9a-f]{1,4}";
    for (int before = 0; before <= 6; ++before) {
      all += before > 0 ? fmt::format("|[0-9a-f]{{1,4}}(?::[0-9a-f]{{1,4}}){{{}}}::", before - 1) : "|::";
      if (before < 6) all += fmt::format("(?:[0-9a-f]{{1,4}}(?::[0-9a-f]{{1,4}}){{0,{}}})?", 5 - before);
    }
    return all + ")$";
  }
  if (format == "email")
    return "^[A-Za-z0-9_+-]{1,16}(?:\\.[A-Za-z0-9_+-]{1,16}){0,2}@" + kLabel + "(?:\\." + kLabel + "){0,2}\\.[a-z]{2,6}$";
  // A host's last label begins with a letter: four numbers would be an address [RFC 1123, 2.1; WHATWG URL, "ends in a number"].
  if (format == "hostname") return "^(?:" + kLabel + "\\.){0,3}" + kLastLabel + "$";
  if (format == "uri") return "^https?://(?:" + kLabel + "\\.){1,3}" + kLastLabel + "(?:/[A-Za-z0-9._~-]{0,32}){0,4}$";
  return std::nullopt;
}

std::string pattern_of_number_format(std::string_view spelled) {
  std::string p = "^";
  for (const char c : spelled) p += c == '0' ? "[0-9]" : c == '.' ? "\\." : std::string("[") + c + "-]";
  return p + "$";
}

}  // namespace slip
