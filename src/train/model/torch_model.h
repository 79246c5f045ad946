// SPDX-License-Identifier: Apache-2.0
// The model on torch, as model_torch.h makes it. Matrix products are torch's (OpenBLAS in f32 and f64, oneDNN in bf16); norms, SwiGLU and
// attention are the fused functions of torch_functions.h, or ATen's (aten_functions.h). On another device a pass begins with a copy of the
// values and ends with its gradients added to the processor's. Differs from transformers' models of these families in nothing but
// rounding. Frozen, it shares another one's weights and only computes: what a draft adapter stands on (lora_torch.cc).
#pragma once
#include <algorithm>
#include <map>
#include <span>

#include "train/model/aten_functions.h"
#include "train/model/model_torch.h"
#include "train/model/torch_functions.h"

namespace slip {

using namespace on_torch;  // this header and the files that include it are torch's world

struct TrainModel::Impl {
  ModelShape shape;
  ParameterTable table;
  Precision precision;
  at::ScalarType wide, act;
  at::Device device;
  bool fused;
  Tensor values, gradients;                                  // on the processor
  Tensor placed, own_gradients;                              // where the model computes: the same two, or copies
  std::map<const AttentionPlan*, on_aten::DensePlan> plans;  // of this pass's batch
  std::map<int64_t, Tensor> leaves, narrow;                  // by offset; narrow: this pass's copies in the activations' type
  RotaryTable text_rotary, vision_rotary;
  std::map<std::array<int32_t, 2>, Tensor> resamplings;  // of a plain ViT's positions, by the grid of patches (vit_torch.cc)
  bool frozen = false, recompute = false;
  std::vector<std::pair<int64_t, int64_t>> kept;  // runs of the flat buffer that are not trained
  std::vector<std::unique_ptr<LayerRun>> runs;    // of this pass, until its backward pass is done

  Impl(const ModelShape& s, Precision p, const TrainPlace& place = {})
      : shape(s),
        table(ParameterTable::of(s)),
        precision(p),
        wide(p == Precision::kF64 ? at::kDouble : at::kFloat),
        act(p == Precision::kBF16 ? at::kBFloat16 : wide),
        device(place.device),
        fused(device.is_cpu() && place.operations == Operations::kFused),
        text_rotary(s.rotary.empty() ? frequencies(s.rope_theta, s.head_dim) : s.rotary),
        vision_rotary(frequencies(1e4, s.vision ? s.vision->hidden / s.vision->heads / 2 : 2)) {
    values = at::zeros({table.size}, at::TensorOptions(wide));
    gradients = at::zeros({table.size}, at::TensorOptions(wide));
    placed = device.is_cpu() ? values : values.to(device);
    own_gradients = device.is_cpu() ? gradients : gradients.to(device);
  }
  /// Before a pass: the optimizer may have changed the values.
  void begin() {
    plans.clear();
    if (!device.is_cpu()) placed.copy_(values);
  }
  /// Behind a backward pass.
  void bring_gradients() {
    if (device.is_cpu()) return;
    gradients.add_(own_gradients.to(at::kCPU));
    own_gradients.zero_();
  }
  Tensor here(const Tensor& t) const { return device.is_cpu() ? t : t.to(device); }
  Tensor indices(const std::vector<int32_t>& v) const { return here(index_tensor(v)); }

  variable_list add_norm(const Tensor& x, const Tensor& delta, const Group& gain, double eps, bool as_residual) {
    return fused ? AddNorm::apply(x, delta, leaf(gain), eps, as_residual)
                 : on_aten::add_norm(x, delta, leaf(gain), eps, as_residual);
  }
  Tensor norm(const Tensor& x, const Group& gain, double eps) {
    return fused ? Norm::apply(x, leaf(gain), eps, static_cast<int64_t>(act)) : on_aten::norm(x, leaf(gain), eps, act);
  }
  Tensor swiglu(const Tensor& gate_up) const { return fused ? SwiGlu::apply(gate_up) : on_aten::swiglu(gate_up, wide); }
  Tensor attend(const Tensor& qkv, const Tensor& rotary, const AttentionPlan& plan, int64_t H, int64_t G) {
    if (fused) return Attend::apply(qkv, rotary, reinterpret_cast<int64_t>(&plan), H, G);
    const auto at = plans.try_emplace(&plan);
    if (at.second) at.first->second = on_aten::dense(plan, device);
    return on_aten::attend(qkv, rotary, at.first->second, H, G);
  }
  /// The same weights, shared, without gradients.
  struct Frozen {};
  Impl(const Impl& base, Frozen)
      : shape(base.shape),
        table(base.table),
        precision(base.precision),
        wide(base.wide),
        act(base.act),
        device(base.device),
        fused(base.fused),
        values(base.values),
        placed(base.placed),
        text_rotary(base.text_rotary),
        vision_rotary(base.vision_rotary),
        frozen(true) {}

