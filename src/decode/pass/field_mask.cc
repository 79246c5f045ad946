// SPDX-License-Identifier: Apache-2.0
// States reachable from the start (forward) and states from which the end can be reached (backward), place by place; a token is
// allowed where it leads from one of the first to one of the second. Test: FieldMask.AllowExactlyWhatCanStillBeCompleted.
#include "decode/pass/field_mask.h"

#include <algorithm>

namespace slip {

void FieldMask::reserve(const Form& form) {
  size_t places = 0, edges = 0, denied = 0;
  for (const Field& f : form.fields()) {
    places = std::max(places, (static_cast<size_t>(f.budget) + 1) * f.rules.size());
    size_t field_edges = 0;
    for (const TokenRules::State& s : f.rules.states()) {
      field_edges += s.edges.size();
      denied = std::max(denied, s.denied.size() + s.edges.size());
    }
    edges = std::max(edges, field_edges);
  }
  forward_.reserve(places);
  backward_.reserve(places);
  listed_.reserve(edges);
  denied_.reserve(denied);
  other_.reserve(denied);
}

void FieldMask::update(const Field& field, std::span<const std::optional<TokenId>> content) {
  field_ = &field;
  states_ = field.rules.size();
  if (states_ == 0) return;
  const size_t n = content.size();
  forward_.assign((n + 1) * states_, 0);
  backward_.assign((n + 1) * states_, 0);
  forward_[0] = 1;
  const auto steps = [&](size_t i, size_t s, auto&& visit) {
    if (content[i]) {
      if (const auto to = field.rules.next(static_cast<int32_t>(s), *content[i])) visit(static_cast<size_t>(*to));
      return;
    }
    const TokenRules::State& state = field.rules.state(static_cast<int32_t>(s));
    for (const auto& e : state.edges) visit(static_cast<size_t>(e.next));
    if (state.any) visit(static_cast<size_t>(state.any_next));
  };
  for (size_t i = 0; i < n; ++i)
    for (size_t s = 0; s < states_; ++s)
      if (forward_[i * states_ + s]) steps(i, s, [&](size_t to) { forward_[(i + 1) * states_ + to] = 1; });
  for (size_t s = 0; s < states_; ++s) backward_[n * states_ + s] = field.rules.state(static_cast<int32_t>(s)).may_end;
  for (size_t i = n; i-- > 0;)
    for (size_t s = 0; s < states_; ++s)
      steps(i, s, [&](size_t to) { backward_[i * states_ + s] |= backward_[(i + 1) * states_ + to]; });
}

Allowed FieldMask::at(int32_t index) {
  if (states_ == 0) return {};
  listed_.clear();
  denied_.clear();
  bool any = false;
  for (size_t s = 0; s < states_; ++s) {
    if (!forward(index, s)) continue;
    const TokenRules::State& state = field_->rules.state(static_cast<int32_t>(s));
    const bool open = state.any && backward(index + 1, static_cast<size_t>(state.any_next));
    other_.assign(open ? state.denied.begin() : state.denied.end(), state.denied.end());
    for (const auto& e : state.edges)
      if (backward(index + 1, static_cast<size_t>(e.next)))
        listed_.push_back(e.id);
      else if (open)
        other_.push_back(e.id);
    if (!open) continue;
    std::sort(other_.begin(), other_.end());
    if (!any) {
      denied_.swap(other_);
    } else {  // what either open state allows is allowed
      denied_.erase(std::remove_if(denied_.begin(), denied_.end(),
                                   [&](TokenId id) { return !std::binary_search(other_.begin(), other_.end(), id); }),
                    denied_.end());
    }
    any = true;
  }
  std::sort(listed_.begin(), listed_.end());
  listed_.erase(std::unique(listed_.begin(), listed_.end()), listed_.end());
  return {any, denied_, listed_};
}

bool FieldMask::allows(int32_t index, TokenId id) const {
  if (states_ == 0) return true;
  for (size_t s = 0; s < states_; ++s) {
    const auto to = forward(index, s) ? field_->rules.next(static_cast<int32_t>(s), id) : std::nullopt;
    if (to && backward(index + 1, static_cast<size_t>(*to))) return true;
  }
  return false;
}

}  // namespace slip
