// SPDX-License-Identifier: Apache-2.0
// BlockPilot's classifier under training (train/heads/pilot_network.h), with the enumeration that it learns from. Keys of its objective:
//   {"width": 2048, "depth": 2, "radius": 2, "dropout": 0.2, "input": "raw" | "softmax" | "normalised", "drafter": "diffusion" | "dflash:DIR",
//    "block": 8, "label": "tokens" | "rate"}
// Every prompt is answered once per block b in own - radius .. own + radius by the exact decoder with that drafter; tokens per round (or, with
// "rate", per millisecond, which makes a run depend on the clock) are compared, and the label is the best block's class, the smallest of
// equal ones. own: the head's block, or "block" for diffusion. Enumerations are kept for the run. Training and validation are different
// scenes where the data's numbers are scenes: keep their ranges apart.
// The engine reads raw logits: other inputs are for studies and are not published. Validation: mean tokens per round of the classifier's
// picks over that of the best fixed block. The checkpoint is a folder with model.safetensors for blockpilot:FILE.
#include <algorithm>
#include <map>
#include <numeric>

#include "base/file.h"
#include "base/interrupt.h"
#include "decode/types/presets.h"
#include "models/draft/block_pilot.h"
#include "models/draft/dflash.h"
#include "train/heads/pilot_network.h"
#include "train/loop/learners/head_learner.h"

namespace slip {
namespace {

class PilotLearner final : public HeadLearner {
 public:
  using HeadLearner::HeadLearner;

  Status open() override {
    SLIP_TRY_(only_keys({"width", "depth", "radius", "dropout", "input", "drafter", "block", "label"}));
    SLIP_TRY_(load_target());
    PilotShape s;
    s.vocab = target().lm().info().vocab;
    marks_ = block_pilot_marks(target().model());
    SLIP_TRY(s.width, whole("width", 2048, 1, 1 << 14));
    SLIP_TRY(s.depth, whole("depth", 2, 1, 16));
    SLIP_TRY(radius_, whole("radius", 2, 1, 16));
    SLIP_TRY(s.dropout, real("dropout", 0.2, 0, 0.99));
    s.classes = 2 * radius_ + 1;
    SLIP_TRY(const std::string input, string_or(c_.head, "input", "raw", "objective"));
    if (input != "raw" && input != "softmax" && input != "normalised")
      return bad_input("objective: input: expected \"raw\", \"softmax\" or \"normalised\", got \"{}\"", input);
    input_ = input == "raw" ? PilotInput::kRaw : input == "softmax" ? PilotInput::kSoftmax : PilotInput::kNormalised;
    SLIP_TRY(const std::string label, string_or(c_.head, "label", "tokens", "objective"));
    if (label != "tokens" && label != "rate")
      return bad_input("objective: label: expected \"tokens\" or \"rate\", got \"{}\"", label);
    by_rate_ = label == "rate";
    SLIP_TRY(own_, whole("block", 8, 2, 64));
    SLIP_TRY_(read_drafter());
    if (own_ - radius_ < 2) return bad_input("objective: radius: expected blocks of at least 2 rows, got {} - {}", own_, radius_);
    network_ = std::make_unique<PilotNetwork>(s, Precision::kF32);
    return {};
  }

  Result<LearnedStep> learn(int64_t step) override {
    return in_shards([&](int64_t first, int64_t last) -> Result<Sums> {
      const PilotShape& s = network_->shape();
      std::vector<float> inputs;
      std::vector<int32_t> labels;
      std::vector<uint8_t> keep;
      for (int64_t i = first; i < last; ++i) {
        SLIP_TRY(const Example* e, example(step, i));
        inputs.insert(inputs.end(), e->input.begin(), e->input.end());
        labels.push_back(pilot_label(e->value));
        PhiloxStream draw = stream(step, i, 1);
        for (int32_t k = 0; k < s.width; ++k) keep.push_back(draw.uniform() >= s.dropout);
      }
      const auto n = static_cast<double>(last - first);  // the network's loss is a mean
      const auto kept = s.dropout > 0 ? std::span<const uint8_t>(keep) : std::span<const uint8_t>();
      return Sums{.loss = n * network_->loss(inputs, labels, kept, n), .count = n};
    });
  }

