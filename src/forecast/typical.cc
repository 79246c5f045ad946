// SPDX-License-Identifier: Apache-2.0
// Contents of a wanted length by walking a field's automaton: which states can end in exactly k more tokens is known beforehand, so that the
// walk never gets stuck. Where no content has the wanted length the nearest one that some content has is taken.
#include "forecast/typical.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <numeric>

namespace slip {
namespace {

/// How a field without data fills its budget: FastDriveCoT pads at the 99th percentile, and means lie at some seven tenths of that.
constexpr double kUsualFill = 0.7;

/// One field's walks.
class Walk {
 public:
  Walk(const Field& field, int32_t vocab, TokenId mask, PhiloxStream& random)
      : field_(field), vocab_(vocab), mask_(mask), random_(random) {
    static const std::vector<TokenRules::State> kAnything{{.any = true, .any_next = 0, .edges = {}, .denied = {}, .may_end = true}};
    states_ = field.rules.unrestricted() ? std::span(kAnything) : field.rules.states();
  }

  /// A legal content of `length` tokens, or of the nearest length that there is; free text goes over to its padding behind `said` of them.
  std::vector<TokenId> content(int32_t length, int32_t said) {
    said_ = said;
    lay_ends(field_.budget);
    for (int32_t off = 0; off <= field_.budget; ++off)
      for (const int32_t n : {length - off, length + off})
        if (n >= 0 && n <= field_.budget && ends_in(0, n, n)) return walk(n);
    return {};
  }

 private:
  /// Can state s be left by exactly k tokens and the content, `whole` tokens long, end there? Of a full field the rules are not asked.
  bool ends_in(size_t s, int32_t k, int32_t whole) const {
    return whole == field_.budget ? full_[at(s, k)] != 0 : short_[at(s, k)] != 0;
  }
  size_t at(size_t s, int32_t k) const { return static_cast<size_t>(k) * states_.size() + s; }

  void lay_ends(int32_t longest) {
    const size_t cells = states_.size() * (static_cast<size_t>(longest) + 1);
    short_.assign(cells, 0);
    full_.assign(cells, 0);
    for (size_t s = 0; s < states_.size(); ++s) {
      short_[s] = field_.end && states_[s].may_end;
      full_[s] = 1;
    }
    for (int32_t k = 1; k <= longest; ++k)
      for (size_t s = 0; s < states_.size(); ++s) {
        const auto reach = [&](int32_t next) {
          const auto to = static_cast<size_t>(next);
          short_[at(s, k)] |= short_[at(to, k - 1)];
          full_[at(s, k)] |= full_[at(to, k - 1)];
        };
        if (states_[s].any) reach(states_[s].any_next);
        for (const auto& e : states_[s].edges)
          if (plain(e.id)) reach(e.next);
      }
  }

  /// Separators are laid afterwards, and END is no content.
  bool plain(TokenId id) const {
    return id != mask_ && !(field_.end && id == *field_.end) &&
           !std::binary_search(field_.separators.begin(), field_.separators.end(), id);
  }
  TokenId any_token(const TokenRules::State& s) {
    for (int tries = 0; tries < 256; ++tries) {
      const TokenId id{static_cast<int32_t>(random_.below(static_cast<uint32_t>(vocab_)))};
      const auto edge = std::find_if(s.edges.begin(), s.edges.end(), [&](const auto& e) { return e.id == id; });
      if (plain(id) && edge == s.edges.end() && !std::binary_search(s.denied.begin(), s.denied.end(), id)) return id;
    }
    return {0};
  }
  std::vector<TokenId> walk(int32_t n) {
    std::vector<TokenId> out;
    size_t s = 0;
    for (int32_t left = n; left > 0; --left) {
      const TokenRules::State& here = states_[s];
      std::vector<TokenRules::Edge> ways;
      for (const auto& e : here.edges)
        if (plain(e.id) && ends_in(static_cast<size_t>(e.next), left - 1, n)) ways.push_back(e);
      if (here.any && ends_in(static_cast<size_t>(here.any_next), left - 1, n)) {
        if (n - left < said_) ways.clear();
        if (ways.empty()) ways.push_back({any_token(here), here.any_next});
      }
      const auto& way = ways[random_.below(static_cast<uint32_t>(ways.size()))];
      out.push_back(way.id);
      s = static_cast<size_t>(way.next);
    }
    return out;
  }

