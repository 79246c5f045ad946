// SPDX-License-Identifier: Apache-2.0
// A windowed vision transformer on a device, by the decoder's kernels: products tile by tile, attention over spans of rows, the merger's rows side
// by side. Pictures go over as they are, are resized and cut there, and features stay. Images of one call never see each other.
#pragma once
#include <memory>
#include <optional>
#include <vector>

#include "cuda/device/runtime.h"
#include "cuda/features.h"
#include "cuda/pass_plan.h"
#include "cuda/tiles.h"
#include "nn/device_vision.h"

namespace slip::cuda {

class CudaVision final : public DeviceVision {
 public:
  /// Copies the weights to the device. kResource when its memory does not hold them; kUnsupported for weights that are not bf16, and for
  /// a width that is no multiple of 8.
  static Result<std::unique_ptr<CudaVision>> create(std::unique_ptr<Device> device, const DeviceVisionWeights& weights,
                                                    ThreadPool& pool);
  Result<Room> room(size_t numbers, size_t bytes) override;
  Result<std::vector<FeatureBlock>> encode(const DeviceVisionPass& pass) override;

 private:
  struct Block {
    Memory norm1_D, norm2_D, qkv_bias, proj_bias, gate_up_bias, down_bias;
    DeviceMatrix qkv, proj, gate_up, down;
    bool sees_frames = false;
  };
  /// Attention's work for some rows, here and on the device.
  struct Plan {
    int32_t first_row = 0, rows = 0;
    AttentionPlan host;
    PassCounts host_counts;
    Memory counts, items, item_rows, slots, first_partial_P, sees_P, walks;
  };
  /// Of all rows, in pieces whose partial sums fit a bound.
  using Plans = std::vector<Plan>;
  struct Buffers {
    Memory counts, source_P, slots_P, cos_PK2, sin_PK2, pixels_PN, rows_PK, x_PD, qkv_PE, q_PHP, keys, values, sums_NHP, tops_NH,
        totals_NH, attended_PD, gated_PF, cells_CK, hidden_CK, features_CE, shares, arrivals;
    Memory picture, across, resized, table;  // a picture on its way, and what its bytes become
  };
  explicit CudaVision(std::unique_ptr<Device> device)
      : device_(std::move(device)), feature_memory_(std::make_shared<FeatureMemory>(device_)) {}
  Status upload_weights(const DeviceVisionWeights& weights, ThreadPool& pool);
  Result<Block> upload_block(const DeviceVisionBlock& w, ThreadPool& pool);
  Status make_room(int rows, size_t partials);
  Status send(const DeviceVisionPass& pass, int32_t cells);
  Status plan(std::span<const RowSpans> spans_P, std::span<const SlotSpan> spans, Plans& plans);
  Status send_plan(Plan& plan);
  /// Taps that are there from one size of an axis to another.
  struct AxisTaps {
    int32_t from = 0, to = 0;
    Memory ranges, weights;
  };
  Result<const AxisTaps*> taps_there(const BicubicTaps& taps, int32_t from, int32_t to);
  Status send_pixels(std::span<const DeviceImage> images);
  Status make_patches(const DevicePicture& picture, float* pixels_PN);
  Status resize_along(const DevicePicture& picture, bool down, const uint8_t** rgb, int* width, int* height);
  Result<std::vector<FeatureBlock>> put_features(std::span<const DeviceImage> images);
  Result<std::vector<FeatureBlock>> run(const DeviceVisionPass& pass);
  void launch_attention(const Plans& plans, int rows);
  void launch_block(const Block& block, const Plans& plans, int rows);
  void launch_merger(int rows, int cells);
  ProductArgs product_of(const DeviceMatrix& w, const RowTiles& x, Then then) const;

  std::shared_ptr<Device> device_;  // before what lives on it
  std::shared_ptr<FeatureMemory> feature_memory_;
  DeviceMatrix patch_embed_, merger_0_, merger_2_;
  Memory merger_norm_D_, merger_0_bias_, merger_2_bias_;
  std::vector<Block> blocks_;
  int32_t width_ = 0, heads_ = 0, padded_ = 0, cell_patches_ = 1, patch_numbers_ = 0, gated_ = 0, out_width_ = 0, most_tiles_ = 0;
  float eps_ = 0;
  AttentionPlanner planner_{1, false};
  Plans windows_, frames_;
  std::vector<Row> rows_;
  std::vector<int32_t> slots_;
  PassCounts counts_;
  Buffers b_;
  Memory pixels_host_, pictures_host_;
  std::vector<AxisTaps> taps_;
  std::optional<ChannelTable> table_;  // that is there
};

}  // namespace slip::cuda
