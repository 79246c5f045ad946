// SPDX-License-Identifier: Apache-2.0
// Qwen2 / Qwen2.5-VL forward pass with autograd; contract in model_torch.h. Matrix products are torch's (OpenBLAS in f32 and
// f64, oneDNN in bf16); norms, SwiGLU and attention are fused functions of our own (row_ops.h, span_attention.h), one
// autograd node each, since at this size a node per elementary operation costs more than the arithmetic.
// Models 1.4, 1.5 of the reference; differs from transformers in nothing but rounding.
#include "train/model_torch.h"

#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <torch/csrc/autograd/autograd.h>
#include <torch/csrc/autograd/custom_function.h>

#include <algorithm>
#include <cmath>
#include <map>

#include "base/check.h"
#include "train/row_ops.h"

namespace slip {
namespace {

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
Tensor dense(const Tensor& t) { return t.defined() ? t.contiguous() : t; }

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

Tensor index_tensor(const std::vector<int32_t>& v) {
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

std::vector<double> frequencies(double theta, int32_t dim) {
  std::vector<double> f;
  for (int32_t i = 0; i < dim; i += 2) f.push_back(std::pow(theta, -static_cast<double>(i) / dim));
  return f;
}

}  // namespace

struct TrainModel::Impl {
  ModelShape shape;
  ParameterTable table;
  Precision precision;
  at::ScalarType wide, act;
  Tensor values, gradients;
  std::map<int64_t, Tensor> leaves, narrow;  // by offset; narrow: this pass's copies in the activations' type
  RotaryTable text_rotary, vision_rotary;

  Impl(const ModelShape& s, Precision p)
      : shape(s),
        table(ParameterTable::of(s)),
        precision(p),
        wide(p == Precision::kF64 ? at::kDouble : at::kFloat),
        act(p == Precision::kBF16 ? at::kBFloat16 : wide),
        text_rotary(frequencies(s.rope_theta, s.head_dim)),
        vision_rotary(frequencies(1e4, s.vision ? s.vision->hidden / s.vision->heads / 2 : 2)) {
    values = at::zeros({table.size}, at::TensorOptions(wide));
    gradients = at::zeros({table.size}, at::TensorOptions(wide));
  }

  Tensor leaf(const Group& g) {
    Tensor& t = leaves[g.offset];
    if (!t.defined()) {
      const auto view = [&](const Tensor& flat) {
        const Tensor run = flat.detach().narrow(0, g.offset, g.rows * std::max<int64_t>(g.columns, 1));
        return g.columns > 0 ? run.view({g.rows, g.columns}) : run;
      };
      t = view(values).requires_grad_(true);
      t.mutable_grad() = view(gradients);  // autograd adds in place
    }
    return t;
  }
  Tensor weight(const Group& g) {
    if (act == wide) return leaf(g);
    Tensor& t = narrow[g.offset];
    if (!t.defined()) t = leaf(g).to(act);
    return t;
  }
  Tensor linear(const Tensor& x, const Group& w, const Group& bias) {
    if (bias.rows == 0) return at::mm(x, weight(w).t());
    return at::addmm(weight(bias), x, weight(w).t());
  }

  Tensor text_rotary_of(const RowBatch& b) {
    const int32_t half = shape.head_dim / 2;
    const Tensor out = at::empty({static_cast<int64_t>(b.positions.size()), shape.head_dim}, at::TensorOptions(wide));
    with_types(wide, [&](auto t, auto) {
      auto* to = data<decltype(t)>(out);
      for (const Position& p : b.positions) {
        for (int32_t i = 0; i < half; ++i) {
          const int32_t at = i < shape.mrope[0] ? p.t : i < shape.mrope[0] + shape.mrope[1] ? p.h : p.w;
          text_rotary.write(at, static_cast<size_t>(i), to[i], to[i + half]);
        }
        to += shape.head_dim;
      }
    });
    return out;
  }
  Tensor vision_rotary_of(const RowBatch& b) {
    const int32_t K = shape.vision->hidden / shape.vision->heads, half = K / 2, quarter = K / 4;
    const Tensor out = at::empty({static_cast<int64_t>(b.vision.cells.size()), K}, at::TensorOptions(wide));
    with_types(wide, [&](auto t, auto) {
      auto* to = data<decltype(t)>(out);
      for (const auto& cell : b.vision.cells) {
        for (int32_t i = 0; i < half; ++i)
          vision_rotary.write(cell[i < quarter ? 0 : 1], static_cast<size_t>(i % quarter), to[i], to[i + half]);
        to += K;
      }
    });
    return out;
  }

