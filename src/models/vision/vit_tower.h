// SPDX-License-Identifier: Apache-2.0
// One or more ViTs that read the same picture, and what turns their features into rows of the decoder: joined per patch (DINOv2
// first in OpenVLA), averaged over pool x pool patches, projected by an MLP with erf GELU between its layers
// [docs/notes/checkpoints.md#towers].
#pragma once
#include <memory>

#include "models/vision/image_rules.h"
#include "models/vision/vision_tower.h"
#include "models/vision/vit.h"

namespace slip {

struct VitTowerWeights {
  std::vector<VitWeights> vits;
  std::vector<PackedMatrix> projector;
  std::vector<std::vector<float>> projector_bias;
};
VitTowerWeights read_vit_tower_weights(WeightReader& reader, const VitTowerConfig& config, WeightType type);

class VitTower final : public VisionTower {
 public:
  /// `pool` must outlive it.
  VitTower(VitTowerConfig config, VitTowerWeights weights, ThreadPool& pool);
  Status encode(std::span<const PatchGrid> images, std::vector<float>& features_ND, const CancelToken& cancel = {}) override;
  const VitTowerConfig& config() const { return config_; }
  Vit& vit(size_t i) { return *vits_[i]; }

 private:
  Status check(std::span<const PatchGrid> images) const;
  void average(std::span<const PatchGrid> images, int64_t pooled_rows);
  void project(int64_t rows, std::vector<float>& features_ND);
  VitTowerConfig config_;
  std::vector<std::unique_ptr<Vit>> vits_;
  std::vector<PackedMatrix> projector_;
  std::vector<std::vector<float>> projector_bias_;
  ThreadPool& pool_;
  Workspace workspace_;
  FloatBuffer joined_, pooled_, hidden_[2];
};

}  // namespace slip
