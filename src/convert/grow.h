// SPDX-License-Identifier: Apache-2.0
// `slipstream grow`: a larger model that answers like a smaller one, bit for bit: a measuring shape, with real answers and real acceptance at
// sizes whose weights do not fit the caches. Nothing is learnt by it.
//
// Function-preserving growth [Chen et al., Net2Net, 2016; Chen et al., bert2BERT, 2022] by zeros, not by copies: the residual stream gets
// numbers that are always 0, heads whose queries, keys and values are 0, MLP columns that nobody reads, layers that add 0. Copies of
// neurons would be added up in another order; zeros change no sum. What would change is the mean under a norm, so the stream is
// multiplied by s = sqrt(times), a power of two where `times` is one of four, and gains are divided by it:
//
//   mean_(times D)((s x)^2) = mean_D(x^2)      (s x) / rms * (gain / s) = x / rms * gain
//
// Both are exact in f32 and bf16, and in int8, whose scales are per row. Two things can still move a last bit: a norm's sum is cut into
// 4 vectors of numbers, so that D must be a multiple of 32 (AVX2, NEON; 64 with AVX-512), and int4 takes groups of 32 numbers of every
// width.
#pragma once
#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "base/cancel.h"
#include "base/result.h"

namespace slip {

struct GrowOptions {
  int times = 4;   // hidden size, heads and key/value heads: 1, 4, 16 or 64
  int mlp = 1;     // the MLP's width is times * mlp of what it was
  int layers = 1;  // as many layers in all as there were, times this
  CancelToken cancel = {};
};

struct Grown {
  int64_t parameters = 0, parameters_before = 0, bytes = 0, tensors = 0;
  bool same_bits_avx2 = false, same_bits_avx512 = false;  // f32, bf16 and int8; else to rounding. AMX: as AVX-512
  std::vector<std::string> left_behind;                   // heads of the small model: folders and .bin files that are not grown
};

/// Writes beside `out` and renames. kUsage for other factors; kBadInput: not a model folder, packed, `out` exists; kUnsupported for an
/// architecture whose tensors it does not know, by the tensor's name; kResource: the disk is too full.
Result<Grown> grow(const std::filesystem::path& model, const std::filesystem::path& out, const GrowOptions& options,
                   const std::function<void(int64_t bytes, int64_t total)>& progress = {});

}  // namespace slip
