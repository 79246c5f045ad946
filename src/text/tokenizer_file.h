// SPDX-License-Identifier: Apache-2.0
// The files of a tokenizer, read into one description: tokenizer.json, or vocab.json + merges.txt (Qwen kind), with
// added_tokens.json and tokenizer_config.json beside them.
#pragma once
#include <cstdint>
#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include "base/result.h"
#include "text/added_tokens.h"

namespace slip {

/// Qwen2's split pattern: contractions, words with one leading mark, single digits, punctuation runs, line ends, blanks.
extern const char* const kQwenSplitPattern;

struct TokenizerSpec {
  std::string where;  // the file, for messages
  std::vector<std::pair<std::string, int32_t>> vocab;
  std::vector<std::pair<std::string, std::string>> merges;  // by rank
  std::vector<AddedToken> added;
  bool nfc = false;
  bool ignore_merges = false;  // a whole piece that is in the vocabulary is that token
  std::vector<std::string> split_patterns;
  /// SentencePiece-like (Llama-2): blanks are U+2581, one in front of each segment; bytes as <0xNN>; no splitting.
  bool sentencepiece = false;
};

/// kUnsupported names the part that this version does not do.
Result<TokenizerSpec> read_tokenizer(const std::filesystem::path& folder);

}  // namespace slip
