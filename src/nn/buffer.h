// SPDX-License-Identifier: Apache-2.0
// Grow-only memory for activations, 64-byte aligned: sized by the largest pass seen, so that a steady-state pass allocates
// nothing. Contents are not kept when it grows and not cleared when it is reused.
#pragma once
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <memory>

#include "base/large_pages.h"

namespace slip {

/// Numbers of a matrix of a x b.
inline size_t count(int64_t a, int64_t b) { return static_cast<size_t>(a) * static_cast<size_t>(b); }
inline void copy_floats(float* to, const float* from, int64_t n) { std::memcpy(to, from, static_cast<size_t>(n) * sizeof(float)); }

class FloatBuffer {
 public:
  /// At least `count` floats, contents undefined.
  float* grow(size_t count) {
    if (count > count_) {
      const size_t bytes = (count * sizeof(float) + 63) / 64 * 64;
      memory_.reset();
      count_ = 0;
      memory_.reset(static_cast<float*>(allocate_numbers(bytes)));
      count_ = bytes / sizeof(float);
    }
    return memory_.get();
  }
  float* data() const { return memory_.get(); }
  size_t bytes() const { return count_ * sizeof(float); }

 private:
  struct Free {
    void operator()(float* p) const { std::free(p); }
  };
  std::unique_ptr<float, Free> memory_;
  size_t count_ = 0;
};

}  // namespace slip
