// SPDX-License-Identifier: Apache-2.0
// Prompts with videos for models with Qwen2.5-VL's tower: frames in groups of `temporal_patch_size` become patches, a video's
// placeholder one row per merged cell and time, positions text/chat.h's VideoPositions. Which frames of a film are taken, and how
// many pixels all of them may have together, is the caller's choice: releases differ there.
// Source: reference implementation in transformers, models/qwen2_vl (image and video processing) and models/qwen2_5_vl.
#pragma once
#include <span>

#include "base/result.h"
#include "image/qwen_preprocess.h"
#include "models/model.h"

namespace slip {

struct VideoPatches {
  PatchGrid grid;               // t > 0 times; h and w of every frame
  double seconds_per_grid = 1;  // temporal patch size / frames per second
};

/// Each frame resized and normalised as a still image is; the last one repeated until the group is full. kBadInput for no frames,
/// frames of different sizes, or frames per second outside (0, 1000].
Result<VideoPatches> video_patches(std::span<const Image> frames, double fps, const PreprocessorConfig& config);

/// Model::build_prompt with videos. `tokens` (Model::prompt_tokens of what the chat template makes of VideoItems) holds each placeholder
/// once, or already repeated; feature rows of images first, then those of videos. kUnsupported for a model without Qwen2.5-VL's tower
/// or without a token for videos.
Result<Prompt> build_video_prompt(Model& model, std::span<const TokenId> tokens, std::span<const PatchGrid> images,
                                  std::span<const VideoPatches> videos, VideoPositions rule = VideoPositions::k4,
                                  const CancelToken& cancel = {});

}  // namespace slip
