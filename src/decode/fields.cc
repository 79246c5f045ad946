// SPDX-License-Identifier: Apache-2.0
// Fields along their graph [FastDriveCoT], with drafts in every field and children started on their parents' drafts.
//
// One strand per field (and per rollout, where it is sampled or has a sampled ancestor); its rows begin with the hand-off row. A pass
// holds rounds of all strands whose parents are closed. Drafts make the same answer in fewer passes, for rows of different ready
// fields do not see each other: each field's law is exact whatever travels with it (nn/graph_law.h; reference/speculation 8.4).
// A strand that is closed may hold rows that no pass has fed (its last token, a forced placeholder): they travel with the first pass
// in which a descendant works. With activation a child starts on parents that are drafted to their end; its round counts only if
// each of them closed exactly as drafted: what is accepted is closed towards the parents.
// Tests: Fields.*, FieldsSpec.*, tests/decode_fixtures_test.cc
#include <algorithm>

#include "base/check.h"
#include "decode/known_law.h"
#include "decode/methods.h"
#include "form/values.h"

namespace slip {
namespace {

class FieldRun {
 public:
  FieldRun(Task& task, bool one_by_one)
      : t_(task), p_(task.work.passes), form_(*task.form), law_of_(known_law(form_)), law_(*law_of_), one_by_one_(one_by_one) {}

  Status run() {
    SLIP_TRY_(lay_out());
    while (open_ > 0) {
      collect_ready();
      if (open_ == 0) break;  // the last ones were forced
      SLIP_CHECK(!ready_.empty(), "an acyclic graph always has a field whose parents are closed");
      SLIP_TRY_(round());
      p_.progress(t_.answers[0].fields);
    }
    finish();
    return {};
  }

 private:
  enum class State : uint8_t { kWaiting, kOpen, kClosed };
  struct Node {
    Strand* strand = nullptr;
    State state = State::kWaiting;
    bool in_pass = false;     // rows of this round
    bool started = false;     // speculatively, on its parents' drafts
    int64_t fed_before = -1;  // passes that had run when its waiting rows were last added
  };

  size_t rollouts() const { return t_.answers.size(); }
  size_t fields() const { return form_.fields().size(); }
  /// Node of field f for rollout r: shared fields have one for all.
  Node& node(int32_t f, size_t r) {
    return nodes_[shared_[static_cast<size_t>(f)] ? static_cast<size_t>(f) : r * fields() + static_cast<size_t>(f)];
  }
  Node& node_of(const Strand& s) { return node(s.field, s.request - p_.options().request); }
  size_t rollout_of(const Strand& s) const { return s.request - p_.options().request; }

  Status lay_out() {
    for (int32_t u = 0; u < form_.length(); ++u) {  // what stands behind the last field is seen by nobody
      if (!form_.fixed_at(u) || (fields() > 0 && u >= form_.fields().back().start)) continue;
      scaffold_.push_back(*form_.fixed_at(u));
      scaffold_at_.push_back(u);
    }
    ordinal_.assign(static_cast<size_t>(form_.length()) + 1, 0);
    for (const int32_t u : scaffold_at_) ordinal_[static_cast<size_t>(u) + 1] = 1;
    for (size_t u = 1; u < ordinal_.size(); ++u) ordinal_[u] += ordinal_[u - 1];

    shared_.assign(fields(), 1);
    for (const int32_t f : law_.order()) {
      const Field& x = p_.field(f);
      bool shared = rollouts() == 1 || p_.temperature_of(x.section) == 0;
      for (const int32_t a : law_.ancestors(f)) shared = shared && shared_[static_cast<size_t>(a)];
      shared_[static_cast<size_t>(f)] = shared;
    }
    int32_t rows = static_cast<int32_t>(scaffold_.size());
    int32_t strands = 0;
    for (size_t r = 0; r < rollouts(); ++r)
      for (const int32_t f : law_.order())
        if (r == 0 || !shared_[static_cast<size_t>(f)]) {
          rows += p_.field(f).budget + 1;
          ++strands;
        }
    SLIP_TRY_(p_.reserve(rows + t_.drafting.scratch_slots() * strands));
    t_.work.make_strands(static_cast<size_t>(strands), t_.answers[0]);
    nodes_.assign(rollouts() * fields(), {});
    order_.clear();
    int32_t slot = p_.prompt_rows() + static_cast<int32_t>(scaffold_.size());
    int32_t scratch = p_.prompt_rows() + rows;
    size_t next = 0;
    for (size_t r = 0; r < rollouts(); ++r)
      for (const int32_t f : law_.order()) {
        if (r > 0 && shared_[static_cast<size_t>(f)]) continue;
        Strand& s = t_.work.strands[next++];
        s.field = f;
        s.request = p_.options().request + static_cast<uint32_t>(r);
        s.answer = &t_.answers[r];
        s.first_slot = slot;
        s.first_position = p_.prompt().next_position + p_.field(f).start - 1;
        s.scratch_slot = scratch;
        slot += p_.field(f).budget + 1;
        scratch += t_.drafting.scratch_slots();
        node(f, r).strand = &s;
        order_.push_back(&s);
      }
    open_ = strands;
    ready_.reserve(static_cast<size_t>(strands));
    held_.assign(static_cast<size_t>(strands), 0);
    std::vector<int32_t> budgets;
    for (const Field& f : form_.fields()) budgets.push_back(f.budget);
    remaining_ = law_.remaining_path(budgets);
    p_.defer_prefill(false, scaffold_, scaffold_at_);
    return {};
  }

