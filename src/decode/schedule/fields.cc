// SPDX-License-Identifier: Apache-2.0
// Fields along their graph [FastDriveCoT], with drafts in every field and children started on their parents' drafts.
//
// One strand per field; its rows begin with the hand-off row. A pass holds rounds of all strands whose parents are closed. Drafts make
// the same answer in fewer passes: rows of different ready fields do not see each other, so that each says what it would say alone
// (lm/graph_visibility.h; docs/notes/speculation.md#graph-decoding).
// A strand that is closed may hold rows that no pass has fed (its last token, a forced placeholder): they travel with the first pass
// in which a descendant works. With activation a child starts on parents that are drafted to their end; its round counts only if
// each of them closed exactly as drafted: what is accepted is closed towards the parents.
//
// Rollouts share a field's strand as long as their ancestors' strands are the same and they pick the same tokens in it; each picks from
// the strand's rows with its own uniforms. A rollout whose token differs forks: its strand shares the common prefix's KV rows and
// continues alone, and so do, in their turn, the fields that descend from it. Where the answer depends on drafts, only what is greedy
// and has no sampled ancestor is shared.
// Tests: tests/decode/fixtures_test.cc (Fields*), tests/decode/gates_schedule_test.cc
#include <algorithm>
#include <optional>

#include "base/check.h"
#include "decode/schedule/graph_scaffold.h"
#include "decode/schedule/known_keys.h"
#include "decode/schedule/schedule.h"
#include "decode/schedule/wanted.h"
#include "decode/sequence/known_visibility.h"
#include "form/schema/values.h"

namespace slip {
namespace {
class FieldRun {
 public:
  FieldRun(ScheduleContext& context, bool one_by_one)
      : t_(context),
        p_(context.scratch.passes),
        request_(p_.request()),
        form_(*context.form),
        shared_visibility_(known_visibility(form_)),
        visibility_(*shared_visibility_),
        one_by_one_(one_by_one),
        keys_(p_) {}

  Status run() {
    SLIP_TRY_(lay_out());
    while (open_ > 0) {
      collect_ready();
      if (open_ == 0) break;  // the last ones were forced
      SLIP_CHECK(!ready_.empty(), "an acyclic graph always has a field whose parents are closed");
      SLIP_TRY_(round());
      request_.progress(t_.answers[0].fields);
      SLIP_TRY_(tell_keys());
    }
    finish();
    return tell_keys();
  }

 private:
  enum class State : uint8_t { kWaiting, kOpen, kClosed };
  /// What there is to say of a strand beside its own members.
  struct Node {
    State state = State::kWaiting;
    bool in_pass = false;               // rows of this round
    bool started = false;               // speculatively, on its parents' drafts
    bool held = false;                  // every draft of the round
    std::optional<int64_t> fed_before;  // passes that had run when its waiting rows were last added
    size_t spans_before = 0;  // of the context: what comes behind them are the field's first rows, in the slots of other strands
  };

  size_t rollouts() const { return t_.answers.size(); }
  size_t fields() const { return form_.fields().size(); }
  size_t at(int32_t f, size_t r) const { return r * fields() + static_cast<size_t>(f); }
  size_t index_of(const Strand& s) const { return static_cast<size_t>(&s - t_.scratch.strands.data()); }
  Node& node_of(const Strand& s) { return nodes_[index_of(s)]; }
  /// The strand that rollout r has in field f, with others maybe; null while it waits.
  Strand* strand(int32_t f, size_t r) { return strand_[at(f, r)]; }
  /// The first rollout of those that share a strand; the strand lies in the region of slots of its own.
  size_t first_of(const Strand& s) const { return s.request - request_.options.request; }
  bool has(const Strand& s, size_t r) const { return strand_[at(*s.field, r)] == &s; }
  size_t members(const Strand& s) const {
    size_t n = 0;
    for (size_t r = 0; r < rollouts(); ++r) n += has(s, r);
    return n;
  }
  Strand& region(int32_t f, size_t r) { return *region_[at(f, shared_[static_cast<size_t>(f)] ? 0 : r)]; }

