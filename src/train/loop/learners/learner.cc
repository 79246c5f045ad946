// SPDX-License-Identifier: Apache-2.0
// A whole model under a teacher-forced objective; contract in learner.h.
#include "train/loop/learners/learner.h"

#include <algorithm>
#include <optional>

#include "base/interrupt.h"
#include "base/standard_streams.h"
#include "train/data/init_vocabulary.h"
#include "train/loop/batcher.h"
#include "train/model/model_torch.h"

namespace slip {
namespace {

class ModelLearner : public Learner {
 public:
  ModelLearner(const TrainConfig& c, SampleSource& source)
      : c_(c), source_(source), model_(c.shape, c.precision, {.device = c.device}), batches_(source, c) {
    model_.set_recompute(c.recompute);
    model_.keep(c.adamw.frozen);
  }
  const ParameterTable& table() const override { return model_.table(); }
  std::span<float> values() override { return model_.values<float>(); }
  std::span<float> gradients() override { return model_.gradients<float>(); }

  /// What checkpoints take over from "init" (save_model) is there before the first step.
  Status open() override {
    SLIP_TRY_(check_names(source_, c_));
    if (!c_.shape.vit || c_.init.empty()) return {};
    const auto stored = Checkpoint::open_folder(c_.init);
    return stored ? Status() : Status(stored.error());
  }

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

  Status make_held_out() override { return batches_.make_held_out(); }

  /// Minus the loss of the validation samples.
  Result<double> validate() override {
    double sum = 0;
    for (const RowBatch& part : batches_.held_out().parts) {
      SLIP_TRY_(check_interrupt());
      if (!part.terms.empty()) sum += model_.loss(part).total();
    }
    return -sum / std::max(batches_.held_out().count, 1.0);
  }

  Result<LearnedStep> learn(int64_t number) override {
    ShardSum sum(*c_.processes, c_.range());
    const Result<StepBatches> step = batches_.next(number);
    if (!step) return sum.fail(step.error());
    size_t part = 0;
    for (int64_t shard = sum.range().first; shard < sum.range().last; ++shard) {
      model_.clear_gradients();
      ShardSum::Numbers numbers{};
      if (shard == sum.range().first) numbers[kSamples] = static_cast<double>(step->samples);
      for (; part < step->parts.size() && step->shard[part] == shard; ++part) learn_part(step->parts[part], numbers);
      sum.add(gradients(), numbers);
    }
    SLIP_TRY(const ShardSum::Numbers all, sum.finish(gradients()));
    const double count = std::max(all[kCount], 1.0);  // 0: noise that masked nothing, and no next-token loss
    const auto one = static_cast<float>(1 / count);
    for (float& g : gradients()) g *= one;
    return LearnedStep{.loss = (all[kNoisy] + all[kAr]) / count,
                       .noisy = all[kNoisyWeight] > 0 ? all[kNoisy] / all[kNoisyWeight] : 0,
                       .ar = all[kArWeight] > 0 ? all[kAr] / all[kArWeight] : 0,
                       .samples = static_cast<int64_t>(all[kSamples])};
  }

 private:
  enum Number : size_t { kCount, kNoisy, kAr, kNoisyWeight, kArWeight, kSamples };

  void learn_part(const RowBatch& part, ShardSum::Numbers& numbers) {
    if (part.terms.empty()) return;
    const LossSums s = model_.forward_backward(part, 1);
    numbers[kCount] += part.count;
    numbers[kNoisy] += s.noisy;
    numbers[kAr] += s.ar;
    for (const LossTerm& t : part.terms) numbers[t.noisy ? kNoisyWeight : kArWeight] += t.weight;
  }

  const TrainConfig& c_;
  SampleSource& source_;
  TrainModel model_;
  LearnerBatches batches_;
};

}  // namespace

std::unique_ptr<Learner> make_learner(const TrainConfig& config, SampleSource& source) {
  switch (config.objective) {
    case ObjectiveKind::kLora:
      return make_lora_learner(config, source);
    case ObjectiveKind::kLoraAll:
      return make_lora_all_learner(config, source);
    case ObjectiveKind::kDflash:
      return make_dflash_learner(config, source);
    case ObjectiveKind::kCommitSampler:
      return make_commit_learner(config, source);
    case ObjectiveKind::kBlockPilot:
      return make_pilot_learner(config, source);
    case ObjectiveKind::kTrajectory:
      return make_flow_learner(config, source);
    default:
      return std::make_unique<ModelLearner>(config, source);
  }
}

}  // namespace slip
