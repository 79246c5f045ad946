// SPDX-License-Identifier: Apache-2.0
// What a caller asks of a decoder beside its method: sampling, visibility, limits, and the resources that its parts need.
#pragma once
#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include "base/ids.h"
#include "base/result.h"
#include "decode/types/method.h"
#include "decode/types/result.h"
#include "lm/lm.h"

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

class DraftHead;
class CommitSampler;
class PrefixCache;
struct DraftLengthModel;
class DraftLengthTracker;
class DraftLengthObserver;
class BlockPilot;

/// An earlier answer of the same form: contents per field, or free text.
struct PreviousAnswer {
  std::string form;  // name of the form it answers
  std::vector<std::vector<TokenId>> fields;
  std::vector<TokenId> tokens;
};

/// A second model that drafts: its own prompt for the same request, and how its ids and the target's name the same token.
struct DraftModel {
  Lm* lm = nullptr;
  Prompt prompt;
  std::vector<TokenId> to_draft;   // per target id; -1: the drafter has no such token
  std::vector<TokenId> to_target;  // per drafter id; -1: the target has none: such a draft is dropped, never put to another id
  /// With DecodeOptions::reuse_prompt, what `lm`'s arena holds of the prompt, for callers whose decoders do not live from answer to answer.
  PrefixCache* memory = nullptr;
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
  const PreviousAnswer* previous = nullptr;
  const DraftModel* draft_model = nullptr;
  DraftHead* draft_head = nullptr;
  CommitSampler* commit_sampler = nullptr;
  const DraftLengthModel* draft_length_model = nullptr;  // width measured (draft_length_model.h)
  DraftLengthTracker* draft_length_tracker =
      nullptr;  // what the width learns from answer to answer; without: from each answer alone
  DraftLengthObserver* draft_length_observer = nullptr;  // sees every tested draft's facts, whatever the width
  const BlockPilot* block_pilot = nullptr;               // width blockpilot (width_pilot.h)
  /// The arena's first slots may still hold this prompt's first rows from an earlier call: of this decoder, or, with `prefix_cache`, of
  /// any that was given the same one. These rows are not run again, but for the last one where the first token is drawn from it.
  /// Compared by content; an Lm that does not count its passes (Lm::passes) must not have been run by others since (the caller's
  /// word). Same tokens either way.
  bool reuse_prompt = false;
  PrefixCache* prefix_cache = nullptr;
  bool trace = false;
  bool log_forced = false;  // Decoded::forced, for logits of the rows before forced tokens; without, it costs nothing
  std::optional<std::chrono::steady_clock::time_point> deadline;
  const std::atomic<bool>* cancel = nullptr;  // polled before every pass, and while images are cut into patches
  std::function<void(const DecodeProgress&)> on_progress = {};
};

/// kCancelled where Ctrl-C, `cancel` or the deadline says that nobody waits for the answer any more; told after `done` of `what`:
/// "<stage>: expected to finish, got cancelled after 3 passes". For work of a request between whose parts one may stop.
Status check_wanted(const DecodeOptions& options, std::string_view stage, int64_t done, std::string_view what);

}  // namespace slip
