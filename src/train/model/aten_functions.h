// SPDX-License-Identifier: Apache-2.0
// Inside of the trainer: the fused functions of torch_functions.h said by ATen's own operations, which every device has and autograd
// knows. The same formulas in the same types; sums in another order, so that the numbers are equal to rounding.
//
// Attention is dense within a part (a sample, an image): a mask says what of the part's keys each row sees.
#pragma once
#include <map>

#include "train/model/torch_functions.h"

namespace slip::on_aten {

using at::Tensor;
using torch::autograd::variable_list;

/// x rsqrt(mean(x^2) + eps) gain, in `type`.
inline Tensor norm(const Tensor& x, const Tensor& gain, double eps, at::ScalarType type) {
  const Tensor scale = at::rsqrt(at::mean(x * x, {-1}, /*keepdim=*/true) + eps);
  return (x * scale * gain).to(type);
}

/// {x + delta, norm(x + delta)}; the norm in x's type where `wide`, else in delta's.
inline variable_list add_norm(const Tensor& x, const Tensor& delta, const Tensor& gain, double eps, bool wide) {
  const Tensor sum = x + delta.to(x.scalar_type());
  return {sum, norm(sum, gain, eps, wide ? x.scalar_type() : delta.scalar_type())};
}

inline Tensor swiglu(const Tensor& gate_up, at::ScalarType inside) {
  const int64_t F = gate_up.size(1) / 2;
  const Tensor x = gate_up.to(inside);
  return (at::silu(x.narrow(1, 0, F)) * x.narrow(1, F, F)).to(gate_up.scalar_type());
}

/// A part of a plan: some output rows, the stretch of rows that holds their keys, and what of it each does not see.
struct DensePart {
  int64_t key_first = 0, keys = 0;
  Tensor query_rows, unseen;  // Q; Q x keys, bool
};
using DensePlan = std::vector<DensePart>;

inline DensePlan dense(const AttentionPlan& plan, at::Device device) {
  DensePlan out;
  for (const AttentionPart& part : plan.parts) {
    if (part.tiles.empty()) continue;
    const int32_t first = part.tiles.front().first, end = part.tiles.back().first + part.tiles.back().rows;
    int32_t key_first = plan.rows, key_end = 0;
    for (const AttentionTile& t : part.tiles) {
      key_first = std::min(key_first, t.keys.front().begin);
      key_end = std::max(key_end, t.keys.back().end);
    }
    DensePart d{key_first, key_end - key_first, {}, {}};
    d.query_rows = on_torch::index_tensor({plan.query_row.begin() + first, plan.query_row.begin() + end}).to(device);
    const Tensor unseen = at::ones({end - first, d.keys}, at::kBool);
    auto* mask = on_torch::data<bool>(unseen);
    for (const AttentionTile& t : part.tiles)
      for (int32_t r = 0; r < t.rows; ++r) {
        // `seen` counts along the tile's own keys, which are ranges of rows.
        bool* row = mask + (t.first - first + r) * d.keys;
        for (int32_t k = t.seen_begin[static_cast<size_t>(r)]; k < t.seen_begin[static_cast<size_t>(r) + 1]; ++k) {
          const IndexRange seen = t.seen[static_cast<size_t>(k)];
          int32_t at = 0;
          for (const IndexRange& keys : t.keys) {
            const int32_t begin = std::max(seen.begin, at), stop = std::min(seen.end, at + keys.end - keys.begin);
            for (int32_t i = begin; i < stop; ++i) row[keys.begin - key_first + i - at] = false;
            at += keys.end - keys.begin;
          }
        }
      }
    d.unseen = unseen.to(device);
    out.push_back(std::move(d));
  }
  return out;
}

/// Heads of K numbers turned by the row's angles: pairs (i, i + K/2), cosines in the first half of a row of `rotary`, sines in the rest.
inline Tensor rotated(const Tensor& x_RN, const Tensor& rotary_RK, int64_t heads) {
  const int64_t R = x_RN.size(0), K = rotary_RK.size(1);
  const Tensor x = x_RN.view({R, heads, K}), c = rotary_RK.narrow(1, 0, K / 2).unsqueeze(1),
               s = rotary_RK.narrow(1, K / 2, K / 2).unsqueeze(1);
  const Tensor a = x.narrow(2, 0, K / 2), b = x.narrow(2, K / 2, K / 2);
  return at::cat({a * c - b * s, b * c + a * s}, 2);
}

/// Attend of torch_functions.h.
inline Tensor attend(const Tensor& qkv, const Tensor& rotary, const DensePlan& plan, int64_t H, int64_t G) {
  const int64_t R = qkv.size(0), K = qkv.size(1) / (H + 2 * G);
  const Tensor x = qkv.to(rotary.scalar_type());
  const Tensor q = rotated(x.narrow(1, 0, H * K), rotary, H), k = rotated(x.narrow(1, H * K, G * K), rotary, G),
               v = x.narrow(1, (H + G) * K, G * K).view({R, G, K});
  std::vector<Tensor> out;
  for (const DensePart& part : plan) {
    const auto of_all_heads = [&](const Tensor& t) {
      return t.narrow(0, part.key_first, part.keys).transpose(0, 1).repeat_interleave(H / G, 0);
    };
    const Tensor own = q.index_select(0, part.query_rows).transpose(0, 1);
    const Tensor scores = at::bmm(own, of_all_heads(k).transpose(1, 2)) / std::sqrt(static_cast<double>(K));
    const Tensor p = at::softmax(scores.masked_fill(part.unseen.unsqueeze(0), -HUGE_VAL), -1);
    out.push_back(at::bmm(p, of_all_heads(v)).transpose(0, 1).reshape({-1, H * K}));
  }
  return at::cat(out).to(qkv.scalar_type());
}

}  // namespace slip::on_aten