  /// One block. `x` and `delta` are the residual stream and what is still to be added to it (undefined at the start).
  void block(const BlockGroups& g, const AttentionPlan& plan, AttentionShape s, double eps, const Tensor& rotary,
             const Tensor* keep_rows, Tensor& x, Tensor& delta) {
    Tensor y;
    if (delta.defined()) {
      const variable_list sum = AddNorm::apply(x, delta, leaf(g.norm1), eps, false);
      x = sum[0];
      y = sum[1];
    } else {
      y = Norm::apply(x, leaf(g.norm1), eps, static_cast<int64_t>(act));
    }
    const Tensor qkv = linear(y, g.qkv, g.qkv_bias);
    const Tensor mixed = Attend::apply(qkv, rotary, reinterpret_cast<int64_t>(&plan), int64_t{s.H}, int64_t{s.G});
    if (keep_rows != nullptr) x = x.index_select(0, *keep_rows);
    const variable_list sum = AddNorm::apply(x, linear(mixed, g.out, g.out_bias), leaf(g.norm2), eps, false);
    x = sum[0];
    delta = linear(SwiGlu::apply(linear(sum[1], g.gate_up, g.gate_up_bias)), g.down, g.down_bias);
  }

  /// Merged features in window order, activations' type.
  Tensor vision_tower(const RowBatch& b) {
    const VisionTowerShape& v = *shape.vision;
    const auto P = static_cast<int64_t>(b.vision.cells.size());
    const Tensor pixels = at::from_blob(const_cast<float*>(b.vision.pixels.data()), {P, v.patch_numbers()}, at::kFloat).to(act);
    const Tensor rotary = vision_rotary_of(b);
    Tensor x = at::mm(pixels, weight(table.patch_embed).t()).to(wide), delta;
    for (int32_t i = 0; i < v.depth; ++i) {
      const bool full = std::find(v.full_layers.begin(), v.full_layers.end(), i) != v.full_layers.end();
      block(table.vision[static_cast<size_t>(i)], full ? b.vision.full : b.vision.windows, v.attention(), 1e-6, rotary, nullptr, x,
            delta);
    }
    const Tensor y = AddNorm::apply(x, delta, leaf(table.merger_norm), 1e-6, false)[1];
    const int64_t unit = int64_t{v.merge} * v.merge;
    const Tensor up = linear(y.view({P / unit, unit * v.hidden}), table.merger_up, table.merger_up_bias);
    return linear(at::gelu(up), table.merger_down, table.merger_down_bias);
  }

  /// Final-norm outputs of the wanted rows, residual type.
  Tensor forward(const RowBatch& b) {
    narrow.clear();
    Tensor x = at::embedding(leaf(table.embed), index_tensor(b.tokens));
    if (!b.feature_rows.empty()) {
      SLIP_CHECK(shape.vision.has_value(), "features need a vision tower");
      const Tensor features = vision_tower(b).index_select(0, index_tensor(b.feature_of)).to(wide);
      x = x.index_copy(0, index_tensor(b.feature_rows), features);
    }
    const Tensor rotary = text_rotary_of(b), wanted = index_tensor(b.wanted_rows);
    Tensor delta;
    for (int32_t i = 0; i < shape.layers; ++i) {
      const bool last = i + 1 == shape.layers;
      block(table.layers[static_cast<size_t>(i)], last ? b.last : b.all, shape.attention(), shape.eps, rotary,
            last ? &wanted : nullptr, x, delta);
    }
    return AddNorm::apply(x, delta, leaf(table.norm), shape.eps, true)[1];
  }

