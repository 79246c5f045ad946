// SPDX-License-Identifier: Apache-2.0
// Tokenizers for the tests of forms: the character tokenizer of the decode fixtures, and Qwen's vocabulary with MASK and NULL
// added, where it is present on this machine.
#pragma once
#include <filesystem>
#include <fstream>
#include <optional>
#include <string>

#include "text/tokenizer.h"

namespace slip::test {

inline Tokenizer character_tokenizer() {
  auto t = Tokenizer::load(std::string(SLIP_FIXTURES) + "/decode/models/shift");
  if (!t) throw std::runtime_error(t.error().message);
  return std::move(*t);
}

inline std::optional<Tokenizer> qwen_tokenizer() {
  namespace fs = std::filesystem;
  const fs::path from = fs::path(SLIP_SHARED_DATA) / "tokenizers";
  if (!fs::exists(from / "qwen_vocab.json")) return std::nullopt;
  const fs::path folder = fs::path(testing::TempDir()) / "slip_qwen_tokenizer";
  fs::create_directories(folder);
  fs::copy_file(from / "qwen_vocab.json", folder / "vocab.json", fs::copy_options::overwrite_existing);
  fs::copy_file(from / "qwen_merges.txt", folder / "merges.txt", fs::copy_options::overwrite_existing);
  std::ofstream(folder / "tokenizer_config.json") << R"({"tokenizer_class": "Qwen2Tokenizer", "added_tokens_decoder": {
    "151643": {"content": "<|endoftext|>", "lstrip": false, "normalized": false, "rstrip": false, "single_word": false, "special": true},
    "151644": {"content": "<|im_start|>", "lstrip": false, "normalized": false, "rstrip": false, "single_word": false, "special": true},
    "151645": {"content": "<|im_end|>", "lstrip": false, "normalized": false, "rstrip": false, "single_word": false, "special": true},
    "151665": {"content": "|<MASK>|", "lstrip": false, "normalized": false, "rstrip": false, "single_word": false, "special": false},
    "151666": {"content": "<|NULL|>", "lstrip": false, "normalized": false, "rstrip": false, "single_word": false, "special": false}}})";
  auto t = Tokenizer::load(folder);
  if (!t) throw std::runtime_error(t.error().message);
  return std::move(*t);
}

}  // namespace slip::test
