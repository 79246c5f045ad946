// SPDX-License-Identifier: Apache-2.0
// The trainable model: forward and backward of a RowBatch on libtorch. The header is free of torch (its headers cost 15 s per
// translation unit). One object per thread.
#pragma once
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "train/model/model_shape.h"
#include "train/model/rows.h"

namespace slip {

/// kF32: everything float. kBF16: master weights, residual stream, norms, softmax, head and loss float; other products and the
/// activations between them bfloat16. kF64: everything double, for checks.
enum class Precision : uint8_t { kF32, kBF16, kF64 };

/// Sums of weighted cross-entropies, before any division.
struct LossSums {
  double noisy = 0, ar = 0;
  double total() const { return noisy + ar; }
};

class TrainModel {
 public:
  /// Parameters and gradients are zero; fill them (weights.h) before use.
  TrainModel(const ModelShape& shape, Precision precision);
  TrainModel(TrainModel&&) noexcept;
  ~TrainModel();
  const ModelShape& shape() const;
  const ParameterTable& table() const;
  Precision precision() const;

  /// The flat buffers. T is double for kF64, else float.
  template <class T>
  std::span<T> values();
  template <class T>
  std::span<T> gradients();
  void clear_gradients();
  /// Layers keep their inputs alone and run again in the backward pass: the same bits, a third more time, far less memory.
  void set_recompute(bool on);
  /// Parameters whose names begin with one of these keep their values: no gradient is computed for them.
  void keep(std::span<const std::string> prefixes);

  /// Adds the gradient of scale * (sum of all terms) to the gradients; returns the sums, unscaled.
  LossSums forward_backward(const RowBatch& batch, double scale);
  LossSums loss(const RowBatch& batch);
  /// Logits of batch.wanted_rows, rows x V, f32.
  std::vector<float> logits(const RowBatch& batch);
  /// Merged image features in window order, features x D, f32.
  std::vector<float> features(const RowBatch& batch);

  static void set_threads(int threads);

  struct Impl;  // torch_model.h
  Impl& impl() const { return *impl_; }

 private:
  std::unique_ptr<Impl> impl_;
};

}  // namespace slip
