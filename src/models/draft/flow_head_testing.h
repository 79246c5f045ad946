// SPDX-License-Identifier: Apache-2.0
// A trajectory head of a model's shape with random weights from a seed: its plans mean nothing, and say which keys it has read.
#pragma once
#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <map>
#include <string>

#include "base/file.h"
#include "base/json.h"
#include "base/philox.h"
#include "core/safetensors.h"
#include "models/model.h"

namespace slip::test {

struct RandomHead {
  int32_t rows = 64, width = 32, mlp = 48, encoder = 16, features = 6, steps = 3;
  std::string reads = "sections", until;  // "prompt", "answer", "sections"
  std::string visibility = "chain";
  uint64_t seed = 1;
};

class RandomHeadWriter {
 public:
  RandomHeadWriter(const DecoderOptions& target, const RandomHead& head) : target_(target), head_(head), draw_(head.seed, 77) {}

  void write(const std::filesystem::path& folder) {
    std::filesystem::create_directories(folder);
    ASSERT_TRUE(write_file(folder / "config.json", json::serialize(config())));
    add_trunk();
    for (int32_t l = 0; l < target_.layers; ++l) add_layer("expert.layers." + std::to_string(l) + ".");
    gains("expert.norm.weight", head_.width);
    matrix("action_out_proj.weight", 3, head_.width, 1);
    matrix("action_out_proj.bias", 3, 0, 1);
    std::vector<TensorToWrite> out;
    for (const auto& [name, t] : tensors_) out.push_back({name, DType::kF32, t.shape, std::as_bytes(std::span(t.values))});
    ASSERT_TRUE(write_safetensors(folder / "model.safetensors", out));
  }

 private:
  struct Tensor {
    std::vector<int64_t> shape;
    std::vector<float> values;
  };
  json::object config() const {
    return {{"model_type", "flow_head"},
            {"hidden_size", head_.width},
            {"intermediate_size", head_.mlp},
            {"num_hidden_layers", target_.layers},
            {"num_attention_heads", target_.heads},
            {"num_key_value_heads", target_.kv_heads},
            {"head_dim", target_.head_width},
            {"rope_theta", target_.rope.theta},
            {"rows", head_.rows},
            {"row_s", 0.1},
            {"action_width", 3},
            {"encoder_width", head_.encoder},
            {"fourier_features", head_.features},
            {"max_frequency", 4},
            {"euler_steps", head_.steps},
            {"reads", head_.reads},
            {"until", head_.until},
            {"visibility", head_.visibility},
            {"action_mean", json::array{0.8, 0.0, 0.0}},
            {"action_deviation", json::array{0.1, 0.02, 0.01}}};
  }
  /// Rows of unit length in the mean, or with `in` 0 a vector.
  void matrix(const std::string& name, int64_t out, int64_t in, double scale) {
    Tensor& t = tensors_[name];
    t.shape = in > 0 ? std::vector<int64_t>{out, in} : std::vector<int64_t>{out};
    const double most = scale * std::sqrt(3.0 / static_cast<double>(std::max<int64_t>(1, in)));
    for (int64_t i = 0; i < out * std::max<int64_t>(1, in); ++i) t.values.push_back(static_cast<float>(draw_.uniform(-most, most)));
  }
  void gains(const std::string& name, int64_t n) { tensors_[name] = {{n}, std::vector<float>(static_cast<size_t>(n), 1.0F)}; }
  void linear(const std::string& name, int64_t out, int64_t in) {
    matrix(name + ".weight", out, in, 1);
    matrix(name + ".bias", out, 0, 0.1);
  }
  void add_trunk() {
    const std::string trunk = "action_in_proj.encoder.trunk.";
    linear(trunk + "0", head_.encoder, 4 * head_.features);
    gains(trunk + "2.weight", head_.encoder);
    linear(trunk + "3", head_.encoder, head_.encoder);
    gains(trunk + "5.weight", head_.encoder);
    linear(trunk + "6", head_.width, head_.encoder);
    gains("action_in_proj.norm.weight", head_.width);
    matrix("action_in_proj.norm.bias", head_.width, 0, 0.1);
  }
  void add_layer(const std::string& p) {
    const int64_t q = int64_t{target_.heads} * target_.head_width, g = int64_t{target_.kv_heads} * target_.head_width;
    gains(p + "input_layernorm.weight", head_.width);
    gains(p + "post_attention_layernorm.weight", head_.width);
    matrix(p + "self_attn.q_proj.weight", q, head_.width, 1);
    matrix(p + "self_attn.k_proj.weight", g, head_.width, 1);
    matrix(p + "self_attn.v_proj.weight", g, head_.width, 1);
    matrix(p + "self_attn.o_proj.weight", head_.width, q, 1);
    gains(p + "self_attn.q_norm.weight", target_.head_width);
    gains(p + "self_attn.k_norm.weight", target_.head_width);
    matrix(p + "mlp.gate_proj.weight", head_.mlp, head_.width, 1);
    matrix(p + "mlp.up_proj.weight", head_.mlp, head_.width, 1);
    matrix(p + "mlp.down_proj.weight", head_.width, head_.mlp, 1);
  }

  const DecoderOptions target_;
  const RandomHead head_;
  PhiloxStream draw_;
  std::map<std::string, Tensor> tensors_;
};

inline void write_random_head(Model& target, const std::filesystem::path& folder, const RandomHead& head = {}) {
  RandomHeadWriter(target.decoder()->options(), head).write(folder);
}

}  // namespace slip::test
