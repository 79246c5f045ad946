// SPDX-License-Identifier: Apache-2.0
// Examples from the deployed loop; contracts in lora_example.h. The decoder knows nothing of it: an observer of draft lengths hears which
// draws were tested, a wrapper around the model hears where a round ends, and rows are found again by their positions.
#include "train/loop/learners/lora_example.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "base/check.h"
#include "base/philox.h"
#include "decode/draft_length/observer.h"
#include "decode/pass/choice.h"
#include "decode/sequence/cursor.h"
#include "decode/types/capacity.h"
#include "decode/types/usual_preset.h"

namespace slip {
namespace {

/// Along a chain END moves what follows out of its place in the block; the rows would have to be told apart by more than their positions.
/// Along a graph every field has rows of its own.
Status check_form(const Form& form) {
  for (const Field& f : form.fields())
    if (f.end) return unsupported("lora: expected a form with fields of fixed size, got '{}' with an end", f.name);
  return {};
}

/// Rows of a sample that are its prompt's.
size_t prompt_rows(const Sample& s) {
  if (s.graph) return s.tokens.size();
  return static_cast<size_t>(std::find(s.response.begin(), s.response.end(), 1) - s.response.begin());
}

Method method_for(const LoraTask& task, const LoraRule& rule, bool adapter) {
  const Result<Method> preset = method_of(usual_preset(task.form != nullptr, task.visibility == Visibility::kGraph, true));
  SLIP_CHECK(preset, "a preset of our own");
  Method m = *preset;
  m.drafter = DiffusionSpec{.adapter = adapter};
  if (!task.form) m.draft_length.tokens = rule.width;
  return m;
}

Prompt prompt_of(const RowBatch& rows, const LoraTask& task, LoraLm& lm) {
  Prompt p;
  for (const int32_t id : rows.tokens) p.inputs.emplace_back(TokenId{id});
  for (size_t i = 0; i < rows.feature_rows.size(); ++i)
    p.inputs[static_cast<size_t>(rows.feature_rows[i])] = Feature{rows.feature_of[i]};
  p.positions = rows.positions;
  if (!rows.feature_rows.empty()) p.features.numbers_ND = lm.features(rows);
  p.next_position = task.next_position;
  return p;
}

}  // namespace

void LoraSums::add(const LoraSums& o) {
  lk += o.lk;
  ce += o.ce;
  blocks += o.blocks;
  positions += o.positions;
  agreed += o.agreed;
  proposed += o.proposed;
  tested += o.tested;
  accepted += o.accepted;
  forwards += o.forwards;
  tokens += o.tokens;
}

Result<LoraTask> lora_task(const Sample& s) {
  LoraTask task;
  if (s.graph) {
    task.form = {s.graph, &s.graph->form};
    task.visibility = Visibility::kGraph;
    task.next_position = s.next_position;
    return task;
  }
  task.form = s.form;
  if (task.form) SLIP_TRY_(check_form(*task.form));
  const size_t first = prompt_rows(s);
  SLIP_CHECK(first > 0 && first < s.response.size(), "check_sample");
  task.next_position = s.positions[first].t;
  task.limit = static_cast<int32_t>(s.tokens.size() - first);
  if (!s.always_masked.empty() && s.always_masked.back()) task.end_tokens = {s.tokens.back()};
  return task;
}

RowBatch prompt_batch(const Sample& s, const VisionShape& vision) {
  const size_t n = prompt_rows(s);
  SequenceRows rows;
  rows.feature = features_of(s);
  rows.feature.resize(n);
  rows.positions.assign(s.positions.begin(), s.positions.begin() + static_cast<ptrdiff_t>(n));
  for (size_t i = 0; i < n; ++i) {
    rows.tokens.push_back(s.tokens[i].value);
    rows.sees.push_back(causal_row(static_cast<int32_t>(i)));
  }
  RowBatch batch;
  append_sequence(batch, rows, inputs_of(s), vision, false);
  return batch;
}

class LoraExample::Loop : public Lm, public DraftLengthObserver {
 public:
  Loop(LoraLm& lm, const LoraRule& rule) : lm_(lm), rule_(rule), lk_(rule.lk) {}

  const LmInfo& info() const override { return lm_.info(); }

  /// A draft pass ends the round before it.
  Status forward(const Pass& pass, PassOutput& out) override {
    if (!pass.draft_adapter || !learns_) return lm_.forward(pass, out);
    end_round();
    SLIP_TRY_(lm_.forward(pass, out));
    PhiloxStream draw(noise_, static_cast<uint64_t>(round_++));
    if (draw.uniform() < rule_.sampled) draw_drafts(pass, out, draw);
    return {};
  }

  void seen(const DraftFacts&, const Place& place, bool) override {
    if (learns_) tested_.push_back(place);
  }

