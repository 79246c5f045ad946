// SPDX-License-Identifier: Apache-2.0
// See video_prompt.h.
#include "models/video_prompt.h"

#include <algorithm>

namespace slip {
namespace {

// Group `t` of the film takes its columns (channel, frame, y, x): each still has itself in every frame, so its own is copied.
void take_frame(const PatchGrid& still, int frame, const PreprocessorConfig& config, float* to) {
  const int64_t area = int64_t{config.patch_size} * config.patch_size, each = area * config.temporal_patch_size;
  for (int64_t at = frame * area; at < static_cast<int64_t>(still.values.size()); at += each)
    std::copy_n(still.values.data() + at, area, to + at);
}

}  // namespace

Result<VideoPatches> video_patches(std::span<const Image> frames, double fps, const PreprocessorConfig& config) {
  constexpr double kMostPerSecond = 1000;  // no camera of a car; keeps seconds_per_grid away from zero
  if (frames.empty()) return bad_input("video: expected at least one frame, got none");
  if (!(fps > 0 && fps <= kMostPerSecond))
    return bad_input("video: expected up to {} frames per second, more than 0, got {}", kMostPerSecond, fps);
  const auto group = static_cast<size_t>(config.temporal_patch_size);
  const size_t groups = (frames.size() + group - 1) / group;
  VideoPatches out;
  out.seconds_per_grid = config.temporal_patch_size / fps;
  size_t numbers = 0;  // of a group
  for (size_t i = 0; i < groups * group; ++i) {
    const size_t from = std::min(i, frames.size() - 1);
    const Image& frame = frames[from];
    if (frame.width != frames[0].width || frame.height != frames[0].height)
      return bad_input("video: frame {}: expected {} x {} pixels as in the first, got {} x {}", from, frames[0].width,
                       frames[0].height, frame.width, frame.height);
    SLIP_TRY(PatchGrid still, qwen_patches(frame, config));
    if (i == 0) {
      numbers = still.values.size();
      out.grid = still;
      out.grid.t = static_cast<int>(groups);
      out.grid.values.resize(numbers * groups);
    }
    take_frame(still, static_cast<int>(i % group), config, out.grid.values.data() + i / group * numbers);
  }
  return out;
}

Result<Prompt> build_video_prompt(Model& model, std::span<const TokenId> tokens, std::span<const PatchGrid> images,
                                  std::span<const VideoPatches> videos, VideoPositions rule, const CancelToken& cancel) {
  const ModelConfig& config = model.config();
  if (!config.vision || !config.image_token || !config.video_token)
    return unsupported("{}: videos: expected a model with Qwen2.5-VL's tower and a token for videos, got {}",
                       model.folder().string(), config.architecture);
  std::vector<VisionGrid> grids;
  for (const PatchGrid& g : images) grids.push_back({g.t, g.h, g.w});
  std::vector<Video> films;
  for (const VideoPatches& v : videos) films.push_back({{v.grid.t, v.grid.h, v.grid.w}, v.seconds_per_grid});
  const VisionRules rules{*config.image_token, *config.video_token, config.vision->merge,
                          static_cast<int32_t>(config.vision->tokens_per_second), rule};
  SLIP_TRY(Prompt prompt, prompt_rows(tokens, grids, films, rules));
  SLIP_TRY_(model.image_features(images, prompt.features, cancel));
  for (const VideoPatches& v : videos) SLIP_TRY_(model.image_features({&v.grid, 1}, prompt.features, cancel));
  return prompt;
}

}  // namespace slip
