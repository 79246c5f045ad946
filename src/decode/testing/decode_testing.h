// SPDX-License-Identifier: Apache-2.0
// For tests of presets: random forms on the chain, with rules that pad, and prompts whose images end before their count of rows, or after.
#pragma once
#include <gtest/gtest.h>

#include <stdexcept>

#include "decode/testing/random_testing.h"

namespace slip::test {

inline constexpr TokenId kNull{2};

inline Prompt prompt_before_gap(PhiloxStream& r) {
  const auto n = static_cast<int32_t>(1 + r.below(6));
  const auto gap = static_cast<int32_t>(r.below(3));
  Prompt p = text_prompt(r, n);
  p.next_position += gap;
  return p;
}

inline TokenRules chain_rules(PhiloxStream& r, int32_t budget, bool fixed_size) {
  switch (r.below(4)) {
    case 0: {
      std::vector<TokenId> set{random_id(r)};
      for (uint32_t n = r.below(5); n > 0; --n) set.push_back(random_id(r));
      return TokenRules::only(set);
    }
    case 1: {
      std::vector<std::vector<TokenId>> words(1 + r.below(5));
      for (auto& w : words)
        for (uint32_t n = 1 + r.below(static_cast<uint32_t>(budget)); n > 0; --n) w.push_back(random_id(r));
      return TokenRules::one_of(words, fixed_size ? std::optional(kNull) : std::nullopt, budget);
    }
    case 2:
      return TokenRules(
          std::vector<TokenRules::State>{{.any = true, .edges = {{kNull, 1}}, .denied = {{1}, {5}, {6}}}, {.edges = {{kNull, 1}}}});
    default:
      return {};
  }
}

/// With `ends`, some fields close by END (the next fixed token).
inline Form chain_form(PhiloxStream& r, bool ends) {
  Form::Parts p;
  p.name = "random";
  p.block_size = static_cast<int32_t>(1 + r.below(9));
  int32_t section = 0;
  const auto fields = static_cast<int32_t>(1 + r.below(5));
  for (int32_t f = 0; f < fields; ++f) {
    Field x = next_field(p, f, section, r);
    if (ends && r.chance(0.6)) x.end = random_id(r);
    x.rules = chain_rules(r, x.budget, !x.end);
    p.fields.push_back(x);
    p.pieces.emplace_back(FieldRef{f});
    section += static_cast<int32_t>(r.below(2));
  }
  return closed_form(std::move(p), section, r);
}

inline Trial chain_trial(uint64_t number, bool ends) {
  PhiloxStream r(number, 5);
  Trial t{{.seed = number + 1, .vocab = kTrialVocab, .shift = r.chance(0.5), .habit = r.uniform()},
          prompt_before_gap(r),
          chain_form(r, ends),
          {}};
  if (r.chance(0.6)) t.options.temperature = static_cast<float>(r.uniform(0.05, 2));
  if (r.chance(0.2)) t.options.section_temperature = {{0, 0.7F}};
  t.options.seed = uint64_t{r.bits()} << 32 | r.bits();
  t.options.request = r.below(5);
  return t;
}

inline Decoded run(const Trial& t, std::string_view preset, HashLm::Options lm) {
  HashLm model(lm);
  auto d = decode(model, t.prompt, &t.form, preset, t.options);
  if (!d) throw std::runtime_error(d.error().message);
  EXPECT_EQ(d->statistics.forwards, model.passes);
  return std::move(*d);
}

inline Decoded run(const Trial& t, std::string_view preset) { return run(t, preset, t.lm); }

}  // namespace slip::test
