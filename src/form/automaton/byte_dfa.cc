// SPDX-License-Identifier: Apache-2.0
// Bytes that no edge tells apart are one class, so that a table has some twenty columns in place of 256. Automata are not minimised:
// sets of states come out small for what schemas say, and only reached states ever cost a mask.
#include "form/automaton/byte_dfa.h"

#include <algorithm>
#include <map>
#include <numeric>

#include "base/check.h"

namespace slip {
namespace {

// What the largest sets of states cost to make: a tenth of a second, and some 100 MB at the very worst.
constexpr size_t kMostNfaStates = size_t{1} << 18;
constexpr size_t kMostSetWork = size_t{1} << 24;  // entries of sets times classes

thread_local int64_t work_done = 0;

Error too_large(size_t most) { return unsupported("expected an automaton of at most {} states, got a larger one", most); }

}  // namespace

// ---- ByteNfa

int32_t ByteNfa::state() {
  edges_.emplace_back();
  return static_cast<int32_t>(edges_.size()) - 1;
}

ByteNfa::Fragment ByteNfa::empty() {
  const int32_t s = state();
  return {s, s};
}

ByteNfa::Fragment ByteNfa::bytes(uint8_t first, uint8_t last) {
  const Fragment f{state(), state()};
  edge(f.in, first, last, f.out);
  return f;
}

ByteNfa::Fragment ByteNfa::marker(int which) {
  const Fragment f{state(), state()};
  edge(f.in, which, which, f.out);
  return f;
}

ByteNfa::Fragment ByteNfa::literal(std::string_view text) {
  Fragment f = empty();
  for (const char c : text) {
    const int32_t to = state();
    edge(f.out, static_cast<uint8_t>(c), static_cast<uint8_t>(c), to);
    f.out = to;
  }
  return f;
}

ByteNfa::Fragment ByteNfa::dfa(const ByteDfa& language) {
  const auto base = static_cast<int32_t>(edges_.size());
  const Fragment f{base, base + static_cast<int32_t>(language.size())};
  edges_.resize(edges_.size() + language.size() + 1);
  for (int32_t s = 0; s < static_cast<int32_t>(language.size()); ++s) {
    for (int b = 0; b < 256;) {
      const int32_t to = language.next(s, static_cast<uint8_t>(b));
      int last = b;
      while (last < 255 && language.next(s, static_cast<uint8_t>(last + 1)) == to) ++last;
      if (to >= 0) edge(base + s, b, last, base + to);
      b = last + 1;
    }
    if (language.accepts(s)) edge(base + s, -1, -1, f.out);
  }
  return f;
}

ByteNfa::Fragment ByteNfa::concat(std::span<const Fragment> parts) {
  if (parts.empty()) return empty();
  for (size_t i = 1; i < parts.size(); ++i) edge(parts[i - 1].out, -1, -1, parts[i].in);
  return {parts.front().in, parts.back().out};
}

ByteNfa::Fragment ByteNfa::either(std::span<const Fragment> parts) {
  const Fragment f{state(), state()};
  for (const Fragment& p : parts) {
    edge(f.in, -1, -1, p.in);
    edge(p.out, -1, -1, f.out);
  }
  return f;
}

ByteNfa::Fragment ByteNfa::star(Fragment f) {
  edge(f.out, -1, -1, f.in);
  return optional(f);
}

ByteNfa::Fragment ByteNfa::optional(Fragment f) {
  const Fragment all{state(), state()};
  edge(all.in, -1, -1, f.in);
  edge(f.out, -1, -1, all.out);
  edge(all.in, -1, -1, all.out);
  return all;
}

Status ByteNfa::fits() const {
  if (edges_.size() > kMostNfaStates) return too_large(kMostNfaStates);
  return {};
}

// ---- ByteDfa

namespace {

/// Sets of an automaton's states, closed under edges for nothing. Of these the states that some text leaves, and the last one: two sets
/// that differ only in ways there are one, of which repetitions have as many as they have turns.
template <class Edges>
class Sets {
 public:
  Sets(const Edges& edges, int32_t last) : edges_(edges), seen_(edges.size(), 0), kept_(edges.size(), 0) {
    for (size_t s = 0; s < edges.size(); ++s)
      kept_[s] = std::any_of(edges[s].begin(), edges[s].end(), [](const auto& e) { return e.first >= 0; });
    kept_[static_cast<size_t>(last)] = 1;
  }

