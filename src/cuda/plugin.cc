// SPDX-License-Identifier: Apache-2.0
// libslipstream_cuda.so's one symbol.
#include "cuda/cuda_lm.h"
#include "cuda/cuda_vision.h"
#include "cuda/probe.h"
#include "nn/device_plugin.h"

namespace {

slip::Status check(int index, const slip::DecoderOptions& options, slip::WeightType type) {
  SLIP_TRY(const auto device, slip::cuda::Device::open(index));
  return slip::cuda::CudaLm::check(*device, options, type);
}

slip::Result<std::unique_ptr<slip::Lm>> create(int index, const slip::DecoderOptions& options, const slip::DecoderWeights& weights,
                                               int32_t slots, slip::ThreadPool& pool) {
  SLIP_TRY(auto device, slip::cuda::Device::open(index));
  const bool late = device->loads_late();
  SLIP_TRY(auto lm, slip::cuda::CudaLm::create(std::move(device), options, weights, slots, pool));
  if (late) SLIP_TRY_(lm->capture_usual());
  return std::unique_ptr<slip::Lm>(std::move(lm));
}

slip::Result<std::unique_ptr<slip::DeviceVision>> create_vision(int index, const slip::DeviceVisionWeights& weights,
                                                                slip::ThreadPool& pool) {
  SLIP_TRY(auto device, slip::cuda::Device::open(index));
  SLIP_TRY(auto vision, slip::cuda::CudaVision::create(std::move(device), weights, pool));
  return std::unique_ptr<slip::DeviceVision>(std::move(vision));
}

slip::Result<slip::DeviceCeilings> ceilings(int index) {
  SLIP_TRY(auto device, slip::cuda::Device::open(index));
  return slip::cuda::measure_ceilings(*device);
}

}  // namespace

extern "C" __attribute__((visibility("default"))) const slip::DevicePlugin* slipstream_device_plugin() {
  static const slip::DevicePlugin plugin{.check = check, .create = create, .create_vision = create_vision, .ceilings = ceilings};
  return &plugin;
}
