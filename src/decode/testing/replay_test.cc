// SPDX-License-Identifier: Apache-2.0
// Gate 25: the engine's counters are the simulator's (replay_testing.h).
#include <gtest/gtest.h>

#include "decode/draft_length/observer.h"
#include "decode/sequence/cursor.h"
#include "decode/testing/draft_length_testing.h"
#include "decode/testing/replay_testing.h"

namespace slip {
namespace {

using namespace test;  // NOLINT: the trials' own header

void expect_same(const Statistics& s, const ReplayCounts& c, const std::string& what) {
  ASSERT_EQ(s.forwards, c.forwards) << what;
  ASSERT_EQ(s.draft_forwards, c.draft_forwards) << what;
  ASSERT_EQ(s.rounds, c.rounds) << what;
  ASSERT_EQ(s.proposed, c.proposed) << what;
  ASSERT_EQ(s.tested, c.tested) << what;
  ASSERT_EQ(s.accepted, c.accepted) << what;
  ASSERT_EQ(s.discarded, c.discarded) << what;
}

TEST(Replay, CountsWhatTheEngineCounts) {  // gate 25
  int64_t discarded = 0, accepted = 0, tested = 0;
  for (uint64_t n = 0; n < 2000; ++n) {
    PhiloxStream r(n, 14);
    const HashLm::Options lm{.seed = n + 1, .vocab = kVocab};
    const Form form = random_graph(r, true);
    const Prompt prompt = short_prompt(r);
    const bool graph = r.chance(0.6);
    DecodeOptions o = random_options(r, n);
    o.most_rows = 0;
    DecodeContext context;
    const Decoded truth = decoded(lm, prompt, &form, *method_of(graph ? "fields" : "scaffold-ar"), o);
    // An earlier answer that differs here and there, in length too.
    PreviousAnswer previous{.form = form.name(), .fields = truth.fields, .tokens = {}};
    ReplayScript script;
    const double wrong = r.uniform(0, 0.5);
    for (size_t f = 0; f < form.fields().size(); ++f) {
      const Field& x = form.fields()[f];
      auto& said = previous.fields[f];
      const auto other = [&](TokenId not_this) {
        TokenId id = random_id(r, kVocab);
        while (id == not_this || (x.end && id == *x.end)) id = {(id.value + 1) % kVocab};
        return id;
      };
      for (TokenId& id : said)
        if (r.chance(wrong)) id = other(id);
      if (x.end && r.chance(wrong / 2)) said.resize(r.below(static_cast<uint32_t>(said.size()) + 1));
      if (x.end && static_cast<int32_t>(said.size()) < x.budget && r.chance(wrong / 2)) said.push_back(other({-1}));
      const auto length = truth.fields[f].size();
      ReplayScript::Field told{
          .content = static_cast<int32_t>(length), .draft = static_cast<int32_t>(said.size()), .right = {}, .top = {}};
      for (size_t i = 0; i <= said.size(); ++i)
        told.right.push_back(i < said.size() ? i < length && said[i] == truth.fields[f][i] : i == length);
      script.fields.push_back(told);
    }
    context.previous = &previous;
    const DraftLengthModel model = random_model(r, &form);
    context.draft_length_model = &model;
    Method m = with(graph ? "fields-spec" : "scaffold-spec", PreviousSpec{},
                    DraftLengthSpec{.tokens = static_cast<int32_t>(1 + r.below(9))});
    if (r.chance(0.5)) m.draft_length = kMeasured;
    const Decoded d = decoded(lm, prompt, &form, m, o, context);
    ASSERT_EQ(d.tokens, truth.tokens);
    const auto lengths = *make_draft_length(m, &form, o, context);
    const ReplayCounts c = replay(form, script, {.graph = graph, .activation = o.activation}, *lengths);
    expect_same(d.statistics, c, std::to_string(n) + (graph ? " graph" : " chain"));
    discarded += c.discarded;
    accepted += c.accepted;
    tested += c.tested;
  }
  EXPECT_GT(discarded, 100);
  EXPECT_GT(accepted, 1000);
  EXPECT_LT(accepted, tested);
}

struct Recorder : DraftLengthObserver {
  void seen(const DraftFacts&, const Place& place, bool kept) override { bits.emplace_back(place, kept); }
  std::vector<std::pair<Place, bool>> bits;
};

TEST(Replay, CountsWhatTheEngineCountsWithDraftPasses) {
  for (uint64_t n = 0; n < 1000; ++n) {
    PhiloxStream r(n, 15);
    const HashLm::Options lm{.seed = n + 1, .vocab = kVocab, .shift = r.chance(0.5), .habit = r.uniform(0.3, 1)};
    const Form form = random_graph(r, false);
    const Prompt prompt = short_prompt(r);
    const bool graph = r.chance(0.6);
    DecodeOptions o = random_options(r, n);
    o.most_rows = 0;
    DecodeContext context;
    Recorder bits;
    context.draft_length_observer = &bits;
    Method m = with(graph ? "fields-spec" : "scaffold-spec", DiffusionSpec{},
                    DraftLengthSpec{.tokens = static_cast<int32_t>(2 + r.below(9))});
    if (!graph && r.chance(0.5)) m.draft_length.kind = DraftLengthSpec::Kind::kBlocks;
    const Decoded d = decoded(lm, prompt, &form, m, o, context);
    ReplayScript script;
    for (const Field& f : form.fields())
      script.fields.push_back(
          {.content = f.budget, .draft = f.budget, .right = std::vector<uint8_t>(static_cast<size_t>(f.budget)), .top = {}});
    for (const auto& [place, kept] : bits.bits)
      script.fields[static_cast<size_t>(*place.field)].right[static_cast<size_t>(place.index)] = kept;
    context.draft_length_observer = nullptr;
    const auto lengths = *make_draft_length(m, &form, o, context);
    expect_same(d.statistics,
                replay(form, script, {.graph = graph, .activation = o.activation, .drafts_in_passes = true}, *lengths),
                std::to_string(n));
  }
}

}  // namespace
}  // namespace slip
