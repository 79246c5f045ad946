// SPDX-License-Identifier: Apache-2.0
#include "decode/pass/request.h"

namespace slip {

void DecodeRequest::progress(std::span<const TokenId> tokens) const {
  if (context.on_progress) context.on_progress({tokens, {}, static_cast<int64_t>(tokens.size()), statistics.forwards, &statistics});
}

void DecodeRequest::progress(std::span<const std::vector<TokenId>> fields) const {
  if (!context.on_progress) return;
  int64_t decided = 0;
  for (const auto& f : fields) decided += static_cast<int64_t>(f.size());
  context.on_progress({{}, fields, decided, statistics.forwards, &statistics});
}

}  // namespace slip
