// SPDX-License-Identifier: Apache-2.0
// Gates 6, 7, 8, 11, 12: what a decoder leaves in the cache. A small transformer with its arena (contract W: same bits at any width)
// is watched pass by pass: whatever a row sees that this pass does not write must be, byte for byte, what a fresh run of the same
// tokens, one row a pass, has at that place: after refused drafts, ENDs in the middle of a block, limits, early starts.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <map>
#include <memory>

#include "nn/decoder.h"
#include "nn/graph_law.h"
#include "tests/gates.h"

namespace slip {
namespace {

using namespace test;  // NOLINT: the gates' own header

constexpr int32_t kSlots = 512;

ThreadPool& pool() {
  static ThreadPool one(1);
  return one;
}

/// Random weights; logits wide enough that answers vary.
std::unique_ptr<DecoderLm> tiny_transformer(uint64_t seed) {
  PhiloxStream r(seed, 31);
  DecoderOptions o{.name = "tiny", .vocab = kTrialVocab, .width = 16, .layers = 2, .heads = 2, .kv_heads = 1, .head_width = 8, .mlp_width = 24};
  o.tied_head = true;
  o.rope.width = 8;
  o.rule = {.shift = r.chance(0.5), .has_mask = true, .has_null = true, .mask = TokenId{1}, .null_token = TokenId{2}};
  const auto matrix = [&](int64_t n, int64_t k, double scale) {
    std::vector<float> w(static_cast<size_t>(n * k));
    for (float& x : w) x = static_cast<float>(r.uniform(-scale, scale));
    return pack_matrix(WeightType::kF32, n, k, w.data(), pool());
  };
  DecoderWeights w;
  w.embedding = std::make_shared<PackedMatrix>(matrix(o.vocab, o.width, 1.2));
  for (int32_t l = 0; l < o.layers; ++l) {
    LayerWeights x;
    x.attention_norm_D.assign(16, 1);
    x.mlp_norm_D.assign(16, 1);
    x.qkv = matrix((2 + 1 + 1) * 8, 16, 0.7);
    x.o = matrix(16, 16, 0.7);
    x.gate_up = matrix(48, 16, 0.5);
    x.down = matrix(16, 24, 0.5);
    w.layers.push_back(std::move(x));
  }
  w.final_norm_D.assign(16, 1);
  auto lm = DecoderLm::create(std::move(o), std::move(w), kSlots, pool());
  if (!lm) throw std::runtime_error(lm.error().message);
  return std::move(*lm);
}

/// Keys and values of a slot, all layers.
using Line = std::array<float, 2 * 2 * 8>;
Line line_of(const DecoderLm& lm, int32_t slot) {
  Line line;
  for (int32_t l = 0; l < 2; ++l) {
    std::memcpy(&line[static_cast<size_t>(16 * l)], lm.arena().keys_SGK(l) + 8 * slot, 32);
    std::memcpy(&line[static_cast<size_t>(16 * l + 8)], lm.arena().values_SGK(l) + 8 * slot, 32);
  }
  return line;
}
void set_line(const DecoderLm& lm, int32_t slot, const Line& line) {
  for (int32_t l = 0; l < 2; ++l) {
    std::memcpy(lm.arena().keys_SGK(l) + 8 * slot, &line[static_cast<size_t>(16 * l)], 32);
    std::memcpy(lm.arena().values_SGK(l) + 8 * slot, &line[static_cast<size_t>(16 * l + 8)], 32);
  }
}
bool equal(const Line& a, const Line& b) { return std::memcmp(a.data(), b.data(), sizeof a) == 0; }

/// Row by row, from the laws' words alone: what every slot of an answer must hold. Slots as decoders lay them out: the prompt; under
/// the graph law the scaffold, then fields in the graph's order, budget + 1 slots each.
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
    const GraphLaw law(form);
    std::map<int32_t, int32_t> scaffold;  // form position -> slot
    auto slot = static_cast<int32_t>(prompt_.inputs.size());
    for (int32_t u = 0; u < form.fields().back().start; ++u) {
      if (!form.fixed_at(u)) continue;
      row(*form.fixed_at(u), Position::text(prompt_.next_position + u), slot, {{0, slot + 1}});
      scaffold[u] = slot++;
    }
    std::map<int32_t, SlotSpan> rows_of;
    for (const int32_t f : law.order()) {
      const Field& x = form.fields()[static_cast<size_t>(f)];
      std::vector<SlotSpan> context{{0, static_cast<int32_t>(prompt_.inputs.size())}};
      for (const GraphLaw::Segment& s : law.context(f)) {
        if (s.field >= 0) {
          append_span(context, rows_of[s.field]);
          continue;
        }
        for (int32_t u = s.begin; u < s.end; ++u)
          if (form.fixed_at(u)) append_span(context, {scaffold[u], scaffold[u] + 1});
      }
      std::vector<TokenId> tokens{*form.fixed_at(x.start - 1)};
      tokens.insert(tokens.end(), fields[static_cast<size_t>(f)].begin(), fields[static_cast<size_t>(f)].end());
      for (size_t i = 0; i < tokens.size(); ++i) {
        const auto n = static_cast<int32_t>(i);
        std::vector<SlotSpan> sees = context;
        append_span(sees, {slot, slot + n + 1});
        row(tokens[i], Position::text(prompt_.next_position + x.start - 1 + n), slot + n, sees);
      }
      rows_of[f] = {slot, slot + static_cast<int32_t>(tokens.size())};
      slot += x.budget + 1;
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

bool writes(const Pass& pass, int32_t slot) {
  return std::any_of(pass.rows.begin(), pass.rows.end(), [&](const Row& r) { return r.slot == slot; });
}

template <class F>
void for_each_seen(const Pass& pass, F&& visit) {
  for (const Row& r : pass.rows)
    for (uint32_t k = 0; k < r.sees_count; ++k)
      for (int32_t slot = pass.spans[r.sees_first + k].begin; slot < pass.spans[r.sees_first + k].end; ++slot) visit(slot);
}

/// Draft heads and second models see no arena of ours; what they do to rounds, looked-up and earlier answers do too.
std::vector<Way> watched_ways() {
  std::vector<Way> ways;
  for (const Way& w : all_ways())
    if (w.drafts != Drafts::kModel && w.drafts != Drafts::kHead) ways.push_back(w);
  return ways;
}

/// Decodes on a transformer; compares every slot that a pass reads and does not write with the fresh run of the answer's tokens.
Seen watch(uint64_t n, Way w, const Spoil& spoil = {}) {
  Trial t = trial_with_settings(n);
  PhiloxStream r(n, 32);
  if (t.options.temperature > 0) t.options.temperature = 1;
  vary(w, r);
  w.rollouts = 1;
  auto lm = tiny_transformer(n), fresh = tiny_transformer(n);
  DecodeOptions o = t.options;
  o.law = of_graph(w.path) ? Law::kGraph : Law::kChain;
  o.forced = w.path == Path::kForced;
  o.activation = w.activation;
  o.most_rows = w.most_rows;
  Bench bench(std::move(t));
  const Form* form = bench.form(w);
  const auto truth = Decoder(*fresh, method_of_way({.path = w.path})).decode(bench.t.prompt, form, o);
  if (!truth) throw std::runtime_error(truth.error().message);
  const PreviousAnswer previous = bench.spoilt(*truth, r);
  const WidthModel model = WidthModel::uninformed(*CostTable::make({1, 8}, {1, 2}, "test"), form);
  o.previous = &previous;
  o.width_model = &model;
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
  const auto d = Decoder(watched, method_of_way(w)).decode(bench.t.prompt, form, o);
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
    t.options.previous = &wrong;
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
    const auto d = Decoder(watched, method_of_way({.drafts = Drafts::kPrevious, .width = {.tokens = static_cast<int32_t>(1 + n % 6)}}))
                       .decode(t.prompt, nullptr, t.options);
    ASSERT_TRUE(d) << d.error().message;
    EXPECT_EQ(d->tokens, truth->tokens);
    EXPECT_EQ(d->statistics.accepted, 0);
    EXPECT_EQ(d->statistics.forwards, truth->statistics.forwards) << "a storm of refusals costs no pass";
    refused += d->statistics.tested;
  }
  EXPECT_GT(refused, 2000);
}

// ---- company and invisible rows

/// Passes on in another order of rows; their outputs put back.
class ShufflingLm : public WatchedLm {
 public:
  ShufflingLm(Lm& lm, uint64_t seed) : WatchedLm(lm), r_(seed, 33) {}
  Status forward(const Pass& pass, PassOutput& out) override {
    const size_t n = pass.rows.size();
    std::vector<size_t> from(n);
    for (size_t i = 0; i < n; ++i) from[i] = i;
    for (size_t i = n; i-- > 1;) std::swap(from[i], from[r_.below(static_cast<uint32_t>(i) + 1)]);
    std::vector<Row> rows;
    for (const size_t i : from) rows.push_back(pass.rows[i]);
    SLIP_TRY_(lm_.forward({rows, pass.spans, pass.features_ND, pass.draft_adapter, pass.taps}, shuffled_));
    out = shuffled_;
    const size_t taps = n == 0 ? 0 : shuffled_.taps_NE.size() / n;
    for (size_t i = 0; i < n; ++i) {
      out.argmax[from[i]] = shuffled_.argmax[i];
      out.logits_row[from[i]] = shuffled_.logits_row[i];
      std::copy_n(shuffled_.taps_NE.begin() + static_cast<long>(i * taps), taps, out.taps_NE.begin() + static_cast<long>(from[i] * taps));
    }
    moved += !std::is_sorted(from.begin(), from.end());
    return {};
  }
  int64_t moved = 0;

