// SPDX-License-Identifier: Apache-2.0
// Tests: Tower.*
#include "limits/tower.h"

namespace slip {
namespace {

constexpr std::string_view kAttention = "attention";

double d(int64_t n) { return static_cast<double>(n); }

}  // namespace

Result<PassTime> tower_pass(const TowerShape& s, const Machine& machine, std::span<const TowerGrid> pictures, std::string_view type,
                            double activation_bytes) {
  SLIP_TRY(const double weight, bytes_of(type));
  const double act = activation_bytes > 0 ? activation_bytes : weight, D = d(s.width), F = d(s.mlp_width);
  double patches = 0, rows = 0, pairs_full = 0;
  for (const TowerGrid& g : pictures) {
    const double frame = d(g.rows * g.columns + s.prefix_rows);
    patches += d(g.patches());
    rows += frame * d(g.frames);
    pairs_full += frame * frame * d(g.frames);
  }
  PassTime out;
  const auto add = [&](std::string_view name, int64_t repeat, double flops, double bytes, double flops_per_ms) {
    out.add(s.name + std::string(name), repeat, flops, bytes, machine, flops_per_ms);
  };
  // `from` numbers of `n` rows become `to`, by one matrix.
  const auto product = [&](std::string_view name, int64_t repeat, double n, double from, double to) {
    add(name, repeat, 2 * n * from * to, weight * from * to + act * n * (from + to), machine.product_flops_per_ms(type, n));
  };
  const auto attend = [&](std::string_view name, int64_t blocks, double pairs) {
    if (blocks > 0) add(name, blocks, 4 * D * pairs, act * 4 * rows * D, machine.attention_flops_per_ms(type, rows));
  };
  product("patch_embed", 1, patches, d(s.patch_numbers), D);
  product("qkv", s.depth, rows, D, 3 * D);
  attend("attention", s.full_blocks, pairs_full);
  attend("attention in windows", s.depth - s.full_blocks, rows * d(s.window_patches));
  product("proj", s.depth, rows, D, D);
  product(s.gated ? "gate_up" : "up", s.depth, rows, D, s.gated ? 2 * F : F);
  product("down", s.depth, rows, F, D);
  const double features = patches / d(s.merge * s.merge);
  for (size_t i = 0; i + 1 < s.projector.size(); ++i)
    product(fmt::format("projector {}", i), 1, features, d(s.projector[i]), d(s.projector[i + 1]));
  return out;
}

TowerWork tower_work(const PassTime& pass) {
  TowerWork w;
  for (const Operation& o : pass.operations)
    (o.name.find(kAttention) != std::string::npos ? w.attention : w.products) += o.flops * d(o.repeat);
  return w;
}

}  // namespace slip
