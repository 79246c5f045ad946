// SPDX-License-Identifier: Apache-2.0
// The target's token: the largest logit, or the keyed draw, among the ids that the field allows. Distributions over them: sampling.h.
#pragma once
#include <bit>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "base/ids.h"
#include "form/form.h"
#include "lm/lm.h"

namespace slip {

/// Ids that may come next: those listed (ascending), and with `any` all that are not denied (ascending); where there are bits, those whose
/// bit is set, and no others.
struct Allowed {
  bool any = true;
  std::span<const TokenId> denied;
  std::span<const TokenId> listed;
  std::span<const uint64_t> bits = {};
  bool has_bit(int32_t id) const {
    const auto word = static_cast<size_t>(id) / 64;
    return word < bits.size() && (bits[word] >> (id % 64) & 1) != 0;
  }
  bool has(TokenId id) const;
  bool all() const { return any && denied.empty() && bits.empty(); }
};

/// Calls visit(id) for every allowed id below `vocab`, ascending.
template <class F>
void for_each_allowed(const Allowed& allowed, int32_t vocab, F&& visit) {
  for (size_t w = 0; w < allowed.bits.size(); ++w)
    for (uint64_t x = allowed.bits[w]; x != 0; x &= x - 1) {
      const TokenId id{static_cast<int32_t>(w) * 64 + std::countr_zero(x)};
      if (id.value < vocab) visit(id);
    }
  if (!allowed.bits.empty()) return;
  if (!allowed.any) {
    for (const TokenId id : allowed.listed)
      if (id.value < vocab) visit(id);
    return;
  }
  auto denied = allowed.denied.begin();
  auto listed = allowed.listed.begin();
  for (int32_t id = 0; id < vocab; ++id) {
    while (listed != allowed.listed.end() && listed->value < id) ++listed;
    while (denied != allowed.denied.end() && denied->value < id) ++denied;
    const bool is_listed = listed != allowed.listed.end() && listed->value == id;
    const bool is_denied = denied != allowed.denied.end() && denied->value == id;
    if (is_listed || !is_denied) visit(TokenId{id});
  }
}

/// Is one id below `vocab` allowed, and no other?
bool has_one_choice(const Allowed& allowed, int32_t vocab);

/// What a state of a field's rules allows, END included where the field has one and the state may end. `buffer` holds the list.
Allowed allowed_in(const Field& field, int32_t state, std::vector<TokenId>& buffer);

/// Largest logit, lowest id on ties; NaN never wins. Without any allowed number: the lowest allowed id.
TokenId greedy_choice(std::span<const float> logits_V, const Allowed& allowed);
/// Smallest id whose cumulative probability exceeds u; softmax(logits / temperature) over the allowed ids in double, ascending.
TokenId keyed_draw(std::span<const float> logits_V, const Allowed& allowed, double temperature, double u);
/// Is any logit of an allowed id a number above -inf? Otherwise a drafter has nothing to say.
bool says_anything(std::span<const float> logits_V, const Allowed& allowed);
/// The two largest softmax probabilities over the allowed ids (0 where there is none).
struct TopTwo {
  double first = 0, second = 0;
};
TopTwo top_two(std::span<const float> logits_V, const Allowed& allowed);
/// The same of logits whose largest are known: to 2 % of the first, or none where the others could change more than that.
std::optional<TopTwo> top_two(std::span<const KeptLogits::Likely> likely, float log_sum_exp, const Allowed& allowed);
/// greedy_choice where one of the largest is allowed.
std::optional<TokenId> first_allowed(std::span<const KeptLogits::Likely> likely, const Allowed& allowed);
/// The allowed ids' bits for KeptLogits::draw, in `buffer` where they are not bits already; empty: every id.
std::span<const uint64_t> bits_of(const Allowed& allowed, int32_t vocab, std::vector<uint64_t>& buffer);
/// Softmax probability of `id` over the allowed ids, in double; 0 where it is no number.
double probability_of(std::span<const float> logits_V, const Allowed& allowed, TokenId id);

/// An id with the logarithm of its softmax probability over the allowed ids.
struct LikelyId {
  TokenId id;
  double log_prob = 0;
};
/// The `count` likeliest allowed ids, those of no probability left out; lower ids first among equals.
std::vector<LikelyId> likeliest_ids(std::span<const float> logits_V, const Allowed& allowed, int32_t count);

}  // namespace slip
