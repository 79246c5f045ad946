// SPDX-License-Identifier: Apache-2.0
// One decoder with options covers the Qwen2/2.5/3, Qwen2.5-VL text, Llama and Ministral families: pre-norm blocks with
// RMSNorm, grouped-query attention with rotary positions, SwiGLU. It runs passes of rows and spans over a key/value arena.
//
//   x = embedding or feature
//   per layer:  x += o(attention(rotate(q), spans));  x += down(silu(gate) * up)      (q, k, v one matrix; gate, up one matrix)
//   logits = head(norm(x))                            only for the rows that want something
//
// A pass with the draft adapter adds a low-rank product on the output projection [PEFT's LoRA;
// docs/notes/speculation.md#draft-adapter]: x += o(a) + B(scale A(a)). The base weights stay apart, so the other passes' bits do
// not know that it is there. A pass with taps hands out x behind the layers that set_taps chose, before the final norm.
//
// Where the weights fit the caches, every thread takes a share of the rows through a whole layer, and threads meet once per layer,
// between writing keys and reading them; else all threads share each product, so that weights are read once.
//
// Contract W: nothing here mixes rows but attention, and that only through the spans. Work that no output needs (the last
// layer's attention and MLP of rows that want nothing) is left out, which changes no other row's bits.
#pragma once
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/threads/threads.h"
#include "kernels/kernels.h"
#include "kernels/rope.h"
#include "lm/lm.h"
#include "lm/pass_answers.h"
#include "lm/pass_check.h"
#include "nn/arena.h"
#include "nn/buffer.h"

namespace slip {

struct DecoderOptions {
  std::string name;                 // for messages: "qwen2", "qwen2_5_vl", ...
  int32_t vocab = 0;                // rows of the head; the embedding may have more (a draft head's short vocabulary)
  int32_t width = 0;                // D
  int32_t layers = 0;               // L
  int32_t heads = 0, kv_heads = 0;  // H, G
  int32_t head_width = 0;           // K
  int32_t mlp_width = 0;            // F
  float norm_eps = 1e-6F;
  bool qkv_bias = false, o_bias = false, mlp_bias = false;
  bool qk_norm = false;     // RMSNorm over every head of q and k, before rotation (Qwen3)
  bool tied_head = false;   // the head is the embedding
  RopeSpec rope;            // rope.width is head_width
  double q_scale_beta = 0;  // query_scale() of every row (Ministral 3); 0: off
  double q_scale_positions = 1;
  int32_t window = 0;             // keys that a row sees in a layer that slides, its own included (nn/window.h); 0: no layer does
  std::vector<uint8_t> slides_L;  // which layers slide; empty: none
  DraftRule rule;
};

/// What decoders see of a model with these options and a cache of `slots`; no draft adapter, no taps yet.
LmInfo info_of(const DecoderOptions& options, int32_t slots);

/// Matrices in the kernels' layout; an absent bias or gain is an empty vector.
struct LayerWeights {
  std::vector<float> attention_norm_D, mlp_norm_D, q_norm_K, k_norm_K;
  PackedMatrix qkv, o, gate_up, down;  // qkv rows: q heads, k heads, v heads; gate_up rows: gate, then up
  std::vector<float> qkv_bias, o_bias, gate_up_bias, down_bias;
};

/// Low-rank additions to the output projections, for the passes that draft; no layers: there is none.
struct DraftAdapter {
  struct Layer {
    PackedMatrix a, b;  // R x HK and D x R
  };
  std::vector<Layer> layers;
  int32_t rank = 0;
  float scale = 1;  // alpha / rank
};

/// Embedding and head may be shared: a draft head borrows its target's.
struct DecoderWeights {
  std::shared_ptr<const PackedMatrix> embedding;  // V x D; the head too when tied
  std::shared_ptr<const PackedMatrix> head;       // V x D; null when tied
  std::vector<LayerWeights> layers;
  std::vector<float> final_norm_D;
  DraftAdapter adapter;
};

/// Gets named activations as they arise ("embeds_TD", "layer_<i>_TD", "final_norm_TD"), all rows of the pass in order.
using ActivationTap = std::function<void(std::string_view name, std::span<const float> x, int64_t width)>;

/// Weights up to here are read by every thread for its own rows: half of a third-level cache of 32 MB.
constexpr size_t kCachedBytes = 16 << 20;
constexpr int64_t kShareRows = 4;  // rows per thread below which threads share the products instead

class DecoderLm final : public Lm {
 public:
  /// `pool` must outlive it. `keys`: type of the cache; none: kv_type_of the weights. kResource when the arena cannot be had,
  /// kUnsupported for int8 keys of a head width that is no multiple of 4.
  static Result<std::unique_ptr<DecoderLm>> create(DecoderOptions options, DecoderWeights weights, int32_t slots, ThreadPool& pool,
                                                   std::optional<KvType> keys = {});
  const LmInfo& info() const override { return info_; }
  Status forward(const Pass& pass, PassOutput& out) override;
  uint64_t passes() const override { return check_.passes(); }
  /// A layer may be named twice; the order is that of the taps' numbers.
  Status set_taps(std::span<const int32_t> layers) override;

