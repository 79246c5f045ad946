// SPDX-License-Identifier: Apache-2.0
// A draft adapter under training: a step's samples are examples (lora_example.h), one thread per example, each with its own arena and
// gradients. Gradients are added sample by sample in order within a shard, shards in their tree: the same bits whatever the number of threads
// and processes.
#include <atomic>
#include <exception>
#include <functional>
#include <optional>
#include <thread>

#include "base/interrupt.h"
#include "base/threads/threads.h"
#include "train/loop/batcher.h"
#include "train/loop/learners/learner.h"
#include "train/loop/learners/lora_example.h"

namespace slip {
namespace {

class LoraLearner : public Learner {
 public:
  LoraLearner(const TrainConfig& c, SampleSource& source) : c_(c), base_(c.shape, c.precision), batches_(source, c) {
    const DraftRule draft{.shift = c.diffusion_shift,
                          .has_mask = c.shape.mask_token >= 0,
                          .mask = TokenId{c.shape.mask_token},
                          .block_size = c.lora_rule.width};
    lms_.push_back(std::make_unique<LoraLm>(base_, c.lora_rule, draft));
    const int threads = c.threads > 0 ? c.threads : usable_threads();
    while (lms_.size() < static_cast<size_t>(std::min<int64_t>(threads, c.batch * c.accumulate)))
      lms_.push_back(LoraLm::beside(*lms_[0]));
    for (const auto& lm : lms_) examples_.push_back(std::make_unique<LoraExample>(*lm, c.lora_rule));
  }

  const ParameterTable& table() const override { return lms_[0]->table().table; }
  std::span<float> values() override { return lms_[0]->values<float>(); }
  std::span<float> gradients() override { return sum_; }

  Status open() override {
    sum_.resize(static_cast<size_t>(table().size));
    SLIP_TRY(const Checkpoint stored, Checkpoint::open_folder(c_.init));
    return load_weights(stored, base_.table(), base_.values<float>());
  }

  Status start(bool) override {
    random_weights(table(), c_.seed, 1.0, values());
    return {};
  }

  Status make_held_out() override { return batches_.make_held_out(); }

  /// The share of tested drafts that held in the validation samples' answers, as the deployed loop drafts them: greedily, whatever share of
  /// the training's blocks is drawn.
  Result<double> validate() override {
    const StepBatches& held_out = batches_.held_out();
    std::vector<std::optional<Result<LoraSums>>> done(held_out.parts.size());
    for_each_part(held_out, [&](size_t worker, size_t i) {
      const Status wanted = check_interrupt();
      done[i] = wanted ? examples_[worker]->measure(held_out.parts[i], held_out.tasks[i], true) : Result<LoraSums>(wanted.error());
    });
    double tested = 0, accepted = 0;
    for (const auto& d : done) {
      if (!*d) return d->error();
      tested += static_cast<double>((*d)->tested);
      accepted += static_cast<double>((*d)->accepted);
    }
    return tested > 0 ? accepted / tested : 0;
  }

  Result<LearnedStep> learn(int64_t number) override {
    ShardSum sum(*c_.processes, c_.range());
    const Result<StepBatches> step = batches_.next(number);
    if (!step) return sum.fail(step.error());
    if (const Status s = run_all(*step, sum); !s) return sum.fail(s.error());
    SLIP_TRY(const ShardSum::Numbers all, sum.finish(sum_));
    const double units = std::max(1.0, all[kUnits]);
    for (float& g : sum_) g = static_cast<float>(g / units);
    const LkRule& lk = c_.lora_rule.lk;
    return LearnedStep{.loss = (lk.lk_weight * all[kLk] + lk.ce_weight * all[kCe]) / units,
                       .noisy = all[kLk] / units,
                       .ar = all[kCe] / units,
                       .samples = static_cast<int64_t>(all[kSamples]),
                       .acceptance = all[kTested] > 0 ? all[kAccepted] / all[kTested] : 0};
  }

 private:
  struct Done {
    LoraSums sums;
    std::vector<float> gradient;
  };

  Result<Done> example(size_t worker, const RowBatch& prompt, const LoraTask& task) {
    LoraLm& lm = *lms_[worker];
    lm.clear_gradients();
    SLIP_TRY(const LoraSums sums, examples_[worker]->run(prompt, task));
    const auto g = lm.gradients<float>();
    return Done{sums, {g.begin(), g.end()}};
  }

  enum Number : size_t { kUnits, kLk, kCe, kTested, kAccepted, kSamples };

  /// A shard's examples, added in order.
  void add_shard(std::span<std::optional<Result<Done>>> done, ShardSum& sum) {
    std::fill(sum_.begin(), sum_.end(), 0.0F);
    ShardSum::Numbers numbers{};
    for (auto& d : done) {
      const LoraSums& s = (*d)->sums;
      numbers[kUnits] += static_cast<double>(c_.lora_rule.by_blocks ? s.blocks : s.positions);
      numbers[kLk] += s.lk;
      numbers[kCe] += s.ce;
      numbers[kTested] += static_cast<double>(s.tested);
      numbers[kAccepted] += static_cast<double>(s.accepted);
      numbers[kSamples] += 1;
      add_into(sum_, (*d)->gradient);
    }
    sum.add(sum_, numbers);
  }

  /// `part(worker, i)` for every part, by as many threads as there are models.
  void for_each_part(const StepBatches& step, const std::function<void(size_t worker, size_t i)>& part) {
    std::atomic<size_t> next{0};
    std::vector<std::exception_ptr> thrown(lms_.size());
    const auto work = [&](size_t worker) {
      try {
        TrainModel::set_threads(1);
        for (size_t i = next++; i < step.parts.size(); i = next++) part(worker, i);
      } catch (...) {
        thrown[worker] = std::current_exception();
      }
    };
    {
      std::vector<std::jthread> threads;
      for (size_t w = 0; w < lms_.size(); ++w) threads.emplace_back(work, w);
    }
    for (const auto& e : thrown)
      if (e) std::rethrow_exception(e);
  }

  Status run_all(const StepBatches& step, ShardSum& sum) {
    std::vector<std::optional<Result<Done>>> done(step.parts.size());
    for_each_part(step, [&](size_t worker, size_t i) { done[i] = example(worker, step.parts[i], step.tasks[i]); });
    for (const auto& d : done)
      if (!*d) return d->error();
    size_t at = 0;
    for (int64_t shard = sum.range().first; shard < sum.range().last; ++shard) {
      const size_t begin = at;
      while (at < done.size() && step.shard[at] == shard) ++at;
      add_shard(std::span(done).subspan(begin, at - begin), sum);
    }
    return {};
  }

  const TrainConfig& c_;
  TrainModel base_;
  std::vector<std::unique_ptr<LoraLm>> lms_;
  std::vector<std::unique_ptr<LoraExample>> examples_;
  std::vector<float> sum_;
  LearnerBatches batches_;
};

}  // namespace

std::unique_ptr<Learner> make_lora_learner(const TrainConfig& config, SampleSource& source) {
  return std::make_unique<LoraLearner>(config, source);
}

}  // namespace slip