  /// The piece that a field's END leads to, as it closed or as it is drafted; none where that is not known or the field is skipped.
  std::optional<int32_t> exit_taken(int32_t f, size_t r) {
    const Strand* s = strand(f, r);
    if (!s) return std::nullopt;
    return node_of(*s).state == State::kClosed ? s->cursor.exit() : s->round.ahead.exit();
  }
  bool is_passed(std::span<const GraphVisibility::Opening> openings, size_t r) {
    return openings.empty() || std::any_of(openings.begin(), openings.end(),
                                           [&](const GraphVisibility::Opening& o) { return exit_taken(o.field, r) == o.piece; });
  }

  /// Fields in which no rollout can differ from the first: one region of slots for all.
  void find_shared() {
    shared_.assign(fields(), 1);
    for (const int32_t f : visibility_.order()) {
      const Field& x = request_.field(f);
      bool shared = rollouts() == 1 || p_.chooser().temperature_of(x.section) == 0;
      for (const int32_t a : visibility_.ancestors(f)) shared = shared && shared_[static_cast<size_t>(a)];
      shared_[static_cast<size_t>(f)] = shared;
    }
  }

  Status lay_out() {
    scaffold_.lay(form_);
    find_shared();
    wanted_.find(visibility_, fields(), request_.options.wanted_first);
    int32_t rows = scaffold_.rows();
    int32_t strands = 0;
    for (size_t r = 0; r < rollouts(); ++r)
      for (const int32_t f : visibility_.order())
        if (r == 0 || !shared_[static_cast<size_t>(f)]) {
          rows += strand_rows(f);
          ++strands;
        }
    SLIP_TRY_(p_.reserve(t_.capacity.slots(rows, strands)));
    t_.scratch.make_strands(static_cast<size_t>(strands), t_.answers[0]);
    nodes_.assign(static_cast<size_t>(strands), {});
    region_.assign(rollouts() * fields(), nullptr);
    strand_ = region_;
    int32_t slot = request_.prompt_rows() + scaffold_.rows();
    int32_t scratch = request_.prompt_rows() + rows;
    size_t next = 0;
    for (size_t r = 0; r < rollouts(); ++r)
      for (const int32_t f : visibility_.order()) {
        if (r > 0 && shared_[static_cast<size_t>(f)]) continue;
        Strand& s = t_.scratch.strands[next++];
        region_[at(f, r)] = &s;
        s.field = f;
        s.request = request_.options.request + static_cast<uint32_t>(r);
        s.answer = &t_.answers[r];
        s.first_slot = slot;
        s.scratch_slot = scratch;
        slot += strand_rows(f);
        scratch += t_.capacity.scratch;
      }
    content_.reserve(static_cast<size_t>(form_.length()) + 1);
    open_ = rollouts() * fields();
    ready_.reserve(static_cast<size_t>(strands));
    std::vector<int32_t> budgets;
    for (const Field& f : form_.fields()) budgets.push_back(f.budget);
    remaining_ = visibility_.remaining_path(budgets);
    if (form_.branches()) scaffold_.lay_sees(visibility_);
    p_.prefill().defer(false, scaffold_.ids, scaffold_.positions, scaffold_.sees);
    return keys_.prompt(&t_.drafter);
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
    append(0, request_.prompt_rows());
    for (const GraphVisibility::Segment& g : visibility_.context(*s.field)) {
      if (!g.field) {
        if (g.piece && !is_passed(visibility_.openings(*g.piece), first_of(s))) continue;
        append(request_.prompt_rows() + scaffold_.rows_before(g.begin), request_.prompt_rows() + scaffold_.rows_before(g.end));
        continue;
      }
      const Strand& a = *strand(*g.field, first_of(s));
      const Node& n = node_of(a);
      for (size_t i = n.spans_before; i < a.context.size(); ++i) append(a.context[i].begin, a.context[i].end);
      const auto rows = static_cast<int32_t>(n.state != State::kClosed ? a.round.path.size() : a.tokens.size());
      append(a.first_slot, a.first_slot + rows);
    }
    node_of(s).spans_before = s.context.size();
  }

