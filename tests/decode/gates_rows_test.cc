// SPDX-License-Identifier: Apache-2.0
// Gates 8, 9, 11, 12: rows keep their positions, a draft head's context ends before its anchor, and neither the order of a pass's rows
// nor rows and slots that nobody sees change a bit of what a decoder hears.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <map>

#include "lm/graph_visibility.h"
#include "tests/decode/gates_transformer.h"

namespace slip {
namespace {

using namespace test;  // NOLINT: the gates' own header

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
    SLIP_TRY_(lm_.forward({rows, pass.spans, pass.features, pass.draft_adapter, pass.taps, pass.allowed}, shuffled_));
    out = shuffled_;
    const size_t taps = n == 0 ? 0 : shuffled_.taps_NE.size() / n;
    for (size_t i = 0; i < n; ++i) {
      out.argmax[from[i]] = shuffled_.argmax[i];
      out.logits_row[from[i]] = shuffled_.logits_row[i];
      std::copy_n(shuffled_.taps_NE.begin() + static_cast<long>(i * taps), taps,
                  out.taps_NE.begin() + static_cast<long>(from[i] * taps));
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
      rows.push_back({random_id(r_), Position::text(static_cast<int32_t>(r_.below(100))), kSlots - 8 + i,
                      static_cast<uint32_t>(spans.size() - 1), 1, Want::kNothing});
    }
    SLIP_TRY_(lm_.forward({rows, spans, pass.features, pass.draft_adapter, pass.taps, pass.allowed}, out));
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
  o.visibility = of_graph(w.path) ? Visibility::kGraph : Visibility::kChain;
  o.forced = w.path == Path::kForced;
  const auto d = Decoder(watched, method_of_way(w)).decode(t.prompt, w.path == Path::kText ? nullptr : &t.form, o);
  if (!d) throw std::runtime_error(d.error().message);
  h.tokens = d->tokens;
  return h;
}

Way company_way(uint64_t n) {
  std::vector<Way> ways;
  for (const Way& w : watched_ways())
    if (!is_previous(w.drafts)) ways.push_back(w);
  Way w = ways[n % ways.size()];
  w.draft_length.tokens = w.drafts == Drafts::kQuadratic ? 3 : 5;
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
        return lm_.forward({rows, spans, pass.features, pass.draft_adapter, pass.taps, pass.allowed}, out);
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
  for (uint64_t n = 0; n < 1600; ++n) {
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
      const GraphVisibility visibility(form);
      int32_t slot = base + static_cast<int32_t>(scaffold.size());
      for (const int32_t f : visibility.order()) {
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
        if ((w.drafts == Drafts::kQuadratic || is_ahead(w.drafts)) && group) continue;
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
    w.draft_length.tokens = static_cast<int32_t>(1 + r.below(7));
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
