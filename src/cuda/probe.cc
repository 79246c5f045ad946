// SPDX-License-Identifier: Apache-2.0
#include "cuda/probe.h"

#include <algorithm>
#include <chrono>

#include "cuda/probe_kernels.h"

namespace slip::cuda {
namespace {

using Clock = std::chrono::steady_clock;

constexpr int kSlices = 8;
constexpr size_t kPiece = size_t{kProbeThreads} * kProbeReads * 16;  // of a block and turn

/// Seconds of `work`, its launches included: the shortest of kSlices after one that warms up.
template <class F>
Result<double> shortest(Device& device, const F& work) {
  double best = 1e300;
  for (int i = 0; i <= kSlices; ++i) {
    const auto start = Clock::now();
    work();
    SLIP_TRY_(device.wait());
    const double took = std::chrono::duration<double>(Clock::now() - start).count();
    if (i > 0) best = std::min(best, took);
  }
  return best;
}

}  // namespace

Result<DeviceCeilings> measure_ceilings(Device& device) {
  const ProbeSize size = device.probe_size();
  const int64_t most = std::min(size.bytes, device.free_bytes() / 4);
  const int turns = static_cast<int>(std::max<int64_t>(1, most / (size.blocks * static_cast<int64_t>(kPiece))));
  const size_t bytes = static_cast<size_t>(turns) * static_cast<size_t>(size.blocks) * kPiece;
  SLIP_TRY(const Memory words, device.allocate(bytes, "measuring the read bandwidth"));
  SLIP_TRY(const Memory out, device.allocate(sizeof(float) * static_cast<size_t>(size.blocks), "measuring the ceilings"));
  SLIP_TRY(const double read, shortest(device, [&] {
             for (int i = 0; i < size.repeats; ++i)
               probe_read({words.data(), size.blocks, turns, out.data<uint32_t>()}, device.stream());
           }));
  const double warps = size.blocks * (kProbeThreads / 32.0);
  SLIP_TRY(const double multiply, shortest(device, [&] {
             for (int i = 0; i < size.repeats; ++i)
               probe_multiply({size.multiply_turns, 0x3f813f81u, out.data<float>()}, size.blocks, device.stream());
           }));
  return DeviceCeilings{device.name(), static_cast<double>(bytes) * size.repeats / read * 1e-9,
                        warps * size.multiply_turns * size.repeats * kProbeOperations / multiply * 1e-9};
}

}  // namespace slip::cuda