  int32_t strand_rows(int32_t f) const { return request_.field(f).budget + request_.field(f).hand_off; }

  /// Content of a field that closed, or as it is drafted.
  std::span<const TokenId> content_of(const Strand& s) {
    content_.assign(s.before.begin(), s.before.end());
    const auto& rows = node_of(s).state != State::kClosed ? s.round.path : s.tokens;
    content_.insert(content_.end(), rows.begin(), rows.end());
    return std::span<const TokenId>(content_).subspan(
        std::min(content_.size(), static_cast<size_t>(request_.field(*s.field).hand_off)));
  }

  /// A strand for rollout r and for all who have the same ancestors: the hand-off and a cursor; a forced placeholder closes it at once.
  Strand& open(int32_t field, size_t r) {
    Strand& s = region(field, r);
    for (size_t m = r; m < rollouts(); ++m)
      if (joint(field, r, m)) strand_[at(field, m)] = &s;
    const Field& f = request_.field(field);
    s.tokens.clear();
    s.cached = 0;
    bool forced = false;
    if (f.instance_of) {
      const Strand& e = *strand(f.instance_of->field, r);
      forced = instances_in(request_.field(f.instance_of->field), content_of(e)) <= f.instance_of->instance;
    }
    if ((forced && form_.may_be_absent(field)) || (form_.branches() && !is_passed(visibility_.openings_of_field(field), r))) {
      s.cursor = Cursor::skipped(form_, field);
      s.context.clear();
      node_of(s).spans_before = 0;
      return s;
    }
    s.cursor = Cursor::of_field(form_, field, forced);
    for (int32_t u = f.start - f.hand_off; u < f.start; ++u) s.tokens.push_back(*form_.fixed_at(u));
    s.first_position = request_.prompt.next_position + f.start - f.hand_off;
    make_context(s);
    return s;
  }

  bool joint(int32_t f, size_t r, size_t m) {
    if (m == r || shared_[static_cast<size_t>(f)]) return true;
    if (t_.drafts_decide || strand(f, m)) return false;
    const auto& parents = request_.field(f).parents;
    return std::all_of(parents.begin(), parents.end(), [&](int32_t q) { return strand(q, m) == strand(q, r); });
  }

  bool closed(int32_t f, size_t r) {
    const Strand* s = strand(f, r);
    return s && node_of(*s).state == State::kClosed;
  }
  bool parents_closed(int32_t f, size_t r) {
    const auto& parents = request_.field(f).parents;
    return std::all_of(parents.begin(), parents.end(), [&](int32_t q) { return closed(q, r); });
  }

  /// Keys of sections that somebody asks for, as soon as all their fields have closed.
  Status tell_keys() {
    while (const auto sections = keys_.next()) {
      std::vector<ClosedField> read;
      for (size_t f = 0; f < fields() && form_.fields()[f].section < *sections; ++f) {
        if (!closed(static_cast<int32_t>(f), 0)) return {};
        Strand& s = *strand(static_cast<int32_t>(f), 0);
        read.push_back({&s, node_of(s).spans_before});
      }
      SLIP_TRY_(keys_.graph(read, scaffold_));
    }
    return {};
  }

  /// All who share it have its content.
  void close(Strand& s) {
    node_of(s).state = State::kClosed;
    t_.drafter.closed(s);
    for (size_t m = 0; m < rollouts(); ++m) {
      if (!has(s, m)) continue;
      --open_;
      auto& content = t_.answers[m].fields[static_cast<size_t>(*s.field)];
      if (m != first_of(s)) content = s.answer->fields[static_cast<size_t>(*s.field)];
    }
    if (has(s, 0)) request_.field_done(*s.field, t_.answers[0].fields[static_cast<size_t>(*s.field)]);
  }

