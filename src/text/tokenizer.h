// SPDX-License-Identifier: Apache-2.0
// Tokenizers in Hugging Face form: byte-level BPE from tokenizer.json (or vocab.json + merges.txt), Qwen kind; the Llama-2,
// Llama-3 and Tekken kinds from tokenizer.json.
// Semantics of added tokens, NFC and the split pattern: docs/notes/checkpoints.md#tokenizers and the rules of the `text` fixtures.
#pragma once
#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/ids.h"
#include "base/result.h"
#include "text/token_trie.h"

namespace slip {

/// What the file's template puts around a text of its own (begin-of-text in front, for most that have one).
struct TemplateIds {
  std::vector<TokenId> front, back;
  bool operator==(const TemplateIds&) const = default;
};

/// What byte tokens in a row become (Llama-2 kind) where they are no text together: U+FFFD for each byte, as the library writes it, or for what
/// is ill-formed in them alone, so that a quote which a form writes behind a broken character stays one.
enum class ByteRuns : uint8_t { kWhole, kCharacters };

/// Const members may be called from several threads at once.
class Tokenizer {
 public:
  /// From a model folder (tokenizer.json, else vocab.json + merges.txt; tokenizer_config.json's added tokens override).
  /// kUnsupported names the part of the file that this version does not do.
  static Result<Tokenizer> load(const std::filesystem::path& folder);
  /// A token for each byte, its id, and for a blank with each character of ASCII behind it, as vocabularies of whole words have them: what such a
  /// vocabulary tells apart most do.
  static Tokenizer of_bytes();
  Tokenizer(Tokenizer&&) noexcept;
  Tokenizer& operator=(Tokenizer&&) noexcept;
  ~Tokenizer();

  /// Text to ids, added tokens recognised in the text as the library does; no template. `text` must be valid UTF-8 (kBadInput).
  /// `between` is asked every few hundred pieces of a long text: its error ends the work.
  Result<std::vector<TokenId>> encode(std::string_view text, Status (*between)() = nullptr) const;
  /// So many tokens at least does encode() make of the text, found without splitting it: what cannot fit anywhere is refused by this, however
  /// long it is.
  size_t least_tokens(std::string_view text) const;
  /// encode() adds none of these: a chat template spells its own.
  const TemplateIds& template_ids() const;
  /// Ids to text; ill-formed UTF-8 becomes U+FFFD; unknown ids are skipped.
  std::string decode(std::span<const TokenId> ids, bool skip_special = false, ByteRuns runs = ByteRuns::kWhole) const;
  /// The bytes a token stands for, after the byte table; empty for an unknown id.
  std::string_view token_bytes(TokenId id) const;
  /// The token as the vocabulary spells it.
  std::string_view token_text(TokenId id) const;
  /// Id by vocabulary spelling or added token's content.
  std::optional<TokenId> find(std::string_view content) const;
  bool is_special(TokenId id) const;
  bool is_added(TokenId id) const;
  /// Largest id + 1 (the model's embedding may have more rows).
  int32_t size() const;
  /// The tokens by their bytes; made when first asked for (30 ms for 150,000) and shared.
  std::shared_ptr<const TokenTrie> trie() const;
  /// As encode() does inside of a text: without the blank that the Llama-2 kind puts in front of one.
  Result<std::vector<TokenId>> encode_inside(std::string_view text) const;

 private:
  friend class StreamDecoder;
  struct Impl;
  explicit Tokenizer(std::unique_ptr<Impl>);
  std::unique_ptr<Impl> impl_;
};

/// Sends text as it becomes certain: never half a character, U+FFFD once a sequence cannot become valid.
class StreamDecoder {
 public:
  explicit StreamDecoder(const Tokenizer& tokenizer, bool skip_special = false, ByteRuns runs = ByteRuns::kWhole);
  std::string push(TokenId id);
  std::string flush();

 private:
  const Tokenizer& tokenizer_;
  bool skip_special_;
  ByteRuns runs_;
  std::string pending_;
  bool run_ = false;      // pending_ is a run of byte tokens (Llama-2 kind), which is judged as a whole
  bool started_ = false;  // the blank that the Llama-2 kind puts in front was dealt with
};

/// Whether bytes are valid UTF-8, and the same text with each maximal ill-formed part replaced by U+FFFD.
bool is_valid_utf8(std::string_view bytes);
std::string to_valid_utf8(std::string_view bytes);

}  // namespace slip
