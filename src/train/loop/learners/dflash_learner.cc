// SPDX-License-Identifier: Apache-2.0
// A DFlash head under training (train/heads/dflash_network.h). Keys of its objective:
//   {"layers": 2, "block": 16, "gamma": 7, "anchors": 512, "taps": [layers of the target], "answers": "target" | "data",
//    "image_context": false, "scaffold": false, "heads", "kv_heads", "head_dim", "intermediate_size": else the target's}
// "answers": what is drafted: the target's own greedy answer, as published, or the data's. Without "taps" the published rule
// chooses them. "scaffold": samples with a form have its fixed tokens in the blocks, as decoders that force them draft; false:
// every token is drafted, as published.
// Validation: tokens per round on held-out prompts if every anchor were a round: 1 + the drafts that hold before the first miss, fixed tokens
// not counted.
// The checkpoint is a folder for dflash:DIR.
#include <algorithm>

#include "base/file.h"
#include "base/interrupt.h"
#include "models/draft/dflash.h"
#include "train/heads/dflash_network.h"
#include "train/loop/learners/head_learner.h"

namespace slip {
namespace {

class DFlashLearner final : public HeadLearner {
 public:
  using HeadLearner::HeadLearner;

  Status open() override {
    SLIP_TRY_(only_keys({"layers", "block", "gamma", "anchors", "taps", "answers", "image_context", "scaffold", "heads", "kv_heads",
                         "head_dim", "intermediate_size"}));
    SLIP_TRY_(load_target());
    const LmInfo& info = target().lm().info();
    if (!info.rule.has_mask) return unsupported("{}: expected a target with a mask token, got one without", c_.target);
    DFlashShape s;
    SLIP_TRY(const int32_t layers, whole("layers", 2, 1, 64));
    SLIP_TRY(s.layers, qwen3_shape(layers));
    SLIP_TRY(s.block, whole("block", 16, 2, 256));
    SLIP_TRY(s.gamma, real("gamma", 7, 0, 1e6));
    SLIP_TRY(anchors_, whole("anchors", 512, 1, 1 << 16));
    SLIP_TRY(image_context_, bool_or(c_.head, "image_context", false, "objective"));
    SLIP_TRY(scaffold_, bool_or(c_.head, "scaffold", false, "objective"));
    SLIP_TRY(const std::string answers, string_or(c_.head, "answers", "target", "objective"));
    if (answers != "target" && answers != "data")
      return bad_input("objective: answers: expected \"target\" or \"data\", got \"{}\"", answers);
    own_answers_ = answers == "target";
    SLIP_TRY_(read_taps(layers));
    s.taps = static_cast<int32_t>(taps_.size());
    s.mask_token = info.rule.mask.value;
    SLIP_TRY(const Constant embedding, this->embedding());
    SLIP_TRY(const Constant head, this->head());
    network_ = std::make_unique<DFlashNetwork>(s, embedding, head, Precision::kF32);
    return {};
  }

  Result<LearnedStep> learn(int64_t step) override {
    return in_shards([&](int64_t first, int64_t last) -> Result<Sums> {
      Sums sums;
      for (int64_t i = first; i < last; ++i) {
        SLIP_TRY(const DFlashSequence* kept, sequences_.get(*this, step, i, [&] { return sequence(step, i); }));
        DFlashSequence s = *kept;
        PhiloxStream draw = stream(step, i, 0);
        s.anchors = draw_anchors(s.loss_mask, network_->shape().block, anchors_, draw);
        const std::vector<DFlashSlot> slots = dflash_slots(s, network_->shape());
        double weight = 0;
        for (const DFlashSlot& slot : slots) weight += slot.weight;
        if (weight <= 0) continue;
        sums.loss += network_->loss(s, slots, 1);
        sums.count += weight;
      }
      return sums;
    });
  }

  Result<double> validate() override {
    double rounds = 0, tokens = 0;
    for (int64_t i = 0; i < c_.validation.samples; ++i) {
      SLIP_TRY_(check_interrupt());
      SLIP_TRY(const DFlashSequence* kept, sequences_.get(*this, 0, i, [&] { return sequence(0, i); }));
      DFlashSequence s = *kept;
      PhiloxStream draw = stream(0, i, 0);
      s.anchors = draw_anchors(s.loss_mask, network_->shape().block, anchors_, draw);
      if (s.anchors.empty()) continue;
      rounds += static_cast<double>(s.anchors.size());
      tokens += held(s);
    }
    return rounds > 0 ? tokens / rounds : 0;
  }

