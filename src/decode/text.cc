// SPDX-License-Identifier: Apache-2.0
// Free text: one token a pass, and linear self-speculation [Nemotron-Labs-Diffusion; Fast-dVLM].
//
// Round of self-spec, c tokens cached, anchor = the newest token, not cached:
//   draft   rows c .. c+w-1 = [anchor, MASK ...], which see the cache and each other; draft j from row j (no shift) or j-1 (shift)
//   verify  the same rows with drafts in place, causal; row i's pick follows element i; keep up to the first difference
// Test: SelfSpec.CommitsTheSameTokensAsOneAtATime.
#include <algorithm>

#include "decode/methods.h"

namespace slip {
namespace {

bool ends(const DecodeOptions& o, TokenId id) {
  return std::find(o.end_tokens.begin(), o.end_tokens.end(), id) != o.end_tokens.end();
}

/// Emits a token; false when the answer ends with it.
bool emit(const DecodeOptions& o, std::vector<TokenId>& tokens, TokenId id) {
  tokens.push_back(id);
  return !ends(o, id) && static_cast<int32_t>(tokens.size()) < o.limit;
}

Result<bool> first_token(Work& work, Decoded& answer) {
  Passes& p = work.passes;
  SLIP_TRY_(p.prefill(p.want_for_text()));
  const bool more = emit(p.options(), answer.tokens, p.pick_text(p.rows() - 1, 0));
  p.progress(answer.tokens);
  return more;
}

}  // namespace

Status decode_text(Work& work, const LmInfo&, const Method&, Decoded& answer) {
  Passes& p = work.passes;
  SLIP_TRY_(p.reserve(p.options().limit));
  SLIP_TRY(bool more, first_token(work, answer));
  while (more) {
    const auto i = static_cast<int32_t>(answer.tokens.size()) - 1;
    p.clear();
    p.add(answer.tokens.back(), i, i + 1, p.want_for_text());
    SLIP_TRY_(p.run(PassKind::kVerify));
    more = emit(p.options(), answer.tokens, p.pick_text(0, i + 1));
    p.progress(answer.tokens);
  }
  return {};
}

Status decode_text_self_spec(Work& work, const LmInfo& info, const Method& method, Decoded& answer) {
  Passes& p = work.passes;
  const int32_t width = method.width.tokens;
  Statistics& stats = answer.statistics;
  SLIP_TRY_(p.reserve(p.options().limit + width));
  work.draft.resize(static_cast<size_t>(width));
  work.verify.resize(static_cast<size_t>(width));
  SLIP_TRY(bool more, first_token(work, answer));
  while (more) {
    const auto c = static_cast<int32_t>(answer.tokens.size()) - 1;  // answer rows cached
    p.clear();
    for (int32_t j = 0; j < width; ++j)
      p.add(j == 0 ? answer.tokens.back() : info.rule.mask, c + j, c + width,
            (info.rule.shift ? j + 1 < width : j > 0) ? Want::kArgmax : Want::kNothing);
    SLIP_TRY_(p.run(PassKind::kDraft));
    work.draft[0] = answer.tokens.back();
    for (int32_t j = 1; j < width; ++j)
      work.draft[static_cast<size_t>(j)] = p.draft_text(static_cast<size_t>(info.rule.shift ? j - 1 : j));

    p.clear();
    for (int32_t j = 0; j < width; ++j) p.add(work.draft[static_cast<size_t>(j)], c + j, c + j + 1, p.want_for_text());
    SLIP_TRY_(p.run(PassKind::kVerify));
    for (int32_t j = 0; j < width; ++j) work.verify[static_cast<size_t>(j)] = p.pick_text(static_cast<size_t>(j), c + 1 + j);
    int32_t accepted = 0;
    while (accepted + 1 < width && work.verify[static_cast<size_t>(accepted)] == work.draft[static_cast<size_t>(accepted) + 1])
      ++accepted;
    stats.proposed += width - 1;
    stats.accepted += accepted;
    stats.tested += std::min(accepted + 1, width - 1);
    if (p.options().trace)
      answer.rounds.push_back({.rows = {c, c + width},
                               .draft = {work.draft.begin() + 1, work.draft.end()},
                               .verify = work.verify,
                               .accepted = accepted,
                               .emitted = {work.verify.begin(), work.verify.begin() + accepted + 1}});
    for (int32_t j = 0; j <= accepted && more; ++j) more = emit(p.options(), answer.tokens, work.verify[static_cast<size_t>(j)]);
    p.progress(answer.tokens);
  }
  return {};
}

}  // namespace slip