  /// Of every rollout and field, parents before children, those that lead a strand or wait for one: visit(field, rollout, strand).
  template <class F>
  void sweep(F&& visit) {
    for (size_t r = 0; r < rollouts(); ++r)
      for (const int32_t f : visibility_.order())
        if (Strand* s = strand(f, r); s ? first_of(*s) == r : r == 0 || !shared_[static_cast<size_t>(f)]) visit(f, r, s);
  }

  void collect_ready() {
    ready_.clear();
    for (Node& n : nodes_) n.in_pass = n.started = false;
    sweep([&](int32_t f, size_t r, Strand* s) {  // a forced field may make its children ready in the same sweep
      if (!s) {
        if (!parents_closed(f, r)) return;
        s = &open(f, r);
        node_of(*s).state = State::kOpen;
        s->take_fixed();
        if (s->done()) close(*s);
      }
      if (node_of(*s).state != State::kClosed) ready_.push_back(s);
    });
    wanted_.keep(ready_, [&](const Strand& s) { return has(s, 0); });
    if (one_by_one_ && ready_.size() > 1) ready_.resize(1);
    cap_ready();
    for (Strand* s : ready_) node_of(*s).in_pass = true;
  }

  /// Where rows are short: longest remaining path first, the form's order on ties, at least one.
  void cap_ready() {
    const int32_t most = request_.options.most_rows;
    if (most <= 0 || ready_.empty()) return;
    std::stable_sort(ready_.begin(), ready_.end(), [&](const Strand* a, const Strand* b) {
      return remaining_[static_cast<size_t>(*a->field)] > remaining_[static_cast<size_t>(*b->field)];
    });
    // A strand's rows in a pass: its newest row or, before its first pass, its hand-off, its window, and what the drafter adds.
    const auto rows = [&](const Strand& s) {
      const bool begins = s.cached == 0 && s.before.empty();
      return (begins ? request_.field(*s.field).hand_off : 1) + t_.capacity.widest + t_.capacity.scratch;
    };
    size_t n = 1;
    for (int32_t sum = rows(*ready_[0]); n < ready_.size() && (sum += rows(*ready_[n])) <= most; ++n) {
    }
    ready_.resize(n);
    std::sort(ready_.begin(), ready_.end());
  }

  /// Rows of closed ancestors that no pass has fed yet.
  void feed_ancestors(const Strand& s) {
    for (const int32_t a : visibility_.order()) {
      if (!std::binary_search(visibility_.ancestors(*s.field).begin(), visibility_.ancestors(*s.field).end(), a)) continue;
      Strand& q = *strand(a, first_of(s));
      Node& n = node_of(q);
      if (n.state != State::kClosed || q.cached == q.length() || n.fed_before == request_.statistics.forwards) continue;
      n.fed_before = request_.statistics.forwards;  // once in a pass, though several strands descend from it
      for (int32_t i = q.cached; i < q.length(); ++i)
        p_.next().add_row(q.tokens[static_cast<size_t>(i)], q.first_position + i, q.first_slot + i,
                          p_.next().add_spans(q.context, {q.first_slot, q.first_slot + i + 1}), Want::kNothing);
      if (!p_.provisional()) q.cached = q.length();
    }
  }

  Status round() {
    p_.on_begin([this] {
      for (const Strand* s : ready_) feed_ancestors(*s);
    });
    SLIP_TRY_(t_.rounds.propose(ready_, drafts_pay()));
    if (request_.options.activation && !one_by_one_ && request_.options.most_rows <= 0) start_children();
    t_.rounds.begin_verify();
    for (Strand* s : ready_) t_.rounds.add(*s);
    SLIP_TRY_(t_.rounds.run_verify_pass(ready_));
    p_.on_begin({});
    for (Strand* s : ready_) settle(*s);
    return p_.chooser().failure();
  }

