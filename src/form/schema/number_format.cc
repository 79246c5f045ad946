// SPDX-License-Identifier: Apache-2.0
// Numbers of fixed width: "[space][+]0..0[.0..0]" says how one is written. Every character but " +" is a token of its own in the
// vocabularies of interest, so that all numbers of a format have the same number of tokens.
#include <cmath>

#include "form/json_text.h"
#include "form/schema/text.h"

namespace slip {

Result<NumberFormat> parse_number_format(std::string_view spelled, std::string_view where) {
  NumberFormat f;
  f.spelled = spelled;
  f.integer_digits = 0;
  size_t i = 0;
  const auto take = [&](char c) { return i < spelled.size() && spelled[i] == c && ++i; };
  f.space = take(' ');
  f.sign = take('+');
  while (take('0')) ++f.integer_digits;
  const bool point = take('.');
  while (point && take('0')) ++f.decimals;
  // 15 digits: every such decimal goes through a double and back unchanged.
  if (i != spelled.size() || f.integer_digits < 1 || (point && f.decimals < 1) || f.integer_digits + f.decimals > 15)
    return bad_input("{}: expected an x-format like \"+000.00\" of at most 15 digits, got \"{}\"", where, shown(spelled));
  return f;
}

}  // namespace slip
