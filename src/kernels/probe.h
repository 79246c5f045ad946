// SPDX-License-Identifier: Apache-2.0
// What this machine can do at best, measured in this process: the ceilings beside which times are printed. Cores of
// shared machines are taken away for milliseconds, so each is the best of many slices of about a millisecond, under 150
// ms in all.
#pragma once
#include "base/threads.h"
#include "kernels/kernels.h"

namespace slip {

/// Streaming read of memory far larger than the caches, all threads of the pool, 1e9 bytes per second. Allocates 256
/// MiB.
double read_bandwidth_gbps(ThreadPool& pool);
/// 1e9 operations (a multiply and an add are two) per second of this instruction set's product loop out of the L1.
double dot_gops(WeightType type, ThreadPool& pool);
/// Nanoseconds of an empty ThreadPool::run over as many items as threads.
double fork_join_ns(ThreadPool& pool);

}  // namespace slip