  /// Loss sums of the wanted rows' states; with `d_x`, also scale x their gradient, and the head's into `gradients`.
  LossSums head(const RowBatch& b, const Tensor& x, double scale, Tensor* d_x) {
    constexpr int64_t kChunk = 1024;  // rows of logits alive at a time: 4 MB at V = 1024, 600 MB at V = 151936
    const at::NoGradGuard no_grad;
    const int64_t N = x.size(0);
    std::vector<int32_t> target(static_cast<size_t>(N), 0);
    std::vector<double> weight(static_cast<size_t>(N), 0), loss(static_cast<size_t>(N), 0);
    std::vector<uint8_t> noisy(static_cast<size_t>(N), 0), taken(static_cast<size_t>(N), 0);
    for (const LossTerm& t : b.terms) {
      const auto w = static_cast<size_t>(t.wanted);
      SLIP_CHECK(!taken[w], "a row predicts one token");
      taken[w] = 1;
      target[w] = t.target;
      weight[w] = t.weight * scale;
      noisy[w] = t.noisy;
    }
    const Tensor w = leaf(table.head);
    for (int64_t at = 0; at < N; at += kChunk) {
      const int64_t n = std::min(kChunk, N - at);
      const Tensor rows = x.narrow(0, at, n), z = at::mm(rows, w.t());
      with_types(wide, [&](auto t, auto) {
        cross_entropy<decltype(t)>(n, z.size(1), data<decltype(t)>(z), target.data() + at, weight.data() + at, loss.data() + at);
      });
      if (d_x == nullptr) continue;
      d_x->narrow(0, at, n).copy_(at::mm(z, w));
      w.mutable_grad().addmm_(z.t(), rows);
    }
    LossSums sums;
    for (size_t i = 0; i < loss.size(); ++i) (noisy[i] ? sums.noisy : sums.ar) += loss[i] / scale;
    return sums;
  }
};

TrainModel::TrainModel(const ModelShape& shape, Precision precision) : impl_(std::make_unique<Impl>(shape, precision)) {}
TrainModel::TrainModel(TrainModel&&) noexcept = default;
TrainModel::~TrainModel() = default;
const ModelShape& TrainModel::shape() const { return impl_->shape; }
const ParameterTable& TrainModel::table() const { return impl_->table; }
Precision TrainModel::precision() const { return impl_->precision; }

template <class T>
std::span<T> TrainModel::values() {
  SLIP_CHECK(impl_->values.element_size() == sizeof(T), "double for kF64, else float");
  return {data<T>(impl_->values), static_cast<size_t>(impl_->table.size)};
}
template <class T>
std::span<T> TrainModel::gradients() {
  SLIP_CHECK(impl_->values.element_size() == sizeof(T), "double for kF64, else float");
  return {data<T>(impl_->gradients), static_cast<size_t>(impl_->table.size)};
}
template std::span<float> TrainModel::values<float>();
template std::span<double> TrainModel::values<double>();
template std::span<float> TrainModel::gradients<float>();
template std::span<double> TrainModel::gradients<double>();

void TrainModel::clear_gradients() { impl_->gradients.zero_(); }

LossSums TrainModel::forward_backward(const RowBatch& batch, double scale) {
  const Tensor x = impl_->forward(batch);
  Tensor d_x = at::empty_like(x);
  const LossSums sums = impl_->head(batch, x, scale, &d_x);
  torch::autograd::backward({x}, {d_x});
  impl_->narrow.clear();
  return sums;
}

LossSums TrainModel::loss(const RowBatch& batch) {
  const at::NoGradGuard no_grad;
  return impl_->head(batch, impl_->forward(batch), 1, nullptr);
}

std::vector<float> TrainModel::logits(const RowBatch& batch) {
  const at::NoGradGuard no_grad;
  const Tensor z = at::mm(impl_->forward(batch), impl_->leaf(impl_->table.head).t()).to(at::kFloat).contiguous();
  return {data<float>(z), data<float>(z) + z.numel()};
}

std::vector<float> TrainModel::features(const RowBatch& batch) {
  const at::NoGradGuard no_grad;
  impl_->narrow.clear();
  const Tensor f = impl_->vision_tower(batch).to(at::kFloat).contiguous();
  return {data<float>(f), data<float>(f) + f.numel()};
}

void TrainModel::set_threads(int threads) { at::set_num_threads(threads); }

}  // namespace slip
