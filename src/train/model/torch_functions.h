// SPDX-License-Identifier: Apache-2.0
// Inside of the trainer: fused functions for torch's autograd (row_ops.h, span_attention.h), one node each, since at this size a node
// per elementary operation costs more than the arithmetic. Includes torch (15 s per translation unit): for the files that compute alone.
#pragma once
#include <ATen/ATen.h>
#include <torch/csrc/autograd/autograd.h>
#include <torch/csrc/autograd/custom_function.h>
#include <functional>

#include <cmath>
#include <vector>

#include "base/check.h"
#include "train/model/row_ops.h"
#include "train/model/span_attention.h"

namespace slip::on_torch {

using at::Tensor;
using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

template <class T>
T* data(const Tensor& t) {
  return static_cast<T*>(t.data_ptr());
}
template <class T>
T* data_or_null(const Tensor& t) {
  return t.defined() ? data<T>(t) : nullptr;
}
inline Tensor dense(const Tensor& t) { return t.defined() ? t.contiguous() : t; }

/// f(T{}, A{}) for the residual type T that goes with activation type `act`.
template <class F>
void with_types(at::ScalarType act, F&& f) {
  if (act == at::kBFloat16)
    f(float{}, BF16{});
  else if (act == at::kDouble)
    f(double{}, double{});
  else
    f(float{}, float{});
}

/// {x + delta, norm(x + delta)}, or {x, norm(x)} without delta. y has type `y_type`: the activations' or the residual's.
struct AddNorm : torch::autograd::Function<AddNorm> {
  static variable_list forward(AutogradContext* ctx, const Tensor& x, const Tensor& delta, const Tensor& gain, double eps,
                               bool wide) {
    const int64_t R = x.size(0), D = x.size(1);
    const Tensor sum = at::empty_like(x), scale = at::empty({R}, x.options());
    const Tensor y = at::empty({R, D}, wide ? x.options() : delta.options());
    with_types(delta.scalar_type(), [&](auto t, auto a) {
      using T = decltype(t);
      using A = decltype(a);
      if (wide)
        add_norm_forward<T, A, T>(R, D, eps, data<T>(x), data<A>(delta), data<T>(gain), data<T>(sum), data<T>(y), data<T>(scale));
      else
        add_norm_forward<T, A, A>(R, D, eps, data<T>(x), data<A>(delta), data<T>(gain), data<T>(sum), data<A>(y), data<T>(scale));
    });
    ctx->save_for_backward({sum, scale, gain});
    ctx->saved_data["wide"] = wide;
    ctx->saved_data["act"] = static_cast<int64_t>(delta.scalar_type());
    ctx->set_materialize_grads(false);
    return {sum, y};
  }
  static variable_list backward(AutogradContext* ctx, variable_list grads) {
    const auto saved = ctx->get_saved_variables();
    const Tensor &sum = saved[0], &scale = saved[1], &gain = saved[2];
    const bool wide = ctx->saved_data["wide"].toBool();
    const auto act = static_cast<at::ScalarType>(ctx->saved_data["act"].toInt());
    SLIP_CHECK(grads[1].defined(), "a norm is always used");
    const Tensor d_sum = dense(grads[0]), d_y = dense(grads[1]);
    const int64_t R = sum.size(0), D = sum.size(1);
    const Tensor d_x = at::empty_like(sum), d_gain = at::zeros_like(gain);
    Tensor d_delta = act == sum.scalar_type() ? d_x : at::empty({R, D}, sum.options().dtype(act));
    with_types(act, [&](auto t, auto a) {
      using T = decltype(t);
      using A = decltype(a);
      A* narrow = d_delta.is_same(d_x) ? nullptr : data<A>(d_delta);
      if (wide)
        add_norm_backward<T, A, T>(R, D, data<T>(d_y), data_or_null<T>(d_sum), data<T>(sum), data<T>(gain), data<T>(scale),
                                   data<T>(d_x), narrow, data<T>(d_gain));
      else
        add_norm_backward<T, A, A>(R, D, data<A>(d_y), data_or_null<T>(d_sum), data<T>(sum), data<T>(gain), data<T>(scale),
                                   data<T>(d_x), narrow, data<T>(d_gain));
    });
    return {d_x, d_delta, d_gain, Tensor(), Tensor()};
  }
};

/// norm(x) in the activations' type: the start of a tower, where there is nothing to add yet.
struct Norm : torch::autograd::Function<Norm> {
  static Tensor forward(AutogradContext* ctx, const Tensor& x, const Tensor& gain, double eps, int64_t act) {
    const int64_t R = x.size(0), D = x.size(1);
    const auto type = static_cast<at::ScalarType>(act);
    const Tensor scale = at::empty({R}, x.options()), y = at::empty({R, D}, x.options().dtype(type));
    with_types(type, [&](auto t, auto a) {
      using T = decltype(t);
      using A = decltype(a);
      add_norm_forward<T, A, A>(R, D, eps, data<T>(x), nullptr, data<T>(gain), nullptr, data<A>(y), data<T>(scale));
    });
    ctx->save_for_backward({x, scale, gain});
    return y;
  }
  static variable_list backward(AutogradContext* ctx, variable_list grads) {
    const auto saved = ctx->get_saved_variables();
    const Tensor &x = saved[0], &scale = saved[1], &gain = saved[2];
    const Tensor d_y = dense(grads[0]), d_x = at::empty_like(x), d_gain = at::zeros_like(gain);
    with_types(d_y.scalar_type(), [&](auto t, auto a) {
      using T = decltype(t);
      using A = decltype(a);
      add_norm_backward<T, A, A>(x.size(0), x.size(1), data<A>(d_y), nullptr, data<T>(x), data<T>(gain), data<T>(scale),
                                 data<T>(d_x), nullptr, data<T>(d_gain));
    });
    return {d_x, d_gain, Tensor(), Tensor()};
  }
};

struct SwiGlu : torch::autograd::Function<SwiGlu> {
  static Tensor forward(AutogradContext* ctx, const Tensor& gate_up) {
    const int64_t R = gate_up.size(0), F = gate_up.size(1) / 2;
    const Tensor y = at::empty({R, F}, gate_up.options());
    with_types(y.scalar_type(), [&](auto t, auto a) {
      swiglu_forward<decltype(t), decltype(a)>(R, F, data<decltype(a)>(gate_up), data<decltype(a)>(y));
    });
    ctx->save_for_backward({gate_up});
    return y;
  }
  static variable_list backward(AutogradContext* ctx, variable_list grads) {
    const Tensor gate_up = ctx->get_saved_variables()[0], d_y = dense(grads[0]), d = at::empty_like(gate_up);
    with_types(d.scalar_type(), [&](auto t, auto a) {
      using A = decltype(a);
      swiglu_backward<decltype(t), A>(d.size(0), d.size(1) / 2, data<A>(gate_up), data<A>(d_y), data<A>(d));
    });
    return {d};
  }
};

struct Attend : torch::autograd::Function<Attend> {
  /// `plan` outlives the backward pass: it belongs to the batch.
  static Tensor forward(AutogradContext* ctx, const Tensor& qkv, const Tensor& rotary, int64_t plan_address, int64_t H, int64_t G) {
    const auto& plan = *reinterpret_cast<const AttentionPlan*>(plan_address);
    const AttentionShape s{static_cast<int32_t>(H), static_cast<int32_t>(G), static_cast<int32_t>(qkv.size(1) / (H + 2 * G))};
    const Tensor work = at::empty({qkv.size(0), qkv.size(1)}, rotary.options()),
                 scores = at::empty({plan.scores * H}, rotary.options());
    const Tensor out = at::empty({static_cast<int64_t>(plan.query_row.size()), H * s.K}, qkv.options());
    with_types(qkv.scalar_type(), [&](auto t, auto a) {
      using T = decltype(t);
      using A = decltype(a);
      attention_forward<T, A>(plan, s, data<A>(qkv), data<T>(rotary), data<T>(work), data<T>(scores), data<A>(out));
    });
    ctx->save_for_backward({work, scores, rotary});
    ctx->saved_data["plan"] = plan_address;
    ctx->saved_data["H"] = H;
    ctx->saved_data["G"] = G;
    return out;
  }
  static variable_list backward(AutogradContext* ctx, variable_list grads) {
    const auto saved = ctx->get_saved_variables();
    const Tensor &work = saved[0], &scores = saved[1], &rotary = saved[2];
    const auto& plan = *reinterpret_cast<const AttentionPlan*>(ctx->saved_data["plan"].toInt());
    const int64_t H = ctx->saved_data["H"].toInt(), G = ctx->saved_data["G"].toInt();
    const AttentionShape s{static_cast<int32_t>(H), static_cast<int32_t>(G), static_cast<int32_t>(work.size(1) / (H + 2 * G))};
    const Tensor d_out = dense(grads[0]), d_work = at::empty_like(work), d_qkv = at::empty(work.sizes(), d_out.options());
    with_types(d_out.scalar_type(), [&](auto t, auto a) {
      using T = decltype(t);
      using A = decltype(a);
      attention_backward<T, A>(plan, s, data<A>(d_out), data<T>(rotary), data<T>(work), data<T>(scores), data<T>(d_work),
                               data<A>(d_qkv));
    });
    return {d_qkv, Tensor(), Tensor(), Tensor(), Tensor()};
  }
};

/// A layer as a function of the residual stream and what is still to be added to it, both replaced.
using LayerRun = std::function<void(Tensor& x, Tensor& delta)>;

/// A layer that keeps its inputs alone and runs again in the backward pass [Chen et al. 2016, "Training Deep Nets with Sublinear Memory
/// Cost"]. The same bits: it is the same computation twice, and each weight gets its gradient once.
struct Recompute : torch::autograd::Function<Recompute> {
  /// `run` outlives the backward pass.
  static variable_list forward(AutogradContext* ctx, const Tensor& x_in, const Tensor& delta_in, int64_t run) {
    Tensor x = x_in, delta = delta_in;
    (*reinterpret_cast<const LayerRun*>(run))(x, delta);
    ctx->save_for_backward({x_in, delta_in});
    ctx->saved_data["run"] = run;
    ctx->set_materialize_grads(false);
    return {x, delta};
  }
  static variable_list backward(AutogradContext* ctx, variable_list grads) {
    const auto saved = ctx->get_saved_variables();
    const at::AutoGradMode with_gradients(true);
    const Tensor x_in = saved[0].detach().requires_grad_(true), delta_in = saved[1].detach().requires_grad_(true);
    Tensor x = x_in, delta = delta_in;
    (*reinterpret_cast<const LayerRun*>(ctx->saved_data["run"].toInt()))(x, delta);
    variable_list roots, given;
    for (const auto& [root, grad] : {std::pair{x, grads[0]}, {delta, grads[1]}}) {
      if (!grad.defined()) continue;
      roots.push_back(root);
      given.push_back(grad);
    }
    torch::autograd::backward(roots, given);
    return {x_in.grad(), delta_in.grad(), Tensor()};
  }
};

inline Tensor index_tensor(const std::vector<int32_t>& v) {
  return at::from_blob(const_cast<int32_t*>(v.data()), {static_cast<int64_t>(v.size())}, at::kInt).to(at::kLong);
}

/// cos and sin of position x frequency, computed in double once per position.
class RotaryTable {
 public:
  explicit RotaryTable(std::vector<double> frequency) : frequency_(std::move(frequency)) {}
  template <class T>
  void write(int32_t position, size_t pair, T& c, T& s) {
    const size_t F = frequency_.size();
    for (; known_ <= position; ++known_)
      for (size_t i = 0; i < F; ++i) {
        cos_.push_back(std::cos(known_ * frequency_[i]));
        sin_.push_back(std::sin(known_ * frequency_[i]));
      }
    const size_t at = static_cast<size_t>(position) * F + pair;
    c = static_cast<T>(cos_[at]);
    s = static_cast<T>(sin_[at]);
  }

 private:
  std::vector<double> frequency_, cos_, sin_;
  int32_t known_ = 0;
};

inline std::vector<double> frequencies(double theta, int32_t dim) {
  std::vector<double> f;
  for (int32_t i = 0; i < dim; i += 2) f.push_back(std::pow(theta, -static_cast<double>(i) / dim));
  return f;
}

}  // namespace slip::on_torch
