// SPDX-License-Identifier: Apache-2.0
// Speculative decoding with a second model [Leviathan et al.; the OpenVLA + MiniVLA report, docs/notes/speculation.md#acceptance]: it proposes
// one token per pass of its own, all strands side by side, under the target's rules for the field.
//
// The drafter keeps keys of what it was fed, by its own ids; a round begins by comparing that with the strand and feeds what is
// new (the drafts that held are there already) together with the newest token, so that catching up costs rows and no pass. Its
// prompt travels with its first pass, and stays for later answers as the target's does (PrefixCache). Rolling back is overwriting.
//
// Two vocabularies: a draft is the drafter's choice among ids that name a token of the target. Where nothing but its own first
// choice decides (no rules) and that names none, the draft ends there. A token of the answer that the drafter has no id for ends
// drafting in its strand for good: everything behind it would be drafted from a text that was never written. Nothing is clamped or
// replaced.
//
// Coupled: the drafter draws with the verifier's own uniform and temperature, and meets it more often than its argmax does.
// A strand without tokens (free text before its first) drafts nothing: the token that the prefill gives comes first.
//
// Along a graph the drafter's rows lie behind its prompt as the target's lie behind its own: scaffold, then a run of slots per strand,
// each row seeing what the target's row sees. So a field's drafts know its ancestors and itself, every token is fed once, and rollouts
// share what they share. Rows of ancestors that no pass of the drafter has fed (a last token, a placeholder) travel with the first that
// needs them; where one of them has no name among the drafter's ids, the field is not drafted. A drafter that was trained on chains
// reads a text with gaps: worse drafts, same answer. Children that start on drafts are not drafted: that would take a pass more.
// Tests: DraftModel.*, tests/decode/drafters_test.cc, tests/decode/gates_exact_test.cc
#include <algorithm>
#include <limits>
#include <utility>

#include "decode/draft/methods.h"

namespace slip {
namespace {

class ModelDrafter : public Drafter {
 public:
  ModelDrafter(const DraftModel& model, bool coupled, int32_t room, bool graph, Passes& passes)
      : model_(model),
        prefix_cache_(passes.prefill().cache_of_draft_model()),
        coupled_(coupled),
        graph_(graph),
        room_(room),
        prefill_(passes.prefill()),
        request_(passes.request()),
        chooser_(passes.chooser()) {
    static const Prompt kNone;
    cached_prompt_ = prefix_cache_.crop_to(*model.lm, passes.request().options.reuse_prompt ? model.prompt : kNone, nullptr);
  }

  Status propose(std::span<Strand* const> strands) override {
    active_.clear();
    if (graph_) SLIP_TRY_(follow_graph());
    for (Strand* s : strands) {
      if (s->tokens.empty()) continue;
      SLIP_TRY(const size_t m, mirror_of(*s));
      if (begin(mirrors_[m], *s) && (!graph_ || reach(*s))) active_.push_back({.strand = s, .mirror = m});
    }
    while (!active_.empty()) SLIP_TRY_(step());
    return {};
  }

  void closed(Strand& s) override { closed_.push_back(&s); }

 private:
  /// What the drafter holds of a strand.
  struct Mirror {
    const Strand* strand = nullptr;
    int32_t first_slot = 0;
    int32_t fed = 0;           // ids whose keys are there
    int32_t needed = 0;        // of these: seen by other strands
    size_t answer_before = 0;  // tokens of the answer that are not in the strand (a branch of rollouts)
    std::vector<TokenId> ids;  // by the drafter's names: before the strand, its path
    bool mute = false;         // along a graph: sees a token of the scaffold that has no name here
  };
  struct Active {
    Strand* strand;
    size_t mirror;
    bool asked = false;  // the last pass answered
    Want want = Want::kArgmax;
    size_t row = 0;
  };

  Result<size_t> mirror_of(const Strand& s) {
    for (size_t m = 0; m < mirrors_.size(); ++m)
      if (mirrors_[m].strand == &s) return m;
    const int32_t room = graph_ ? request_.field(*s.field).budget + request_.field(*s.field).hand_off : room_;
    const int64_t slot = graph_ ? own_slot(s.first_slot) : prompt_rows() + static_cast<int64_t>(mirrors_.size()) * room_;
    if (slot + room > model_.lm->info().slots)
      return resource_error("drafter {}: expected an arena of at least {} slots, got {}", model_.lm->info().name, slot + room,
                            model_.lm->info().slots);
    Mirror& m = mirrors_.emplace_back();
    m.strand = &s;
    m.first_slot = static_cast<int32_t>(slot);
    m.answer_before = graph_ ? 0 : static_cast<size_t>(s.first_row);
    m.ids.reserve(static_cast<size_t>(room));
    if (graph_) {
      m.mute = !names_scaffold(s);
      const auto first = static_cast<size_t>(m.first_slot - prompt_rows());
      owner_.resize(std::max(owner_.size(), first + static_cast<size_t>(room)));
      std::fill_n(owner_.begin() + static_cast<ptrdiff_t>(first), room, mirrors_.size() - 1);
    }
    return mirrors_.size() - 1;
  }

