// SPDX-License-Identifier: Apache-2.0
// For targets of forms: a vocabulary of bytes.
#pragma once
#include "form/schema/schema.h"
#include "fuzz/target.h"

namespace slip::fuzz {

/// One token per byte, and END, MASK, NULL behind them.
inline const Tokenizer& byte_tokenizer() {
  static const Tokenizer kTokenizer = [] {
    json::object vocab, added;
    int moved = 0;
    for (int b = 0; b < 256; ++b) {
      const bool shown = (b >= '!' && b <= '~') || (b >= 0xA1 && b != 0xAD);
      const int c = shown ? b : 256 + moved++;
      const std::string spelling = c < 0x80 ? std::string(1, static_cast<char>(c))
                                            : std::string{static_cast<char>(0xC0 | c >> 6), static_cast<char>(0x80 | (c & 63))};
      vocab[spelling] = b;
    }
    const char* const contents[] = {"<|endoftext|>", "|<MASK>|", "<|NULL|>"};
    for (int i = 0; i < 3; ++i) added[std::to_string(256 + i)] = json::object{{"content", contents[i]}, {"special", i == 0}};
    const std::filesystem::path folder = scratch() / "bytes";
    std::filesystem::create_directories(folder);
    put("bytes/vocab.json", json::serialize(vocab));
    put("bytes/merges.txt", "#version: 0.2\n");
    put("bytes/tokenizer_config.json",
        json::serialize(json::object{{"tokenizer_class", "Qwen2Tokenizer"}, {"added_tokens_decoder", added}}));
    auto t = Tokenizer::load(folder);
    require(static_cast<bool>(t), "the byte tokenizer loads");
    return std::move(*t);
  }();
  return kTokenizer;
}

inline FormTokens byte_tokens() { return {&byte_tokenizer(), TokenId{258}, 259}; }

}  // namespace slip::fuzz
