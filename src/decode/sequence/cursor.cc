// SPDX-License-Identifier: Apache-2.0
#include "decode/sequence/cursor.h"

#include <algorithm>

#include "base/check.h"
#include "form/automaton/token_automaton.h"

namespace slip {
namespace {

/// Which enumeration of the form a field is.
size_t enumeration_number(const Form& form, int32_t field) {
  size_t n = 0;
  for (int32_t f = 0; f < field; ++f) n += !form.fields()[static_cast<size_t>(f)].separators.empty();
  return n;
}

}  // namespace

Cursor Cursor::text(int32_t index) {
  Cursor c;
  c.index_ = c.position_ = index;
  return c;
}

Cursor Cursor::chain(const Form& form) {
  Cursor c;
  c.form_ = &form;
  c.enter();
  return c;
}

Cursor Cursor::of_field(const Form& form, int32_t field, bool forced) {
  Cursor c;
  c.form_ = &form;
  c.single_ = true;
  c.field_ = field;
  c.position_ = c.field().start;
  c.fixed_ = c.forced_ = forced;
  return c;
}

Cursor Cursor::skipped(const Form& form, int32_t field) {
  Cursor c = of_field(form, field, false);
  c.position_ += c.field().budget;
  c.done_ = true;
  return c;
}

TokenId Cursor::fixed() const {
  if (forced_) return field().placeholder[static_cast<size_t>(index_)];
  return std::get<FixedRun>(form_->pieces()[static_cast<size_t>(piece_)]).ids[static_cast<size_t>(index_)];
}

bool Cursor::last_draw() const {
  if (!at_draw() || !field_ || index_ + 1 < field().budget) return false;
  if (single_) return true;
  const auto behind = form_->pieces().subspan(static_cast<size_t>(piece_) + 1);
  return std::none_of(behind.begin(), behind.end(), [](const Piece& p) { return std::holds_alternative<FieldRef>(p); });
}

std::optional<TokenId> Cursor::only() const {
  if (!field_ || field().rules.unrestricted()) return std::nullopt;
  if (const TokenAutomaton* automaton = field().rules.automaton()) return automaton->only(state_);
  const TokenRules::State& s = field().rules.state(state_);
  const bool may_leave = (field().end && s.may_end) || (state_ == 0 && !field().exits.empty() && field().exits.back().at_start);
  if (s.any || s.edges.size() != 1 || may_leave) return std::nullopt;
  return s.edges.front().id;
}

bool Cursor::allows(TokenId token) const {
  if (!field_ || field().rules.unrestricted()) return true;
  return ends(field(), state_, token) || field().rules.next(state_, token).has_value();
}

void Cursor::take_fixed() {
  ++position_;
  ++index_;
  if (forced_) {
    if (static_cast<size_t>(index_) == field().placeholder.size()) leave();
  } else if (static_cast<size_t>(index_) == std::get<FixedRun>(form_->pieces()[static_cast<size_t>(piece_)]).ids.size()) {
    leave();
  }
}

bool Cursor::take(TokenId token) {
  if (!field_) {
    ++index_;
    ++position_;
    return true;
  }
  const Field& f = field();
  if (ends(f, state_, token)) {
    if (!f.exits.empty()) {
      const Exit* e = state_ == 0 ? exit_of(f, token, true) : nullptr;
      exit_ = (e ? e : exit_of(f, token, false))->piece;
    }
    leave();
    return false;
  }
  if (!f.separators.empty()) {
    separators_ = static_cast<int16_t>(separators_ + std::binary_search(f.separators.begin(), f.separators.end(), token));
    const auto i = static_cast<size_t>(index_);
    is_placeholder_ = is_placeholder_ && i < f.placeholder.size() && f.placeholder[i] == token;
  }
  const std::optional<int32_t> next = f.rules.next(state_, token);
  SLIP_CHECK(next, "drawn and drafted under the field's rules");
  state_ = *next;
  ++position_;
  if (++index_ == f.budget || (f.closes && f.rules.complete(state_))) leave();
  return true;
}

void Cursor::leave() {
  if (field_) {
    const Field& f = field();
    if (!single_ && !f.separators.empty()) {
      const bool none = index_ == 0 || (is_placeholder_ && static_cast<size_t>(index_) == f.placeholder.size());
      instances_[enumeration_number(*form_, *field_)] = static_cast<int16_t>(none ? 0 : 1 + separators_);
    }
    position_ = f.start + f.budget;
  }
  if (single_) {
    done_ = true;
    fixed_ = forced_ = false;
    return;
  }
  piece_ = exit_ ? *exit_ : form_->next_piece(piece_);
  exit_.reset();
  position_ = form_->begin_of(piece_);
  enter();
}

void Cursor::enter() {
  index_ = state_ = 0;
  separators_ = 0;
  is_placeholder_ = true;
  fixed_ = forced_ = false;
  field_.reset();
  if (static_cast<size_t>(piece_) == form_->pieces().size()) {
    done_ = true;
    return;
  }
  const Piece& piece = form_->pieces()[static_cast<size_t>(piece_)];
  if (std::holds_alternative<FixedRun>(piece)) {
    fixed_ = true;
    return;
  }
  field_ = std::get<FieldRef>(piece).field;
  if (const auto& of = field().instance_of) fixed_ = forced_ = instances_[enumeration_number(*form_, of->field)] <= of->instance;
}

}  // namespace slip