  const Field& field_;
  int32_t vocab_;
  TokenId mask_;
  PhiloxStream& random_;
  std::span<const TokenRules::State> states_;  // the field's own
  int32_t said_ = 0;
  std::vector<uint8_t> short_, full_;  // by tokens left and state
};

class Maker {
 public:
  Maker(const Form& form, const Lengths& lengths, const Survival& survival, int32_t vocab, TokenId mask, PhiloxStream& random)
      : form_(form), lengths_(lengths), vocab_(vocab), mask_(mask), random_(random) {
    const size_t n = form.fields().size();
    instances_.resize(n);
    for (size_t f = 0; f < n; ++f)
      if (const auto& of = form.fields()[f].instance_of)
        instances_[static_cast<size_t>(of->field)].push_back(static_cast<int32_t>(f));
    tested_.assign(n, 0);
    survival.for_each([&](const Survival::Cell& c, const Survival::Count& count) {
      if (c.field && static_cast<size_t>(*c.field) < n) tested_[static_cast<size_t>(*c.field)] += count.tested;
    });
  }

  Contents make() {
    Contents out;
    for (size_t f = 0; f < form_.fields().size(); ++f) out.push_back(content(static_cast<int32_t>(f), out));
    return out;
  }

 private:
  const Field& field(int32_t f) const { return form_.fields()[static_cast<size_t>(f)]; }

  std::vector<TokenId> content(int32_t f, const Contents& before) {
    const Field& x = field(f);
    if (is_absent(form_, before, static_cast<size_t>(f))) return {};
    if (is_unused(form_, before, static_cast<size_t>(f))) return x.placeholder;
    const bool enumeration = !instances_[static_cast<size_t>(f)].empty();
    const int32_t count = enumeration ? instances_drawn(f) : 0;
    if (enumeration && count == 0) return x.placeholder;
    std::vector<TokenId> out = Walk(x, vocab_, mask_, random_).content(length_drawn(f), said_of(f));
    if (enumeration) separate(x, count, out);
    return out;
  }
  /// Instance after instance is used as often as calibration saw more than its placeholder in it; half of them where it saw nothing.
  int32_t instances_drawn(int32_t e) {
    const double u = random_.uniform();
    int32_t count = 0;
    for (const int32_t f : instances_[static_cast<size_t>(e)])
      if (used_share(f) > u) count = std::max(count, field(f).instance_of->instance + 1);
    return count;
  }
  size_t unused_length(int32_t f) const { return form_.may_be_absent(f) ? 0 : field(f).placeholder.size(); }
  double used_share(int32_t f) const {
    constexpr double kUnknown = 0.5;
    int64_t all = 0, unused = 0;
    for (size_t n = 0; seen(f) && n < lengths_.counts(f).size(); ++n) {
      all += lengths_.counts(f)[n];
      if (n == unused_length(f)) unused += lengths_.counts(f)[n];
    }
    return all > 0 ? 1 - static_cast<double>(unused) / static_cast<double>(all) : kUnknown;
  }
  bool seen(int32_t f) const { return f < lengths_.fields(); }
  /// Every token of a text is drafted and tested, or comes of a test that failed; so is the first of its padding, and the rest is forced.
  int32_t said_of(int32_t f) const {
    int64_t answers = 0;
    const int64_t tested = tested_[static_cast<size_t>(f)];
    for (size_t n = 0; seen(f) && n < lengths_.counts(f).size(); ++n) answers += lengths_.counts(f)[n];
    if (answers == 0 || tested == 0) return static_cast<int32_t>(std::lround(kUsualFill * field(f).budget));
    return std::max(1, static_cast<int32_t>(std::lround(static_cast<double>(tested) / static_cast<double>(answers))) - 1);
  }

  /// One of the lengths that were seen, as often as they were; of an instance, those of its placeholder left out.
  int32_t length_drawn(int32_t f) {
    const Field& x = field(f);
    if (!x.end) return x.budget;
    std::vector<int64_t> counts;
    if (seen(f)) counts.assign(lengths_.counts(f).begin(), lengths_.counts(f).end());
    if (x.instance_of && unused_length(f) < counts.size()) counts[unused_length(f)] = 0;
    int64_t all = 0;
    for (const int64_t c : counts) all += c;
    if (all == 0) return std::max(1, static_cast<int32_t>(std::lround(kUsualFill * x.budget)));
    auto left = static_cast<int64_t>(random_.uniform() * static_cast<double>(all));
    for (size_t n = 0; n < counts.size(); ++n)
      if ((left -= counts[n]) < 0) return static_cast<int32_t>(n);
    return x.budget;
  }
  /// Separators between so many instances, evenly; as many as the rules let stand.
  void separate(const Field& x, int32_t count, std::vector<TokenId>& content) const {
    if (x.separators.empty()) return;
    const auto n = static_cast<int32_t>(content.size());
    for (int32_t k = 1; k < count; ++k) {
      std::vector<TokenId> tried = content;
      tried[static_cast<size_t>(std::clamp(n * k / count, 0, n - 1))] = x.separators.front();
      if (x.rules.unrestricted() || x.rules.state_after(tried)) content = std::move(tried);
    }
  }

