// SPDX-License-Identifier: Apache-2.0
// A commit sampler under training (train/heads/commit_network.h), with the traces that it learns from. Keys of its objective:
//   {"hidden_size": 384, "layers": 4, "heads": 6, "intermediate_size": 768, "max_block": 32, "token_width": 44, "block": 8,
//    "policy": "both" | "confidence" | "truth", "threshold": 0.5, "blocks": 0}
// A trace is the deployed decoder itself (section-diffusion over a form, text-diffusion over free text with blocks of "block" rows), with a
// recorder in the sampler's place: every pass over a block is one example, its label 1 where a masked place's likeliest token is the one that
// stands there in the end. Policies [App. A]: one place a pass in order of confidence; or first all places where the likeliest token is the
// data's, then by confidence ("truth"). "both": every other trace. "blocks": so many passes of a trace are drawn for
// a step; 0: all of them. The inputs are models/draft/commit_sampler.h's, by its own function.
// Validation: AUC on held-out traces. The checkpoint is a folder for sampler:DIR.
#include <algorithm>
#include <cmath>
#include <numeric>

#include "base/file.h"
#include "base/interrupt.h"
#include "models/draft/commit_sampler.h"
#include "train/heads/commit_network.h"
#include "train/loop/learners/head_learner.h"

namespace slip {
namespace {

/// Records what the decoder shows it and commits by a policy.
class Recorder final : public CommitSampler {
 public:
  struct Seen {
    std::vector<CommitPlace> block;
    int32_t begin = 0;  // of the block in the answer
  };
  static constexpr float kSure = 2;  // above every probability, and above the threshold that the decoder is given

  Recorder(int32_t vocab, int32_t max_block) {
    info_.name = "recorder";
    info_.vocab = vocab;
    info_.max_block = max_block;
    info_.threshold = 1.5F;
  }
  const CommitSamplerInfo& info() const override { return info_; }

  /// `begins`: where blocks with masks begin, in order; behind the last one every `block` places.
  void start(std::vector<int32_t> begins, int32_t block, std::vector<TokenId> truth) {
    begins_ = std::move(begins);
    block_ = block;
    truth_ = std::move(truth);
    seen_.clear();
    number_ = -1;
  }

  Status probabilities(std::span<const CommitPlace> block, std::vector<float>& out) override {
    if (seen_.empty() || !follows(seen_.back().block, block)) ++number_;
    const auto known = static_cast<int32_t>(begins_.size());
    const int32_t begin = number_ < known ? begins_[static_cast<size_t>(number_)] : number_ * block_;
    seen_.push_back({{block.begin(), block.end()}, begin});
    out.clear();
    for (size_t j = 0; j < block.size(); ++j) {
      const size_t at = static_cast<size_t>(begin) + j;
      const bool right = at < truth_.size() && block[j].top[0] == truth_[at];
      out.push_back(!block[j].masked ? 0 : right ? kSure : block[j].probability[0]);
    }
    return {};
  }

  const std::vector<Seen>& seen() const { return seen_; }

 private:
  /// A later pass over the same block: what was decided stands, and something more is.
  static bool follows(std::span<const CommitPlace> before, std::span<const CommitPlace> now) {
    if (before.size() != now.size()) return false;
    bool more = false;
    for (size_t j = 0; j < now.size(); ++j) {
      if (!before[j].masked && (now[j].masked || now[j].top[0] != before[j].top[0])) return false;
      more |= before[j].masked && !now[j].masked;
    }
    return more;
  }

