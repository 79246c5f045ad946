// SPDX-License-Identifier: Apache-2.0
// A DFlash draft head [DFlash; docs/notes/speculation.md#dflash], loaded from its published folder over a loaded target.
//
//   ctx = RMSNorm(W_fc concat(taps))                       once per target row, shared by all layers
//   per layer: k = rotate(norm(W_k ctx)), v = W_v ctx      stored at the target row's slot: the context
//   block [anchor, mask, ...]: a Qwen3 decoder's pass whose rows see stored context and their own block both ways; the token at a
//   row is the row's own (no shift). Embedding and head are the target's.
//
// Folder: config.json (Qwen3's keys and block_size, num_target_layers, dflash_config {mask_token_id, target_layer_ids}) and
// model.safetensors. Without target_layer_ids the published rule chooses them (dflash_tap_layers). Two additions of our own:
//   draft_vocab.json                  optional: a list of target ids, ascending. The head is cut to these rows, and a draft costs
//                                     that much less; other ids get -inf: where they were needed drafts are lost, never exactness
//   dflash_config.image_context       whether rows of images were context in training; default: false over a target with a tower
// Differs from the published loop: the context's slots are the target's, so that any visibility works and nothing is cropped.
#pragma once
#include <filesystem>
#include <memory>
#include <vector>

#include "base/result.h"
#include "lm/draft_head.h"
#include "models/model.h"

namespace slip {

struct DFlashWeights {
  PackedMatrix fc;  // D x E
  std::vector<float> hidden_norm_D;
  std::vector<PackedMatrix> kv;  // per layer 2GK x D: the same rows as in the decoder's qkv, packed apart for the context
  DecoderWeights decoder;        // moved on into the decoder
};

class DFlashHead final : public DraftHead {
 public:
  const DraftHeadInfo& info() const override { return info_; }
  Status store(std::span<const int32_t> slots_N, std::span<const int32_t> positions_N, std::span<const float> taps_NE) override;
  Status forward(const Pass& pass, PassOutput& out) override;

  /// Ids of the head's rows; empty: the target's whole vocabulary.
  const std::vector<TokenId>& draft_vocab() const { return draft_vocab_; }
  const MemoryNeed& memory() const { return memory_; }
  /// For tests: "context_TD" of store(), in slices, and what DecoderLm's tap gives in forward().
  void set_tap(ActivationTap tap);

 private:
  friend Result<std::unique_ptr<DFlashHead>> load_dflash(const std::filesystem::path&, Model&, int32_t);
  DFlashHead(DraftHeadInfo info, std::unique_ptr<DecoderLm> lm, DFlashWeights weights, ThreadPool& pool)
      : info_(std::move(info)),
        lm_(std::move(lm)),
        weights_(std::move(weights)),
        pool_(pool),
        rope_(rope_frequencies(lm_->options().rope)) {}
  void store_slice(std::span<const int32_t> slots, std::span<const int32_t> positions, const float* taps);
  void scatter(const Pass& pass, PassOutput& out) const;

  DraftHeadInfo info_;
  std::unique_ptr<DecoderLm> lm_;  // the draft layers; its arena holds context and blocks
  DFlashWeights weights_;
  ThreadPool& pool_;
  RopeFrequencies rope_;
  MemoryNeed memory_;
  std::vector<TokenId> draft_vocab_;
  Workspace workspace_;
  FloatBuffer context_TD_, kv_T2GK_, keys_TGK_, cos_TK2_, sin_TK2_;
  std::vector<Position> positions_T_;
  PassOutput short_;  // outputs in rows of the short vocabulary
  ActivationTap tap_;
};

/// `block_slots`: rows of blocks that can be under draft at once. The target must outlive the head and still needs
/// set_taps(info().tap_layers). kBadInput where folder and target do not belong together, naming both; kUnsupported for DFlash 2's
/// tensors and for sliding windows.
Result<std::unique_ptr<DFlashHead>> load_dflash(const std::filesystem::path& folder, Model& target, int32_t block_slots);

/// The published choice of tapped layers: round(1 + i (n - 4) / (L - 1)), halves to even; one layer: n / 2.
std::vector<int32_t> dflash_tap_layers(int32_t target_layers, int32_t draft_layers);

}  // namespace slip
