// SPDX-License-Identifier: Apache-2.0
#include "kernels/probe.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdlib>
#include <memory>
#include <vector>

#include "kernels/isa/ops.h"
#include "kernels/packed_layout.h"

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

namespace {
constexpr int64_t kPieceWords = 1 << 18, kPieces = 256, kSlice = 64;  // slices of 64 MiB, about a millisecond; 256 MiB in all
}

ReadProbe::ReadProbe(ThreadPool& pool) : pool_(pool), memory_(new uint32_t[kPieces * kPieceWords]) {
  pool.run(kPieces, [&](int64_t i) { std::fill_n(memory_.get() + i * kPieceWords, kPieceWords, static_cast<uint32_t>(i)); });
}

double ReadProbe::gbps(double seconds) {
  std::atomic<uint32_t> keep{0};
  const double best = shortest(seconds, [&] {
    const uint32_t* p = memory_.get() + (slice_++ % (kPieces / kSlice)) * kSlice * kPieceWords;
    pool_.run(kSlice, [&](int64_t i) { keep += ops().fold(p + i * kPieceWords, kPieceWords); });
  });
  return static_cast<double>(kSlice * kPieceWords * int64_t{sizeof(Word)}) / best * 1e-9;
}

double read_bandwidth_gbps(ThreadPool& pool) { return ReadProbe(pool).gbps(0.05); }

namespace {

struct alignas(64) Line {
  uint32_t words[16];
};

/// Any bits as integers; of f32 and bf16 small numbers of either sign. Aligned as a packed matrix is.
std::vector<Line> some_words(WeightType type, int64_t count) {
  const uint32_t keep = type == WeightType::kF32 ? 0x807fffffU : type == WeightType::kBF16 ? 0x807f807fU : ~0U;
  const uint32_t set = type == WeightType::kF32 ? 0x3c000000U : type == WeightType::kBF16 ? 0x3c003c00U : 0;
  std::vector<Line> out(static_cast<size_t>(count) / std::size(Line{}.words));
  uint64_t state = 0x9e3779b97f4a7c15U;
  for (Line& line : out)
    for (uint32_t& word : line.words) {
      state ^= state << 13, state ^= state >> 7, state ^= state << 17;
      word = (static_cast<uint32_t>(state >> 16) & keep) | set;
    }
  return out;
}

}  // namespace

double dot_gops(WeightType type, ThreadPool& pool) {
  constexpr int64_t kRows = 16, kRepeats = 2000, kSteps = kChunkSteps;
  // The peak of int4 is that of the int8 dot products that it is made of.
  const auto product = ops().product[static_cast<int>(type == WeightType::kI4 ? WeightType::kI8 : type)];
  // Numbers as products have them: with zeros a matrix unit runs half as fast again (docs/lab/0028-amx.md).
  const std::vector<Line> w = some_words(type, kSteps * kBlockColumns), x = some_words(type, kRows * kSteps * 2);
  const double best = shortest(0.05, [&] {
    pool.run(pool.threads(), [&](int64_t) {
      alignas(64) Word sums[kRows * kBlockColumns];
      for (int64_t i = 0; i < kRepeats; i++)
        product({.x = x.front().words,
                 .ldx = kSteps * ops().x_words[static_cast<int>(type)],
                 .rows = kRows,
                 .steps = kSteps,
                 .w = w.data(),
                 .sums = sums});
    });
  });
  const double per_word = static_cast<double>(kNumbersPerWord[static_cast<int>(type)]);
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
