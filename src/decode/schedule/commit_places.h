// SPDX-License-Identifier: Apache-2.0
// Inside of the schedules that diffuse: what a commit sampler is told of a masked place, and whether a sampler fits.
#pragma once
#include <string_view>

#include "decode/pass/sampling.h"
#include "lm/commit_sampler.h"
#include "lm/lm.h"

namespace slip {

/// The three likeliest tokens of the whole vocabulary's distribution at temperature 1, rules and settings aside, their probabilities and
/// the entropy. `buffers` is overwritten.
void describe_place(std::span<const float> logits_V, ChoiceBuffers& buffers, CommitPlace& place);

/// kUsage without a sampler, kBadInput for one of another vocabulary, kUnsupported where blocks of `width` rows exceed its own; `where`: what
/// is decoded.
Status check_commit_sampler(const CommitSampler* sampler, const LmInfo& info, int32_t width, std::string_view where);

}  // namespace slip
