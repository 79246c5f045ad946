// SPDX-License-Identifier: Apache-2.0
// See init_vocabulary.h.
#include "train/data/init_vocabulary.h"

#include "text/tokenizer.h"

namespace slip {

Result<std::vector<int32_t>> rows_of_vocabulary(const std::string& from, const std::string& to) {
  SLIP_TRY(const Tokenizer old, Tokenizer::load(from));
  SLIP_TRY(const Tokenizer now, Tokenizer::load(to));
  std::vector<int32_t> rows(static_cast<size_t>(now.size()), -1);
  for (int32_t v = 0; v < now.size(); ++v) {
    const auto match = now.token_text({v}).empty() ? std::nullopt : old.find(now.token_text({v}));
    if (match && old.is_added(*match) == now.is_added({v}) && old.token_bytes(*match) == now.token_bytes({v}))
      rows[static_cast<size_t>(v)] = match->value;
  }
  return rows;
}

}  // namespace slip
