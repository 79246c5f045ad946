// SPDX-License-Identifier: Apache-2.0
// Inside of the networks: flat parameters as leaves of torch's graph, and the operations that they share. Includes torch.
#pragma once
#include <ATen/ATen.h>
#include <torch/csrc/autograd/autograd.h>

#include <cmath>
#include <map>

#include "base/check.h"
#include "train/heads/network.h"

namespace slip {

using at::Tensor;

struct HeadNetwork::Impl {
  ParameterTable table;
  at::ScalarType type;
  Tensor values, gradients;
  std::map<std::string, Tensor, std::less<>> leaves;

  Impl(ParameterTable t, Precision precision) : table(std::move(t)), type(precision == Precision::kF64 ? at::kDouble : at::kFloat) {
    values = at::zeros({table.size}, at::TensorOptions(type));
    gradients = at::zeros({table.size}, at::TensorOptions(type));
    for (const Parameter& p : table.parameters) {
      const auto view = [&](const Tensor& flat) { return flat.detach().narrow(0, p.offset, p.count).view(p.shape); };
      Tensor leaf = view(values).requires_grad_(true);
      leaf.mutable_grad() = view(gradients);  // autograd adds in place
      leaves.emplace(p.name, leaf);
    }
  }

  const Tensor& operator()(const std::string& name) const {
    const auto at = leaves.find(name);
    SLIP_CHECK(at != leaves.end(), "a parameter of the table");
    return at->second;
  }
  Tensor linear(const Tensor& x, const std::string& name) const {
    const Tensor y = at::mm(x, (*this)(name + ".weight").t());
    const auto bias = leaves.find(name + ".bias");
    return bias == leaves.end() ? y : y + bias->second;
  }
  Tensor rms_norm(const Tensor& x, const std::string& name, double eps) const {
    return x * at::rsqrt(at::mean(x * x, -1, true) + eps) * (*this)(name);
  }
  Tensor layer_norm(const Tensor& x, const std::string& name, double eps) const {
    const Tensor centred = x - at::mean(x, -1, true);
    return centred * at::rsqrt(at::mean(centred * centred, -1, true) + eps) * (*this)(name + ".weight") + (*this)(name + ".bias");
  }
  template <class T>
  Tensor constant(std::span<const T> numbers, at::IntArrayRef shape) const {
    const auto from = std::is_same_v<T, double> ? at::kDouble : std::is_same_v<T, float> ? at::kFloat : at::kByte;
    return at::from_blob(const_cast<T*>(numbers.data()), shape, from).to(type);
  }
  Tensor constant(const Constant& c) const { return constant<float>(c.numbers, c.shape); }
};

inline Tensor indices(std::span<const int32_t> v) {
  return at::from_blob(const_cast<int32_t*>(v.data()), {static_cast<int64_t>(v.size())}, at::kInt).to(at::kLong);
}

/// Cosines, then sines, of positions times inverse frequencies: R x K.
inline Tensor rotary_of(std::span<const int32_t> positions, int32_t head_dim, double theta, at::ScalarType type) {
  const int64_t half = head_dim / 2;
  std::vector<double> table;
  for (const int32_t p : positions)
    for (int64_t i = 0; i < 2 * half; ++i) {
      const double angle = p * std::pow(theta, -2.0 * static_cast<double>(i % half) / head_dim);
      table.push_back(i < half ? std::cos(angle) : std::sin(angle));
    }
  return at::from_blob(table.data(), {static_cast<int64_t>(positions.size()), 2 * half}, at::kDouble).to(type, false, true);
}

/// x R x heads x K; pairs (i, i + K/2).
inline Tensor rotated(const Tensor& x, const Tensor& rotary) {
  const int64_t half = x.size(2) / 2;
  const Tensor c = rotary.narrow(1, 0, half).unsqueeze(1), s = rotary.narrow(1, half, half).unsqueeze(1);
  const Tensor a = x.narrow(2, 0, half), b = x.narrow(2, half, half);
  return at::cat({a * c - b * s, b * c + a * s}, 2);
}

/// Softmax attention: q R x H x K, k and v S x G x K, mask R x S (added; undefined: all see all). R x HK.
inline Tensor attend(const Tensor& q, const Tensor& k, const Tensor& v, const Tensor& mask) {
  const int64_t R = q.size(0), H = q.size(1), K = q.size(2), each = H / k.size(1);
  const Tensor keys = k.repeat_interleave(each, 1).permute({1, 2, 0}), values = v.repeat_interleave(each, 1).permute({1, 0, 2});
  Tensor scores = at::bmm(q.permute({1, 0, 2}), keys) / std::sqrt(static_cast<double>(K));
  if (mask.defined()) scores = scores + mask.unsqueeze(0);
  return at::bmm(at::softmax(scores, -1), values).permute({1, 0, 2}).reshape({R, H * K});
}

/// A layer of Qwen3Shape. `context`: more keys and values before the rows' own, rotated already; may be undefined.
inline Tensor qwen3_layer(const HeadNetwork::Impl& w, const Qwen3Shape& s, const std::string& p, const Tensor& x,
                          const Tensor& rotary, const Tensor& context_keys, const Tensor& context_values, const Tensor& mask) {
  const int64_t R = x.size(0);
  const std::string a = p + "self_attn.", m = p + "mlp.";
  const Tensor y = w.rms_norm(x, p + "input_layernorm.weight", s.eps);
  const Tensor q = w.rms_norm(w.linear(y, a + "q_proj").view({R, s.heads, s.head_dim}), a + "q_norm.weight", s.eps);
  const Tensor k = w.rms_norm(w.linear(y, a + "k_proj").view({R, s.kv_heads, s.head_dim}), a + "k_norm.weight", s.eps);
  const Tensor v = w.linear(y, a + "v_proj").view({R, s.kv_heads, s.head_dim});
  const Tensor own = rotated(k, rotary);
  const bool more = context_keys.defined();
  const Tensor mixed =
      attend(rotated(q, rotary), more ? at::cat({context_keys, own}) : own, more ? at::cat({context_values, v}) : v, mask);
  const Tensor middle = x + w.linear(mixed, a + "o_proj");
  const Tensor z = w.rms_norm(middle, p + "post_attention_layernorm.weight", s.eps);
  return middle + w.linear(at::silu(w.linear(z, m + "gate_proj")) * w.linear(z, m + "up_proj"), m + "down_proj");
}

}  // namespace slip
