// SPDX-License-Identifier: Apache-2.0
#include "cuda/cuda_lm.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <numbers>

#include "base/check.h"
#include "cuda/features.h"

namespace slip::cuda {
namespace {

constexpr size_t kMostGraphs = 256;  // a bound on what they hold; sizes are powers of two, so decoding needs a few dozen

constexpr int kHeadStep = 32;  // numbers of a head come in so many at a time
constexpr int32_t kLongStep = 512;

int32_t words_of(int32_t vocab) { return (vocab + 31) / 32; }

int rounded_queries(int queries) { return queries <= kFewQueries ? kFewQueries : kMostQueries; }

template <class T>
T* as(const Memory& m) {
  return m.data<T>();
}

}  // namespace

CudaLm::CudaLm(std::unique_ptr<Device> device, DecoderOptions options, int32_t slots)
    : device_(std::move(device)),
      options_(std::move(options)),
      rope_(rope_frequencies(options_.rope)),
      info_(info_of(options_, slots)),
      check_(slots, options_.vocab),
      planner_(options_.heads / options_.kv_heads, may_walk(options_.head_width)),
      padded_((options_.head_width + kHeadStep - 1) / kHeadStep * kHeadStep) {}

Status CudaLm::check(const Device& device, const DecoderOptions& options, WeightType type) {
  if (!has_tiles(type))
    return unsupported("{} on {}: expected bf16, int8 or int4 weights (--dtype bf16), got f32", options.name, device.name());
  if (options.window > 0)
    return unsupported("{} on {}: expected full attention in every layer, got a sliding window", options.name, device.name());
  if (options.heads / options.kv_heads > kMostQueries)
    return unsupported("{} on {}: expected at most {} query heads per key head, got {}", options.name, device.name(), kMostQueries,
                       options.heads / options.kv_heads);
  if (options.head_width > kWidestHead)
    return unsupported("{} on {}: expected heads of at most {} numbers, got {}", options.name, device.name(), kWidestHead,
                       options.head_width);
  return {};
}

Result<std::unique_ptr<CudaLm>> CudaLm::create(std::unique_ptr<Device> device, const DecoderOptions& options,
                                               const DecoderWeights& weights, int32_t slots, ThreadPool& pool) {
  SLIP_TRY_(check(*device, options, weights.embedding->type()));
  for (const LayerWeights& w : weights.layers) SLIP_TRY_(check(*device, options, w.qkv.type()));
  std::unique_ptr<CudaLm> lm(new CudaLm(std::move(device), options, slots));
  SLIP_TRY_(lm->upload_weights(weights, pool));
  lm->device_->drop_staging();
  return lm;
}

Status CudaLm::capture_usual() {
  constexpr int32_t kLongRows = 192;
  const TokenId only{0};
  const std::span<const TokenId> list(&only, 1);  // room for lists is made now: what grows later drops all graphs
  std::vector<Row> rows;
  std::vector<SlotSpan> spans;
  for (int32_t i = 0; i < std::min(kLongRows, info_.slots); ++i) {
    spans.push_back({0, i + 1});
    rows.push_back({TokenId{0}, Position::text(i), i, static_cast<uint32_t>(i), 1, Want::kNothing});
  }
  PassOutput out;
  rows.back().want = Want::kArgmax;
  SLIP_TRY_(forward({rows, spans}, out));  // a prompt's kernels are others
  for (int32_t width = 8; width <= kRowGroup; width *= 2)
    for (const Want want : {Want::kArgmax, Want::kLikely})
      for (const bool adapter : {false, true}) {
        if (adapter && !info_.has_draft_adapter) continue;
        const auto few = std::span(rows).first(std::min(rows.size(), static_cast<size_t>(width)));
        for (Row& row : few) row.want = want;
        few.front().allowed = 0;
        const Pass pass{.rows = few, .spans = spans, .draft_adapter = adapter, .allowed = {&list, 1}};
        for (int launch = 0; launch < 2; ++launch) SLIP_TRY_(forward(pass, out));  // the second is captured
      }
  return {};
}

size_t CudaLm::arena_numbers() const {
  return static_cast<size_t>(info_.slots) * static_cast<size_t>(options_.kv_heads) * static_cast<size_t>(padded_);
}

Result<CudaLm::Layer> CudaLm::upload_layer(const LayerWeights& w, ThreadPool& pool) {
  Layer l;
  Device& d = *device_;
  SLIP_TRY(l.attention_norm_D, upload(d, w.attention_norm_D));
  SLIP_TRY(l.mlp_norm_D, upload(d, w.mlp_norm_D));
  SLIP_TRY(l.q_norm_K, upload(d, w.q_norm_K));
  SLIP_TRY(l.k_norm_K, upload(d, w.k_norm_K));
  SLIP_TRY(l.qkv_bias, upload(d, w.qkv_bias));
  SLIP_TRY(l.o_bias, upload(d, w.o_bias));
  SLIP_TRY(l.gate_up_bias, upload(d, order_gate_up(w.gate_up_bias)));
  SLIP_TRY(l.down_bias, upload(d, w.down_bias));
  SLIP_TRY(l.qkv, upload(d, w.qkv, pool));
  SLIP_TRY(l.o, upload(d, w.o, pool));
  SLIP_TRY(l.gate_up, upload_gate_up(d, w.gate_up, pool));
  SLIP_TRY(l.down, upload(d, w.down, pool));
  return l;
}

Status CudaLm::upload_weights(const DecoderWeights& weights, ThreadPool& pool) {
  SLIP_TRY(embedding_, upload(*device_, *weights.embedding, pool));
  if (!options_.tied_head) {
    SLIP_TRY(head_, upload(*device_, *weights.head, pool));
  }
  SLIP_TRY(final_norm_D_, upload(*device_, weights.final_norm_D));
  for (const LayerWeights& w : weights.layers) {
    SLIP_TRY(Layer layer, upload_layer(w, pool));
    layers_.push_back(std::move(layer));
  }
  const DraftAdapter& adapter = weights.adapter;
  for (size_t i = 0; i < adapter.layers.size(); ++i) {
    SLIP_TRY(layers_[i].low, upload(*device_, adapter.layers[i].a, pool));
    SLIP_TRY(layers_[i].high, upload(*device_, adapter.layers[i].b, pool));
  }
  info_.has_draft_adapter = !adapter.layers.empty();
  rank_ = adapter.rank;
  adapter_scale_ = adapter.scale;
  most_tiles_ = head_tiles().tiles;
  for (const Layer& l : layers_)
    for (const DeviceMatrix* m : {&l.qkv, &l.o, &l.gate_up, &l.down, &l.low, &l.high})
      most_tiles_ = std::max(most_tiles_, m->tiles.tiles);
  const size_t bytes = layers_.size() * arena_numbers() * sizeof(Bf16);
  SLIP_TRY(keys_, device_->allocate(bytes, "the key/value cache"));
  SLIP_TRY(values_, device_->allocate(bytes, "the key/value cache"));
  return {};
}

Status CudaLm::make_room(const Pass& pass, const Room& room) {
  const bool captured = pass.rows.size() <= kRowGroup;
  space_ = captured ? &captured_ : &long_;
  Room most = captured ? planner_.usual() : Room{};  // at once: what grows later drops all graphs
  for (const Room& r : {room, space_->largest})
    most = {std::max(most.rows, r.rows), std::max(most.items, r.items), std::max(most.item_rows, r.item_rows),
            std::max(most.slots, r.slots), std::max(most.walks, r.walks)};
  const size_t features = pass.features.numbers_ND.size_bytes();
  if (features > b_.features_ND.bytes()) {
    SLIP_TRY_(device_->wait());
    SLIP_TRY(b_.features_ND, device_->allocate(features, "image features"));
  }
  if (!captured) most.rows = (most.rows + kLongStep - 1) / kLongStep * kLongStep;  // prompts differ by a few rows
  if (most == space_->largest) return {};
  SLIP_TRY_(device_->wait());  // what runs still uses the old ones
  if (captured) graphs_.clear();
  space_->largest = {};
  const DecoderOptions& o = options_;
  const auto rows = static_cast<size_t>(most.rows), heads = static_cast<size_t>(o.heads);
  const auto q = heads * static_cast<size_t>(o.head_width),
             kv = static_cast<size_t>(o.kv_heads) * static_cast<size_t>(o.head_width);
  const size_t partials = static_cast<size_t>(most.item_rows) * heads;
  const auto get = [&](Memory& m, size_t bytes) -> Status {
    m = {};
    SLIP_TRY(m, device_->allocate(bytes, "activations"));
    return {};
  };
  SLIP_TRY_(get(space_->x_TD, rows * static_cast<size_t>(o.width) * sizeof(float)));
  SLIP_TRY_(get(space_->normed_TD, row_bytes(rows, o.width)));
  SLIP_TRY_(get(space_->qkv_TE, rows * (q + 2 * kv) * sizeof(float)));
  SLIP_TRY_(get(space_->q_THP, rows * heads * static_cast<size_t>(padded_) * sizeof(Bf16)));
  SLIP_TRY_(get(space_->attended_THK, row_bytes(rows, static_cast<int64_t>(q))));
  SLIP_TRY_(get(space_->gated_TF, row_bytes(rows, o.mlp_width)));
  SLIP_TRY_(get(space_->sums_NHP, partials * static_cast<size_t>(padded_) * sizeof(float)));
  SLIP_TRY_(get(space_->tops_NH, partials * sizeof(float)));
  SLIP_TRY_(get(space_->totals_NH, partials * sizeof(float)));
  SLIP_TRY_(get(space_->choice_TB, rows * static_cast<size_t>(head_tiles().tiles) * sizeof(Choice)));
  SLIP_TRY_(get(space_->choice_T, rows * sizeof(Choice)));
  SLIP_TRY_(get(space_->likely_TK, rows * kLikely * sizeof(LikelyLogit)));
  SLIP_TRY_(get(space_->low_TR, rows * static_cast<size_t>(rank_) * sizeof(float)));
  SLIP_TRY_(get(space_->rounded_TR, row_bytes(rows, rank_)));
  SLIP_TRY_(get(space_->shares, share_numbers(most.rows) * sizeof(float)));
  SLIP_TRY_(get(space_->arrivals, static_cast<size_t>(most_tiles_) * sizeof(int32_t)));
  SLIP_TRY_(make_room_for_taps(*space_, most.rows));
  const size_t bytes = PassLayout(most, rope_.half()).bytes;
  SLIP_TRY_(get(space_->pass, bytes));
  SLIP_TRY(space_->pass_host, device_->allocate_host(bytes, "a pass's rows"));
  SLIP_TRY(space_->choice_host, device_->allocate_host(rows * sizeof(Choice), "choices"));
  SLIP_TRY(space_->likely_host, device_->allocate_host(rows * kLikely * sizeof(LikelyLogit), "choices"));
  space_->largest = most;
  return {};
}

/// Where the device finds a feature row, which is there.
const float* CudaLm::address_of(const FeatureView& features, Feature its) const {
  const FeatureView::Place place = *features.place_of(its.index, options_.width);
  const size_t at = static_cast<size_t>(place.row) * static_cast<size_t>(options_.width);
  if (place.block < 0) return b_.features_ND.data<float>() + at;
  return static_cast<const CudaFeatures&>(*features.resident[static_cast<size_t>(place.block)]).data() + at;
}

Status CudaLm::write_pass(const Pass& pass, const PassLayout& layout) {
  char* host = space_->pass_host.data<char>();
  const size_t rows = pass.rows.size();
  auto* counts = reinterpret_cast<PassCounts*>(host + layout.counts);
  *counts = {static_cast<int32_t>(rows),
             static_cast<int32_t>(wanted_N_.size()),
             static_cast<int32_t>(plan_.items.size()),
             static_cast<int32_t>(by_want_.argmax_N.size()),
             static_cast<int32_t>(by_want_.argmax_N.size() + by_want_.logits_N.size()),
             static_cast<int32_t>(plan_.walks.size())};
  auto* inputs = reinterpret_cast<int32_t*>(host + layout.inputs);
  auto* features = reinterpret_cast<const float**>(host + layout.features);
  auto* slots = reinterpret_cast<int32_t*>(host + layout.slots_of_rows);
  auto* scales = reinterpret_cast<float*>(host + layout.q_scales);
  positions_.clear();
  for (size_t t = 0; t < rows; ++t) {
    const Row& row = pass.rows[t];
    const auto* token = std::get_if<TokenId>(&row.input);
    inputs[t] = token ? token->value : 0;
    features[t] = token ? nullptr : address_of(pass.features, std::get<Feature>(row.input));
    slots[t] = row.slot;
    positions_.push_back(row.position);
    if (options_.q_scale_beta != 0) scales[t] = query_scale(options_.q_scale_beta, options_.q_scale_positions, row.position.t);
  }
  rope_tables(rope_, positions_, reinterpret_cast<float*>(host + layout.cosines), reinterpret_cast<float*>(host + layout.sines));
  const auto put = [&](size_t at, const auto& list) {
    if (!list.empty()) std::memcpy(host + at, list.data(), list.size() * sizeof(list[0]));
  };
  put(layout.wanted, wanted_N_);
  put(layout.allowed, allowed_N_);
  put(layout.first_partial, plan_.first_partial_T);
  put(layout.sees, plan_.sees_T);
  put(layout.walks, plan_.walks);
  put(layout.items, plan_.items);
  put(layout.item_rows, plan_.item_rows);
  put(layout.slots, plan_.slots);
  const std::span<const float> numbers = pass.features.numbers_ND;
  if (!numbers.empty()) SLIP_TRY_(device_->copy_in(b_.features_ND.data(), numbers.data(), numbers.size_bytes()));
  return device_->copy_in(space_->pass.data(), host, layout.used(plan_));
}

/// A product of a pass's rows.
ProductArgs CudaLm::product_of(const DeviceMatrix& w, const RowTiles& x, Then then, const PassLayout& layout) const {
  return product_args(&in_pass<const PassCounts>(layout.counts)->rows, w, x, then,
                      {as<float>(space_->shares), as<int32_t>(space_->arrivals)});
}

void CudaLm::launch_attention(int32_t number, const Shape& shape, const PassLayout& layout) {
  const DecoderOptions& o = options_;
  const Layer& l = layers_[static_cast<size_t>(number)];
  const auto* counts = in_pass<const PassCounts>(layout.counts);
  const size_t arena = static_cast<size_t>(number) * arena_numbers();
  Bf16 *keys = as<Bf16>(keys_) + arena, *values = as<Bf16>(values_) + arena;
  const float factor = static_cast<float>(std::numbers::log2e / std::sqrt(static_cast<double>(o.head_width)));
  place({counts, as<float>(space_->qkv_TE), in_pass<float>(layout.cosines), in_pass<float>(layout.sines), as<float>(l.q_norm_K),
         as<float>(l.k_norm_K), o.norm_eps, o.q_scale_beta != 0 ? in_pass<float>(layout.q_scales) : nullptr, factor,
         in_pass<int32_t>(layout.slots_of_rows), o.heads, o.kv_heads, o.head_width, rope_.half(), padded_, as<Bf16>(space_->q_THP),
         keys, values},
        shape.room.rows, device_->stream());
  const RowTiles attended = row_tiles(space_->attended_THK, shape.room.rows);
  if (shape.walks > 0) {
    walk({counts, in_pass<Walk>(layout.walks), in_pass<Item>(layout.items), in_pass<int32_t>(layout.slots),
          in_pass<int32_t>(layout.sees), as<Bf16>(space_->q_THP), keys, values, o.heads, o.kv_heads, o.head_width, padded_,
          attended},
         shape.walks, device_->stream());
    return;
  }
  attend({counts, in_pass<Item>(layout.items), in_pass<ItemRow>(layout.item_rows), in_pass<int32_t>(layout.slots),
          as<Bf16>(space_->q_THP), keys, values, o.heads, o.kv_heads, padded_, as<float>(space_->sums_NHP),
          as<float>(space_->tops_NH), as<float>(space_->totals_NH)},
         shape.room.items, shape.queries, device_->stream(), shape.crowded ? kMostUnitBlocks + 1 : 1);
  join({counts, in_pass<int32_t>(layout.first_partial), as<float>(space_->sums_NHP), as<float>(space_->tops_NH),
        as<float>(space_->totals_NH), o.heads, o.head_width, padded_, attended},
       shape.room.rows, device_->stream());
}

void CudaLm::launch_layer(int32_t number, const Shape& shape, const PassLayout& layout) {
  const DecoderOptions& o = options_;
  const Layer& l = layers_[static_cast<size_t>(number)];
  const int rows = shape.room.rows;
  void* stream = device_->stream();
  const int32_t* count = &in_pass<const PassCounts>(layout.counts)->rows;
  const RowTiles normed = row_tiles(space_->normed_TD, rows), attended = row_tiles(space_->attended_THK, rows),
                 gated = row_tiles(space_->gated_TF, rows);
  const auto multiply = [&](ProductArgs args, const Memory& bias, const Memory& out, int32_t ldo) {
    args.bias_N = as<float>(bias);
    args.out = as<float>(out);
    args.ldo = ldo;
    args.gated = gated;
    product(args, rows, stream);
  };
  norm({count, nullptr, as<float>(space_->x_TD), as<float>(l.attention_norm_D), o.norm_eps, o.width, normed}, rows, stream);
  multiply(product_of(l.qkv, normed, Then::kStore, layout), l.qkv_bias, space_->qkv_TE, (o.heads + 2 * o.kv_heads) * o.head_width);
  launch_attention(number, shape, layout);
  multiply(product_of(l.o, attended, Then::kAdd, layout), l.o_bias, space_->x_TD, o.width);
  if (shape.adapter) multiply(product_of(l.high, launch_low(l, shape, layout), Then::kAdd, layout), {}, space_->x_TD, o.width);
  norm({count, nullptr, as<float>(space_->x_TD), as<float>(l.mlp_norm_D), o.norm_eps, o.width, normed}, rows, stream);
  multiply(product_of(l.gate_up, normed, Then::kSwiglu, layout), l.gate_up_bias, {}, 0);
  multiply(product_of(l.down, gated, Then::kAdd, layout), l.down_bias, space_->x_TD, o.width);
  if (shape.taps) launch_taps(number, shape, layout);
}

/// The draft adapter's first product, rounded for its second.
RowTiles CudaLm::launch_low(const Layer& l, const Shape& shape, const PassLayout& layout) {
  const int rows = shape.room.rows;
  const RowTiles rounded = row_tiles(space_->rounded_TR, rows);
  ProductArgs low = product_of(l.low, row_tiles(space_->attended_THK, rows), Then::kStore, layout);
  low.out = as<float>(space_->low_TR);
  low.ldo = rank_;
  product(low, rows, device_->stream());
  round({low.count, as<float>(space_->low_TR), adapter_scale_, rank_, rounded}, rows, device_->stream());
  return rounded;
}

void CudaLm::launch_taps(int32_t number, const Shape& shape, const PassLayout& layout) {
  for (size_t i = 0; i < info_.tap_layers.size(); ++i)
    if (info_.tap_layers[i] == number)
      copy({&in_pass<const PassCounts>(layout.counts)->rows, as<float>(space_->x_TD), options_.width,
            static_cast<int32_t>(taps_width()), as<float>(space_->taps_TE) + i * static_cast<size_t>(options_.width)},
           shape.room.rows, device_->stream());
}

void CudaLm::launch_choice(const Shape& shape, const PassLayout& layout) {
  const auto* counts = in_pass<const PassCounts>(layout.counts);
  void* stream = device_->stream();
  const RowTiles normed = row_tiles(space_->normed_TD, shape.wanted);
  norm({&counts->wanted, in_pass<int32_t>(layout.wanted), as<float>(space_->x_TD), as<float>(final_norm_D_), options_.norm_eps,
        options_.width, normed},
       shape.wanted, stream);
  ProductArgs head = product_of(options_.tied_head ? embedding_ : head_, normed, Then::kChoice, layout);
  head.count = &counts->wanted;
  head.choice_TB = as<Choice>(space_->choice_TB);
  head.chosen = &counts->chosen;
  head.out = shape.logits ? as<float>(b_.logits_TV) : nullptr;
  head.ldo = options_.vocab;
  head.allowed = {as<uint32_t>(b_.allowed_LW), words_of(options_.vocab), in_pass<int32_t>(layout.allowed)};
  product(head, shape.wanted, stream);
  pick({&counts->wanted, as<Choice>(space_->choice_TB), head_tiles().tiles, as<Choice>(space_->choice_T)}, shape.wanted, stream);
}

Status CudaLm::launch_body(const Shape& shape, const PassLayout& layout) {
  const auto* counts = in_pass<const PassCounts>(layout.counts);
  embed(
      {counts, in_pass<int32_t>(layout.inputs), in_pass<const float*>(layout.features), embedding_.tiles, as<float>(space_->x_TD)},
      shape.room.rows, device_->stream());
  for (int32_t i = 0; i < options_.layers; ++i) launch_layer(i, shape, layout);
  if (shape.taps)
    SLIP_TRY_(device_->copy_out(space_->taps_host.data(), space_->taps_TE.data(),
                                static_cast<size_t>(shape.room.rows) * taps_width() * sizeof(float)));
  if (shape.wanted == 0) return {};
  launch_choice(shape, layout);
  if (shape.likely) {
    likely({in_pass<const PassCounts>(layout.counts), as<float>(b_.logits_TV), options_.vocab, as<LikelyLogit>(space_->likely_TK)},
           shape.wanted, device_->stream());
    SLIP_TRY_(device_->copy_out(space_->likely_host.data(), space_->likely_TK.data(),
                                static_cast<size_t>(shape.wanted) * kLikely * sizeof(LikelyLogit)));
  }
  return device_->copy_out(space_->choice_host.data(), space_->choice_T.data(), static_cast<size_t>(shape.wanted) * sizeof(Choice));
}

int CudaLm::graphs() const {
  return static_cast<int>(std::ranges::count_if(graphs_, [](const auto& g) { return g.second != nullptr; }));
}

Status CudaLm::run(const Pass& pass, const Shape& shape, const PassLayout& layout) {
  if (pass.rows.size() > kRowGroup) return launch_body(shape, layout);
  auto found = graphs_.find(shape);
  if (found == graphs_.end()) {
    if (graphs_.size() >= kMostGraphs) graphs_.clear();
    graphs_.emplace(shape, nullptr);
    return launch_body(shape, layout);  // the first of its shape: a kernel's first launch loads it, which a capture does not allow
  }
  if (!found->second) {
    SLIP_TRY(found->second, device_->capture([this, shape, layout] { return launch_body(shape, layout); }));
  }
  return device_->launch(*found->second);
}

void CudaLm::sort_rows(const Pass& pass) {
  by_want_.sort(pass, true);
  wanted_N_ = by_want_.argmax_N;
  for (const auto* more : {&by_want_.logits_N, &by_want_.likely_N}) wanted_N_.insert(wanted_N_.end(), more->begin(), more->end());
  list_of_.assign(pass.allowed.size(), -1);
  allowed_N_.clear();
  int32_t lists = 0;
  for (const int32_t t : wanted_N_) {
    const std::optional<int32_t> allowed = pass.rows[static_cast<size_t>(t)].allowed;
    if (allowed && list_of_[static_cast<size_t>(*allowed)] < 0) list_of_[static_cast<size_t>(*allowed)] = lists++;
    allowed_N_.push_back(allowed ? list_of_[static_cast<size_t>(*allowed)] : -1);
  }
}

/// The lists that this pass's rows name, as bits; a list that several rows name goes over once.
Status CudaLm::write_allowed(const Pass& pass) {
  const auto lists = static_cast<size_t>(std::ranges::count_if(list_of_, [](int32_t line) { return line >= 0; }));
  if (lists == 0) return {};
  const auto words = static_cast<size_t>(words_of(options_.vocab));
  if (const size_t bytes = std::bit_ceil(std::max<size_t>(lists, kRowGroup)) * words * sizeof(uint32_t);
      bytes > b_.allowed_LW.bytes()) {
    SLIP_TRY_(device_->wait());
    SLIP_TRY(Memory there, device_->allocate(bytes, "allowed ids"));
    SLIP_TRY(allowed_host_, device_->allocate_host(bytes, "allowed ids"));
    graphs_.clear();
    b_.allowed_LW = std::move(there);
  }
  auto* bits_LW = allowed_host_.data<uint32_t>();
  std::fill_n(bits_LW, lists * words, 0U);
  for (size_t i = 0; i < list_of_.size(); ++i) {
    if (list_of_[i] < 0) continue;
    uint32_t* bits_W = bits_LW + static_cast<size_t>(list_of_[i]) * words;
    for (const TokenId id : pass.allowed[i]) bits_W[id.value / 32] |= 1U << (id.value % 32);
  }
  return device_->copy_in(b_.allowed_LW.data(), bits_LW, lists * words * sizeof(uint32_t));
}

Status CudaLm::set_taps(std::span<const int32_t> layers) {
  if (std::ranges::equal(layers, info_.tap_layers)) return {};  // every answer with a draft head asks for them
  SLIP_TRY_(choose_taps(layers, options_.layers, info_));
  SLIP_TRY_(device_->wait());
  std::erase_if(graphs_, [](const auto& g) { return g.first.taps; });
  Status made;
  for (Space* space : {&captured_, &long_})  // both: where one fails, neither keeps room for the layers of before
    if (const int32_t rows = space->largest.rows; rows > 0)
      if (Status its = make_room_for_taps(*space, rows); !its) made = std::move(its);
  return made;
}

Status CudaLm::make_room_for_taps(Space& space, int32_t rows) {
  const size_t bytes = static_cast<size_t>(rows) * taps_width() * sizeof(float);
  space.taps_TE = space.taps_host = {};
  const Room before = std::exchange(space.largest, {});  // until both are there
  SLIP_TRY(space.taps_TE, device_->allocate(bytes, "hidden states"));
  SLIP_TRY(space.taps_host, device_->allocate_host(bytes, "hidden states"));
  space.largest = before;
  return {};
}

Status CudaLm::forward(const Pass& pass, PassOutput& out) {
  SLIP_TRY_(check_(pass, info_));
  for (const FeatureBlock& block : pass.features.resident)
    if (const auto* mine = dynamic_cast<const CudaFeatures*>(block.get()); !mine || mine->device_index() != device_->index())
      return bad_input("{} on {}: expected features of this device, got another's", info_.name, device_->name());
  begin_output(pass, info_, out);
  if (pass.rows.empty()) return {};
  sort_rows(pass);
  planner_.plan(pass, plan_);
  const Status ran = send_and_run(pass, out);
  const Status ended = device_->wait();  // after a failure too: what is on its way reads the host's copies
  SLIP_TRY_(ran);
  SLIP_TRY_(ended);
  read_choices(pass, out);
  keep_logits(pass, out);
  if (pass.taps) std::copy_n(space_->taps_host.data<float>(), out.taps_NE.size(), out.taps_NE.data());
  return {};
}

Status CudaLm::send_and_run(const Pass& pass, PassOutput& out) {
  const Room room = planner_.room(pass, plan_);
  SLIP_TRY_(make_room(pass, room));
  SLIP_TRY_(make_room_for_logits());
  const PassLayout layout(room, rope_.half());
  SLIP_TRY_(write_allowed(pass));
  SLIP_TRY_(write_pass(pass, layout));
  const size_t asked = wanted_N_.size();
  const int wanted = asked == 0 ? 0 : pass.rows.size() <= kRowGroup ? room.rows : static_cast<int>(asked);
  const bool whole = !by_want_.logits_N.empty(), largest = !by_want_.likely_N.empty();
  const Shape shape{.room = room,
                    .queries = rounded_queries(planner_.queries(pass.rows.size())),
                    .crowded = static_cast<int>(plan_.items.size()) * options_.kv_heads > kMostUnitBlocks,
                    .walks = static_cast<int>(plan_.walks.size()),
                    .wanted = wanted,
                    .adapter = pass.draft_adapter,
                    .taps = pass.taps,
                    .logits = whole || largest,
                    .likely = largest};
  SLIP_TRY_(run(pass, shape, layout));
  return whole ? copy_logits(out) : Status{};
}

}  // namespace slip::cuda
