// SPDX-License-Identifier: Apache-2.0
// Training a byte-level BPE vocabulary (Sennrich et al. 2016) on small texts, and writing it in Hugging Face form: Qwen's
// split pattern, NFC, ids 0 to 255 the bytes themselves, then merges, then added tokens. Deterministic: the most frequent
// pair is merged, of equal ones that with the lowest (left, right) ids.
#pragma once
#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "base/result.h"
#include "text/added_tokens.h"

namespace slip {

struct TrainBpeOptions {
  int32_t vocab_size = 1000;  // everything counted; fewer come out when no pair is left that occurs min_count times
  int64_t min_count = 2;
  /// Found in texts before anything is split, never learned from. Specials are left out of decoded text.
  std::vector<std::string> special_tokens = {"<|endoftext|>",  "<|im_start|>",   "<|im_end|>",    "<|vision_start|>",
                                             "<|vision_end|>", "<|vision_pad|>", "<|image_pad|>", "<|video_pad|>"};
  std::vector<std::string> added_tokens;  // the same, but not special
  /// Pieces such as " left" that must be one token each; they must be one piece under the split pattern.
  std::vector<std::string> whole;
};

struct TrainedBpe {
  std::vector<std::string> tokens;                  // bytes, by id; without added tokens
  std::vector<std::pair<int32_t, int32_t>> merges;  // by rank
  std::vector<AddedToken> added;                    // ids follow tokens
};

/// kBadInput: texts that are not UTF-8, a vocab_size too small for bytes, added and whole tokens, a `whole` that is split.
Result<TrainedBpe> train_bpe(std::span<const std::string> texts, const TrainBpeOptions& options);
/// tokenizer.json and tokenizer_config.json (added_tokens_decoder, the Qwen2-VL chat template); Tokenizer::load and the
/// `tokenizers` library read them. The folder is made if it is missing.
Status write_tokenizer(const TrainedBpe& bpe, const std::filesystem::path& folder);

}  // namespace slip
