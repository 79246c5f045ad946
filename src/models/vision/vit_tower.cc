// SPDX-License-Identifier: Apache-2.0
// See vit_tower.h.
#include "models/vision/vit_tower.h"
#include "base/pause.h"
#include "nn/buffer.h"

#include <algorithm>
namespace slip {
namespace {

// Patches that the encoder makes of a picture, more than features where some do not fill a pool.
int64_t encoded_patches(const VitTowerConfig& c, const PatchGrid& g) {
  const int32_t side = c.vits.front().patch;
  return int64_t{g.plane_height / side} * (g.plane_width / side);
}

}  // namespace

VitTowerWeights read_vit_tower_weights(WeightReader& reader, const VitTowerConfig& config, WeightType type) {
  VitTowerWeights w;
  for (const VitConfig& v : config.vits) w.vits.push_back(read_vit_weights(reader, v, type));
  for (const VitTowerConfig::Layer& l : config.projector) {
    w.projector.push_back(reader.matrix(type, {{l.name + ".weight", {l.out, l.in}}}));
    w.projector_bias.push_back(reader.vector({{l.name + ".bias", {l.out}}}));
  }
  return w;
}

VitTower::VitTower(VitTowerConfig config, VitTowerWeights weights, ThreadPool& pool)
    : config_(std::move(config)),
      projector_(std::move(weights.projector)),
      projector_bias_(std::move(weights.projector_bias)),
      pool_(pool) {
  for (size_t i = 0; i < config_.vits.size(); ++i)
    vits_.push_back(std::make_unique<Vit>(config_.vits[i], std::move(weights.vits[i]), pool));
}

Status VitTower::check(std::span<const PatchGrid> images) const {
  int64_t patches = 0;
  for (size_t i = 0; i < images.size(); ++i) {
    const PatchGrid& g = images[i];
    const VitImage image{g.values.data(), g.plane_height, g.plane_width};
    for (const auto& vit : vits_) SLIP_TRY_(vit->check(image, i));
    const PatchGrid fits = vit_grid(config_, g.plane_height, g.plane_width);
    if (g.t != 1 || g.h != fits.h || g.w != fits.w || g.merge_size != config_.pool || g.h < config_.pool || g.w < config_.pool)
      return bad_input("image {}: expected a grid of {} x {} patches in cells of {} for {} x {} pixels, got {} x {} in cells of {}",
                       i, fits.w, fits.h, config_.pool, g.plane_width, g.plane_height, g.w, g.h, g.merge_size);
    const int64_t numbers = int64_t{config_.channels()} * g.plane_height * g.plane_width;
    if (static_cast<int64_t>(g.values.size()) != numbers)
      return bad_input("image {}: expected {} pixel values, got {}", i, numbers, g.values.size());
    patches += encoded_patches(config_, g);
  }
  constexpr int64_t kMaxPatches = 1 << 22;
  if (patches > kMaxPatches) return resource_error("images: expected at most {} patches, got {}", kMaxPatches, patches);
  return {};
}

// joined_ (all patches) -> pooled_ (means over pool x pool patches, in raster order).
void VitTower::average(std::span<const PatchGrid> images, int64_t pooled_rows) {
  const int64_t d = config_.joined_width(), pool = config_.pool, side = config_.vits.front().patch;
  float* to = pooled_.grow(count(pooled_rows, d));
  const float* from = joined_.data();
  for (const PatchGrid& g : images) {
    const int64_t columns = g.plane_width / side;
    for (int64_t y = 0; y < g.h / pool; ++y)
      for (int64_t x = 0; x < g.w / pool; ++x, to += d) {
        std::fill(to, to + d, 0.0F);
        for (int64_t k = 0; k < pool * pool; ++k) {
          const float* patch = from + ((y * pool + k / pool) * columns + x * pool + k % pool) * d;
          for (int64_t i = 0; i < d; ++i) to[i] += patch[i];
        }
        for (int64_t i = 0; i < d; ++i) to[i] /= static_cast<float>(pool * pool);
      }
    from += encoded_patches(config_, g) * d;
  }
}

void VitTower::project(int64_t rows, std::vector<float>& features_ND) {
  features_ND.resize(count(rows, config_.out_width()));
  const float* x = config_.pool > 1 ? pooled_.data() : joined_.data();
  for (size_t i = 0; i < projector_.size(); ++i) {
    const int64_t in = projector_[i].k(), out = projector_[i].n();
    const bool last = i + 1 == projector_.size();
    float* y = last ? features_ND.data() : hidden_[i % 2].grow(count(rows, out));
    matmul(projector_[i], x, rows, in, projector_bias_[i].data(), y, out, pool_, workspace_);
    if (!last) gelu(y, rows, out, false, pool_);
    x = y;
  }
}

Status VitTower::encode(std::span<const PatchGrid> images, std::vector<float>& features_ND, const CancelToken& cancel) {
  SLIP_TRY_(check(images));
  features_ND.clear();
  if (images.empty()) return {};
  const int64_t d = config_.joined_width();
  int64_t patches = 0, rows = 0;
  for (const PatchGrid& g : images) {
    patches += encoded_patches(config_, g);
    rows += g.merged();
  }
  float* joined = joined_.grow(count(patches, d));
  int64_t column = 0, channel = 0;
  for (const auto& vit : vits_) {
    SLIP_TRY_(pause_point());
    std::vector<VitImage> its;
    for (const PatchGrid& g : images)
      its.push_back({g.values.data() + channel * g.plane_height * g.plane_width, g.plane_height, g.plane_width});
    SLIP_TRY_(vit->encode(its, joined + column, d, cancel));
    column += vit->config().width;
    channel += vit->config().channels;
  }
  if (config_.pool > 1) average(images, rows);
  project(rows, features_ND);
  return {};
}

}  // namespace slip
