// SPDX-License-Identifier: Apache-2.0
#include "forecast/stand_in.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <numeric>

#include "base/content_hash.h"
#include "base/pause.h"
#include "lm/pass_answers.h"

namespace slip {
namespace {

constexpr float kNever = -1e9F;
/// Tops in the middle of the table's cells (draft_length/model.cc: 0, .3, .5, .7, .85, .95).
constexpr std::array<float, Survival::kTop> kTops = {0.2F, 0.4F, 0.6F, 0.78F, 0.9F, 0.99F};

/// Tops so far ahead lean on those of their place as if so many of these had been seen there.
constexpr double kLean = 2;

double unit(uint64_t h) { return static_cast<double>(h >> 11) * 0x1p-53; }

/// An id that the field's rules allow behind `before` beside `not_this`; that itself where there is none.
TokenId another(const Field& f, std::span<const TokenId> before, TokenId not_this) {
  if (f.rules.unrestricted()) return {not_this.value == 1 ? 2 : 1};
  const auto state = f.rules.state_after(before);
  if (!state) return not_this;
  const TokenRules::State& s = f.rules.state(*state);
  for (const auto& e : s.edges)
    if (e.id != not_this) return e.id;
  for (int32_t id = 1; s.any && id < 64; ++id)
    if (TokenId{id} != not_this && !std::binary_search(s.denied.begin(), s.denied.end(), TokenId{id})) return {id};
  return f.end && s.may_end ? *f.end : not_this;
}

}  // namespace

StandInAnswer StandInAnswer::of_form(const Form& form, const Contents& contents, bool chain) {
  StandInAnswer a;
  const auto length = static_cast<size_t>(form.length());
  a.target.assign(length, TokenId{0});
  a.other = a.target;
  a.drawn.assign(length, std::nullopt);
  for (size_t u = 0; u < length; ++u)
    if (const auto fixed = form.fixed_at(static_cast<int32_t>(u))) a.target[u] = a.other[u] = *fixed;
  for (size_t f = 0; f < contents.size(); ++f) {
    const Field& x = form.fields()[f];
    const auto start = static_cast<size_t>(x.start);
    const auto said = [&](size_t i, TokenId token) {
      a.target[start + i] = token;
      a.other[start + i] = another(x, std::span(contents[f]).first(i), token);
      a.drawn[start + i] = Place{static_cast<int32_t>(f), static_cast<int32_t>(i)};
    };
    for (size_t i = 0; i < contents[f].size(); ++i) said(i, contents[f][i]);
    if (x.end && static_cast<int32_t>(contents[f].size()) < x.budget) said(contents[f].size(), *x.end);
  }
  for (int32_t u = 0; chain && u < form.length(); ++u) {
    const std::optional<int32_t> f = form.field_at(u);
    const auto behind = [&](size_t field) {
      return u - form.fields()[field].start >= static_cast<int32_t>(contents[field].size());
    };
    if (!f || !behind(static_cast<size_t>(*f))) a.place_behind.push_back(u + 1);
  }
  return a;
}

StandInAnswer StandInAnswer::of_text(int32_t tokens, int32_t vocab, TokenId end) {
  StandInAnswer a;
  for (int32_t i = 0; i < tokens; ++i) {
    a.target.push_back(i + 1 == tokens ? end : TokenId{3 + (i * 7) % std::max(1, vocab - 4)});
    a.other.push_back({a.target.back().value == 1 ? 2 : 1});
    a.drawn.push_back(Place{.index = i});
  }
  return a;
}

StandInLm::StandInLm(LmInfo info, const StandInOdds& odds, const CostTable& costs, int32_t first_position)
    : info_(std::move(info)), odds_(odds), costs_(costs), first_position_(first_position) {
  const Survival& s = *odds_.survival;
  const auto cells = static_cast<size_t>(s.fields() + 1) * Survival::kAhead * Survival::kIndex;
  tops_.assign(cells * Survival::kTop, 0);
  std::vector<double> places(cells / Survival::kAhead * Survival::kTop, 0),
      all(Survival::kTop, 0.5);  // without draws ahead; of everybody
  const auto place = [](const Survival::Cell& c) {
    return static_cast<size_t>(row_of_field(c.field) * Survival::kIndex + c.index);
  };
  double everybody = 0.5 * Survival::kTop;
  s.for_each([&](const Survival::Cell& c, const Survival::Count& n) {
    const auto tested = static_cast<double>(n.tested);
    tops_[first_top(c) + static_cast<size_t>(c.top)] += tested;
    places[place(c) * Survival::kTop + static_cast<size_t>(c.top)] += tested;
    all[static_cast<size_t>(c.top)] += tested;
    everybody += tested;
  });
  // What was seldom seen so far ahead leans on its place, and a place that was never seen on everybody.
  for (int32_t row = 0; row <= s.fields(); ++row) {
    const std::optional<int32_t> f = row > 0 ? std::optional(row - 1) : std::nullopt;
    for (int32_t i = 0; i < Survival::kIndex; ++i) {
      const double* line = &places[place({.field = f, .index = i}) * Survival::kTop];
      const double seen = std::accumulate(line, line + Survival::kTop, 1.0);
      for (int32_t a = 0; a < Survival::kAhead; ++a) {
        double* to = &tops_[first_top({.field = f, .ahead = a, .index = i})];
        double sum = 0;
        for (size_t t = 0; t < Survival::kTop; ++t) to[t] = sum += to[t] + kLean * (line[t] + all[t] / everybody) / seen;
        for (size_t t = 0; t < Survival::kTop; ++t) to[t] /= sum;
      }
    }
  }
}

void StandInLm::begin(StandInAnswer answer, uint64_t seed) {
  answer_ = std::move(answer);
  seed_ = seed;
  attempts_.assign(answer_.target.size(), 0);
  ms_ = first_ms_ = 0;
  first_rows_ = 0;
}

/// Where a cell's tops begin.
size_t StandInLm::first_top(const Survival::Cell& c) {
  return static_cast<size_t>((row_of_field(c.field) * Survival::kAhead + c.ahead) * Survival::kIndex + c.index) * Survival::kTop;
}

/// The form position whose token the row gives, its `own` or the one behind it; none before the answer and behind it.
std::optional<size_t> StandInLm::place_of(const Row& row, const Stand& stand, bool own) const {
  const int32_t number = row.position.t - first_position_;
  const auto within = [&](int32_t u) -> std::optional<size_t> {
    const auto at = static_cast<size_t>(u);
    return u >= 0 && at < answer_.target.size() ? std::optional(at) : std::nullopt;
  };
  if (answer_.place_behind.empty() || number < 0) return within(number + (own ? 0 : 1));
  const auto behind = [&](int32_t n) {
    const auto last = static_cast<int32_t>(answer_.place_behind.size()) - 1;
    return n < 0 ? 0 : answer_.place_behind[static_cast<size_t>(std::min(n, last))] + std::max(0, n - last);
  };
  const std::optional<int32_t> mask = stand.first_mask;
  if (!mask || number < *mask) return within(behind(number));
  return within(behind(*mask - 1) + number - *mask + (own ? 0 : 1));  // behind what is known budgets are laid out whole
}

double StandInLm::top_of(std::optional<int32_t> field, int32_t ahead, int32_t index, uint64_t dice) const {
  const double* tops = &tops_[first_top(odds_.survival->cell({.ahead = ahead, .field = field, .index = index}))];
  const double u = unit(dice);
  for (size_t t = 0; t < Survival::kTop; ++t)
    if (u < tops[t]) return static_cast<double>(kTops[t]);
  return static_cast<double>(kTops.back());
}

StandInLm::Said StandInLm::draft(size_t at, const Place& place, int32_t ahead) {
  const uint64_t dice = mix_bits(mix_bits(seed_ * 0x9E3779B97F4A7C15u + at) + attempts_[at]++);
  const auto top = static_cast<float>(top_of(place.field, ahead, place.index, mix_bits(dice + 1)));
  const DraftFacts facts{.top = top, .ahead = ahead, .field = place.field, .index = place.index};
  double kept = odds_.survival->kept(facts);
  if (odds_.tracker) kept = odds_.tracker->corrected(facts.field, kept);
  kept = kept * odds_.lift / (kept * odds_.lift + 1 - kept);
  const bool holds = unit(dice) < kept;
  return {holds ? answer_.target[at] : answer_.other[at], holds ? answer_.other[at] : answer_.target[at], top};
}

/// The token first, then one other with half of that at most; all other ids share the rest.
void StandInLm::write(const Pass& pass, size_t i, const Said& said, PassOutput& out) const {
  const Row& r = pass.rows[i];
  const auto allowed = allowed_of(pass, r);
  const bool legal = allowed.empty() || std::binary_search(allowed.begin(), allowed.end(), said.token);
  out.argmax[i] = legal ? said.token : allowed.front();
  const float next = std::min(1 - said.top, said.top / 2);
  const float top = std::log(said.top), second = std::log(std::max(next, 1e-9F));
  if (r.statistics) out.statistics[i] = {top, second, 0};
  if (!brings_logits(r.want)) return;
  const std::span<float> line_V = out.logits_V(i);
  const float rest = (1 - said.top - next) / static_cast<float>(std::max(1, info_.vocab - 2));
  if (rest > 0) std::ranges::fill(line_V, std::log(rest));
  line_V[static_cast<size_t>(said.other.value)] = second;
  line_V[static_cast<size_t>(out.argmax[i].value)] = top;
}

/// Where every id is as likely as the next.
void StandInLm::write_any(const Pass& pass, size_t i, TokenId first, PassOutput& out) const {
  write(pass, i, {first, first, 1}, out);
  if (brings_logits(pass.rows[i].want)) std::ranges::fill(out.logits_V(i), 0.0F);
}

void StandInLm::lay_out(const Pass& pass, bool blocks, PassOutput& out) {
  begin_output(pass, info_, out);
  lay_out_logits(pass, kNever, out);
  out.statistics.assign(pass.rows.size(), {});
  std::ranges::fill(out.taps_NE, 0.0F);
  stands_.assign(pass.rows.size(), {});
  size_t first = 0;  // of these rows
  for (size_t i = 0; i < pass.rows.size(); ++i) {
    const Row& row = pass.rows[i];
    Stand& s = stands_[i];
    const bool mask = row.input == RowInput{info_.rule.mask};
    s.drafts = blocks || (info_.rule.has_mask && (mask || looks_ahead(pass, row)));
    s.begins = i == 0 || row.position.t != pass.rows[i - 1].position.t + 1 || stands_[i - 1].drafts != s.drafts;
    if (s.begins) first = i;
    if (!s.begins) s.first_mask = stands_[i - 1].first_mask;
    if (!mask || s.first_mask) continue;
    for (size_t k = first; k <= i; ++k) stands_[k].first_mask = row.position.t - first_position_;
  }
}

Status StandInLm::forward(const Pass& pass, PassOutput& out) {
  SLIP_TRY_(pause_point());  // an answer may take thousands of passes: those of others go first
  ++passes_;
  ms_ += costs_.ms(static_cast<int32_t>(pass.rows.size()));
  if (first_rows_ == 0) first_rows_ = static_cast<int64_t>(pass.rows.size()), first_ms_ = ms_;
  lay_out(pass, false, out);
  answer_rows(pass, out);
  return {};
}

void StandInLm::answer_rows(const Pass& pass, PassOutput& out) {
  int32_t ahead = 0;
  std::optional<Place> before;  // of the draft before, where one stands before the row
  for (size_t i = 0; i < pass.rows.size(); ++i) {
    const Row& r = pass.rows[i];
    const Stand& stand = stands_[i];
    if (stand.begins) before.reset();
    if (r.want == Want::kNothing) continue;
    const std::optional<size_t> at = place_of(r, stand, !info_.rule.shift && r.input == RowInput{info_.rule.mask});
    const auto place = at ? answer_.drawn[*at] : std::nullopt;
    if (!place) {
      write(pass, i, {at ? answer_.target[*at] : TokenId{0}, TokenId{1}, 0.5F}, out);
    } else if (!stand.drafts && parts_at(*at)) {
      write_any(pass, i, answer_.target[*at], out);
    } else if (!stand.drafts) {
      write(pass, i, {answer_.target[*at], answer_.other[*at], answer_.parts.empty() ? 0.9F : 1}, out);
    } else {
      const bool goes_on = before && (!answer_.place_behind.empty() || place->field == before->field);
      ahead = goes_on ? ahead + 1 : 0;
      before = place;
      write(pass, i, draft(*at, *place, ahead), out);
    }
  }
}

Status StandInLm::set_taps(std::span<const int32_t> layers) {
  info_.tap_layers.assign(layers.begin(), layers.end());
  return {};
}

void StandInLm::draft_blocks(const Pass& pass, PassOutput& out) {
  lay_out(pass, true, out);
  int32_t ahead = 0;
  for (size_t i = 0; i < pass.rows.size(); ++i) {
    const Row& r = pass.rows[i];
    if (stands_[i].begins) ahead = 0;
    if (r.want == Want::kNothing) continue;
    const std::optional<size_t> at = place_of(r, stands_[i], true);
    const auto place = at ? answer_.drawn[*at] : std::nullopt;
    if (place)
      write(pass, i, draft(*at, *place, ahead++), out);
    else
      write(pass, i, {at ? answer_.target[*at] : TokenId{0}, TokenId{1}, 0.5F}, out);
  }
}

StandInHead::StandInHead(StandInLm& lm, int32_t block, const CostTable& rounds) : lm_(lm), rounds_(rounds) {
  info_.name = "stand-in";
  info_.block = std::max(2, block);
  info_.tap_layers = {0};
  info_.taps_width = lm.info().hidden_size;
  info_.vocab = lm.info().vocab;
  info_.mask = lm.info().rule.mask;
  info_.context_slots = lm.info().slots;
  info_.block_slots = 64 * info_.block;  // of many strands at once
}

Status StandInHead::forward(const Pass& pass, PassOutput& out) {
  ms_ += rounds_.ms(static_cast<int32_t>(pass.rows.size()));
  lm_.draft_blocks(pass, out);
  return {};
}

}  // namespace slip
