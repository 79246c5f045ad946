// SPDX-License-Identifier: Apache-2.0
#include "api/folder_tokens.h"

#include "api/choice.h"

namespace slip::api {

Result<FolderTokens> FolderTokens::load(const std::string& folder) {
  SLIP_TRY(std::optional<Tokenizer> tokenizer, load_tokenizer(folder));
  if (!tokenizer) return bad_input("{}: expected a tokenizer, got none", folder);
  SLIP_TRY(const ModelConfig config, load_config(folder, &*tokenizer));
  return FolderTokens{.tokenizer = std::move(*tokenizer),
                      .rule = config.decoder.rule,
                      .vocab = config.decoder.vocab,
                      .max_positions = config.max_positions,
                      .graph = visibility_of_folder(folder) == Visibility::kGraph};
}

FormTokens FolderTokens::of_form() const {
  return {&tokenizer, rule.has_null ? std::optional<TokenId>(rule.null_token) : std::nullopt, vocab, max_positions, graph};
}

}  // namespace slip::api
