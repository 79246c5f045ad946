// SPDX-License-Identifier: Apache-2.0
// What a decoder takes of the key/value cache behind the prompt. Schedules reserve by these numbers and drafters lay their rows by them,
// so that whoever sizes a cache before a model is loaded is told the same.
#pragma once
#include <cstdint>

#include "decode/types/method.h"
#include "decode/types/options.h"

namespace slip {

/// Free text by block diffusion: no token is verified, and the rows of a block are not causal.
bool diffuses_text(const Method& method);

/// How an answer comes about: free text (read against a form afterwards, where there is one), a form on a chain, along its graph, or
/// block by block in any order; free text block by block.
enum class Route : uint8_t { kText, kChain, kGraph, kSections, kTextBlocks };
Route route_of(const Method& method, const DecodeOptions& options, bool has_form);

/// Tokens of a strand that a round drafts at most where the draft length names no number.
inline constexpr int32_t kLongestDraft = 64;
/// The same where an earlier answer drafts and the model itself drafts what that misses.
inline constexpr int32_t kLongestPrevious = 64;
/// Masks of a field that a verifying pass carries at most (diffusion:ahead): contents are short, and slots are reserved for all fields.
inline constexpr int32_t kMostMasks = 16;

/// A form's size: exact, or an upper bound before the form is compiled.
struct FormSize {
  int64_t positions = 0;  // fixed tokens, and fields at their budgets
  int64_t fields = 0;
};

struct Capacity {
  Route route = Route::kText;
  int32_t widest = 0;   // drafts of a strand in a round at most
  int32_t group = 0;    // rows of the group of masks behind a row (quadratic, diffusion:ahead)
  int32_t scratch = 0;  // slots of a strand beside its rows, for rows that may not overwrite them

  static Capacity of(const Method& method, const DecodeOptions& options, bool has_form);
  /// Rows of a strand on a chain, or of free text, which may be drafted behind its limit.
  int32_t strand_rows(int32_t limit, int32_t form_length) const { return route == Route::kText ? limit + widest : form_length; }
  /// Slots for strands with so many rows of their own in all.
  int64_t slots(int64_t rows, int64_t strands) const { return rows + int64_t{scratch} * strands; }
  /// Slots that so many answers take at most; they take as many where no two of them share a row. `limit`: of free text.
  int64_t slots_of_answers(int64_t answers, int64_t limit, const FormSize& form) const;
};

}  // namespace slip