  int32_t prompt_rows() const { return static_cast<int32_t>(model_.prompt.inputs.size()); }
  /// Along a graph: where the row of one of the target's slots behind the prompt lies here.
  int32_t own_slot(int32_t slot) const { return slot - request_.prompt_rows() + prompt_rows(); }

  /// Strands that closed since, and what has become of the others.
  Status follow_graph() {
    if (scaffold_.empty())
      for (const TokenId id : prefill_.scaffold()) {
        const std::optional<TokenId> own = draft_id(id);
        if (!own) break;
        scaffold_.push_back(*own);
      }
    for (const Strand* s : closed_) SLIP_TRY_(mirror_of(*s));
    closed_.clear();
    for (Mirror& m : mirrors_) begin(m, *m.strand);
    return {};
  }

  /// Has the drafter names for the scaffold that a strand sees?
  bool names_scaffold(const Strand& s) const {
    const int32_t named = request_.prompt_rows() + static_cast<int32_t>(scaffold_.size());
    const int32_t end = request_.prompt_rows() + scaffold_rows();
    return std::all_of(s.context.begin(), s.context.end(),
                       [&](const SlotSpan& x) { return x.begin >= end || std::min(x.end, end) <= named; });
  }

  /// Can the drafter hold all rows that the strand's context names? If so, marks what the next pass must feed.
  bool reach(const Strand& s) {
    const auto rows_of = [&](auto&& visit) {  // visit(mirror, row); false ends it
      for (const SlotSpan& span : s.context)
        for (int32_t slot = std::max(span.begin, request_.prompt_rows() + scaffold_rows()); slot < span.end; ++slot) {
          const auto at = static_cast<size_t>(slot - request_.prompt_rows());
          if (at >= owner_.size() || !owner_[at]) return false;
          Mirror& m = mirrors_[*owner_[at]];
          if (!visit(m, own_slot(slot) - m.first_slot)) return false;
        }
      return true;
    };
    if (!rows_of([](const Mirror& m, int32_t row) { return row < static_cast<int32_t>(m.ids.size()); })) return false;
    return rows_of([](Mirror& m, int32_t row) {
      m.needed = std::max(m.needed, row + 1);
      return true;
    });
  }
  int32_t scaffold_rows() const { return static_cast<int32_t>(prefill_.scaffold().size()); }

  std::optional<TokenId> draft_id(TokenId target) const { return model_.to_draft[target]; }

  /// Brings the mirror's ids to the strand's tokens, keeping keys of the common beginning; false where nothing can be drafted.
  bool begin(Mirror& m, const Strand& s) {
    size_t i = 0;
    bool named = !m.mute;
    const auto follow = [&](TokenId target) {
      const std::optional<TokenId> id = draft_id(target);
      named = named && id;
      if (!named) return;
      if (i < m.ids.size() && m.ids[i] != *id) m.ids.resize(i);
      if (i == m.ids.size()) {
        m.fed = std::min(m.fed, static_cast<int32_t>(i));
        m.ids.push_back(*id);
      }
      ++i;
    };
    for (size_t k = 0; k < m.answer_before; ++k) follow(s.answer->tokens[k]);
    for (const TokenId t : s.tokens) follow(t);
    m.ids.resize(i);
    m.fed = std::min(m.fed, static_cast<int32_t>(i));
    return named;
  }

