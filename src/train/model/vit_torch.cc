// SPDX-License-Identifier: Apache-2.0
// What stands in front of a dino_qwen's or OpenVLA's text model, on torch: plain ViTs [DINOv2, SigLIP], their features joined per patch,
// the mean of pool x pool patches, the projector, and the row of the ego history. Formulas: models/vision/vit.h, vit_tower.h,
// docs/decisions/0009-dino-qwen.md.
#include "models/vision/vit_positions.h"
#include "train/model/torch_model.h"

namespace slip {

namespace {

/// How a grid's positions are made of the stored table's: resampling is linear, so the table's unit vectors say it.
Tensor resampling(const VitConfig& v, int32_t rows, int32_t columns, at::ScalarType type) {
  const int32_t P = v.grid_rows * v.grid_columns;
  std::vector<float> unit(static_cast<size_t>(P) * static_cast<size_t>(P), 0.0F);
  for (size_t i = 0; i < static_cast<size_t>(P); ++i) unit[i * static_cast<size_t>(P) + i] = 1;
  std::vector<float> made = resample_positions(unit, v.grid_rows, v.grid_columns, P, rows, columns,
                                               v.interpolation == VitConfig::Interpolation::kBicubicAntialias);
  return at::from_blob(made.data(), {int64_t{rows} * columns, P}, at::kFloat).to(type, /*non_blocking=*/false, /*copy=*/true);
}

}  // namespace

/// cls, registers and patches of every image, residual type.
Tensor TrainModel::Impl::vit_embeddings(const RowBatch& b, size_t tower) {
  const VitConfig& v = shape.vit->vits[tower];
  const VitGroups& g = table.front.vits[tower];
  int64_t first = 0;  // of the tower's channels among a patch's numbers
  for (size_t i = 0; i < tower; ++i) first += shape.vit->vits[i].patch_numbers();
  const int64_t D = v.width, numbers = shape.vision_rows().patch_numbers;
  const int64_t P = static_cast<int64_t>(b.vision.pixels.size()) / numbers;
  const Tensor pixels = here(at::from_blob(const_cast<float*>(b.vision.pixels.data()), {P, numbers}, at::kFloat)).to(act);
  const Tensor patches = linear(pixels.narrow(1, first, v.patch_numbers()), g.patch, g.patch_bias).to(wide);
  Tensor stored = leaf(g.positions).view({-1, D});
  std::vector<Tensor> front;
  if (v.cls) front.push_back(leaf(g.cls).view({1, D}));
  if (v.cls_has_position) {
    front[0] = front[0] + stored.narrow(0, 0, 1);
    stored = stored.narrow(0, 1, stored.size(0) - 1);
  }
  if (v.registers > 0) front.push_back(leaf(g.registers).view({v.registers, D}));
  std::map<std::array<int32_t, 2>, Tensor> of_grid;
  std::vector<Tensor> all;
  int64_t patch = 0;
  for (const auto& grid : b.vision.grids) {
    Tensor& at = of_grid[grid];
    if (!at.defined()) {
      const bool same = grid[0] == v.grid_rows && grid[1] == v.grid_columns;
      Tensor& from = resamplings[grid];  // a tower whose table is resampled is alone
      if (!same && !from.defined()) from = here(resampling(v, grid[0], grid[1], wide));
      at = same ? stored : at::mm(from, stored);
    }
    all.insert(all.end(), front.begin(), front.end());
    all.push_back(patches.narrow(0, patch, at.size(0)) + at);
    patch += at.size(0);
  }
  return at::cat(all);
}

/// A tower's features: cells x (pool x pool patches) x D, images in order; residual type.
Tensor TrainModel::Impl::vit_cells(const RowBatch& b, size_t tower) {
  const VitConfig& v = shape.vit->vits[tower];
  const VitGroups& groups = table.front.vits[tower];
  const int64_t D = v.width, H = v.heads;
  const auto norm = [&](const Tensor& x, const Group& gain, const Group& bias) {
    return at::layer_norm(x, {D}, leaf(gain), leaf(bias), double{v.norm_eps}).to(act);
  };
  const auto scaled = [&](const Tensor& update, const Group& scale) {
    return scale.rows > 0 ? update.to(wide) * leaf(scale) : update.to(wide);
  };
  Tensor x = vit_embeddings(b, tower);
  Tensor unrotated = at::zeros({x.size(0), v.head_width()}, x.options());  // cosines 1, sines 0
  unrotated.narrow(1, 0, v.head_width() / 2).fill_(1);
  for (const VitBlockGroups& g : groups.blocks) {
    const Tensor qkv = linear(norm(x, g.norm1, g.norm1_bias), g.qkv, g.qkv_bias);
    const Tensor mixed = attend(qkv, unrotated, b.vision.plain[tower], H, H);
    x = x + scaled(linear(mixed, g.out, g.out_bias), g.scale1);
    const Tensor up = linear(norm(x, g.norm2, g.norm2_bias), g.up, g.up_bias);
    x = x + scaled(linear(v.swiglu ? swiglu(up) : at::gelu(up), g.down, g.down_bias), g.scale2);
  }
  if (v.final_norm) x = at::layer_norm(x, {D}, leaf(groups.norm), leaf(groups.norm_bias), double{v.norm_eps});
  // Rows of patches among those of cls and registers.
  std::vector<int32_t> row_of_patch, rows;
  int32_t row = 0;
  for (const auto& grid : b.vision.grids) {
    row += v.prefix_rows();
    for (int32_t i = 0; i < grid[0] * grid[1]; ++i) row_of_patch.push_back(row++);
  }
  for (const int32_t patch : b.vision.pooled) rows.push_back(row_of_patch[static_cast<size_t>(patch)]);
  return x.index_select(0, indices(rows)).view({-1, int64_t{shape.vit->pool} * shape.vit->pool, D});
}

/// One row a cell: the towers' features joined, their mean over the cell, projected; activations' type.
Tensor TrainModel::Impl::vit_features(const RowBatch& b) {
  std::vector<Tensor> cells;
  for (size_t i = 0; i < shape.vit->vits.size(); ++i) cells.push_back(vit_cells(b, i));
  Tensor y = at::cat(cells, 2).mean(1).to(act);
  const FrontGroups& g = table.front;
  for (size_t i = 0; i < g.projector.size(); ++i) y = linear(i > 0 ? at::gelu(y) : y, g.projector[i], g.projector_bias[i]);
  return y;
}

/// One row a sample, residual type whatever the activations'.
Tensor TrainModel::Impl::history_rows(const RowBatch& b) {
  const HistoryConfig& h = *shape.history;
  const auto n = static_cast<int64_t>(b.history.size()) / h.numbers();
  std::vector<double> scale;
  for (int32_t i = 0; i < h.numbers(); ++i) scale.push_back(h.scale[static_cast<size_t>(i % HistoryConfig::kNumbers)]);
  const Tensor numbers = here(at::from_blob(const_cast<float*>(b.history.data()), {n, h.numbers()}, at::kFloat)).to(wide);
  const Tensor x = numbers * here(at::from_blob(scale.data(), {h.numbers()}, at::kDouble).to(wide));
  const FrontGroups& g = table.front;
  const Tensor hidden = at::gelu(at::addmm(leaf(g.history1_bias), x, leaf(g.history1).t()));
  return at::addmm(leaf(g.history2_bias), hidden, leaf(g.history2).t());
}

}  // namespace slip
