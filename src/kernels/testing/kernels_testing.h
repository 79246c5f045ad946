// SPDX-License-Identifier: Apache-2.0
// What the tests of kernels/ share: numbers, all instruction sets of this machine in turn, comparison by bits and by
// bound.
#pragma once
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <random>
#include <span>
#include <vector>

#include "kernels/kernels.h"
#include "kernels/testing/reference_testing.h"

namespace slip {

constexpr WeightType kWeightTypes[] = {WeightType::kF32, WeightType::kBF16, WeightType::kI8, WeightType::kI4};

/// Calls f once per instruction set that this machine has; the first choice is restored.
template <class F>
void on_every_isa(const F& f) {
  const Isa before = isa_choice().isa;
  for (const Isa isa : kIsas) {
    if (!force_isa(isa)) continue;
    SCOPED_TRACE(isa_choice().reason);
    f(isa);
  }
  ASSERT_TRUE(force_isa(before));
}

/// Normal numbers; one in eight is scaled by 2^-20 .. 2^10, so that a wrong order of addition shows.
inline std::vector<float> numbers(int64_t n, uint32_t seed, float scale = 1) {
  std::mt19937 engine(seed);
  std::normal_distribution<float> normal;
  std::uniform_int_distribution<int> power(-20, 10), eighth(0, 7);
  std::vector<float> out(static_cast<size_t>(n));
  for (float& x : out) {
    x = normal(engine) * scale;
    if (eighth(engine) == 0) x = std::ldexp(x, power(engine));
  }
  return out;
}
inline std::vector<float> plain_numbers(int64_t n, uint32_t seed, float scale = 1) {
  std::mt19937 engine(seed);
  std::normal_distribution<float> normal;
  std::vector<float> out(static_cast<size_t>(n));
  for (float& x : out) x = normal(engine) * scale;
  return out;
}

inline ::testing::AssertionResult same_bits(std::span<const float> a, std::span<const float> b) {
  if (a.size() != b.size()) return ::testing::AssertionFailure() << "sizes " << a.size() << " and " << b.size();
  for (size_t i = 0; i < a.size(); i++)
    if (std::memcmp(&a[i], &b[i], sizeof(float)) != 0)
      return ::testing::AssertionFailure() << "element " << i << ": " << ::testing::PrintToString(a[i]) << " and "
                                           << ::testing::PrintToString(b[i]);
  return ::testing::AssertionSuccess();
}

inline ::testing::AssertionResult within(double got, Bounded want) {
  if (std::fabs(got - want.value) <= want.bound) return ::testing::AssertionSuccess();
  return ::testing::AssertionFailure() << got << " is not within " << want.bound << " of " << want.value;
}

}  // namespace slip
