// SPDX-License-Identifier: Apache-2.0
// What a caller lends a decoder for one answer: the resources that the parts of its method need, hooks, and the token by which the
// request can be cancelled. DecodeOptions (options.h) holds what a user chooses.
#pragma once
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/ids.h"
#include "decode/types/result.h"
#include "decode/types/vocabulary_map.h"
#include "limits/speed_of_light.h"
#include "lm/lm.h"
#include "slipstream/error.h"

namespace slip {

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
  VocabularyMap to_draft;
  VocabularyMap to_target;  // a draft that the target has no id for is dropped, never put to another id
  /// With DecodeOptions::reuse_prompt, what `lm`'s arena holds of the prompt, for callers whose decoders do not live from answer to answer.
  PrefixCache* prefix_cache = nullptr;
};

/// Keys and values that a network beside the model may read: the prompt's and those of the answer's first sections.
struct KnownKeys {
  int32_t sections = 0;             // of the form, from its beginning; 0: the prompt alone
  std::span<const SlotSpan> slots;  // of the Lm, in the order of positions
  int32_t position = 0;             // behind them
  int64_t forwards = 0;             // so far
};

/// Everything that is pointed to outlives the answer. A part that the method does not use may be there all the same.
struct DecodeContext {
  const PreviousAnswer* previous = nullptr;
  const DraftModel* draft_model = nullptr;
  DraftHead* draft_head = nullptr;
  CommitSampler* commit_sampler = nullptr;
  const DraftLengthModel* draft_length_model = nullptr;  // draft length measured (draft_length/model.h)
  DraftLengthTracker* draft_length_tracker =
      nullptr;  // what the draft length learns from answer to answer; without: from each answer alone
  DraftLengthObserver* draft_length_observer = nullptr;  // sees every tested draft's facts, whatever the draft length
  const BlockPilot* block_pilot = nullptr;               // draft length blockpilot (lm/block_pilot.h)
  /// What the arena's first slots hold of the prompt before (DecodeOptions::reuse_prompt), where several decoders use one Lm by turns.
  PrefixCache* prefix_cache = nullptr;
  /// Asked before every pass, the drafter's too.
  CancelToken cancel = {};
  std::function<void(const DecodeProgress&)> on_progress = {};
  /// Progress of a long pass over a prompt: `done` of `total` rows.
  std::function<void(int64_t done, int64_t total)> on_prefill = {};
  /// Asked after every token of free text, whether these end it. Looks at the tokens alone: answers take turns.
  std::function<bool(std::span<const TokenId>)> ends_text = {};
  /// Called once for every field of the form as soon as nothing can change its content any more, in the order in which that is decided;
  /// of rollouts: answer 0's. Placeholders of instances that the enumeration does not name count, too. On the decoding thread; the
  /// content is a view that holds during the call. Free text is read against a form when it is complete: its fields come together then,
  /// if it is one of the form's.
  /// `forwards`: the answer's passes so far.
  std::function<void(int32_t field, std::span<const TokenId> content, int64_t forwards)> on_field = {};
  /// Called when the keys of the prompt and of so many sections (`keys_behind`, ascending; 0: the prompt's alone) are final in the arena; of
  /// rollouts: answer 0's. No token changes. Rows of a chain's section travel with the round behind it; its last rows, a prompt that
  /// would have travelled with the first round, and along a graph rows that no descendant has called for take a pass of their own. A
  /// graph's keys are those of a further field that depends on all fields of these sections. Schedule sections, whose rows are not
  /// causal, runs the answer once more at the end and tells of the prompt and of the last number alone.
  std::vector<int32_t> keys_behind = {};
  std::function<Status(const KnownKeys&)> on_keys = {};
  /// How many requests like this one share its passes, as draft lengths `measured` price them: rows cost what they cost where all do the
  /// same. Read before every round; null: this one is alone. It changes no exact answer, only its time.
  const double* company = nullptr;
  /// Called by section-diffusion before it commits anything in a block: what is decided of it, and what the model would put into the rest
  /// if other places of it were decided. For measuring; the answer stays what it is, the passes are counted.
  std::function<Status(std::span<const std::optional<TokenId>> start, const BlockModel& ask)> on_block = {};
  std::vector<std::shared_ptr<const void>> keeps = {};  // what pointers here point into
};

}  // namespace slip
