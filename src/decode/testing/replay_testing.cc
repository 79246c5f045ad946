// SPDX-License-Identifier: Apache-2.0
#include "decode/testing/replay_testing.h"

#include <algorithm>

#include "base/check.h"
#include "decode/sequence/strand.h"

namespace slip {
namespace {

class Replay {
 public:
  Replay(const Form& form, const ReplayScript& script, const ReplayMethod& m, DraftLengthPolicy& lengths)
      : form_(form), script_(script), m_(m), lengths_(lengths) {
    answer_.fields.resize(form.fields().size());
  }

  ReplayCounts run() {
    if (m_.graph)
      graph();
    else
      chain();
    return counts_;
  }

 private:
  struct Node {
    Strand s;
    bool opened = false, early = false, in_round = false, whole = false;  // whole: its last draft held and closed it
    bool drafted_end = false;
    int32_t fed_rows = 0;
    std::vector<uint8_t> right;  // of its draws
  };

  const Field& field(int32_t f) const { return form_.fields()[static_cast<size_t>(f)]; }
  const ReplayScript::Field& told(int32_t f) const { return script_.fields[static_cast<size_t>(f)]; }
  /// Any token of the content, whatever it is, and the END.
  TokenId content_token(int32_t f) const { return TokenId{field(f).end && field(f).end->value == 0 ? 1 : 0}; }
  TokenId true_token(const Place& p) const {
    return p.index == told(*p.field).content ? *field(*p.field).end : content_token(*p.field);
  }
  TokenId drafted_token(const Place& p) const {
    return field(*p.field).end && p.index == told(*p.field).draft ? *field(*p.field).end : content_token(*p.field);
  }

  void chain() {
    Node n;
    n.s.reset(answer_);
    n.s.cursor = Cursor::chain(form_);
    std::vector<Node*> all{&n};
    if (m_.drafts_in_passes) {  // in a pass of its own
      ++counts_.forwards;
      prefill_ = false;
    }
    while (true) {
      n.s.take_fixed();
      if (n.s.done()) return;
      propose(all);
      lay(n);
      pass(all);
      settle(n);
    }
  }

  bool closed(int32_t f) const { return nodes_[static_cast<size_t>(f)].opened && nodes_[static_cast<size_t>(f)].s.done(); }
  void open(int32_t f) {
    Node& n = nodes_[static_cast<size_t>(f)];
    n.s.reset(answer_);
    answer_.fields[static_cast<size_t>(f)].clear();
    n.s.field = f;
    n.s.cursor = Cursor::of_field(form_, f, false);
    n.s.tokens.assign(1, TokenId{0});
  }

  void graph() {
    const auto fields = static_cast<int32_t>(form_.fields().size());
    nodes_.resize(form_.fields().size());
    std::vector<Node*> round;
    const auto parents = [&](int32_t f, auto&& each) {
      return std::all_of(field(f).parents.begin(), field(f).parents.end(), each);
    };
    // Parents stand before their children in repeated sweeps: the graph's depth many.
    while (true) {
      round.clear();
      for (Node& n : nodes_) n.in_round = n.early = n.whole = n.drafted_end = false;
      for (int32_t f = 0; f < fields; ++f) {
        Node& n = nodes_[static_cast<size_t>(f)];
        if (n.opened && n.s.done()) continue;
        if (!n.opened && !parents(f, [&](int32_t q) { return closed(q); })) continue;
        if (!n.opened) open(f);
        n.opened = n.in_round = true;
        round.push_back(&n);
      }
      if (round.empty()) return;
      propose(round);
      if (m_.activation) start_children(fields, parents, round);
      for (Node* n : round) lay(*n);
      pass(round);
      for (Node* n : round) {
        if (n->early && !parents(*n->s.field, [&](int32_t q) {
              return closed(q) && (!nodes_[static_cast<size_t>(q)].in_round || nodes_[static_cast<size_t>(q)].whole);
            })) {
          counts_.proposed += static_cast<int64_t>(n->s.round.drafts.size());
          counts_.discarded += static_cast<int64_t>(n->s.round.drafts.size());
          n->in_round = false;
          continue;
        }
        n->opened = true;
        settle(*n);
      }
    }
  }

  template <class P>
  void start_children(int32_t fields, const P& parents, std::vector<Node*>& round) {
    bool more = true;
    while (more) {
      more = false;
      for (int32_t f = 0; f < fields; ++f) {
        Node& n = nodes_[static_cast<size_t>(f)];
        if (n.opened || n.in_round) continue;
        if (!parents(f, [&](int32_t q) { return closed(q) || nodes_[static_cast<size_t>(q)].drafted_end; })) continue;
        open(f);
        n.in_round = n.early = more = true;
        lengths_.open(DraftView(n.s));
        n.s.round.drafts.clear();
        n.s.round.ahead = n.s.cursor;
        if (!m_.drafts_in_passes) draft(n, n.s.round.window_end);
        n.drafted_end = n.s.round.ahead.done();
        round.push_back(&n);
      }
    }
  }

  void propose(std::vector<Node*>& round) {
    strands_.clear();
    for (Node* n : round) strands_.push_back(&n->s);
    lengths_.open_all(DraftViews(strands_));
    int32_t rows = 0;
    bool any = false;
    for (Node* n : round) {
      Strand& s = n->s;
      s.round.drafts.clear();
      s.round.ahead = s.cursor;
      int32_t end = s.round.window_end;
      if (m_.drafts_in_passes) {
        end = std::min(end, s.field ? field(*s.field).start + field(*s.field).budget : form_.length());
        if (s.tokens.empty()) end = s.cursor.position();
        const int32_t block = std::max(0, end - s.cursor.position());
        any |= block > 0;
        rows += block > 0 ? s.length() - s.cached + block : 0;
      }
      draft(*n, end);
      if (lengths_.window_ends_with_drafts()) s.round.window_end = kNoEnd;
    }
    if (any) {
      counts_.draft_forwards += !prefill_;  // the prefill travels with it: then it counts as that
      prefill_ = false;
      ++counts_.forwards;
      if (m_.cost) counts_.ms += m_.cost->ms(rows);
    }
    if (lengths_.chooses()) cut(round);
    for (Node* n : round) n->drafted_end = n->s.round.ahead.done();
  }

