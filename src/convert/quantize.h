// SPDX-License-Identifier: Apache-2.0
// `slipstream quantize`: a model folder -> the same folder with packed matrices (packed_folder.h), and a report of what that cost.
// Matrices are packed in slices of some thousand rows and written at once: memory stays at a few tens of megabytes.
#pragma once
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/cancel.h"
#include "base/files/atomic_folder.h"
#include "base/json.h"
#include "base/result.h"
#include "models/loader.h"
#include "models/weights/packed_folder.h"

namespace slip {

struct QuantizeOptions {
  WeightType type = WeightType::kI8;
  int threads = 0;      // 0: every core this process may use
  bool compare = true;  // run both models on the texts: needs memory for one of them at a time
  /// Packed at a time: enough for all threads, and a look at the token every 100 ms.
  int64_t slice_bytes = int64_t{16} << 20;
};

/// Root mean square of (stored - packed) over that of stored, of the rows that were compared (all of small matrices).
struct MatrixError {
  std::string name;
  WeightType type{};
  int64_t rows = 0, columns = 0;
  double relative = 0;
};

/// Packed against bf16, both run by this engine on the same tokens.
struct OutputError {
  std::vector<double> layers;  // relative error (root mean square) of each layer's output
  double logits = 0;           // the same of the logits
  double logits_largest = 0;   // largest difference
  double top1 = 0;             // share of the tokens whose likeliest successor is the same
  double kl = 0;               // mean over the tokens of sum p ln(p / q), p of bf16
  int64_t tokens = 0;
};

struct QuantizeReport {
  std::vector<MatrixError> matrices;  // in the order in which they are stored
  std::optional<OutputError> output;
  json::object agreement;  // of greedy answers, where the caller compared them; empty: it did not
  int64_t source_bytes = 0, packed_bytes = 0;
  int64_t reserved_bytes = 0;  // asked to be free on the disk: a bound of all that is written, within a kilobyte a tensor
  double seconds = 0;          // packing alone
  json::object json() const;
  std::string text() const;
};

/// A packed folder that is not in place yet: `path()` can be loaded, commit() gives it its name; else it vanishes.
class QuantizedFolder {
 public:
  /// `loading` is told while either model is read for the comparison. kBadInput: not a model folder, packed already, `out` exists; kResource: too little disk, or memory for the comparison.
  static Result<QuantizedFolder> make(const std::filesystem::path& model, const std::filesystem::path& out,
                                      const QuantizeOptions& options, const LoadProgress& progress = {},
                                      const std::function<void(int64_t done, int64_t total)>& loading = {});
  const std::filesystem::path& path() const { return folder_.path(); }
  QuantizeReport& report() { return report_; }
  /// Stores the report and puts the folder in place.
  Status commit();

 private:
  QuantizedFolder(AtomicFolder folder, CancelToken cancel) : folder_(std::move(folder)), cancel_(std::move(cancel)) {}
  AtomicFolder folder_;
  CancelToken cancel_;
  PackedFolder packed_;
  QuantizeReport report_;
};

/// Outputs of both folders on built-in driving texts (token ids by a fixed rule where there is no tokenizer). One is in memory at a
/// time.
Result<OutputError> compare_outputs(const std::filesystem::path& reference, WeightType reference_type,
                                    const std::filesystem::path& packed, WeightType type, int threads,
                                    const LoadProgress& loading = {});

}  // namespace slip
