// SPDX-License-Identifier: Apache-2.0
// The rows of a graph's fixed tokens: those before the last field, without those that go with a field that may be
// absent, in the form's order, behind the prompt's rows in the arena.
#pragma once
#include <vector>

#include "form/form.h"
#include "lm/graph_visibility.h"
#include "lm/lm.h"

namespace slip {

struct GraphScaffold {
  std::vector<TokenId> ids;
  std::vector<int32_t> positions;  // of the form
  std::vector<int32_t> before;     // by form position, and the length: rows of the scaffold before it
  std::vector<std::vector<SlotSpan>>
      sees;  // of a form whose shape depends on values: rows that every way to a row passes, itself left out

  void lay(const Form& form);
  void lay_sees(const GraphVisibility& visibility);
  int32_t rows_before(int32_t position) const { return before[static_cast<size_t>(position)]; }
  int32_t rows() const { return static_cast<int32_t>(ids.size()); }
};

}  // namespace slip