  Tensor leaf(const Group& g) {
    Tensor& t = leaves[g.offset];
    if (!t.defined()) {
      const auto view = [&](const Tensor& flat) {
        const Tensor run = flat.detach().narrow(0, g.offset, g.rows * std::max<int64_t>(g.columns, 1));
        return g.columns > 0 ? run.view({g.rows, g.columns}) : run;
      };
      t = view(placed);
      if (frozen || is_kept(g.offset)) return t;
      t.requires_grad_(true);
      t.mutable_grad() = view(own_gradients);  // autograd adds in place
    }
    return t;
  }
  bool is_kept(int64_t offset) const {
    return std::any_of(kept.begin(), kept.end(), [&](const auto& run) { return run.first <= offset && offset < run.second; });
  }
  Tensor weight(const Group& g) {
    if (act == wide) return leaf(g);
    Tensor& t = narrow[g.offset];
    if (!t.defined()) t = leaf(g).to(act);
    return t;
  }
  /// Before a pass: the weights may have changed since the last one.
  void renew() {
    if (!frozen) narrow.clear();
  }
  Tensor linear(const Tensor& x, const Group& w, const Group& bias) {
    if (bias.rows == 0) return at::mm(x, weight(w).t());
    return at::addmm(weight(bias), x, weight(w).t());
  }

  Tensor text_rotary_of(std::span<const Position> positions) {
    const int32_t half = shape.head_dim / 2;
    const Tensor out = at::empty({static_cast<int64_t>(positions.size()), shape.head_dim}, at::TensorOptions(wide));
    with_types(wide, [&](auto t, auto) {
      auto* to = data<decltype(t)>(out);
      for (const Position& p : positions) {
        for (int32_t i = 0; i < half; ++i) {
          const int32_t at = i < shape.mrope[0] ? p.t : i < shape.mrope[0] + shape.mrope[1] ? p.h : p.w;
          text_rotary.write(at, static_cast<size_t>(i), to[i], to[i + half]);
          to[i] = static_cast<decltype(t)>(to[i] * shape.rotary_factor);
          to[i + half] = static_cast<decltype(t)>(to[i + half] * shape.rotary_factor);
        }
        to += shape.head_dim;
      }
    });
    return here(out);
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
    return here(out);
  }

  /// Factors on the queries of rows, R x 1 (Ministral 3); undefined where there are none.
  Tensor query_scales_of(std::span<const Position> positions) {
    if (shape.q_scale_beta == 0) return {};
    std::vector<double> scale;
    for (const Position& p : positions)
      scale.push_back(1 + shape.q_scale_beta * std::log1p(std::floor(p.t / shape.q_scale_positions)));
    return here(at::from_blob(scale.data(), {static_cast<int64_t>(scale.size()), 1}, at::kDouble)
                    .to(wide, /*non_blocking=*/false, /*copy=*/true));
  }

  /// Queries and keys normalised head by head, queries scaled.
  Tensor prepare_heads(const Tensor& qkv, const BlockGroups& g, const Tensor& q_scale) {
    const int64_t R = qkv.size(0), H = shape.heads, G = shape.kv_heads, K = shape.head_dim;
    const auto part = [&](int64_t first, int64_t heads, const Group& gain) {
      const Tensor x = qkv.narrow(1, first * K, heads * K);
      if (gain.rows == 0) return x;
      return norm(x.to(wide).reshape({R * heads, K}).contiguous(), gain, shape.eps).view({R, heads * K});
    };
    Tensor q = part(0, H, g.q_norm);
    if (q_scale.defined()) q = q * q_scale.to(act);
    return at::cat({q, part(H, G, g.k_norm), qkv.narrow(1, (H + G) * K, G * K)}, 1);
  }