  Status publish(const std::filesystem::path& folder, std::span<const float> values) const override {
    const DFlashShape& s = network_->shape();
    const Qwen3Shape& l = s.layers;
    const json::object config{{"architectures", json::array{"DFlashDraftModel"}},
                              {"model_type", "qwen3"},
                              {"hidden_size", l.hidden},
                              {"num_hidden_layers", l.layers},
                              {"num_attention_heads", l.heads},
                              {"num_key_value_heads", l.kv_heads},
                              {"head_dim", l.head_dim},
                              {"intermediate_size", l.ffn},
                              {"hidden_act", "silu"},
                              {"rms_norm_eps", l.eps},
                              {"rope_theta", l.rope_theta},
                              {"attention_bias", false},
                              {"vocab_size", vocabulary()},
                              {"max_position_embeddings", 4096},
                              {"tie_word_embeddings", false},
                              {"use_sliding_window", false},
                              {"torch_dtype", c_.store == StoreAs::kBF16 ? "bfloat16" : "float32"},
                              {"block_size", s.block},
                              {"num_target_layers", target_layers_},
                              {"dflash_config", json::object{{"mask_token_id", s.mask_token},
                                                             {"target_layer_ids", json::value_from(taps_)},
                                                             {"image_context", image_context_}}}};
    SLIP_TRY_(write_file(folder / "config.json", pretty(config)));
    return save(folder / "model.safetensors", values);
  }

 protected:
  HeadNetwork& network() const override { return *network_; }

 private:
  int64_t vocabulary() const { return vocab_; }

  Status read_taps(int32_t layers) {
    DecoderLm* decoder = target().model().decoder();
    if (decoder == nullptr) return unsupported("{}: expected a target on the processor, got one on a device", c_.target);
    target_layers_ = decoder->options().layers;
    vocab_ = decoder->options().vocab;
    if (!c_.head.contains("taps")) {
      taps_ = dflash_tap_layers(target_layers_, layers);
      for (int32_t& t : taps_) t = std::clamp(t, 0, target_layers_ - 1);
      return {};
    }
    SLIP_TRY(const json::array* list, get_array(c_.head, "taps", "objective"));
    for (const json::value& v : *list) {
      if (!v.is_int64() || v.get_int64() < 0 || v.get_int64() >= target_layers_)
        return bad_input("objective: taps: expected layers 0 to {} of {}, got {}", target_layers_ - 1, c_.target,
                         json::serialize(v));
      taps_.push_back(static_cast<int32_t>(v.get_int64()));
    }
    if (taps_.empty()) return bad_input("objective: taps: expected at least one layer, got none");
    return {};
  }

  Result<DFlashSequence> sequence(int64_t step, int64_t i) {
    SLIP_TRY(const Sample sample, this->sample(step, i));
    SLIP_TRY(const Prompt prompt, target().prompt(sample));
    std::vector<TokenId> answer(sample.tokens.begin() + static_cast<ptrdiff_t>(prompt.inputs.size()), sample.tokens.end());
    if (own_answers_) {
      SLIP_TRY(answer, target().answer(sample, prompt));
    }
    SLIP_TRY(const std::vector<float> taps, target().run(prompt, answer, taps_));
    const size_t rows = prompt.inputs.size() + answer.size(), width = taps.size() / rows;
    DFlashSequence s;
    for (size_t k = 0; k < rows; ++k) {
      const bool said = k >= prompt.inputs.size();
      const size_t u = said ? k - prompt.inputs.size() : 0;
      const auto* token = said ? &answer[u] : std::get_if<TokenId>(&prompt.inputs[k]);
      if (token == nullptr && !image_context_) continue;  // an image row that nobody reads
      s.tokens.push_back(token != nullptr ? token->value : 0);
      s.positions.push_back(said ? prompt.next_position + static_cast<int32_t>(u) : prompt.positions[k].t);
      s.context.push_back(1);
      s.loss_mask.push_back(said);
      const bool in_form = said && scaffold_ && sample.form && static_cast<int32_t>(u) < sample.form->length();
      s.fixed.push_back(in_form && sample.form->fixed_at(static_cast<int32_t>(u)).has_value());
      s.taps.insert(s.taps.end(), taps.begin() + static_cast<ptrdiff_t>(k * width),
                    taps.begin() + static_cast<ptrdiff_t>((k + 1) * width));
    }
    return s;
  }

  /// Tokens that rounds from the sequence's anchors would give.
  double held(const DFlashSequence& s) {
    const DFlashShape& shape = network_->shape();
    const std::vector<double> z = network_->logits(s);
    const size_t V = z.size() / (s.anchors.size() * static_cast<size_t>(shape.block));
    double tokens = 0;
    for (size_t a = 0; a < s.anchors.size(); ++a) {
      tokens += 1;
      for (int32_t k = 1; k < shape.block && s.anchors[a] + k < static_cast<int32_t>(s.tokens.size()); ++k) {
        if (s.given(s.anchors[a] + k)) continue;
        const auto row = z.begin() + static_cast<ptrdiff_t>((a * static_cast<size_t>(shape.block) + static_cast<size_t>(k)) * V);
        if (std::max_element(row, row + static_cast<ptrdiff_t>(V)) - row != s.tokens[static_cast<size_t>(s.anchors[a] + k)]) break;
        tokens += 1;
      }
    }
    return tokens;
  }

  std::unique_ptr<DFlashNetwork> network_;
  Kept<DFlashSequence> sequences_;
  std::vector<int32_t> taps_;
  int32_t anchors_ = 512, target_layers_ = 0, vocab_ = 0;
  bool image_context_ = false, scaffold_ = false, own_answers_ = true;
};

}  // namespace

std::unique_ptr<Learner> make_dflash_learner(const TrainConfig& config, SampleSource& source) {
  return std::make_unique<DFlashLearner>(config, source);
}

}  // namespace slip