  /// Spans before the strand's own rows. Ancestors' rows: what they hold, or, on a child started early, what their drafts hold.
  void make_context(Strand& s) {
    s.context.clear();
    const auto append = [&](int32_t begin, int32_t end) {
      if (begin >= end) return;
      if (!s.context.empty() && s.context.back().end == begin)
        s.context.back().end = end;
      else
        s.context.push_back({begin, end});
    };
    append(0, p_.prompt_rows());
    for (const GraphLaw::Segment& g : law_.context(s.field)) {
      if (g.field < 0) {
        append(p_.prompt_rows() + ordinal_[static_cast<size_t>(g.begin)], p_.prompt_rows() + ordinal_[static_cast<size_t>(g.end)]);
        continue;
      }
      const Node& a = node(g.field, rollout_of(s));
      const bool drafted = a.state != State::kClosed;
      const auto rows = static_cast<int32_t>(drafted ? a.strand->path.size() : a.strand->tokens.size());
      append(a.strand->first_slot, a.strand->first_slot + rows);
    }
  }

  std::span<const TokenId> content_of(const Strand& s, bool drafted) const {
    return std::span(drafted ? s.path : s.tokens).subspan(1);
  }

  /// The strand's hand-off token and cursor; a forced placeholder closes it at once.
  void open(Strand& s) {
    const Field& f = p_.field(s.field);
    bool forced = false;
    if (f.instance_of) {
      const Node& e = node(f.instance_of->field, rollout_of(s));
      forced =
          instances_in(p_.field(f.instance_of->field), content_of(*e.strand, e.state != State::kClosed)) <= f.instance_of->instance;
    }
    s.cursor = Cursor::of_field(form_, s.field, forced);
    s.tokens.assign(1, *form_.fixed_at(f.start - 1));
    s.cached = 0;
    make_context(s);
  }

  bool parents_closed(const Strand& s) {
    for (const int32_t q : p_.field(s.field).parents)
      if (node(q, rollout_of(s)).state != State::kClosed) return false;
    return true;
  }

  void close(Strand& s) {
    node_of(s).state = State::kClosed;
    --open_;
  }

  void collect_ready() {
    ready_.clear();
    for (Strand* s : order_) {  // parents before children: a forced field may make its children ready in the same sweep
      Node& n = node_of(*s);
      n.in_pass = n.started = false;
      if (n.state == State::kClosed) continue;
      if (n.state == State::kWaiting) {
        if (!parents_closed(*s)) continue;
        open(*s);
        n.state = State::kOpen;
        s->take_fixed();
        if (s->done()) {
          close(*s);
          continue;
        }
      }
      if (one_by_one_ && !ready_.empty()) continue;
      ready_.push_back(s);
    }
    cap_ready();
    for (Strand* s : ready_) node_of(*s).in_pass = true;
  }

  /// Where rows are short: longest remaining path first, the form's order on ties, at least one.
  void cap_ready() {
    const int32_t most = p_.options().most_rows;
    if (most <= 0) return;
    std::stable_sort(ready_.begin(), ready_.end(), [&](const Strand* a, const Strand* b) {
      return remaining_[static_cast<size_t>(a->field)] > remaining_[static_cast<size_t>(b->field)];
    });
    // A strand's rows in a pass: its newest row, its window, and what the drafter adds.
    const int32_t each = 1 + t_.widest + t_.drafting.scratch_slots();
    ready_.resize(std::min(ready_.size(), static_cast<size_t>(std::max(1, most / each))));
    std::sort(ready_.begin(), ready_.end(), [&](const Strand* a, const Strand* b) { return index_of(a) < index_of(b); });
  }
  ptrdiff_t index_of(const Strand* s) const { return s - t_.work.strands.data(); }

  /// Rows of closed ancestors that no pass has fed yet.
  void feed_ancestors(const Strand& s) {
    for (const int32_t a : law_.order()) {
      if (!std::binary_search(law_.ancestors(s.field).begin(), law_.ancestors(s.field).end(), a)) continue;
      Node& n = node(a, rollout_of(s));
      Strand& q = *n.strand;
      if (n.state != State::kClosed || q.cached == q.length() || n.fed_before == p_.statistics().forwards) continue;
      n.fed_before = p_.statistics().forwards;  // once in a pass, though several strands descend from it
      for (int32_t i = q.cached; i < q.length(); ++i)
        p_.add_row(q.tokens[static_cast<size_t>(i)], q.first_position + i, q.first_slot + i,
                   p_.add_spans(q.context, {q.first_slot, q.first_slot + i + 1}), Want::kNothing);
      if (!p_.provisional()) q.cached = q.length();
    }
  }

