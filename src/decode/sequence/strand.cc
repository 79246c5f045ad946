// SPDX-License-Identifier: Apache-2.0
#include "decode/sequence/strand.h"

#include <algorithm>

namespace slip {

void StrandRound::reset() {
  StrandRound fresh;
  drafts.clear();
  path.clear();
  std::swap(fresh.drafts, drafts);
  std::swap(fresh.path, path);
  *this = std::move(fresh);
}

void Strand::reset(Decoded& to) {
  field.reset();
  request = 0;
  answer = &to;
  cursor = {};
  tokens.clear();
  before.clear();
  cached = 0;
  context.clear();
  first_slot = first_position = first_row = scratch_slot = 0;
  missed.reset();
  behind_end = logs = false;
  template_rows.clear();
  group.reset();
  round.reset();
}

void Strand::take_fixed() {
  while (cursor.at_fixed()) take_fixed_once();
}

void Strand::take_fixed_once() {
  const std::optional<int32_t> placeholder_of = cursor.fixed_field();
  if (logs && !placeholder_of && !behind_end) template_rows.emplace_back(length(), cursor.position());
  behind_end = false;
  tokens.push_back(cursor.fixed());
  ++answer->statistics.forced_tokens;
  if (placeholder_of) answer->fields[static_cast<size_t>(*placeholder_of)].push_back(tokens.back());
  cursor.take_fixed();
}

void Strand::take(TokenId token) {
  const std::optional<int32_t> f = cursor.place().field;
  const bool records = cursor.records_end();
  behind_end = !cursor.take(token);
  if (behind_end && records) answer->fields[static_cast<size_t>(*f)].push_back(token);
  if (behind_end) return;
  tokens.push_back(token);
  if (f) answer->fields[static_cast<size_t>(*f)].push_back(token);
}

void Strand::begin_path() {
  round.drafts.clear();
  round.path.assign(tokens.begin(), tokens.end());
  round.ahead = cursor;
  round.ahead_behind_end = behind_end;
  round.feed_last = false;
  round.next.reset();
}

void Strand::crop_drafts(size_t count) {
  round.drafts.resize(count);
  round.path.assign(tokens.begin(), tokens.end());
  round.ahead = cursor;
  round.ahead_behind_end = behind_end;
  forget_ahead();
  for (const DraftToken& d : round.drafts) {
    while (round.ahead.at_fixed()) walk_fixed();
    walk(d.token);
  }
}

void Strand::walk_fixed() {
  if (logs && !round.ahead.fixed_field() && !round.ahead_behind_end)
    template_rows.emplace_back(round.path_rows(), round.ahead.position());
  round.ahead_behind_end = false;
  round.path.push_back(round.ahead.fixed());
  round.ahead.take_fixed();
}

void Strand::walk(TokenId token) {
  round.ahead_behind_end = !round.ahead.take(token);
  if (!round.ahead_behind_end) round.path.push_back(token);
}

void Strand::forget_ahead() {
  std::erase_if(template_rows, [&](const auto& r) { return r.first >= length(); });
}

std::span<const TokenId> Strand::history(const Place& place, int32_t rows) const {
  const auto own = std::span(round.path).first(static_cast<size_t>(rows));
  const auto n = static_cast<size_t>(place.index);
  if (n <= own.size() || before.empty()) return own.last(std::min(own.size(), n));
  const size_t more = std::min(before.size(), n - own.size());
  history_.assign(before.end() - static_cast<ptrdiff_t>(more), before.end());
  history_.insert(history_.end(), own.begin(), own.end());
  return history_;
}

}  // namespace slip
