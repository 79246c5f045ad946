// SPDX-License-Identifier: Apache-2.0
// The device of gpu_emulated.h: memory is memory, work is done when it is asked for.
#include <cstring>

#include "cuda/device/gpu_emulated.h"
#include "cuda/device/runtime.h"

namespace slip::cuda {
namespace {

/// As a device's: kernels with what they were given when the work was captured, whatever has become of it since.
struct EmulatedGraph final : Graph {
  gpu::Captured work;
};

class Emulated final : public Device {
 public:
  const std::string& name() const override { return name_; }
  int index() const override { return 0; }
  bool loads_late() const override { return false; }
  void* stream() override { return nullptr; }
  int64_t free_bytes() override { return int64_t{1} << 40; }
  ProbeSize probe_size() const override { return {1 << 16, 2, 1, 2}; }
  Status copy_in(void* to, const void* from, size_t bytes) override { return copy(to, from, bytes); }
  Status copy_out(void* to, const void* from, size_t bytes) override { return copy(to, from, bytes); }
  Status wait() override { return {}; }
  Result<std::unique_ptr<Graph>> capture(const std::function<Status()>& work) override {
    auto graph = std::make_unique<EmulatedGraph>();
    gpu::capturing() = &graph->work;
    const Status done = work();
    gpu::capturing() = nullptr;
    SLIP_TRY_(done);
    return std::unique_ptr<Graph>(std::move(graph));
  }
  Status launch(Graph& graph) override {
    for (const auto& work : static_cast<EmulatedGraph&>(graph).work) work();
    return {};
  }

 private:
  static Status copy(void* to, const void* from, size_t bytes) {
    gpu::run_or_capture([=] {
      if (bytes > 0) std::memcpy(to, from, bytes);
    });
    return {};
  }
  Result<std::shared_ptr<void>> get(size_t bytes, bool, std::string_view what) override {
    const size_t whole = (bytes + 255) / 256 * 256;
    void* p = std::aligned_alloc(256, whole);
    if (p == nullptr) return resource_error("{}: expected {} bytes of memory, got none", what, bytes);
    return std::shared_ptr<void>(std::memset(p, 0, whole), [whole](void* q) {
      std::memset(q, 0xFF, whole);  // numbers that are none: whoever still reads them shows it
      std::free(q);
    });
  }
  std::string name_ = "emulated";
};

}  // namespace

Result<std::unique_ptr<Device>> Device::open(int index) {
  if (index != 0) return resource_error("cuda:{}: expected device 0 of an emulation, got {}", index, index);
  return std::unique_ptr<Device>(std::make_unique<Emulated>());
}

}  // namespace slip::cuda