  /// Every active strand takes its drafted token and walks to the next draw; one pass of the drafter then says what goes there.
  Status step() {
    std::erase_if(active_, [&](Active& a) { return !walk(a); });
    if (active_.empty()) return {};
    SLIP_TRY_(request_.poll());
    rows_.clear();
    spans_.clear();
    features_ = {};
    const bool prompt_runs = !std::exchange(prompt_ran_, true) && add_prompt();
    for (size_t m = 0; graph_ && m < mirrors_.size(); ++m)
      if (std::none_of(active_.begin(), active_.end(), [&](const Active& a) { return a.mirror == m; }))
        add_mirror_rows(mirrors_[m], mirrors_[m].fed, std::min(mirrors_[m].needed, static_cast<int32_t>(mirrors_[m].ids.size())));
    for (Active& a : active_) ask(a);
    const auto begin = std::chrono::steady_clock::now();
    SLIP_TRY_(model_.lm->forward({rows_, spans_, features_}, out_));
    if (prompt_runs) prefix_cache_.assign(model_.prompt, model_.lm->info().hidden_size, nullptr);
    prefix_cache_.ran(*model_.lm);
    const double ms = std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - begin).count();
    request_.record(TimedPass::Kind::kDrafter, begin, ms, rows_.size());
    Statistics& sum = request_.statistics;
    sum.ms.draft += ms;
    if (prompt_runs) sum.ms.drafter_prompt += ms;
    ++sum.drafter_forwards;
    return {};
  }

  /// What is not there from an earlier answer, and a graph's scaffold up to the first token that has no name here. Does the prompt run?
  bool add_prompt() {
    const Prompt& p = model_.prompt;
    features_ = p.features;
    for (auto i = static_cast<size_t>(cached_prompt_); i < p.inputs.size(); ++i) {
      spans_.push_back({0, static_cast<int32_t>(i) + 1});
      rows_.push_back(
          {p.inputs[i], p.positions[i], static_cast<int32_t>(i), static_cast<uint32_t>(spans_.size() - 1), 1, Want::kNothing});
    }
    const bool runs = !rows_.empty();
    const auto at = prefill_.scaffold_positions();
    for (size_t k = 0; graph_ && k < scaffold_.size(); ++k) {
      const int32_t slot = prompt_rows() + static_cast<int32_t>(k);
      spans_.push_back({0, slot + 1});
      rows_.push_back({scaffold_[k], Position::text(p.next_position + at[k]), slot, static_cast<uint32_t>(spans_.size() - 1), 1,
                       Want::kNothing});
    }
    return runs;
  }

  void add_mirror_rows(Mirror& m, int32_t begin, int32_t end) {
    const Strand& s = *m.strand;
    const int32_t position = model_.prompt.next_position + (graph_ ? s.first_position - request_.prompt.next_position : 0);
    for (int32_t i = begin; i < end; ++i) {
      const auto first = static_cast<uint32_t>(spans_.size());
      if (!graph_) spans_.push_back({0, prompt_rows()});
      for (size_t k = 0; graph_ && k < s.context.size(); ++k)
        spans_.push_back({k == 0 ? 0 : own_slot(s.context[k].begin), own_slot(s.context[k].end)});
      spans_.push_back({m.first_slot, m.first_slot + i + 1});
      rows_.push_back({m.ids[static_cast<size_t>(i)], Position::text(position + i), m.first_slot + i, first,
                       static_cast<uint32_t>(spans_.size()) - first, Want::kNothing});
    }
    m.fed = std::max(m.fed, end);
  }

  /// What was not fed, at least the newest row, which is asked.
  void ask(Active& a) {
    Mirror& m = mirrors_[a.mirror];
    const auto n = static_cast<int32_t>(m.ids.size());
    add_mirror_rows(m, std::min(m.fed, n - 1), n);
    rows_.back().want = a.want;
    a.row = rows_.size() - 1;
    a.asked = true;
  }

  /// Takes what the last pass drafted and walks on to the next draw that needs the drafter; false where the draft ends.
  bool walk(Active& a) {
    Strand& s = *a.strand;
    bool asks = false;
    propose_along(s, [&](const Cursor& at, DraftToken& draft) -> std::optional<TokenId> {
      if (at.last_draw()) return std::nullopt;  // where all before it hold, the verifying pass says it anyway
      if (a.asked) {
        a.asked = false;
        return drafted(a, draft);
      }
      asks = true;
      a.want = wants_logits(draft.place) ? Want::kLogits : Want::kArgmax;
      return std::nullopt;
    });
    if (!asks) return false;
    Mirror& m = mirrors_[a.mirror];
    for (size_t i = m.ids.size() - m.answer_before; i < s.round.path.size(); ++i) {
      const std::optional<TokenId> id = draft_id(s.round.path[i]);
      if (!id) return false;
      m.ids.push_back(*id);
    }
    return true;
  }

  bool couples(const Place& place) const { return coupled_ && chooser_.temperature_at(place) > 0; }
  bool wants_logits(const Place& place) const { return couples(place) || brings_logits(chooser_.draft_want(place.field)); }

