// SPDX-License-Identifier: Apache-2.0
// See compiled_form.h.
#include "form/compiled_form.h"

#include <algorithm>
#include <cmath>

#include "base/check.h"

namespace slip {

std::string NumberFormat::render(double value) const {
  std::string s;
  if (space) s += ' ';
  if (sign) s += std::signbit(value) ? '-' : '+';
  const int width = integer_digits + (decimals > 0 ? decimals + 1 : 0);
  return s + fmt::format("{:0{}.{}f}", std::fabs(value), width, decimals);
}

double NumberFormat::largest() const { return std::pow(10.0, integer_digits) - std::pow(10.0, -decimals); }

double BinsMeaning::value_of(int32_t bin) const {
  const int32_t k = std::clamp(bin, 0, size() - 2);
  const double step = (high - low) / (size() - 1);
  const auto edge = [&](int32_t i) { return i == size() - 1 ? high : i * step + low; };
  return (edge(k) + edge(k + 1)) / 2.0;
}

int32_t BinsMeaning::bin_holding(double value) const {
  const double step = (high - low) / (size() - 1), x = std::clamp(value, low, high);
  const auto edge = [&](int32_t i) { return i == size() - 1 ? high : i * step + low; };
  auto bin = std::clamp(static_cast<int32_t>((x - low) / step), 0, size() - 1);
  while (bin + 1 < size() && edge(bin + 1) <= x) ++bin;  // the quotient may be off by a rounding
  while (bin > 0 && x < edge(bin)) --bin;
  return bin;
}

}  // namespace slip
