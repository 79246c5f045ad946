// SPDX-License-Identifier: Apache-2.0
// Qwen2.5-VL's vision tower: patches of images -> one feature row per merge x merge cell, in the images' cell order.
//
//   x_PD = patch_embed(pixels); blocks on x gathered into window order (groups of merge^2 patches):
//     x += proj(attention(rotate2d(qkv(norm1(x)))));  x += down(silu(gate) * up)   (biases everywhere, RMSNorm eps 1e-6)
//   attention: a patch sees its window (ragged at the edges, no padding), in the blocks of `full_attention_blocks` its frame
//   features = mlp2(gelu_erf(mlp0(norm(x) of a cell's patches side by side))), put back into the cells' own order.
// Keys and values are bf16 unless the weights are f32.
// Source: reference implementation in transformers, models/qwen2_5_vl. Images of one call never see each other.
#pragma once
#include <functional>
#include <span>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "image/qwen_preprocess.h"
#include "kernels/kernels.h"
#include "models/config/config.h"
#include "models/vision/vision_tower.h"
#include "models/weights/weight_reader.h"
#include "nn/buffer.h"
#include "nn/decoder.h"
#include "nn/device_vision.h"

namespace slip {

struct VisionBlockWeights {
  std::vector<float> norm1_D, norm2_D;
  PackedMatrix qkv, proj, gate_up, down;
  std::vector<float> qkv_bias, proj_bias, gate_up_bias, down_bias;
};

struct VisionWeights {
  PackedMatrix patch_embed;  // D x patch numbers
  std::vector<VisionBlockWeights> blocks;
  std::vector<float> merger_norm_D;
  PackedMatrix merger_0, merger_2;
  std::vector<float> merger_0_bias, merger_2_bias;
};

/// Wishes for the tower's tensors under `prefix` ("visual." or "model.visual."); both goes of the reader.
VisionWeights read_vision_weights(WeightReader& reader, const VisionConfig& config, const std::string& prefix, WeightType type);

/// The order in which cells are worked on: windows of a frame row by row, cells of a window row by row; `ends`: where, counted
/// in cells, each window ends. Cell numbers count along (t, row, column).
struct WindowOrder {
  std::vector<int32_t> cells;
  std::vector<int32_t> ends;
};
WindowOrder window_order(int32_t t, int32_t cell_rows, int32_t cell_columns, int32_t window_cells);

class QwenVision final : public VisionTower {
 public:
  QwenVision(VisionConfig config, VisionWeights weights, ThreadPool& pool)
      : config_(std::move(config)), weights_(std::move(weights)), pool_(pool) {}
  const VisionConfig& config() const { return config_; }

  /// features_ND: the images' feature rows one behind the other. kBadInput for a grid that does not fit its pixels.
  Status encode(std::span<const PatchGrid> images, std::vector<float>& features_ND, const CancelToken& cancel = {}) override;
  Status features(std::span<const PatchGrid> images, Features& out, const CancelToken& cancel = {}) override;
  bool makes_patches() const override { return device_ != nullptr; }
  VisionTimes times() const override { return times_; }
  /// What a device's plug-in is given; valid as long as this tower.
  DeviceVisionWeights device_weights() const;
  /// From now on everything runs there, with that device's bits; the weights here are let go, and taps are not told.
  void run_on(std::unique_ptr<DeviceVision> device) {
    device_ = std::move(device);
    weights_ = {};
  }
  /// For tests: "patch_embed_PD", "block_<i>_PD" in the order of the pixels.
  void set_tap(ActivationTap tap) { tap_ = std::move(tap); }

 private:
  struct Layout;
  Status check(std::span<const PatchGrid> images) const;
  Status encode_here(std::span<const PatchGrid> images, std::vector<float>& features_ND, const CancelToken& cancel);
  Status encode_on_device(std::span<const PatchGrid> images, Features& out);
  Layout lay_out(std::span<const PatchGrid> images) const;
  void patch_embed(std::span<const PatchGrid> images, const Layout& layout);
  void fill_rotation(std::span<const PatchGrid> images, const Layout& layout);
  struct Slice {
    int64_t first = 0, rows = 0;
  };
  bool sees_whole_frame(size_t number) const;
  void block(size_t number, const Layout& layout);
  /// Of keys and values: as wide as the weights ask for.
  KvType kv_type() const { return weights_.patch_embed.type() == WeightType::kF32 ? KvType::kF32 : KvType::kBF16; }
  void project(const VisionBlockWeights& w, const Layout& layout, const Slice& s, float* qkv);
  void attend(const VisionBlockWeights& w, const Slice& s, const float* qkv, std::span<const RowSpans> row_spans,
              std::span<const SlotSpan> spans);
  void mlp(const VisionBlockWeights& w, const Slice& s);
  void merge(const Layout& layout, std::vector<float>& features_ND);
  void tap(std::string_view name, const Layout& layout);

  VisionConfig config_;
  VisionWeights weights_;
  ThreadPool& pool_;
  Workspace workspace_;
  FloatBuffer x_PD_, normed_, qkv_, keys_, values_, attended_, gated_, cos_, sin_;
  VisionTimes times_;
  ActivationTap tap_;
  std::unique_ptr<DeviceVision> device_;  // null: everything runs here
};

}  // namespace slip
