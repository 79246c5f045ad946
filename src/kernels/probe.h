// SPDX-License-Identifier: Apache-2.0
// What this machine can do at best, measured in this process: the ceilings beside which times are printed. Cores of
// shared machines are taken away for milliseconds, so each is the best of many slices of about a millisecond, under 150
// ms in all.
#pragma once
#include <cstdint>
#include <memory>

#include "base/threads/threads.h"
#include "kernels/kernels.h"

namespace slip {

/// The memory of read_bandwidth_gbps, kept between readings: one takes some 20 ms then, and can stand between two measurements.
class ReadProbe {
 public:
  explicit ReadProbe(ThreadPool& pool);
  double gbps(double seconds = 0.02);

 private:
  ThreadPool& pool_;
  std::unique_ptr<uint32_t[]> memory_;
  int64_t slice_ = 0;
};
/// Streaming read of memory far larger than the caches, all threads of the pool, 1e9 bytes per second. Allocates 256
/// MiB.
double read_bandwidth_gbps(ThreadPool& pool);
/// 1e9 operations (a multiply and an add are two) per second of this instruction set's product loop out of the L1.
double dot_gops(WeightType type, ThreadPool& pool);
/// Nanoseconds of an empty ThreadPool::run over as many items as threads.
double fork_join_ns(ThreadPool& pool);

}  // namespace slip
