// SPDX-License-Identifier: Apache-2.0
// Bytes that several hold together, up to a limit.
#pragma once
#include <atomic>
#include <cstdint>
#include <memory>

namespace slip {

/// Thread-safe.
class Room {
 public:
  explicit Room(int64_t most) : most_(most), held_(std::make_shared<std::atomic<int64_t>>(0)) {}
  int64_t most() const { return most_; }
  /// So many bytes until the last owner of what comes back is gone, who may outlive the room; null where they do not fit beside what others
  /// hold. Whoever is alone always fits.
  std::shared_ptr<void> take(int64_t bytes) {
    int64_t held = *held_;
    do {
      if (held > 0 && bytes > most_ - held) return nullptr;
    } while (!held_->compare_exchange_weak(held, held + bytes));
    return {held_.get(), [all = held_, bytes](void*) { *all -= bytes; }};
  }

 private:
  int64_t most_;
  std::shared_ptr<std::atomic<int64_t>> held_;
};

}  // namespace slip
