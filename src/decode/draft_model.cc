// SPDX-License-Identifier: Apache-2.0
// Speculative decoding with a second model [Leviathan et al.; the OpenVLA + MiniVLA report, reference/speculation 5]: it proposes
// one token per pass of its own, all strands side by side, under the target's rules for the field.
//
// The drafter keeps keys of what it was fed, by its own ids; a round begins by comparing that with the strand and feeds what is
// new (the drafts that held are there already) together with the newest token, so that catching up costs rows and no pass. Its
// prompt travels with its first pass. Rolling back is overwriting.
//
// Two vocabularies: a draft is the drafter's choice among ids that name a token of the target. Where nothing but its own first
// choice decides (no rules) and that names none, the draft ends there. A token of the answer that the drafter has no id for ends
// drafting in its strand for good: everything behind it would be drafted from a text that was never written. Nothing is clamped or
// replaced.
//
// Coupled: the drafter draws with the verifier's own uniform and temperature, and meets it more often than its argmax does.
// A strand without tokens (free text before its first) drafts nothing: the token that the prefill gives comes first.
// Only text and chain: under the graph law the drafter would need the graph's rows in its own arena, and training under that law.
// Tests: DraftModel.*, tests/decode_drafters_test.cc
#include <algorithm>
#include <limits>

#include "decode/draft_methods.h"

namespace slip {
namespace {

class ModelDrafting : public Drafting {
 public:
  ModelDrafting(const DraftModel& model, bool coupled, int32_t room, Passes& passes)
      : model_(model), coupled_(coupled), room_(room), passes_(passes) {}

  Status propose(std::span<Strand* const> strands) override {
    active_.clear();
    for (Strand* s : strands) {
      if (s->tokens.empty()) continue;
      SLIP_TRY(const size_t m, mirror_of(*s));
      if (begin(mirrors_[m], *s)) active_.push_back({.strand = s, .mirror = m});
    }
    while (!active_.empty()) SLIP_TRY_(step());
    return {};
  }

 private:
  /// What the drafter holds of a strand.
  struct Mirror {
    const Strand* strand = nullptr;
    int32_t first_slot = 0;
    int32_t fed = 0;           // ids whose keys are there
    size_t answer_before = 0;  // tokens of the answer that are not in the strand (a branch of rollouts)
    std::vector<TokenId> ids;  // by the drafter's names: before the strand, its path
    bool mute = false;
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
    const auto prompt_rows = static_cast<int64_t>(model_.prompt.inputs.size());
    const int64_t slot = prompt_rows + static_cast<int64_t>(mirrors_.size()) * room_;
    if (slot + room_ > model_.lm->info().slots)
      return resource_error("drafter {}: expected an arena of at least {} slots, got {}", model_.lm->info().name, slot + room_,
                            model_.lm->info().slots);
    Mirror& m = mirrors_.emplace_back();
    m.strand = &s;
    m.first_slot = static_cast<int32_t>(slot);
    m.answer_before = static_cast<size_t>(s.first_row);
    m.ids.reserve(static_cast<size_t>(room_));
    return mirrors_.size() - 1;
  }

  TokenId draft_id(TokenId target) const { return model_.to_draft[static_cast<size_t>(target.value)]; }

  /// Brings the mirror's ids to the strand's tokens, keeping keys of the common beginning; false where nothing can be drafted.
  bool begin(Mirror& m, const Strand& s) {
    size_t i = 0;
    const auto follow = [&](TokenId target) {
      const TokenId id = draft_id(target);
      m.mute = m.mute || id.value < 0;
      if (m.mute) return;
      if (i < m.ids.size() && m.ids[i] != id) m.ids.resize(i);
      if (i == m.ids.size()) {
        m.fed = std::min(m.fed, static_cast<int32_t>(i));
        m.ids.push_back(id);
      }
      ++i;
    };
    for (size_t k = 0; k < m.answer_before; ++k) follow(s.answer->tokens[k]);
    for (const TokenId t : s.tokens) follow(t);
    m.ids.resize(i);
    m.fed = std::min(m.fed, static_cast<int32_t>(i));
    return !m.mute;
  }

  /// Every active strand takes its drafted token and walks to the next draw; one pass of the drafter then says what goes there.
  Status step() {
    std::erase_if(active_, [&](Active& a) { return !walk(a); });
    if (active_.empty()) return {};
    SLIP_TRY_(passes_.poll());
    rows_.clear();
    spans_.clear();
    features_ = {};
    if (!prompt_ran_) add_prompt();
    for (Active& a : active_) add_rows(a);
    const auto begin = std::chrono::steady_clock::now();
    SLIP_TRY_(model_.lm->forward({rows_, spans_, features_}, out_));
    const double ms = std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - begin).count();
    Statistics& sum = passes_.statistics();
    sum.ms.draft += ms;
    if (!prompt_ran_) sum.ms.drafter_prompt += ms;
    ++sum.drafter_forwards;
    prompt_ran_ = true;
    return {};
  }

  void add_prompt() {
    const Prompt& p = model_.prompt;
    features_ = p.features_ND;
    for (size_t i = 0; i < p.inputs.size(); ++i) {
      spans_.push_back({0, static_cast<int32_t>(i) + 1});
      rows_.push_back(
          {p.inputs[i], p.positions[i], static_cast<int32_t>(i), static_cast<uint32_t>(spans_.size() - 1), 1, Want::kNothing});
    }
  }

