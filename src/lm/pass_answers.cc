// SPDX-License-Identifier: Apache-2.0
#include "lm/pass_answers.h"

namespace slip {

void RowsByWant::sort(const Pass& pass, bool keeps) {
  for (auto* list : {&wanted_N, &argmax_N, &logits_N, &likely_N}) list->clear();
  for (size_t t = 0; t < pass.rows.size(); ++t) {
    const Want want = pass.rows[t].want;
    if (want == Want::kNothing) continue;
    wanted_N.push_back(static_cast<int32_t>(t));
    (want == Want::kArgmax ? argmax_N : keeps && want == Want::kLikely ? likely_N : logits_N).push_back(static_cast<int32_t>(t));
  }
}

void begin_output(const Pass& pass, const LmInfo& info, PassOutput& out) {
  out.vocab = info.vocab;
  out.argmax.assign(pass.rows.size(), TokenId{});
  out.logits_row.assign(pass.rows.size(), -1);
  out.logits_NV.clear();
  out.kept_NV = nullptr;
  out.kept = nullptr;
  out.statistics.clear();
  out.taps_NE.resize(pass.taps ? pass.rows.size() * static_cast<size_t>(taps_width(info)) : 0);
  out.nan_rows = 0;
}

void lay_out_logits(const Pass& pass, float fill, PassOutput& out) {
  out.logits_row.assign(pass.rows.size(), -1);
  int32_t lines = 0;
  for (size_t t = 0; t < pass.rows.size(); ++t)
    if (brings_logits(pass.rows[t].want)) out.logits_row[t] = lines++;
  out.logits_NV.assign(static_cast<size_t>(lines) * static_cast<size_t>(out.vocab), fill);
  out.kept_NV = nullptr;
  out.kept = nullptr;
}

}  // namespace slip
