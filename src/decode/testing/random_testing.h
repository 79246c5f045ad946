// SPDX-License-Identifier: Apache-2.0
// For tests: random prompts and forms, with graphs, ENDs, rules and instances, for models of hashes.
#pragma once
#include <stdexcept>

#include "base/philox.h"
#include "decode/decoder.h"
#include "decode/testing/hash_lm_testing.h"

namespace slip::test {

inline constexpr int32_t kTrialVocab = 24;

inline TokenId random_id(PhiloxStream& r, int32_t vocab = kTrialVocab) {
  return {3 + static_cast<int32_t>(r.below(static_cast<uint32_t>(vocab) - 3))};
}

/// An END that is not the placeholder: a placeholder that ends itself could not be read back.
inline TokenId end_but(int32_t placeholder, PhiloxStream& r) {
  const TokenId id = random_id(r);
  return id.value == placeholder ? TokenId{11} : id;
}

/// So many ids.
inline Prompt text_prompt(PhiloxStream& r, int32_t rows, int32_t vocab = kTrialVocab) {
  Prompt p;
  for (int32_t i = 0; i < rows; ++i) {
    p.inputs.emplace_back(random_id(r, vocab));
    p.positions.push_back(Position::text(i));
  }
  p.next_position = rows;
  return p;
}

inline Prompt random_prompt(PhiloxStream& r) {
  Prompt p = text_prompt(r, static_cast<int32_t>(1 + r.below(6)));
  p.next_position += static_cast<int32_t>(r.below(3));  // images end before their count of rows, or after
  return p;
}

inline TokenRules random_rules(PhiloxStream& r, int32_t budget, bool fixed_size) {
  const TokenId null{2};
  if (r.chance(0.25)) {
    std::vector<TokenId> set{random_id(r)};
    for (uint32_t n = r.below(5); n > 0; --n) set.push_back(random_id(r));
    return TokenRules::only(set);
  }
  if (r.chance(0.3)) {
    std::vector<std::vector<TokenId>> words(1 + r.below(5));
    for (auto& w : words)
      for (uint32_t n = 1 + r.below(static_cast<uint32_t>(budget)); n > 0; --n) w.push_back(random_id(r));
    return TokenRules::one_of(words, fixed_size ? std::optional(null) : std::nullopt, budget);
  }
  return {};
}

/// Fixed tokens, the END of the field before them first, and a field behind them, which is not appended yet.
inline Field next_field(Form::Parts& p, int32_t number, int32_t section, PhiloxStream& r) {
  FixedRun run{{}, section};
  for (uint32_t n = 1 + r.below(4); n > 0; --n) run.ids.push_back(random_id(r));
  if (number > 0 && p.fields.back().end) run.ids.front() = *p.fields.back().end;
  p.pieces.emplace_back(run);
  return {.name = std::to_string(number), .budget = static_cast<int32_t>(1 + r.below(7)), .section = section};
}

/// Fixed tokens behind the last field, which its END needs, names for sections 0 .. last_section, and the form.
inline Form closed_form(Form::Parts p, int32_t last_section, PhiloxStream& r) {
  if (p.fields.back().end || r.chance(0.7))
    p.pieces.emplace_back(FixedRun{{p.fields.back().end.value_or(TokenId{9}), {10}}, last_section});
  for (int32_t s = 0; s <= last_section; ++s) p.section_names.push_back(std::to_string(s));
  auto form = Form::make(std::move(p));
  if (!form) throw std::runtime_error(form.error().message);
  return std::move(*form);
}

/// Fields in a random acyclic graph; some close by END (the next fixed token); sometimes an enumeration and what it names.
inline Form random_graph_form(PhiloxStream& r) {
  Form::Parts p;
  p.name = "random";
  p.block_size = static_cast<int32_t>(1 + r.below(9));
  const auto fields = static_cast<int32_t>(1 + r.below(6));
  std::vector<int32_t> rank(static_cast<size_t>(fields));
  for (size_t f = 0; f < rank.size(); ++f) rank[f] = static_cast<int32_t>(f);
  for (size_t f = rank.size(); f-- > 1;) std::swap(rank[f], rank[r.below(static_cast<uint32_t>(f) + 1)]);
  int32_t section = 0;
  const bool enumerates = fields > 2 && r.chance(0.3);
  for (int32_t f = 0; f < fields; ++f) {
    Field x = next_field(p, f, section, r);
    if (r.chance(0.6)) x.end = random_id(r);
    x.rules = random_rules(r, x.budget, !x.end);
    for (int32_t q = 0; q < fields; ++q)
      if (rank[static_cast<size_t>(q)] < rank[static_cast<size_t>(f)] && !(enumerates && q > f) && r.chance(0.4))
        x.parents.push_back(q);
    if (enumerates && f == 0) {
      x.end = end_but(9, r);
      x.parents.clear();
      x.rules = {};
      for (int32_t id = 3; id < 9; ++id) x.separators.push_back({id});
      x.placeholder = {{9}};
    } else if (enumerates && r.chance(0.6)) {
      x.end = end_but(10, r);
      x.rules = {};
      x.placeholder = {{10}};
      x.parents.assign(1, 0);
      x.instance_of = Field::InstanceOf{0, static_cast<int32_t>(r.below(3))};
    }
    p.fields.push_back(x);
    p.pieces.emplace_back(FieldRef{f});
    section += static_cast<int32_t>(r.below(2));
  }
  return closed_form(std::move(p), section, r);
}

/// For graphs alone: enumerations, the first of which leaves out what it does not name, and what they name; one END for all.
inline Form random_absent_form(PhiloxStream& r) {
  constexpr TokenId kEnd{0};  // no random id, so that answers can be read back
  Form::Parts p;
  p.name = "random";
  p.block_size = static_cast<int32_t>(1 + r.below(9));
  const auto fields = static_cast<int32_t>(3 + r.below(7)), first = static_cast<int32_t>(r.below(2));
  std::vector<int32_t> enumerations;
  int32_t section = 0;
  for (int32_t f = 0; f < fields; ++f) {
    Field x = next_field(p, f, section, r);
    std::get<FixedRun>(p.pieces.back()).ids.front() = kEnd;
    if (r.chance(0.15)) p.pieces.emplace_back(FixedRun{{random_id(r)}, x.section = ++section});
    if (f > first && r.chance(0.7)) {
      const int32_t of = enumerations[r.below(static_cast<uint32_t>(enumerations.size()))];
      x.instance_of = Field::InstanceOf{of, static_cast<int32_t>(r.below(3))};
      if (!p.fields[static_cast<size_t>(of)].leaves_out) x.placeholder = {{10}};
    }
    const bool enumerates = f == first || (f > first && r.chance(0.2)), free = enumerates || !x.placeholder.empty();
    if (free || r.chance(0.6)) x.end = kEnd;
    if (!free) x.rules = random_rules(r, x.budget, !x.end);
    for (int32_t id = 3; enumerates && id < 7; ++id) x.separators.push_back({id});
    x.leaves_out = f == first || (enumerates && r.chance(0.5));
    if (enumerates) enumerations.push_back(f);
    for (int32_t q = 0; q < f; ++q)
      if ((x.instance_of && q == x.instance_of->field) || r.chance(0.3)) x.parents.push_back(q);
    p.fields.push_back(x);
    p.pieces.emplace_back(FieldRef{f});
  }
  p.pieces.emplace_back(FixedRun{{kEnd}, section});
  return closed_form(std::move(p), section, r);
}

struct Trial {
  HashLm::Options lm;
  Prompt prompt;
  Form form;
  DecodeOptions options;
  DecodeContext context = {};
};

inline Trial random_trial(uint64_t number) {
  PhiloxStream r(number, 11);
  Trial t{{.seed = number + 1, .vocab = kTrialVocab, .slots = 2048, .shift = r.chance(0.5), .habit = r.uniform()},
          random_prompt(r),
          random_graph_form(r),
          {}};
  if (r.chance(0.6)) t.options.temperature = static_cast<float>(r.uniform(0.05, 1.5));
  if (r.chance(0.3)) t.options.section_temperature = {{0, 0.0F}};
  t.options.seed = uint64_t{r.bits()} << 32 | r.bits();
  t.options.request = r.below(5);
  t.options.limit = static_cast<int32_t>(1 + r.below(24));
  t.options.end_tokens = {{0}};
  return t;
}

}  // namespace slip::test
