// SPDX-License-Identifier: Apache-2.0
// The schedules: which positions may be worked on now. Each fills answers' tokens (forms: fields too), statistics and rounds; checks that
// concern the model and the request are done by Decoder. All but sections are loops of rounds (rounds/rounds.h) over strands.
#pragma once
#include "decode/pass/passes.h"
#include "decode/rounds/rounds.h"
#include "decode/types/capacity.h"
#include "lm/graph_visibility.h"

namespace slip {

/// Buffers of one decoder, kept from answer to answer.
struct Scratch {
  Passes passes;
  std::vector<Strand> strands;  // never grows while pointers into it live: schedules size it first
  std::vector<Strand*> ready;
  std::vector<float> kept_logits_V;

  /// `count` strands, new, their buffers kept.
  void make_strands(size_t count, Decoded& answer) {
    if (strands.size() < count) strands.resize(count);
    for (size_t i = 0; i < count; ++i) strands[i].reset(answer);
    ready.reserve(strands.size());
  }
};

/// What a schedule works with: one answer per rollout; statistics go to the first.
struct ScheduleContext {
  Scratch& scratch;
  Rounds& rounds;
  Drafter& drafter;
  const LmInfo& info;
  const Form* form;
  std::vector<Decoded>& answers;
  Capacity capacity;
  bool drafts_decide = false;  // the answer depends on what was drafted: a schedule may not leave drafts out
};

Status decode_text(ScheduleContext& context);
Status decode_chain(ScheduleContext& context, bool pass_per_token);
/// `one_by_one`: the graph's fields one after another in place of all that are ready.
Status decode_fields(ScheduleContext& context, bool one_by_one);
/// Free text by block diffusion, committed by confidence or by a sampler.
Status decode_text_blocks(Scratch& scratch, const LmInfo& info, const Method& method, Decoded& answer);
Status decode_sections(Scratch& scratch, const LmInfo& info, const Form& form, const Method& method, Decoded& answer);

}  // namespace slip
