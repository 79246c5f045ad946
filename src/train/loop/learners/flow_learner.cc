// SPDX-License-Identifier: Apache-2.0
// A flow-matching trajectory head under training (train/heads/flow_network.h). Keys of its objective:
//   {"rows": 64, "encoder": 128, "features": 20, "max_frequency": 100, "steps": 10, "answers": "target" | "data" | "none", "scale_samples": 64,
//    "until": SECTION, "cut": false, "hidden_size", "intermediate_size": of the head's layers, else the target's}
// The head has as many layers as the target and reads, layer by layer, the keys and values that the target's pass over the prompt and its
// reasoning left in the cache: the target's own greedy answer, the data's, or none. Rows are steps of 0.1 s of the expert's future, (dx, dy,
// dyaw), divided by their deviation over the first `scale_samples` samples less their mean. Noise and time are keyed by (seed, step, sample).
// "until": the answer is read up to this section of its form (the plan itself, say); absent: to its end. "cut": each sample is read up to a
// drawn section's end, the prompt alone among them, so that one head plans from what is decided so far.
// Samples whose future nobody recorded are neither learned nor scored. Imported records know 5 s of it: "rows" is 50 at most for them.
// Under graph visibility the keys are those that a further field would see whose ancestors are all fields of what is read.
// Validation: minus the mean displacement error at 3 s of trajectories sampled from keyed noise, metres.
// The checkpoint is a folder for a FlowHead (models/draft/flow_head.h).
#include <algorithm>
#include <cmath>
#include <numeric>

#include "base/file.h"
#include "base/interrupt.h"
#include "form/schema/values.h"
#include "train/heads/flow_network.h"
#include "train/loop/learners/head_learner.h"
#include "train/objective/objective.h"

namespace slip {
namespace {

constexpr int32_t kAction = 3, kRowsAt3s = 30;  // rows of 0.1 s

class FlowLearner final : public HeadLearner {
 public:
  using HeadLearner::HeadLearner;

  Status open() override {
    SLIP_TRY_(only_keys({"rows", "encoder", "features", "max_frequency", "steps", "answers", "scale_samples", "hidden_size",
                         "intermediate_size", "until", "cut"}));
    SLIP_TRY_(load_target());
    DecoderLm* decoder = target().model().decoder();
    if (decoder == nullptr) return unsupported("{}: expected a target on the processor, got one on a device", c_.target);
    const DecoderOptions& o = decoder->options();
    FlowShape s;
    SLIP_TRY(s.layers, qwen3_shape(o.layers));
    s.layers.heads = o.heads;
    s.layers.kv_heads = o.kv_heads;
    s.layers.head_dim = o.head_width;
    s.layers.rope_theta = o.rope.theta;  // the keys that it reads are rotated so
    SLIP_TRY(s.layers.hidden, whole("hidden_size", s.layers.hidden, 1, 1 << 14));
    SLIP_TRY(s.rows, whole("rows", 64, 1, 64));
    s.action = kAction;
    SLIP_TRY(s.encoder, whole("encoder", 128, 1, 1 << 14));
    SLIP_TRY(s.features, whole("features", 20, 2, 1024));
    if (s.features % 2 != 0) return bad_input("objective: features: expected an even number, got {}", s.features);
    SLIP_TRY(s.max_frequency, real("max_frequency", 100, 1, 1e6));
    SLIP_TRY(s.steps, whole("steps", 10, 1, 1000));
    SLIP_TRY(answers_, string_or(c_.head, "answers", "target", "objective"));
    if (answers_ != "target" && answers_ != "data" && answers_ != "none")
      return bad_input("objective: answers: expected \"target\", \"data\" or \"none\", got \"{}\"", answers_);
    SLIP_TRY(until_, string_or(c_.head, "until", "", "objective"));
    SLIP_TRY(cut_, bool_or(c_.head, "cut", false, "objective"));
    if (answers_ == "none" && (cut_ || !until_.empty()))
      return bad_input("objective: answers: expected \"target\" or \"data\" with \"until\" or \"cut\", got \"none\"");
    network_ = std::make_unique<FlowNetwork>(s, Precision::kF32);
    SLIP_TRY(const int32_t scale_samples, whole("scale_samples", 64, 1, 1 << 16));
    return read_scale(scale_samples);
  }

