// SPDX-License-Identifier: Apache-2.0
// For the release gates: a small transformer with random weights, whose arena can be read and written slot by slot.
#pragma once
#include <algorithm>
#include <array>
#include <cstring>
#include <memory>

#include "nn/decoder.h"
#include "tests/decode/gates.h"

namespace slip::test {

inline constexpr int32_t kSlots = 512;

inline ThreadPool& pool() {
  static ThreadPool one(1);
  return one;
}

/// Random weights; logits wide enough that answers vary.
inline std::unique_ptr<DecoderLm> tiny_transformer(uint64_t seed, ThreadPool& threads = pool()) {
  PhiloxStream r(seed, 31);
  DecoderOptions o{
      .name = "tiny", .vocab = kTrialVocab, .width = 16, .layers = 2, .heads = 2, .kv_heads = 1, .head_width = 8, .mlp_width = 24};
  o.tied_head = true;
  o.rope.width = 8;
  o.rule = {.shift = r.chance(0.5), .has_mask = true, .has_null = true, .mask = TokenId{1}, .null_token = TokenId{2}};
  const auto matrix = [&](int64_t n, int64_t k, double scale) {
    std::vector<float> w(static_cast<size_t>(n * k));
    for (float& x : w) x = static_cast<float>(r.uniform(-scale, scale));
    return pack_matrix(WeightType::kF32, n, k, w.data(), pool());
  };
  DecoderWeights w;
  w.embedding = std::make_shared<PackedMatrix>(matrix(o.vocab, o.width, 1.2));
  for (int32_t l = 0; l < o.layers; ++l) {
    LayerWeights x;
    x.attention_norm_D.assign(16, 1);
    x.mlp_norm_D.assign(16, 1);
    x.qkv = matrix((2 + 1 + 1) * 8, 16, 0.7);
    x.o = matrix(16, 16, 0.7);
    x.gate_up = matrix(48, 16, 0.5);
    x.down = matrix(16, 24, 0.5);
    w.layers.push_back(std::move(x));
    w.adapter.layers.push_back({matrix(2, 16, 0.7), matrix(16, 2, 0.7)});
  }
  w.adapter.rank = 2;
  w.final_norm_D.assign(16, 1);
  auto lm = DecoderLm::create(std::move(o), std::move(w), kSlots, threads);
  if (!lm) throw std::runtime_error(lm.error().message);
  return std::move(*lm);
}

/// Keys and values of a slot, all layers.
using Line = std::array<float, 2 * 2 * 8>;
inline Line line_of(const DecoderLm& lm, int32_t slot) {
  Line line;
  for (int32_t l = 0; l < 2; ++l) {
    std::memcpy(&line[static_cast<size_t>(16 * l)], static_cast<float*>(lm.arena().keys(l)) + 8 * slot, 32);
    std::memcpy(&line[static_cast<size_t>(16 * l + 8)], static_cast<float*>(lm.arena().values(l)) + 8 * slot, 32);
  }
  return line;
}
inline void set_line(const DecoderLm& lm, int32_t slot, const Line& line) {
  for (int32_t l = 0; l < 2; ++l) {
    std::memcpy(static_cast<float*>(lm.arena().keys(l)) + 8 * slot, &line[static_cast<size_t>(16 * l)], 32);
    std::memcpy(static_cast<float*>(lm.arena().values(l)) + 8 * slot, &line[static_cast<size_t>(16 * l + 8)], 32);
  }
}
inline bool equal(const Line& a, const Line& b) { return std::memcmp(a.data(), b.data(), sizeof a) == 0; }

inline bool writes(const Pass& pass, int32_t slot) {
  return std::any_of(pass.rows.begin(), pass.rows.end(), [&](const Row& r) { return r.slot == slot; });
}

template <class F>
void for_each_seen(const Pass& pass, F&& visit) {
  for (const Row& r : pass.rows)
    for (uint32_t k = 0; k < r.sees_count; ++k)
      for (int32_t slot = pass.spans[r.sees_first + k].begin; slot < pass.spans[r.sees_first + k].end; ++slot) visit(slot);
}

/// Draft heads and second models see no arena of ours; what they do to rounds, looked-up and earlier answers do too.
inline std::vector<Way> watched_ways() {
  std::vector<Way> ways;
  for (const Way& w : all_ways())
    if (w.drafts != Drafts::kModel && w.drafts != Drafts::kHead) ways.push_back(w);
  return ways;
}

}  // namespace slip::test
