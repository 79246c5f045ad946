// SPDX-License-Identifier: Apache-2.0
// Gates 6 and 7: what a decoder leaves in the cache. A small transformer with its arena (contract W: same bits at any width)
// is watched pass by pass: whatever a row sees that this pass does not write must be, byte for byte, what a fresh run of the same
// tokens, one row a pass, has at that place: after refused drafts, ENDs in the middle of a block, limits, early starts.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>

#include "lm/graph_visibility.h"
#include "lm/spans.h"
#include "tests/decode/gates_transformer.h"

namespace slip {
namespace {

using namespace test;  // NOLINT: the gates' own header

/// Row by row, from the laws' words alone: what every slot of an answer must hold. Slots as decoders lay them out: the prompt; under
/// graph visibility the scaffold, then fields in the graph's order, budget and hand-off each.
class FreshRun {
 public:
  FreshRun(DecoderLm& lm, const Prompt& prompt) : lm_(lm), prompt_(prompt) {
    for (size_t i = 0; i < prompt.inputs.size(); ++i) {
      const auto slot = static_cast<int32_t>(i);
      row(prompt.inputs[i], prompt.positions[i], slot, {{0, slot + 1}});
    }
  }
  void chain(std::span<const TokenId> tokens) {
    const auto first = static_cast<int32_t>(prompt_.inputs.size());
    for (size_t i = 0; i < tokens.size(); ++i) {
      const auto n = static_cast<int32_t>(i);
      row(tokens[i], Position::text(prompt_.next_position + n), first + n, {{0, first + n + 1}});
    }
  }
  void graph(const Form& form, const std::vector<std::vector<TokenId>>& fields) {
    const GraphVisibility visibility(form);
    std::map<int32_t, int32_t> scaffold;  // form position -> slot
    auto slot = static_cast<int32_t>(prompt_.inputs.size());
    for (int32_t u = 0; u < form.fields().back().start; ++u) {
      if (!form.is_scaffold(u)) continue;
      row(*form.fixed_at(u), Position::text(prompt_.next_position + u), slot, {{0, slot + 1}});
      scaffold[u] = slot++;
    }
    std::map<int32_t, SlotSpan> rows_of;
    for (const int32_t f : visibility.order()) {
      const Field& x = form.fields()[static_cast<size_t>(f)];
      std::vector<SlotSpan> context{{0, static_cast<int32_t>(prompt_.inputs.size())}};
      for (const GraphVisibility::Segment& s : visibility.context(f)) {
        if (s.field) {
          if (rows_of[*s.field].begin < rows_of[*s.field].end) append_span(context, rows_of[*s.field]);
          continue;
        }
        for (int32_t u = s.begin; u < s.end; ++u)
          if (form.fixed_at(u)) append_span(context, {scaffold[u], scaffold[u] + 1});
      }
      std::vector<TokenId> tokens;
      const bool absent = is_absent(form, fields, static_cast<size_t>(f));
      for (int32_t u = x.start - x.hand_off; u < x.start && !absent; ++u) tokens.push_back(*form.fixed_at(u));
      tokens.insert(tokens.end(), fields[static_cast<size_t>(f)].begin(), fields[static_cast<size_t>(f)].end());
      for (size_t i = 0; i < tokens.size(); ++i) {
        const auto n = static_cast<int32_t>(i);
        std::vector<SlotSpan> sees = context;
        append_span(sees, {slot, slot + n + 1});
        row(tokens[i], Position::text(prompt_.next_position + x.start - x.hand_off + n), slot + n, sees);
      }
      rows_of[f] = {slot, slot + static_cast<int32_t>(tokens.size())};
      slot += x.budget + x.hand_off;
    }
  }
  /// Null where nothing of the answer lies there.
  const Line* at(int32_t slot) const {
    const auto found = lines_.find(slot);
    return found == lines_.end() ? nullptr : &found->second;
  }