  Result<LearnedStep> learn(int64_t step) override {
    return in_shards([&](int64_t first, int64_t last) -> Result<Sums> {
      Sums sums;
      for (int64_t i = first; i < last; ++i) {
        SLIP_TRY(const Seen* seen, seen_.get(*this, step, i, [&] { return see(step, i); }));
        if (!seen->knows_future()) continue;
        FlowSample f{.prefix = read_part(*seen, stream(step, i, 1)), .action = seen->action, .noise = {}};
        PhiloxStream draw = stream(step, i, 0);
        f.noise = gaussians(draw, f.action.size());
        f.t = .999 - .999 * beta_quantile(1.5, 1, draw.uniform());
        sums.loss += network_->loss(f, 1);
        sums.count += 1;
      }
      return sums;
    });
  }

  Result<double> validate() override {
    double error = 0, count = 0;
    for (int64_t i = 0; i < c_.validation.samples; ++i) {
      SLIP_TRY_(check_interrupt());
      SLIP_TRY(const Seen* seen, seen_.get(*this, 0, i, [&] { return see(0, i); }));
      if (!seen->knows_future()) continue;
      const FlowPrefix p = read_part(*seen, stream(0, i, 1));
      PhiloxStream draw = stream(0, i, 0);
      const size_t n = static_cast<size_t>(network_->shape().rows) * kAction;
      const std::vector<double> steps = network_->sample(p, gaussians(draw, n));
      error += displacement(*seen, std::span(steps).last(n));
      ++count;
    }
    if (count == 0)
      return bad_input("validation: expected samples that know their future, got {} that do not", c_.validation.samples);
    return -error / count;
  }

  Status publish(const std::filesystem::path& folder, std::span<const float> values) const override {
    const FlowShape& s = network_->shape();
    const Qwen3Shape& l = s.layers;
    const json::object config{{"model_type", "flow_head"},
                              {"hidden_size", l.hidden},
                              {"intermediate_size", l.ffn},
                              {"num_hidden_layers", l.layers},
                              {"num_attention_heads", l.heads},
                              {"num_key_value_heads", l.kv_heads},
                              {"head_dim", l.head_dim},
                              {"rms_norm_eps", l.eps},
                              {"rope_theta", l.rope_theta},
                              {"rows", s.rows},
                              {"row_s", 0.1},
                              {"action_width", s.action},
                              {"encoder_width", s.encoder},
                              {"fourier_features", s.features},
                              {"max_frequency", s.max_frequency},
                              {"euler_steps", s.steps},
                              {"reads", answers_ == "none" ? "prompt"
                                        : cut_             ? "sections"
                                                           : "answer"},
                              {"until", until_},
                              {"visibility", graph_ ? "graph" : "chain"},
                              {"action_mean", json::value_from(mean_)},
                              {"action_deviation", json::value_from(deviation_)}};
    SLIP_TRY_(write_file(folder / "config.json", pretty(config)));
    return save(folder / "model.safetensors", values);
  }

 protected:
  HeadNetwork& network() const override { return *network_; }

 private:
  /// A sample as the head sees it: what it reads, in whole; where the answer's sections end; the normalised truth.
  struct Seen {
    FlowPrefix prefix;
    std::vector<FlowPrefix> ends;  // rows and positions alone; the prompt's first
    std::vector<float> action;     // empty where nobody recorded it: such a sample is neither learned nor scored
    bool knows_future() const { return !action.empty(); }
  };

  static std::vector<float> gaussians(PhiloxStream& draw, size_t count) {
    std::vector<float> out;
    while (out.size() < count) {
      const double r = std::sqrt(-2 * std::log(1 - draw.uniform())), angle = 2 * M_PI * draw.uniform();
      out.push_back(static_cast<float>(r * std::cos(angle)));
      out.push_back(static_cast<float>(r * std::sin(angle)));
    }
    out.resize(count);
    return out;
  }

  Status check_future(const Sample& s) const {
    const size_t needed = static_cast<size_t>(network_->shape().rows) * kAction;
    if (s.future.size() >= needed) return {};
    return unsupported("data: expected samples with {} steps of a trajectory, got {}", network_->shape().rows,
                       s.future.size() / kAction);
  }

