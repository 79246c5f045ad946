// SPDX-License-Identifier: Apache-2.0
// Bounds: numbers of L digits before the point and m behind it are integers of L + m digits, the missing ones zeros. Per L an automaton
// compares digit by digit with the lowest and the highest such integer and remembers whether it is still equal to one of them. Multiples:
// the remainder after each digit.
#include "form/automaton/numbers.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <string>

namespace slip {
namespace {

int64_t power_of_ten(int32_t n) {
  int64_t p = 1;
  for (; n > 0; --n) p *= 10;
  return p;
}

/// Bytes that no number tells apart.
constexpr auto kAlike = [] {
  std::array<uint8_t, 256> of{};
  uint8_t next = 1;
  for (const char c : std::string_view("-.0123456789")) of[static_cast<uint8_t>(c)] = next++;
  return of;
}();

/// value * 10^decimals, rounded up or down where it is no integer; clipped to +-10^16.
int64_t scaled(double value, int32_t decimals, bool up) {
  constexpr int64_t kFar = 10000000000000000;
  if (value > 1e16 / std::pow(10, decimals)) return kFar;
  if (value < -1e16 / std::pow(10, decimals)) return -kFar;
  const auto d = decimal_of(value);
  if (!d) {  // more digits than ours: between two of them
    const double x = value * std::pow(10.0, decimals);
    return static_cast<int64_t>(up ? std::ceil(x) : std::floor(x));
  }
  if (d->decimals <= decimals) return d->digits * power_of_ten(decimals - d->decimals);
  const int64_t unit = power_of_ten(d->decimals - decimals);
  const int64_t q = d->digits / unit, r = d->digits % unit;
  return q + (up && r > 0 ? 1 : !up && r < 0 ? -1 : 0);
}

/// Numbers of exactly `length` digits before the point, at most `decimals` behind it, from a to b (scaled, of length + decimals digits).
ByteDfa of_length(int32_t length, int32_t decimals, int64_t a, int64_t b) {
  const int32_t all = length + decimals;
  std::string low = fmt::format("{:0{}}", a, all), high = fmt::format("{:0{}}", b, all);
  // state = 4 * place + 2 * (equal to low so far) + (equal to high so far) + 1; behind the point places are shifted by one
  const int32_t places = all + 2;
  const auto code = [](int32_t place, bool is_low, bool is_high) { return 4 * place + 2 * is_low + is_high + 1; };
  const auto next = [=](int32_t s, int byte) -> int32_t {
    const int32_t place = s == 0 ? 0 : (s - 1) / 4;
    const bool is_low = s == 0 || ((s - 1) & 2) != 0, is_high = s == 0 || ((s - 1) & 1) != 0;
    if (byte == '.') return s != 0 && place == length && decimals > 0 ? code(length + 1, is_low, is_high) : -1;
    if (byte < '0' || byte > '9' || place == length || place >= places - 1) return -1;
    const auto digit = static_cast<size_t>(place > length ? place - 1 : place);
    const char c = static_cast<char>(byte);
    if ((is_low && c < low[digit]) || (is_high && c > high[digit])) return -1;
    return code(place + 1, is_low && c == low[digit], is_high && c == high[digit]);
  };
  const auto accepts = [=](int32_t s) {
    const int32_t place = s == 0 ? 0 : (s - 1) / 4;
    if (s == 0 || place < length || place == length + 1) return false;
    const auto digit = static_cast<size_t>(place > length ? place - 1 : place);
    return ((s - 1) & 2) == 0 || low.find_first_not_of('0', digit) == std::string::npos;
  };
  return ByteDfa::table(static_cast<size_t>(4 * places + 2), kAlike, next, accepts);
}

/// Numbers from a to b, both at least 0 (scaled).
void not_negative(int32_t digits, int32_t decimals, int64_t a, int64_t b, const std::string& sign, std::vector<ByteDfa>& out) {
  for (int32_t length = 1; length <= digits; ++length) {
    const int64_t low = std::max(a, length == 1 ? 0 : power_of_ten(length - 1 + decimals));
    const int64_t high = std::min(b, power_of_ten(length + decimals) - 1);
    if (low > high) continue;
    ByteDfa d = of_length(length, decimals, low, high);
    if (!sign.empty()) {
      const std::array<ByteDfa, 2> parts{*ByteDfa::literal(sign), std::move(d)};
      d = *ByteDfa::concat(parts);
    }
    out.push_back(std::move(d));
  }
}

/// Numbers whose digits, with `decimals` of them behind the point, are a multiple of `unit`.
Result<ByteDfa> multiples_of(int64_t unit, int32_t decimals) {
  constexpr auto kMost = static_cast<int64_t>(ByteDfa::kMostStates) - 2;
  if (unit > kMost / (decimals + 2))
    return unsupported("expected a multipleOf of at most {} units of {} decimals, got {}", kMost / (decimals + 2), decimals, unit);
  // 0: start; 1: behind the sign; then remainders by digits behind the point: 0, and 1 .. decimals
  const auto code = [=](int32_t behind, int64_t r) { return static_cast<int32_t>(2 + behind * unit + r); };
  const auto next = [=](int32_t s, int byte) -> int32_t {
    if (s == 0 && byte == '-') return 1;
    const int64_t r = s < 2 ? 0 : (s - 2) % unit;
    const auto behind = static_cast<int32_t>(s < 2 ? 0 : (s - 2) / unit);
    // The point is read as a digit that changes nothing: states of `behind` count from it.
    if (byte == '.') return s >= 2 && behind == 0 && decimals > 0 ? static_cast<int32_t>(2 + (decimals + 1) * unit + r) : -1;
    if (byte < '0' || byte > '9') return -1;
    const int64_t to = (r * 10 + (byte - '0')) % unit;
    if (behind == decimals + 1) return code(1, to);  // the first behind the point
    if (behind > 0) return behind < decimals ? code(behind + 1, to) : -1;
    return code(0, to);
  };
  const auto accepts = [=](int32_t s) {
    if (s < 2) return false;
    const int64_t r = (s - 2) % unit;
    const auto behind = static_cast<int32_t>((s - 2) / unit);
    return behind <= decimals && r * (power_of_ten(decimals - behind) % unit) % unit == 0;
  };
  return ByteDfa::table(static_cast<size_t>(2 + (decimals + 2) * unit), kAlike, next, accepts);
}

}  // namespace

std::optional<Decimal> decimal_of(double value) {
  std::array<char, 64> buffer{};
  const auto end = std::to_chars(buffer.data(), buffer.data() + buffer.size(), value, std::chars_format::scientific);
  const std::string_view text(buffer.data(), static_cast<size_t>(end.ptr - buffer.data()));
  Decimal d;
  int32_t exponent = 0;
  const size_t e = text.find('e');
  const std::string_view power = text.substr(e + 1);
  std::from_chars(power.data() + (power[0] == '+'), power.data() + power.size(), exponent);
  int32_t count = 0;
  bool behind = false;
  for (const char c : text.substr(0, e)) {
    if (c == '.') behind = true;
    if (c < '0' || c > '9') continue;
    if (++count > 17) return std::nullopt;
    d.digits = 10 * d.digits + (c - '0');
    d.decimals += behind;
  }
  d.decimals -= exponent;
  while (d.decimals > 0 && d.digits % 10 == 0 && d.digits != 0) d.digits /= 10, --d.decimals;
  if (d.digits == 0) return Decimal{};
  while (d.decimals < 0) {
    if (d.digits >= 1000000000000000000 / 10) return std::nullopt;
    d.digits *= 10, ++d.decimals;
  }
  if (d.decimals > 9 || d.digits >= power_of_ten(std::min(kIntegerDigits + d.decimals, 18))) return std::nullopt;
  if (text[0] == '-') d.digits = -d.digits;
  return d;
}

Result<ByteDfa> numbers(const NumberLimits& l) {
  int32_t decimals = l.integer ? 0 : kDecimals;
  for (const double m : l.multiples) {
    const auto d = decimal_of(m);
    if (!d || d->digits <= 0 || d->decimals > kDecimals)
      return unsupported("expected a multipleOf above 0 of at most {} decimals, got {}", kDecimals, m);
    decimals = std::min(decimals, std::max(d->decimals, 0));
  }
  const int32_t digits = decimals == 0 ? kIntegerDigits : kNumberDigits;
  int64_t a = scaled(l.least, decimals, true), b = scaled(l.most, decimals, false);
  const auto exact = [&](double x, int64_t s) {
    const auto d = decimal_of(x);
    return d && d->decimals <= decimals && d->digits * power_of_ten(decimals - d->decimals) == s;
  };
  if (l.above_least && exact(l.least, a)) ++a;
  if (l.below_most && exact(l.most, b)) --b;
  std::vector<ByteDfa> parts;
  if (b >= 0) not_negative(digits, decimals, std::max<int64_t>(a, 0), b, "", parts);
  if (a < 0) not_negative(digits, decimals, std::max<int64_t>(-b, 1), -a, "-", parts);
  SLIP_TRY(ByteDfa all, ByteDfa::either(parts));
  for (const double m : l.multiples) {
    const Decimal d = *decimal_of(m);
    // Written with all our decimals, a multiple of m is one of this many units.
    const int64_t g = d.decimals <= decimals ? d.digits * power_of_ten(decimals - d.decimals) : 0;
    if (g == 0) return unsupported("expected multiples that agree in their decimals, got {} among others", m);
    if (g == 1) continue;
    SLIP_TRY(const ByteDfa one, multiples_of(g, decimals));
    auto both = ByteDfa::both(all, one);
    if (!both && both.error().kind == ErrorKind::kUnsupported)
      return unsupported("expected a multipleOf that takes at most {} states beside its bounds, got {}", ByteDfa::kMostStates, m);
    SLIP_TRY(all, std::move(both));
  }
  return all;
}

}  // namespace slip
