// SPDX-License-Identifier: Apache-2.0
// See known_keys.h.
#include "decode/schedule/known_keys.h"

#include <algorithm>

#include "decode/draft/drafter.h"
#include "decode/schedule/graph_scaffold.h"
#include "form/schema/values.h"

namespace slip {

std::optional<int32_t> KeysTeller::next() const {
  const DecodeContext& c = request().context;
  if (!c.on_keys || !request().form || told_ == c.keys_behind.size()) return std::nullopt;
  return c.keys_behind[told_];
}

int32_t KeysTeller::end(int32_t sections) const {
  return sections > 0 ? request().form->sections()[static_cast<size_t>(sections) - 1].end : 0;
}

Status KeysTeller::tell(std::span<const SlotSpan> slots, int32_t position) {
  const KnownKeys known{request().context.keys_behind[told_], slots, position, request().statistics.forwards};
  ++told_;
  return request().context.on_keys(known);
}

Status KeysTeller::prompt(Drafter* drafter) {
  if (next() != 0) return {};
  if (p_.prefill().deferred()) {
    p_.begin();
    if (p_.next().rows() > 0) {
      const bool taps = drafter && drafter->wants_taps();
      if (taps) p_.next().want_taps();
      SLIP_TRY_(p_.run(PassKind::kPrefill));
      if (taps) SLIP_TRY_(drafter->after_pass());
    }
  }
  const SlotSpan prompt{0, request().prompt_rows()};
  return tell(std::span(&prompt, 1), request().prompt.next_position);
}

Status KeysTeller::chain(Strand& s, std::span<const std::vector<TokenId>> contents) {
  while (const auto sections = next()) {
    if (!s.done() && s.cursor.position() < end(*sections)) return {};
    const int32_t rows = tokens_before(*request().form, contents, end(*sections)) - s.first_row;
    if (s.cached < rows && !s.done()) return {};  // they travel with the next round
    if (s.cached < rows) {
      p_.begin();
      add(s, rows);
      SLIP_TRY_(p_.run(PassKind::kVerify));
    }
    std::vector<SlotSpan> slots(s.context);
    slots.push_back({s.first_slot, s.first_slot + rows});
    SLIP_TRY_(tell(slots, s.first_position + rows));
  }
  return {};
}

void KeysTeller::add(Strand& s, int32_t rows) {
  for (int32_t i = s.cached; i < rows; ++i)
    p_.next().add_row(s.tokens[static_cast<size_t>(i)], s.first_position + i, s.first_slot + i,
                      p_.next().add_spans(s.context, {s.first_slot, s.first_slot + i + 1}), Want::kNothing);
  s.cached = rows;
}

Status KeysTeller::graph(std::span<const ClosedField> fields, const GraphScaffold& scaffold) {
  const auto waits = [](const ClosedField& f) { return f.strand->cached < f.strand->length(); };
  if (std::any_of(fields.begin(), fields.end(), waits)) {  // a begun pass forgets what the last one drafted
    p_.begin();
    for (const ClosedField& f : fields) add(*f.strand, f.strand->length());
    SLIP_TRY_(p_.run(PassKind::kVerify));
  }
  const int32_t first = request().prompt_rows(), position = end(*next());
  std::vector<SlotSpan> slots{{0, first}};
  const auto append = [&](int32_t begin, int32_t end) {
    if (begin < end) slots.push_back({begin, end});
  };
  int32_t row = 0;  // of the scaffold
  for (const ClosedField& f : fields) {
    const Strand& s = *f.strand;
    const Field& field = request().field(*s.field);
    // A field's first rows stand for the fixed tokens before it that go with it.
    append(first + row, first + scaffold.rows_before(field.start - field.hand_off));
    row = scaffold.rows_before(field.start);
    for (size_t i = f.spans_before; i < s.context.size(); ++i) append(s.context[i].begin, s.context[i].end);
    append(s.first_slot, s.first_slot + s.length());
  }
  append(first + row, first + scaffold.rows_before(position));
  return tell(slots, request().prompt.next_position + position);
}

Status KeysTeller::whole(std::span<const TokenId> tokens, std::span<const std::vector<TokenId>> contents, int32_t slot) {
  if (!next()) return {};
  told_ = request().context.keys_behind.size() - 1;
  const int32_t rows = tokens_before(*request().form, contents, end(*next())), position = request().prompt.next_position;
  p_.begin();
  for (int32_t i = 0; i < rows; ++i)
    p_.next().add_row(tokens[static_cast<size_t>(i)], position + i, slot + i, p_.next().add_spans({}, {0, slot + i + 1}),
                      Want::kNothing);
  if (rows > 0) SLIP_TRY_(p_.run(PassKind::kVerify));
  const SlotSpan all{0, slot + rows};
  return tell(std::span(&all, 1), position + rows);
}

}  // namespace slip