  CommitSamplerInfo info_;
  std::vector<int32_t> begins_;
  int32_t block_ = 0, number_ = -1;
  std::vector<TokenId> truth_;
  std::vector<Seen> seen_;
};

/// Principal components of an embedding's rows by Jacobi rotations in double; of each the largest number is positive.
class Components {
 public:
  static void of(const Constant& embedding, int32_t count, Constant& mean, Constant& components) {
    const auto V = static_cast<size_t>(embedding.shape[0]), D = static_cast<size_t>(embedding.shape[1]);
    std::vector<double> m(D, 0), a(D * D, 0), q(D * D, 0);
    for (size_t v = 0; v < V; ++v)
      for (size_t d = 0; d < D; ++d) m[d] += static_cast<double>(embedding.numbers[v * D + d]) / static_cast<double>(V);
    for (size_t v = 0; v < V; ++v)
      for (size_t i = 0; i < D; ++i) {
        const double x = static_cast<double>(embedding.numbers[v * D + i]) - m[i];
        for (size_t j = 0; j <= i; ++j) a[i * D + j] += x * (static_cast<double>(embedding.numbers[v * D + j]) - m[j]);
      }
    for (size_t i = 0; i < D; ++i)
      for (size_t j = 0; j < i; ++j) a[j * D + i] = a[i * D + j];
    for (size_t i = 0; i < D; ++i) q[i * D + i] = 1;
    rotate_all(D, a, q);
    std::vector<size_t> order(D);
    std::iota(order.begin(), order.end(), size_t{0});
    std::stable_sort(order.begin(), order.end(), [&](size_t x, size_t y) { return a[x * D + x] > a[y * D + y]; });
    mean = {{m.begin(), m.end()}, {static_cast<int64_t>(D)}};
    components = {std::vector<float>(static_cast<size_t>(count) * D, 0), {count, static_cast<int64_t>(D)}};
    for (size_t k = 0; k < std::min(static_cast<size_t>(count), D); ++k) {
      double most = 0;
      for (size_t d = 0; d < D; ++d)
        if (std::abs(q[d * D + order[k]]) > std::abs(most)) most = q[d * D + order[k]];
      for (size_t d = 0; d < D; ++d) components.numbers[k * D + d] = static_cast<float>(q[d * D + order[k]] * (most < 0 ? -1 : 1));
    }
  }

 private:
  static void rotate_all(size_t D, std::vector<double>& a, std::vector<double>& q) {
    for (int sweep = 0; sweep < 30; ++sweep) {
      double off = 0, all = 0;
      for (size_t i = 0; i < D; ++i)
        for (size_t j = 0; j < D; ++j) (i == j ? all : off) += a[i * D + j] * a[i * D + j];
      if (off <= 1e-22 * all) return;
      for (size_t i = 0; i + 1 < D; ++i)
        for (size_t j = i + 1; j < D; ++j) rotate(D, i, j, a, q);
    }
  }
  static void rotate(size_t D, size_t i, size_t j, std::vector<double>& a, std::vector<double>& q) {
    if (a[i * D + j] == 0) return;
    const double theta = (a[j * D + j] - a[i * D + i]) / (2 * a[i * D + j]);
    const double t = (theta >= 0 ? 1 : -1) / (std::abs(theta) + std::sqrt(theta * theta + 1)), c = 1 / std::sqrt(t * t + 1),
                 s = t * c;
    for (size_t k = 0; k < D; ++k) {
      const double x = a[k * D + i], y = a[k * D + j];
      a[k * D + i] = c * x - s * y;
      a[k * D + j] = s * x + c * y;
    }
    for (size_t k = 0; k < D; ++k) {
      const double x = a[i * D + k], y = a[j * D + k];
      a[i * D + k] = c * x - s * y;
      a[j * D + k] = s * x + c * y;
    }
    for (size_t k = 0; k < D; ++k) {
      const double x = q[k * D + i], y = q[k * D + j];
      q[k * D + i] = c * x - s * y;
      q[k * D + j] = s * x + c * y;
    }
  }
};

class CommitLearner final : public HeadLearner {
 public:
  using HeadLearner::HeadLearner;

