// SPDX-License-Identifier: Apache-2.0
// A frozen model with a draft adapter on torch; contract in lora_lm.h, the model's blocks in torch_model.h. The arena holds every
// layer's queries, keys and values as the projections gave them; a pass attends over its slots as one part (span_attention.h).
#include <algorithm>
#include <numeric>
#include <utility>

#include "train/model/torch_model.h"
#include "train/objective/lora_lm.h"

namespace slip {

struct LoraLm::Impl {
  TrainModel::Impl base;
  LmInfo info;
  LoraTable table;
  double scale;
  Tensor values, gradients;
  std::vector<Tensor> a, b;   // leaves, by layer
  std::vector<Tensor> arena;  // by layer: slots x N
  Tensor rotary;              // slots x head width

  /// What a pass left: logits of the rows that wanted something, and whose they are.
  struct Kept {
    std::vector<int32_t> t;
    Tensor logits, d_logits;
    ptrdiff_t line(int32_t position) const {
      const auto at = std::find(t.begin(), t.end(), position);
      return at == t.end() ? -1 : at - t.begin();
    }
  } with, without;
  AttentionPlan with_all, with_last;  // outlive the graph of `with`

  Impl(const TrainModel::Impl& model, LoraTable lora, double scale_of_product, LmInfo i, const Tensor& shared_values)
      : base(model, TrainModel::Impl::Frozen{}),
        info(std::move(i)),
        table(std::move(lora)),
        scale(scale_of_product),
        values(shared_values) {
    const auto wide = at::TensorOptions(base.wide);
    gradients = at::zeros({table.table.size}, wide);
    const auto leaf = [&](const Group& g) {
      const auto view = [&](const Tensor& flat) {
        return flat.detach().narrow(0, g.offset, g.rows * g.columns).view({g.rows, g.columns});
      };
      Tensor t = view(values).requires_grad_(true);
      t.mutable_grad() = view(gradients);
      return t;
    };
    for (size_t l = 0; l < table.a.size(); ++l) {
      a.push_back(leaf(table.a[l]));
      b.push_back(leaf(table.b[l]));
    }
    const int32_t slots = std::exchange(info.slots, 0);
    reserve(slots);
  }

  void reserve(int32_t slots) {
    if (slots <= info.slots) return;
    const auto& s = base.shape;
    const int64_t width = int64_t{s.heads + 2 * s.kv_heads} * s.head_dim;
    arena.clear();
    for (int32_t l = 0; l < s.layers; ++l) arena.push_back(at::zeros({slots, width}, at::TensorOptions(base.act)));
    rotary = at::zeros({slots, s.head_dim}, at::TensorOptions(base.wide));
    info.slots = slots;
  }

  Tensor embed(const Pass& pass) {
    std::vector<int32_t> tokens, feature_rows, features;
    for (size_t i = 0; i < pass.rows.size(); ++i) {
      const auto* token = std::get_if<TokenId>(&pass.rows[i].input);
      tokens.push_back(token ? token->value : 0);
      if (token) continue;
      feature_rows.push_back(static_cast<int32_t>(i));
      features.push_back(std::get<Feature>(pass.rows[i].input).index);
    }
    Tensor x = at::embedding(base.leaf(base.table.embed), index_tensor(tokens));
    if (feature_rows.empty()) return x;
    const int64_t D = x.size(1), n = static_cast<int64_t>(pass.features.numbers_ND.size()) / D;
    const Tensor all = at::from_blob(const_cast<float*>(pass.features.numbers_ND.data()), {n, D}, at::kFloat);
    return x.index_copy(0, index_tensor(feature_rows), all.index_select(0, index_tensor(features)).to(base.wide));
  }

