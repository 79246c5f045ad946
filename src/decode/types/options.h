// SPDX-License-Identifier: Apache-2.0
// What a caller chooses for an answer beside the method: sampling, visibility, limits. What it lends: context.h.
#pragma once
#include <cstdint>
#include <utility>
#include <vector>

#include "base/ids.h"
#include "lm/visibility.h"

namespace slip {

/// What the draws obey beside the field's rules, in this order: repetition, temperature, top_k, top_p, min_p. Greedy with temperature
/// 0; then only repetition matters. Defaults change nothing.
struct Sampling {
  float temperature = 0;
  int32_t top_k = 0;             // > 0: the k largest (lower id first on ties)
  float top_p = 1;               // < 1: the fewest largest whose probabilities reach p
  float min_p = 0;               // > 0: ids of at least min_p times the largest probability
  float repetition = 1;          // logits of ids in the history are divided by it where positive, multiplied where negative
  int32_t repetition_last = 64;  // the history: so many last tokens of the field's content, or of free text
  bool plain() const { return top_k <= 0 && top_p >= 1 && min_p <= 0 && repetition == 1; }
};

struct DecodeOptions {
  float temperature = 0;                                       // 0: greedy
  std::vector<std::pair<int32_t, float>> section_temperature;  // (section, temperature), overriding
  Sampling sampling;                                           // its temperature is not read
  Visibility visibility = Visibility::kChain;
  uint64_t seed = 0;
  uint32_t request = 0;
  std::vector<TokenId> end_tokens;  // free text ends with one of these, which is emitted
  int32_t limit = 1024;             // most tokens of free text
  std::vector<TokenId> denied;      // ascending: what free text may not draw, such as ids without a text, and the mask
  bool forced = false;              // text presets with a form: decode the form
  bool activation = true;           // fields: children may start on their parents' drafts
  int32_t most_rows = 0;            // > 0: rows of a pass after the prefill; fields with the longest way to go first
  /// The arena's first slots may still hold this prompt's first rows from an earlier call: of this decoder, or, with
  /// DecodeContext::prefix_cache, of any that was given the same one. These rows are not run again, but for the last one where the
  /// first token is drawn from it. Compared by content; an Lm that does not count its passes (Lm::passes) must not have been run by
  /// others since (the caller's word). Same tokens either way.
  bool reuse_prompt = false;
  bool trace = false;
  bool log_probs = false;     // Decoded::log_probs, for logits of every drawn row; of exact verifiers
  int32_t top_log_probs = 0;  // with log_probs: so many of the likeliest ids at every place, too (Decoded::top_log_probs)
  /// Fields of the graph that are wanted before the others: while one of the first answer's is not there, passes hold these and their ancestors
  /// alone. The same tokens, in another order of time.
  std::vector<int32_t> wanted_first;
  bool log_forced = false;  // Decoded::forced, for logits of the rows before forced tokens; without, it costs nothing
};

}  // namespace slip