  void draft(Node& n, int32_t end) {
    Strand& s = n.s;
    n.right.clear();
    int32_t rows = s.length();
    while (!s.round.ahead.done() && s.round.ahead.position() < end) {
      if (s.round.ahead.at_fixed()) {
        s.round.ahead.take_fixed();
        ++rows;
        continue;
      }
      if (static_cast<int32_t>(s.round.drafts.size()) >= s.round.window_drafts) return;
      const Place p = s.round.ahead.place();
      if (p.index > told(*p.field).draft) return;  // an earlier answer says nothing behind its END
      const auto i = static_cast<size_t>(p.index);
      DraftToken d{.place = p, .token = drafted_token(p), .rows = rows, .position = s.round.ahead.position()};
      d.facts = {.ahead = static_cast<int32_t>(s.round.drafts.size()), .field = p.field, .index = p.index, .rows = rows};
      if (!told(*p.field).top.empty()) d.facts.top = told(*p.field).top[i];
      n.right.push_back(i < told(*p.field).right.size() && told(*p.field).right[i]);
      s.round.drafts.push_back(d);
      rows += s.round.ahead.take(d.token);
    }
  }

  void cut(std::vector<Node*>& round) {
    facts_.assign(round.size(), {});
    spans_.clear();
    keep_.clear();
    for (size_t i = 0; i < round.size(); ++i) {
      for (const DraftToken& d : round[i]->s.round.drafts) facts_[i].push_back(d.facts);
      spans_.emplace_back(facts_[i]);
      keep_.push_back(static_cast<int32_t>(facts_[i].size()));
    }
    lengths_.choose(spans_, keep_);
    for (size_t i = 0; i < round.size(); ++i) {
      Strand& s = round[i]->s;
      const auto keep = static_cast<size_t>(std::clamp(keep_[i], 0, static_cast<int32_t>(s.round.drafts.size())));
      if (keep == s.round.drafts.size()) continue;
      counts_.proposed += static_cast<int64_t>(s.round.drafts.size() - keep);
      s.round.drafts.resize(keep);
      s.round.ahead = s.cursor;
      for (const DraftToken& d : s.round.drafts) {
        while (s.round.ahead.at_fixed()) s.round.ahead.take_fixed();
        s.round.ahead.take(d.token);
      }
    }
  }

  /// Fixed tokens up to the next draw come along; rows of the pass.
  void lay(Node& n) {
    Strand& s = n.s;
    Cursor at = s.cursor;
    int32_t rows = s.length();
    for (const DraftToken& d : s.round.drafts) {
      for (; at.at_fixed(); at.take_fixed()) ++rows;
      rows += at.take(d.token);
    }
    for (; at.at_fixed() && at.position() < s.round.window_end; at.take_fixed()) ++rows;
    s.round.ahead = at;
    s.round.next.reset();
    if (at.at_draw()) s.round.next = {at.place(), {}};
    n.fed_rows = rows;
    if (s.round.ahead.done()) n.fed_rows = s.round.drafts.empty() ? s.cached : s.round.drafts.back().rows;
  }

  void pass(const std::vector<Node*>& round) {
    ++counts_.rounds;
    ++counts_.forwards;
    prefill_ = false;
    int32_t rows = 0;
    for (const Node* n : round) rows += n->fed_rows - n->s.cached;
    if (m_.cost) counts_.ms += m_.cost->ms(std::max(rows, 1));
  }

  void settle(Node& n) {
    Strand& s = n.s;
    bool held = true;
    counts_.proposed += static_cast<int64_t>(s.round.drafts.size());
    for (size_t k = 0; k < s.round.drafts.size() && held; ++k) {
      s.take_fixed();
      const Place p = s.round.drafts[k].place;
      ++counts_.tested;
      held = n.right[k] != 0;
      lengths_.seen(s.round.drafts[k].facts, held);
      if (m_.observer) m_.observer->seen(s.round.drafts[k].facts, p, held);
      counts_.accepted += held;
      if (!held) s.cached = std::min(n.fed_rows, s.length());
      s.take(true_token(p));
    }
    n.whole = held && n.drafted_end;
    if (!held) return;
    if (!s.done() && s.cursor.position() < s.round.window_end) s.take_fixed();
    s.cached = std::min(n.fed_rows, s.length());
    if (s.round.next) s.take(true_token(s.round.next->place));
    n.whole = held;
  }

  const Form& form_;
  const ReplayScript& script_;
  const ReplayMethod& m_;
  DraftLengthPolicy& lengths_;
  Decoded answer_;
  ReplayCounts counts_;
  bool prefill_ = true;  // not run yet
  std::vector<Node> nodes_;
  std::vector<Strand*> strands_;
  std::vector<std::vector<DraftFacts>> facts_;
  std::vector<std::span<const DraftFacts>> spans_;
  std::vector<int32_t> keep_;
};

}  // namespace

ReplayCounts replay(const Form& form, const ReplayScript& script, const ReplayMethod& method, DraftLengthPolicy& lengths) {
  SLIP_CHECK(script.fields.size() == form.fields().size(), "a script tells of every field");
  return Replay(form, script, method, lengths).run();
}

}  // namespace slip
