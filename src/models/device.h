// SPDX-License-Identifier: Apache-2.0
// `--device cpu|cuda:N`: finds a device's plug-in in SLIPSTREAM_PLUGINS, or beside the library or the program or where the system's loader looks, and opens a
// decoder or a vision tower on it. Nothing here knows what a device is.
#pragma once
#include <string>
#include <string_view>

#include "base/result.h"
#include "nn/device_plugin.h"

namespace slip {

struct DeviceName {
  std::string kind = "cpu";  // "cpu" or "cuda"
  int index = 0;
  bool cpu() const { return kind == "cpu"; }
  std::string text() const { return cpu() ? kind : kind + ":" + std::to_string(index); }
};
/// "cpu", "cuda", "cuda:1"; kUsage for anything else.
Result<DeviceName> parse_device(std::string_view word);

/// Loads the plug-in once per process, as those below do. kResource with the reason when it is missing, stale, or finds no device; kUnsupported for
/// a decoder of weights of this type that has no kernels there.
Status check_device(const DeviceName& name, const DecoderOptions& options, WeightType type);

/// Errors as above.
Result<std::unique_ptr<Lm>> open_on_device(const DeviceName& name, const DecoderOptions& options, const DecoderWeights& weights,
                                           int32_t slots, ThreadPool& pool);

/// A vision tower there. Errors as above; kUnsupported for what has no kernel on the device.
Result<std::unique_ptr<DeviceVision>> open_vision_on_device(const DeviceName& name, const DeviceVisionWeights& weights,
                                                            ThreadPool& pool);

/// What it can do at best (nn/device_plugin.h); not for the processor. Errors as above.
Result<DeviceCeilings> device_ceilings(const DeviceName& name);

}  // namespace slip