  std::vector<int32_t> closure(const std::vector<int32_t>& set) {
    ++mark_;
    std::vector<int32_t> out;
    for (const int32_t s : set) add(s, out);
    for (size_t i = 0; i < out.size(); ++i)
      for (const auto& e : edges_[static_cast<size_t>(out[i])])
        if (e.first < 0) add(e.to, out);
    std::erase_if(out, [&](int32_t s) { return kept_[static_cast<size_t>(s)] == 0; });
    std::sort(out.begin(), out.end());
    return out;
  }

  /// Where a byte or a border leads.
  std::vector<int32_t> step(const std::vector<int32_t>& from, int symbol) {
    std::vector<int32_t> to;
    for (const int32_t s : from)
      for (const auto& e : edges_[static_cast<size_t>(s)])
        if (e.first >= 0 && e.first <= symbol && symbol <= e.last) to.push_back(e.to);
    return closure(to);
  }

  /// Where a border leads that may be said more than once: `^(^a$)$`.
  std::vector<int32_t> past(const std::vector<int32_t>& from, int border) {
    std::vector<int32_t> all = step(from, border);
    for (size_t before = 0; all.size() > before;) {
      before = all.size();
      const std::vector<int32_t> more = step(all, border);
      all.insert(all.end(), more.begin(), more.end());
      all = closure(all);
    }
    return all;
  }

 private:
  void add(int32_t s, std::vector<int32_t>& out) {
    if (std::exchange(seen_[static_cast<size_t>(s)], mark_) != mark_) out.push_back(s);
  }
  const Edges& edges_;
  std::vector<uint32_t> seen_;
  std::vector<uint8_t> kept_;
  uint32_t mark_ = 0;
};

/// The sets that were met, numbered.
class Numbered {
 public:
  /// -1 for the empty one.
  int32_t number_of(std::vector<int32_t> set) {
    if (set.empty()) return -1;
    const auto [at, added] = number_.try_emplace(std::move(set), static_cast<int32_t>(order_.size()));
    if (added) {
      order_.push_back(&at->first);
      entries_ += at->first.size();
    }
    return at->second;
  }
  size_t size() const { return order_.size(); }
  const std::vector<int32_t>& operator[](size_t i) const { return *order_[i]; }
  Status fits(size_t classes) const {
    if (size() > ByteDfa::kMostStates) return too_large(ByteDfa::kMostStates);
    if (entries_ * classes > kMostSetWork)
      return unsupported("expected an automaton whose states stand for fewer places of the pattern, got {} places in {} states",
                         entries_, size());
    return {};
  }

