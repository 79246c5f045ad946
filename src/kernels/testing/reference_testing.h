// SPDX-License-Identifier: Apache-2.0
// Plain versions of the operations in double, each with the bound that a right f32 version keeps: `const auto [value,
// bound] = dot_ref(x_K, y_K)`. Bounds are derived, not tuned: u = 2^-24 is the rounding of one f32 operation, and n
// roundings in a row give gamma(n) = n u / (1 - n u) [Higham, Accuracy and Stability of Numerical Algorithms, 3.1].
#pragma once
#include <cstdint>
#include <span>
#include <vector>

#include "kernels/kernels.h"

namespace slip {

struct Bounded {
  double value = 0, bound = 0;
};
constexpr double kRoundoff = 0x1p-24;
constexpr double gamma(double n) { return n * kRoundoff / (1 - n * kRoundoff); }

/// sum of x_k y_k; any order, products rounded or not: gamma(n + 1) sum |x y|, and what flushed subnormals can lose.
Bounded dot_ref(std::span<const float> x_K, std::span<const float> y_K);

/// The activation numbers that a product with this weight type really uses: itself, rounded to bf16, or scale *
/// integer.
std::vector<float> stored_activation(WeightType type, std::span<const float> x_K);
/// One element of matmul, against the stored weights and activations.
Bounded matmul_ref(WeightType type, std::span<const float> x_K, std::span<const float> stored_w_K, float bias);

/// One query of attention: keys and values are rows of K numbers in the order in which they are seen.
std::vector<Bounded> attention_ref(std::span<const float> q_K, const std::vector<const float*>& keys,
                                   const std::vector<const float*>& values, double scale);

std::vector<Bounded> rms_norm_ref(std::span<const float> x_D, std::span<const float> gain_D, double eps);
std::vector<Bounded> layer_norm_ref(std::span<const float> x_D, std::span<const float> gain_D, std::span<const float> bias_D,
                                    double eps);
Bounded silu_ref(double x);
Bounded gelu_erf_ref(double x);
Bounded gelu_tanh_ref(double x);

}  // namespace slip
