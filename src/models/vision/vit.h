// SPDX-License-Identifier: Apache-2.0
// A plain ViT: DINOv2 (with and without registers, SwiGLU in its giant size) and SigLIP [docs/notes/checkpoints.md#towers].
//
//   x = [cls + its position], registers, patches + positions
//   per block:  x += ls1 * proj(attention(norm1(x)));  x += ls2 * mlp(norm2(x))       LayerNorm; ls is 1 where there is none
//   features = norm(x) of the patches, or x as it is (OpenVLA)
//
// LayerScale stays apart from the projection: folded in, a bf16 weight would be rounded once more. A row's bits do not depend on
// the other images of a call (contract W).
#pragma once
#include <span>
#include <vector>

#include "kernels/kernels.h"
#include "models/config/vit_config.h"
#include "models/weights/weight_reader.h"
#include "nn/buffer.h"
#include "nn/decoder.h"

namespace slip {

struct VitBlockWeights {
  std::vector<float> norm1_D, norm1_bias_D, norm2_D, norm2_bias_D, scale1_D, scale2_D;  // scales empty without LayerScale
  PackedMatrix qkv, proj, up, down;                                                     // up: fc1, or gate and up of SwiGLU
  std::vector<float> qkv_bias, proj_bias, up_bias, down_bias;
};

struct VitWeights {
  PackedMatrix patch_embed;  // D x (channel, y, x)
  std::vector<float> patch_bias;
  std::vector<float> prefix_RD;     // cls with its position, registers: the rows in front
  std::vector<float> positions_PD;  // of the table's patches
  std::vector<VitBlockWeights> blocks;
  std::vector<float> norm_D, norm_bias_D;  // empty without final norm
};

/// What a ViT's tensors are called behind the tower's prefix, and behind the block's those of `norm1` and what follows; products and norms
/// without .weight and .bias.
struct VitNames {
  std::string patch, cls, registers, positions, norm, block;
  std::string scale1, scale2;
  std::vector<std::string> qkv;  // one matrix, or one each
  std::string proj, up, down;
};
VitNames vit_names(const VitConfig& config);

/// Wishes for the tower's tensors; both goes of the reader.
VitWeights read_vit_weights(WeightReader& reader, const VitConfig& config, WeightType type);

/// planes[(channel * height + y) * width + x]; what is left over behind whole patches is not read.
struct VitImage {
  const float* planes = nullptr;
  int32_t height = 0, width = 0;
};

class Vit {
 public:
  /// `pool` must outlive it.
  Vit(VitConfig config, VitWeights weights, ThreadPool& pool);
  const VitConfig& config() const { return config_; }
  /// kBadInput for an image without a whole patch, or of another grid than the table's where that is not interpolated.
  Status check(const VitImage& image, size_t number) const;
  /// out: per image its patches' features in raster order, row stride `ldo`. The images passed check(). kCancelled between blocks.
  Status encode(std::span<const VitImage> images, float* out, int64_t ldo, const CancelToken& cancel = {});
  /// For tests: "embeddings", "block_<i>" and "final_norm", prefix rows included, images one behind the other.
  void set_tap(ActivationTap tap) { tap_ = std::move(tap); }

 private:
  struct Layout;
  Layout lay_out(std::span<const VitImage> images) const;
  void embed(std::span<const VitImage> images, const Layout& layout);
  const float* positions(int32_t rows, int32_t columns);
  void attend(const VitBlockWeights& w, const Layout& layout);
  void mlp(const VitBlockWeights& w, int64_t rows);
  void add_scaled(float* x, const float* update, const std::vector<float>& scale_D, int64_t rows);
  void tap(const std::string& name, int64_t rows);

  VitConfig config_;
  VitWeights weights_;
  ThreadPool& pool_;
  Workspace workspace_;
  FloatBuffer x_TD_, normed_TD_, qkv_, q_, k_, v_, attended_, update_, up_, gated_, pixels_;
  std::vector<float> resampled_PD_;  // for the grid below
  int32_t resampled_rows_ = 0, resampled_columns_ = 0;
  ActivationTap tap_;
};

}  // namespace slip
