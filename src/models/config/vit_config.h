// SPDX-License-Identifier: Apache-2.0
// What config.json says of models whose vision tower is a plain ViT: OpenVLA and MiniVLA (timm's DINOv2 with registers and SigLIP
// side by side), DINOv2 as the Hugging Face library stores it (dino_qwen). Read by openvla.cc and dino_qwen.cc, used by vit.h and
// vit_tower.h [docs/notes/checkpoints.md#towers].
#pragma once
#include <array>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "base/ids.h"
#include "plan/action_bins.h"

namespace slip {

/// One tower. Rows are [cls], [registers], patches in raster order; pre-norm blocks of full attention without rotation.
struct VitConfig {
  int32_t depth = 0;       // blocks in the file
  int32_t used_depth = 0;  // blocks that run: OpenVLA takes the state before the last one
  int32_t width = 0, heads = 0, mlp_width = 0;
  int32_t channels = 3, patch = 14;
  int32_t grid_rows = 0, grid_columns = 0;  // of the stored position table
  int32_t registers = 0;
  bool cls = false;
  bool cls_has_position = false;  // the table starts with an entry for cls (Hugging Face); timm's reg4 towers: patches only
  bool swiglu = false, layer_scale = false, final_norm = false;
  float norm_eps = 1e-6F;
  /// What an image whose patch grid is not the table's gets [docs/notes/checkpoints.md#towers].
  enum class Interpolation : uint8_t { kNone, kBicubic /* a = -0.75 */, kBicubicAntialias /* a = -0.5 */ };
  Interpolation interpolation = Interpolation::kNone;
  bool timm_names = true;  // timm's tensor names with `scale_factor`, else Hugging Face's Dinov2
  std::string prefix;      // of its tensors

  int32_t prefix_rows() const { return (cls ? 1 : 0) + registers; }
  int32_t head_width() const { return width / heads; }
  int32_t patch_numbers() const { return channels * patch * patch; }
};

/// Towers side by side, their features joined per patch, averaged over pool x pool patches, through an MLP with erf GELU between.
struct VitTowerConfig {
  struct Layer {
    std::string name;  // "projector.fc1"
    int32_t in = 0, out = 0;
  };
  std::vector<VitConfig> vits;
  std::vector<Layer> projector;
  int32_t pool = 1;

  int32_t joined_width() const {
    int32_t n = 0;
    for (const VitConfig& v : vits) n += v.width;
    return n;
  }
  int32_t channels() const {
    int32_t n = 0;
    for (const VitConfig& v : vits) n += v.channels;
    return n;
  }
  int32_t out_width() const { return projector.back().out; }
};

/// A model that answers with one action of bins (OpenVLA, MiniVLA).
struct ActionConfig {
  enum class Prompt : uint8_t { kPure /* In: ... Out: */, kVicuna /* v0.1 */, kQwen /* MiniVLA */ };
  int32_t bound = 0;   // one past the largest action id
  int32_t bins = 256;  // action ids below it
  Prompt prompt = Prompt::kPure;
  std::vector<std::pair<std::string, ActionStatistics>> statistics;  // by data set, in the file's order
};

/// A feature row made of the ego history (dino_qwen): states x (x, y, vx, vy, ax, ay), each number times its scale, through
/// Linear, erf GELU, Linear.
struct HistoryConfig {
  static constexpr int32_t kNumbers = 6;
  TokenId token;  // where it stands in the prompt
  int32_t states = 0, hidden = 0;
  std::array<double, kNumbers> scale = {1, 1, 1, 1, 1, 1};
  int32_t numbers() const { return states * kNumbers; }
};

}  // namespace slip
