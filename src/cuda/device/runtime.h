// SPDX-License-Identifier: Apache-2.0
// A device as the host sees it: memory, copies, one stream, passes captured once and launched again. Two implementations: runtime_nvidia.cc
// (CUDA's runtime) and emulated/runtime.cc (plain memory). Every failure is kResource and says what was asked for and what the
// driver said; after a lost device every call says so again.
#pragma once
#include <cstddef>
#include <functional>
#include <memory>
#include <string>

#include "base/result.h"

namespace slip::cuda {

class Device;

/// Device memory, or page-locked memory of the host; freed with it. Must not outlive its device.
class Memory {
 public:
  Memory() = default;
  template <class T = void>
  T* data() const {
    return static_cast<T*>(data_.get());
  }
  size_t bytes() const { return bytes_; }

 private:
  friend class Device;
  std::shared_ptr<void> data_;
  size_t bytes_ = 0;
};

/// Work that was captured; launched as often as one likes.
class Graph {
 public:
  virtual ~Graph() = default;
};

/// How much a measurement of the ceilings should ask for: a few milliseconds of work per slice.
struct ProbeSize {
  int64_t bytes = 0;
  int blocks = 0, repeats = 0, multiply_turns = 0;
};

class Device {
 public:
  /// Number `index` of this machine. kResource when there is no driver, no such device, or one that is too old (before sm_80).
  static Result<std::unique_ptr<Device>> open(int index);
  virtual ~Device() = default;
  virtual const std::string& name() const = 0;
  virtual int index() const = 0;
  virtual void* stream() = 0;
  virtual int64_t free_bytes() = 0;
  /// Does the first launch of a kernel take much longer than others?
  virtual bool loads_late() const = 0;
  virtual ProbeSize probe_size() const = 0;

  /// Zeroed; `what` is for the message.
  Result<Memory> allocate(size_t bytes, std::string_view what);
  Result<Memory> allocate_host(size_t bytes, std::string_view what);
  /// At least so much page-locked memory for what is on its way; drop_staging() gives it back.
  Result<void*> staging(size_t bytes);
  size_t staging_bytes() const { return staging_.bytes(); }
  void drop_staging() { staging_ = {}; }
  /// Behind everything that was asked for before. `from` stays as it is until the next wait.
  virtual Status copy_in(void* to, const void* from, size_t bytes) = 0;
  virtual Status copy_out(void* to, const void* from, size_t bytes) = 0;
  /// Until all is done; an error of any kernel since the last wait comes out here.
  virtual Status wait() = 0;
  /// `work` launches kernels and copies on stream(); nothing runs yet.
  virtual Result<std::unique_ptr<Graph>> capture(const std::function<Status()>& work) = 0;
  virtual Status launch(Graph& graph) = 0;

 protected:
  virtual Result<std::shared_ptr<void>> get(size_t bytes, bool host, std::string_view what) = 0;

 private:
  Memory staging_;
};

}  // namespace slip::cuda
