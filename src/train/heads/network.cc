// SPDX-License-Identifier: Apache-2.0
// What the networks do without torch: tables, masks, slots, inputs; contracts in the headers.
#include "train/heads/network.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "base/check.h"
#include "train/heads/commit_network.h"
#include "train/heads/dflash_network.h"
#include "train/heads/flow_network.h"
#include "train/heads/pilot_network.h"

namespace slip {

void TableBuilder::add(std::string name, std::vector<int64_t> shape, InitKind init, double scale) {
  table_.size = (table_.size + 15) / 16 * 16;
  int64_t count = 1;
  for (const int64_t n : shape) count *= n;
  table_.parameters.push_back({std::move(name), std::move(shape), table_.size, count, init, scale});
  table_.size += count;
}

void TableBuilder::linear(const std::string& name, int64_t out, int64_t in, bool bias, double scale) {
  add(name + ".weight", {out, in}, InitKind::kNormal, scale);
  if (bias) add(name + ".bias", {out}, InitKind::kZero);
}

ParameterTable TableBuilder::table() && {
  table_.size = (table_.size + 15) / 16 * 16;
  return std::move(table_);
}

void add_qwen3(TableBuilder& b, const Qwen3Shape& s, const std::string& prefix) {
  const int64_t D = s.hidden, q = int64_t{s.heads} * s.head_dim, kv = int64_t{s.kv_heads} * s.head_dim, F = s.ffn;
  const double residual = 1 / std::sqrt(2.0 * s.layers);
  for (int32_t i = 0; i < s.layers; ++i) {
    const std::string p = prefix + "layers." + std::to_string(i) + ".", a = p + "self_attn.", m = p + "mlp.";
    b.add(p + "input_layernorm.weight", {D}, InitKind::kOne);
    b.linear(a + "q_proj", q, D, false);
    b.linear(a + "k_proj", kv, D, false);
    b.linear(a + "v_proj", kv, D, false);
    b.add(a + "q_norm.weight", {s.head_dim}, InitKind::kOne);
    b.add(a + "k_norm.weight", {s.head_dim}, InitKind::kOne);
    b.linear(a + "o_proj", D, q, false, residual);
    b.add(p + "post_attention_layernorm.weight", {D}, InitKind::kOne);
    b.linear(m + "gate_proj", F, D, false);
    b.linear(m + "up_proj", F, D, false);
    b.linear(m + "down_proj", D, F, false, residual);
  }
  b.add(prefix + "norm.weight", {D}, InitKind::kOne);
}

std::vector<DFlashSlot> dflash_slots(const DFlashSequence& s, const DFlashShape& shape) {
  const auto n = static_cast<int32_t>(s.tokens.size());
  std::vector<DFlashSlot> out;
  for (size_t b = 0; b < s.anchors.size(); ++b) {
    int32_t order = 0;  // of the block's masks
    for (int32_t k = 1; k < shape.block; ++k) {
      const int32_t token = s.anchors[b] + k;
      if (s.given(token)) continue;
      ++order;
      if (token >= n || !s.loss_mask[static_cast<size_t>(token)]) continue;
      int32_t label = s.tokens[static_cast<size_t>(token)];
      if (!shape.draft_vocab.empty()) {
        const auto at = std::lower_bound(shape.draft_vocab.begin(), shape.draft_vocab.end(), label);
        if (at == shape.draft_vocab.end() || *at != label) continue;
        label = static_cast<int32_t>(at - shape.draft_vocab.begin());
      }
      const double weight = shape.gamma > 0 ? std::exp(-(order - 1) / shape.gamma) : 1;
      out.push_back({static_cast<int32_t>(b) * shape.block + k, token, label, weight});
    }
  }
  return out;
}

std::vector<uint8_t> dflash_mask(const DFlashSequence& s, int32_t block) {
  const size_t n = s.tokens.size(), B = static_cast<size_t>(block), R = s.anchors.size() * B;
  std::vector<uint8_t> mask(R * (n + R), 0);
  for (size_t r = 0; r < R; ++r) {
    uint8_t* row = mask.data() + r * (n + R);
    const auto anchor = static_cast<size_t>(s.anchors[r / B]);
    for (size_t c = 0; c < anchor; ++c) row[c] = s.context[c];
    std::fill_n(row + n + r / B * B, B, uint8_t{1});
  }
  return mask;
}

std::vector<int32_t> draw_anchors(const std::vector<uint8_t>& loss_mask, int32_t block, int32_t most, PhiloxStream& stream) {
  std::vector<int32_t> all;
  const auto last = static_cast<int32_t>(loss_mask.size()) - block;
  for (int32_t i = 0; i <= last; ++i)
    if (loss_mask[static_cast<size_t>(i)]) all.push_back(i);
  const size_t take = std::min(all.size(), static_cast<size_t>(most));
  for (size_t i = 0; i < take; ++i) std::swap(all[i], all[i + stream.below(static_cast<uint32_t>(all.size() - i))]);
  all.resize(take);
  std::sort(all.begin(), all.end());
  return all;
}

std::vector<double> flow_frequencies(const FlowShape& s) {
  const int32_t n = s.features / 2;
  std::vector<double> out;
  for (int32_t i = 0; i < n; ++i) out.push_back(n == 1 ? 1 : std::pow(s.max_frequency, static_cast<double>(i) / (n - 1)));
  return out;
}

double auc_of(std::span<const double> score, std::span<const uint8_t> label) {
  std::vector<size_t> order(score.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::sort(order.begin(), order.end(), [&](size_t a, size_t b) { return score[a] < score[b]; });
  double pairs = 0, zeros = 0, ones = 0;
  for (size_t i = 0; i < order.size();) {
    double zero = 0, one = 0;
    const double at = score[order[i]];
    for (; i < order.size() && score[order[i]] == at; ++i) (label[order[i]] ? one : zero) += 1;
    pairs += one * (zeros + zero / 2);
    zeros += zero;
    ones += one;
  }
  return zeros * ones > 0 ? pairs / (zeros * ones) : 0.5;
}

std::vector<float> pilot_input(std::span<const float> z, PilotInput input) {
  std::vector<float> out(z.begin(), z.end());
  if (input == PilotInput::kRaw) return out;
  double mean = 0, squares = 0, sum = 0;
  const double most = static_cast<double>(*std::max_element(z.begin(), z.end())), n = static_cast<double>(z.size());
  for (const float x : z) mean += static_cast<double>(x) / n;
  for (const float x : z) squares += (static_cast<double>(x) - mean) * (static_cast<double>(x) - mean) / n;
  for (const float x : z) sum += std::exp(static_cast<double>(x) - most);
  for (size_t i = 0; i < out.size(); ++i) {
    const auto x = static_cast<double>(z[i]);
    out[i] = static_cast<float>(input == PilotInput::kSoftmax ? std::exp(x - most) / sum : (x - mean) / std::sqrt(squares + 1e-5));
  }
  return out;
}

int32_t pilot_label(std::span<const double> rate) {
  return static_cast<int32_t>(std::max_element(rate.begin(), rate.end()) - rate.begin());
}

}  // namespace slip
