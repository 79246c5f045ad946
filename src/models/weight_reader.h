// SPDX-License-Identifier: Apache-2.0
// From a checkpoint's tensors to packed matrices, in two goes over the same list of wishes: first `check`, which touches no
// data and finds everything that is missing, misshapen or of a type that is not read, and the memory needed; then `load`,
// which packs and refuses numbers that are not finite, there or in the type that they are packed as.
#pragma once
#include <functional>
#include <string>
#include <vector>

#include "base/result.h"
#include "core/safetensors.h"
#include "kernels/kernels.h"

namespace slip {

/// Bytes of tensors read so far, and in all.
using LoadProgress = std::function<void(int64_t done, int64_t total)>;

class WeightReader {
 public:
  /// A stored tensor; `shape` outermost first. A matrix's rows are shape[0], its columns the product of the rest.
  struct Part {
    std::string name;
    std::vector<int64_t> shape;
  };
  WeightReader(const Checkpoint& checkpoint, ThreadPool& pool, LoadProgress progress)
      : checkpoint_(checkpoint), pool_(pool), progress_(std::move(progress)) {}

  /// The parts stacked along the rows, packed as `type`. Empty while checking.
  PackedMatrix matrix(WeightType type, const std::vector<Part>& parts);
  /// The parts one behind the other as f32. Empty while checking.
  std::vector<float> vector(const std::vector<Part>& parts);

  /// Ends the first go: kBadInput lists what is missing, else names the first tensor of a wrong shape or type; kUnsupported for int8
  /// matrices with more columns than int32 sums hold.
  Status end_check();
  /// Ends the second go: kBadInput names a tensor with a NaN or an infinity, or with a number beyond bf16's largest and which.
  Status end_load() const;
  /// After the first go: bytes that the packed matrices and vectors will take.
  int64_t bytes_needed() const { return bytes_needed_; }

 private:
  bool note(const std::vector<Part>& parts, WeightType type);
  void advance(const std::vector<const TensorView*>& views);
  void note_bad(const TensorView& view, float value);
  const Checkpoint& checkpoint_;
  ThreadPool& pool_;
  LoadProgress progress_;
  bool checking_ = true;
  std::vector<std::string> missing_;
  Status wrong_;
  int64_t bytes_needed_ = 0, bytes_total_ = 0, bytes_done_ = 0;
  std::string bad_tensor_;  // the first with numbers that cannot be packed
  float bad_value_ = 0;
};

/// Bytes of an n x k matrix of a type, without the padding of the packed layout.
int64_t matrix_bytes(WeightType type, int64_t n, int64_t k);

}  // namespace slip