  /// A block's queries, keys and values. `x` and `delta` are the residual stream and what is still to be added to it (undefined at
  /// the start). `q_scale`: query_scales_of the rows.
  Tensor before_attention(const BlockGroups& g, double eps, Tensor& x, Tensor& delta, const Tensor& q_scale = {}) {
    Tensor y;
    if (delta.defined()) {
      const variable_list sum = add_norm(x, delta, g.norm1, eps, false);
      x = sum[0];
      y = sum[1];
    } else {
      y = norm(x, g.norm1, eps);
    }
    const Tensor qkv = linear(y, g.qkv, g.qkv_bias);
    return g.q_norm.rows > 0 || q_scale.defined() ? prepare_heads(qkv, g, q_scale) : qkv;
  }
  /// The rest of the block; `projected`: behind the output projection.
  void after_attention(const BlockGroups& g, double eps, const Tensor& projected, Tensor& x, Tensor& delta) {
    const variable_list sum = add_norm(x, projected, g.norm2, eps, false);
    x = sum[0];
    delta = linear(swiglu(linear(sum[1], g.gate_up, g.gate_up_bias)), g.down, g.down_bias);
  }
  void block(const BlockGroups& g, const AttentionPlan& plan, AttentionShape s, double eps, const Tensor& rotary,
             const Tensor* keep_rows, Tensor& x, Tensor& delta, const Tensor& q_scale = {}) {
    const Tensor qkv = before_attention(g, eps, x, delta, q_scale);
    const Tensor mixed = attend(qkv, rotary, plan, s.H, s.G);
    if (keep_rows != nullptr) x = x.index_select(0, *keep_rows);
    after_attention(g, eps, linear(mixed, g.out, g.out_bias), x, delta);
  }

  /// The same, keeping x and delta alone for the backward pass where that is wanted. References outlive the backward pass.
  void thrifty_block(const BlockGroups& g, const AttentionPlan& plan, AttentionShape s, double eps, const Tensor& rotary,
                     const Tensor* keep_rows, Tensor& x, Tensor& delta, const Tensor& q_scale = {}) {
    if (!recompute || !delta.defined() || !at::GradMode::is_enabled())
      return block(g, plan, s, eps, rotary, keep_rows, x, delta, q_scale);
    const Tensor keep = keep_rows != nullptr ? *keep_rows : Tensor();
    runs.push_back(std::make_unique<LayerRun>([this, &g, &plan, s, eps, rotary, keep, q_scale](Tensor& to_x, Tensor& to_delta) {
      renew();  // a narrow copy made without gradients must not be met with them, nor the other way round
      block(g, plan, s, eps, rotary, keep.defined() ? &keep : nullptr, to_x, to_delta, q_scale);
      renew();
    }));
    const variable_list out = Recompute::apply(x, delta, reinterpret_cast<int64_t>(runs.back().get()));
    x = out[0];
    delta = out[1];
  }

  /// Merged features in window order, activations' type.
  Tensor vision_tower(const RowBatch& b) {
    const VisionTowerShape& v = *shape.vision;
    const auto P = static_cast<int64_t>(b.vision.cells.size());
    const Tensor pixels =
        here(at::from_blob(const_cast<float*>(b.vision.pixels.data()), {P, v.patch_numbers()}, at::kFloat)).to(act);
    const Tensor rotary = vision_rotary_of(b);
    Tensor x = at::mm(pixels, weight(table.patch_embed).t()).to(wide), delta;
    for (int32_t i = 0; i < v.depth; ++i) {
      const bool full = std::find(v.full_layers.begin(), v.full_layers.end(), i) != v.full_layers.end();
      thrifty_block(table.vision[static_cast<size_t>(i)], full ? b.vision.full : b.vision.windows, v.attention(), 1e-6, rotary,
                    nullptr, x, delta);
    }
    const Tensor y = add_norm(x, delta, table.merger_norm, 1e-6, false)[1];
    const int64_t unit = int64_t{v.merge} * v.merge;
    const Tensor up = linear(y.view({P / unit, unit * v.hidden}), table.merger_up, table.merger_up_bias);
    return linear(at::gelu(up), table.merger_down, table.merger_down_bias);
  }

