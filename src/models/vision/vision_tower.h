// SPDX-License-Identifier: Apache-2.0
// What a model needs of a vision tower, whichever it is: preprocessed images (image_rules.h) become feature rows in the decoder's
// width. Qwen2.5-VL's tower (qwen_vision.h), plain ViTs with a projector (vit_tower.h).
#pragma once
#include <span>
#include <vector>

#include "base/cancel.h"
#include "base/result.h"
#include "image/qwen_preprocess.h"
#include "lm/features.h"

namespace slip {

/// Milliseconds of the last encode() by stage; zeros where a tower does not tell. Windowed blocks attend within windows, full ones
/// within frames.
struct VisionTimes {
  double patch_embed = 0, windowed = 0, full = 0, merger = 0;
};

class VisionTower {
 public:
  virtual ~VisionTower() = default;
  /// features_ND: the images' feature rows one behind the other; images of one call never see each other. kBadInput for a grid
  /// that does not fit its pixels, kCancelled between blocks as the token says.
  virtual Status encode(std::span<const PatchGrid> images, std::vector<float>& features_ND, const CancelToken& cancel = {}) = 0;
  /// The same where they lie: on a device whose tower leaves them there, else as numbers. `out` is empty before.
  virtual Status features(std::span<const PatchGrid> images, Features& out, const CancelToken& cancel = {}) {
    return encode(images, out.numbers_ND, cancel);
  }
  /// Does it take pictures whose patches are still to be made (PatchGrid::source)?
  virtual bool makes_patches() const { return false; }
  virtual VisionTimes times() const { return {}; }
};

}  // namespace slip
