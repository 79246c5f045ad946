// SPDX-License-Identifier: Apache-2.0
// The networks on torch; formulas in their headers.
#include "train/heads/network_torch.h"

#include <c10/core/GradMode.h>

#include "train/heads/commit_network.h"
#include "train/heads/dflash_network.h"
#include "train/heads/flow_network.h"
#include "train/heads/pilot_network.h"

namespace slip {
namespace {

std::vector<double> doubles(const Tensor& t) {
  const Tensor flat = t.detach().to(at::kDouble).contiguous();
  return {static_cast<double*>(flat.data_ptr()), static_cast<double*>(flat.data_ptr()) + flat.numel()};
}

/// The value of a loss; its gradient times `scale`, unless that is zero.
double taught(const Tensor& loss, double scale) {
  if (scale > 0) torch::autograd::backward({loss * scale}, {});
  return loss.detach().to(at::kDouble).item<double>();
}

/// 0 where seen, -inf where not.
Tensor added_mask(std::span<const uint8_t> seen, int64_t rows, at::ScalarType type) {
  const int64_t columns = static_cast<int64_t>(seen.size()) / rows;
  const Tensor open = at::from_blob(const_cast<uint8_t*>(seen.data()), {rows, columns}, at::kByte).to(at::kBool);
  return at::zeros({rows, columns}, at::TensorOptions(type)).masked_fill(open.logical_not(), -HUGE_VAL);
}

}  // namespace

// ---- all of them

HeadNetwork::HeadNetwork(ParameterTable table, Precision precision) : impl_(std::make_unique<Impl>(std::move(table), precision)) {}
HeadNetwork::~HeadNetwork() = default;
const ParameterTable& HeadNetwork::table() const { return impl_->table; }

template <class T>
std::span<T> HeadNetwork::values() {
  SLIP_CHECK(impl_->values.element_size() == sizeof(T), "double for kF64, else float");
  return {static_cast<T*>(impl_->values.data_ptr()), static_cast<size_t>(impl_->table.size)};
}
template <class T>
std::span<T> HeadNetwork::gradients() {
  SLIP_CHECK(impl_->values.element_size() == sizeof(T), "double for kF64, else float");
  return {static_cast<T*>(impl_->gradients.data_ptr()), static_cast<size_t>(impl_->table.size)};
}
template std::span<float> HeadNetwork::values<float>();
template std::span<double> HeadNetwork::values<double>();
template std::span<float> HeadNetwork::gradients<float>();
template std::span<double> HeadNetwork::gradients<double>();
void HeadNetwork::clear_gradients() { impl_->gradients.zero_(); }

// ---- DFlash

namespace {

ParameterTable dflash_table(const DFlashShape& s) {
  TableBuilder b;
  b.linear("fc", s.layers.hidden, int64_t{s.taps} * s.layers.hidden, false);
  b.add("hidden_norm.weight", {s.layers.hidden}, InitKind::kOne);
  add_qwen3(b, s.layers, "");
  return std::move(b).table();
}

}  // namespace

struct DFlashNetwork::Frozen {
  Tensor embedding, head;
  /// Logits of all rows of a sequence's packed blocks.
  Tensor forward(const HeadNetwork::Impl& w, const DFlashShape& shape, const DFlashSequence& s) const {
    const Qwen3Shape& l = shape.layers;
    const auto n = static_cast<int64_t>(s.tokens.size()), R = static_cast<int64_t>(s.anchors.size()) * shape.block;
    const Tensor taps = w.constant<float>(s.taps, {n, int64_t{shape.taps} * l.hidden});
    const Tensor context = w.rms_norm(w.linear(taps, "fc"), "hidden_norm.weight", l.eps);
    std::vector<int32_t> tokens, positions;
    for (const int32_t a : s.anchors)
      for (int32_t k = 0; k < shape.block; ++k) {
        tokens.push_back(k == 0 || s.given(a + k) ? s.tokens[static_cast<size_t>(a + k)] : shape.mask_token);
        positions.push_back(s.positions[static_cast<size_t>(a)] + k);
      }
    const Tensor at_context = rotary_of(s.positions, l.head_dim, l.rope_theta, w.type);
    const Tensor at_rows = rotary_of(positions, l.head_dim, l.rope_theta, w.type);
    const Tensor mask = added_mask(dflash_mask(s, shape.block), R, w.type);
    Tensor x = embedding.index_select(0, indices(tokens));
    for (int32_t i = 0; i < l.layers; ++i) {
      const std::string p = "layers." + std::to_string(i) + ".", a = p + "self_attn.";
      const Tensor k = w.rms_norm(w.linear(context, a + "k_proj").view({n, l.kv_heads, l.head_dim}), a + "k_norm.weight", l.eps);
      const Tensor v = w.linear(context, a + "v_proj").view({n, l.kv_heads, l.head_dim});
      x = qwen3_layer(w, l, p, x, at_rows, rotated(k, at_context), v, mask);
    }
    return at::mm(w.rms_norm(x, "norm.weight", l.eps), head.t());
  }
};

DFlashNetwork::DFlashNetwork(DFlashShape shape, const Constant& embedding, const Constant& head, Precision precision)
    : HeadNetwork(dflash_table(shape), precision), shape_(std::move(shape)), frozen_(std::make_unique<Frozen>()) {
  frozen_->embedding = impl_->constant(embedding).clone();
  frozen_->head = impl_->constant(head).clone();
  if (!shape_.draft_vocab.empty()) frozen_->head = frozen_->head.index_select(0, indices(shape_.draft_vocab));
}
DFlashNetwork::~DFlashNetwork() = default;

double DFlashNetwork::loss(const DFlashSequence& s, std::span<const DFlashSlot> slots, double scale) {
  if (slots.empty()) return 0;
  const at::AutoGradMode gradients(scale > 0);
  std::vector<int32_t> rows, labels;
  std::vector<double> weights;
  for (const DFlashSlot& slot : slots) {
    rows.push_back(slot.row);
    labels.push_back(slot.label);
    weights.push_back(slot.weight);
  }
  const Tensor z = frozen_->forward(*impl_, shape_, s).index_select(0, indices(rows));
  const Tensor ce = -at::log_softmax(z, -1).gather(1, indices(labels).unsqueeze(1)).squeeze(1);
  return taught(at::sum(ce * impl_->constant<double>(weights, {static_cast<int64_t>(weights.size())})), scale);
}

std::vector<double> DFlashNetwork::logits(const DFlashSequence& s) {
  const at::NoGradGuard no_grad;
  return doubles(frozen_->forward(*impl_, shape_, s));
}

// ---- flow

namespace {

ParameterTable flow_table(const FlowShape& s) {
  TableBuilder b;
  const std::string trunk = "action_in_proj.encoder.trunk.";
  b.linear(trunk + "0", s.encoder, int64_t{s.action + 1} * s.features, true, 4);
  b.add(trunk + "2.weight", {s.encoder}, InitKind::kOne);
  b.linear(trunk + "3", s.encoder, s.encoder, true, 4);
  b.add(trunk + "5.weight", {s.encoder}, InitKind::kOne);
  b.linear(trunk + "6", s.layers.hidden, s.encoder, true, 4);
  b.add("action_in_proj.norm.weight", {s.layers.hidden}, InitKind::kOne);
  b.add("action_in_proj.norm.bias", {s.layers.hidden}, InitKind::kZero);
  add_qwen3(b, s.layers, "expert.");
  b.linear("action_out_proj", s.action, s.layers.hidden, true);
  return std::move(b).table();
}

/// sqrt(2) [sin(2 pi f y).., cos(2 pi f y)..] of each number, joined.
Tensor fourier(const Tensor& y, const Tensor& frequencies) {
  const Tensor angle = y.unsqueeze(-1) * frequencies * (2 * M_PI);
  return (at::cat({at::sin(angle), at::cos(angle)}, -1) * std::sqrt(2.0)).reshape({y.size(0), -1});
}

Tensor flow_velocity(const HeadNetwork::Impl& w, const FlowShape& s, const FlowPrefix& prefix, const Tensor& x, double t) {
  const Qwen3Shape& l = s.layers;
  constexpr double kEps = 1e-5;  // of the encoder's norms, in the public layout
  const std::string trunk = "action_in_proj.encoder.trunk.";
  const std::vector<double> f = flow_frequencies(s);
  const Tensor frequencies = w.constant<double>(f, {static_cast<int64_t>(f.size())}).clone();
  const Tensor time = at::full({s.rows, 1}, t, at::TensorOptions(w.type));
  Tensor h = fourier(at::cat({x, time}, 1), frequencies);
  h = w.rms_norm(at::silu(w.linear(h, trunk + "0")), trunk + "2.weight", kEps);
  h = w.rms_norm(at::silu(w.linear(h, trunk + "3")), trunk + "5.weight", kEps);
  h = w.layer_norm(w.linear(h, trunk + "6"), "action_in_proj.norm", kEps);
  std::vector<int32_t> positions;
  for (int32_t i = 0; i < s.rows; ++i) positions.push_back(prefix.position + i);
  const Tensor rotary = rotary_of(positions, l.head_dim, l.rope_theta, w.type);
  const std::vector<int64_t> shape{l.layers, prefix.rows, l.kv_heads, l.head_dim};
  const Tensor keys = w.constant<float>(prefix.keys, shape), values = w.constant<float>(prefix.values, shape);
  for (int32_t i = 0; i < l.layers; ++i)
    h = qwen3_layer(w, l, "expert.layers." + std::to_string(i) + ".", h, rotary, keys[i], values[i], {});
  return w.linear(w.rms_norm(h, "expert.norm.weight", l.eps), "action_out_proj");
}

}  // namespace

FlowNetwork::FlowNetwork(const FlowShape& shape, Precision precision) : HeadNetwork(flow_table(shape), precision), shape_(shape) {}

double FlowNetwork::loss(const FlowSample& s, double scale) {
  const at::AutoGradMode gradients(scale > 0);
  const std::vector<int64_t> shape{shape_.rows, shape_.action};
  const Tensor x = impl_->constant<float>(s.action, shape), e = impl_->constant<float>(s.noise, shape);
  const Tensor v = flow_velocity(*impl_, shape_, s.prefix, x * s.t + e * (1 - s.t), s.t);
  return taught(at::mean(at::pow(v - (x - e), 2)), scale);
}

std::vector<double> FlowNetwork::velocity(const FlowPrefix& prefix, std::span<const double> x, double t) {
  const at::NoGradGuard no_grad;
  return doubles(flow_velocity(*impl_, shape_, prefix, impl_->constant<double>(x, {shape_.rows, shape_.action}), t));
}

std::vector<double> FlowNetwork::sample(const FlowPrefix& prefix, std::span<const float> start) {
  const at::NoGradGuard no_grad;
  Tensor x = impl_->constant<float>(start, {shape_.rows, shape_.action});
  std::vector<double> out;
  for (int32_t k = 0; k < shape_.steps; ++k) {
    x = x + flow_velocity(*impl_, shape_, prefix, x, static_cast<double>(k) / shape_.steps) / shape_.steps;
    const std::vector<double> end = doubles(x);
    out.insert(out.end(), end.begin(), end.end());
  }
  return out;
}

// ---- commit sampler

namespace {

ParameterTable commit_table(const CommitShape& s) {
  TableBuilder b;
  const double residual = 1 / std::sqrt(2.0 * s.layers);
  const auto norm = [&](const std::string& name) {
    b.add(name + ".weight", {s.hidden}, InitKind::kOne);
    b.add(name + ".bias", {s.hidden}, InitKind::kZero);
  };
  b.linear("input", s.hidden, s.inputs, true);
  b.add("positions.weight", {s.max_block, s.hidden});
  for (int32_t i = 0; i < s.layers; ++i) {
    const std::string p = "layers." + std::to_string(i) + ".";
    norm(p + "norm1");
    for (const char* name : {"q_proj", "k_proj", "v_proj"}) b.linear(p + name, s.hidden, s.hidden, true);
    b.linear(p + "o_proj", s.hidden, s.hidden, true, residual);
    norm(p + "norm2");
    b.linear(p + "ffn_up", s.ffn, s.hidden, true);
    b.linear(p + "ffn_down", s.hidden, s.ffn, true, residual);
  }
  norm("norm");
  b.linear("head", 1, s.hidden, true);
  return std::move(b).table();
}

}  // namespace

CommitNetwork::CommitNetwork(const CommitShape& shape, Precision precision)
    : HeadNetwork(commit_table(shape), precision), shape_(shape) {}

double CommitNetwork::loss(std::span<const CommitBlock> blocks, double scale, std::vector<double>* out) {
  const at::AutoGradMode gradients(scale > 0);
  const auto& w = *impl_;
  std::vector<float> inputs;
  std::vector<int32_t> place, block_of;
  std::vector<double> label, counts;
  for (size_t b = 0; b < blocks.size(); ++b) {
    inputs.insert(inputs.end(), blocks[b].inputs.begin(), blocks[b].inputs.end());
    for (size_t j = 0; j < blocks[b].masked.size(); ++j) {
      place.push_back(static_cast<int32_t>(j));
      block_of.push_back(static_cast<int32_t>(b));
      label.push_back(blocks[b].label[j]);
      counts.push_back(blocks[b].masked[j] != 0 ? 1 : 0);
    }
  }
  const auto R = static_cast<int64_t>(place.size());
  const int64_t D = shape_.hidden, H = shape_.heads;
  const Tensor of = indices(block_of);
  const Tensor mask = at::zeros({R, R}, at::TensorOptions(w.type)).masked_fill(of.unsqueeze(0).ne(of.unsqueeze(1)), -HUGE_VAL);
  Tensor x =
      w.linear(w.constant<float>(inputs, {R, shape_.inputs}), "input") + w("positions.weight").index_select(0, indices(place));
  for (int32_t i = 0; i < shape_.layers; ++i) {
    const std::string p = "layers." + std::to_string(i) + ".";
    const Tensor y = w.layer_norm(x, p + "norm1", shape_.eps);
    const auto heads = [&](const char* name) { return w.linear(y, p + name).view({R, H, D / H}); };
    x = x + w.linear(attend(heads("q_proj"), heads("k_proj"), heads("v_proj"), mask), p + "o_proj");
    x = x + w.linear(at::gelu(w.linear(w.layer_norm(x, p + "norm2", shape_.eps), p + "ffn_up")), p + "ffn_down");
  }
  const Tensor z = w.linear(w.layer_norm(x, "norm", shape_.eps), "head").squeeze(1);
  if (out != nullptr) *out = doubles(z);
  const Tensor bce = at::softplus(z) - z * w.constant<double>(label, {R});  // -y ln s(z) - (1 - y) ln(1 - s(z))
  return taught(at::sum(bce * w.constant<double>(counts, {R})), scale);
}

// ---- BlockPilot

namespace {

ParameterTable pilot_table(const PilotShape& s) {
  TableBuilder b;
  for (int32_t i = 0; i < s.depth; ++i) b.linear("layers." + std::to_string(i), s.width, i == 0 ? s.vocab : s.width, true);
  b.linear("fc_out", s.classes, s.width, true);
  return std::move(b).table();
}

}  // namespace

PilotNetwork::PilotNetwork(const PilotShape& shape, Precision precision)
    : HeadNetwork(pilot_table(shape), precision), shape_(shape) {}

double PilotNetwork::loss(std::span<const float> inputs, std::span<const int32_t> labels, std::span<const uint8_t> keep,
                          double scale, std::vector<double>* out) {
  const at::AutoGradMode gradients(scale > 0);
  const auto& w = *impl_;
  const auto R = static_cast<int64_t>(labels.size());
  Tensor h = w.constant<float>(inputs, {R, shape_.vocab});
  for (int32_t i = 0; i < shape_.depth; ++i) {
    const Tensor y = at::relu(w.linear(h, "layers." + std::to_string(i)));
    h = i == 0 ? y : y + h;
    if (i == 0 && !keep.empty()) h = h * w.constant<uint8_t>(keep, {R, shape_.width}) / (1 - shape_.dropout);
  }
  const Tensor z = w.linear(h, "fc_out");
  if (out != nullptr) *out = doubles(z);
  return taught(at::mean(-at::log_softmax(z, -1).gather(1, indices(labels).unsqueeze(1))), scale);
}

}  // namespace slip