 private:
  PhiloxStream r_;
  PassOutput shuffled_;
};

/// Adds rows that nobody sees, of any token, in slots behind everything; and holds NaN in every slot that no row of a pass sees.
class CrowdedLm : public WatchedLm {
 public:
  CrowdedLm(DecoderLm& lm, uint64_t seed) : WatchedLm(lm), arena_(lm), r_(seed, 34) {}
  Status forward(const Pass& pass, PassOutput& out) override {
    std::vector<Row> rows(pass.rows.begin(), pass.rows.end());
    std::vector<SlotSpan> spans(pass.spans.begin(), pass.spans.end());
    std::vector<bool> visible(kSlots, false);
    for_each_seen(pass, [&](int32_t slot) { visible[static_cast<size_t>(slot)] = true; });
    for (const Row& r : rows) visible[static_cast<size_t>(r.slot)] = true;
    std::map<int32_t, Line> kept;
    Line nan;
    nan.fill(std::nanf(""));
    for (int32_t slot = 0; slot < kSlots - 8; ++slot)
      if (!visible[static_cast<size_t>(slot)]) {
        kept.emplace(slot, line_of(arena_, slot));
        set_line(arena_, slot, nan);
      }
    for (int32_t i = 0; i < 4; ++i) {  // at the end: rows keep their numbers
      spans.push_back({kSlots - 8 + i, kSlots - 7 + i});
      rows.push_back({random_id(r_), Position::text(static_cast<int32_t>(r_.below(100))), kSlots - 8 + i, static_cast<uint32_t>(spans.size() - 1), 1, Want::kNothing});
    }
    SLIP_TRY_(lm_.forward({rows, spans, pass.features_ND, pass.draft_adapter, pass.taps}, out));
    for (const auto& [slot, line] : kept) set_line(arena_, slot, line);
    poisoned += static_cast<int64_t>(kept.size());
    return {};
  }
  int64_t poisoned = 0;

