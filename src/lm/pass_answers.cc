// SPDX-License-Identifier: Apache-2.0
#include "lm/pass_answers.h"

namespace slip {

void RowsByWant::sort(const Pass& pass) {
  wanted_N.clear();
  argmax_N.clear();
  logits_N.clear();
  for (size_t t = 0; t < pass.rows.size(); ++t) {
    const Want want = pass.rows[t].want;
    if (want == Want::kNothing) continue;
    wanted_N.push_back(static_cast<int32_t>(t));
    (want == Want::kLogits ? logits_N : argmax_N).push_back(static_cast<int32_t>(t));
  }
}

void begin_output(const Pass& pass, const LmInfo& info, PassOutput& out) {
  out.vocab = info.vocab;
  out.argmax.assign(pass.rows.size(), TokenId{});
  out.logits_row.assign(pass.rows.size(), -1);
  out.logits_NV.clear();
  out.kept_NV = nullptr;
  out.statistics.clear();
  out.taps_NE.resize(pass.taps ? pass.rows.size() * static_cast<size_t>(taps_width(info)) : 0);
  out.nan_rows = 0;
}

void lay_out_logits(const Pass& pass, float fill, PassOutput& out) {
  out.logits_row.assign(pass.rows.size(), -1);
  int32_t lines = 0;
  for (size_t t = 0; t < pass.rows.size(); ++t)
    if (pass.rows[t].want == Want::kLogits) out.logits_row[t] = lines++;
  out.logits_NV.assign(static_cast<size_t>(lines) * static_cast<size_t>(out.vocab), fill);
  out.kept_NV = nullptr;
}

}  // namespace slip
