// SPDX-License-Identifier: Apache-2.0
// What rows must deliver, and what is picked from what they delivered: the target's token at a place, and a drafter's proposal for it.
#pragma once
#include <map>
#include <span>
#include <utility>
#include <vector>

#include "base/philox.h"
#include "decode/pass/allowed_lists.h"
#include "decode/pass/pass_builder.h"
#include "decode/pass/request.h"
#include "decode/pass/sampling.h"
#include "decode/sequence/strand.h"

namespace slip {

/// What a method's verifier and draft length want of drafts beside their tokens.
struct DraftNeeds {
  bool facts = false;       // DraftToken::facts
  bool sampled = false;     // drawn from the drafter's distribution, not taken greedily
  bool group_rows = false;  // mask 1 of every group delivers logits, and drafts are told of it (DraftToken::group_row)
};

/// The distributions that a round's drafts were drawn from, line by line.
class DraftDistributions {
 public:
  void clear();
  /// Its line. `vocab`: ids of a distribution at most.
  int32_t keep(const Distribution& q, int32_t vocab);
  Distribution of(int32_t line) const;

 private:
  std::vector<TokenId> ids_;
  std::vector<double> weights_;
  std::vector<size_t> ends_;
};

class Chooser {
 public:
  /// `pass` and `out`: the pass that is being laid out, and what the last one delivered.
  Chooser(PassBuilder& pass, const PassOutput& out) : pass_(pass), out_(out) {}
  void start(const DecodeRequest& request);
  void set_needs(const DraftNeeds& needs) { needs_ = needs; }
  const DraftNeeds& needs() const { return needs_; }
  /// The lists of ids that rows of a pass name.
  std::span<const std::span<const TokenId>> lists() const { return lists_.lists(); }
  /// Why logits that an Lm keeps could not be read; what was picked since then is void.
  const Status& failure() const { return failure_; }

  // ---- what holds at a place
  float temperature_of(int32_t section) const;
  float temperature_at(const Place& place) const;
  Sampling sampling_at(const Place& place) const;
  Allowed allowed_at(const Place& place);
  double uniform(uint32_t request, const Place& place, Purpose purpose) const;

  // ---- the target's token
  /// What a row must deliver so that the target's token at a place can be picked from it.
  Want want_at(const Place& place);
  /// Asks this row for what comes at `place` too. With kArgmax only the ids that the place allows compete.
  void ask(size_t row, Want want, const Place& place);
  TokenId pick_at(size_t row, uint32_t request, const Place& place, std::span<const TokenId> history);
  /// Whether what is picked counts as drawn, for log_probs.
  void record_drawn(bool on) { records_drawn_ = on; }
  /// Decoded::log_probs of the first answer, whose fields (or free text) are decided.
  std::vector<std::vector<double>> log_probs(const Decoded& answer) const;
  /// Decoded::top_log_probs, likewise.
  std::vector<std::vector<std::vector<Decoded::IdLogProb>>> top_log_probs(const Decoded& answer) const;

  // ---- drafts
  /// What a row must deliver for a draft of a field (none: of free text).
  Want draft_want(std::optional<int32_t> field) const;
  /// A drafter's proposal from a row of the last pass, with its facts where somebody wants them.
  TokenId draft_from(size_t row, const Strand& strand, DraftToken& draft);
  /// The same from any logits over the target's vocabulary (another model's, a head's). Greedy under the field's rules; where the
  /// verifier samples drafts, drawn with purpose kDraft from the settings' distribution, which is kept as line DraftToken::q until the
  /// next round. The strand's path must end where the draft is made (propose_along).
  TokenId propose_from(std::span<const float> logits_V, const Strand& strand, DraftToken& draft);
  DraftDistributions& distributions() { return distributions_; }
  ChoiceBuffers& buffers() { return buffers_; }

 private:
  TokenId pick_kept(int32_t line, uint32_t request, const Place& place);
  TokenId draft_kept(int32_t line, const Strand& strand, DraftToken& draft);
  std::span<const float> all_kept(int32_t line);
  TokenId target_token(size_t row, uint32_t request, const Place& place, std::span<const TokenId> history);
  PassBuilder& pass_;
  const PassOutput& out_;
  const DecodeRequest* request_ = nullptr;
  DraftNeeds needs_;
  AllowedLists lists_;
  std::vector<TokenId> listed_;
  ChoiceBuffers buffers_;
  DraftDistributions distributions_;
  std::vector<uint64_t> bits_;
  std::vector<float> nothing_V_;  // read in place of logits that could not be
  Status failure_;
  bool records_drawn_ = true;
  struct Drawn {
    double log_prob = 0;
    std::vector<Decoded::IdLogProb> top;
  };
  template <class T, class Of>
  std::vector<std::vector<T>> of_drawn(const Decoded& answer, Of of) const;
  std::map<std::pair<std::optional<int32_t>, int32_t>, Drawn>
      drawn_;  // with log_probs, by field and index; what was picked last counts
};

}  // namespace slip