  Status open() override {
    SLIP_TRY_(only_keys({"hidden_size", "layers", "heads", "intermediate_size", "max_block", "token_width", "block", "policy",
                         "threshold", "blocks"}));
    CommitShape s;
    SLIP_TRY(s.hidden, whole("hidden_size", 384, 1, 4096));
    SLIP_TRY(s.layers, whole("layers", 4, 1, 64));
    SLIP_TRY(s.heads, whole("heads", 6, 1, 64));
    SLIP_TRY(s.ffn, whole("intermediate_size", 768, 1, 1 << 16));
    SLIP_TRY(s.max_block, whole("max_block", 32, 1, 4096));
    SLIP_TRY(token_width_, whole("token_width", 44, 1, 4096));
    SLIP_TRY(block_, whole("block", 8, 2, s.max_block));
    SLIP_TRY(blocks_, whole("blocks", 0, 0, 1 << 20));
    SLIP_TRY(threshold_, real("threshold", 0.5, 0, 1));
    if (s.hidden % s.heads != 0)
      return bad_input("objective: hidden_size: expected a multiple of heads {}, got {}", s.heads, s.hidden);
    SLIP_TRY(policy_, string_or(c_.head, "policy", "both", "objective"));
    if (policy_ != "both" && policy_ != "confidence" && policy_ != "truth")
      return bad_input("objective: policy: expected \"both\", \"confidence\" or \"truth\", got \"{}\"", policy_);
    s.inputs = 3 * token_width_ + kCommitStatistics;
    for (int k = 0; k < kCommitStatistics; ++k) statistics_.push_back(static_cast<CommitStatistic>(k));
    SLIP_TRY_(load_target());
    SLIP_TRY(embedding_, embedding());
    Components::of(embedding_, token_width_, mean_, components_);
    network_ = std::make_unique<CommitNetwork>(s, Precision::kF32);
    recorder_ = std::make_unique<Recorder>(target().lm().info().vocab, s.max_block);
    return {};
  }

  Result<LearnedStep> learn(int64_t step) override {
    return in_shards([&](int64_t first, int64_t last) -> Result<Sums> {
      std::vector<CommitBlock> blocks;
      for (int64_t i = first; i < last; ++i) {
        SLIP_TRY(const auto* kept, traces_.get(*this, step, i, [&] { return trace(step, i); }));
        draw_from(*kept, stream(step, i, 1), blocks);
      }
      Sums sums;
      for (const CommitBlock& b : blocks) sums.count += masked_in(b);
      for (size_t at = 0; at < blocks.size() && sums.count > 0; at += kTogether)
        sums.loss += network_->loss(std::span(blocks).subspan(at, std::min(kTogether, blocks.size() - at)), 1);
      return sums;
    });
  }

  Result<double> validate() override {
    std::vector<double> score;
    std::vector<uint8_t> label;
    for (int64_t i = 0; i < c_.validation.samples; ++i) {
      SLIP_TRY_(check_interrupt());
      SLIP_TRY(const auto* blocks, traces_.get(*this, 0, i, [&] { return trace(0, i); }));
      for (const CommitBlock& b : *blocks) {
        std::vector<double> z;
        network_->loss({&b, 1}, 0, &z);
        for (size_t j = 0; j < z.size(); ++j)
          if (b.masked[j] != 0) score.push_back(z[j]), label.push_back(b.label[j]);
      }
    }
    return auc_of(score, label);
  }

  Status publish(const std::filesystem::path& folder, std::span<const float> values) const override {
    const CommitShape& s = network_->shape();
    json::array names;
    for (const CommitStatistic k : statistics_) names.emplace_back(std::string(name_of(k)));
    const json::object config{{"model_type", "commit_sampler"},
                              {"hidden_size", s.hidden},
                              {"num_hidden_layers", s.layers},
                              {"num_attention_heads", s.heads},
                              {"intermediate_size", s.ffn},
                              {"max_block", s.max_block},
                              {"layer_norm_eps", s.eps},
                              {"token_width", token_width_},
                              {"statistics", names},
                              {"target_hidden_size", embedding_.shape[1]},
                              {"target_vocab_size", embedding_.shape[0]},
                              {"threshold", threshold_}};
    SLIP_TRY_(write_file(folder / "config.json", pretty(config)));
    return save(folder / "model.safetensors", values, {{"pca.mean", &mean_}, {"pca.components", &components_}});
  }

 protected:
  HeadNetwork& network() const override { return *network_; }

 private:
  static constexpr size_t kTogether = 32;  // blocks in one graph: their rows attend under one dense mask

  static double masked_in(const CommitBlock& b) { return static_cast<double>(std::count(b.masked.begin(), b.masked.end(), 1)); }