  const DecoderOptions& options() const { return options_; }
  const KvArena& arena() const { return arena_; }
  const LayerWeights& layer(int32_t i) const { return weights_.layers[static_cast<size_t>(i)]; }
  const std::shared_ptr<const PackedMatrix>& embedding() const { return weights_.embedding; }
  const std::shared_ptr<const PackedMatrix>& head_matrix() const { return options_.tied_head ? weights_.embedding : weights_.head; }
  /// For tests; with a tap every row goes through every layer. An empty function removes it.
  void set_tap(ActivationTap tap) { tap_ = std::move(tap); }

 private:
  struct Activations {
    FloatBuffer x_TD, normed_TD, qkv_TE, attended_THK, update_TD, gated_TF, low_TR;
    FloatBuffer cos_TK2, sin_TK2;
    std::vector<Position> positions_T;
    std::vector<int32_t> slots_T;
    std::vector<float> q_scale_T;
    std::vector<RowSpans> row_spans_T;
    std::vector<int64_t> share_first, cost_before_T;  // where each thread's rows begin; running costs of rows
    std::vector<RowSpans> window_spans_T;             // the same for layers that slide, into windowed
    std::vector<SlotSpan> windowed;
    RowsByWant by_want;
    std::vector<TokenId> best_N;
    std::vector<float> largest_N, second_N, log_sum_exp_N;
    std::vector<std::span<const TokenId>> allowed_N;
  };
  DecoderLm(DecoderOptions options, DecoderWeights weights, KvArena arena, ThreadPool& pool);
  void prepare(const Pass& pass);
  void trim_to_window(const Pass& pass);
  bool slides(int32_t layer) const { return options_.window > 0 && options_.slides_L[static_cast<size_t>(layer)] != 0; }
  void fill_rotation();
  void embed(const Pass& pass);
  /// Rows [first, first + rows) and what they are worked on with.
  struct Share {
    int64_t first, rows;
    ThreadPool& pool;
    Workspace& workspace;
  };
  bool shares_rows() const;
  void share_out(const Pass& pass);
  template <class F>
  void for_shares(F&& f);
  void layers(const Pass& pass, PassOutput& out);
  void project(int32_t layer, const Share& s);
  void attend(const Pass& pass, int32_t layer, const Share& s);
  void add_adapter(int32_t layer, const Share& s);
  void copy_taps(int32_t layer, PassOutput& out, const Share& s);
  bool needs_every_row(const Pass& pass) const;
  void keep_wanted();
  void mlp_block(int32_t layer, const Share& s);
  void head(const Pass& pass, PassOutput& out);
  const float* gather(const Pass& pass, const std::vector<int32_t>& rows_N);
  void best_of(const Pass& pass, const float* x_ND, PassOutput& out);
  void tap(std::string_view name, const float* x);

  DecoderOptions options_;
  DecoderWeights weights_;
  KvArena arena_;
  ThreadPool& pool_;
  RopeFrequencies rope_;
  LmInfo info_;
  Workspace workspace_;
  struct Alone {
    ThreadPool pool{1};
    Workspace workspace;
  };
  std::vector<std::unique_ptr<Alone>> alone_;  // per thread, for shares of a pass; empty when weights exceed the caches
  Activations a_;
  int64_t rows_ = 0;  // rows still in work: all, in the last layer those that want something
  PassCheck check_;
  ActivationTap tap_;
};

}  // namespace slip