  /// Final-norm outputs of the rows in `wanted`. With the adapter the arena stays as it is.
  Tensor hidden(const Pass& pass, const Tensor& slots, int64_t top, const Tensor& wanted, const AttentionPlan& all,
                const AttentionPlan& last) {
    const AttentionShape s = base.shape.attention();
    // The graph keeps the angles; the arena's are written by the verifying pass before the gradient is taken.
    const Tensor angles = pass.draft_adapter ? rotary.narrow(0, 0, top).clone() : rotary.narrow(0, 0, top);
    std::vector<Position> positions;
    for (const Row& r : pass.rows) positions.push_back(r.position);
    const Tensor q_scale = base.query_scales_of(positions);
    Tensor x = embed(pass), delta;
    for (size_t l = 0; l < arena.size(); ++l) {
      const BlockGroups& g = base.table.layers[l];
      const bool is_last = l + 1 == arena.size();
      const Tensor own = base.before_attention(g, base.shape.eps, x, delta, q_scale), kept = arena[l].narrow(0, 0, top);
      if (!pass.draft_adapter) arena[l].index_copy_(0, slots, own);
      if (is_last && wanted.size(0) == 0) return {};
      const Tensor qkv = pass.draft_adapter ? kept.index_copy(0, slots, own) : kept;
      const AttentionPlan& plan = is_last ? last : all;
      const Tensor mixed = Attend::apply(qkv, angles, reinterpret_cast<int64_t>(&plan), int64_t{s.H}, int64_t{s.G});
      Tensor projected = base.linear(mixed, g.out, g.out_bias);
      if (pass.draft_adapter) projected = projected + scale * at::mm(at::mm(mixed, a[l].to(base.act).t()), b[l].to(base.act).t());
      if (is_last) x = x.index_select(0, wanted);
      base.after_attention(g, base.shape.eps, projected, x, delta);
    }
    return AddNorm::apply(x, delta, base.leaf(base.table.norm), base.shape.eps, true)[1];
  }

  Status check(const Pass& pass) const {
    if (pass.taps) return unsupported("training {}: expected passes without taps, got one with", info.name);
    for (size_t i = 0; i < pass.rows.size(); ++i) {
      const Row& r = pass.rows[i];
      if (r.slot < 0 || r.slot >= info.slots)
        return resource_error("training {}: expected slots below {}, got {}", info.name, info.slots, r.slot);
      const auto* token = std::get_if<TokenId>(&r.input);
      if (token && (token->value < 0 || token->value >= info.vocab))
        return bad_input("training {}: expected ids below {}, got {}", info.name, info.vocab, token->value);
      if (r.sees_count == 0) return bad_input("training {}: expected rows that see something, got one that does not", info.name);
    }
    return {};
  }

  static void lay_out(const Pass& pass, bool wanted_only, AttentionPlan& plan) {
    plan = {};
    std::vector<int32_t> rows;
    std::vector<IndexRanges> sees;
    for (const Row& r : pass.rows) {
      if (wanted_only && r.want == Want::kNothing) continue;
      rows.push_back(r.slot);
      IndexRanges ranges;
      for (uint32_t k = 0; k < r.sees_count; ++k)
        append_range(ranges, pass.spans[r.sees_first + k].begin, pass.spans[r.sees_first + k].end);
      sees.push_back(std::move(ranges));
    }
    if (!rows.empty()) append_part(plan, rows, sees);
  }

  /// Row numbers of a pass, by slot.
  static std::vector<size_t> by_slot(std::span<const Row> rows) {
    std::vector<size_t> order(rows.size());
    std::iota(order.begin(), order.end(), size_t{0});
    std::sort(order.begin(), order.end(), [&](size_t a, size_t b) { return rows[a].slot < rows[b].slot; });
    return order;
  }

  /// values[i] belongs to row order[i]; none where nobody asked.
  template <class V>
  static void back_in_order(const std::vector<size_t>& order, V& values) {
    if (values.empty()) return;
    V moved(values.size());
    for (size_t i = 0; i < order.size(); ++i) moved[order[i]] = values[i];
    values = std::move(moved);
  }

