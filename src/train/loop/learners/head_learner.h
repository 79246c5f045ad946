// SPDX-License-Identifier: Apache-2.0
// What the learners of heads share: a frozen target, samples by number, a network's buffers. Each kind's "objective" keys stand on top of its
// own file (dflash_learner.cc, commit_learner.cc, pilot_learner.cc, flow_learner.cc); all of them may have
//   "scenes": N    the same N samples come again and again, and what the target makes of them is kept in memory; 0 (default): always new ones
#pragma once
#include <functional>
#include <map>
#include <memory>
#include <string>

#include "base/philox.h"
#include "train/heads/network.h"
#include "train/heads/target.h"
#include "train/loop/learners/learner.h"

namespace slip {

class HeadLearner : public Learner {
 public:
  HeadLearner(const TrainConfig& c, SampleSource& source) : c_(c), source_(source) {}
  const ParameterTable& table() const override { return network().table(); }
  std::span<float> values() override { return network().values<float>(); }
  std::span<float> gradients() override { return network().gradients<float>(); }
  Status start(bool quiet) override;
  bool writes_a_model() const override { return false; }

 protected:
  virtual HeadNetwork& network() const = 0;
  /// What a shard's samples add up to, beside the gradient of `loss`.
  struct Sums {
    double loss = 0, count = 0;
  };
  /// A step shard by shard, whoever has which (parallel/shard_sum.h): `part(first, last)` gives the sums of samples first .. last - 1 and adds
  /// the gradient of that loss; the step's loss and gradient are divided by the count of all.
  Result<LearnedStep> in_shards(const std::function<Result<Sums>(int64_t first, int64_t last)>& part);
  /// The target, loaded. Threads: of the configuration. Reads "scenes", which every kind's objective may have.
  Status load_target();
  Target& target() { return *target_; }

  int64_t samples_of_step() const { return c_.batch * c_.accumulate; }
  /// Sample `i` of a step, or of the validation set where step is 0; check_sample has seen it.
  Result<Sample> sample(int64_t step, int64_t i);
  int64_t index_of(int64_t step, int64_t i) const;
  /// What the frozen target made of a sample, by the sample's number. Kept where it comes again: validation's samples always, those of
  /// steps where there are "scenes" of them.
  template <class T>
  class Kept {
   public:
    template <class Make>
    Result<const T*> get(const HeadLearner& learner, int64_t step, int64_t i, Make make) {
      const int64_t index = learner.index_of(step, i);
      const auto known = all_.find(index);
      if (known != all_.end()) return &known->second;
      SLIP_TRY(T made, make());
      if (step == 0 || learner.scenes_ > 0) return &all_.emplace(index, std::move(made)).first->second;
      last_ = std::move(made);
      return &last_;
    }

   private:
    std::map<int64_t, T> all_;
    T last_;  // of a sample that does not come again
  };
  /// A stream of its own for (step, i); step 0: of validation.
  PhiloxStream stream(int64_t step, int64_t i, uint32_t purpose) const;

  /// Keys of the kind's objective, with bounds; `where`: "objective".
  Status only_keys(std::initializer_list<std::string_view> known) const;
  Result<int32_t> whole(std::string_view key, int64_t other, int64_t least, int64_t most) const;
  Result<double> real(std::string_view key, double other, double least, double most) const;
  /// Layers like the target's own: "layers", "heads", "kv_heads", "head_dim", "intermediate_size" of the objective, else the target's.
  Result<Qwen3Shape> qwen3_shape(int32_t layers) const;

  /// A tensor of the target's folder.
  Result<Constant> tensor(std::initializer_list<std::string> names) const;
  Result<Constant> embedding() const;
  /// The head's matrix; the embedding where they are tied.
  Result<Constant> head() const;
  /// model.safetensors of the table's parameters and more, in the configuration's type.
  Status save(const std::filesystem::path& file, std::span<const float> values,
              const std::vector<std::pair<std::string, const Constant*>>& more = {}) const;

  const TrainConfig& c_;
  SampleSource& source_;

 private:
  std::unique_ptr<Target> target_;
  int64_t scenes_ = 0;  // so many samples, again and again; 0: every step has new ones
};

}  // namespace slip
