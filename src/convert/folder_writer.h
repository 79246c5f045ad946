// SPDX-License-Identifier: Apache-2.0
// Safetensors files whose data arrive piece by piece from many threads, and where a folder that is made of another one may stand.
#pragma once
#include <cstdint>
#include <filesystem>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "base/file.h"
#include "base/result.h"
#include "core/dtype.h"

namespace slip {

/// kUsage where a folder to write would stand in the one that is read, whose files would be copied into themselves.
Status check_outside(const std::filesystem::path& source, const std::filesystem::path& target, std::string_view command);

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