  Result<double> validate() override {
    std::vector<double> fixed(static_cast<size_t>(network_->shape().classes), 0);
    double picked = 0;
    for (int64_t i = 0; i < c_.validation.samples; ++i) {
      SLIP_TRY_(check_interrupt());
      SLIP_TRY(const Example* e, example(0, i));
      const std::vector<int32_t> any{0};
      std::vector<double> z;
      network_->loss(e->input, any, {}, 0, &z);
      picked += e->tokens[static_cast<size_t>(pilot_label(z))];
      for (size_t k = 0; k < fixed.size(); ++k) fixed[k] += e->tokens[k];
    }
    const double best = *std::max_element(fixed.begin(), fixed.end());
    return best > 0 ? picked / best : 0;
  }

  Status publish(const std::filesystem::path& folder, std::span<const float> values) const override {
    json::object config{{"model_type", "blockpilot"},
                        {"block", own_},
                        {"radius", radius_},
                        {"drafter", drafter_},
                        {"vocab_size", network_->shape().vocab}};
    for (const auto& mark : marks_) config.insert(mark);
    SLIP_TRY_(write_file(folder / "config.json", pretty(config)));
    return save(folder / "model.safetensors", values);
  }

 protected:
  HeadNetwork& network() const override { return *network_; }

 private:
  struct Example {
    std::vector<float> input;
    std::vector<double> tokens, value;  // by class: tokens per round; what is compared
  };

  Status read_drafter() {
    SLIP_TRY(drafter_, string_or(c_.head, "drafter", "diffusion", "objective"));
    if (drafter_ == "diffusion") return {};
    if (!drafter_.starts_with("dflash:"))
      return bad_input("objective: drafter: expected \"diffusion\" or \"dflash:DIR\", got \"{}\"", drafter_);
    constexpr int32_t kBlockSlots = 256;
    SLIP_TRY(head_, load_dflash(drafter_.substr(7), target().model(), kBlockSlots));
    own_ = head_->info().block;
    return {};
  }

  Result<const Example*> example(int64_t step, int64_t i) {
    const auto known = examples_.find(index_of(step, i));
    if (known != examples_.end()) return &known->second;
    SLIP_TRY(const Sample s, sample(step, i));
    SLIP_TRY(const Prompt prompt, target().prompt(s));
    Example e;
    SLIP_TRY(const std::vector<float> z, target().last_logits(prompt));
    e.input = pilot_input(z, input_);
    for (int32_t b = own_ - radius_; b <= own_ + radius_; ++b) {
      SLIP_TRY(const Statistics st, answered(s, prompt, b));
      const double drawn = static_cast<double>(st.tokens - st.forced_tokens),
                   rounds = static_cast<double>(std::max<int64_t>(1, st.rounds));
      e.tokens.push_back(drawn / rounds);
      e.value.push_back(by_rate_ ? drawn / std::max(1e-6, st.ms.total) : e.tokens.back());
    }
    return &examples_.emplace(index_of(step, i), std::move(e)).first->second;
  }

  /// What an answer with blocks of `b` rows cost.
  Result<Statistics> answered(const Sample& s, const Prompt& prompt, int32_t b) {
    SLIP_TRY(Method method, method_of(head_ ? preset("dflash") : preset("self-spec")));
    if (s.form) method.schedule = Schedule::kChain;
    method.draft_length = {
        DraftLengthSpec::Kind::kFixed, head_ ? b - 1 : b, {}};  // the anchor is a row of diffusion's blocks, and no draft
    DecodeContext context;
    context.draft_head = head_.get();
    SLIP_TRY(const Decoded answer, target().decode(s, prompt, std::move(method), context));
    return answer.statistics;
  }

  json::object marks_;  // of the target
  std::unique_ptr<PilotNetwork> network_;
  std::unique_ptr<DFlashHead> head_;
  std::map<int64_t, Example> examples_;
  PilotInput input_ = PilotInput::kRaw;
  std::string drafter_;
  int32_t radius_ = 2, own_ = 8;
  bool by_rate_ = false;
};

}  // namespace

std::unique_ptr<Learner> make_pilot_learner(const TrainConfig& config, SampleSource& source) {
  return std::make_unique<PilotLearner>(config, source);
}

}  // namespace slip