  /// All blocks of a trace, or "blocks" of them.
  void draw_from(const std::vector<CommitBlock>& trace, PhiloxStream draw, std::vector<CommitBlock>& blocks) const {
    if (blocks_ == 0 || trace.size() <= static_cast<size_t>(blocks_)) {
      blocks.insert(blocks.end(), trace.begin(), trace.end());
      return;
    }
    for (int32_t k = 0; k < blocks_; ++k) blocks.push_back(trace[draw.below(static_cast<uint32_t>(trace.size()))]);
  }

  /// One answer's passes as examples.
  Result<std::vector<CommitBlock>> trace(int64_t step, int64_t i) {
    SLIP_TRY(const Sample s, sample(step, i));
    SLIP_TRY(const Prompt prompt, target().prompt(s));
    const bool truth = policy_ == "truth" || (policy_ == "both" && index_of(step, i) % 2 == 1);
    std::vector<TokenId> data;
    if (truth) data.assign(s.tokens.begin() + static_cast<ptrdiff_t>(prompt.inputs.size()), s.tokens.end());
    std::vector<int32_t> begins;
    if (s.form)
      for (const Block& b : s.form->blocks())
        if (drawn_in(*s.form, b)) begins.push_back(b.begin);
    recorder_->start(std::move(begins), block_, std::move(data));
    SLIP_TRY(Method method, method_of(s.form ? "section-diffusion" : "text-diffusion"));
    if (!s.form) method.draft_length.tokens = block_;
    method.verifier = SamplerSpec{.name = "recorder"};
    DecodeContext context;
    context.commit_sampler = recorder_.get();
    SLIP_TRY(const Decoded answer, target().decode(s, prompt, std::move(method), context));
    std::vector<CommitBlock> blocks;
    for (const Recorder::Seen& seen : recorder_->seen()) blocks.push_back(example(seen, answer.tokens));
    return blocks;
  }

  static bool drawn_in(const Form& form, const Block& b) {
    for (int32_t u = b.begin; u < b.end; ++u)
      if (!form.fixed_at(u)) return true;
    return false;
  }

  CommitBlock example(const Recorder::Seen& seen, std::span<const TokenId> final) const {
    const CommitShape& s = network_->shape();
    const size_t J = seen.block.size(), D = static_cast<size_t>(embedding_.shape[1]), W = static_cast<size_t>(token_width_);
    CommitBlock b;
    std::vector<float> statistics;
    commit_statistics(seen.block, statistics_, s.max_block, statistics);
    for (size_t j = 0; j < J; ++j) {
      const CommitPlace& place = seen.block[j];
      for (size_t k = 0; k < 3; ++k) project(k == 0 || place.masked ? place.top[k] : TokenId{-1}, D, W, b.inputs);
      b.inputs.insert(b.inputs.end(), statistics.begin() + static_cast<ptrdiff_t>(j * kCommitStatistics),
                      statistics.begin() + static_cast<ptrdiff_t>((j + 1) * kCommitStatistics));
      const size_t at = static_cast<size_t>(seen.begin) + j;
      const bool known = at < final.size();  // a text may have ended before the place
      b.masked.push_back(place.masked && known);
      b.label.push_back(place.masked && known && place.top[0] == final[at]);
    }
    return b;
  }

  /// C (e - m) of a token's row; zeros for none.
  void project(TokenId id, size_t D, size_t W, std::vector<float>& out) const {
    for (size_t w = 0; w < W; ++w) {
      double sum = 0;
      for (size_t d = 0; d < D && id.value >= 0; ++d)
        sum += static_cast<double>(components_.numbers[w * D + d]) *
               (static_cast<double>(embedding_.numbers[static_cast<size_t>(id.value) * D + d]) -
                static_cast<double>(mean_.numbers[d]));
      out.push_back(static_cast<float>(sum));
    }
  }

  std::unique_ptr<CommitNetwork> network_;
  std::unique_ptr<Recorder> recorder_;
  Kept<std::vector<CommitBlock>> traces_;
  std::vector<CommitStatistic> statistics_;
  Constant embedding_, mean_, components_;
  std::string policy_;
  int32_t token_width_ = 44, block_ = 8, blocks_ = 0;
  double threshold_ = .5;
};

}  // namespace

std::unique_ptr<Learner> make_commit_learner(const TrainConfig& config, SampleSource& source) {
  return std::make_unique<CommitLearner>(config, source);
}

}  // namespace slip
