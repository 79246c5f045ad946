// SPDX-License-Identifier: Apache-2.0
// Inside of the schedules that diffuse: what they work with, which of a pass's choices stay, what a trace records of them, what a commit sampler
// reads of a masked place, and whether a sampler fits the form.
#pragma once
#include <span>
#include <string_view>
#include <vector>

#include "decode/pass/passes.h"
#include "decode/pass/sampling.h"
#include "decode/types/result.h"
#include "lm/commit_sampler.h"
#include "lm/lm.h"

namespace slip {

/// What a pass would put into a masked place.
struct PlaceChoice {
  int32_t place;  // as the schedule counts its places
  TokenId token;
  double confidence;
};

/// Leaves the choices with confidence > threshold in `choices`, else the single best, the first of equals.
void keep_confident(std::vector<PlaceChoice>& choices, float threshold);

/// Writes the choices into the trace, one round per pass: the round that was opened for the block takes the first. Place 0 is the answer's
/// token `origin`; `pass` as Round::pass.
void trace_choices(std::vector<Round>& rounds, std::span<const PlaceChoice> choices, int32_t origin, std::optional<int32_t> pass);

/// The three likeliest tokens of the whole vocabulary's distribution at temperature 1, rules and settings aside, their probabilities and
/// the entropy. `buffers` is overwritten.
void describe_place(std::span<const float> logits_V, ChoiceBuffers& buffers, CommitPlace& place);

/// What the schedules that diffuse have in common.
class BlockDiffusion {
 protected:
  BlockDiffusion(Passes& passes, const LmInfo& info, float threshold, CommitSampler* sampler, Decoded& answer)
      : p_(passes),
        request_(p_.request()),
        chooser_(p_.chooser()),
        info_(info),
        threshold_(threshold),
        sampler_(sampler),
        answer_(answer) {}

  /// The choice for a masked place; where the settings look back, at `history_`. `at`: whose uniform draws it.
  PlaceChoice choose_at(int32_t u, std::span<const float> logits_V, const Allowed& allowed, const Sampling& sampling,
                        const Place& at);
  /// The sampler's numbers for the places in `block_`, the first of which is place `begin`, in place of the choices' confidence. A choice that
  /// is not the likeliest token was not looked at by it and counts 0.
  Status ask_sampler_for(int32_t begin);

  Passes& p_;
  const DecodeRequest& request_;
  Chooser& chooser_;
  const LmInfo& info_;
  float threshold_;
  CommitSampler* sampler_;
  Decoded& answer_;
  std::vector<std::optional<TokenId>> x_;
  std::vector<PlaceChoice> choices_;
  std::vector<CommitPlace> block_;
  std::vector<float> probability_;
  std::vector<TokenId> history_;
};

/// kUsage without a sampler, kBadInput for one of another vocabulary, kUnsupported where blocks of `width` rows exceed its own; `where`: what
/// is decoded.
Status check_commit_sampler(const CommitSampler* sampler, const LmInfo& info, int32_t width, std::string_view where);

}  // namespace slip
