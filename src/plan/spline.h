// SPDX-License-Identifier: Apache-2.0
// What the fits are made of: the quintic pieces of a curve through knots, as a matrix over the inputs (plan/fit.h).
#pragma once
#include <array>
#include <cstddef>
#include <span>
#include <vector>

#include "plan/fit.h"

namespace slip {

/// Dense rows x columns, row-major.
struct Matrix {
  Matrix(size_t r, size_t c) : rows(r), columns(c), v(r * c, 0.0) {}
  double& operator()(size_t r, size_t c) { return v[r * columns + c]; }
  double operator()(size_t r, size_t c) const { return v[r * columns + c]; }
  size_t rows, columns;
  std::vector<double> v;
};

/// Which knots (0 is now) the ego stands at; empty means none.
using Stops = std::vector<bool>;

/// d^order/ds^order of (1, s, ..., s^5) at s.
std::array<double, 6> powers(double s, int order);

/// Coefficients of each piece on [0, 1] (rows 6 i .. 6 i + 5: s^0 .. s^5) over the inputs. Time is measured in knot intervals.
Matrix pieces_of(const FitSpec& s, size_t inputs, const Stops& stops);

}  // namespace slip
