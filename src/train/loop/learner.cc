// SPDX-License-Identifier: Apache-2.0
// A whole model under a teacher-forced objective; contract in learner.h.
#include "train/loop/learner.h"

#include <algorithm>
#include <optional>

#include "base/standard_streams.h"
#include "train/data/init_vocabulary.h"
#include "train/loop/batcher.h"
#include "train/model/model_torch.h"

namespace slip {
namespace {

class ModelLearner : public Learner {
 public:
  ModelLearner(const TrainConfig& c, SampleSource& source) : c_(c), source_(source), model_(c.shape, c.precision) {}
  const ParameterTable& table() const override { return model_.table(); }
  std::span<float> values() override { return model_.values<float>(); }
  std::span<float> gradients() override { return model_.gradients<float>(); }

  Status start(bool quiet) override {
    if (c_.init.empty() || !c_.init_tokenizer.empty()) random_weights(model_.table(), c_.seed, c_.init_deviation, values());
    if (c_.init.empty()) return {};
    SLIP_TRY(const Checkpoint stored, Checkpoint::open_folder(c_.init));
    if (c_.init_tokenizer.empty()) return load_weights(stored, model_.table(), values());
    SLIP_TRY(const std::vector<int32_t> rows, rows_of_vocabulary(c_.init_tokenizer, c_.tokenizer));
    const auto kept = std::count_if(rows.begin(), rows.end(), [](int32_t r) { return r >= 0; });
    if (!quiet) say(fmt::format("slipstream-train: {} of {} tokens start from {}\n", kept, rows.size(), c_.init));
    return load_weights_by_rows(stored, model_.table(), values(), rows);
  }

  Result<LearnedStep> learn(int64_t number) override {
    if (!batches_) batches_.emplace(source_, c_, number);
    SLIP_TRY(const StepBatches step, batches_->next());
    model_.clear_gradients();
    LossSums sums;
    double noisy_weight = 0, ar_weight = 0;
    for (const RowBatch& part : step.parts) {
      const LossSums s = model_.forward_backward(part, 1 / step.count);
      sums.noisy += s.noisy;
      sums.ar += s.ar;
      for (const LossTerm& t : part.terms) (t.noisy ? noisy_weight : ar_weight) += t.weight;
    }
    return LearnedStep{.loss = sums.total() / step.count,
                       .noisy = noisy_weight > 0 ? sums.noisy / noisy_weight : 0,
                       .ar = ar_weight > 0 ? sums.ar / ar_weight : 0,
                       .samples = step.samples};
  }

 private:
  const TrainConfig& c_;
  SampleSource& source_;
  TrainModel model_;
  std::optional<Batcher> batches_;
};

}  // namespace

int64_t numbers_trained(const TrainConfig& c) {
  return c.objective == ObjectiveKind::kLora ? LoraTable::of(c.shape, c.lora_rule.rank).table.size
                                             : ParameterTable::of(c.shape).size;
}

std::unique_ptr<Learner> make_learner(const TrainConfig& config, SampleSource& source) {
  if (config.objective == ObjectiveKind::kLora) return make_lora_learner(config, source);
  return std::make_unique<ModelLearner>(config, source);
}

}  // namespace slip
