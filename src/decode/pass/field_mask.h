// SPDX-License-Identifier: Apache-2.0
// What a field's rules allow at one place when tokens before *and behind* it may be decided already
// (diffusion commits in any order). A token is allowed when some state that the tokens before can lead to goes, by that
// token, to a state from which the decided rest can still be reached.
// Test: FieldMask.AllowExactlyWhatCanStillBeCompleted.
#pragma once
#include <optional>
#include <span>
#include <vector>

#include "decode/pass/choice.h"

namespace slip {

class FieldMask {
 public:
  /// Room for every field of a form, so that nothing later allocates.
  void reserve(const Form& form);
  /// `content`: budget places of the field, decided or not. Recomputed whenever one is decided. Fields without END.
  void update(const Field& field, std::span<const std::optional<TokenId>> content);
  /// Valid until the next call. The decided places themselves are allowed what they hold.
  Allowed at(int32_t index);
  bool allows(int32_t index, TokenId id) const;

 private:
  bool forward(int32_t index, size_t s) const { return forward_[static_cast<size_t>(index) * states_ + s] != 0; }
  bool backward(int32_t index, size_t s) const { return backward_[static_cast<size_t>(index) * states_ + s] != 0; }
  const Field* field_ = nullptr;
  size_t states_ = 0;
  std::vector<uint8_t> forward_, backward_;  // (budget + 1) x states
  std::vector<TokenId> listed_, denied_, other_;
};

}  // namespace slip
