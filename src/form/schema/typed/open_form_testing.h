// SPDX-License-Identifier: Apache-2.0
// Answers of a form drawn at random, and what validators say of them.
#pragma once
#include <gtest/gtest.h>

#include <ctime>
#include <ostream>
#include <string>
#include <vector>

#include "base/philox.h"
#include "form/automaton/token_automaton.h"
#include "form/schema/values.h"
#include "form/schema_testing.h"

namespace slip::test {

inline std::vector<TokenId> allowed(const Field& f, int32_t state) {
  std::vector<TokenId> out;
  if (const TokenAutomaton* a = f.rules.automaton()) {
    const TokenMask& m = a->mask(state);
    if (m.bits.empty()) return m.listed;
    for (int32_t id = 0; id < static_cast<int32_t>(m.bits.size()) * 64; ++id)
      if (m.contains({id})) out.push_back({id});
    return out;
  }
  for (const auto& e : f.rules.state(state).edges) out.push_back(e.id);
  if (f.exits.empty() && f.end && f.rules.may_end(state)) out.push_back(*f.end);
  for (const Exit& e : f.exits)
    if (e.at_start ? state == 0 : f.rules.may_end(state)) out.push_back(e.end);
  return out;
}

/// One field's content, and the piece that it leads to where it has exits.
inline int32_t walk_field(const Field& f, PhiloxStream& r, std::vector<TokenId>& tokens) {
  int32_t state = 0;
  for (int32_t i = 0; !f.exits.empty() || i < f.budget; ++i) {
    const auto choices = allowed(f, state);
    if (choices.empty() || i > f.budget) {
      ADD_FAILURE() << f.name << " is stuck at " << i;
      return -1;
    }
    const TokenId id = choices[r.below(static_cast<uint32_t>(choices.size()))];
    if (ends(f, state, id)) {
      const std::vector<TokenId> content(state == 0 ? 1 : 2, id);
      return f.exits.empty() ? -1 : exit_piece(f, content);
    }
    tokens.push_back(id);
    state = f.rules.next(state, id);
    EXPECT_GE(state, 0) << f.name << ": the mask allows what the rules do not";
    if (state < 0 || (f.closes && f.rules.complete(state))) return -1;
  }
  return -1;
}

inline std::vector<TokenId> random_answer(const Form& form, PhiloxStream& r) {
  std::vector<TokenId> tokens;
  for (int32_t at = 0; at < static_cast<int32_t>(form.pieces().size());) {
    const Piece& piece = form.pieces()[static_cast<size_t>(at)];
    int32_t next = -1;
    if (const auto* run = std::get_if<FixedRun>(&piece))
      tokens.insert(tokens.end(), run->ids.begin(), run->ids.end());
    else
      next = walk_field(form.fields()[static_cast<size_t>(std::get<FieldRef>(piece).field)], r, tokens);
    at = next >= 0 ? next : form.next_piece(at);
  }
  return tokens;
}

/// Empty, or what is wrong with one of five random answers, which go to `out` as lines for tests/form/validate.py.
inline std::string wrong_with(const json::value& schema, const CompiledForm& form, const Tokenizer& t, uint64_t seed, int* gave_up,
                              std::ostream* out = nullptr) {
  PhiloxStream r(seed, 3);
  for (int k = 0; k < 5; ++k) {
    const auto tokens = random_answer(form.form, r);
    const std::string text = answer_text(form, tokens, t);
    if (out) *out << json::object{{"schema", schema}, {"answer", text}} << "\n";
    const auto document = parse_json(text, "answer");
    if (!document) return document.error().message + "\n" + text;
    if (const std::string why = test::why_invalid(schema, *document, gave_up); !why.empty()) return why + "\n" + text;
    const auto contents = split_answer(form.form, tokens);
    if (!contents) return contents.error().message + "\n" + text;
    if (assemble(form.form, *contents) != tokens) return "assembled otherwise\n" + text;
    if (const auto values = parse(form, tokens, t); !values) return values.error().message + "\n" + text;
  }
  return {};
}

/// Seconds of this thread's own: what other programs take does not count.
inline double now() {
  timespec t{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
  return static_cast<double>(t.tv_sec) + static_cast<double>(t.tv_nsec) * 1e-9;
}

}  // namespace slip::test
