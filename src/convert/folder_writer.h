// SPDX-License-Identifier: Apache-2.0
// Model folders that appear whole or not at all, and safetensors files whose data arrive piece by piece from many threads.
#pragma once
#include <cstdint>
#include <filesystem>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "base/beside.h"
#include "base/file.h"
#include "base/result.h"
#include "core/dtype.h"

namespace slip {

/// kUsage where a folder to write would stand in the one that is read, whose files would be copied into themselves.
Status check_outside(const std::filesystem::path& source, const std::filesystem::path& target, std::string_view command);

/// A folder that takes its name at commit(); removed with all that is in it when that never happens (error, Ctrl-C).
class AtomicFolder {
 public:
  /// Folders that lead to it are made. kBadInput when `target` exists or another process is making it; kResource when less than `bytes` are
  /// free there. What a killed process left of the same target is removed.
  static Result<AtomicFolder> create(const std::filesystem::path& target, int64_t bytes);
  AtomicFolder(AtomicFolder&& other) noexcept;
  AtomicFolder& operator=(AtomicFolder&&) = delete;
  ~AtomicFolder();
  const std::filesystem::path& path() const { return temp_; }  // where to write
  Status commit();

 private:
  AtomicFolder() = default;
  std::filesystem::path target_, temp_;
  std::vector<std::filesystem::path> made_;
  Held held_;
};

struct TensorPlan {
  std::string name;
  DType dtype{};
  std::vector<int64_t> shape;
  int64_t bytes() const;
};

/// One safetensors file. The header is written at once; data in any order, from any thread; commit when all are there.
class TensorFileWriter {
 public:
  static Result<TensorFileWriter> create(const std::filesystem::path& file, std::vector<TensorPlan> tensors,
                                         const std::map<std::string, std::string, std::less<>>& metadata = {{"format", "pt"}});
  /// Bytes `offset` ... of tensor number `tensor`.
  Status write(size_t tensor, int64_t offset, const void* data, size_t bytes);
  Status commit() { return file_.commit(); }
  const std::vector<TensorPlan>& tensors() const { return tensors_; }

 private:
  TensorFileWriter(AtomicFile file, std::vector<TensorPlan> tensors) : file_(std::move(file)), tensors_(std::move(tensors)) {}
  AtomicFile file_;
  std::vector<TensorPlan> tensors_;
  std::vector<int64_t> begin_;  // of each tensor's data in the file
};

}  // namespace slip