  std::optional<TokenId> drafted(const Active& a, DraftToken& draft) {
    const std::optional<TokenId> first = model_.to_target[out_.argmax[a.row]];
    const bool unruled = !draft.place.field || request_.field(*draft.place.field).rules.unrestricted();
    if (unruled && !first) return std::nullopt;
    if (out_.logits_row[a.row] < 0) return first;
    translate(out_.logits_V(a.row));
    if (!says_anything(target_logits_V_, chooser_.allowed_at(draft.place))) return std::nullopt;
    const TokenId token = chooser_.propose_from(target_logits_V_, *a.strand, draft);
    if (!couples(draft.place) || draft.q) return token;
    return choose(target_logits_V_, chooser_.allowed_at(draft.place), chooser_.sampling_at(draft.place),
                  a.strand->history(draft.place, draft.rows), chooser_.uniform(a.strand->request, draft.place, Purpose::kToken),
                  chooser_.buffers());
  }

  /// The drafter's logits by the target's ids; where several of its ids name one, the largest.
  void translate(std::span<const float> draft_logits_V) {
    target_logits_V_.assign(static_cast<size_t>(request_.vocab()), -std::numeric_limits<float>::infinity());
    for (size_t d = 0; d < draft_logits_V.size(); ++d) {
      const std::optional<TokenId> t = model_.to_target[TokenId{static_cast<int32_t>(d)}];
      if (!t) continue;
      float& x = target_logits_V_[static_cast<size_t>(t->value)];
      x = std::max(x, draft_logits_V[d]);
    }
  }

  const DraftModel& model_;
  PrefixCache& prefix_cache_;
  bool coupled_, graph_;
  int32_t room_, cached_prompt_ = 0;
  const Prefill& prefill_;
  const DecodeRequest& request_;
  Chooser& chooser_;
  bool prompt_ran_ = false;
  std::vector<Mirror> mirrors_;
  std::vector<std::optional<size_t>> owner_;  // along a graph, by slot behind the prompt: the mirror whose rows lie there
  std::vector<TokenId> scaffold_;             // by the drafter's names, up to the first that has none
  std::vector<const Strand*> closed_;         // since the last round
  std::vector<Active> active_;
  std::vector<Row> rows_;
  std::vector<SlotSpan> spans_;
  FeatureView features_;
  std::vector<float> target_logits_V_;
  PassOutput out_;
};

Status check_map(const VocabularyMap& map, int32_t from, int32_t to, std::string_view name) {
  if (map.size() != from)
    return bad_input("drafter: {}: expected {} ids, one per token of the vocabulary, got {}", name, from, map.size());
  for (int32_t id = 0; id < map.size(); ++id)
    if (const auto other = map[{id}]; other && other->value >= to)
      return bad_input("drafter: {}: id {}: expected an id below {} or none, got {}", name, id, to, other->value);
  return {};
}

}  // namespace

Result<std::unique_ptr<Drafter>> make_model_drafter(const DraftModel& model, bool coupled, int32_t room, bool graph,
                                                    Passes& passes) {
  if (model.lm == nullptr) return usage_error("--drafter model: expected a model (model:DIR), got none");
  const LmInfo& info = model.lm->info();
  SLIP_TRY_(check_map(model.to_draft, passes.request().vocab(), info.vocab, "ids of the target"));
  SLIP_TRY_(check_map(model.to_target, info.vocab, passes.request().vocab(), "ids of the drafter"));
  const Prompt& p = model.prompt;
  if (p.inputs.empty()) return bad_input("drafter {}: expected a prompt of at least one row, got none", info.name);
  if (p.inputs.size() != p.positions.size())
    return bad_input("drafter {}: expected {} positions in its prompt, got {}", info.name, p.inputs.size(), p.positions.size());
  for (const RowInput& input : p.inputs)
    if (const auto* id = std::get_if<TokenId>(&input); id && (id->value < 0 || id->value >= info.vocab))
      return bad_input("drafter {}: expected prompt ids below {}, got {}", info.name, info.vocab, id->value);
  if (const int64_t need = static_cast<int64_t>(p.inputs.size()) + room; need > info.slots)
    return resource_error("drafter {}: expected an arena of at least {} slots, got {}", info.name, need, info.slots);
  return std::unique_ptr<Drafter>(std::make_unique<ModelDrafter>(model, coupled, room, graph, passes));
}

}  // namespace slip