 private:
  void row(const RowInput& input, Position position, int32_t slot, const std::vector<SlotSpan>& sees) {
    const Row one{input, position, slot, 0, static_cast<uint32_t>(sees.size()), Want::kNothing};
    const auto status = lm_.forward({std::span(&one, 1), sees}, out_);
    if (!status) throw std::runtime_error(status.error().message);
    lines_[slot] = line_of(lm_, slot);
  }
  DecoderLm& lm_;
  const Prompt& prompt_;
  PassOutput out_;
  std::map<int32_t, Line> lines_;
};

struct Seen {
  int64_t compared = 0, wrong = 0, nowhere = 0;
  Statistics statistics;
};

/// A mutant: what it does to the arena behind each pass.
using Spoil = std::function<void(DecoderLm&, const Pass&)>;

/// Decodes on a transformer; compares every slot that a pass reads and does not write with the fresh run of the answer's tokens.
Seen watch(uint64_t n, Way w, const Spoil& spoil = {}) {
  Trial t = trial_with_settings(n);
  PhiloxStream r(n, 32), forms(n, 71);
  if (of_graph(w.path) && n / 16 % 2 == 0) t.form = random_absent_form(forms);
  if (t.options.temperature > 0) t.options.temperature = 1;
  vary(w, r);
  w.rollouts = 1;
  auto lm = tiny_transformer(n), fresh = tiny_transformer(n);
  DecodeOptions o = t.options;
  o.visibility = of_graph(w.path) ? Visibility::kGraph : Visibility::kChain;
  o.forced = w.path == Path::kForced;
  o.activation = w.activation;
  o.most_rows = w.most_rows;
  Bench bench(std::move(t));
  const Form* form = bench.form(w);
  const auto truth = Decoder(*fresh, method_of_way({.path = w.path})).decode(bench.t.prompt, form, o);
  if (!truth) throw std::runtime_error(truth.error().message);
  const PreviousAnswer previous = bench.spoilt(*truth, r);
  const DraftLengthModel model = DraftLengthModel::uninformed(*CostTable::make({1, 8}, {1, 2}, "test"), form);
  const DecodeContext context{.previous = &previous, .draft_length_model = &model};
  FreshRun run(*fresh, bench.t.prompt);
  if (of_graph(w.path))
    run.graph(bench.t.form, truth->fields);
  else
    run.chain(truth->tokens);

  Seen seen;
  WatchedLm watched(*lm);
  watched.before = [&](const Pass& pass) {
    for_each_seen(pass, [&](int32_t slot) {
      if (writes(pass, slot)) return;
      const Line* want = run.at(slot);
      ++seen.compared;
      seen.nowhere += want == nullptr;
      seen.wrong += want != nullptr && !equal(*want, line_of(*lm, slot));
    });
  };
  watched.after = [&](const Pass& pass, PassOutput&) {
    if (spoil) spoil(*lm, pass);
  };
  Method m = method_of_way(w);
  if (auto* diffusion = std::get_if<DiffusionSpec>(&m.drafter)) diffusion->adapter = r.chance(0.5);
  const auto d = Decoder(watched, m).decode(bench.t.prompt, form, o, context);
  if (!d) throw std::runtime_error(name_of(w) + ": " + d.error().message);
  if (!spoil) {
    EXPECT_EQ(d->tokens, truth->tokens) << n << ": " << name_of(w);
  }
  seen.statistics = d->statistics;
  return seen;
}

TEST(Cache, WhatIsSeenIsWhatAFreshRunHas) {  // gate 6
  const std::vector<Way> ways = watched_ways();
  std::map<std::pair<Path, Drafts>, Seen> sums;
  for (uint64_t n = 0; n < 1500; ++n) {
    const Way& w = ways[n % ways.size()];
    const Seen s = watch(n, w);
    ASSERT_EQ(s.wrong, 0) << n << ": " << name_of(w);
    ASSERT_EQ(s.nowhere, 0) << n << ": " << name_of(w) << ": a row sees a slot that holds nothing of the answer";
    Seen& sum = sums[{w.path, w.drafts}];
    sum.compared += s.compared;
    sum.statistics.add(s.statistics);
  }
  for (const auto& [way, s] : sums) {
    const std::string what = name_of({.path = way.first, .drafts = way.second});
    EXPECT_GT(s.compared, 1000) << what;
    if (way.second != Drafts::kNone) {
      EXPECT_LT(s.statistics.accepted, s.statistics.tested) << what << ": without refusals there is nothing to roll back";
    }
  }
}

TEST(Cache, ThatTestSeesASlotThatKeepsAnEarlierRow) {
  std::map<Drafts, int> caught;
  for (uint64_t n = 0; n < 400; ++n) {
    const std::vector<Way> ways = watched_ways();
    const Way& w = ways[n % ways.size()];
    std::map<int32_t, Line> first;
    const Seen s = watch(n, w, [&](DecoderLm& lm, const Pass& pass) {
      for (const Row& r : pass.rows) {
        const auto [line, is_new] = first.emplace(r.slot, line_of(lm, r.slot));
        if (!is_new) set_line(lm, r.slot, line->second);
      }
    });
    caught[w.drafts] += s.wrong > 0;
  }
  EXPECT_EQ(caught[Drafts::kNone], 0) << "one token at a time writes every slot once";
  for (const Drafts d : {Drafts::kDiffusion, Drafts::kQuadratic, Drafts::kLookup, Drafts::kPrevious})
    EXPECT_GT(caught[d], 10) << name_of({.drafts = d});
}

TEST(Cache, RefusingEveryDraftChangesNothing) {  // gate 7
  int64_t refused = 0;
  for (uint64_t n = 0; n < 200; ++n) {
    Trial t = random_trial(n);
    t.options.temperature = 0;
    t.options.section_temperature.clear();
    t.options.limit = 20;
    t.options.end_tokens.clear();
    auto lm = tiny_transformer(n), other = tiny_transformer(n);
    const auto truth = Decoder(*other, *method_of("ar")).decode(t.prompt, nullptr, t.options);
    ASSERT_TRUE(truth);
    PreviousAnswer wrong{.form = {}, .fields = {}, .tokens = truth->tokens};
    for (TokenId& id : wrong.tokens) id.value = (id.value + 1) % kTrialVocab;
    t.context.previous = &wrong;
    WatchedLm watched(*lm);
    std::map<int32_t, Line> final_rows;
    const auto unchanged = [&] {
      for (const auto& [slot, line] : final_rows) EXPECT_TRUE(equal(line, line_of(*lm, slot))) << n << ": slot " << slot;
    };
    watched.before = [&](const Pass& pass) {
      unchanged();
      for_each_seen(pass, [&](int32_t slot) {
        if (!writes(pass, slot)) final_rows.emplace(slot, line_of(*lm, slot));
      });
    };
    watched.after = [&](const Pass&, PassOutput&) { unchanged(); };
    const auto d =
        Decoder(watched, method_of_way({.drafts = Drafts::kPrevious, .draft_length = {.tokens = static_cast<int32_t>(1 + n % 6)}}))
            .decode(t.prompt, nullptr, t.options, t.context);
    ASSERT_TRUE(d) << d.error().message;
    EXPECT_EQ(d->tokens, truth->tokens);
    EXPECT_EQ(d->statistics.accepted, 0);
    EXPECT_EQ(d->statistics.forwards, truth->statistics.forwards) << "a storm of refusals costs no pass";
    refused += d->statistics.tested;
  }
  EXPECT_GT(refused, 2000);
}

}  // namespace
}  // namespace slip