  /// Gumbel's noise on the logits: whatever the form's rules leave, the largest is a draw from the drafter's law on it. The loss reads the
  /// logits without it.
  void draw_drafts(const Pass& pass, PassOutput& out, PhiloxStream& draw) {
    for (size_t i = 0; i < pass.rows.size(); ++i) {
      const Row& row = pass.rows[i];
      if (row.want == Want::kNothing) continue;
      noisy_.clear();
      for (const float z : lm_.logits<float>(true, row.position.t))
        noisy_.push_back(z - static_cast<float>(std::log(-std::log(draw.uniform() + 0x1p-60))));
      out.argmax[i] = choose_from(noisy_, allowed_of(pass, row)).argmax;
      if (out.logits_row[i] < 0) continue;
      const auto line = static_cast<size_t>(out.logits_row[i]) * noisy_.size();
      std::copy(noisy_.begin(), noisy_.end(), out.logits_NV.begin() + static_cast<ptrdiff_t>(line));
    }
  }

  Result<LoraSums> run(const RowBatch& rows, const LoraTask& task, bool adapter, bool learns) {
    const Prompt prompt = prompt_of(rows, task, lm_);
    task_ = &task;
    const Method method = method_for(task, rule_, adapter);
    DecodeOptions options;
    options.limit = task.limit;
    options.end_tokens = task.end_tokens;
    options.visibility = task.visibility;
    lm_.reserve(static_cast<int32_t>(prompt.inputs.size()) + answer_slots(method, options));
    learns_ = learns;
    noise_ = task.noise;
    round_ = 0;
    tested_.clear();
    sums_ = {};
    Decoder decoder(*this, method);
    const DecodeContext context{.draft_length_observer = this, .cancel = CancelToken::of_process()};
    SLIP_TRY(Decoded answer, decoder.decode(prompt, task.form.get(), options, context));
    end_round();
    const Statistics& s = answer.statistics;
    sums_.proposed = s.proposed;
    sums_.tested = s.tested;
    sums_.accepted = s.accepted;
    sums_.forwards = s.forwards;
    sums_.tokens = s.tokens;
    tokens_ = std::move(answer.tokens);
    return sums_;
  }

  std::span<const TokenId> tokens() const { return tokens_; }

 private:
  int32_t answer_slots(const Method& method, const DecodeOptions& options) const {
    FormSize size;
    if (task_->form) size = {task_->form->length(), static_cast<int64_t>(task_->form->fields().size())};
    const Capacity capacity = Capacity::of(method, options, task_->form != nullptr);
    return static_cast<int32_t>(capacity.slots_of_answers(1, options.limit, size));
  }

  /// Whether two draws of a round stand in one block: along a graph each field has its own.
  bool in_one_block(const Place& a, const Place& b) const { return task_->visibility == Visibility::kChain || a.field == b.field; }

  /// Loss and gradient of a round's tested draws, from the last draft pass and the last verifying one. A block's stand side by side.
  void end_round() {
    if (tested_.empty()) return;
    double unit = 1;
    for (size_t i = 0; i < tested_.size(); ++i) {
      const Place& place = tested_[i];
      if (i == 0 || !in_one_block(tested_[i - 1], place)) {
        const auto others = [&](const Place& p) { return in_one_block(place, p); };
        if (rule_.by_blocks) unit = 1.0 / static_cast<double>(std::count_if(tested_.begin(), tested_.end(), others));
        ++sums_.blocks;
      }
      const int32_t index =
          place.field ? task_->form->fields()[static_cast<size_t>(*place.field)].start + place.index : place.index;
      const int32_t row = task_->next_position + index - 1;
      const int32_t draft = lm_.info().rule.shift ? row : row + 1;
      const auto d = lm_.logits<float>(true, draft), v = lm_.logits<float>(false, row);
      SLIP_CHECK(!d.empty() && !v.empty(), "a tested draw was drafted and verified");
      const LkPosition at = lk_.position<float>(d, v, ids_allowed(place), unit, lm_.logits_gradient<float>(draft));
      sums_.lk += unit * at.lk;
      sums_.ce += unit * at.ce;
      sums_.agreed += at.draft == at.target;
    }
    lm_.backward();
    sums_.positions += static_cast<int64_t>(tested_.size());
    tested_.clear();
  }

  /// The ids of a place's rules; empty for all.
  std::span<const TokenId> ids_allowed(const Place& place) {
    if (!place.field) return {};
    const Field& f = task_->form->fields()[static_cast<size_t>(*place.field)];
    if (f.rules.unrestricted()) return {};
    ids_.clear();
    for_each_allowed(allowed_in(f, place.state, listed_), lm_.info().vocab, [&](TokenId id) { ids_.push_back(id); });
    return ids_;
  }

  LoraLm& lm_;
  LoraRule rule_;
  LkLoss lk_;
  const LoraTask* task_ = nullptr;
  bool learns_ = false;
  uint64_t noise_ = 0;
  int64_t round_ = 0;
  std::vector<float> noisy_;
  std::vector<Place> tested_;
  std::vector<TokenId> ids_, listed_, tokens_;
  LoraSums sums_;
};

LoraExample::LoraExample(LoraLm& lm, const LoraRule& rule) : loop_(std::make_unique<Loop>(lm, rule)) {}
LoraExample::~LoraExample() = default;
Result<LoraSums> LoraExample::run(const RowBatch& prompt, const LoraTask& task) { return loop_->run(prompt, task, true, true); }
Result<LoraSums> LoraExample::measure(const RowBatch& prompt, const LoraTask& task, bool adapter) {
  return loop_->run(prompt, task, adapter, false);
}
std::span<const TokenId> LoraExample::tokens() const { return loop_->tokens(); }

}  // namespace slip
