// SPDX-License-Identifier: Apache-2.0
// Qwen2.5-VL's vision tower; formulas in qwen_vision.h.
#include "models/qwen_vision.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "kernels/rope.h"

namespace slip {
namespace {

constexpr float kEps = 1e-6F;  // literal in the reference: not the text decoder's rms_norm_eps
// As in the decoder: a slice of rows bounds the MLP's memory (12,696 patches at F = 3,420 would need 350 MB).
constexpr int64_t kMlpRows = 1024;

void copy_floats(float* to, const float* from, int64_t n) { std::memcpy(to, from, static_cast<size_t>(n) * sizeof(float)); }
size_t count(int64_t a, int64_t b) { return static_cast<size_t>(a) * static_cast<size_t>(b); }
// PatchGrid::patches() is an int: a hostile grid may exceed it.
int64_t patches_in(const PatchGrid& g) { return int64_t{g.t} * g.h * g.w; }
const float* or_null(const std::vector<float>& v) { return v.empty() ? nullptr : v.data(); }

}  // namespace

VisionWeights read_vision_weights(WeightReader& reader, const VisionConfig& c, const std::string& prefix, WeightType type) {
  using Parts = std::vector<WeightReader::Part>;
  const int64_t d = c.width, f = c.mlp_width, cell = d * c.merge * c.merge;
  VisionWeights w;
  w.patch_embed =
      reader.matrix(type, Parts{{prefix + "patch_embed.proj.weight", {d, c.channels, c.temporal_patch, c.patch, c.patch}}});
  for (int32_t i = 0; i < c.depth; ++i) {
    const std::string p = prefix + "blocks." + std::to_string(i) + ".";
    VisionBlockWeights b;
    b.norm1_D = reader.vector(Parts{{p + "norm1.weight", {d}}});
    b.norm2_D = reader.vector(Parts{{p + "norm2.weight", {d}}});
    b.qkv = reader.matrix(type, Parts{{p + "attn.qkv.weight", {3 * d, d}}});
    b.qkv_bias = reader.vector(Parts{{p + "attn.qkv.bias", {3 * d}}});
    b.proj = reader.matrix(type, Parts{{p + "attn.proj.weight", {d, d}}});
    b.proj_bias = reader.vector(Parts{{p + "attn.proj.bias", {d}}});
    b.gate_up = reader.matrix(type, Parts{{p + "mlp.gate_proj.weight", {f, d}}, {p + "mlp.up_proj.weight", {f, d}}});
    b.gate_up_bias = reader.vector(Parts{{p + "mlp.gate_proj.bias", {f}}, {p + "mlp.up_proj.bias", {f}}});
    b.down = reader.matrix(type, Parts{{p + "mlp.down_proj.weight", {d, f}}});
    b.down_bias = reader.vector(Parts{{p + "mlp.down_proj.bias", {d}}});
    w.blocks.push_back(std::move(b));
  }
  w.merger_norm_D = reader.vector(Parts{{prefix + "merger.ln_q.weight", {d}}});
  w.merger_0 = reader.matrix(type, Parts{{prefix + "merger.mlp.0.weight", {cell, cell}}});
  w.merger_0_bias = reader.vector(Parts{{prefix + "merger.mlp.0.bias", {cell}}});
  w.merger_2 = reader.matrix(type, Parts{{prefix + "merger.mlp.2.weight", {c.out_width, cell}}});
  w.merger_2_bias = reader.vector(Parts{{prefix + "merger.mlp.2.bias", {c.out_width}}});
  return w;
}

WindowOrder window_order(int32_t t, int32_t cell_rows, int32_t cell_columns, int32_t window_cells) {
  WindowOrder order;
  for (int32_t frame = 0; frame < t; ++frame)
    for (int32_t top = 0; top < cell_rows; top += window_cells)
      for (int32_t left = 0; left < cell_columns; left += window_cells) {
        for (int32_t row = top; row < std::min(top + window_cells, cell_rows); ++row)
          for (int32_t column = left; column < std::min(left + window_cells, cell_columns); ++column)
            order.cells.push_back((frame * cell_rows + row) * cell_columns + column);
        order.ends.push_back(static_cast<int32_t>(order.cells.size()));
      }
  return order;
}

// Where everything lies in the gathered order, over all images of a call. Row r of the work is patch source_P[r] of the pixels.
struct QwenVision::Layout {
  int64_t patches = 0;
  std::vector<int32_t> source_P;
  std::vector<SlotSpan> windows, frames;  // in gathered patches
  std::vector<RowSpans> window_of_P, frame_of_P;
};

Status QwenVision::check(std::span<const PatchGrid> images) const {
  int64_t patches = 0;
  for (size_t i = 0; i < images.size(); ++i) {
    const PatchGrid& g = images[i];
    constexpr int32_t kMaxSide = 1 << 16;
    if (g.t < 1 || g.h < 1 || g.w < 1 || g.t > kMaxSide || g.h > kMaxSide || g.w > kMaxSide || g.h % config_.merge != 0 ||
        g.w % config_.merge != 0)
      return bad_input("image {}: expected a grid of multiples of {}, got [{}, {}, {}]", i, config_.merge, g.t, g.h, g.w);
    const int64_t numbers = patches_in(g) * config_.patch_numbers();
    if (static_cast<int64_t>(g.values.size()) != numbers)
      return bad_input("image {}: expected {} pixel values for its grid, got {}", i, numbers, g.values.size());
    patches += patches_in(g);
  }
  constexpr int64_t kMaxPatches = 1 << 24;
  if (patches > kMaxPatches) return resource_error("images: expected at most {} patches, got {}", kMaxPatches, patches);
  return {};
}

QwenVision::Layout QwenVision::lay_out(std::span<const PatchGrid> images) const {
  Layout layout;
  const int32_t unit = config_.merge * config_.merge;
  const int32_t window_cells = config_.window / config_.patch / config_.merge;
  for (const PatchGrid& g : images) {
    const auto first = static_cast<int32_t>(layout.patches);
    const WindowOrder order = window_order(g.t, g.h / config_.merge, g.w / config_.merge, window_cells);
    for (const int32_t cell : order.cells)
      for (int32_t i = 0; i < unit; ++i) layout.source_P.push_back(first + cell * unit + i);
    int32_t begin = first;
    for (const int32_t end_cell : order.ends) {
      const int32_t end = first + end_cell * unit;
      layout.window_of_P.insert(layout.window_of_P.end(), static_cast<size_t>(end - begin),
                                RowSpans{static_cast<uint32_t>(layout.windows.size()), 1});
      layout.windows.push_back({begin, end});
      begin = end;
    }
    const int32_t frame = g.h * g.w;
    for (int32_t t = 0; t < g.t; ++t) {
      layout.frame_of_P.insert(layout.frame_of_P.end(), static_cast<size_t>(frame),
                               RowSpans{static_cast<uint32_t>(layout.frames.size()), 1});
      layout.frames.push_back({first + t * frame, first + (t + 1) * frame});
    }
    layout.patches += patches_in(g);
  }
  return layout;
}

void QwenVision::patch_embed(std::span<const PatchGrid> images, const Layout& layout) {
  const int64_t d = config_.width, numbers = config_.patch_numbers();
  float* embedded = update_.grow(count(layout.patches, d));
  int64_t first = 0;
  for (const PatchGrid& g : images) {
    matmul(weights_.patch_embed, g.values.data(), patches_in(g), numbers, nullptr, embedded + first * d, d, pool_, workspace_);
    first += patches_in(g);
  }
  float* x = x_PD_.grow(count(layout.patches, d));
  pool_.run(layout.patches, [&](int64_t r) { copy_floats(x + r * d, embedded + layout.source_P[static_cast<size_t>(r)] * d, d); });
}

void QwenVision::fill_rotation(std::span<const PatchGrid> images, const Layout& layout) {
  std::vector<Position> positions(static_cast<size_t>(layout.patches));
  const int64_t merge = config_.merge, unit = merge * merge;
  int64_t first = 0;
  for (const PatchGrid& g : images) {
    for (int64_t r = first; r < first + patches_in(g); ++r) {
      // Pixels stand in merge-block order: frame, block row, block column, row in the block, column in the block.
      const int64_t in_frame = (layout.source_P[static_cast<size_t>(r)] - first) % (int64_t{g.h} * g.w);
      const int64_t block = in_frame / unit, in_block = in_frame % unit, block_columns = g.w / merge;
      positions[static_cast<size_t>(r)] = {0, static_cast<int32_t>(block / block_columns * merge + in_block / merge),
                                           static_cast<int32_t>(block % block_columns * merge + in_block % merge)};
    }
    first += patches_in(g);
  }
  const RopeFrequencies frequencies = vision_rope_frequencies(config_.head_width());
  const size_t numbers = count(layout.patches, frequencies.half());
  rope_tables(frequencies, positions, cos_.grow(numbers), sin_.grow(numbers));
}

void QwenVision::block(size_t number, const Layout& layout) {
  const VisionBlockWeights& w = weights_.blocks[number];
  const int64_t p = layout.patches, d = config_.width, f = config_.mlp_width;
  const int32_t head_width = config_.head_width(), half = head_width / 2;
  float* x = x_PD_.data();
  float* normed = normed_PD_.grow(count(p, d));
  float* qkv = qkv_.grow(count(p, 3 * d));
  float* q = q_.grow(count(p, d));
  float* k = k_.grow(count(p, d));
  float* v = v_.grow(count(p, d));
  float* attended = attended_.grow(count(p, d));
  float* update = update_.grow(count(p, d));

  rms_norm(x, p, d, w.norm1_D.data(), kEps, normed, pool_);
  matmul(w.qkv, normed, p, d, or_null(w.qkv_bias), qkv, 3 * d, pool_, workspace_);
  pool_.run(p, [&](int64_t r) {
    copy_floats(q + r * d, qkv + r * 3 * d, d);
    copy_floats(k + r * d, qkv + r * 3 * d + d, d);
    copy_floats(v + r * d, qkv + r * 3 * d + 2 * d, d);
  });
  rotate(q, p, d, config_.heads, head_width, half, cos_.data(), sin_.data(), pool_);
  rotate(k, p, d, config_.heads, head_width, half, cos_.data(), sin_.data(), pool_);

  const auto& full = config_.full_attention_blocks;
  const bool whole_frame = std::find(full.begin(), full.end(), static_cast<int32_t>(number)) != full.end();
  AttentionArgs args;
  args.q_THK = q;
  args.keys_SGK = k;
  args.values_SGK = v;
  args.out_THK = attended;
  args.rows = p;
  args.heads = args.kv_heads = config_.heads;
  args.head_width = head_width;
  args.scale = static_cast<float>(1 / std::sqrt(static_cast<double>(head_width)));
  args.row_spans = whole_frame ? layout.frame_of_P : layout.window_of_P;
  args.spans = whole_frame ? layout.frames : layout.windows;
  attention(args, pool_, workspace_);
  matmul(w.proj, attended, p, d, or_null(w.proj_bias), update, d, pool_, workspace_);
  add(x, update, p, d, pool_);

  float* gate_up = gate_up_.grow(count(std::min(p, kMlpRows), 2 * f));
  float* gated = gated_.grow(count(std::min(p, kMlpRows), f));
  for (int64_t first = 0; first < p; first += kMlpRows) {
    const int64_t rows = std::min(kMlpRows, p - first);
    rms_norm(x + first * d, rows, d, w.norm2_D.data(), kEps, normed, pool_);
    matmul(w.gate_up, normed, rows, d, or_null(w.gate_up_bias), gate_up, 2 * f, pool_, workspace_);
    swiglu(gate_up, gate_up + f, rows, f, 2 * f, gated, pool_);
    matmul(w.down, gated, rows, f, or_null(w.down_bias), update, d, pool_, workspace_);
    add(x + first * d, update, rows, d, pool_);
  }
}

void QwenVision::merge(const Layout& layout, std::vector<float>& features_ND) {
  const int64_t unit = int64_t{config_.merge} * config_.merge, cells = layout.patches / unit;
  const int64_t d = config_.width, cell = d * unit, out = config_.out_width;
  float* normed = normed_PD_.grow(count(layout.patches, d));
  float* hidden = qkv_.grow(count(cells, cell));
  float* merged = q_.grow(count(cells, out));
  rms_norm(x_PD_.data(), layout.patches, d, weights_.merger_norm_D.data(), kEps, normed, pool_);
  matmul(weights_.merger_0, normed, cells, cell, or_null(weights_.merger_0_bias), hidden, cell, pool_, workspace_);
  gelu(hidden, cells, cell, false, pool_);
  matmul(weights_.merger_2, hidden, cells, cell, or_null(weights_.merger_2_bias), merged, out, pool_, workspace_);
  features_ND.resize(count(cells, out));
  pool_.run(cells, [&](int64_t c) {
    const int64_t to = layout.source_P[static_cast<size_t>(c * unit)] / unit;
    copy_floats(features_ND.data() + to * out, merged + c * out, out);
  });
}

Status QwenVision::encode(std::span<const PatchGrid> images, std::vector<float>& features_ND) {
  SLIP_TRY_(check(images));
  features_ND.clear();
  if (images.empty()) return {};
  const Layout layout = lay_out(images);
  patch_embed(images, layout);
  tap("patch_embed_PD", layout);
  fill_rotation(images, layout);
  for (size_t i = 0; i < weights_.blocks.size(); ++i) {
    block(i, layout);
    if (tap_) tap(fmt::format("block_{}_PD", i), layout);
  }
  merge(layout, features_ND);
  return {};
}

void QwenVision::tap(std::string_view name, const Layout& layout) {
  if (!tap_) return;
  const int64_t d = config_.width;
  std::vector<float> x(count(layout.patches, d));
  for (int64_t r = 0; r < layout.patches; ++r)
    copy_floats(x.data() + layout.source_P[static_cast<size_t>(r)] * d, x_PD_.data() + r * d, d);
  tap_(name, x, d);
}

}  // namespace slip
