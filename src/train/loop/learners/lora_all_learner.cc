// SPDX-License-Identifier: Apache-2.0
// Low-rank adapters on all linear layers of a model [Hu et al., LoRA; OpenVLA's fine-tuning: rank 32, no dropout]. Keys of its objective:
//   {"rank": 32, "alpha": 16, "of": {"kind": "sasd" | "nld" | "graph", ...}}      "of": the objective that is taught; needs "init"
//   W = W0 + alpha / rank B A for every matrix but embeddings and head; W0 and all vectors stay as they are
//   dA = alpha / rank B^T dW,  dB = alpha / rank dW A^T
// A pass runs with W, so it is the model's own, and what the checkpoint publishes is a whole model with the adapters merged, which the engine
// loads as it is; adapter/ beside it has PEFT's files.
#include <algorithm>
#include <cmath>
#include <optional>

#include "base/file.h"
#include "base/interrupt.h"
#include "train/data/known_keys.h"
#include "train/loop/batcher.h"
#include "train/loop/checkpoint.h"
#include "train/loop/learners/learner.h"
#include "train/model/weights.h"
#include "train/parallel/shard_sum.h"

namespace slip {
namespace {

constexpr const char* kWhere = "objective";

/// One matrix: where it lies in the model's values, where its adapters lie in theirs.
struct Adapted {
  int64_t weight = 0, out = 0, in = 0, a = 0, b = 0;
  std::string name;  // without .weight
};

class LoraAllLearner final : public Learner {
 public:
  LoraAllLearner(const TrainConfig& c, SampleSource& source)
      : c_(c), source_(source), model_(c.shape, c.precision, {.device = c.device}) {}
  const ParameterTable& table() const override { return table_; }
  std::span<float> values() override { return values_; }
  std::span<float> gradients() override { return gradients_; }
  bool writes_a_model() const override { return false; }

  Status open() override {
    SLIP_TRY_(read_rule());
    lay_out();
    values_.assign(static_cast<size_t>(table_.size), 0);
    gradients_ = values_;
    SLIP_TRY(const Checkpoint stored, Checkpoint::open_folder(c_.init));
    SLIP_TRY_(load_weights(stored, model_.table(), model_.values<float>()));
    base_.assign(model_.values<float>().begin(), model_.values<float>().end());
    return {};
  }

  /// As PEFT: A is random, B zero.
  Status start(bool) override {
    random_weights(table_, c_.seed, 1.0, values());
    return {};
  }

  Status make_held_out() override { return batches_->make_held_out(); }

  /// Minus the loss of the validation samples with the adapters as they are.
  Result<double> validate() override {
    merge(values_, model_.values<float>());
    double sum = 0;
    for (const RowBatch& part : batches_->held_out().parts) {
      SLIP_TRY_(check_interrupt());
      if (!part.terms.empty()) sum += model_.loss(part).total();
    }
    return -sum / std::max(batches_->held_out().count, 1.0);
  }

  Result<LearnedStep> learn(int64_t number) override {
    enum Number : size_t { kCount, kNoisy, kAr, kSamples };
    ShardSum sum(*c_.processes, inner_->range());
    const Result<StepBatches> step = batches_->next(number);
    if (!step) return sum.fail(step.error());
    merge(values_, model_.values<float>());
    size_t part = 0;
    for (int64_t shard = sum.range().first; shard < sum.range().last; ++shard) {
      model_.clear_gradients();
      ShardSum::Numbers numbers{};
      if (shard == sum.range().first) numbers[kSamples] = static_cast<double>(step->samples);
      for (; part < step->parts.size() && step->shard[part] == shard; ++part) {
        const RowBatch& rows = step->parts[part];
        if (rows.terms.empty()) continue;
        const LossSums s = model_.forward_backward(rows, 1);
        numbers[kCount] += rows.count, numbers[kNoisy] += s.noisy, numbers[kAr] += s.ar;
      }
      project();
      sum.add(gradients_, numbers);
    }
    SLIP_TRY(const ShardSum::Numbers all, sum.finish(gradients_));
    const double count = std::max(all[kCount], 1.0);
    for (float& g : gradients_) g = static_cast<float>(g / count);
    return LearnedStep{.loss = (all[kNoisy] + all[kAr]) / count,
                       .noisy = all[kNoisy] / count,
                       .ar = all[kAr] / count,
                       .samples = static_cast<int64_t>(all[kSamples])};
  }

  Status publish(const std::filesystem::path& folder, std::span<const float> values) const override {
    std::vector<float> merged(base_.size());
    merge(values, merged);
    SLIP_TRY_(save_model(c_, model_.table(), merged, folder));
    std::error_code ec;
    std::filesystem::create_directories(folder / "adapter", ec);
    if (ec) return resource_error("{}: expected to create it, got {}", (folder / "adapter").string(), ec.message());
    const json::object adapter{{"peft_type", "LORA"},  {"base_model_name_or_path", c_.init}, {"r", rank_},
                               {"lora_alpha", alpha_}, {"target_modules", "all-linear"},     {"bias", "none"},
                               {"lora_dropout", 0.0}};
    SLIP_TRY_(write_file(folder / "adapter" / "adapter_config.json", pretty(adapter)));
    return save_weights(folder / "adapter" / "adapter_model.safetensors", table_, values, c_.store);
  }

