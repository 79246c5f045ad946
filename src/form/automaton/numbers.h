// SPDX-License-Identifier: Apache-2.0
// Numbers as JSON writes them without an exponent, within bounds and as multiples, as automata over their digits.
#pragma once
#include <limits>
#include <optional>
#include <vector>

#include "form/automaton/byte_dfa.h"

namespace slip {

/// digits * 10^-decimals, exactly.
struct Decimal {
  int64_t digits = 0;
  int32_t decimals = 0;
};
/// The shortest decimal that reads back as `value`; nothing where that has more than 15 digits before the point or 9 behind it.
std::optional<Decimal> decimal_of(double value);

struct NumberLimits {
  bool integer = false;
  double least = -std::numeric_limits<double>::infinity(), most = -least;  // inclusive unless:
  bool above_least = false, below_most = false;
  std::vector<double> multiples;
};

constexpr int32_t kIntegerDigits = 15;  // every such integer is a double
constexpr int32_t kNumberDigits = 9;    // before the point, with at most
constexpr int32_t kDecimals = 6;        // behind it: 15 digits in all

/// Integers of at most 15 digits, numbers of at most 9 and 6, no leading zeros, no -0. Empty where nothing fits. kUnsupported: a multiple
/// whose remainders are more than the automaton's bound.
Result<ByteDfa> numbers(const NumberLimits& limits);

}  // namespace slip
