// SPDX-License-Identifier: Apache-2.0
// Answers of a form drawn at random: at each step any token that the rules allow.
#pragma once
#include <stdexcept>
#include <vector>

#include "base/philox.h"
#include "form/automaton/token_automaton.h"
#include "form/form.h"

namespace slip::test {

/// Tokens that may come next in a field's content, END and ends that lead to another piece included.
inline std::vector<TokenId> allowed(const Field& f, int32_t state) {
  std::vector<TokenId> out;
  if (const TokenAutomaton* a = f.rules.automaton()) {
    const TokenMask& m = a->mask(state);
    if (m.bits.empty()) return m.listed;
    for (int32_t id = 0; id < static_cast<int32_t>(m.bits.size()) * 64; ++id)
      if (m.contains({id})) out.push_back({id});
    return out;
  }
  for (const auto& e : f.rules.state(state).edges) out.push_back(e.id);
  if (f.exits.empty() && f.end && f.rules.may_end(state)) out.push_back(*f.end);
  for (const Exit& e : f.exits)
    if (e.at_start ? state == 0 : f.rules.may_end(state)) out.push_back(e.end);
  return out;
}

/// One field's content, appended to `tokens`. Returns the piece that it leads to where the field has exits. A field that cannot be
/// ended within its budget, and a mask that allows what the rules do not, are thrown.
inline std::optional<int32_t> random_field(const Field& f, PhiloxStream& r, std::vector<TokenId>& tokens) {
  int32_t state = 0;
  for (int32_t i = 0; !f.exits.empty() || i < f.budget; ++i) {
    const auto choices = allowed(f, state);
    if (choices.empty() || i > f.budget) throw std::runtime_error(f.name + " is stuck at " + std::to_string(i));
    const TokenId id = choices[r.below(static_cast<uint32_t>(choices.size()))];
    if (ends(f, state, id)) {
      const std::vector<TokenId> content(state == 0 ? 1 : 2, id);
      return f.exits.empty() ? std::nullopt : exit_piece(f, content);
    }
    tokens.push_back(id);
    const auto next = f.rules.next(state, id);
    if (!next) throw std::runtime_error(f.name + ": the mask allows what the rules do not");
    state = *next;
    if (f.closes && f.rules.complete(state)) break;
  }
  return std::nullopt;
}

inline std::vector<TokenId> random_answer(const Form& form, PhiloxStream& r) {
  std::vector<TokenId> tokens;
  for (int32_t at = 0; at < static_cast<int32_t>(form.pieces().size());) {
    const Piece& piece = form.pieces()[static_cast<size_t>(at)];
    std::optional<int32_t> next;
    if (const auto* run = std::get_if<FixedRun>(&piece))
      tokens.insert(tokens.end(), run->ids.begin(), run->ids.end());
    else
      next = random_field(form.fields()[static_cast<size_t>(std::get<FieldRef>(piece).field)], r, tokens);
    at = next.value_or(form.next_piece(at));
  }
  return tokens;
}

}  // namespace slip::test
