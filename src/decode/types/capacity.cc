// SPDX-License-Identifier: Apache-2.0
#include "decode/types/capacity.h"

#include <algorithm>

namespace slip {
namespace {

int32_t widest_round(const Method& m, const DecodeOptions& o) {
  if (!m.drafts()) return 0;
  const int32_t drafts = m.draft_length.kind == DraftLengthSpec::Kind::kFixed ? m.draft_length.tokens : kLongestDraft;
  const bool behind = std::holds_alternative<PreviousSpec>(m.drafter) && m.diffusion();
  return behind && o.most_rows <= 0 ? std::max(drafts, kLongestPrevious) : drafts;
}

}  // namespace

Route route_of(const Method& m, const DecodeOptions& o, bool has_form) {
  if (m.schedule == Schedule::kSections) return Route::kSections;
  if (diffuses_text(m)) return Route::kTextBlocks;
  if (!has_form || (m.schedule == Schedule::kText && !o.forced)) return Route::kText;
  return o.visibility == Visibility::kGraph || m.schedule == Schedule::kFields ? Route::kGraph : Route::kChain;
}

Capacity Capacity::of(const Method& m, const DecodeOptions& o, bool has_form) {
  Capacity c{.route = route_of(m, o, has_form), .widest = widest_round(m, o)};
  if (std::holds_alternative<QuadraticSpec>(m.drafter)) {
    const int32_t k = m.draft_length.tokens;
    c.group = c.route == Route::kChain ? 2 * k : k;  // in a chain with fixed tokens between the masks
    c.scratch = k * c.group;
  }
  if (const DiffusionSpec* d = m.diffusion(); d && d->ahead) {
    c.group = m.draft_length.kind == DraftLengthSpec::Kind::kFixed ? std::min(m.draft_length.tokens - 1, kMostMasks) : kMostMasks;
    c.scratch = c.group + 1;  // without token shift a mask stands where the pass's own token will
  }
  return c;
}

int64_t Capacity::slots_of_answers(int64_t answers, int64_t limit, const FormSize& form) const {
  switch (route) {
    case Route::kText:
      return answers * slots(limit + widest, 1);
    case Route::kChain:
      return answers * slots(form.positions, 1);
    case Route::kGraph:  // the token before a field is its strand's first row
      return answers * slots(form.positions + form.fields, form.fields);
    case Route::kTextBlocks:  // one answer after another
      return limit + widest;
    case Route::kSections:
      break;
  }
  return form.positions;  // one answer after another
}

}  // namespace slip
