// SPDX-License-Identifier: Apache-2.0
// What comes next in a strand. A cursor knows whether that is a fixed token, a draw or nothing, and takes it;
// fields that close early leave no hole in a chain. It is a small value, so that a draft can walk ahead on a copy.
#pragma once
#include <array>
#include <cstdint>
#include <optional>
#include <span>

#include "form/form.h"

namespace slip {

/// The place of a token that is drawn: its field (none: free text), its number in it, and the state of the field's rules there.
struct Place {
  std::optional<int32_t> field;
  int32_t index = 0, state = 0;
};

class Cursor {
 public:
  Cursor() = default;
  /// Free text that already has `index` tokens; never done by itself: end tokens and limits are the caller's.
  static Cursor text(int32_t index);
  /// The whole form. Fields of instances that the enumeration does not name count as fixed: their placeholder.
  static Cursor chain(const Form& form);
  /// One field; with `forced` its content is its placeholder.
  static Cursor of_field(const Form& form, int32_t field, bool forced);

  /// A field that the answer does not hold: done.
  static Cursor skipped(const Form& form, int32_t field);

  bool done() const { return done_; }
  bool at_fixed() const { return !done_ && fixed_; }
  bool at_draw() const { return !done_ && !fixed_; }
  TokenId fixed() const;
  /// The field whose content the fixed token is (a placeholder).
  std::optional<int32_t> fixed_field() const { return forced_ ? field_ : std::nullopt; }
  Place place() const { return {field_, index_, state_}; }
  /// Form position of what comes next (budgets reserved); in free text the number of the token.
  int32_t position() const { return position_; }
  /// Is what comes next a draw behind which none follows, whatever it is?
  bool last_draw() const;
  /// The only token that the rules allow here, where there is no choice: it is the target's token whatever the model says.
  std::optional<TokenId> only() const;

  /// Do the rules allow a token here, END included?
  bool allows(TokenId token) const;

  void take_fixed();
  /// Is the place's field one whose END says what comes next? Such an END is recorded in the field's content, and not in the answer.
  bool records_end() const { return field_ && !field().exits.empty(); }
  /// Of one field that has closed: the piece that its END leads to.
  std::optional<int32_t> exit() const { return exit_; }
  /// Takes a drawn token; false if it was END, which is not part of the answer. A full field is left without drawing END.
  bool take(TokenId token);

 private:
  void enter();
  void leave();
  const Field& field() const { return form_->fields()[static_cast<size_t>(*field_)]; }

  const Form* form_ = nullptr;
  int32_t piece_ = 0, index_ = 0, state_ = 0, position_ = 0;
  std::optional<int32_t> field_, exit_;
  bool single_ = false, done_ = false, fixed_ = false, forced_ = false;
  // Of the enumeration under way: separators seen, and whether it is its placeholder so far.
  int16_t separators_ = 0;
  bool is_placeholder_ = true;
  std::array<int16_t, 8> instances_{};  // by enumeration, in the form's order (Form::make allows so many)
};

}  // namespace slip
