// SPDX-License-Identifier: Apache-2.0
#include "form/automaton/token_automaton.h"

#include <algorithm>
#include <chrono>

namespace slip {

Result<std::shared_ptr<const TokenAutomaton>> TokenAutomaton::make(std::shared_ptr<const TokenLanguage> language,
                                                                   std::vector<TokenId> ends, std::vector<TokenId> start_ends,
                                                                   int32_t budget) {
  std::shared_ptr<TokenAutomaton> a(new TokenAutomaton());
  a->language_ = std::move(language);
  a->ends_ = std::move(ends);
  a->start_ends_ = std::move(start_ends);
  a->budget_ = budget;
  a->width_ = budget + 1;
  const int32_t far = a->language_->far(0);
  if (far >= ByteDfa::kFar) return bad_input("expected a vocabulary that can spell a value, got one without its bytes");
  if (far > budget) return bad_input("expected a budget of at least {} tokens, got {}", far, budget);
  constexpr int64_t kMostPlaces = int64_t{1} << 30;
  if (static_cast<int64_t>(a->language().size()) * a->width_ > kMostPlaces)
    return unsupported("expected at most {} states times tokens, got {} times {}", kMostPlaces, a->language().size(), budget);
  return std::shared_ptr<const TokenAutomaton>(std::move(a));
}

std::optional<int32_t> TokenAutomaton::next(int32_t state, TokenId id) const {
  const int32_t left = budget_ - used(state) - 1;
  const std::string_view bytes = language_->trie().bytes(id);
  if (left < 0 || bytes.empty() || id.value >= language_->vocab()) return std::nullopt;
  const int32_t to = language().after(state / width_, bytes);
  if (to < 0 || language_->far(to) > left) return std::nullopt;
  return to * width_ + used(state) + 1;
}

const TokenMask& TokenAutomaton::mask(int32_t state) const {
  const int32_t q = state / width_;
  const int32_t left = std::min(budget_ - used(state) - 1, language_->farthest(q));  // more makes no difference
  const bool start = state == 0 && !start_ends_.empty(), end = !ends_.empty() && may_end(state);
  if (!start && !end) return language_->mask(q, left);
  const uint64_t key = static_cast<uint64_t>(q) << 32 | static_cast<uint32_t>(left + 1) | static_cast<uint64_t>(start) << 63;
  return with_ends_.get(key, [&](TokenMask& mask) {
    std::vector<TokenId> ids;
    if (end) ids = ends_;
    if (start) ids.insert(ids.end(), start_ends_.begin(), start_ends_.end());
    mask.take(language_->mask(q, left), ids, language_->vocab());
  });
}

size_t TokenAutomaton::masks() const { return language_->masks() + with_ends_.size(); }

std::optional<TokenId> TokenAutomaton::only(int32_t state) const {
  const TokenMask& m = mask(state);
  return m.count == 1 && m.bits.empty() ? std::optional(m.listed.front()) : std::nullopt;
}

void TokenAutomaton::warm(double most_ms) const {
  const auto begin = std::chrono::steady_clock::now();
  for (int32_t q = 0; q < static_cast<int32_t>(language().size()); ++q) {
    if (std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - begin).count() > most_ms) return;
    if (language_->far(q) < ByteDfa::kFar) mask(q * width_);
  }
}

}  // namespace slip
