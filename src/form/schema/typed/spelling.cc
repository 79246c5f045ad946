// SPDX-License-Identifier: Apache-2.0
// See spelling.h.
#include "form/schema/typed/spelling.h"

#include "form/json_text.h"

namespace slip {

Result<std::vector<TokenId>> spelled_alone(const Tokenizer& tokenizer, std::string_view text, std::string_view form_name) {
  auto ids = tokenizer.encode_inside(text);
  if (!ids) return Error{ids.error().kind, fmt::format("form {}: {}", form_name, ids.error().message)};
  std::string spelled;
  for (const TokenId id : *ids) spelled += tokenizer.token_bytes(id);
  if (spelled == text) return ids;
  const TokenTrie& trie = *tokenizer.trie();
  std::vector<TokenId> bytes;
  for (const char c : text) {
    const auto single = std::string_view(&c, 1);
    int32_t id = 0;
    while (id < trie.size() && trie.bytes({id}) != single) ++id;
    if (id == trie.size())
      return bad_input("form {}: expected a tokenizer that spells \"{}\", got another", form_name, shown(text));
    bytes.push_back({id});
  }
  return bytes;
}

}  // namespace slip