  /// Attention's plans want rows by slot; along a graph a pass has the rows of several fields and of their ancestors, in any order.
  Status forward(const Pass& pass, PassOutput& out) {
    SLIP_TRY_(check(pass));
    const std::vector<size_t> order = by_slot(pass.rows);
    for (size_t i = 1; i < order.size(); ++i)
      if (pass.rows[order[i]].slot == pass.rows[order[i - 1]].slot)
        return unsupported("training {}: expected a slot for each row, got {} for two", info.name, pass.rows[order[i]].slot);
    if (std::is_sorted(order.begin(), order.end())) return run(pass, out);
    std::vector<Row> rows;
    rows.reserve(order.size());
    for (const size_t i : order) rows.push_back(pass.rows[i]);
    Pass sorted = pass;
    sorted.rows = rows;
    SLIP_TRY_(run(sorted, out));
    back_in_order(order, out.argmax);
    back_in_order(order, out.logits_row);
    back_in_order(order, out.statistics);
    return {};
  }

  Status run(const Pass& pass, PassOutput& out) {
    const bool adapter = pass.draft_adapter;
    std::vector<int32_t> slot_of, wanted_rows;
    std::vector<Position> positions;
    Kept kept;
    for (size_t i = 0; i < pass.rows.size(); ++i) {
      const Row& r = pass.rows[i];
      slot_of.push_back(r.slot);
      positions.push_back(r.position);
      if (r.want == Want::kNothing) continue;
      wanted_rows.push_back(static_cast<int32_t>(i));
      kept.t.push_back(r.position.t);
    }
    if (slot_of.empty()) {
      answer(pass, {}, out);
      return {};
    }
    int64_t top = 0;
    for (const SlotSpan& s : pass.spans) top = std::max<int64_t>(top, s.end);
    top = std::max<int64_t>(top, slot_of.back() + 1);
    if (adapter) with = {};  // the old graph goes before its plans do
    AttentionPlan all, last;
    AttentionPlan &use_all = adapter ? with_all : all, &use_last = adapter ? with_last : last;
    lay_out(pass, false, use_all);
    lay_out(pass, true, use_last);
    use_all.rows = use_last.rows = static_cast<int32_t>(top);
    const Tensor slots = index_tensor(slot_of), wanted = index_tensor(wanted_rows);
    const at::AutoGradMode gradients_on(adapter);
    {
      const at::NoGradGuard no_grad;
      rotary.index_copy_(0, slots, base.text_rotary_of(positions));
    }
    const Tensor x = hidden(pass, slots, top, wanted, use_all, use_last);
    if (x.defined()) kept.logits = at::mm(x, base.leaf(base.table.head).t());
    (adapter ? with : without) = std::move(kept);
    answer(pass, adapter ? with : without, out);
    return {};
  }

