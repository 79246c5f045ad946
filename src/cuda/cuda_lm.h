// SPDX-License-Identifier: Apache-2.0
// A decoder on a device: the Lm of lm/lm.h with weights, arena and activations in the device's memory. The host sends a pass's rows, spans and
// angles in one copy and gets 20 bytes per wanted row back, and logits, all of them or the largest, where they are asked for; passes of up to 64 rows run as captured graphs, one per size. Weights are bf16, or
// integers and scales; keys and what products multiply are bf16, norms, softmax and the residual stream f32. Contract W holds as it does on the processor; the bits are the device's own.
#pragma once
#include <map>
#include <memory>
#include <vector>

#include "cuda/device/runtime.h"
#include "cuda/pass_plan.h"
#include "cuda/tiles.h"
#include "lm/pass_answers.h"
#include "lm/pass_check.h"
#include "nn/decoder.h"

namespace slip::cuda {

class CudaLm final : public Lm, private KeptLogits {
 public:
  /// kUnsupported for what has no kernel here: f32 weights, sliding windows, heads that are too wide or too many of them.
  static Status check(const Device& device, const DecoderOptions& options, WeightType type);
  /// Copies the weights to the device. kResource when its memory does not hold them and an arena of `slots`; kUnsupported as check().
  static Result<std::unique_ptr<CudaLm>> create(std::unique_ptr<Device> device, const DecoderOptions& options,
                                                const DecoderWeights& weights, int32_t slots, ThreadPool& pool);
  const LmInfo& info() const override { return info_; }
  Status forward(const Pass& pass, PassOutput& out) override;
  Status set_taps(std::span<const int32_t> layers) override;
  uint64_t passes() const override { return check_.passes(); }

  int graphs() const;  // captured so far
  /// Runs and captures passes of every shape that most answers behind up to 4,096 keys need, so that the first one is as quick as others; runs the
  /// kernels of a prompt too. For a device that loads kernels when they are first launched. Overwrites slots.
  Status capture_usual();

 private:
  struct Layer {
    Memory attention_norm_D, mlp_norm_D, q_norm_K, k_norm_K, qkv_bias, o_bias, gate_up_bias, down_bias;
    DeviceMatrix qkv, o, gate_up, down;
    DeviceMatrix low, high;  // the draft adapter's; nothing where there is none
  };
  /// Of any pass.
  struct Buffers {
    Memory allowed_LW, logits_TV, features_ND;
  };
  /// What passes run in, with room for the largest of them; the copy that the host writes, and what it reads.
  struct Space {
    Room largest;
    Memory x_TD, normed_TD, qkv_TE, q_THP, attended_THK, gated_TF, sums_NHP, tops_NH, totals_NH, choice_TB, choice_T, likely_TK,
        low_TR, rounded_TR, taps_TE, shares, arrivals, pass;
    Memory pass_host, choice_host, likely_host, taps_host;
  };
  /// What a captured graph depends on.
  struct Shape {
    Room room;
    int queries = 0;       // of the largest item, as the kernel rounds them
    bool crowded = false;  // so many items that attention's blocks walk the units of keys
    int walks = 0;         // of a long pass, which is not captured
    int wanted = 0;        // room for rows that want something: the device chooses their ids
    bool adapter = false, taps = false, logits = false, likely = false;
    auto operator<=>(const Shape&) const = default;
  };
  explicit CudaLm(std::unique_ptr<Device> device, DecoderOptions options, int32_t slots);
  size_t taps_width() const { return static_cast<size_t>(slip::taps_width(info_)); }
  Status upload_weights(const DecoderWeights& weights, ThreadPool& pool);
  Result<Layer> upload_layer(const LayerWeights& w, ThreadPool& pool);
  Status make_room(const Pass& pass, const Room& room);
  Status make_room_for_taps(Space& space, int32_t rows);
  const float* address_of(const FeatureView& features, Feature its) const;
  Status write_pass(const Pass& pass, const PassLayout& layout);
  Status send_and_run(const Pass& pass, PassOutput& out);
  Status run(const Pass& pass, const Shape& shape, const PassLayout& layout);
  Status launch_body(const Shape& shape, const PassLayout& layout);
  void launch_layer(int32_t number, const Shape& shape, const PassLayout& layout);
  void launch_attention(int32_t number, const Shape& shape, const PassLayout& layout);
  RowTiles launch_low(const Layer& l, const Shape& shape, const PassLayout& layout);
  ProductArgs product_of(const DeviceMatrix& w, const RowTiles& x, Then then, const PassLayout& layout) const;
  void launch_taps(int32_t number, const Shape& shape, const PassLayout& layout);
  void sort_rows(const Pass& pass);
  Status write_allowed(const Pass& pass);
  void launch_choice(const Shape& shape, const PassLayout& layout);
  void read_choices(const Pass& pass, PassOutput& out);
  Status make_room_for_logits();
  Status copy_logits(PassOutput& out);
  void keep_logits(const Pass& pass, PassOutput& out);
  // ---- lines: those of logits_TV
  std::span<const Likely> likeliest(int32_t line) const override;
  float log_sum_exp(int32_t line) const override;
  Result<std::span<const float>> all(int32_t line) override;
  Result<std::optional<TokenId>> draw(int32_t line, std::span<const uint64_t> bits, double temperature, double u) override;
  const float* line_of(int32_t line) const {
    return b_.logits_TV.data<float>() + static_cast<size_t>(line) * static_cast<size_t>(options_.vocab);
  }
  /// What the host read of the wanted row whose logits are a line.
  size_t wanted_of(int32_t line) const { return by_want_.argmax_N.size() + static_cast<size_t>(line); }
  template <class T>
  T* in_pass(size_t offset) const {
    return reinterpret_cast<T*>(space_->pass.data<char>() + offset);
  }
  size_t arena_numbers() const;
  const Tiles& head_tiles() const { return (options_.tied_head ? embedding_ : head_).tiles; }

  std::unique_ptr<Device> device_;  // before what lives on it
  DecoderOptions options_;
  RopeFrequencies rope_;
  LmInfo info_;
  PassCheck check_;
  AttentionPlanner planner_;
  AttentionPlan plan_;
  int32_t rank_ = 0;  // of the draft adapter
  float adapter_scale_ = 1;
  int32_t padded_ = 0;  // head width in the arena: a multiple of 32
  DeviceMatrix embedding_, head_;
  Memory final_norm_D_, keys_, values_;
  int32_t most_tiles_ = 0;  // of a matrix
  std::vector<Layer> layers_;
  Buffers b_;
  Space captured_;  // of passes of up to 64 rows: graphs point into it
  Space long_;      // of longer ones: may grow with every prompt
  Space* space_ = &captured_;
  Memory allowed_host_, logits_host_, line_host_;
  Memory drawn_, drawn_host_;      // a draw's id, then the bits of the ids that it may be
  std::vector<Likely> likely_NK_;  // by line
  std::vector<int32_t> likely_count_N_;
  RowsByWant by_want_;
  std::vector<int32_t> list_of_;  // by Pass::allowed: its line of allowed_LW, or -1
  std::vector<int32_t> wanted_N_,
      allowed_N_;  // rows that want something, those that want logits last; and the lines of their lists
  std::vector<Position> positions_;
  std::map<Shape, std::unique_ptr<Graph>> graphs_;  // null: a pass of this shape has run once, and the next is captured
};

}  // namespace slip::cuda
