// SPDX-License-Identifier: Apache-2.0
// The files of a tokenizer, read into one description: tokenizer.json, or vocab.json + merges.txt (Qwen kind), with
// added_tokens.json and tokenizer_config.json beside them.
#pragma once
#include <cstdint>
#include <filesystem>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "base/result.h"
#include "text/added_tokens.h"
#include "text/tokenizer.h"

namespace slip {

/// U+2581, which vocabularies of SentencePiece write for a space.
inline constexpr const char* kBlank = "\xe2\x96\x81";

/// Qwen2's split pattern: contractions, words with one leading mark, single digits, punctuation runs, line ends, blanks.
extern const char* const kQwenSplitPattern;

/// Where the SentencePiece-like kind puts U+2581 in front: the normalizer before every segment, or Metaspace before every segment,
/// before the text's first, or nowhere; Metaspace only where none is there already.
enum class BlankInFront { kNormalizer, kAlways, kFirst, kNever };

struct TokenizerSpec {
  std::string where;  // the file, for messages
  std::vector<std::pair<std::string, int32_t>> vocab;
  std::vector<std::pair<std::string, std::string>> merges;  // by rank
  std::vector<AddedToken> added;
  std::unordered_map<int32_t, size_t> added_at;  // their indices by id
  size_t added_bytes = 0;                        // of their contents
  bool nfc = false;
  bool ignore_merges = false;  // a whole piece that is in the vocabulary is that token
  struct Split {
    std::string pattern;
    bool matches_only = false;  // what lies between matches is dropped
  };
  std::vector<Split> splits;
  /// SentencePiece-like (Llama-2): blanks are U+2581, bytes as <0xNN>.
  bool sentencepiece = false;
  BlankInFront blank = BlankInFront::kNormalizer;
  bool cut_at_blanks = false;  // a piece begins at every U+2581
  bool strip_blank = true;     // decoding drops one blank at the start
  TemplateIds around;
};

/// kUnsupported names the part that this version does not do.
Result<TokenizerSpec> read_tokenizer(const std::filesystem::path& folder);

}  // namespace slip
