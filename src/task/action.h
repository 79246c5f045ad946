// SPDX-License-Identifier: Apache-2.0
// The driving task answered by one action, in the shape of OpenVLA's [docs/notes/checkpoints.md#openvla]: n numbers, the mean
// acceleration in each of the next n half seconds in m/s^2 (of an arm the seven numbers of sim/reach/reach.h), every one an id out of a range of bins. Two models may number and spell
// the bins differently: the bins are what a draft model and its target have in common.
#pragma once
#include <filesystem>
#include <vector>

#include "base/cancel.h"
#include "base/json.h"
#include "base/result.h"
#include "sim/record.h"
#include "task/prompt.h"

namespace slip {

inline constexpr double kActionStepS = 0.5;
inline constexpr int kMostActionSteps = 12;  // 6 s of the records' 6.4

/// Layout of ids: a line break, then one field `action`. The bins divide low .. high in m/s^2, so that nothing is un-normalised.
json::value action_schema(const ActionOptions& options);

/// What the expert did: (v(0.5 k) - v(0.5 (k - 1))) / 0.5 for k = 1 .. n; n at most kMostActionSteps.
std::vector<double> action_of(const sim::Labels& labels, int n);

struct ActionTokenizerOptions {
  ActionOptions action;
  PromptStyle prompt = PromptStyle::kCompact;
  Body body = Body::kCar;
  int32_t vocab = 640;      // everything counted: 256 bytes, merges, special tokens, bins
  bool bins_last = true;    // OpenVLA: the vocabulary's last ids; else before the special tokens
  uint64_t first_seed = 0;  // scenes whose prompts are learned from
  int64_t records = 2000;
  CancelToken cancel = {};
};
/// Writes tokenizer.json and tokenizer_config.json: byte-level BPE of the task's prompts, and <|NAME_i|> for the bins' ids in
/// ascending order. A function of the options alone.
Status make_action_tokenizer(const std::filesystem::path& folder, const ActionTokenizerOptions& options);

}  // namespace slip
