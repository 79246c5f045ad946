// SPDX-License-Identifier: Apache-2.0
// What a device's plug-in gives the engine: a decoder and a vision tower that run there. The library is looked for at run time (models/device.h), so the engine
// links nothing of a device and runs where there is none. Both sides are built from one tree; `abi` tells a stale one.
#pragma once
#include <cstdint>
#include <memory>
#include <string>

#include "base/threads/threads.h"
#include "nn/decoder.h"
#include "nn/device_vision.h"

namespace slip {

/// Changes with every change of a type that crosses.
inline constexpr uint32_t kDeviceAbi = 8;

/// Of a device, measured on it.
struct DeviceCeilings {
  std::string name;
  double read_gbps = 0;  // of its memory, 1e9 bytes per second
  double dot_gops = 0;   // of its products' matrix instruction, 1e9 operations per second; a multiply and an add are two
};

struct DevicePlugin {
  uint32_t abi = kDeviceAbi;
  uint32_t options_bytes = sizeof(DecoderOptions);
  uint32_t weights_bytes = sizeof(DecoderWeights);
  uint32_t vision_bytes = sizeof(DeviceVisionWeights) + sizeof(DeviceVisionBlock) + sizeof(DeviceVisionPass) + sizeof(DeviceImage);
  /// What create() would refuse of weights of this type, before any is read: kResource where there is no such device, kUnsupported for what has no
  /// kernel there.
  Status (*check)(int index, const DecoderOptions& options, WeightType type) = nullptr;
  /// Weights are copied; `pool` is used during the call only. kResource for anything about the device.
  Result<std::unique_ptr<Lm>> (*create)(int index, const DecoderOptions& options, const DecoderWeights& weights, int32_t slots,
                                        ThreadPool& pool) = nullptr;
  /// Weights are copied; kUnsupported for what has no kernel there.
  Result<std::unique_ptr<DeviceVision>> (*create_vision)(int index, const DeviceVisionWeights& weights, ThreadPool& pool) = nullptr;
  /// kResource as above.
  Result<DeviceCeilings> (*ceilings)(int index) = nullptr;
};

/// The library's one symbol: extern "C" const DevicePlugin* slipstream_device_plugin().
inline constexpr const char* kDevicePluginSymbol = "slipstream_device_plugin";

}  // namespace slip