 private:
  DecoderLm& arena_;
  PhiloxStream r_;
};

/// The answer and, pass by pass, all logits that came back to the decoder.
struct Heard {
  std::vector<TokenId> tokens;
  std::vector<float> logits;
  std::vector<TokenId> argmax;
};
Heard hear(Lm& lm, const Trial& t, const Way& w) {
  Heard h;
  WatchedLm watched(lm);
  watched.after = [&](const Pass& pass, PassOutput& out) {
    for (size_t i = 0; i < pass.rows.size(); ++i) {
      if (pass.rows[i].want == Want::kNothing) continue;
      h.argmax.push_back(out.argmax[i]);
      if (pass.rows[i].want == Want::kLogits) h.logits.insert(h.logits.end(), out.logits_V(i).begin(), out.logits_V(i).end());
    }
  };
  DecodeOptions o = t.options;
  o.law = of_graph(w.path) ? Law::kGraph : Law::kChain;
  o.forced = w.path == Path::kForced;
  const auto d = Decoder(watched, method_of_way(w)).decode(t.prompt, w.path == Path::kText ? nullptr : &t.form, o);
  if (!d) throw std::runtime_error(d.error().message);
  h.tokens = d->tokens;
  return h;
}

Way company_way(uint64_t n) {
  std::vector<Way> ways;
  for (const Way& w : watched_ways())
    if (w.drafts != Drafts::kPrevious) ways.push_back(w);
  Way w = ways[n % ways.size()];
  w.width.tokens = w.drafts == Drafts::kQuadratic ? 3 : 5;
  return w;
}

TEST(Company, OrderOfRowsOnlyReordersOutputs) {  // gate 11
  int64_t moved = 0;
  for (uint64_t n = 0; n < 500; ++n) {
    const Trial t = random_trial(n);
    auto lm = tiny_transformer(n), other = tiny_transformer(n);
    ShufflingLm shuffled(*other, n);
    const Heard a = hear(*lm, t, company_way(n)), b = hear(shuffled, t, company_way(n));
    ASSERT_EQ(a.tokens, b.tokens) << n;
    ASSERT_EQ(a.argmax, b.argmax) << n;
    ASSERT_EQ(a.logits.size(), b.logits.size());
    ASSERT_TRUE(a.logits.empty() || std::memcmp(a.logits.data(), b.logits.data(), a.logits.size() * 4) == 0) << n << ": bits";
    moved += shuffled.moved;
  }
  EXPECT_GT(moved, 1000);
}

TEST(Company, InvisibleRowsAndPoisonedSlotsChangeNoBit) {  // gate 12
  int64_t poisoned = 0;
  for (uint64_t n = 0; n < 500; ++n) {
    const Trial t = random_trial(n);
    auto lm = tiny_transformer(n), other = tiny_transformer(n);
    CrowdedLm crowded(*other, n);
    const Heard a = hear(*lm, t, company_way(n)), b = hear(crowded, t, company_way(n));
    ASSERT_EQ(a.tokens, b.tokens) << n;
    ASSERT_EQ(a.argmax, b.argmax) << n;
    ASSERT_EQ(a.logits.size(), b.logits.size());
    ASSERT_TRUE(a.logits.empty() || std::memcmp(a.logits.data(), b.logits.data(), a.logits.size() * 4) == 0) << n << ": bits";
    poisoned += crowded.poisoned;
  }
  EXPECT_GT(poisoned, 100000);
}

TEST(Company, ThoseTestsSeeARowThatIsSeenByMistake) {
  int differ = 0;
  for (uint64_t n = 0; n < 100; ++n) {
    const Trial t = random_trial(n);
    auto lm = tiny_transformer(n), other = tiny_transformer(n);
    class Wider : public WatchedLm {  // mutant: the last row of a pass sees one slot more than it should
     public:
      using WatchedLm::WatchedLm;
      Status forward(const Pass& pass, PassOutput& out) override {
        std::vector<Row> rows(pass.rows.begin(), pass.rows.end());
        std::vector<SlotSpan> spans(pass.spans.begin(), pass.spans.end());
        Row& last = rows.back();
        std::vector<SlotSpan> sees(spans.begin() + last.sees_first, spans.begin() + last.sees_first + last.sees_count);
        sees.push_back({kSlots - 10, kSlots - 9});
        last.sees_first = static_cast<uint32_t>(spans.size());
        last.sees_count = static_cast<uint32_t>(sees.size());
        spans.insert(spans.end(), sees.begin(), sees.end());
        return lm_.forward({rows, spans, pass.features_ND, pass.draft_adapter, pass.taps}, out);
      }
    };
    const Heard a = hear(*lm, t, company_way(n));
    Line nan;
    nan.fill(std::nanf(""));
    set_line(*other, kSlots - 10, nan);
    Wider wider(*other);
    const Heard b = hear(wider, t, company_way(n));
    differ += a.tokens != b.tokens || a.argmax != b.argmax || a.logits.size() != b.logits.size() ||
              (!a.logits.empty() && std::memcmp(a.logits.data(), b.logits.data(), a.logits.size() * 4) != 0);
  }
  EXPECT_GT(differ, 90);
}

// ---- positions

/// Position of a row of the answer, from its slot: gaps of the prompt and of budgets included.
TEST(Positions, FollowThePromptAndTheForm) {  // gate 8
  const std::vector<Way> ways = all_ways();
  int64_t gaps = 0, rows = 0;
  for (uint64_t n = 0; n < 1500; ++n) {
    Way w = ways[n % ways.size()];
    Bench b(random_trial(n));
    PhiloxStream r(n, 35);
    vary(w, r);
    w.rollouts = 1;
    // An image of 1 x 2 x 3 patches between texts: positions of its rows differ in h and w; text goes on behind the largest.
    const int32_t image = 1 + static_cast<int32_t>(r.below(3)), wide = 3;
    Prompt p;
    for (int32_t y = 0; y < image; ++y)
      for (int32_t x = 0; x < wide; ++x) {
        p.inputs.emplace_back(TokenId{5});
        p.positions.push_back({0, y, x});
      }
    p.next_position = std::max(image, wide);
    gaps += p.next_position != static_cast<int32_t>(p.inputs.size());
    b.t.prompt = p;
    HashLm hashes(b.t.lm);
    WatchedLm lm(hashes);
    const auto base = static_cast<int32_t>(p.inputs.size());
    const bool chain = !of_graph(w.path);
    std::map<int32_t, int32_t> scaffold;
    const Form& form = b.t.form;
    if (!chain)
      for (int32_t u = 0, k = 0; u < form.fields().back().start; ++u)
        if (form.fixed_at(u)) scaffold[base + k++] = u;
    std::map<int32_t, int32_t> in_field;  // slot -> form position
    if (!chain) {
      const GraphLaw law(form);
      int32_t slot = base + static_cast<int32_t>(scaffold.size());
      for (const int32_t f : law.order()) {
        const Field& x = form.fields()[static_cast<size_t>(f)];
        for (int32_t i = 0; i <= x.budget; ++i) in_field[slot++] = x.start - 1 + i;
      }
    }
    lm.before = [&](const Pass& pass) {
      for (const Row& row : pass.rows) {
        if (row.slot < base) continue;
        int32_t at = row.slot - base;
        // Quadratic's groups lie in slots of their own: Quadratic.RowsSeeWhatTheDefinitionSays.
        const bool group = row.input == RowInput(TokenId{1}) || (chain && w.path != Path::kText && at >= form.length());
        if (w.drafts == Drafts::kQuadratic && group) continue;
        if (!chain) at = scaffold.contains(row.slot) ? scaffold[row.slot] : in_field.at(row.slot);
        ASSERT_EQ(row.position, Position::text(p.next_position + at)) << n << ": " << name_of(w);
        ++rows;
      }
    };
    ASSERT_TRUE(b.run(w, lm, hashes, r));
  }
  EXPECT_GT(gaps, 500);
  EXPECT_GT(rows, 50000);
}

TEST(Positions, ThatCountRowsInsteadAreCaught) {
  int differ = 0;
  for (uint64_t n = 0; n < 200; ++n) {
    Bench b(random_trial(n));
    b.t.prompt.next_position = static_cast<int32_t>(b.t.prompt.inputs.size());
    const Decoded by_rows = b.alone({.path = Path::kChain}, 0, b.t.lm);
    b.t.prompt.next_position += 2;
    differ += b.alone({.path = Path::kChain}, 0, b.t.lm).tokens != by_rows.tokens;
  }
  EXPECT_GT(differ, 120);
}

TEST(DraftHeadContext, EndsBeforeTheAnchor) {  // gate 9, beside DFlash.* which hold what each slot must contain
  int64_t passes = 0;
  for (uint64_t n = 0; n < 300; ++n) {
    Bench b(random_trial(n));
    Way w{.path = n % 2 ? Path::kText : Path::kChain, .drafts = Drafts::kHead};
    PhiloxStream r(n, 36);
    w.width.tokens = static_cast<int32_t>(1 + r.below(7));
    HashLm lm(b.t.lm);
    const auto prompt = static_cast<int32_t>(b.t.prompt.inputs.size());
    b.look_at_head = [&](const Pass& pass) {
      ++passes;
      const Row& anchor = pass.rows.front();
      int32_t context = 0;
      for (uint32_t k = 0; k < anchor.sees_count; ++k) {
        const SlotSpan& s = pass.spans[anchor.sees_first + k];
        if (s.begin < lm.info().slots) context += s.end - s.begin;
      }
      // Committed rows but the anchor: its number in prompt and answer. On a chain, less what is forced before it in this round: the
      // target has not said anything of these yet.
      const int32_t before_anchor = prompt + anchor.position.t - b.t.prompt.next_position;
      EXPECT_LE(context, before_anchor) << n;
      if (w.path == Path::kText) {
        EXPECT_EQ(context, before_anchor) << n;
      }
    };
    ASSERT_TRUE(b.run(w, lm, lm, r));
  }
  EXPECT_GT(passes, 300);
}

}  // namespace
}  // namespace slip