 private:
  Status read_rule() {
    SLIP_TRY_(only_keys(c_.head, {"kind", "rank", "alpha", "of"}, kWhere));
    if (c_.init.empty()) return bad_input("{}: expected \"init\", the model that is adapted, got none", kWhere);
    SLIP_TRY(rank_, int_or(c_.head, "rank", 32, kWhere));
    if (rank_ < 1 || rank_ > 4096) return bad_input("{}: rank: expected 1 to 4096, got {}", kWhere, rank_);
    SLIP_TRY(alpha_, number_or(c_.head, "alpha", 16, kWhere));
    if (!(alpha_ > 0)) return bad_input("{}: alpha: expected above 0, got {}", kWhere, alpha_);
    SLIP_TRY(const json::object* of, get_object(c_.head, "of", kWhere));
    json::object root = c_.source;
    root.erase("kind");
    root["objective"] = *of;
    SLIP_TRY(inner_, TrainConfig::parse(root, "objective: of"));
    inner_->processes = c_.processes;
    batches_.emplace(source_, *inner_);
    const ObjectiveKind kind = inner_->objective;
    if (kind != ObjectiveKind::kSasd && kind != ObjectiveKind::kNld && kind != ObjectiveKind::kGraph)
      return bad_input("{}: of: expected kind \"sasd\", \"nld\" or \"graph\", got \"{}\"", kWhere, word_of(kind));
    return check_names(source_, *inner_);
  }

  void add(const std::string& name, int64_t rows, int64_t columns, InitKind init, int64_t& offset) {
    offset = table_.size = (table_.size + 15) / 16 * 16;
    table_.parameters.push_back({name, {rows, columns}, offset, rows * columns, init, 1 / std::sqrt(static_cast<double>(columns))});
    table_.size += rows * columns;
  }

  void lay_out() {
    constexpr std::string_view kWeight = ".weight";
    for (const Parameter& p : model_.table().parameters) {
      const bool vocabulary = p.offset == model_.table().embed.offset || p.offset == model_.table().head.offset;
      if (p.shape.size() != 2 || vocabulary || !p.name.ends_with(kWeight)) continue;
      Adapted m{.weight = p.offset, .out = p.shape[0], .in = p.shape[1], .name = p.name.substr(0, p.name.size() - kWeight.size())};
      add("base_model.model." + m.name + ".lora_A.weight", rank_, m.in, InitKind::kNormal, m.a);
      add("base_model.model." + m.name + ".lora_B.weight", m.out, rank_, InitKind::kZero, m.b);
      adapted_.push_back(std::move(m));
    }
    table_.size = (table_.size + 15) / 16 * 16;
  }

  float scale() const { return static_cast<float>(alpha_ / static_cast<double>(rank_)); }

  /// to = W0 + scale B A.
  void merge(std::span<const float> adapters, std::span<float> to) const {
    std::copy(base_.begin(), base_.end(), to.begin());
    for (const Adapted& m : adapted_)
      for (int64_t o = 0; o < m.out; ++o) {
        float* row = to.data() + m.weight + o * m.in;
        for (int64_t r = 0; r < rank_; ++r) {
          const float b = scale() * adapters[static_cast<size_t>(m.b + o * rank_ + r)];
          const float* a = adapters.data() + m.a + r * m.in;
          for (int64_t i = 0; i < m.in; ++i) row[i] += b * a[i];
        }
      }
  }

  /// The model's gradients onto A and B.
  void project() {
    std::fill(gradients_.begin(), gradients_.end(), 0.0F);
    const std::span<const float> d = model_.gradients<float>();
    for (const Adapted& m : adapted_)
      for (int64_t o = 0; o < m.out; ++o) {
        const float* row = d.data() + m.weight + o * m.in;
        for (int64_t r = 0; r < rank_; ++r) {
          const float b = scale() * values_[static_cast<size_t>(m.b + o * rank_ + r)];
          const float* a = values_.data() + m.a + r * m.in;
          float* d_a = gradients_.data() + m.a + r * m.in;
          float sum = 0;
          for (int64_t i = 0; i < m.in; ++i) {
            d_a[i] += b * row[i];
            sum += row[i] * a[i];
          }
          gradients_[static_cast<size_t>(m.b + o * rank_ + r)] = scale() * sum;
        }
      }
  }

  const TrainConfig& c_;
  SampleSource& source_;
  TrainModel model_;
  std::optional<TrainConfig> inner_;
  ParameterTable table_;
  std::vector<Adapted> adapted_;
  std::vector<float> values_, gradients_, base_;
  std::optional<LearnerBatches> batches_;  // by inner_
  int64_t rank_ = 32;
  double alpha_ = 16;
};

}  // namespace

std::unique_ptr<Learner> make_lora_all_learner(const TrainConfig& config, SampleSource& source) {
  return std::make_unique<LoraAllLearner>(config, source);
}

}  // namespace slip