  /// Rollouts that have forked draft no more where drafts take passes of their own, unless rows are cheap: rollouts times their blocks of
  /// masks (docs/lab/0011-decoders.md).
  bool drafts_pay() const {
    const auto forked = [&](const Strand* s) { return members(*s) < rollouts(); };
    return t_.drafts_decide || t_.rounds.forks_draft() || !t_.drafter.drafts_in_passes() ||
           std::none_of(ready_.begin(), ready_.end(), forked);
  }

  /// Children whose open parents are all drafted to their very end in this pass, to any depth.
  void start_children() {
    sweep([&](int32_t f, size_t r, Strand* waits) {
      if (waits || wanted_.holds_back(f, r) || !drafted_parents(f, r) || !t_.rounds.starts(f)) return;
      Strand& s = open(f, r);
      Node& n = node_of(s);
      n.started = n.in_pass = true;
      for (const int32_t a : visibility_.ancestors(f)) strand(a, r)->round.feed_last = true;
      t_.rounds.propose_child(s);
      ready_.push_back(&s);
    });
  }

  bool drafted_parents(int32_t f, size_t r) {
    const auto& parents = request_.field(f).parents;
    return std::all_of(parents.begin(), parents.end(), [&](int32_t q) {
      const Strand* s = strand(q, r);
      return s && (node_of(*s).state == State::kClosed || (node_of(*s).in_pass && s->round.ahead.done()));
    });
  }

  /// Commits a strand of the pass; a child started early only where every parent closed as drafted, and for those who share them still.
  void settle(Strand& s) {
    Node& n = node_of(s);
    if (n.started) {
      const size_t r = first_of(s);
      const auto& parents = request_.field(*s.field).parents;
      const bool holds = std::all_of(parents.begin(), parents.end(), [&](int32_t q) {
        const Strand* parent = strand(q, r);
        return closed(q, r) && (!node_of(*parent).in_pass || node_of(*parent).held);
      });
      const auto forked = [&](size_t m) {
        return std::any_of(parents.begin(), parents.end(), [&](int32_t q) { return strand(q, m) != strand(q, r); });
      };
      for (size_t m = rollouts(); m-- > 0;)
        if (has(s, m) && (!holds || forked(m))) strand_[at(*s.field, m)] = nullptr;
      if (!holds) {
        t_.rounds.discard(s);
        n.in_pass = false;  // waiting again; what its descendants saw did not hold either
        return;
      }
      n.state = State::kOpen;
      s.take_fixed();
    }
    commit(s);
    if (s.done() && p_.chooser().failure()) close(s);
  }

  /// Commits a strand's round for all rollouts that share it; one whose tokens differ from the first's forks.
  void commit(Strand& s) {
    Node& n = node_of(s);
    if (shared_[static_cast<size_t>(*s.field)] || members(s) == 1) {
      n.held = t_.rounds.commit(s);
      return;
    }
    const size_t first = first_of(s);
    forked_.clear();
    t_.rounds.verify_for(s, s.request, picks_, true);
    for (size_t m = first + 1; m < rollouts(); ++m) {
      if (!has(s, m)) continue;
      t_.rounds.verify_for(s, request_.options.request + static_cast<uint32_t>(m), other_picks_, false);
      if (other_picks_ != picks_) fork(s, m);
    }
    n.held = t_.rounds.commit(s, picks_);
    for (const Forked& l : forked_) share_prefix(s, region(*s.field, l.first));
  }

