// SPDX-License-Identifier: Apache-2.0
// One training pass as plain arrays: rows (token or image feature, position), what each row of each sample attends to, which
// rows carry a loss, and the images in the vision tower's window order. Everything that can be decided without weights is
// decided here, off the training thread; the model (model_torch.cc) only computes.
//
// The dual stream (docs/notes/block-diffusion.md#dual-stream) is built from lm/visibility.h with three savings that keep
// the loss and its gradients: both complementary noisy rows share one clean stream (clean never sees noisy); turns of a noisy
// row on which no loss depends are dropped (rows see nothing noisy outside their own turn); and the last layer computes
// queries and MLP only for rows that carry a loss.
#pragma once
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "train/data/source.h"
#include "train/model/span_attention.h"

namespace slip {

/// What the row builder must know of a vision tower.
struct VisionShape {
  int32_t merge = 2, window_merged = 4;  // cells per window side: window_size / patch / merge
  int32_t patch_numbers = 1176;
  /// Plain ViTs that read the same patches (dino_qwen: one; OpenVLA): patches in raster order, `front` rows before them (cls, registers) in
  /// each tower, pool x pool of them a feature.
  struct Plain {
    int32_t pool = 1;
    std::vector<int32_t> front;
  };
  std::optional<Plain> plain;
};

struct LossTerm {
  int32_t wanted = 0;  // index into RowBatch::wanted_rows
  int32_t target = 0;
  double weight = 1;
  bool noisy = false;
};

/// All images of a pass, patches in window order.
struct VisionRows {
  std::vector<float> pixels;                  // P x patch numbers
  std::vector<std::array<int32_t, 2>> cells;  // (row, column) of each patch, in patches
  AttentionPlan full, windows;
  std::vector<AttentionPlan> plain;           // of each plain ViT
  std::vector<std::array<int32_t, 2>> grids;  // of their images: rows and columns of patches
  std::vector<int32_t> pooled;                // and of each feature: the pool x pool patches that it is the mean of
};

struct RowBatch {
  std::vector<int32_t> tokens;      // R; 0 where a feature stands
  std::vector<Position> positions;  // R
  std::vector<int32_t> feature_rows,
      feature_of;                    // rows that take a merged feature, and which (window order); -1 - k: the k-th history
  AttentionPlan all, last;           // last: rows in wanted_rows attend
  std::vector<int32_t> wanted_rows;  // ascending
  std::vector<LossTerm> terms;
  VisionRows vision;
  std::vector<float> history;          // of a model that takes one as a row: each sample's numbers
  std::vector<double> given_features;  // features x D in place of the tower's, constants; for models whose tower is not trained
  int64_t samples = 0, full_rows = 0;  // full_rows: what the plain layout would have had
  double count = 0;                    // sum of the batch's loss denominators
};

struct GridInput {
  std::span<const float> pixel_values;
  std::span<const std::array<int, 3>> grids;
  std::span<const float> history = {};
};
/// What stands in front of the model that a sample's rows are for.
inline GridInput inputs_of(const Sample& s) { return {s.pixel_values, s.grids, s.history}; }

constexpr int32_t kHistoryFeature = -2;  // the sample's ego history, where a row says which feature it takes

/// One sequence's rows, ready to be appended: sees is in the sequence's own row numbers.
struct SequenceRows {
  std::vector<int32_t> tokens;
  std::vector<Position> positions;
  std::vector<int32_t> feature;  // merged feature in patch order over the sequence's images, kHistoryFeature, or -1
  std::vector<IndexRanges> sees;
  struct Term {
    int32_t row, target;
    double weight;
    bool noisy;
  };
  std::vector<Term> terms;
  std::vector<int32_t> wanted;  // more rows whose logits are wanted, without a loss
  double count = 0;
};

/// Appends a sequence and its images. Rows on which no wanted row depends are dropped when `drop_unreached`.
void append_sequence(RowBatch& batch, const SequenceRows& rows, const GridInput& images, const VisionShape& vision,
                     bool drop_unreached);

/// A teacher-forced sample's masks for one noisy row.
struct NoisyRow {
  std::vector<uint8_t> masked;  // n
  std::vector<double> weight;   // n, read where masked
};

/// The dual stream of one sample: any number of noisy rows over one clean stream. `shift`: row i - 1 predicts token i in the
/// noisy rows (the clean stream always predicts the next token). `ar`: tokens predicted by the clean stream.
SequenceRows dual_rows(const Sample& s, std::span<const int32_t> turn, std::span<const NoisyRow> noisy, std::span<const uint8_t> ar,
                       bool shift);

/// Feature of every token (-1: none), from the sample's image tokens and its history's.
std::vector<int32_t> features_of(const Sample& s);

}  // namespace slip
