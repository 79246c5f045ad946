// SPDX-License-Identifier: Apache-2.0
// Qwen2.5-VL's vision tower; formulas in qwen_vision.h.
#include "models/vision/qwen_vision.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <numeric>
#include <optional>
#include <utility>

#include "base/clock/operation_clock.h"
#include "base/measure.h"
#include "base/pause.h"
#include "kernels/rope.h"
#include "nn/buffer.h"

namespace slip {
namespace {

constexpr float kEps = 1e-6F;  // literal in transformers: not the text decoder's rms_norm_eps
// Rows that go through a whole block together (through its halves, where attention is over frames): what lies between two products
// stays in the caches and the memory is bounded (12,696 patches at F = 3,420 would need 350 MB). More rows than this read the
// weights no more often than the products' own row groups do.
constexpr int64_t kSliceRows = 1024;
constexpr int64_t kCopyRows = 32;  // of a task that only moves rows

// PatchGrid::patches() is an int: a hostile grid may exceed it.
int64_t patches_in(const PatchGrid& g) { return int64_t{g.t} * g.h * g.w; }
const float* or_null(const std::vector<float>& v) { return v.empty() ? nullptr : v.data(); }

template <class F>
void for_rows(ThreadPool& pool, int64_t rows, const F& f) {
  pool.run((rows + kCopyRows - 1) / kCopyRows, [&](int64_t task) {
    for (int64_t r = task * kCopyRows; r < std::min(rows, (task + 1) * kCopyRows); ++r) f(r);
  });
}

// Gate and up begin with a block of columns each (64, kernels.h), so that their product is fused with SwiGLU: 3,420 becomes 3,456.
// The rows between are zeros, and `down` does not read what comes of them.
int64_t gated_width(const VisionConfig& c) { return (int64_t{c.mlp_width} + 63) / 64 * 64; }

}  // namespace

VisionWeights read_vision_weights(WeightReader& reader, const VisionConfig& c, const std::string& prefix, WeightType type) {
  using Parts = std::vector<WeightReader::Part>;
  const int64_t d = c.width, f = c.mlp_width, cell = d * c.merge * c.merge;
  const int64_t zeros = gated_width(c) - f;
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
    b.gate_up = reader.matrix(type, Parts{{p + "mlp.gate_proj.weight", {f, d}, zeros}, {p + "mlp.up_proj.weight", {f, d}, zeros}});
    b.gate_up_bias = reader.vector(Parts{{p + "mlp.gate_proj.bias", {f}, zeros}, {p + "mlp.up_proj.bias", {f}, zeros}});
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
  std::vector<int32_t> slot_P;            // where keys and values lie: 0, 1, ..
  std::vector<SlotSpan> windows, frames;  // in gathered patches
  std::vector<RowSpans> window_of_P, frame_of_P;
  std::vector<Slice> slices;  // whole windows each
  void cut();
};

void QwenVision::Layout::cut() {
  for (const SlotSpan& window : windows) {
    const int64_t rows = window.end - window.begin;
    if (slices.empty() || slices.back().rows + rows > kSliceRows) slices.push_back({window.begin, 0});
    slices.back().rows += rows;
  }
}

Status QwenVision::check(std::span<const PatchGrid> images) const {
  int64_t patches = 0;
  for (size_t i = 0; i < images.size(); ++i) {
    const PatchGrid& g = images[i];
    constexpr int32_t kMaxSide = 1 << 16;
    if (g.t < 1 || g.h < 1 || g.w < 1 || g.t > kMaxSide || g.h > kMaxSide || g.w > kMaxSide || g.h % config_.merge != 0 ||
        g.w % config_.merge != 0)
      return bad_input("image {}: expected a grid of multiples of {}, got [{}, {}, {}]", i, config_.merge, g.t, g.h, g.w);
    const int64_t numbers = patches_in(g) * config_.patch_numbers();
    const bool made_there = g.source && makes_patches() && g.patch_dim == config_.patch_numbers();
    if (!made_there && static_cast<int64_t>(g.values.size()) != numbers)
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
  layout.slot_P.resize(layout.source_P.size());
  std::iota(layout.slot_P.begin(), layout.slot_P.end(), 0);
  layout.cut();
  return layout;
}

void QwenVision::patch_embed(std::span<const PatchGrid> images, const Layout& layout) {
  const int64_t d = config_.width, numbers = config_.patch_numbers();
  float* embedded = qkv_.grow(count(layout.patches, d));
  int64_t first = 0;
  for (const PatchGrid& g : images) {
    matmul(weights_.patch_embed, g.values.data(), patches_in(g), numbers, nullptr, embedded + first * d, d, pool_, workspace_);
    first += patches_in(g);
  }
  float* x = x_PD_.grow(count(layout.patches, d));
  for_rows(pool_, layout.patches,
           [&](int64_t r) { copy_floats(x + r * d, embedded + layout.source_P[static_cast<size_t>(r)] * d, d); });
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

bool QwenVision::sees_whole_frame(size_t number) const {
  const auto& full = config_.full_attention_blocks;
  return std::find(full.begin(), full.end(), static_cast<int32_t>(number)) != full.end();
}

// Windows do not see each other, so a slice of them goes through the whole block; where patches see their frame, all rows must have
// left their keys first.
void QwenVision::block(size_t number, const Layout& layout) {
  const VisionBlockWeights& w = weights_.blocks[number];
  const int64_t line = 3 * int64_t{config_.width};
  for (FloatBuffer* kept : {&keys_, &values_})
    kept->grow(count(layout.patches, config_.width) * size_of(kv_type()) / sizeof(float));
  if (sees_whole_frame(number)) {
    float* qkv = qkv_.grow(count(layout.patches, line));
    for (const Slice& s : layout.slices) project(w, layout, s, qkv + s.first * line);
    for (const Slice& s : layout.slices) {
      attend(w, s, qkv + s.first * line, layout.frame_of_P, layout.frames);
      mlp(w, s);
    }
    return;
  }
  for (const Slice& s : layout.slices) {
    float* qkv = qkv_.grow(count(s.rows, line));
    project(w, layout, s, qkv);
    attend(w, s, qkv, layout.window_of_P, layout.windows);
    mlp(w, s);
  }
}

/// qkv: the slice's lines; queries stay there, keys and values go where attention reads them.
void QwenVision::project(const VisionBlockWeights& w, const Layout& layout, const Slice& s, float* qkv) {
  const int64_t d = config_.width;
  const int32_t head_width = config_.head_width(), half = head_width / 2;
  {
    const OperationScope product("qkv product");
    matmul(w.qkv, ProductInput{x_PD_.data() + s.first * d, s.rows, d, w.norm1_D.data(), kEps},
           ProductOutput{qkv, 3 * d, or_null(w.qkv_bias)}, pool_, workspace_);
  }
  const OperationScope rotating("rotation and storing keys");
  RotateStoreArgs args;
  args.qkv_TE = qkv;
  args.rows = s.rows;
  args.heads = args.kv_heads = config_.heads;
  args.head_width = head_width;
  args.half = half;
  args.cos_TK2 = cos_.data() + s.first * half;
  args.sin_TK2 = sin_.data() + s.first * half;
  args.kv_type = kv_type();
  args.keys = keys_.data();
  args.values = values_.data();
  args.slot_stride = d;
  args.head_stride = head_width;
  args.slots_T = layout.slot_P.data() + s.first;
  rotate_store(args, pool_);
}

void QwenVision::attend(const VisionBlockWeights& w, const Slice& s, const float* qkv, std::span<const RowSpans> row_spans,
                        std::span<const SlotSpan> spans) {
  const int64_t d = config_.width;
  float* attended = attended_.grow(count(s.rows, d));
  AttentionArgs args;
  args.q_THK = qkv;
  args.ldq = 3 * d;
  args.kv_type = kv_type();
  args.keys_SGK = keys_.data();
  args.values_SGK = values_.data();
  args.out_THK = attended;
  args.rows = s.rows;
  args.heads = args.kv_heads = config_.heads;
  args.head_width = config_.head_width();
  args.scale = static_cast<float>(1 / std::sqrt(static_cast<double>(config_.head_width())));
  args.row_spans = row_spans.subspan(static_cast<size_t>(s.first), static_cast<size_t>(s.rows));
  args.spans = spans;
  {
    const OperationScope attending("attention");
    attention(args, pool_, workspace_);
  }
  const OperationScope product("o product");
  matmul(w.proj, ProductInput{attended, s.rows, d}, ProductOutput{x_PD_.data() + s.first * d, d, or_null(w.proj_bias), true}, pool_,
         workspace_);
}

void QwenVision::mlp(const VisionBlockWeights& w, const Slice& s) {
  const int64_t d = config_.width, f = gated_width(config_);
  float* x = x_PD_.data() + s.first * d;
  float* gated = gated_.grow(count(s.rows, f));
  {
    const OperationScope gating("gate and up product");
    matmul_swiglu(w.gate_up, ProductInput{x, s.rows, d, w.norm2_D.data(), kEps}, or_null(w.gate_up_bias), gated, f, pool_,
                  workspace_);
  }
  const OperationScope product("down product");
  matmul(w.down, ProductInput{gated, s.rows, f}, ProductOutput{x, d, or_null(w.down_bias), true}, pool_, workspace_);
}

void QwenVision::merge(const Layout& layout, std::vector<float>& features_ND) {
  const int64_t unit = int64_t{config_.merge} * config_.merge, cells = layout.patches / unit;
  const int64_t d = config_.width, cell = d * unit, out = config_.out_width;
  features_ND.resize(count(cells, out));
  for (int64_t first = 0; first < cells; first += kSliceRows) {
    const int64_t rows = std::min(kSliceRows, cells - first);
    float* normed = normed_.grow(count(rows, cell));
    float* hidden = qkv_.grow(count(rows, cell));
    float* merged = gated_.grow(count(rows, out));
    rms_norm(x_PD_.data() + first * cell, rows * unit, d, weights_.merger_norm_D.data(), kEps, normed, pool_);
    matmul(weights_.merger_0, normed, rows, cell, or_null(weights_.merger_0_bias), hidden, cell, pool_, workspace_);
    gelu(hidden, rows, cell, false, pool_);
    matmul(weights_.merger_2, hidden, rows, cell, or_null(weights_.merger_2_bias), merged, out, pool_, workspace_);
    for_rows(pool_, rows, [&](int64_t c) {
      const int64_t to = layout.source_P[static_cast<size_t>((first + c) * unit)] / unit;
      copy_floats(features_ND.data() + to * out, merged + c * out, out);
    });
  }
}

DeviceVisionWeights QwenVision::device_weights() const {
  DeviceVisionWeights out;
  out.width = config_.width;
  out.heads = config_.heads;
  out.cell_patches = config_.merge * config_.merge;
  out.eps = kEps;
  out.patch_embed = &weights_.patch_embed;
  out.merger_0 = &weights_.merger_0;
  out.merger_2 = &weights_.merger_2;
  out.merger_norm_D = weights_.merger_norm_D;
  out.merger_0_bias = weights_.merger_0_bias;
  out.merger_2_bias = weights_.merger_2_bias;
  for (size_t i = 0; i < weights_.blocks.size(); ++i) {
    const VisionBlockWeights& b = weights_.blocks[i];
    out.blocks.push_back({b.norm1_D, b.norm2_D, b.qkv_bias, b.proj_bias, b.gate_up_bias, b.down_bias, &b.qkv, &b.proj, &b.gate_up,
                          &b.down, sees_whole_frame(i)});
  }
  return out;
}

namespace {

/// A picture on its way to a device: what DevicePicture points to.
struct PictureParts {
  std::optional<BicubicTaps> across, down;
  ChannelTable table;
  PictureParts(const Image& image, int to_width, int to_height, const PreprocessorConfig& config)
      : table(normalising_table(config)) {
    if (to_width != image.width) across = bicubic_taps(image.width, to_width);
    if (to_height != image.height) down = bicubic_taps(image.height, to_height);
  }
};

/// An image as the device gets it; `pixels` and `pictures` are what is left of the room.
class ImagesThere {
 public:
  ImagesThere(std::span<const PatchGrid> images, const DeviceVision::Room& room) {
    parts_.reserve(images.size());  // which pictures point to
    std::span<float> pixels = room.pixels;
    std::span<uint8_t> pictures = room.pictures;
    for (const PatchGrid& g : images) {
      DeviceImage& to = images_.emplace_back(DeviceImage{g.patches(), g.content, {}, {}});
      if (!g.source) {
        to.pixels_PN = pixels.first(g.values.size());
        pixels = pixels.subspan(g.values.size());
        continue;
      }
      const PreprocessorConfig& c = g.source->config;
      const Image& image = *g.source->image;
      const int width = g.w * c.patch_size, height = g.h * c.patch_size;
      const PictureParts& p = parts_.emplace_back(image, width, height, c);
      to.picture = DevicePicture{pictures.first(image.rgb.size()),
                                 image.width,
                                 image.height,
                                 width,
                                 height,
                                 p.across ? &*p.across : nullptr,
                                 p.down ? &*p.down : nullptr,
                                 shrinks_down_first(image.width, image.height, height),
                                 &p.table,
                                 c.patch_size,
                                 c.merge_size,
                                 c.temporal_patch_size};
      pictures = pictures.subspan(image.rgb.size());
    }
  }
  std::span<DeviceImage> images() { return images_; }

 private:
  std::vector<PictureParts> parts_;
  std::vector<DeviceImage> images_;
};

template <class T>
void copy_there(std::span<const T> from, std::span<const T> to) {  // `to` is of the room, which is ours to write
  std::memcpy(const_cast<T*>(to.data()), from.data(), from.size_bytes());
}

/// The same values are other features in another grid.
ContentHash content_of_values(const PatchGrid& g) {
  const ContentHash values = g.content.empty() ? content_hash(std::span<const float>(g.values)) : g.content;
  const uint64_t sides = (static_cast<uint64_t>(g.t) << 40) ^ (static_cast<uint64_t>(g.h) << 20) ^ static_cast<uint64_t>(g.w);
  return {mix_hash(values.low, sides), mix_hash(values.high, ~sides) | 1};
}

}  // namespace

Status QwenVision::encode_on_device(std::span<const PatchGrid> images, Features& out) {
  const OperationScope there("tower on the device");
  const Layout layout = lay_out(images);
  fill_rotation(images, layout);
  size_t numbers = 0, bytes = 0;
  for (const PatchGrid& g : images) (g.source ? bytes : numbers) += g.source ? g.source->image->rgb.size() : g.values.size();
  SLIP_TRY(const DeviceVision::Room room, device_->room(numbers, bytes));
  ImagesThere sent(images, room);
  constexpr size_t kPieces = 8;  // of an image, so that all threads copy
  pool_.run(static_cast<int64_t>(images.size() * kPieces), [&](int64_t task) {
    const auto i = static_cast<size_t>(task) / kPieces, piece = static_cast<size_t>(task) % kPieces;
    const auto part = [&](auto all) {
      const size_t first = all.size() * piece / kPieces;
      return all.subspan(first, all.size() * (piece + 1) / kPieces - first);
    };
    const DeviceImage& to = sent.images()[i];
    if (to.picture) {
      copy_there(part(std::span<const uint8_t>(images[i].source->image->rgb)), part(to.picture->rgb));
    } else {
      copy_there(part(std::span<const float>(images[i].values)), part(to.pixels_PN));
    }
    if (piece == 0 && !to.picture) sent.images()[i].content = content_of_values(images[i]);
  });
  const size_t table = count(layout.patches, config_.head_width() / 2);
  SLIP_TRY(out.resident, device_->encode({sent.images(),
                                          layout.source_P,
                                          {cos_.data(), table},
                                          {sin_.data(), table},
                                          layout.window_of_P,
                                          layout.frame_of_P,
                                          layout.windows,
                                          layout.frames}));
  return {};
}

Status QwenVision::features(std::span<const PatchGrid> images, Features& out, const CancelToken& cancel) {
  SLIP_TRY_(check(images));
  if (!device_) return encode_here(images, out.numbers_ND, cancel);
  if (images.empty()) return {};
  times_ = {};
  const OperationScope tower("tower, the rest");
  SLIP_TRY_(cancel.check("encode", 0, "blocks"));
  SLIP_TRY_(pause_point());
  return encode_on_device(images, out);
}

Status QwenVision::encode(std::span<const PatchGrid> images, std::vector<float>& features_ND, const CancelToken& cancel) {
  if (!device_) {
    SLIP_TRY_(check(images));
    return encode_here(images, features_ND, cancel);
  }
  Features there;
  SLIP_TRY_(features(images, there, cancel));
  return there.read(features_ND);
}

Status QwenVision::encode_here(std::span<const PatchGrid> images, std::vector<float>& features_ND, const CancelToken& cancel) {
  features_ND.clear();
  if (images.empty()) return {};
  times_ = {};
  auto last = Clock::now();
  const OperationScope tower("tower, the rest");
  const Layout layout = lay_out(images);
  {
    const OperationScope embedding("patch embedding");
    patch_embed(images, layout);
  }
  tap("patch_embed_PD", layout);
  {
    const OperationScope filling("rotation tables");
    fill_rotation(images, layout);
  }
  times_.patch_embed = lap(last);
  for (size_t i = 0; i < weights_.blocks.size(); ++i) {
    SLIP_TRY_(cancel.check("encode", static_cast<int64_t>(i), "blocks"));
    SLIP_TRY_(pause_point());
    block(i, layout);
    (sees_whole_frame(i) ? times_.full : times_.windowed) += lap(last);
    if (tap_) tap(fmt::format("block_{}_PD", i), layout);
  }
  const OperationScope merging("merger");
  merge(layout, features_ND);
  times_.merger = lap(last);
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
