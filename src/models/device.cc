// SPDX-License-Identifier: Apache-2.0
#include "models/device.h"

#include <dlfcn.h>

#include <charconv>
#include <cstdlib>
#include <filesystem>
#include <map>
#include <mutex>
#include <vector>

namespace slip {
namespace {

namespace fs = std::filesystem;

std::vector<std::string> places(const std::string& library) {
  // A folder that is named is the only one: what lies elsewhere was not asked for.
  if (const char* folder = std::getenv("SLIPSTREAM_PLUGINS"); folder != nullptr && *folder != '\0')
    return {(fs::path(folder) / library).string()};
  std::vector<std::string> out;
  // Beside what holds this code: the library where it is a file of its own, which programs and Python link, else the program itself, whose
  // name is the one that it was called by: found through PATH it says no folder.
  std::error_code ec;
  if (Dl_info here{}; dladdr(reinterpret_cast<const void*>(&places), &here) != 0 && here.dli_fname != nullptr &&
                      std::string_view(here.dli_fname).find('/') != std::string_view::npos)
    if (const fs::path file = fs::canonical(here.dli_fname, ec); !ec) out.push_back((file.parent_path() / library).string());
  const fs::path program = fs::read_symlink("/proc/self/exe", ec);
  if (!ec) out.push_back((program.parent_path() / library).string());
  out.push_back(library);
  return out;
}

Result<const DevicePlugin*> load_plugin(const std::string& kind) {
  const std::string library = "libslipstream_" + kind + ".so";
  std::string last;
  for (const std::string& place : places(library)) {
    void* handle = dlopen(place.c_str(), RTLD_NOW | RTLD_LOCAL);
    if (handle == nullptr) {
      // The file that is there and does not load is the interesting one.
      std::error_code ec;
      const char* why = dlerror();
      if (last.empty() || fs::exists(place, ec)) last = why ? why : place;
      continue;
    }
    const auto entry = reinterpret_cast<const DevicePlugin* (*)()>(dlsym(handle, kDevicePluginSymbol));
    const DevicePlugin* plugin = entry ? entry() : nullptr;
    const DevicePlugin mine;
    if (plugin == nullptr || plugin->abi != mine.abi || plugin->options_bytes != mine.options_bytes ||
        plugin->weights_bytes != mine.weights_bytes || plugin->vision_bytes != mine.vision_bytes)
      return resource_error("{}: expected a plug-in of this build (interface {}), got {}", place, mine.abi,
                            plugin ? std::to_string(plugin->abi) : "a library without " + std::string(kDevicePluginSymbol));
    return plugin;
  }
  return resource_error(
      "device {}: expected {} in the folder that SLIPSTREAM_PLUGINS names, or beside the library or the program where it names "
      "none, "
      "got none that loads: {}",
      kind, library, last);
}

// A plug-in stays for the life of the process. Engines may be loaded by several threads at once.
Result<const DevicePlugin*> plugin_of(const std::string& kind) {
  static std::mutex loading;
  static std::map<std::string, const DevicePlugin*> loaded;
  const std::lock_guard lock(loading);
  const DevicePlugin*& plugin = loaded[kind];
  if (plugin == nullptr) {
    SLIP_TRY(plugin, load_plugin(kind));
  }
  return plugin;
}

}  // namespace

Result<DeviceName> parse_device(std::string_view word) {
  if (word == "cpu") return DeviceName{};
  DeviceName name{"cuda", 0};
  if (word == "cuda") return name;
  if (word.starts_with("cuda:")) {
    const std::string_view digits = word.substr(5);
    const auto [end, code] = std::from_chars(digits.data(), digits.data() + digits.size(), name.index);
    if (code == std::errc() && end == digits.data() + digits.size() && name.index >= 0) return name;
  }
  return usage_error("--device: expected cpu, cuda or cuda:N, got {}", word);
}

Status check_device(const DeviceName& name, const DecoderOptions& options, WeightType type) {
  SLIP_TRY(const DevicePlugin* const plugin, plugin_of(name.kind));
  return plugin->check(name.index, options, type);
}

Result<std::unique_ptr<Lm>> open_on_device(const DeviceName& name, const DecoderOptions& options, const DecoderWeights& weights,
                                           int32_t slots, ThreadPool& pool) {
  SLIP_TRY(const DevicePlugin* const plugin, plugin_of(name.kind));
  return plugin->create(name.index, options, weights, slots, pool);
}

Result<std::unique_ptr<DeviceVision>> open_vision_on_device(const DeviceName& name, const DeviceVisionWeights& weights,
                                                            ThreadPool& pool) {
  SLIP_TRY(const DevicePlugin* const plugin, plugin_of(name.kind));
  return plugin->create_vision(name.index, weights, pool);
}

Result<DeviceCeilings> device_ceilings(const DeviceName& name) {
  SLIP_TRY(const DevicePlugin* const plugin, plugin_of(name.kind));
  return plugin->ceilings(name.index);
}

}  // namespace slip
