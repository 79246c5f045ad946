// SPDX-License-Identifier: Apache-2.0
// The pass of a plain ViT; formulas in vit.h.
#include "models/vision/vit.h"
#include "nn/buffer.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "models/vision/vit_positions.h"

namespace slip {
namespace {

// As in the decoder: a slice of rows bounds the MLP's memory.
constexpr int64_t kMlpRows = 1024;

}  // namespace

// Where the rows of each image lie, over all images of a call.
struct Vit::Layout {
  struct Image {
    int64_t first_row, first_patch;
    int32_t rows, columns;  // of patches
    int64_t patches() const { return int64_t{rows} * columns; }
  };
  std::vector<Image> images;
  int64_t rows = 0, patches = 0;
  std::vector<SlotSpan> spans;  // one per image
  std::vector<RowSpans> row_spans;
};

Vit::Vit(VitConfig config, VitWeights weights, ThreadPool& pool)
    : config_(std::move(config)), weights_(std::move(weights)), pool_(pool) {}

Status Vit::check(const VitImage& image, size_t number) const {
  constexpr int32_t kMaxSide = 1 << 16;
  const int32_t rows = image.height / config_.patch, columns = image.width / config_.patch;
  if (rows < 1 || columns < 1 || image.height > kMaxSide || image.width > kMaxSide)
    return bad_input("image {}: expected sides of {} to {} pixels, got {} x {}", number, config_.patch, kMaxSide, image.width,
                     image.height);
  if (config_.interpolation == VitConfig::Interpolation::kNone && (rows != config_.grid_rows || columns != config_.grid_columns))
    return bad_input("image {}: expected {} x {} patches, got {} x {}", number, config_.grid_columns, config_.grid_rows, columns,
                     rows);
  return {};
}

Vit::Layout Vit::lay_out(std::span<const VitImage> images) const {
  Layout layout;
  for (const VitImage& image : images) {
    Layout::Image at{layout.rows, layout.patches, image.height / config_.patch, image.width / config_.patch};
    layout.patches += at.patches();
    const int64_t rows = at.patches() + config_.prefix_rows();
    layout.row_spans.insert(layout.row_spans.end(), static_cast<size_t>(rows),
                            RowSpans{static_cast<uint32_t>(layout.spans.size()), 1});
    layout.spans.push_back({static_cast<int32_t>(layout.rows), static_cast<int32_t>(layout.rows + rows)});
    layout.rows += rows;
    layout.images.push_back(at);
  }
  return layout;
}

const float* Vit::positions(int32_t rows, int32_t columns) {
  if (rows == config_.grid_rows && columns == config_.grid_columns) return weights_.positions_PD.data();
  if (rows != resampled_rows_ || columns != resampled_columns_) {
    resampled_PD_ = resample_positions(weights_.positions_PD, config_.grid_rows, config_.grid_columns, config_.width, rows, columns,
                                       config_.interpolation == VitConfig::Interpolation::kBicubicAntialias);
    resampled_rows_ = rows;
    resampled_columns_ = columns;
  }
  return resampled_PD_.data();
}

void Vit::embed(std::span<const VitImage> images, const Layout& layout) {
  const int64_t d = config_.width, numbers = config_.patch_numbers(), side = config_.patch, front = config_.prefix_rows();
  float* pixels = pixels_.grow(count(layout.patches, numbers));
  float* embedded = update_.grow(count(layout.patches, d));
  float* x = x_TD_.grow(count(layout.rows, d));
  for (size_t i = 0; i < images.size(); ++i) {
    const VitImage& image = images[i];
    const Layout::Image& at = layout.images[i];
    pool_.run(at.patches(), [&](int64_t p) {
      float* to = pixels + (at.first_patch + p) * numbers;
      const int64_t top = p / at.columns * side, left = p % at.columns * side;
      for (int64_t c = 0; c < config_.channels; ++c)
        for (int64_t y = 0; y < side; ++y, to += side)
          copy_floats(to, image.planes + (c * image.height + top + y) * image.width + left, side);
    });
  }
  matmul(weights_.patch_embed, pixels, layout.patches, numbers, weights_.patch_bias.data(), embedded, d, pool_, workspace_);
  for (const Layout::Image& at : layout.images) {
    const float* table = positions(at.rows, at.columns);
    float* rows = x + at.first_row * d;
    if (front > 0) copy_floats(rows, weights_.prefix_RD.data(), front * d);
    copy_floats(rows + front * d, embedded + at.first_patch * d, at.patches() * d);
    add(rows + front * d, table, at.patches(), d, pool_);
  }
}

void Vit::add_scaled(float* x, const float* update, const std::vector<float>& scale_D, int64_t rows) {
  const int64_t d = config_.width;
  if (scale_D.empty()) return add(x, update, rows, d, pool_);
  pool_.run(rows, [&](int64_t r) {
    for (int64_t i = 0; i < d; ++i) x[r * d + i] += update[r * d + i] * scale_D[static_cast<size_t>(i)];
  });
}

void Vit::attend(const VitBlockWeights& w, const Layout& layout) {
  const int64_t t = layout.rows, d = config_.width;
  float* normed = normed_TD_.grow(count(t, d));
  float* qkv = qkv_.grow(count(t, 3 * d));
  float* q = q_.grow(count(t, d));
  float* k = k_.grow(count(t, d));
  float* v = v_.grow(count(t, d));
  float* attended = attended_.grow(count(t, d));
  float* update = update_.grow(count(t, d));
  layer_norm(x_TD_.data(), t, d, w.norm1_D.data(), w.norm1_bias_D.data(), config_.norm_eps, normed, pool_);
  matmul(w.qkv, normed, t, d, w.qkv_bias.data(), qkv, 3 * d, pool_, workspace_);
  pool_.run(t, [&](int64_t r) {
    copy_floats(q + r * d, qkv + r * 3 * d, d);
    copy_floats(k + r * d, qkv + r * 3 * d + d, d);
    copy_floats(v + r * d, qkv + r * 3 * d + 2 * d, d);
  });
  AttentionArgs args;
  args.q_THK = q;
  args.keys_SGK = k;
  args.values_SGK = v;
  args.out_THK = attended;
  args.rows = t;
  args.heads = args.kv_heads = config_.heads;
  args.head_width = config_.head_width();
  args.scale = static_cast<float>(1 / std::sqrt(static_cast<double>(config_.head_width())));
  args.row_spans = layout.row_spans;
  args.spans = layout.spans;
  attention(args, pool_, workspace_);
  matmul(w.proj, attended, t, d, w.proj_bias.data(), update, d, pool_, workspace_);
  add_scaled(x_TD_.data(), update, w.scale1_D, t);
}

void Vit::mlp(const VitBlockWeights& w, int64_t rows) {
  const int64_t d = config_.width, f = config_.mlp_width, slice = std::min(rows, kMlpRows);
  float* up = up_.grow(count(slice, config_.swiglu ? 2 * f : f));
  float* gated = config_.swiglu ? gated_.grow(count(slice, f)) : up;
  for (int64_t first = 0; first < rows; first += kMlpRows) {
    const int64_t n = std::min(kMlpRows, rows - first);
    float* x = x_TD_.data() + first * d;
    layer_norm(x, n, d, w.norm2_D.data(), w.norm2_bias_D.data(), config_.norm_eps, normed_TD_.data(), pool_);
    matmul(w.up, normed_TD_.data(), n, d, w.up_bias.data(), up, w.up.n(), pool_, workspace_);
    if (config_.swiglu) {
      swiglu(up, up + f, n, f, 2 * f, gated, pool_);
    } else {
      gelu(up, n, f, false, pool_);
    }
    matmul(w.down, gated, n, f, w.down_bias.data(), update_.data(), d, pool_, workspace_);
    add_scaled(x, update_.data(), w.scale2_D, n);
  }
}

Status Vit::encode(std::span<const VitImage> images, float* out, int64_t ldo, const CancelToken& cancel) {
  if (images.empty()) return {};
  const Layout layout = lay_out(images);
  const int64_t d = config_.width, front = config_.prefix_rows();
  embed(images, layout);
  tap("embeddings", layout.rows);
  for (size_t i = 0; i < weights_.blocks.size(); ++i) {
    SLIP_TRY_(cancel.check("encode", static_cast<int64_t>(i), "blocks"));
    attend(weights_.blocks[i], layout);
    mlp(weights_.blocks[i], layout.rows);
    if (tap_) tap(fmt::format("block_{}", i), layout.rows);
  }
  if (config_.final_norm) {
    layer_norm(x_TD_.data(), layout.rows, d, weights_.norm_D.data(), weights_.norm_bias_D.data(), config_.norm_eps, x_TD_.data(),
               pool_);
    tap("final_norm", layout.rows);
  }
  for (const Layout::Image& at : layout.images)
    for (int64_t p = 0; p < at.patches(); ++p)
      copy_floats(out + (at.first_patch + p) * ldo, x_TD_.data() + (at.first_row + front + p) * d, d);
  return {};
}

void Vit::tap(const std::string& name, int64_t rows) {
  if (tap_) tap_(name, {x_TD_.data(), count(rows, config_.width)}, config_.width);
}

}  // namespace slip
