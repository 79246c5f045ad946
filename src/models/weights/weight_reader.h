// SPDX-License-Identifier: Apache-2.0
// From a checkpoint's tensors to packed matrices, in two goes over the same list of wishes: first `check`, which touches no
// data and finds everything that is missing, misshapen or of a type that is not read, and the memory needed; then `load`,
// which packs and refuses numbers that are not finite, there or in the type that they are packed as.
//
// A folder that `slipstream quantize` wrote (packed_folder.h) answers the same wishes with matrices that lie in the file. Stored fp8
// (e4m3) is read with its scales: a tensor beside it named <name>_scale_inv or <name>_scale, one number, one per row, or one per
// 128 x 128 block; the weight is the stored number times its scale (as released fp8 checkpoints of Qwen3 and Ministral 3 mean both).
#pragma once
#include <atomic>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "base/cancel.h"
#include "base/result.h"
#include "core/safetensors.h"
#include "kernels/kernels.h"
#include "models/weights/packed_folder.h"

namespace slip {

/// How loading tells how far it is, in bytes of tensors read so far and in all, and hears that nobody waits for it any more.
struct LoadProgress {
  std::function<void(int64_t done, int64_t total)> tell = {};
  CancelToken cancel = {};
};

/// Delivers row n of a matrix as f32, from any thread.
using ReadRow = void (*)(const void* context, int64_t n, float* out_K);

class WeightSink;

class WeightReader {
 public:
  /// A stored tensor; `shape` outermost first. A matrix's rows are shape[0], its columns the product of the rest.
  struct Part {
    std::string name;
    std::vector<int64_t> shape;
    int64_t zeros = 0;  // rows of zeros behind the stored ones, so that what follows begins with a block of columns
    int64_t rows() const { return shape[0] + zeros; }
  };
  WeightReader(const Checkpoint& checkpoint, ThreadPool& pool, LoadProgress progress, WeightSink* sink = nullptr);

  /// The parts stacked along the rows, packed as `type`. Empty while checking, and when a sink takes it.
  PackedMatrix matrix(WeightType type, const std::vector<Part>& parts);
  /// The parts one behind the other as f32. Empty while checking.
  std::vector<float> vector(const std::vector<Part>& parts);

  /// Ends the first go: kBadInput lists what is missing, else names the first tensor of a wrong shape or type; kUnsupported for int8
  /// matrices with more columns than int32 sums hold, and for a packed folder of another type than asked for.
  Status end_check();
  /// Ends the second go: kBadInput names a tensor with a NaN or an infinity, or with a number beyond bf16's largest and which; what
  /// the sink reported; kCancelled as the progress says (the rest was not read).
  Status end_load() const;
  /// After the first go: bytes that the packed matrices and vectors will take; those that lie in the file are among them.
  int64_t bytes_needed() const { return bytes_needed_; }
  /// After the first go: bytes of the source's tensors that the second one reads.
  int64_t bytes_read() const { return bytes_total_; }
  /// After a second go into a sink: depends on every byte of the matrices and vectors read, their names and places.
  uint64_t source_hash() const { return source_hash_; }

 private:
  bool note(const std::vector<Part>& parts, WeightType type, bool is_matrix);
  bool note_packed(const std::vector<Part>& parts, WeightType type);
  PackedMatrix view_packed(WeightType type, const std::string& name, int64_t n, int64_t k);
  void advance(const std::vector<const TensorView*>& views);
  void note_bad(const TensorView& view, float value);
  const Checkpoint& checkpoint_;
  ThreadPool& pool_;
  LoadProgress progress_;
  WeightSink* sink_;
  std::optional<PackedFolder> packed_;
  std::shared_ptr<const Checkpoint> owner_;  // keeps the map alive for matrices that lie in it
  bool checking_ = true;
  std::vector<std::string> missing_;
  Status wrong_, failed_;
  int64_t bytes_needed_ = 0, bytes_total_ = 0, bytes_done_ = 0;
  uint64_t source_hash_ = 0;
  std::string bad_tensor_;  // the first with numbers that cannot be packed
  float bad_value_ = 0;
};

/// Takes the second go's matrices and vectors in place of memory: a packed folder in the making. In the first go it learns the plan.
class WeightSink {
 public:
  struct Wish {
    std::string name;  // of the first part
    WeightType type;
    int64_t n, k;
    std::vector<WeightReader::Part> parts;
  };
  virtual ~WeightSink() = default;
  virtual void plan_matrix(const Wish& wish) = 0;
  virtual void plan_vector(const WeightReader::Part& part) = 0;
  /// Rows may be read in any order, from any thread, as often as needed; `done` says of some that they will not be read again.
  using Done = std::function<void(int64_t first, int64_t count)>;
  virtual Status matrix(const Wish& wish, const void* context, ReadRow read_row, const Done& done) = 0;
  virtual Status vector(const WeightReader::Part& part, std::span<const float> values) = 0;
};

/// Bytes of an n x k matrix of a type, without the padding of the packed layout.
int64_t matrix_bytes(WeightType type, int64_t n, int64_t k);
/// What the parts of a model become when `type` is asked for. An embedding that is no head is looked up, never multiplied: narrow
/// integers would cost accuracy and save nothing per pass. Beside int4, head and towers are int8: the head's errors are the logits'
/// own (KL of the demo models 0.038 -> 0.027 and 0.065 -> 0.043), and towers run on hundreds of rows, where int4 is not faster
/// (docs/lab/0009).
WeightType embedding_type(WeightType type, bool tied_head);
WeightType head_type(WeightType type);
WeightType vision_type(WeightType type);

}  // namespace slip