  Status read_scale(int32_t samples) {
    std::vector<double> sum(kAction, 0), squares(kAction, 0);
    double count = 0;
    for (int32_t i = 0; i < samples; ++i) {
      SLIP_TRY(const Sample s, source_.get(c_.first_sample + i));
      graph_ = s.graph != nullptr;
      if (s.future.empty()) continue;
      SLIP_TRY_(check_future(s));
      for (int32_t r = 0; r < network_->shape().rows; ++r)
        for (size_t k = 0; k < kAction; ++k) {
          const double x = static_cast<double>(s.future[static_cast<size_t>(r) * kAction + k]);
          sum[k] += x;
          squares[k] += x * x;
        }
      count += network_->shape().rows;
    }
    if (count == 0)
      return unsupported("data: expected samples with {} steps of a trajectory, got none among the first {}",
                         network_->shape().rows, samples);
    for (size_t k = 0; k < kAction; ++k) {
      mean_.push_back(sum[k] / count);
      deviation_.push_back(std::sqrt(std::max(1e-8, squares[k] / count - mean_[k] * mean_[k])));
    }
    return {};
  }

  Result<std::vector<float>> normalised(const Sample& s) const {
    SLIP_TRY_(check_future(s));
    std::vector<float> out;
    for (int32_t i = 0; i < network_->shape().rows * kAction; ++i) {
      const auto k = static_cast<size_t>(i % kAction);
      out.push_back(static_cast<float>((static_cast<double>(s.future[static_cast<size_t>(i)]) - mean_[k]) / deviation_[k]));
    }
    return out;
  }

  /// Mean distance over the first 3 s (or as far as the rows go) between a sampled and the true path.
  double displacement(const Seen& s, std::span<const double> action) const {
    double x = 0, y = 0, tx = 0, ty = 0, error = 0;
    const int32_t n = std::min(kRowsAt3s, network_->shape().rows);
    for (int32_t i = 0; i < n; ++i) {
      const size_t at = static_cast<size_t>(i) * kAction;
      x += action[at] * deviation_[0] + mean_[0];
      y += action[at + 1] * deviation_[1] + mean_[1];
      tx += static_cast<double>(s.action[at]) * deviation_[0] + mean_[0];
      ty += static_cast<double>(s.action[at + 1]) * deviation_[1] + mean_[1];
      error += std::hypot(x - tx, y - ty) / n;
    }
    return error;
  }

  /// How many sections of the form are read.
  Result<size_t> sections_read(const Form& form) const {
    if (until_.empty()) return form.sections().size();
    for (size_t k = 0; k < form.sections().size(); ++k)
      if (form.sections()[k].name == until_) return k;
    return bad_input("objective: until: expected a section of form {}, got \"{}\"", form.name(), until_);
  }

  /// A chain's answer up to the section `until`, and where its sections end.
  Status cut_answer(const Sample& s, const Prompt& prompt, std::vector<TokenId>& answer, std::vector<FlowPrefix>& ends) const {
    const auto end_at = [&](int32_t tokens) {
      ends.push_back({.rows = static_cast<int32_t>(prompt.inputs.size()) + tokens, .position = prompt.next_position + tokens});
    };
    end_at(0);
    if (until_.empty() && !cut_) return {};
    if (!s.form) return unsupported("objective: until, cut: expected samples with a form, got free text");
    SLIP_TRY(const size_t sections, sections_read(*s.form));
    SLIP_TRY(const auto contents, split_answer(*s.form, answer));
    int32_t tokens = 0;
    for (size_t k = 0; k < sections; ++k) end_at(tokens = tokens_before(*s.form, contents, s.form->sections()[k].end));
    answer.resize(static_cast<size_t>(tokens));
    return {};
  }

  Result<Seen> see(int64_t step, int64_t i) {
    SLIP_TRY(const Sample s, sample(step, i));
    Seen seen;
    if (s.future.empty()) return seen;
    SLIP_TRY(seen.action, normalised(s));
    SLIP_TRY_(s.graph ? see_graph(s, seen) : see_chain(s, seen));
    return seen;
  }