 private:
  std::map<std::vector<int32_t>, int32_t> number_;
  std::vector<const std::vector<int32_t>*> order_;
  size_t entries_ = 0;
};

}  // namespace

std::vector<int> ByteDfa::split_bytes(const ByteNfa& nfa) {
  std::bitset<257> begins;  // a class begins at this byte
  begins[0] = true;
  for (const auto& edges : nfa.edges_)
    for (const auto& e : edges)
      if (e.first >= 0 && e.first < 256) begins[static_cast<size_t>(e.first)] = begins[static_cast<size_t>(e.last) + 1] = true;
  std::vector<int> first_of;
  for (int b = 0; b < 256; ++b) {
    if (begins[static_cast<size_t>(b)]) first_of.push_back(b);
    class_of_[static_cast<size_t>(b)] = static_cast<uint8_t>(first_of.size() - 1);
  }
  classes_ = first_of.size();
  return first_of;
}

Result<ByteDfa> ByteDfa::of(const ByteNfa& nfa, ByteNfa::Fragment f, bool marked) {
  SLIP_TRY_(nfa.fits());
  ByteDfa d;
  const std::vector<int> first_of = d.split_bytes(nfa);
  Sets sets(nfa.edges_, f.out);
  Numbered met;
  std::vector<int32_t> start = sets.closure({f.in});
  if (marked) start = sets.past(start, ByteNfa::kBegin);
  if (met.number_of(std::move(start)) < 0) {
    d.next_.assign(d.classes_, -1);
    d.accepts_ = {0};
    return d;
  }
  for (size_t i = 0; i < met.size(); ++i) {
    SLIP_TRY_(met.fits(d.classes_));
    work_done += static_cast<int64_t>(met[i].size() * d.classes_);
    const std::vector<int32_t> end = marked ? sets.past(met[i], ByteNfa::kEnd) : met[i];
    d.accepts_.push_back(std::binary_search(end.begin(), end.end(), f.out));
    for (const int b : first_of) d.next_.push_back(met.number_of(sets.step(met[i], b)));
  }
  d.trim();
  return d;
}

Result<ByteDfa> ByteDfa::literal(std::string_view text) {
  ByteNfa n;
  const auto f = n.literal(text);
  return of(n, f);
}

Result<ByteDfa> ByteDfa::either(std::span<const ByteDfa> languages) {
  ByteNfa n;
  std::vector<ByteNfa::Fragment> parts;
  for (const ByteDfa& d : languages) parts.push_back(n.dfa(d));
  const auto f = n.either(parts);
  return of(n, f);
}

Result<ByteDfa> ByteDfa::concat(std::span<const ByteDfa> languages) {
  ByteNfa n;
  std::vector<ByteNfa::Fragment> parts;
  for (const ByteDfa& d : languages) parts.push_back(n.dfa(d));
  const auto f = n.concat(parts);
  return of(n, f);
}

Result<ByteDfa> ByteDfa::product(const ByteDfa& a, const ByteDfa& b, bool accept_in_b) {
  ByteDfa d;
  std::map<std::pair<uint8_t, uint8_t>, uint8_t> classes;
  std::vector<int> first_of;
  for (int x = 0; x < 256; ++x) {
    const auto i = static_cast<size_t>(x);
    const auto [at, added] = classes.try_emplace({a.class_of_[i], b.class_of_[i]}, static_cast<uint8_t>(classes.size()));
    if (added) first_of.push_back(x);
    d.class_of_[i] = at->second;
  }
  d.classes_ = classes.size();
  std::map<std::pair<int32_t, int32_t>, int32_t> number{{{0, 0}, 0}};
  std::vector<std::pair<int32_t, int32_t>> order{{0, 0}};
  for (size_t i = 0; i < order.size(); ++i) {
    if (order.size() > kMostStates) return too_large(kMostStates);
    const auto [s, t] = order[i];
    work_done += static_cast<int64_t>(d.classes_);
    d.accepts_.push_back(a.accepts(s) && (t >= 0 && b.accepts(t)) == accept_in_b);
    for (const int x : first_of) {
      const auto byte = static_cast<uint8_t>(x);
      const std::pair to{a.next(s, byte), t < 0 ? -1 : b.next(t, byte)};
      if (to.first < 0 || (accept_in_b && to.second < 0)) {
        d.next_.push_back(-1);
        continue;
      }
      const auto [at, added] = number.try_emplace(to, static_cast<int32_t>(order.size()));
      if (added) order.push_back(to);
      d.next_.push_back(at->second);
    }
  }
  d.trim();
  return d;
}

Result<ByteDfa> ByteDfa::both(const ByteDfa& a, const ByteDfa& b) { return product(a, b, true); }
Result<ByteDfa> ByteDfa::first_only(const ByteDfa& a, const ByteDfa& b) { return product(a, b, false); }

int64_t ByteDfa::work() { return work_done; }

ByteDfa ByteDfa::table(size_t states, const std::array<uint8_t, 256>& alike, const std::function<int32_t(int32_t, int)>& next,
                       const std::function<bool(int32_t)>& accepts) {
  SLIP_CHECK(states > 0 && states <= kMostStates, "the caller bounds its tables");
  ByteDfa d;
  std::map<std::vector<int32_t>, uint8_t> classes;
  std::array<int, 256> class_of;  // by the numbers of `alike`
  class_of.fill(-1);
  for (int b = 0; b < 256; ++b) {
    int& known = class_of[alike[static_cast<size_t>(b)]];
    if (known < 0) {
      std::vector<int32_t> column;
      column.reserve(states);
      for (size_t s = 0; s < states; ++s) column.push_back(next(static_cast<int32_t>(s), b));
      known = classes.try_emplace(std::move(column), static_cast<uint8_t>(classes.size())).first->second;
      work_done += static_cast<int64_t>(states);
    }
    d.class_of_[static_cast<size_t>(b)] = static_cast<uint8_t>(known);
  }
  d.classes_ = classes.size();
  d.next_.resize(states * d.classes_);
  for (const auto& [c, number] : classes)
    for (size_t s = 0; s < states; ++s) d.next_[s * d.classes_ + number] = c[s];
  for (size_t s = 0; s < states; ++s) d.accepts_.push_back(accepts(static_cast<int32_t>(s)));
  d.trim();
  return d;
}

/// Keeps the states that the start reaches and that reach an end, in their order; the start stays.
void ByteDfa::trim() {
  const size_t n = accepts_.size();
  std::vector<std::vector<int32_t>> before(n);
  for (size_t s = 0; s < n; ++s)
    for (size_t c = 0; c < classes_; ++c)
      if (const int32_t to = next_[s * classes_ + c]; to >= 0) before[static_cast<size_t>(to)].push_back(static_cast<int32_t>(s));
  std::vector<uint8_t> alive(n, 0), reached(n, 0);
  std::vector<int32_t> open;
  const auto visit = [&open](std::vector<uint8_t>& seen, int32_t s) {
    if (!std::exchange(seen[static_cast<size_t>(s)], uint8_t{1})) open.push_back(s);
  };
  for (size_t s = 0; s < n; ++s)
    if (accepts_[s]) visit(alive, static_cast<int32_t>(s));
  while (!open.empty()) {
    const auto s = static_cast<size_t>(open.back());
    open.pop_back();
    for (const int32_t b : before[s]) visit(alive, b);
  }
  visit(reached, 0);
  while (!open.empty()) {
    const auto s = static_cast<size_t>(open.back());
    open.pop_back();
    for (size_t c = 0; c < classes_; ++c)
      if (const int32_t to = next_[s * classes_ + c]; to >= 0 && alive[static_cast<size_t>(to)]) visit(reached, to);
  }
  std::vector<int32_t> renamed(n, -1);
  int32_t kept = 0;
  for (size_t s = 0; s < n; ++s)
    if (s == 0 || (alive[s] && reached[s])) renamed[s] = kept++;
  std::vector<int32_t> next;
  std::vector<uint8_t> accepts;
  for (size_t s = 0; s < n; ++s) {
    if (renamed[s] < 0) continue;
    accepts.push_back(accepts_[s]);
    for (size_t c = 0; c < classes_; ++c) {
      const int32_t to = next_[s * classes_ + c];
      next.push_back(to < 0 || !alive[static_cast<size_t>(to)] ? -1 : renamed[static_cast<size_t>(to)]);
    }
  }
  next_ = std::move(next);
  accepts_ = std::move(accepts);
}

bool ByteDfa::ends_here(int32_t state) const {
  const auto row = next_.begin() + static_cast<ptrdiff_t>(static_cast<size_t>(state) * classes_);
  return std::all_of(row, row + static_cast<ptrdiff_t>(classes_), [](int32_t to) { return to < 0; });
}

int32_t ByteDfa::after(int32_t state, std::string_view text) const {
  for (const char c : text) {
    if (state < 0) return -1;
    state = next(state, static_cast<uint8_t>(c));
  }
  return state;
}

bool ByteDfa::matches(std::string_view text) const {
  const int32_t s = after(0, text);
  return s >= 0 && accepts(s);
}

std::optional<int64_t> ByteDfa::longest() const {
  // Depth first, iteratively: 0 new, 1 open, 2 done. An edge to an open state is a cycle, and every state leads to an end.
  std::vector<uint8_t> mark(size(), 0);
  std::vector<int64_t> way(size(), 0);
  std::vector<std::pair<int32_t, size_t>> open{{0, 0}};
  mark[0] = 1;
  while (!open.empty()) {
    auto& [s, c] = open.back();
    if (c == classes_) {
      mark[static_cast<size_t>(s)] = 2;
      const int64_t mine = way[static_cast<size_t>(s)];
      open.pop_back();
      if (!open.empty())
        way[static_cast<size_t>(open.back().first)] = std::max(way[static_cast<size_t>(open.back().first)], mine + 1);
      continue;
    }
    const int32_t to = next_[static_cast<size_t>(s) * classes_ + c++];
    if (to < 0) continue;
    if (mark[static_cast<size_t>(to)] == 1) return std::nullopt;
    if (mark[static_cast<size_t>(to)] == 2) {
      way[static_cast<size_t>(s)] = std::max(way[static_cast<size_t>(s)], way[static_cast<size_t>(to)] + 1);
      continue;
    }
    mark[static_cast<size_t>(to)] = 1;
    open.emplace_back(to, 0);
  }
  return way[0];
}

std::vector<int32_t> ByteDfa::distances(const std::bitset<256>& usable) const {
  std::vector<uint8_t> class_usable(classes_, 0);
  for (size_t b = 0; b < 256; ++b)
    if (usable[b]) class_usable[class_of_[b]] = 1;
  std::vector<std::vector<int32_t>> before(size());
  for (size_t s = 0; s < size(); ++s)
    for (size_t c = 0; c < classes_; ++c)
      if (const int32_t to = next_[s * classes_ + c]; to >= 0 && class_usable[c])
        before[static_cast<size_t>(to)].push_back(static_cast<int32_t>(s));
  std::vector<int32_t> far(size(), kFar), wave;
  for (size_t s = 0; s < size(); ++s)
    if (accepts_[s]) far[s] = 0, wave.push_back(static_cast<int32_t>(s));
  for (size_t i = 0; i < wave.size(); ++i)
    for (const int32_t b : before[static_cast<size_t>(wave[i])])
      if (far[static_cast<size_t>(b)] == kFar) {
        far[static_cast<size_t>(b)] = far[static_cast<size_t>(wave[i])] + 1;
        wave.push_back(b);
      }
  return far;
}

bool ByteDfa::anywhere(uint8_t byte) const {
  for (size_t i = class_of_[byte]; i < next_.size(); i += classes_)
    if (next_[i] >= 0) return true;
  return false;
}

std::vector<int32_t> ByteDfa::largest_ahead(std::span<const int32_t> values) const {
  std::vector<std::vector<int32_t>> before(size());
  for (size_t s = 0; s < size(); ++s)
    for (size_t c = 0; c < classes_; ++c)
      if (const int32_t to = next_[s * classes_ + c]; to >= 0) {
        auto& b = before[static_cast<size_t>(to)];
        if (b.empty() || b.back() != static_cast<int32_t>(s)) b.push_back(static_cast<int32_t>(s));
      }
  std::vector<int32_t> order(size()), out(size(), -1), open;
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(),
                   [&](int32_t a, int32_t b) { return values[static_cast<size_t>(a)] > values[static_cast<size_t>(b)]; });
  for (const int32_t from : order) {  // the largest first: a state's first value is its largest
    const int32_t value = values[static_cast<size_t>(from)];
    open = {from};
    while (!open.empty()) {
      const auto at = static_cast<size_t>(open.back());
      open.pop_back();
      if (out[at] >= 0) continue;
      out[at] = value;
      open.insert(open.end(), before[at].begin(), before[at].end());
    }
  }
  return out;
}

}  // namespace slip
