// SPDX-License-Identifier: Apache-2.0
// The trainable model: forward and backward of a RowBatch on libtorch. The header is free of torch (its headers cost 15 s per
// translation unit). One object per thread.
#pragma once
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/result.h"
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

/// What computes norms, SwiGLU, attention and the loss: functions of our own on the processor, or ATen's, which other devices have too.
enum class Operations : uint8_t { kFused, kAten };

/// Where a model computes. The flat buffers of values and gradients stay on the processor, where the optimizer is.
struct TrainPlace {
  std::string device = "cpu";                  // or "cuda", "cuda:N"
  Operations operations = Operations::kFused;  // on the processor; elsewhere ATen's
};

class TrainModel {
 public:
  /// Parameters and gradients are zero; fill them (weights.h) before use. The device is there: check_train_device.
  TrainModel(const ModelShape& shape, Precision precision, const TrainPlace& place = {});
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

/// kBadInput for a name that is none; kUnsupported where libtorch or the machine has no such device.
Status check_train_device(const std::string& device, std::string_view where);

}  // namespace slip
