// SPDX-License-Identifier: Apache-2.0
// Sets of ids are sorted vectors: Qwen's vocabulary has some 6,000 ids that JSON text may not hold and 90,000 without a space in front.
#include "form/schema/text_rules.h"

#include <algorithm>

namespace slip {
namespace {

using Ids = std::vector<TokenId>;

Ids either(const Ids& a, const Ids& b) {
  Ids out;
  std::set_union(a.begin(), a.end(), b.begin(), b.end(), std::back_inserter(out));
  return out;
}

Ids without(const Ids& a, const Ids& b) {
  Ids out;
  std::set_difference(a.begin(), a.end(), b.begin(), b.end(), std::back_inserter(out));
  return out;
}

}  // namespace

std::vector<TokenId> TextRules::containing(char separator) const {
  Ids out;
  for (int32_t id = 0; id < tokens_.tokenizer->size(); ++id)
    if (tokens_.tokenizer->token_bytes({id}).find(separator) != std::string_view::npos) out.push_back({id});
  return out;
}

TokenRules TextRules::rules(const FieldSpec& spec, bool padded) {
  Ids never = denied(), separators;
  if (spec.separator != 0) {
    const Ids all = containing(spec.separator);
    for (const TokenId id : without(all, never)) {
      const std::string_view bytes = tokens_.tokenizer->token_bytes(id);
      if (std::count(bytes.begin(), bytes.end(), spec.separator) == 1) separators.push_back(id);
    }
    never = either(never, without(all, separators));
  }
  const int32_t first = spec.space ? 1 : 0, named = std::max(spec.instances, 1);
  std::vector<TokenRules::State> states(static_cast<size_t>(first + named + (padded ? 1 : 0)));
  for (int32_t k = 0; k < named; ++k) {
    TokenRules::State& s = states[static_cast<size_t>(first + k)];
    const bool last = k + 1 == named;
    s = {.any = true, .any_next = first + k, .denied = last ? either(never, separators) : never};
    if (!last)
      for (const TokenId id : separators) s.edges.push_back({id, first + k + 1});
    if (padded) s.edges.push_back({*tokens_.null_token, first + named});
  }
  if (padded) states.back().edges = {{*tokens_.null_token, first + named}};
  if (spec.space) {  // as the state that follows, for ids that begin with a space; no value is empty
    const TokenRules::State& body = states[1];
    TokenRules::State s{.any = true, .any_next = first, .denied = either(body.denied, without_space()), .may_end = false};
    for (const auto& edge : body.edges)
      if (tokens_.tokenizer->token_bytes(edge.id).starts_with(' ')) s.edges.push_back(edge);
    states[0] = std::move(s);
  }
  return TokenRules(std::move(states));
}

const std::vector<TokenId>& TextRules::denied() {
  if (!denied_.empty()) return denied_;
  const auto forbidden = [&](char c) {
    return (layout_ != Layout::kTokens && static_cast<unsigned char>(c) < 0x20) ||
           (layout_ == Layout::kJson && (c == '"' || c == '\\'));
  };
  const int32_t size = tokens_.tokenizer->size();
  for (int32_t id = 0; id < std::max(size, tokens_.vocab); ++id) {
    const std::string_view bytes = id < size ? tokens_.tokenizer->token_bytes({id}) : std::string_view();
    if (bytes.empty() || tokens_.tokenizer->is_special({id}) || tokens_.tokenizer->is_added({id}) ||
        std::any_of(bytes.begin(), bytes.end(), forbidden))
      denied_.push_back({id});
  }
  return denied_;
}

const std::vector<TokenId>& TextRules::without_space() {
  if (!without_space_.empty()) return without_space_;
  for (int32_t id = 0; id < tokens_.tokenizer->size(); ++id)
    if (!tokens_.tokenizer->token_bytes({id}).starts_with(' ')) without_space_.push_back({id});
  return without_space_;
}

}  // namespace slip