  const Form& form_;
  const Lengths& lengths_;
  std::vector<std::vector<int32_t>> instances_;  // by the field that enumerates them
  std::vector<int64_t> tested_;                  // drafts, by field
  int32_t vocab_;
  TokenId mask_;
  PhiloxStream& random_;
};

}  // namespace

namespace {

constexpr int32_t kSpareIds = 64;  // of text, and the mask
/// Rules of up to so many edges in all are taken as they are: an action's bins, its dimensions together, have up to 7,000. Of larger ones
/// every field keeps its share, that of 64 at least.
constexpr size_t kMostEdges = 8192, kLeastEdges = 64;
/// States times tokens of a field that a walk looks at; a field of more, whose values are thousands of tokens long, goes as free text.
constexpr size_t kMostCells = size_t{1} << 21;

size_t edges_of(const TokenRules& rules) {
  size_t out = 0;
  for (const TokenRules::State& s : rules.states()) out += s.edges.size();
  return out;
}

/// Some of the contents that rules allow: about `values` of them, evenly spaced in the order of their ids, and `kept`. Every state that is
/// left has a way on wherever it had one.
class Sample {
 public:
  Sample(const TokenRules& rules, size_t values, std::span<const TokenId> kept) : rules_(rules), number_(rules.size(), -1) {
    std::optional<int32_t> at = 0;
    for (size_t i = 0; at && i < kept.size(); at = rules.next(*at, kept[i++])) kept_.emplace_back(*at, kept[i]);
    number(0, values);
    for (size_t i = 0; i < queue_.size(); ++i) take(queue_[i]);
  }
  TokenRules rules() { return TokenRules(std::move(states_)); }

 private:
  using Asked = std::pair<int32_t, size_t>;  // a state, and how many values behind it are wanted

  int32_t number(int32_t state, size_t values) {
    int32_t& n = number_[static_cast<size_t>(state)];
    if (n < 0) {
      n = static_cast<int32_t>(queue_.size());
      queue_.emplace_back(state, values);
    }
    return n;
  }
  bool is_kept(int32_t state, TokenId id) const { return std::ranges::find(kept_, std::pair(state, id)) != kept_.end(); }

  void take(Asked asked) {
    const auto [s, values] = asked;
    const TokenRules::State& from = rules_.state(s);
    const size_t n = from.edges.size(), taken = from.any ? n : std::min(n, values);  // beside `any` an edge is an exception
    TokenRules::State to{.any = from.any, .any_next = 0, .edges = {}, .denied = {}, .may_end = from.may_end};
    for (size_t i = 0, k = 0; i < n; ++i) {
      const bool turn = k < taken && i == k * n / taken;
      k += turn;
      if (turn || is_kept(s, from.edges[i].id))
        to.edges.push_back({from.edges[i].id, number(from.edges[i].next, std::max<size_t>(1, values / taken))});
    }
    if (from.any) to.any_next = number(from.any_next, values);
    states_.push_back(std::move(to));
  }

