// SPDX-License-Identifier: Apache-2.0
#include "kernels/probe.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdlib>
#include <memory>
#include <vector>

#include "kernels/ops.h"

namespace slip {
namespace {

using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point t) { return std::chrono::duration<double>(Clock::now() - t).count(); }

/// Shortest of the repeats of f that fit into `budget` seconds, at least 3.
template <class F>
double shortest(double budget, const F& f) {
  const Clock::time_point begin = Clock::now();
  double best = 1e9;
  for (int i = 0; i < 3 || seconds_since(begin) < budget; i++) {
    const Clock::time_point t = Clock::now();
    f();
    best = std::min(best, seconds_since(t));
  }
  return best;
}

}  // namespace

double read_bandwidth_gbps(ThreadPool& pool) {
  constexpr size_t kBytes = size_t{256} << 20, kPiece = 1 << 20, kSlice = 64;  // slices of 64 MiB: twice a large L3, about 1 ms
  const std::unique_ptr<uint64_t[]> memory(new uint64_t[kBytes / 8]);
  pool.run(kBytes / kPiece, [&](int64_t i) { std::fill_n(memory.get() + i * (kPiece / 8), kPiece / 8, uint64_t(i)); });
  std::atomic<uint64_t> keep{0};
  size_t slice = 0;
  const double best = shortest(0.05, [&] {
    const uint64_t* p = memory.get() + (slice++ % (kBytes / kPiece / kSlice)) * kSlice * (kPiece / 8);
    pool.run(kSlice, [&](int64_t i) {
      const uint64_t* q = p + i * (kPiece / 8);
      uint64_t a[8] = {};
      for (size_t k = 0; k < kPiece / 8; k += 32) {  // 4 lines at a time
        __builtin_prefetch(q + k + 512);
        __builtin_prefetch(q + k + 520);
        __builtin_prefetch(q + k + 528);
        __builtin_prefetch(q + k + 536);
        for (size_t l = 0; l < 32; l++) a[l % 8] += q[k + l];
      }
      keep += a[0] + a[1] + a[2] + a[3] + a[4] + a[5] + a[6] + a[7];
    });
  });
  return keep == 1 ? 0 : double(kSlice * kPiece) / best * 1e-9;
}

double dot_gops(WeightType type, ThreadPool& pool) {
  constexpr int64_t kRows = 16, kRepeats = 2000, kSteps = kChunkSteps;
  const auto product = ops().product[static_cast<int>(type)];
  const std::vector<Word> w(kSteps * kBlockColumns), x(kRows * kSteps);
  const double best = shortest(0.05, [&] {
    pool.run(pool.threads(), [&](int64_t) {
      alignas(64) Word sums[kRows * kBlockColumns];
      for (int64_t i = 0; i < kRepeats; i++)
        product({.x = x.data(), .ldx = kSteps, .rows = kRows, .steps = kSteps, .w = w.data(), .w_end = w.data(), .sums = sums});
    });
  });
  const double per_word = type == WeightType::kF32 ? 1 : type == WeightType::kBF16 ? 2 : 4;
  return 2 * per_word * double(kRows * kSteps * kBlockColumns) * kRepeats * pool.threads() / best * 1e-9;
}

double fork_join_ns(ThreadPool& pool) {
  constexpr int kRuns = 200;
  const double best = shortest(0.02, [&] {
    for (int i = 0; i < kRuns; i++) pool.run(pool.threads(), [](int64_t) {});
  });
  return best / kRuns * 1e9;
}

}  // namespace slip