  /// What was not fed, at least the newest row, which is asked.
  void add_rows(Active& a) {
    Mirror& m = mirrors_[a.mirror];
    const auto n = static_cast<int32_t>(m.ids.size());
    for (int32_t i = std::min(m.fed, n - 1); i < n; ++i) {
      const auto first = static_cast<uint32_t>(spans_.size());
      spans_.push_back({0, static_cast<int32_t>(model_.prompt.inputs.size())});
      spans_.push_back({m.first_slot, m.first_slot + i + 1});
      rows_.push_back({m.ids[static_cast<size_t>(i)], Position::text(model_.prompt.next_position + i), m.first_slot + i, first, 2,
                       Want::kNothing});
    }
    rows_.back().want = a.want;
    a.row = rows_.size() - 1;
    a.asked = true;
    m.fed = n;
  }

  /// Takes what the last pass drafted and walks on to the next draw that needs the drafter; false where the draft ends.
  bool walk(Active& a) {
    Strand& s = *a.strand;
    bool asks = false;
    propose_along(s, passes_.form(), [&](const Cursor& at, Draw& draw) -> std::optional<TokenId> {
      if (at.last_draw()) return std::nullopt;  // where all before it hold, the verifying pass says it anyway
      if (a.asked) {
        a.asked = false;
        return draft(a, draw);
      }
      asks = true;
      a.want = wants_logits(draw.place) ? Want::kLogits : Want::kArgmax;
      return std::nullopt;
    });
    if (!asks) return false;
    Mirror& m = mirrors_[a.mirror];
    for (size_t i = m.ids.size() - m.answer_before; i < s.path.size(); ++i) {
      const TokenId id = draft_id(s.path[i]);
      if (id.value < 0) return false;
      m.ids.push_back(id);
    }
    return true;
  }

  bool couples(const Place& place) const { return coupled_ && passes_.temperature_at(place) > 0; }
  bool wants_logits(const Place& place) const {
    return passes_.wants_draft_logits() || couples(place) || passes_.draft_want_at(place) == Want::kLogits;
  }

  std::optional<TokenId> draft(const Active& a, Draw& draw) {
    const TokenId first = model_.to_target[static_cast<size_t>(out_.argmax[a.row].value)];
    const bool unruled = draw.place.field < 0 || passes_.field(draw.place.field).rules.unrestricted();
    if (unruled && first.value < 0) return std::nullopt;
    if (out_.logits_row[a.row] < 0) return first;
    translate(out_.logits_V(a.row));
    if (!says_anything(target_logits_V_, passes_.allowed_at(draw.place))) return std::nullopt;
    const TokenId token = passes_.propose_from(target_logits_V_, *a.strand, draw);
    if (!couples(draw.place) || draw.q >= 0) return token;
    return choose(target_logits_V_, passes_.allowed_at(draw.place), passes_.sampling_at(draw.place),
                  a.strand->history(draw.place, draw.row), passes_.uniform(a.strand->request, draw.place, Purpose::kToken),
                  passes_.choice_buffers());
  }

  /// The drafter's logits by the target's ids; where several of its ids name one, the largest.
  void translate(std::span<const float> draft_logits_V) {
    target_logits_V_.assign(static_cast<size_t>(passes_.vocab()), -std::numeric_limits<float>::infinity());
    for (size_t d = 0; d < draft_logits_V.size(); ++d) {
      const TokenId t = model_.to_target[d];
      if (t.value < 0) continue;
      float& x = target_logits_V_[static_cast<size_t>(t.value)];
      x = std::max(x, draft_logits_V[d]);
    }
  }

  const DraftModel& model_;
  bool coupled_;
  int32_t room_;
  Passes& passes_;
  bool prompt_ran_ = false;
  std::vector<Mirror> mirrors_;
  std::vector<Active> active_;
  std::vector<Row> rows_;
  std::vector<SlotSpan> spans_;
  std::span<const float> features_;
  std::vector<float> target_logits_V_;
  PassOutput out_;
};

Status check_map(std::span<const TokenId> map, int32_t from, int32_t to, std::string_view name) {
  if (static_cast<int64_t>(map.size()) != from)
    return bad_input("drafter: {}: expected {} ids, one per token of the vocabulary, got {}", name, from, map.size());
  for (size_t i = 0; i < map.size(); ++i)
    if (map[i].value >= to)
      return bad_input("drafter: {}: id {}: expected an id below {} or none, got {}", name, i, to, map[i].value);
  return {};
}

}  // namespace

Result<std::unique_ptr<Drafting>> make_model_drafting(const DraftModel& model, bool coupled, int32_t room, Passes& passes) {
  if (model.lm == nullptr) return usage_error("--drafter model: expected a model (model:DIR), got none");
  const LmInfo& info = model.lm->info();
  SLIP_TRY_(check_map(model.to_draft, passes.vocab(), info.vocab, "ids of the target"));
  SLIP_TRY_(check_map(model.to_target, info.vocab, passes.vocab(), "ids of the drafter"));
  const Prompt& p = model.prompt;
  if (p.inputs.empty()) return bad_input("drafter {}: expected a prompt of at least one row, got none", info.name);
  if (p.inputs.size() != p.positions.size())
    return bad_input("drafter {}: expected {} positions in its prompt, got {}", info.name, p.inputs.size(), p.positions.size());
  for (const RowInput& input : p.inputs)
    if (const auto* id = std::get_if<TokenId>(&input); id && (id->value < 0 || id->value >= info.vocab))
      return bad_input("drafter {}: expected prompt ids below {}, got {}", info.name, info.vocab, id->value);
  if (const int64_t need = static_cast<int64_t>(p.inputs.size()) + room; need > info.slots)
    return resource_error("drafter {}: expected an arena of at least {} slots, got {}", info.name, need, info.slots);
  return std::unique_ptr<Drafting>(std::make_unique<ModelDrafting>(model, coupled, room, passes));
}

}  // namespace slip
