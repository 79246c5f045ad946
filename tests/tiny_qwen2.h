// SPDX-License-Identifier: Apache-2.0
// A Qwen2 of test size in double, straight from the definition: the oracle of a pass. One loop per sum, no kernels, an arena of
// keys and values; rows see the slots of their spans. Text positions only.
#pragma once
#include <algorithm>
#include <cmath>
#include <filesystem>
#include <memory>
#include <span>
#include <stdexcept>
#include <string>
#include <vector>

#include "base/json.h"
#include "core/safetensors.h"
#include "lm/lm.h"

namespace slip::test {

class TinyQwen2 : public Lm {
 public:
  explicit TinyQwen2(const std::filesystem::path& folder, int32_t slots = 256) {
    const json::object config = value_of(read_json(folder / "config.json")).as_object();
    const auto number = [&](const char* key) { return static_cast<int>(config.at(key).as_int64()); };
    d_ = number("hidden_size");
    heads_ = number("num_attention_heads");
    groups_ = number("num_key_value_heads");
    layers_ = number("num_hidden_layers");
    f_ = number("intermediate_size");
    k_ = d_ / heads_;
    theta_ = config.at("rope_theta").to_number<double>();
    eps_ = config.at("rms_norm_eps").to_number<double>();
    weights_ = std::make_unique<Checkpoint>(value_of(Checkpoint::open_folder(folder)));
    load_layers();
    embed_ = tensor("model.embed_tokens.weight");
    norm_ = tensor("model.norm.weight");
    head_ = weights_->has("lm_head.weight") ? tensor("lm_head.weight") : embed_;
    info_.name = "tiny_qwen2";
    info_.vocab = number("vocab_size");
    info_.hidden_size = d_;
    info_.slots = slots;
    info_.rule.has_mask = config.contains("mask_token_id");
    if (info_.rule.has_mask) {
      info_.rule.mask = {number("mask_token_id")};
      info_.rule.has_null = true;
      info_.rule.null_token = {number("null_token_id")};
      info_.rule.shift = number("diffusion_shift") == 1;
      info_.rule.block_size = number("bd_size");
    }
    const size_t cache = static_cast<size_t>(layers_) * static_cast<size_t>(slots * groups_ * k_);
    keys_.assign(cache, std::nan(""));
    values_.assign(cache, std::nan(""));
  }

  const LmInfo& info() const override { return info_; }

  Status forward(const Pass& pass, PassOutput& out) override {
    const size_t n = pass.rows.size();
    std::vector<std::vector<double>> x(n);
    for (size_t r = 0; r < n; ++r) {
      const auto id = static_cast<size_t>(std::get<TokenId>(pass.rows[r].input).value);
      x[r].assign(embed_.begin() + static_cast<long>(id) * d_, embed_.begin() + static_cast<long>(id + 1) * d_);
    }
    for (int l = 0; l < layers_; ++l) {
      const Layer& w = layer_[static_cast<size_t>(l)];
      std::vector<std::vector<double>> q(n);
      for (size_t r = 0; r < n; ++r) {
        const auto h = norm(x[r], w.in_norm);
        q[r] = linear(h, w.q, &w.q_bias);
        auto k = linear(h, w.k, &w.k_bias);
        const auto v = linear(h, w.v, &w.v_bias);
        rotate(q[r], heads_, pass.rows[r].position.t);
        rotate(k, groups_, pass.rows[r].position.t);
        std::copy(k.begin(), k.end(), keys_.begin() + at(l, pass.rows[r].slot));
        std::copy(v.begin(), v.end(), values_.begin() + at(l, pass.rows[r].slot));
      }
      for (size_t r = 0; r < n; ++r) {
        add(x[r], linear(attend(l, q[r], pass.spans.subspan(pass.rows[r].sees_first, pass.rows[r].sees_count)), w.o, nullptr));
        const auto h = norm(x[r], w.post_norm);
        auto gate = linear(h, w.gate, nullptr);
        const auto up = linear(h, w.up, nullptr);
        for (size_t i = 0; i < gate.size(); ++i) gate[i] = gate[i] / (1 + std::exp(-gate[i])) * up[i];
        add(x[r], linear(gate, w.down, nullptr));
      }
    }
    deliver(pass, x, out);
    return {};
  }

 private:
  using Vec = std::vector<double>;
  struct Layer {
    Vec in_norm, post_norm, q, k, v, o, q_bias, k_bias, v_bias, gate, up, down;
  };

  template <class T>
  static T value_of(Result<T> r) {
    if (!r) throw std::runtime_error(r.error().message);
    return std::move(*r);
  }

  Vec tensor(const std::string& name) const {
    const auto f = read_as_f32(*value_of(weights_->get(name)));
    return Vec(f.begin(), f.end());
  }

