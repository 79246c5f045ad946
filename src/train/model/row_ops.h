// SPDX-License-Identifier: Apache-2.0
// Fused row operations of the trainer, forward and backward, parallel over rows. T is the type of the residual stream and of
// all sums (float, double), A the type of activations between matrix products (T, or bfloat16). Everything that sums over rows
// sums in slices of a fixed number, so that results do not depend on the number of threads.
//
// R rows · D width · F MLP width · V vocabulary.
#pragma once
#include <cstdint>

#include "core/dtype.h"

namespace slip {

/// x_out = x + delta (delta may be null: x_out untouched and may be null); y = x_out rsqrt(mean(x_out^2) + eps) gain.
template <class T, class A, class Y>
void add_norm_forward(int64_t R, int64_t D, double eps, const T* x_RD, const A* delta_RD, const T* gain_D, T* x_out_RD, Y* y_RD,
                      T* scale_R);
/// x_RD: the sum that was normalised. d_sum may be null (nobody else used the sum). Writes d_x, and d_delta unless null; adds to d_gain.
template <class T, class A, class Y>
void add_norm_backward(int64_t R, int64_t D, const Y* d_y_RD, const T* d_sum_RD, const T* x_RD, const T* gain_D, const T* scale_R,
                       T* d_x_RD, A* d_delta_RD, T* d_gain_D);

/// y = silu(gate) up; gate is the first F numbers of a row of gate_up, up the rest.
template <class T, class A>
void swiglu_forward(int64_t R, int64_t F, const A* gate_up_R2F, A* y_RF);
template <class T, class A>
void swiglu_backward(int64_t R, int64_t F, const A* gate_up_R2F, const A* d_y_RF, A* d_gate_up_R2F);

/// loss_r = weight_r (logsumexp(z_r) - z_r[target_r]); z becomes its gradient. Returns nothing else: sum loss_R as you like.
template <class T>
void cross_entropy(int64_t R, int64_t V, T* z_RV, const int32_t* target_R, const double* weight_R, double* loss_R);

/// p_r = softmax over the ranges' numbers of one row, zero elsewhere (used by the attention tiles).
template <class T>
void softmax_ranges(T* row, int32_t n, const struct IndexRange* seen, int32_t ranges);
/// d = p (d - sum p d) for one row.
template <class T>
void softmax_backward_row(int32_t n, const T* p, T* d);

}  // namespace slip