  /// Rollout m's tokens differ: it goes with those that picked the same, or forks into a strand of its own.
  void fork(const Strand& lead, size_t m) {
    Strand*& mine = strand_[at(*lead.field, m)];
    for (const Forked& l : forked_)
      if (l.picks == other_picks_) {
        mine = strand_[at(*lead.field, l.first)];
        return;
      }
    forked_.push_back({m, other_picks_});
    Strand& s = region(*lead.field, m);
    mine = &s;
    const int32_t first_slot = s.first_slot, scratch_slot = s.scratch_slot;
    s = lead;
    s.scratch_slot = scratch_slot;
    s.request = request_.options.request + static_cast<uint32_t>(m);
    s.answer = &t_.answers[m];
    s.answer->fields[static_cast<size_t>(*s.field)] = lead.answer->fields[static_cast<size_t>(*s.field)];
    t_.rounds.commit_beside(s, other_picks_);
    s.first_slot = first_slot;
  }

  /// The rows of the common prefix stay the lead's, as context; where the strand goes on, one row at least is left to draw from.
  void share_prefix(const Strand& lead, Strand& s) {
    const auto [a, b] = std::mismatch(lead.tokens.begin(), lead.tokens.end(), s.tokens.begin(), s.tokens.end());
    const int32_t common =
        std::min({static_cast<int32_t>(a - lead.tokens.begin()), lead.cached, s.cached, s.length() - (s.done() ? 0 : 1)});
    s.first_position = lead.first_position + common;
    s.before.insert(s.before.end(), s.tokens.begin(), s.tokens.begin() + common);
    s.tokens.erase(s.tokens.begin(), s.tokens.begin() + common);
    s.cached = 0;
    s.group.reset();
    Node& n = node_of(s);
    n = node_of(lead);
    if (common > 0) s.context.push_back({lead.first_slot, lead.first_slot + common});
    n.state = State::kOpen;
    n.held = false;
    if (s.done()) close(s);
  }

  void finish() {
    Statistics& sum = t_.answers[0].statistics;
    std::vector<int32_t> draws;
    const auto& contents = t_.answers[0].fields;
    const std::vector<uint8_t> present = fields_present(form_, contents);
    const bool shapes = form_.branches() || form_.leaves_out();
    for (size_t f = 0; f < fields(); ++f) {
      const Field& x = form_.fields()[f];
      const bool forced = !present[f] || is_unused(form_, contents, f);
      const auto n = static_cast<int32_t>(contents[f].size());
      const bool ended = n < x.budget && x.exits.empty() && !(x.closes && x.rules.complete(*x.rules.state_after(contents[f])));
      draws.push_back(forced ? 0 : n + ended);
    }
    sum.critical_path = visibility_.longest_path(draws);
    for (Decoded& d : t_.answers) d.tokens = assemble(form_, d.fields);
    sum.forced_tokens += shapes ? static_cast<int64_t>(t_.answers[0].tokens.size()) : form_.fixed_tokens();
    for (size_t f = 0; shapes && f < fields(); ++f) {
      const auto n = static_cast<int64_t>(contents[f].size());
      sum.forced_tokens -= n - (n > 0 && !form_.fields()[f].exits.empty());
    }
  }

  /// Of the round under way: a rollout that has forked, and what it picked.
  struct Forked {
    size_t first;
    Rounds::Picks picks;
  };

  ScheduleContext& t_;
  Passes& p_;
  const DecodeRequest& request_;
  const Form& form_;
  std::shared_ptr<const GraphVisibility> shared_visibility_;
  const GraphVisibility& visibility_;
  bool one_by_one_;
  KeysTeller keys_;
  GraphScaffold scaffold_;
  std::vector<TokenId> content_;
  std::vector<uint8_t> shared_;           // by field
  std::vector<Node> nodes_;               // by strand
  std::vector<Strand*> region_, strand_;  // by rollout and field: the strand that lies in its slots, the one that it has
  std::vector<Strand*> ready_;
  std::vector<int64_t> remaining_;
  WantedFirst wanted_;
  std::vector<Forked> forked_;
  Rounds::Picks picks_, other_picks_;
  size_t open_ = 0;
};

}  // namespace

Status decode_fields(ScheduleContext& context, bool one_by_one) { return FieldRun(context, one_by_one).run(); }

}  // namespace slip