  // vit_torch.cc
  Tensor vit_embeddings(const RowBatch& b, size_t tower);
  Tensor vit_cells(const RowBatch& b, size_t tower);
  Tensor vit_features(const RowBatch& b);
  Tensor history_rows(const RowBatch& b);

  Tensor image_features(const RowBatch& b) { return shape.vit ? vit_features(b) : vision_tower(b); }
  Tensor given_features(const RowBatch& b) const {
    const int64_t D = shape.hidden, n = static_cast<int64_t>(b.given_features.size()) / D;
    return here(at::from_blob(const_cast<double*>(b.given_features.data()), {n, D}, at::kDouble).to(wide));
  }

  /// What stands in the rows that are no tokens, residual type.
  Tensor features(const RowBatch& b) {
    SLIP_CHECK(shape.vision || shape.vit || !b.given_features.empty(), "features need a vision tower");
    std::vector<Tensor> all;
    if (!b.given_features.empty())
      all.push_back(given_features(b));
    else if (!b.vision.pixels.empty())
      all.push_back(image_features(b).to(wide));
    const int64_t cells = all.empty() ? 0 : all.front().size(0);
    if (!b.history.empty()) all.push_back(history_rows(b));
    std::vector<int32_t> of = b.feature_of;
    for (int32_t& f : of)
      if (f < 0) f = static_cast<int32_t>(cells) - 1 - f;  // histories stand behind the images' features
    return at::cat(all).index_select(0, indices(of));
  }

  /// Final-norm outputs of the wanted rows, residual type.
  Tensor forward(const RowBatch& b) {
    renew();
    Tensor x = at::embedding(leaf(table.embed), indices(b.tokens));
    if (!b.feature_rows.empty()) {
      x = x.index_copy(0, indices(b.feature_rows), features(b));
    }
    const Tensor rotary = text_rotary_of(b.positions), wanted = indices(b.wanted_rows), q_scale = query_scales_of(b.positions);
    Tensor delta;
    for (int32_t i = 0; i < shape.layers; ++i) {
      const bool last = i + 1 == shape.layers;
      thrifty_block(table.layers[static_cast<size_t>(i)], last ? b.last : b.all, shape.attention(), shape.eps, rotary,
                    last ? &wanted : nullptr, x, delta, q_scale);
    }
    return add_norm(x, delta, table.norm, shape.eps, true)[1];
  }

  /// Losses of rows of logits, which become their gradients: cross_entropy of row_ops.h.
  void cross_entropy_rows(Tensor& z, std::span<const int32_t> target, std::span<const double> weight, std::span<double> loss) {
    if (fused) {
      with_types(wide, [&](auto t, auto) {
        cross_entropy<decltype(t)>(z.size(0), z.size(1), data<decltype(t)>(z), target.data(), weight.data(), loss.data());
      });
      return;
    }
    const Tensor y = indices({target.begin(), target.end()}).unsqueeze(1), log_p = at::log_softmax(z, -1);
    const Tensor w = at::from_blob(const_cast<double*>(weight.data()), {z.size(0), 1}, at::kDouble);
    const Tensor own = log_p.gather(1, y).to(at::kCPU, at::kDouble);
    for (size_t i = 0; i < loss.size(); ++i) loss[i] = -weight[i] * data<double>(own)[i];
    z.copy_(log_p.exp().scatter_add(1, y, -at::ones_like(y, z.options())) * here(w.to(wide)));
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
      const Tensor rows = x.narrow(0, at, n);
      Tensor z = at::mm(rows, w.t());
      const auto part = [&](auto& all) { return std::span(all).subspan(static_cast<size_t>(at), static_cast<size_t>(n)); };
      cross_entropy_rows(z, part(target), part(weight), part(loss));
      if (d_x == nullptr) continue;
      d_x->narrow(0, at, n).copy_(at::mm(z, w));
      w.mutable_grad().addmm_(z.t(), rows);
    }
    LossSums sums;
    for (size_t i = 0; i < loss.size(); ++i) (noisy[i] ? sums.noisy : sums.ar) += loss[i] / scale;
    return sums;
  }
};

}  // namespace slip