  Status round() {
    p_.on_begin([this] {
      for (const Strand* s : ready_) feed_ancestors(*s);
    });
    SLIP_TRY_(t_.rounds.propose(ready_, drafts_pay()));
    if (p_.options().activation && !one_by_one_ && p_.options().most_rows <= 0) start_children();
    t_.rounds.begin_verify();
    for (Strand* s : ready_) t_.rounds.add(*s);
    SLIP_TRY_(t_.rounds.verify(ready_));
    p_.on_begin({});
    for (Strand* s : ready_) settle(*s);
    return {};
  }

  /// Fields that every rollout has for itself are drafted no more where drafts take passes of their own: rollouts times their blocks of
  /// masks (docs/lab/0011-decoders.md).
  bool drafts_pay() const {
    const auto own = [&](const Strand* s) { return !shared_[static_cast<size_t>(s->field)]; };
    return t_.drafts_decide || !t_.drafting.drafts_in_passes() || std::none_of(ready_.begin(), ready_.end(), own);
  }

  /// Children whose open parents are all drafted to their very end in this pass, to any depth.
  void start_children() {
    for (Strand* s : order_) {
      Node& n = node_of(*s);
      if (n.state != State::kWaiting || !drafted_parents(*s) || !t_.rounds.starts(*s)) continue;
      open(*s);
      n.started = n.in_pass = true;
      for (const int32_t a : law_.ancestors(s->field)) node(a, rollout_of(*s)).strand->feed_last = true;
      t_.rounds.propose_child(*s);
      ready_.push_back(s);
    }
  }

  bool drafted_parents(const Strand& s) {
    for (const int32_t q : p_.field(s.field).parents) {
      const Node& n = node(q, rollout_of(s));
      if (n.state == State::kClosed) continue;
      if (!n.in_pass || !n.strand->ahead.done()) return false;
    }
    return true;
  }

  /// Commits a strand of the pass; a child started early only where every parent closed as drafted.
  void settle(Strand& s) {
    Node& n = node_of(s);
    if (n.started) {
      bool holds = true;
      for (const int32_t q : p_.field(s.field).parents) {
        const Node& parent = node(q, rollout_of(s));
        holds = holds && parent.state == State::kClosed && (!parent.in_pass || as_drafted(*parent.strand));
      }
      if (!holds) {
        t_.rounds.discard(s);
        n.in_pass = false;  // waiting again; what its descendants saw did not hold either
        return;
      }
      n.state = State::kOpen;
      s.take_fixed();
    }
    held_[static_cast<size_t>(index_of(&s))] = t_.rounds.commit(s);
    if (s.done()) close(s);
  }
  bool as_drafted(const Strand& s) const { return held_[static_cast<size_t>(index_of(&s))] != 0; }

  void finish() {
    Statistics& sum = t_.answers[0].statistics;
    std::vector<int32_t> draws;
    for (size_t f = 0; f < fields(); ++f) {
      const auto& content = t_.answers[0].fields[f];
      const Field& x = form_.fields()[f];
      const bool forced = x.instance_of && was_forced(f);
      draws.push_back(forced ? 0 : static_cast<int32_t>(content.size()) + (static_cast<int32_t>(content.size()) < x.budget));
    }
    sum.critical_path = law_.longest_path(draws);
    for (size_t r = 0; r < rollouts(); ++r) {
      Decoded& d = t_.answers[r];
      for (size_t f = 0; f < fields(); ++f)
        if (r > 0 && shared_[f]) d.fields[f] = t_.answers[0].fields[f];
      d.tokens = assemble(form_, d.fields);
      if (r == 0) d.statistics.forced_tokens += form_.fixed_tokens();
    }
  }
  bool was_forced(size_t f) {
    const auto& of = *form_.fields()[f].instance_of;
    return instances_in(p_.field(of.field), t_.answers[0].fields[static_cast<size_t>(of.field)]) <= of.instance;
  }

  Task& t_;
  Passes& p_;
  const Form& form_;
  std::shared_ptr<const GraphLaw> law_of_;
  const GraphLaw& law_;
  bool one_by_one_;
  std::vector<TokenId> scaffold_;
  std::vector<int32_t> scaffold_at_, ordinal_;
  std::vector<uint8_t> shared_, held_;
  std::vector<Node> nodes_;
  std::vector<Strand*> order_, ready_;
  std::vector<int64_t> remaining_;
  int32_t open_ = 0;
};

}  // namespace

Status decode_fields(Task& task, bool one_by_one) { return FieldRun(task, one_by_one).run(); }

}  // namespace slip
