// SPDX-License-Identifier: Apache-2.0
// Loading a DFlash head and running it; formulas and the folder in dflash.h.
#include "models/draft/dflash.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <limits>
#include <utility>

#include "lm/pass_answers.h"
#include "models/draft/dflash_config.h"
#include "models/loader.h"

namespace slip {
namespace {

namespace fs = std::filesystem;

// Context rows fused at a time: 3,000 rows of a prompt at D = 4,096 then need 16 MB of scratch, not 100.
constexpr size_t kStoreRows = 512;

// DFlash 2 adds two-tap convolutions and a path selector [docs/notes/speculation.md#dflash]; its weights mean nothing without them.
Status refuse_dflash_2(const Checkpoint& checkpoint) {
  static constexpr std::array<std::string_view, 3> kParts = {"attention_conv", "mlp_conv", "candidate_selector"};
  for (const auto& [name, view] : checkpoint.tensors())
    for (const std::string_view part : kParts)
      if (name.find(part) != std::string::npos)
        return unsupported("{}: expected a DFlash head, got DFlash 2's tensor {}: its convolutions and selector are not done here",
                           checkpoint.path().string(), name);
  return {};
}

// Keys and values once more, without the queries: a context's rows ask for these alone.
PackedMatrix read_kv(WeightReader& reader, const DecoderOptions& o, const std::string& p, WeightType type) {
  const int64_t d = o.width, g = int64_t{o.kv_heads} * o.head_width;
  return reader.matrix(type, {{p + "self_attn.k_proj.weight", {g, d}}, {p + "self_attn.v_proj.weight", {g, d}}});
}

void read_all(WeightReader& reader, const DFlashConfig& config, WeightType type, DFlashWeights& out) {
  const DecoderOptions& o = config.decoder;
  const int64_t taps = static_cast<int64_t>(config.tap_layers.size()) * o.width;
  out.fc = reader.matrix(type, {{"fc.weight", {o.width, taps}}});
  out.hidden_norm_D = reader.vector({{"hidden_norm.weight", {o.width}}});
  out.kv.clear();
  out.decoder.layers.clear();
  for (int32_t i = 0; i < o.layers; ++i) {
    const std::string prefix = fmt::format("layers.{}.", i);
    out.decoder.layers.push_back(read_layer(reader, o, prefix, type));
    out.kv.push_back(read_kv(reader, o, prefix, type));
  }
  out.decoder.final_norm_D = reader.vector({{"norm.weight", {o.width}}});
}

// The vectors that every layer has, its seven matrices, and fc, hidden_norm and norm.
Status refuse_more_tensors(const Checkpoint& checkpoint, int32_t layers) {
  const size_t expected = 3 + 11 * static_cast<size_t>(layers);
  if (checkpoint.tensors().size() == expected) return {};
  return unsupported("{}: expected the {} tensors of a DFlash head with {} layers (embedding and head are the target's), got {}",
                     checkpoint.path().string(), expected, layers, checkpoint.tensors().size());
}

struct HeadRows {
  const PackedMatrix& head;
  const std::vector<TokenId>& ids;
};

// The rows of the short vocabulary, from the target's head as it is stored there.
std::shared_ptr<const PackedMatrix> cut_head(const PackedMatrix& head, const std::vector<TokenId>& ids, ThreadPool& pool) {
  const HeadRows rows{head, ids};
  const auto read_row = [](const void* context, int64_t n, float* out_K) {
    const auto& from = *static_cast<const HeadRows*>(context);
    from.head.row(from.ids[static_cast<size_t>(n)].value, {out_K, static_cast<size_t>(from.head.k())});
  };
  return std::make_shared<const PackedMatrix>(
      pack_matrix(head.type(), static_cast<int64_t>(ids.size()), head.k(), &rows, read_row, pool));
}

Result<DFlashWeights> read_weights(const fs::path& folder, const DFlashConfig& config, const Model& target, ThreadPool& pool,
                                   MemoryNeed& memory) {
  SLIP_TRY(const Checkpoint checkpoint, Checkpoint::open_folder(folder));
  SLIP_TRY_(refuse_dflash_2(checkpoint));
  const WeightType type = target.options().type;
  WeightReader reader(checkpoint, pool, {});
  DFlashWeights weights;
  read_all(reader, config, type, weights);
  SLIP_TRY_(reader.end_check());
  SLIP_TRY_(refuse_more_tensors(checkpoint, config.decoder.layers));
  memory.weights = reader.bytes_needed();
  if (!config.draft_vocab.empty())
    memory.weights += matrix_bytes(type, static_cast<int64_t>(config.draft_vocab.size()), config.decoder.width);
  SLIP_TRY_(check_memory(memory, available_memory(), folder.string()));
  read_all(reader, config, type, weights);
  SLIP_TRY_(reader.end_load());
  return weights;
}

size_t count(size_t a, int64_t b) { return a * static_cast<size_t>(b); }

}  // namespace

Result<std::unique_ptr<DFlashHead>> load_dflash(const fs::path& folder, Model& target, int32_t block_slots) {
  SLIP_TRY(DFlashConfig config, read_dflash_config(folder, target));
  constexpr int32_t kMaxBlockSlots = 1 << 24;  // as many as a cache may have
  if (block_slots > kMaxBlockSlots)
    return usage_error("{}: slots for blocks: expected at most {}, got {}", folder.string(), kMaxBlockSlots, block_slots);
  if (block_slots < config.block)
    return usage_error("{}: slots for blocks: expected at least {}, one block, got {}", folder.string(), config.block, block_slots);
  ThreadPool& pool = target.pool();
  SLIP_TRY(DecoderLm * decoder, target.need_decoder("a draft head"));
  DecoderLm& lm = *decoder;
  const DecoderOptions& o = config.decoder;
  const int32_t context = lm.info().slots;
  MemoryNeed memory;
  memory.cache = static_cast<int64_t>(
      KvArena::bytes_needed(o.layers, context + block_slots, o.kv_heads, o.head_width, kv_type_of(target.options().type)));
  SLIP_TRY(DFlashWeights weights, read_weights(folder, config, target, pool, memory));
  DecoderOptions options = o;
  weights.decoder.embedding = lm.embedding();
  weights.decoder.head = lm.head_matrix();
  if (!config.draft_vocab.empty()) {
    weights.decoder.head = cut_head(*lm.head_matrix(), config.draft_vocab, pool);
    options.vocab = static_cast<int32_t>(config.draft_vocab.size());
  }
  const DraftHeadInfo info{.name = folder.string(),
                           .block = config.block,
                           .tap_layers = config.tap_layers,
                           .taps_width = static_cast<int32_t>(config.tap_layers.size()) * o.width,
                           .vocab = o.vocab,
                           .mask = config.mask,
                           .context_slots = context,
                           .block_slots = block_slots,
                           .image_context = config.image_context};
  SLIP_TRY(std::unique_ptr<DecoderLm> layers, DecoderLm::create(options, std::move(weights.decoder), context + block_slots, pool));
  std::unique_ptr<DFlashHead> head(new DFlashHead(info, std::move(layers), std::move(weights), pool));
  head->draft_vocab_ = std::move(config.draft_vocab);
  head->memory_ = memory;
  return head;
}

Status DFlashHead::store(std::span<const int32_t> slots_N, std::span<const int32_t> positions_N, std::span<const float> taps_NE) {
  const size_t rows = slots_N.size(), line = static_cast<size_t>(info_.taps_width);
  if (positions_N.size() != rows || taps_NE.size() != rows * line)
    return bad_input("{}: context of {} rows: expected {} positions and {} numbers of taps, got {} and {}", info_.name, rows, rows,
                     rows * line, positions_N.size(), taps_NE.size());
  for (const int32_t slot : slots_N)
    if (slot < 0 || slot >= info_.context_slots)
      return resource_error("{}: expected a slot of the context, 0 to {}, got {}", info_.name, info_.context_slots - 1, slot);
  for (size_t first = 0; first < rows; first += kStoreRows) {
    const size_t n = std::min(kStoreRows, rows - first);
    store_slice(slots_N.subspan(first, n), positions_N.subspan(first, n), taps_NE.data() + first * line);
  }
  return {};
}

void DFlashHead::store_slice(std::span<const int32_t> slots, std::span<const int32_t> positions, const float* taps) {
  const DecoderOptions& o = lm_->options();
  const auto rows = static_cast<int64_t>(slots.size());
  const int64_t width = o.width, keys = int64_t{o.kv_heads} * o.head_width, half = rope_.half();
  float* context_TD = context_TD_.grow(count(slots.size(), width));
  float* kv_T2GK = kv_T2GK_.grow(count(slots.size(), 2 * keys));
  float* keys_TGK = keys_TGK_.grow(count(slots.size(), keys));
  float* cosine = cos_TK2_.grow(count(slots.size(), half));
  float* sine = sin_TK2_.grow(count(slots.size(), half));
  positions_T_.clear();
  for (const int32_t p : positions) positions_T_.push_back(Position::text(p));
  rope_tables(rope_, positions_T_, cosine, sine);
  matmul(weights_.fc, taps, rows, info_.taps_width, nullptr, context_TD, width, pool_, workspace_);
  rms_norm(context_TD, rows, width, weights_.hidden_norm_D.data(), o.norm_eps, context_TD, pool_);
  if (tap_) tap_("context_TD", {context_TD, count(slots.size(), width)}, width);
  for (int32_t layer = 0; layer < o.layers; ++layer) {
    const auto i = static_cast<size_t>(layer);
    matmul(weights_.kv[i], context_TD, rows, width, nullptr, kv_T2GK, 2 * keys, pool_, workspace_);
    for (int64_t t = 0; t < rows; ++t) std::copy_n(kv_T2GK + t * 2 * keys, keys, keys_TGK + t * keys);
    rms_norm(keys_TGK, rows * o.kv_heads, o.head_width, lm_->layer(layer).k_norm_K.data(), o.norm_eps, keys_TGK, pool_);
    rotate(keys_TGK, rows, keys, o.kv_heads, o.head_width, static_cast<int32_t>(half), cosine, sine, pool_);
    for (int64_t t = 0; t < rows; ++t)
      lm_->arena().store(layer, slots[static_cast<size_t>(t)], keys_TGK + t * keys, kv_T2GK + t * 2 * keys + keys);
  }
}

Status DFlashHead::forward(const Pass& pass, PassOutput& out) {
  if (pass.taps || pass.draft_adapter)
    return unsupported("{}: expected a plain pass of a draft head, got one with taps or an adapter", info_.name);
  for (size_t t = 0; t < pass.rows.size(); ++t) {
    const int32_t slot = pass.rows[t].slot, end = info_.context_slots + info_.block_slots;
    if (slot < info_.context_slots || slot >= end)
      return resource_error("{}: row {}: expected a slot for blocks, {} to {}, got {}", info_.name, t, info_.context_slots, end - 1,
                            slot);
    if (!std::holds_alternative<TokenId>(pass.rows[t].input))
      return bad_input("{}: row {}: expected a token, got a feature", info_.name, t);
    if (pass.rows[t].allowed && !draft_vocab_.empty())
      return unsupported("{}: row {}: expected no list of allowed ids with a short draft vocabulary, got one", info_.name, t);
  }
  if (draft_vocab_.empty()) return lm_->forward(pass, out);
  SLIP_TRY_(lm_->forward(pass, short_));
  scatter(pass, out);
  return {};
}

// Rows of the short vocabulary -> ids of the target.
void DFlashHead::scatter(const Pass& pass, PassOutput& out) const {
  out.vocab = info_.vocab;
  out.argmax.assign(pass.rows.size(), TokenId{});
  lay_out_logits(pass, -std::numeric_limits<float>::infinity(), out);
  out.taps_NE.clear();
  out.nan_rows = short_.nan_rows;
  out.statistics = short_.statistics;
  for (size_t t = 0; t < pass.rows.size(); ++t) {
    if (pass.rows[t].want != Want::kNothing) out.argmax[t] = draft_vocab_[static_cast<size_t>(short_.argmax[t].value)];
    if (short_.logits_row[t] < 0) continue;
    const auto from_J = std::as_const(short_).logits_V(t);
    const auto to_V = out.logits_V(t);
    for (size_t j = 0; j < draft_vocab_.size(); ++j) to_V[static_cast<size_t>(draft_vocab_[j].value)] = from_J[j];
  }
}

void DFlashHead::set_tap(ActivationTap tap) {
  lm_->set_tap(tap);
  tap_ = std::move(tap);
}

}  // namespace slip