  void load_layers() {
    for (int l = 0; l < layers_; ++l) {
      const std::string p = "model.layers." + std::to_string(l) + ".", a = p + "self_attn.", m = p + "mlp.";
      layer_.push_back({tensor(p + "input_layernorm.weight"), tensor(p + "post_attention_layernorm.weight"),
                        tensor(a + "q_proj.weight"), tensor(a + "k_proj.weight"), tensor(a + "v_proj.weight"),
                        tensor(a + "o_proj.weight"), tensor(a + "q_proj.bias"), tensor(a + "k_proj.bias"),
                        tensor(a + "v_proj.bias"), tensor(m + "gate_proj.weight"), tensor(m + "up_proj.weight"),
                        tensor(m + "down_proj.weight")});
    }
  }

  long at(int l, int32_t slot) const { return (static_cast<long>(l) * info_.slots + slot) * groups_ * k_; }
  static void add(Vec& x, const Vec& y) {
    for (size_t i = 0; i < x.size(); ++i) x[i] += y[i];
  }

  Vec norm(const Vec& x, const Vec& gain) const {
    double sum = 0;
    for (const double v : x) sum += v * v;
    const double scale = 1 / std::sqrt(sum / static_cast<double>(x.size()) + eps_);
    Vec y(x.size());
    for (size_t i = 0; i < x.size(); ++i) y[i] = x[i] * scale * gain[i];
    return y;
  }

  static Vec linear(const Vec& x, const Vec& w, const Vec* bias) {
    Vec y(w.size() / x.size());
    for (size_t o = 0; o < y.size(); ++o) {
      y[o] = bias ? (*bias)[o] : 0;
      for (size_t i = 0; i < x.size(); ++i) y[o] += w[o * x.size() + i] * x[i];
    }
    return y;
  }

  void rotate(Vec& x, int heads, int position) const {
    for (int h = 0; h < heads; ++h)
      for (int i = 0; i < k_ / 2; ++i) {
        const double angle = position * std::pow(theta_, -2.0 * i / k_), c = std::cos(angle), s = std::sin(angle);
        double& a = x[static_cast<size_t>(h * k_ + i)];
        double& b = x[static_cast<size_t>(h * k_ + i + k_ / 2)];
        const double a0 = a;
        a = a0 * c - b * s;
        b = b * c + a0 * s;
      }
  }

  Vec attend(int l, const Vec& q, std::span<const SlotSpan> spans) const {
    Vec out(q.size(), 0);
    for (int h = 0; h < heads_; ++h) {
      const int g = h * groups_ / heads_;
      Vec score;
      std::vector<long> from;
      for (const SlotSpan& s : spans)
        for (int32_t slot = s.begin; slot < s.end; ++slot) {
          from.push_back(at(l, slot) + g * k_);
          double dot = 0;
          for (int i = 0; i < k_; ++i) dot += q[static_cast<size_t>(h * k_ + i)] * keys_[static_cast<size_t>(from.back() + i)];
          score.push_back(dot / std::sqrt(static_cast<double>(k_)));
        }
      double top = score[0], sum = 0;
      for (const double s : score) top = std::max(top, s);
      for (double& s : score) sum += s = std::exp(s - top);
      for (size_t j = 0; j < score.size(); ++j)
        for (int i = 0; i < k_; ++i)
          out[static_cast<size_t>(h * k_ + i)] += score[j] / sum * values_[static_cast<size_t>(from[j] + i)];
    }
    return out;
  }

  void deliver(const Pass& pass, const std::vector<Vec>& x, PassOutput& out) const {
    out.vocab = info_.vocab;
    out.argmax.assign(x.size(), TokenId{-1});
    out.logits_row.assign(x.size(), -1);
    out.logits_NV.clear();
    int32_t line = 0;
    for (size_t r = 0; r < x.size(); ++r) {
      if (pass.rows[r].want == Want::kNothing) continue;
      const Vec logits = linear(norm(x[r], norm_), head_, nullptr);
      out.argmax[r] = {static_cast<int32_t>(std::max_element(logits.begin(), logits.end()) - logits.begin())};
      if (pass.rows[r].allowed >= 0) answer_row(pass, r, std::vector<float>(logits.begin(), logits.end()), out);
      if (!brings_logits(pass.rows[r].want)) continue;
      out.logits_row[r] = line++;
      for (const double v : logits) out.logits_NV.push_back(static_cast<float>(v));
    }
  }

  int d_, heads_, groups_, layers_, f_, k_;
  double theta_, eps_;
  LmInfo info_;
  std::unique_ptr<Checkpoint> weights_;
  std::vector<Layer> layer_;
  Vec embed_, norm_, head_, keys_, values_;
};

}  // namespace slip::test
