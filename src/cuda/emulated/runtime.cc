// SPDX-License-Identifier: Apache-2.0
// The device of gpu_emulated.h: memory is memory, work is done when it is asked for.
#include <cstring>

#include "cuda/runtime.h"

namespace slip::cuda {
namespace {

struct EmulatedGraph final : Graph {
  std::function<Status()> work;
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
    graph->work = work;
    return std::unique_ptr<Graph>(std::move(graph));
  }
  Status launch(Graph& graph) override { return static_cast<EmulatedGraph&>(graph).work(); }

 private:
  static Status copy(void* to, const void* from, size_t bytes) {
    if (bytes > 0) std::memcpy(to, from, bytes);
    return {};
  }
  Result<std::shared_ptr<void>> get(size_t bytes, bool, std::string_view what) override {
    const size_t whole = (bytes + 255) / 256 * 256;
    void* p = std::aligned_alloc(256, whole);
    if (p == nullptr) return resource_error("{}: expected {} bytes of memory, got none", what, bytes);
    return std::shared_ptr<void>(std::memset(p, 0, whole), std::free);
  }
  std::string name_ = "emulated";
};

}  // namespace

Result<std::unique_ptr<Device>> Device::open(int index) {
  if (index != 0) return resource_error("cuda:{}: expected device 0 of an emulation, got {}", index, index);
  return std::unique_ptr<Device>(std::make_unique<Emulated>());
}

}  // namespace slip::cuda
