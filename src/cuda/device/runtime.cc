// SPDX-License-Identifier: Apache-2.0
#include "cuda/device/runtime.h"

namespace slip::cuda {

Result<Memory> Device::allocate(size_t bytes, std::string_view what) {
  Memory m;
  SLIP_TRY(m.data_, get(bytes > 0 ? bytes : 1, false, what));
  m.bytes_ = bytes;
  return m;
}

Result<Memory> Device::allocate_host(size_t bytes, std::string_view what) {
  Memory m;
  SLIP_TRY(m.data_, get(bytes > 0 ? bytes : 1, true, what));
  m.bytes_ = bytes;
  return m;
}

Result<void*> Device::staging(size_t bytes) {
  if (staging_.bytes() < bytes) {
    staging_ = {};
    SLIP_TRY(staging_, allocate_host(bytes, "weights on their way"));
  }
  return staging_.data();
}

}  // namespace slip::cuda
