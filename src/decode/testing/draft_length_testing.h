// SPDX-License-Identifier: Apache-2.0
// For tests of draft lengths in the engine: random graphs, prompts, options and models of draft lengths, and answers of a model of hashes.
#pragma once
#include <gtest/gtest.h>

#include <stdexcept>

#include "decode/draft_length/model.h"
#include "decode/testing/random_testing.h"
#include "decode/types/method.h"

namespace slip::test {

inline constexpr int32_t kVocab = 12;

/// Fields without rules; parents among the earlier ones.
inline Form random_graph(PhiloxStream& r, bool ends) {
  Form::Parts p;
  p.name = "random";
  p.block_size = static_cast<int32_t>(2 + r.below(8));
  const auto fields = static_cast<int32_t>(1 + r.below(7));
  for (int32_t f = 0; f < fields; ++f) {
    FixedRun run;
    for (uint32_t n = 1 + r.below(4); n > 0; --n) run.ids.push_back(random_id(r, kVocab));
    if (f > 0 && p.fields.back().end) run.ids.front() = *p.fields.back().end;
    p.pieces.emplace_back(run);
    Field x{.name = std::to_string(f), .budget = static_cast<int32_t>(1 + r.below(9))};
    if (ends && r.chance(0.7)) x.end = random_id(r, kVocab);
    for (int32_t q = 0; q < f; ++q)
      if (r.chance(0.3)) x.parents.push_back(q);
    p.fields.push_back(x);
    p.pieces.emplace_back(FieldRef{f});
  }
  p.pieces.emplace_back(FixedRun{{p.fields.back().end.value_or(TokenId{9})}, 0});
  return *Form::make(std::move(p));
}

inline CostTable random_costs(PhiloxStream& r) {
  std::vector<int32_t> rows;
  std::vector<double> ms;
  double now = r.uniform(0.5, 8);
  for (int32_t n = 1; n <= 64; n += 1 + static_cast<int32_t>(r.below(4))) {
    rows.push_back(n);
    ms.push_back(now);
    if (r.chance(0.4)) now += r.uniform(0, 3);
  }
  return *CostTable::make(rows, ms, "test");
}

inline DraftLengthModel random_model(PhiloxStream& r, const Form* form) {
  DraftLengthModel m = DraftLengthModel::uninformed(random_costs(r), form);
  const auto fields = static_cast<int32_t>(m.fields.size());
  for (int n = 0; n < 40; ++n) {
    const auto tested = static_cast<int64_t>(1 + r.below(40));
    const auto row = static_cast<int32_t>(r.below(static_cast<uint32_t>(fields) + 1));
    m.survival.add({.field = row > 0 ? std::optional(row - 1) : std::nullopt,
                    .ahead = static_cast<int32_t>(r.below(Survival::kAhead)),
                    .index = static_cast<int32_t>(r.below(Survival::kIndex)),
                    .top = static_cast<int32_t>(r.below(Survival::kTop))},
                   {static_cast<int64_t>(r.below(static_cast<uint32_t>(tested) + 1)), tested});
  }
  m.survival.fit();
  for (int32_t f = 0; f < fields; ++f)
    for (int n = 0; n < 5; ++n)
      m.lengths.add(f, static_cast<int32_t>(r.below(static_cast<uint32_t>(form->fields()[static_cast<size_t>(f)].budget) + 1)));
  m.most_drafts = static_cast<int32_t>(1 + r.below(32));
  m.static_draft_length = static_cast<int32_t>(1 + r.below(8));
  return m;
}

inline Prompt short_prompt(PhiloxStream& r) { return text_prompt(r, static_cast<int32_t>(1 + r.below(5)), kVocab); }

inline Method with(std::string_view preset, DrafterSpec drafter, DraftLengthSpec length) {
  Method m = *method_of(preset);
  m.drafter = std::move(drafter);
  m.draft_length = std::move(length);
  return m;
}
inline const DraftLengthSpec kMeasured{.kind = DraftLengthSpec::Kind::kMeasured};

inline Decoded decoded(const HashLm::Options& o, const Prompt& prompt, const Form* form, const Method& m,
                       const DecodeOptions& options, const DecodeContext& context = {}) {
  HashLm lm(o);
  auto d = Decoder(lm, m).decode(prompt, form, options, context);
  if (!d) throw std::runtime_error(d.error().message);
  EXPECT_EQ(d->statistics.forwards, lm.passes);
  return std::move(*d);
}

inline DecodeOptions random_options(PhiloxStream& r, uint64_t n) {
  DecodeOptions o;
  o.seed = n;
  if (r.chance(0.5)) o.temperature = static_cast<float>(r.uniform(0.1, 1.5));
  o.end_tokens = {{0}};
  o.limit = static_cast<int32_t>(1 + r.below(40));
  o.activation = r.chance(0.7);
  if (r.chance(0.2)) o.most_rows = static_cast<int32_t>(1 + r.below(80));
  return o;
}

}  // namespace slip::test