  const TokenRules& rules_;
  std::vector<std::pair<int32_t, TokenId>> kept_;
  std::vector<int32_t> number_;  // of the states that are left; -1: none so far
  std::vector<Asked> queue_;     // by number
  std::vector<TokenRules::State> states_;
};

/// The rules of a form's fields, or a sample of them where they are large.
std::vector<TokenRules> few_rules(const Form& form) {
  const auto fields = form.fields();
  std::vector<size_t> edges;
  for (const Field& f : fields) edges.push_back(edges_of(f.rules));
  const size_t all = std::accumulate(edges.begin(), edges.end(), size_t{0});
  const auto restricted = static_cast<size_t>(std::ranges::count_if(edges, [](size_t n) { return n > 0; }));
  const size_t share = all > kMostEdges ? std::max(kLeastEdges, kMostEdges / restricted) : all;
  std::vector<TokenRules> out;
  for (size_t f = 0; f < fields.size(); ++f) {
    const auto budget = static_cast<size_t>(fields[f].budget);
    if (edges[f] > share)
      out.push_back(Sample(fields[f].rules, std::max<size_t>(1, share / budget), fields[f].placeholder).rules());
    else
      out.push_back(fields[f].rules);
    if (out.back().size() * budget > kMostCells) out.back() = {};
  }
  return out;
}

/// Ids by their rank among those that a form names.
class Ranks {
 public:
  Ranks(const Form& form, std::span<const TokenRules> rules) {
    for (int32_t u = 0; u < form.length(); ++u)
      if (form.fixed_at(u)) ids_.push_back(*form.fixed_at(u));
    for (const Field& f : form.fields()) {
      if (f.end) ids_.push_back(*f.end);
      ids_.insert(ids_.end(), f.separators.begin(), f.separators.end());
      ids_.insert(ids_.end(), f.placeholder.begin(), f.placeholder.end());
    }
    for (const TokenRules& of_field : rules)
      for (const TokenRules::State& s : of_field.states())
        for (const auto& e : s.edges) ids_.push_back(e.id);
    std::sort(ids_.begin(), ids_.end());
    ids_.erase(std::unique(ids_.begin(), ids_.end()), ids_.end());
  }
  int32_t size() const { return static_cast<int32_t>(ids_.size()); }
  TokenId of(TokenId id) const { return {static_cast<int32_t>(std::lower_bound(ids_.begin(), ids_.end(), id) - ids_.begin())}; }
  void apply(std::vector<TokenId>& ids) const {
    for (TokenId& id : ids) id = of(id);
  }
  TokenRules of(const TokenRules& rules) const {
    if (rules.unrestricted()) return {};
    std::vector<TokenRules::State> states(rules.states().begin(), rules.states().end());
    for (TokenRules::State& s : states) {
      s.denied.clear();  // ids that are never said need no list
      for (auto& e : s.edges) e.id = of(e.id);
    }
    return TokenRules(std::move(states));
  }

 private:
  std::vector<TokenId> ids_;
};

/// A field without its rules, which may be large, and exits.
Field without_rules(const Field& f) {
  return {.name = f.name,
          .budget = f.budget,
          .end = f.end,
          .rules = {},
          .parents = f.parents,
          .exits = {},
          .closes = f.closes,
          .section = f.section,
          .start = f.start,
          .hand_off = f.hand_off,
          .separators = f.separators,
          .placeholder = f.placeholder,
          .instance_of = f.instance_of,
          .leaves_out = f.leaves_out};
}

}  // namespace

Result<CompactForm> compact(const Form& form) {
  const std::vector<TokenRules> rules = few_rules(form);
  const Ranks ranks(form, rules);
  const Form::Parts& whole = form.parts();
  Form::Parts parts{.name = whole.name,
                    .pieces = whole.pieces,
                    .fields = {},
                    .section_names = whole.section_names,
                    .block_size = whole.block_size,
                    .blocks = whole.blocks,
                    .next = {}};
  for (Piece& piece : parts.pieces)
    if (auto* run = std::get_if<FixedRun>(&piece)) ranks.apply(run->ids);
  for (size_t i = 0; i < whole.fields.size(); ++i) {
    Field f = without_rules(whole.fields[i]);
    if (f.end) f.end = ranks.of(*f.end);
    ranks.apply(f.separators);
    ranks.apply(f.placeholder);
    // Shapes that depend on values are priced as if all their pieces came one behind the other, and automata over bytes and values that are too
    // long as free text: the forecast chooses among decoders of the same answer, so that what it leaves out costs time at most.
    const bool long_values = rules[i].unrestricted() && !whole.fields[i].rules.unrestricted();
    const bool open = rules[i].automaton() != nullptr || !whole.fields[i].exits.empty() || long_values;
    f.closes = f.closes && !open;
    f.rules = open ? TokenRules{} : ranks.of(rules[i]);
    parts.fields.push_back(std::move(f));
  }
  SLIP_TRY(Form small, Form::make(std::move(parts)));
  return CompactForm{std::move(small), ranks.size() + kSpareIds};
}

Contents typical_contents(const Form& form, const Lengths& lengths, const Survival& survival, int32_t vocab, TokenId mask,
                          PhiloxStream& random) {
  return Maker(form, lengths, survival, vocab, mask, random).make();
}

}  // namespace slip
