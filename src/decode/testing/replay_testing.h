// SPDX-License-Identifier: Apache-2.0
// A simulator of forward counts: what a method and a draft length cost on a script of lengths and accept bits, without a model and without
// the engine's passes, rounds and schedules. Two uses: the engine's counters must equal it on replayed bits (gate 25), and draft lengths are
// compared on thousands of scripts in no time (docs/lab/0004-widths.md). Covers forms on the chain and along the graph, one answer,
// fields without rules and instances, drafts that are a function of their place (an earlier answer; or, in passes of the model, fields
// of fixed size).
#pragma once
#include <cstdint>
#include <vector>

#include "decode/draft_length/model.h"
#include "decode/draft_length/observer.h"
#include "decode/draft_length/policy.h"

namespace slip {

struct ReplayScript {
  struct Field {
    int32_t content = 0;         // tokens of the answer
    int32_t draft = 0;           // where the drafter's END stands; the budget or more: none
    std::vector<uint8_t> right;  // per index, END's included: does the draft hold when it is tested?
    std::vector<float> top;      // per index: its facts; may be empty
  };
  std::vector<Field> fields;
};

struct ReplayMethod {
  bool graph = true, activation = true;
  bool drafts_in_passes = false;    // diffusion: a draft pass before every round; children start without drafts
  const CostTable* cost = nullptr;  // of passes; left out: the prefill, and rows that only feed closed fields
  DraftLengthObserver* observer = nullptr;
};

struct ReplayCounts {
  int64_t forwards = 0, draft_forwards = 0, rounds = 0, proposed = 0, tested = 0, accepted = 0, discarded = 0;
  double ms = 0;
};

ReplayCounts replay(const Form& form, const ReplayScript& script, const ReplayMethod& method, DraftLengthPolicy& lengths);

}  // namespace slip
