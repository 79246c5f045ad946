// SPDX-License-Identifier: Apache-2.0
// A frozen model with a draft adapter under training, as the `Lm` that decoders run on: the training data is what the deployed loop
// itself visits. Passes with the adapter keep their graph; the gradient reaches A and B alone. Passes without it are the frozen
// model's, bit for bit, whatever the adapter holds, and only they leave keys in the arena: a draft's keys are never seen again.
// The header is free of torch. One object per thread; objects may share a base and an adapter.
#pragma once
#include <memory>

#include "lm/lm.h"
#include "train/model/model_torch.h"
#include "train/objective/lora.h"

namespace slip {

class LoraLm final : public Lm {
 public:
  /// The base's weights are shared and must not change. The adapter is zero: fill values().
  LoraLm(const TrainModel& base, const LoraRule& rule, DraftRule draft);
  /// The same base and adapter values, gradients and arena of its own.
  static std::unique_ptr<LoraLm> beside(const LoraLm& other);
  ~LoraLm() override;

  const LmInfo& info() const override;
  /// At least so many slots; none at first. A larger arena is empty.
  void reserve(int32_t slots);
  const LoraTable& table() const;
  /// T is double for kF64, else float.
  template <class T>
  std::span<T> values();
  template <class T>
  std::span<T> gradients();
  void clear_gradients();

  /// Each row has a slot of its own. kUnsupported otherwise, and for taps.
  Status forward(const Pass& pass, PassOutput& out) override;
  /// Merged image features, window order, by the frozen tower.
  std::vector<float> features(const RowBatch& images);

  /// Logits of the last pass with (without) the adapter, for the row at temporal position `t`; empty if it wanted nothing.
  template <class T>
  std::span<const T> logits(bool adapter, int32_t t) const;
  /// Where the loss's gradient by such logits of the last adapter pass goes; zero before.
  template <class T>
  std::span<T> logits_gradient(int32_t t);
  /// Adds the adapter's gradients; the graph of the last adapter pass is gone afterwards. Nothing where no gradient was asked for.
  void backward();

 private:
  struct Impl;
  explicit LoraLm(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace slip
