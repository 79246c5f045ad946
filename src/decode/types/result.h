// SPDX-License-Identifier: Apache-2.0
// What decoding gives back: the answer, what it cost, and, where asked for, how every round went.
#pragma once
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "base/ids.h"
#include "form/form.h"

namespace slip {

struct Statistics {
  int64_t forwards = 0;        // passes of the big model: prefill, own drafts, commit passes included
  int64_t draft_forwards = 0;  // of these: passes that only draft
  int64_t rows = 0;
  int64_t tokens = 0;         // of the answer
  int64_t all_tokens = 0;     // of rollouts, with the first one: of all answers together; else `tokens`
  int64_t forced_tokens = 0;  // of these: scaffold
  int64_t proposed = 0, tested = 0, accepted = 0;
  std::vector<int64_t> accepted_at;  // of `accepted`: first, second, ... tested drafts of a round
  int64_t critical_path = 0;         // graph visibility: drawn tokens on the longest path, ENDs included
  int64_t drafter_forwards = 0;      // passes of another model or of a draft head
  int64_t relaxed_accepts = 0;       // relaxed verifier: kept though the target's token is another
  int64_t rounds = 0;                // passes that verified something
  int64_t discarded = 0;             // proposed for a child whose parent turned out otherwise
  int64_t reused_rows = 0;           // rows of the prompt that were in the arena already and did not run
  int64_t nan_rows = 0;              // not finite rows (PassOutput::nan_rows); answers with any are not to be trusted
  struct Milliseconds {
    double prefill = 0, draft = 0, verify = 0, total = 0;
    double drafter_prompt = 0;  // of draft: the pass that carried another model's prompt
  } ms;
  void accept(int32_t at);  // a draft that held, at this place among a round's tested ones
  /// What several answers cost together; tokens and all_tokens stay this one's.
  void add(const Statistics& more);
};

/// A forward pass as it happened; only filled with DecodeOptions::trace.
struct TimedPass {
  enum class Kind : uint8_t { kPrefill, kDraft, kVerify, kDrafter };  // kDrafter: of another model or a draft head
  Kind kind = Kind::kVerify;
  double begin_ms = 0, ms = 0;  // from the answer's beginning
  int64_t rows = 0;
};

/// One round of one strand as it happened; only filled with DecodeOptions::trace. Positions count from the start of the answer.
struct Round {
  int64_t number = 0;            // rounds that ran in one pass share it
  std::optional<int32_t> pass;   // the pass that verified it, of Decoded::passes
  std::optional<int32_t> field;  // graph visibility
  bool closed = false, discarded = false;
  Block block{};                   // scaffold-spec, section-diffusion
  Block rows{};                    // rows of the passes
  std::vector<int32_t> positions;  // of the drafts
  std::vector<TokenId> draft, verify;
  std::vector<double> confidence;  // section-diffusion
  std::vector<int32_t> committed;  // section-diffusion
  int32_t accepted = 0;
  std::optional<int32_t> stop;   // position of the first miss
  std::optional<TokenId> bonus;  // the token after the block, for nothing
  std::vector<TokenId> emitted;  // self-spec
};

/// What the model itself would have drawn where the form forces a token (DecodeOptions::log_forced): the likeliest of all ids, by the row
/// before it. Left out are tokens behind the last draw, whose rows no pass runs; the token behind a field that its END closed, since the row
/// before it drew that END; and along a graph the token behind any field, since no row of the scaffold sees the field.
struct ForcedLog {
  struct Miss {
    int32_t position = 0;  // of the form
    TokenId forced, own;
    double p_forced = 0, p_own = 0;
  };
  int64_t compared = 0;
  std::vector<Miss> misses;  // by position
};

struct Decoded {
  std::vector<TokenId> tokens;
  std::vector<std::vector<TokenId>> fields;  // content per field of the form, END left out
  bool valid = true;                         // the answer is one of the form's (only free text read against a form can fail)
  bool lossy = false;
  Statistics statistics;
  std::vector<Round> rounds;
  std::vector<TimedPass> passes;  // of all answers, with the first one
  /// DecodeOptions::log_probs, per field: natural logarithms of the drawn tokens' probabilities at temperature 1 among the allowed ids, END's
  /// included where it was drawn; free text has one list.
  std::vector<std::vector<double>> log_probs;
  /// Beside each of log_probs: DecodeOptions::top_log_probs ids, the likeliest first, lower ids first among equals; none where one id alone was allowed.
  struct IdLogProb {
    TokenId id;
    double log_prob = 0;
  };
  std::vector<std::vector<std::vector<IdLogProb>>> top_log_probs;
  ForcedLog forced;  // of rollouts: the first one's
};

/// What a caller sees while decoding: tokens that are decided, in order.
struct DecodeProgress {
  std::span<const TokenId> tokens;               // chain and text: the answer so far
  std::span<const std::vector<TokenId>> fields;  // graph visibility: contents so far
  int64_t decided = 0;                           // tokens of either
  int64_t forwards = 0;
  const Statistics* statistics = nullptr;  // so far
};

}  // namespace slip
