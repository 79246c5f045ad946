// SPDX-License-Identifier: Apache-2.0
#include "cuda/features.h"

#include <algorithm>

namespace slip::cuda {

Result<Memory> FeatureMemory::take(size_t bytes) {
  {
    const std::lock_guard lock(mutex_);
    const auto fits = [&](const Memory& m) { return m.bytes() >= bytes && m.bytes() / 2 <= bytes; };
    if (const auto found = std::ranges::find_if(kept_, fits); found != kept_.end()) {
      Memory memory = std::move(*found);
      kept_.erase(found);
      return memory;
    }
  }
  return device_->allocate(bytes, "image features");
}

void FeatureMemory::give(Memory memory) {
  const std::lock_guard lock(mutex_);
  if (kept_.size() == kMostKept) kept_.erase(kept_.begin());
  kept_.push_back(std::move(memory));
}

Status CudaFeatures::read(std::span<float> to) const {
  Device& device = from_->device();
  const Status asked = device.copy_out(to.data(), data(), numbers() * sizeof(float));
  const Status ended = device.wait();  // after a failure too: `to` is the caller's
  return asked ? ended : asked;
}

}  // namespace slip::cuda
