// SPDX-License-Identifier: Apache-2.0
// Model folders: what they hold, and what can be made of them. A folder is a Hugging Face folder as it is (config.json, safetensors,
// tokenizer.json, preprocessor_config.json), or what quantize made of one.
#pragma once
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "slipstream/error.h"
#include "slipstream/form.h"

namespace slipstream {

/// "0.1.0".
std::string_view version();
/// What the library was built of: "0d2f2e4" of the repository's history, or "release".
std::string_view commit();
/// The instruction set that the kernels use here, and why.
std::string instruction_set();

/// What a loaded model is.
struct ModelInfo {
  std::string folder, model_type, dtype, kv_type, device;
  int32_t vocab = 0, hidden_size = 0, slots = 0;
  int32_t positions = 0;  // that it was made for (max_position_embeddings); 0: not said
  bool vision = false, can_draft = false, has_draft_adapter = false;
  std::string form;        // that it was trained for; empty: none
  std::string visibility;  // "chain", "graph"
};

/// Architecture, sizes, attributes, tokenizer and memory need. Headers alone are read.
Result<Report> inspect(const std::string& folder);

/// A folder's tokenizer.
class Tokenizer {
 public:
  /// Reads tokenizer.json, or the files that the model family has in its place. kBadInput, kUnsupported.
  static Result<Tokenizer> load(const std::string& folder);
  /// kBadInput for text that is not valid UTF-8.
  Result<std::vector<int32_t>> encode(std::string_view text) const;
  /// kBadInput for an id that is none.
  Result<std::string> decode(const std::vector<int32_t>& ids, bool skip_special = false) const;
  /// The vocabulary's spelling of an id.
  std::string piece(int32_t id) const;
  /// Ids are 0 to size() - 1.
  int32_t size() const;

 private:
  struct Impl;
  std::shared_ptr<const Impl> impl_;
};
/// No overlong forms, no surrogates, no character that is cut off.
bool is_valid_utf8(std::string_view text);
/// Invalid bytes become U+FFFD.
std::string to_valid_utf8(std::string_view text);

/// Images as the vision tower gets them: `pixel_values` and `grid_thw`, written as safetensors. white_alpha: composite over white.
Result<Report> preprocess(const std::string& folder, const std::vector<std::string>& images, const std::string& out,
                          bool white_alpha = false);

/// How forward computes.
struct ForwardOptions {
  std::string dtype, device = "cpu";  // dtype empty: f32, or what a packed folder is
  int32_t threads = 0;
  int64_t split = 0;  // passes of at most so many rows, through the cache; 0: one pass
};
/// Logits (T x V, f32) of rows with explicit visibility, written as safetensors. `rows`: the rows document (JSON), `name` for messages,
/// `base_folder`: where its images' relative paths start.
Result<Report> forward(const std::string& folder, std::string_view rows, const std::string& name, const std::string& base_folder,
                       const std::string& out, const ForwardOptions& options = {}, const CancelToken& cancel = {});
/// Rows that a document may have at most.
inline constexpr int64_t kMostRows = 1 << 20;

/// What a codebook is made of, or measured on: codes of pieces of path, in which a model may answer its trajectory.
struct CodebookOptions {
  std::string records;      // a record set; empty: scenes are simulated
  uint64_t first_seed = 0;  // of simulated ones
  int64_t count = 0;        // 0: the whole set, or 10,000
  int32_t codes = 512;      // how many there are
  int32_t steps = 11;       // of 0.1 s in each
  int32_t length = 0;       // codes in a trajectory of 6.4 s; 0: as many as it takes
  int32_t iterations = 30;  // rounds of k-means
  uint64_t seed = 1;        // of its beginning
  std::string
      tokenizer;  // a folder whose tokenizer is written beside the codebook with <|code_0|>, <|code_1|>, .. behind its tokens
};
/// Writes a codebook (JSON) out of the records' futures. Every tenth record is kept apart, and the report tells the error of those: means and
/// 99 % at 3 s and at 6.4 s. A function of the options and the records.
Result<Report> make_codebook(const std::string& out, const CodebookOptions& options, const Progress& progress = {},
                             const CancelToken& cancel = {});
/// The error of a codebook that is there, over all the records; what makes one is not read.
Result<Report> measure_codebook(const std::string& file, const CodebookOptions& options, const Progress& progress = {},
                                const CancelToken& cancel = {});

/// The type that quantize packs weights in, and what it compares.
struct QuantizeOptions {
  std::string type;  // int8, int4, bf16, f32
  int32_t records = 8, threads = 0;
  bool compare = true;  // answers of the packed model beside those of the original, where it was trained for the driving task
};
/// A packed copy, mapped at start, with a report of its errors.
Result<Report> quantize(const std::string& folder, const std::string& out, const QuantizeOptions& options,
                        const Progress& progress = {}, const CancelToken& cancel = {});

/// The shape that synthesize imitates (`like`: one of synthetic_shapes()), or a tiny one of the same family.
struct SynthesizeOptions {
  std::string like, dtype = "bf16";
  std::vector<std::string> tokenizer;  // folders or files to take it from
  uint64_t seed = 0;
  int32_t layers = 0, threads = 0;
  bool tiny = false;
};
/// Names that SynthesizeOptions::like takes.
std::vector<std::string> synthetic_shapes();
/// A folder of random weights of a released shape, for benchmarks.
Result<Report> synthesize(const std::string& out, const SynthesizeOptions& options, const Progress& progress = {},
                          const CancelToken& cancel = {});
/// A native Prismatic checkpoint (MiniVLA) as a Hugging Face folder.
Result<Report> convert_prismatic(const std::string& checkpoint, const std::string& tokenizer, const std::string& out,
                                 const Progress& progress = {}, const CancelToken& cancel = {});

}  // namespace slipstream
