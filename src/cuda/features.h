// SPDX-License-Identifier: Apache-2.0
// Features that a tower leaves in a device's memory. What one image's rows lay in is used again for another's once nobody holds them: to get memory
// of a device takes long, and to give it back stops the device.
#pragma once
#include <memory>
#include <mutex>
#include <optional>
#include <vector>

#include "cuda/device/runtime.h"
#include "lm/features.h"

namespace slip::cuda {

/// Memory for features, kept between calls. Thread-safe.
class FeatureMemory {
 public:
  explicit FeatureMemory(std::shared_ptr<Device> device) : device_(std::move(device)) {}
  Device& device() const { return *device_; }
  /// At least so many bytes. kResource where the device has no more, what is kept included.
  Result<Memory> take(size_t bytes);
  void give(Memory memory);

 private:
  static constexpr size_t kMostKept = size_t{64} << 20;  // bytes: a dozen pictures of a 3B model
  std::optional<Memory> find(size_t bytes);
  void drop_kept();
  std::shared_ptr<Device> device_;  // before what lives on it
  std::mutex mutex_;
  std::vector<Memory> kept_;  // longest unused first
  size_t kept_bytes_ = 0;
};

class CudaFeatures final : public ResidentFeatures {
 public:
  CudaFeatures(std::shared_ptr<FeatureMemory> from, Memory memory, int32_t rows, int32_t width, ContentHash content)
      : ResidentFeatures(rows, width, content), from_(std::move(from)), memory_(std::move(memory)) {}
  ~CudaFeatures() override { from_->give(std::move(memory_)); }
  Status read(std::span<float> to) const override;
  int device_index() const { return from_->device().index(); }
  float* data() const { return memory_.data<float>(); }

 private:
  std::shared_ptr<FeatureMemory> from_;
  Memory memory_;
};

}  // namespace slip::cuda