  void answer(const Pass& pass, const Kept& kept, PassOutput& out) const {
    out.vocab = info.vocab;
    out.argmax.assign(pass.rows.size(), TokenId{0});
    out.logits_row.assign(pass.rows.size(), -1);
    out.logits_NV.clear();
    out.taps_NE.clear();
    if (!kept.logits.defined()) return;
    const Tensor z = kept.logits.detach().to(at::kFloat).contiguous();
    const auto V = static_cast<size_t>(info.vocab);
    const float* line = on_torch::data<float>(z);
    for (size_t i = 0; i < pass.rows.size(); ++i) {
      if (pass.rows[i].want == Want::kNothing) continue;
      int32_t best = -1;
      for (int32_t v = 0; v < info.vocab; ++v)
        if (!std::isnan(line[v]) && (best < 0 || line[v] > line[best])) best = v;
      out.argmax[i] = {std::max(best, 0)};
      out.nan_rows += best < 0 || !std::isfinite(line[best]);
      if (pass.rows[i].allowed || pass.rows[i].statistics) answer_row(pass, i, {line, V}, out);
      if (brings_logits(pass.rows[i].want)) {
        out.logits_row[i] = static_cast<int32_t>(out.logits_NV.size() / V);
        out.logits_NV.insert(out.logits_NV.end(), line, line + V);
      }
      line += V;
    }
  }
};

LoraLm::LoraLm(const TrainModel& base, const LoraRule& rule, DraftRule draft) {
  LmInfo info;
  info.name = "adapter";
  info.vocab = base.shape().vocab;
  info.hidden_size = base.shape().hidden;
  info.rule = draft;
  info.has_draft_adapter = true;
  LoraTable table = LoraTable::of(base.shape(), rule.rank);
  const Tensor values = at::zeros({table.table.size}, at::TensorOptions(base.impl().wide));
  impl_ = std::make_unique<Impl>(base.impl(), std::move(table), rule.scale(), std::move(info), values);
}
LoraLm::LoraLm(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
LoraLm::~LoraLm() = default;

std::unique_ptr<LoraLm> LoraLm::beside(const LoraLm& o) {
  const Impl& i = *o.impl_;
  return std::unique_ptr<LoraLm>(new LoraLm(std::make_unique<Impl>(i.base, i.table, i.scale, i.info, i.values)));
}

const LmInfo& LoraLm::info() const { return impl_->info; }
const LoraTable& LoraLm::table() const { return impl_->table; }

template <class T>
std::span<T> LoraLm::values() {
  SLIP_CHECK(impl_->values.element_size() == sizeof(T), "double for kF64, else float");
  return {on_torch::data<T>(impl_->values), static_cast<size_t>(impl_->table.table.size)};
}
template <class T>
std::span<T> LoraLm::gradients() {
  SLIP_CHECK(impl_->values.element_size() == sizeof(T), "double for kF64, else float");
  return {on_torch::data<T>(impl_->gradients), static_cast<size_t>(impl_->table.table.size)};
}
void LoraLm::reserve(int32_t slots) { impl_->reserve(slots); }
void LoraLm::clear_gradients() { impl_->gradients.zero_(); }

Status LoraLm::forward(const Pass& pass, PassOutput& out) { return impl_->forward(pass, out); }

std::vector<float> LoraLm::features(const RowBatch& images) {
  const at::NoGradGuard no_grad;
  const Tensor f = impl_->base.vision_tower(images).to(at::kFloat).contiguous();
  return {on_torch::data<float>(f), on_torch::data<float>(f) + f.numel()};
}

template <class T>
std::span<const T> LoraLm::logits(bool adapter, int32_t t) const {
  const Impl::Kept& kept = adapter ? impl_->with : impl_->without;
  const ptrdiff_t line = kept.line(t);
  if (line < 0) return {};
  SLIP_CHECK(kept.logits.element_size() == sizeof(T), "double for kF64, else float");
  const auto V = static_cast<size_t>(impl_->info.vocab);
  return {on_torch::data<T>(kept.logits) + static_cast<size_t>(line) * V, V};
}

template <class T>
std::span<T> LoraLm::logits_gradient(int32_t t) {
  Impl::Kept& kept = impl_->with;
  const ptrdiff_t line = kept.line(t);
  SLIP_CHECK(line >= 0 && kept.logits.element_size() == sizeof(T), "a row of the last adapter pass that wanted something");
  if (!kept.d_logits.defined()) kept.d_logits = at::zeros_like(kept.logits.detach());
  const auto V = static_cast<size_t>(impl_->info.vocab);
  return {on_torch::data<T>(kept.d_logits) + static_cast<size_t>(line) * V, V};
}

void LoraLm::backward() {
  Impl::Kept& kept = impl_->with;
  if (kept.d_logits.defined()) torch::autograd::backward({kept.logits}, {kept.d_logits});
  kept = {};
}

template std::span<float> LoraLm::values<float>();
template std::span<double> LoraLm::values<double>();
template std::span<float> LoraLm::gradients<float>();
template std::span<double> LoraLm::gradients<double>();
template std::span<const float> LoraLm::logits<float>(bool, int32_t) const;
template std::span<const double> LoraLm::logits<double>(bool, int32_t) const;
template std::span<float> LoraLm::logits_gradient<float>(int32_t);
template std::span<double> LoraLm::logits_gradient<double>(int32_t);

}  // namespace slip
