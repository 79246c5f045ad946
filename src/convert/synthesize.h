// SPDX-License-Identifier: Apache-2.0
// Random-weight Hugging Face folders of real shapes, for benchmarks and load tests without a download: config.json, sharded
// safetensors, tokenizer, chat template, preprocessing. A tensor's numbers are a function of (seed, its name, index): matrices are
// bell-shaped with standard deviation 1/sqrt(columns), so that activations keep their size, gains are 1 and biases small.
// Shapes and file contents: docs/notes/checkpoints.md; architecture names as released.
#pragma once
#include <cstdint>
#include <filesystem>
#include <functional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "base/cancel.h"
#include "base/json.h"
#include "base/result.h"
#include "base/threads/threads.h"
#include "core/dtype.h"

namespace slip {

struct SynthesizeOptions {
  std::string like;            // one of synthetic_shapes()
  std::string dtype = "bf16";  // bf16, f32, f16; fp8: decoder matrices as e4m3 with a scale per 128 x 128, the rest bf16
  uint64_t seed = 0;
  int layers = 0;     // decoder layers; 0: as many as the shape has. Towers are thinned in proportion
  bool tiny = false;  // the same family, names and files at widths of a unit test
  /// The released tokenizer's files: tokenizer.json, or vocab.json and merges.txt; none: bytes and made-up words, as many as the
  /// shape has ids.
  std::vector<std::filesystem::path> tokenizer = {};
  CancelToken cancel = {};
};

struct SyntheticTensor {
  std::string name;
  std::vector<int64_t> shape;  // outermost first
  float mean = 0, deviation = 0;
  bool decoder_matrix = false;  // what fp8 releases store as fp8
};

/// Everything of a folder but its weights' numbers.
struct SyntheticModel {
  std::vector<std::pair<std::string, json::value>> files;  // name and content, config.json first
  std::vector<SyntheticTensor> tensors;
  enum class Tokenizer { kQwen, kTekken, kLlama } tokenizer = Tokenizer::kQwen;
  int32_t vocab = 0;  // ids that the tokenizer fills
};

/// The names that `like` takes.
std::vector<std::string> synthetic_shapes();
/// kUsage for an unknown name, kUnsupported for a dtype.
Result<SyntheticModel> synthetic_model(const SynthesizeOptions& options);
/// Tokenizer files into an existing folder.
Status write_synthetic_tokenizer(const SyntheticModel& model, const SynthesizeOptions& options,
                                 const std::filesystem::path& folder);

using SynthesizeProgress = std::function<void(int64_t bytes, int64_t total)>;

struct Synthesized {
  int64_t parameters = 0, bytes = 0, tensors = 0;
};
/// Writes beside `out` and renames; nothing stays after an error or Ctrl-C. kBadInput: `out` exists; kResource: the disk is too
/// full, before anything is written. Memory: a few megabytes per thread.
Result<Synthesized> synthesize(const SynthesizeOptions& options, const std::filesystem::path& out, ThreadPool& pool,
                               const SynthesizeProgress& progress = {});

/// Numbers first ... of a synthetic tensor, as f32 before rounding.
void synthetic_numbers(uint64_t seed, const SyntheticTensor& tensor, int64_t first, std::span<float> out);

}  // namespace slip