  Status see_chain(const Sample& s, Seen& seen) {
    SLIP_TRY(const Prompt prompt, target().prompt(s));
    std::vector<TokenId> answer;
    if (answers_ == "data") {
      answer.assign(s.tokens.begin() + static_cast<ptrdiff_t>(prompt.inputs.size()), s.tokens.end());
      // The token that closes the turn is no part of an answer in a form.
      if (s.form && !s.always_masked.empty() && s.always_masked.back()) answer.pop_back();
    }
    if (answers_ == "target") {
      SLIP_TRY(answer, target().answer(s, prompt));
    }
    SLIP_TRY_(cut_answer(s, prompt, answer, seen.ends));
    SLIP_TRY(const std::vector<float> none, target().run(prompt, answer, {}));
    std::vector<int32_t> slots(prompt.inputs.size() + answer.size());
    std::iota(slots.begin(), slots.end(), 0);
    take_keys(slots, prompt.next_position + static_cast<int32_t>(answer.size()), seen.prefix);
    return {};
  }

  Status see_graph(const Sample& s, Seen& seen) {
    const Form& form = s.graph->form;
    SLIP_TRY(const Prompt prompt, target().graph_prompt(s));
    std::vector<std::vector<TokenId>> contents = s.contents;
    if (answers_ == "target") {
      SLIP_TRY(contents, target().graph_contents(s, prompt));
    }
    SLIP_TRY(GraphKeys keys, target().run_graph(s, prompt, contents));
    size_t sections = 0;
    if (answers_ != "none") {
      SLIP_TRY(sections, sections_read(form));
    }
    seen.ends.push_back({.rows = static_cast<int32_t>(prompt.inputs.size()), .position = prompt.next_position});
    for (size_t k = 0; k < sections; ++k)
      seen.ends.push_back({.rows = keys.ends[k], .position = prompt.next_position + form.sections()[k].end});
    keys.slots.resize(static_cast<size_t>(seen.ends.back().rows));
    take_keys(keys.slots, seen.ends.back().position, seen.prefix);
    return {};
  }

  /// What the target's arena holds in these slots.
  void take_keys(std::span<const int32_t> slots, int32_t position, FlowPrefix& p) {
    p.rows = static_cast<int32_t>(slots.size());
    p.position = position;
    const KvArena& arena = target().model().decoder()->arena();
    const Qwen3Shape& l = network_->shape().layers;
    for (int32_t i = 0; i < l.layers; ++i) {
      copy(static_cast<const float*>(arena.keys(i)), arena, slots, l, p.keys);
      copy(static_cast<const float*>(arena.values(i)), arena, slots, l, p.values);
    }
  }

  /// The prefix, or with "cut" the part of it up to a drawn section's end, the prompt's among them: what a pass over that part leaves.
  FlowPrefix read_part(const Seen& seen, PhiloxStream draw) const {
    if (!cut_) return seen.prefix;
    FlowPrefix p = seen.ends[draw.below(static_cast<uint32_t>(seen.ends.size()))];
    const Qwen3Shape& l = network_->shape().layers;
    const auto of_row = static_cast<size_t>(l.kv_heads) * static_cast<size_t>(l.head_dim),
               all = static_cast<size_t>(seen.prefix.rows);
    const auto take = [&](const std::vector<float>& from, std::vector<float>& to) {
      for (size_t i = 0; i < static_cast<size_t>(l.layers); ++i) {
        const auto first = from.begin() + static_cast<ptrdiff_t>(i * all * of_row);
        to.insert(to.end(), first, first + static_cast<ptrdiff_t>(static_cast<size_t>(p.rows) * of_row));
      }
    };
    take(seen.prefix.keys, p.keys);
    take(seen.prefix.values, p.values);
    return p;
  }

  static void copy(const float* from, const KvArena& arena, std::span<const int32_t> slots, const Qwen3Shape& l,
                   std::vector<float>& to) {
    for (const int32_t r : slots)
      for (int32_t g = 0; g < l.kv_heads; ++g) {
        const float* at = from + r * arena.slot_stride() + g * arena.head_stride();
        to.insert(to.end(), at, at + l.head_dim);
      }
  }

  std::unique_ptr<FlowNetwork> network_;
  Kept<Seen> seen_;
  std::string answers_, until_;
  bool cut_ = false, graph_ = false;
  std::vector<double> mean_, deviation_;
};

}  // namespace

std::unique_ptr<Learner> make_flow_learner(const TrainConfig& config, SampleSource& source) {
  return std::make_unique<FlowLearner>(config, source);
}

}  // namespace slip
