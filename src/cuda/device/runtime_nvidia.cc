// SPDX-License-Identifier: Apache-2.0
// CUDA's runtime behind runtime.h.
#include <cuda_runtime.h>

#include "cuda/device/runtime.h"

namespace slip::cuda {
namespace {

constexpr int kOldestMajor = 8;  // sm_80: the first with bf16 matrix instructions and asynchronous copies

Status said(cudaError_t code, std::string_view asked) {
  if (code == cudaSuccess) return {};
  cudaGetLastError();  // told here; the next pass may be right
  return resource_error("cuda: expected {} to succeed, got {}: {}", asked, cudaGetErrorName(code), cudaGetErrorString(code));
}

struct NvidiaGraph final : Graph {
  cudaGraphExec_t exec = nullptr;
  ~NvidiaGraph() override {
    if (exec != nullptr) cudaGraphExecDestroy(exec);
  }
};

class Nvidia final : public Device {
 public:
  Nvidia(int index, std::string name, cudaStream_t stream) : index_(index), name_(std::move(name)), stream_(stream) {}
  ~Nvidia() override { cudaStreamDestroy(stream_); }
  const std::string& name() const override { return name_; }
  int index() const override { return index_; }
  bool loads_late() const override { return true; }
  void* stream() override { return stream_; }
  int64_t free_bytes() override {
    choose();
    size_t free = 0, total = 0;
    return cudaMemGetInfo(&free, &total) == cudaSuccess ? static_cast<int64_t>(free) : 0;
  }
  // Eight blocks per processor of a large device; 10 GB and 1e13 operations a slice: milliseconds on an H100.
  ProbeSize probe_size() const override { return {int64_t{1} << 30, 1056, 10, 4096}; }
  Status copy_in(void* to, const void* from, size_t bytes) override {
    choose();
    return said(cudaMemcpyAsync(to, from, bytes, cudaMemcpyHostToDevice, stream_), "a copy to the device");
  }
  Status copy_out(void* to, const void* from, size_t bytes) override {
    choose();
    return said(cudaMemcpyAsync(to, from, bytes, cudaMemcpyDeviceToHost, stream_), "a copy from the device");
  }
  Status wait() override {
    choose();
    // A launch that was refused does not end the wait: what was launched before it still reads and writes.
    const Status launched = said(cudaGetLastError(), "a kernel's launch"), ended = said(cudaStreamSynchronize(stream_), "a pass");
    return launched ? ended : launched;
  }
  Result<std::unique_ptr<Graph>> capture(const std::function<Status()>& work) override {
    choose();
    SLIP_TRY_(said(cudaStreamBeginCapture(stream_, cudaStreamCaptureModeThreadLocal), "the beginning of a capture"));
    Status done = work();
    // A launch that was refused leaves the capture valid, and a graph without it.
    if (done) done = said(cudaGetLastError(), "a kernel's launch");
    cudaGraph_t graph = nullptr;
    const Status ended = said(cudaStreamEndCapture(stream_, &graph), "the end of a capture");
    if (done) done = ended;
    auto made = std::make_unique<NvidiaGraph>();
    if (done) done = said(cudaGraphInstantiate(&made->exec, graph, 0), "a captured pass");
    if (graph != nullptr) cudaGraphDestroy(graph);
    SLIP_TRY_(done);
    return std::unique_ptr<Graph>(std::move(made));
  }
  Status launch(Graph& graph) override {
    choose();
    return said(cudaGraphLaunch(static_cast<NvidiaGraph&>(graph).exec, stream_), "a captured pass");
  }

 private:
  // The current device is each thread's own, and another model may have chosen another.
  void choose() const { cudaSetDevice(index_); }
  Result<std::shared_ptr<void>> get(size_t bytes, bool host, std::string_view what) override {
    choose();
    void* p = nullptr;
    const cudaError_t code = host ? cudaMallocHost(&p, bytes) : cudaMalloc(&p, bytes);
    if (code != cudaSuccess) {
      cudaGetLastError();  // not sticky: the next request may be smaller
      return resource_error("{} ({}): expected {} MB for {}, got {}; {} MB are free", name_, index_, (bytes >> 20) + 1, what,
                            cudaGetErrorString(code), free_bytes() >> 20);
    }
    if (host) return std::shared_ptr<void>(p, [](void* q) { cudaFreeHost(q); });
    std::shared_ptr<void> memory(p, [](void* q) { cudaFree(q); });
    SLIP_TRY_(said(cudaMemsetAsync(p, 0, bytes, stream_), "clearing memory"));
    return memory;
  }
  int index_;
  std::string name_;
  cudaStream_t stream_;
};

}  // namespace

Result<std::unique_ptr<Device>> Device::open(int index) {
  int count = 0;
  if (const cudaError_t code = cudaGetDeviceCount(&count); code != cudaSuccess)
    return resource_error("cuda:{}: expected a driver and a device, got {}", index, cudaGetErrorString(code));
  if (index < 0 || index >= count) return resource_error("cuda:{}: expected one of {} devices, got number {}", index, count, index);
  SLIP_TRY_(said(cudaSetDevice(index), "choosing the device"));
  cudaDeviceProp properties{};
  SLIP_TRY_(said(cudaGetDeviceProperties(&properties, index), "its properties"));
  if (properties.major < kOldestMajor)
    return resource_error("cuda:{}: expected compute capability {}.0 or later, got {}.{} ({})", index, kOldestMajor,
                          properties.major, properties.minor, properties.name);
  cudaStream_t stream = nullptr;
  SLIP_TRY_(said(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), "a stream"));
  return std::unique_ptr<Device>(std::make_unique<Nvidia>(index, properties.name, stream));
}

}  // namespace slip::cuda
