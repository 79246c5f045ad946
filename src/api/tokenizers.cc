// SPDX-License-Identifier: Apache-2.0
// slipstream::Tokenizer, and text as bytes.
#include "text/tokenizer.h"

#include "api/boundary.h"
#include "slipstream/model.h"

namespace slipstream {

struct [[gnu::visibility("hidden")]] Tokenizer::Impl {
  slip::Tokenizer tokenizer;
};

Result<Tokenizer> Tokenizer::load(const std::string& folder) {
  return slip::api::bounded([&]() -> Result<Tokenizer> {
    SLIP_TRY(slip::Tokenizer tokenizer, slip::Tokenizer::load(folder));
    Tokenizer out;
    out.impl_ = std::make_shared<const Impl>(Impl{std::move(tokenizer)});
    return out;
  });
}

Result<std::vector<int32_t>> Tokenizer::encode(std::string_view text) const {
  return slip::api::bounded([&]() -> Result<std::vector<int32_t>> {
    SLIP_TRY(const std::vector<slip::TokenId> ids, impl_->tokenizer.encode(text));
    std::vector<int32_t> out;
    out.reserve(ids.size());
    for (const slip::TokenId id : ids) out.push_back(id.value);
    return out;
  });
}

Result<std::string> Tokenizer::decode(const std::vector<int32_t>& ids, bool skip_special) const {
  return slip::api::bounded([&]() -> Result<std::string> {
    std::vector<slip::TokenId> known;
    for (const int32_t id : ids) {
      if (id < 0 || id >= size()) return slip::bad_input("decode: expected ids below {}, got {}", size(), id);
      known.push_back({id});
    }
    return impl_->tokenizer.decode(known, skip_special);
  });
}

std::string Tokenizer::piece(int32_t id) const { return std::string(impl_->tokenizer.token_text({id})); }
int32_t Tokenizer::size() const { return impl_->tokenizer.size(); }

bool is_valid_utf8(std::string_view text) { return slip::is_valid_utf8(text); }
std::string to_valid_utf8(std::string_view text) { return slip::to_valid_utf8(text); }

}  // namespace slipstream
