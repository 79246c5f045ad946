// SPDX-License-Identifier: Apache-2.0
// Tokenizers for the tests of forms: one token per byte, and Qwen's vocabulary with MASK and NULL
// added, where it is present on this machine.
#pragma once
#include <filesystem>
#include <fstream>
#include <optional>
#include <stdexcept>
#include <string>

#include <gtest/gtest.h>

#include "base/folder_testing.h"
#include "base/result.h"
#include "text/tokenizer.h"

namespace slip::test {

inline constexpr TokenId kNull{258};

inline Tokenizer load_tokenizer(const std::filesystem::path& folder) {
  auto t = Tokenizer::load(folder);
  if (!t) throw std::runtime_error(t.error().message);
  return std::move(*t);
}

/// vocab.json and merges.txt of 256 bytes, id = byte, no merges.
inline void write_byte_vocabulary(const std::filesystem::path& folder) {
  std::ofstream vocab(folder / "vocab.json");
  int moved = 0;
  for (int b = 0; b < 256; ++b) {
    const bool shown = (b >= '!' && b <= '~') || (b >= 0xA1 && b != 0xAD);  // GPT-2's byte table; the others stand from U+0100 on
    vocab << (b == 0 ? "{" : ", ") << fmt::format("\"\\u{:04x}\": {}", shown ? b : 256 + moved++, b);
  }
  vocab << "}";
  std::ofstream(folder / "merges.txt") << "#version: 0.2\n";
}

/// 256 bytes, id = byte, no merges; <|endoftext|> 256, |<MASK>| 257, <|NULL|> 258.
inline Tokenizer character_tokenizer() {
  const TemporaryFolder folder;  // tests run side by side: none writes where another reads
  write_byte_vocabulary(folder.path);
  std::ofstream(folder.path / "tokenizer_config.json") << R"({"tokenizer_class": "Qwen2Tokenizer", "added_tokens_decoder": {
    "256": {"content": "<|endoftext|>", "lstrip": false, "normalized": false, "rstrip": false, "single_word": false, "special": true},
    "257": {"content": "|<MASK>|", "lstrip": false, "normalized": false, "rstrip": false, "single_word": false, "special": false},
    "258": {"content": "<|NULL|>", "lstrip": false, "normalized": false, "rstrip": false, "single_word": false, "special": false}}})";
  return load_tokenizer(folder.path);
}

inline std::optional<Tokenizer> qwen_tokenizer() {
  namespace fs = std::filesystem;
  const fs::path from = fs::path(SLIP_SHARED_DATA) / "tokenizers";
  if (!fs::exists(from / "qwen_vocab.json")) return std::nullopt;
  const TemporaryFolder folder;
  fs::copy_file(from / "qwen_vocab.json", folder.path / "vocab.json");
  fs::copy_file(from / "qwen_merges.txt", folder.path / "merges.txt");
  std::ofstream(folder.path / "tokenizer_config.json") << R"({"tokenizer_class": "Qwen2Tokenizer", "added_tokens_decoder": {
    "151643": {"content": "<|endoftext|>", "lstrip": false, "normalized": false, "rstrip": false, "single_word": false, "special": true},
    "151644": {"content": "<|im_start|>", "lstrip": false, "normalized": false, "rstrip": false, "single_word": false, "special": true},
    "151645": {"content": "<|im_end|>", "lstrip": false, "normalized": false, "rstrip": false, "single_word": false, "special": true},
    "151665": {"content": "|<MASK>|", "lstrip": false, "normalized": false, "rstrip": false, "single_word": false, "special": false},
    "151666": {"content": "<|NULL|>", "lstrip": false, "normalized": false, "rstrip": false, "single_word": false, "special": false}}})";
  return load_tokenizer(folder.path);
}

}  // namespace slip::test
