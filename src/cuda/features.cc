// SPDX-License-Identifier: Apache-2.0
#include "cuda/features.h"

#include <algorithm>

namespace slip::cuda {

/// One that is not much larger: what is counted is what was asked for.
std::optional<Memory> FeatureMemory::find(size_t bytes) {
  const std::lock_guard lock(mutex_);
  const auto fits = [&](const Memory& m) { return m.bytes() >= bytes && m.bytes() - bytes <= bytes / 8; };
  const auto found = std::ranges::find_if(kept_, fits);
  if (found == kept_.end()) return std::nullopt;
  Memory memory = std::move(*found);
  kept_.erase(found);
  kept_bytes_ -= memory.bytes();
  return memory;
}

void FeatureMemory::drop_kept() {
  const std::lock_guard lock(mutex_);
  kept_.clear();
  kept_bytes_ = 0;
}

Result<Memory> FeatureMemory::take(size_t bytes) {
  if (auto kept = find(bytes)) return std::move(*kept);
  if (auto fresh = device_->allocate(bytes, "image features")) return fresh;
  drop_kept();
  return device_->allocate(bytes, "image features");
}

void FeatureMemory::give(Memory memory) {
  const std::lock_guard lock(mutex_);
  if (memory.bytes() > kMostKept) return;
  for (; kept_bytes_ + memory.bytes() > kMostKept; kept_.erase(kept_.begin())) kept_bytes_ -= kept_.front().bytes();
  kept_bytes_ += memory.bytes();
  kept_.push_back(std::move(memory));
}

Status CudaFeatures::read(std::span<float> to) const {
  Device& device = from_->device();
  const Status asked = device.copy_out(to.data(), data(), numbers() * sizeof(float));
  const Status ended = device.wait();  // after a failure too: `to` is the caller's
  return asked ? ended : asked;
}

}  // namespace slip::cuda
