// SPDX-License-Identifier: Apache-2.0
// Inside of decode.h: walking a form on a chain. The walk knows what comes next (a fixed token, a draw, nothing) and takes it;
// fields that close early leave no hole. It is a small value, so that a draft can walk ahead on a copy.
#pragma once
#include <cstdint>

#include "form/form.h"

namespace slip {

struct FormWalk {
  const Form* form = nullptr;
  int32_t piece = 0;
  int32_t index = 0;     // into the fixed run, or tokens of the field so far
  int32_t state = 0;     // of the field's rules
  int32_t position = 0;  // form position of what comes next (budgets reserved)

  explicit FormWalk(const Form& f) : form(&f) {}
  bool done() const { return static_cast<size_t>(piece) == form->pieces().size(); }
  const Piece& now() const { return form->pieces()[static_cast<size_t>(piece)]; }
  bool at_fixed() const { return !done() && std::holds_alternative<FixedRun>(now()); }
  bool at_draw() const { return !done() && !at_fixed(); }
  int32_t field() const { return std::get<FieldRef>(now()).field; }
  TokenId fixed() const { return std::get<FixedRun>(now()).ids[static_cast<size_t>(index)]; }

  void take_fixed() {
    ++position;
    if (static_cast<size_t>(++index) == std::get<FixedRun>(now()).ids.size()) leave();
  }
  /// Takes a drawn token; false if it was END, which is not part of the answer. A full field is left without drawing END.
  bool take(TokenId token) {
    const Field& f = form->fields()[static_cast<size_t>(field())];
    if (f.end && token == *f.end && (f.rules.unrestricted() || f.rules.state(state).may_end)) {
      position = f.start + f.budget;
      leave();
      return false;
    }
    state = f.rules.next(state, token);
    ++position;
    if (++index == f.budget) leave();
    return true;
  }

 private:
  void leave() {
    ++piece;
    index = state = 0;
  }
};

}  // namespace slip
