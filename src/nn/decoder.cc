// SPDX-License-Identifier: Apache-2.0
// The pass through a decoder; formulas and promises in decoder.h.
#include "nn/decoder.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "base/check.h"
#include "base/clock/operation_clock.h"
#include "nn/answers.h"
#include "nn/buffer.h"
#include "nn/window.h"

namespace slip {
namespace {

// Copies and look-ups move a few KB per row: below 64 rows a task costs more to hand out (0.3 to 1 us) than to do.
constexpr int64_t kCopyRows = 64;
// The MLP runs in slices of rows, so that 3,000 rows of a prompt at F = 11,008 need 23 MB between the products, not 132.
constexpr int64_t kMlpRows = 512;

template <class F>
void for_rows(ThreadPool& pool, int64_t rows, F&& f) {
  pool.run((rows + kCopyRows - 1) / kCopyRows, [&](int64_t task) {
    for (int64_t t = task * kCopyRows; t < std::min(rows, (task + 1) * kCopyRows); ++t) f(t);
  });
}

const float* or_null(const std::vector<float>& v) { return v.empty() ? nullptr : v.data(); }

// x - x is zero for finite numbers and NaN otherwise: one sum without a branch in the loop.
bool finite(const float* x, int64_t n) {
  float sum = 0;
  for (int64_t i = 0; i < n; ++i) sum += x[i] - x[i];
  return sum == 0;
}

}  // namespace

LmInfo info_of(const DecoderOptions& o, int32_t slots) { return {o.name, o.vocab, o.width, slots, o.rule, false, {}}; }

Result<std::unique_ptr<DecoderLm>> DecoderLm::create(DecoderOptions options, DecoderWeights weights, int32_t slots,
                                                     ThreadPool& pool, std::optional<KvType> keys) {
  SLIP_CHECK(!weights.layers.empty(), "the loader fills every layer");
  const KvType type = keys.value_or(kv_type_of(weights.layers[0].qkv.type()));
  if (type == KvType::kI8 && options.head_width % 4 != 0)
    return unsupported("{}: int8 keys: expected a head width that is a multiple of 4, got {}", options.name, options.head_width);
  if (type == KvType::kBF16 && options.head_width % 2 != 0)
    return unsupported("{}: bf16 keys: expected an even head width, got {}", options.name, options.head_width);
  SLIP_TRY(KvArena arena, KvArena::create(options.layers, slots, options.kv_heads, options.head_width, type));
  return std::unique_ptr<DecoderLm>(new DecoderLm(std::move(options), std::move(weights), std::move(arena), pool));
}

DecoderLm::DecoderLm(DecoderOptions options, DecoderWeights weights, KvArena arena, ThreadPool& pool)
    : options_(std::move(options)),
      weights_(std::move(weights)),
      arena_(std::move(arena)),
      pool_(pool),
      rope_(rope_frequencies(options_.rope)),
      info_(info_of(options_, arena_.slots())),
      check_(arena_.slots(), weights_.embedding ? weights_.embedding->n() : 0) {
  SLIP_CHECK(static_cast<int32_t>(weights_.layers.size()) == options_.layers, "the loader fills every layer");
  SLIP_CHECK(weights_.embedding && (options_.tied_head || weights_.head), "the loader fills embedding and head");
  SLIP_CHECK(options_.window == 0 || static_cast<int32_t>(options_.slides_L.size()) == options_.layers,
             "a window names its layers");
  const size_t adapted = weights_.adapter.layers.size();
  SLIP_CHECK(adapted == 0 || adapted == weights_.layers.size(), "the loader fills an adapter for every layer or none");
  size_t bytes = 0;
  for (const LayerWeights& w : weights_.layers) bytes += w.qkv.bytes() + w.o.bytes() + w.gate_up.bytes() + w.down.bytes();
  if (bytes <= kCachedBytes)
    for (int i = 0; i < (pool_.threads() > 1 ? pool_.threads() : 0); ++i) alone_.push_back(std::make_unique<Alone>());
  info_.has_draft_adapter = adapted > 0;
}

Status DecoderLm::set_taps(std::span<const int32_t> layers) { return choose_taps(layers, options_.layers, info_); }

namespace {

/// The pool asks whether the pass is still wanted, while it lasts.
class Watched {
 public:
  Watched(ThreadPool& pool, const PassWatch* watch) : pool_(pool) {
    if (watch && watch->stop) pool_.stop_when(&watch->stop);
  }
  Watched(const Watched&) = delete;
  Watched& operator=(const Watched&) = delete;
  ~Watched() { pool_.stop_when(nullptr); }

 private:
  ThreadPool& pool_;
};

}  // namespace

Status DecoderLm::forward(const Pass& pass, PassOutput& out) {
  const OperationScope running("pass, the rest");
  SLIP_TRY_(check_(pass, info_));
  if (!pass.features.resident.empty())
    return unsupported("{} on the processor: expected features in its memory, got rows that lie on a device", info_.name);
  begin_output(pass, info_, out);
  if (pass.rows.empty()) return {};
  const Watched watched(pool_, pass.watch);
  {
    const OperationScope preparing("rows and rotation tables");
    prepare(pass);
  }
  {
    const OperationScope embedding("embedding");
    embed(pass);
  }
  tap("embeds_TD", a_.x_TD.data());
  layers(pass, out);
  if (!pool_.stopped()) head(pass, out);
  if (pool_.stopped()) return Error{ErrorKind::kCancelled, "pass: expected to finish, got cancelled"};
  return {};
}

/// Calls f with shares that cover all rows: one for each thread, or one with all threads.
template <class F>
void DecoderLm::for_shares(F&& f) {
  if (!shares_rows()) return f(Share{0, rows_, pool_, workspace_});
  pool_.run(static_cast<int64_t>(alone_.size()), [&](int64_t i) {
    const auto at = static_cast<size_t>(i);
    f(Share{a_.share_first[at], a_.share_first[at + 1] - a_.share_first[at], alone_[at]->pool, alone_[at]->workspace});
  });
}

bool DecoderLm::shares_rows() const {
  const auto threads = static_cast<int64_t>(alone_.size());
  return threads > 0 && !tap_ && rows_ >= kShareRows * threads && rows_ <= kMlpRows;
}

/// Where each thread's rows begin. A prompt's last rows see far more keys than its first ones; the rows of a pass of decoding see about as many.
void DecoderLm::share_out(const Pass& pass) {
  constexpr int64_t kUnequalRows = 128;
  if (!shares_rows()) return;
  const auto threads = static_cast<int64_t>(alone_.size());
  a_.share_first.assign(static_cast<size_t>(threads) + 1, rows_);
  if (rows_ < kUnequalRows || options_.window > 0) {  // where layers slide, keys tell little
    for (int64_t i = 0; i < threads; ++i) a_.share_first[static_cast<size_t>(i)] = rows_ * i / threads;
    return;
  }
  const DecoderOptions& o = options_;
  const int64_t q = int64_t{o.heads} * o.head_width, kv = int64_t{o.kv_heads} * o.head_width;
  // A row's products in keys: 2 q numbers each, and attention runs at about half of the products' rate.
  const int64_t products = int64_t{o.width} * (2 * q + 2 * kv + 3 * int64_t{o.mlp_width}) / (4 * q);
  a_.cost_before_T.assign(1, 0);
  for (int64_t t = 0; t < rows_; ++t) {
    const RowSpans& r = a_.row_spans_T[static_cast<size_t>(t)];
    int64_t keys = 0;
    for (const SlotSpan& s : pass.spans.subspan(r.first, r.count)) keys += s.end - s.begin;
    a_.cost_before_T.push_back(a_.cost_before_T.back() + products + keys);
  }
  for (int64_t i = 0; i < threads; ++i) {
    const int64_t before = a_.cost_before_T.back() * i / threads;
    a_.share_first[static_cast<size_t>(i)] = std::ranges::lower_bound(a_.cost_before_T, before) - a_.cost_before_T.begin();
  }
}

// A run ends where rows need each other's keys: it is the second half of a layer and the first half of the next.
void DecoderLm::layers(const Pass& pass, PassOutput& out) {
  const int32_t last = options_.layers - 1;
  share_out(pass);
  for_shares([&](const Share& s) { project(0, s); });
  for (int32_t layer = 0; layer <= last; ++layer) {
    if (layer == last && !needs_every_row(pass)) {
      keep_wanted();
      share_out(pass);
    }
    if (rows_ == 0 || pool_.stopped()) return;
    if (pass.watch && pass.watch->tell) pass.watch->tell(layer, last + 1);
    for_shares([&](const Share& s) {
      attend(pass, layer, s);
      mlp_block(layer, s);
      if (pass.taps) copy_taps(layer, out, s);
      if (tap_) tap(fmt::format("layer_{}_TD", layer), a_.x_TD.data());
      if (layer < last) project(layer + 1, s);
    });
  }
}

void DecoderLm::prepare(const Pass& pass) {
  const DecoderOptions& o = options_;
  rows_ = static_cast<int64_t>(pass.rows.size());
  a_.by_want.sort(pass);
  a_.positions_T.clear();
  a_.slots_T.clear();
  a_.row_spans_T.clear();
  a_.q_scale_T.clear();
  for (const Row& row : pass.rows) {
    a_.positions_T.push_back(row.position);
    a_.slots_T.push_back(row.slot);
    a_.row_spans_T.push_back({row.sees_first, row.sees_count});
    if (o.q_scale_beta != 0) a_.q_scale_T.push_back(query_scale(o.q_scale_beta, o.q_scale_positions, row.position.t));
  }
  if (o.window > 0) trim_to_window(pass);
  const int64_t q = int64_t{o.heads} * o.head_width, kv = int64_t{o.kv_heads} * o.head_width;
  a_.x_TD.grow(count(rows_, o.width));
  a_.normed_TD.grow(count(rows_, o.width));
  a_.update_TD.grow(count(rows_, o.width));
  a_.qkv_TE.grow(count(rows_, q + 2 * kv));
  a_.attended_THK.grow(count(rows_, q));
  if (pass.draft_adapter) a_.low_TR.grow(count(rows_, weights_.adapter.rank));
  a_.gated_TF.grow(count(std::min(rows_, kMlpRows), o.mlp_width));
  fill_rotation();
}

void DecoderLm::trim_to_window(const Pass& pass) {
  a_.window_spans_T.clear();
  a_.windowed.clear();
  for (const Row& row : pass.rows) {
    const auto first = static_cast<uint32_t>(a_.windowed.size());
    append_window(pass.spans.subspan(row.sees_first, row.sees_count), row.slot, options_.window, a_.windowed);
    a_.window_spans_T.push_back({first, static_cast<uint32_t>(a_.windowed.size()) - first});
  }
}

void DecoderLm::fill_rotation() {
  const int32_t half = rope_.half();
  float* cosine = a_.cos_TK2.grow(count(rows_, half));
  float* sine = a_.sin_TK2.grow(count(rows_, half));
  pool_.run((rows_ + kCopyRows - 1) / kCopyRows, [&](int64_t task) {
    const int64_t first = task * kCopyRows, rows = std::min(rows_ - first, kCopyRows);
    rope_tables(rope_, std::span(a_.positions_T).subspan(static_cast<size_t>(first), static_cast<size_t>(rows)),
                cosine + first * half, sine + first * half);
  });
}

void DecoderLm::embed(const Pass& pass) {
  const int64_t width = options_.width;
  for_rows(pool_, rows_, [&](int64_t t) {
    float* x_D = a_.x_TD.data() + t * width;
    const RowInput& input = pass.rows[static_cast<size_t>(t)].input;
    if (const auto* token = std::get_if<TokenId>(&input)) {
      weights_.embedding->row(token->value, {x_D, static_cast<size_t>(width)});
    } else {
      copy_floats(x_D, pass.features.numbers_ND.data() + std::get<Feature>(input).index * width, width);
    }
  });
}

// Moves the rows that want something to the front; the others have done their part by storing keys and values.
void DecoderLm::keep_wanted() {
  const int64_t width = options_.width, q = int64_t{options_.heads} * options_.head_width;
  const int64_t line = q + 2 * int64_t{options_.kv_heads} * options_.head_width;
  int64_t to = 0;
  for (const int32_t t : a_.by_want.wanted_N) {
    if (t != to) {
      copy_floats(a_.x_TD.data() + to * width, a_.x_TD.data() + t * width, width);
      copy_floats(a_.qkv_TE.data() + to * line, a_.qkv_TE.data() + t * line, q);
      a_.row_spans_T[static_cast<size_t>(to)] = a_.row_spans_T[static_cast<size_t>(t)];
      if (options_.window > 0) a_.window_spans_T[static_cast<size_t>(to)] = a_.window_spans_T[static_cast<size_t>(t)];
      if (!a_.q_scale_T.empty()) a_.q_scale_T[static_cast<size_t>(to)] = a_.q_scale_T[static_cast<size_t>(t)];
    }
    ++to;
  }
  rows_ = to;
}

void DecoderLm::project(int32_t layer, const Share& s) {
  const DecoderOptions& o = options_;
  const LayerWeights& w = weights_.layers[static_cast<size_t>(layer)];
  const int64_t line = int64_t{o.heads + 2 * o.kv_heads} * o.head_width, half = rope_.half();
  float* qkv_TE = a_.qkv_TE.data() + s.first * line;
  {
    const OperationScope product("qkv product");
    matmul(w.qkv, ProductInput{a_.x_TD.data() + s.first * o.width, s.rows, o.width, w.attention_norm_D.data(), o.norm_eps},
           ProductOutput{qkv_TE, line, or_null(w.qkv_bias)}, s.pool, s.workspace);
  }
  const OperationScope rotating("rotation and storing keys");
  RotateStoreArgs args;
  args.qkv_TE = qkv_TE;
  args.rows = s.rows;
  args.heads = o.heads;
  args.kv_heads = o.kv_heads;
  args.head_width = o.head_width;
  args.half = static_cast<int32_t>(half);
  args.cos_TK2 = a_.cos_TK2.data() + s.first * half;
  args.sin_TK2 = a_.sin_TK2.data() + s.first * half;
  if (o.qk_norm) {
    args.q_gain_K = w.q_norm_K.data();
    args.k_gain_K = w.k_norm_K.data();
    args.eps = o.norm_eps;
  }
  args.kv_type = arena_.type();
  args.keys = arena_.keys(layer);
  args.values = arena_.values(layer);
  args.key_scales = arena_.key_scales(layer);
  args.value_scales = arena_.value_scales(layer);
  args.slot_stride = arena_.slot_stride();
  args.head_stride = arena_.head_stride();
  args.slots_T = a_.slots_T.data() + s.first;
  rotate_store(args, s.pool);
}

void DecoderLm::attend(const Pass& pass, int32_t layer, const Share& s) {
  const DecoderOptions& o = options_;
  const LayerWeights& w = weights_.layers[static_cast<size_t>(layer)];
  const int64_t q = int64_t{o.heads} * o.head_width, line = q + 2 * int64_t{o.kv_heads} * o.head_width;
  AttentionArgs args;
  args.q_THK = a_.qkv_TE.data() + s.first * line;
  args.ldq = line;
  args.kv_type = arena_.type();
  args.keys_SGK = arena_.keys(layer);
  args.values_SGK = arena_.values(layer);
  args.key_scales_SG = arena_.key_scales(layer);
  args.value_scales_SG = arena_.value_scales(layer);
  args.slot_stride = arena_.slot_stride();
  args.head_stride = arena_.head_stride();
  args.out_THK = a_.attended_THK.data() + s.first * q;
  args.rows = s.rows;
  args.heads = o.heads;
  args.kv_heads = o.kv_heads;
  args.head_width = o.head_width;
  args.scale = static_cast<float>(1 / std::sqrt(static_cast<double>(o.head_width)));
  args.row_spans = {(slides(layer) ? a_.window_spans_T : a_.row_spans_T).data() + s.first, static_cast<size_t>(s.rows)};
  args.spans = slides(layer) ? std::span<const SlotSpan>(a_.windowed) : pass.spans;
  args.q_scale_T = a_.q_scale_T.empty() ? nullptr : a_.q_scale_T.data() + s.first;
  {
    const OperationScope attending("attention");
    attention(args, s.pool, s.workspace);
  }
  const OperationScope product("o product");
  const ProductInput attended{args.out_THK, s.rows, q};
  float* x_TD = a_.x_TD.data() + s.first * o.width;
  if (!pass.draft_adapter) return matmul(w.o, attended, ProductOutput{x_TD, o.width, or_null(w.o_bias), true}, s.pool, s.workspace);
  float* update_TD = a_.update_TD.data() + s.first * o.width;
  matmul(w.o, attended, ProductOutput{update_TD, o.width, or_null(w.o_bias)}, s.pool, s.workspace);
  add_adapter(layer, s);
  add(x_TD, update_TD, s.rows, o.width, s.pool);
}

// The scale goes on the R numbers between the products: R of them instead of D, and with bf16 a power of two costs no bit.
void DecoderLm::add_adapter(int32_t layer, const Share& s) {
  const DraftAdapter& adapter = weights_.adapter;
  const DraftAdapter::Layer& w = adapter.layers[static_cast<size_t>(layer)];
  const int64_t q = int64_t{options_.heads} * options_.head_width, rank = adapter.rank, width = options_.width;
  float* low_TR = a_.low_TR.data() + s.first * rank;
  float* normed_TD = a_.normed_TD.data() + s.first * width;  // free between the norms of attention and MLP
  matmul(w.a, a_.attended_THK.data() + s.first * q, s.rows, q, nullptr, low_TR, rank, s.pool, s.workspace);
  for (int64_t i = 0; i < s.rows * rank; ++i) low_TR[i] *= adapter.scale;
  matmul(w.b, low_TR, s.rows, rank, nullptr, normed_TD, width, s.pool, s.workspace);
  add(a_.update_TD.data() + s.first * width, normed_TD, s.rows, width, s.pool);
}

void DecoderLm::copy_taps(int32_t layer, PassOutput& out, const Share& s) {
  const int64_t width = options_.width, line = taps_width(info_);
  for (size_t i = 0; i < info_.tap_layers.size(); ++i) {
    if (info_.tap_layers[i] != layer) continue;
    float* to = out.taps_NE.data() + s.first * line + static_cast<int64_t>(i) * width;
    const float* x_TD = a_.x_TD.data() + s.first * width;
    for_rows(s.pool, s.rows, [&](int64_t t) { copy_floats(to + t * line, x_TD + t * width, width); });
  }
}

// Taps of the last layer are wanted for rows whose logits nobody wants.
bool DecoderLm::needs_every_row(const Pass& pass) const {
  const auto& taps = info_.tap_layers;
  return tap_ || (pass.taps && std::find(taps.begin(), taps.end(), options_.layers - 1) != taps.end());
}

void DecoderLm::mlp_block(int32_t layer, const Share& s) {
  const DecoderOptions& o = options_;
  const LayerWeights& w = weights_.layers[static_cast<size_t>(layer)];
  const int64_t f = o.mlp_width;
  // Shares have slices of their own: they exist only where all rows fit one slice.
  float* gated_TF = a_.gated_TF.data() + s.first * f;
  for (int64_t first = 0; first < s.rows; first += kMlpRows) {
    const int64_t rows = std::min(kMlpRows, s.rows - first);
    float* x_TD = a_.x_TD.data() + (s.first + first) * o.width;
    {
      const OperationScope gating("gate and up product");
      matmul_swiglu(w.gate_up, ProductInput{x_TD, rows, o.width, w.mlp_norm_D.data(), o.norm_eps}, or_null(w.gate_up_bias),
                    gated_TF, f, s.pool, s.workspace);
    }
    const OperationScope product("down product");
    matmul(w.down, ProductInput{gated_TF, rows, f}, ProductOutput{x_TD, o.width, or_null(w.down_bias), true}, s.pool, s.workspace);
  }
}

void DecoderLm::head(const Pass& pass, PassOutput& out) {
  const std::vector<int32_t>&wanted_N = a_.by_want.wanted_N, &argmax_N = a_.by_want.argmax_N, &logits_N = a_.by_want.logits_N;
  if (rows_ == 0 || (wanted_N.empty() && !tap_)) return;
  const OperationScope heading("head");
  const int64_t width = options_.width, vocab = options_.vocab;
  rms_norm(a_.x_TD.data(), rows_, width, weights_.final_norm_D.data(), options_.norm_eps, a_.normed_TD.data(), pool_);
  tap("final_norm_TD", a_.normed_TD.data());
  if (!argmax_N.empty()) best_of(pass, gather(pass, argmax_N), out);
  const auto n = static_cast<int64_t>(logits_N.size());
  if (n == 0) return;
  out.logits_NV.resize(count(n, vocab));
  const float* x_ND = gather(pass, logits_N);
  matmul(*head_matrix(), x_ND, n, width, nullptr, out.logits_NV.data(), vocab, pool_, workspace_);
  for (int64_t i = 0; i < n; ++i) {
    const auto t = static_cast<size_t>(logits_N[static_cast<size_t>(i)]);
    out.logits_row[t] = static_cast<int32_t>(i);
    const bool number = answer_logits(pass, t, out.logits_V(t), out);
    out.nan_rows += !number || !finite(x_ND + i * width, width);
  }
}

// The normed rows of rows_N side by side. With taps all rows may be here in order, else the wanted ones.
const float* DecoderLm::gather(const Pass& pass, const std::vector<int32_t>& rows_N) {
  const bool all_rows = rows_ == static_cast<int64_t>(pass.rows.size());
  const int64_t width = options_.width;
  size_t wanted = 0;
  float* to = a_.update_TD.data();
  for (const int32_t t : rows_N) {
    while (a_.by_want.wanted_N[wanted] != t) ++wanted;
    copy_floats(to, a_.normed_TD.data() + (all_rows ? t : static_cast<int64_t>(wanted)) * width, width);
    to += width;
  }
  return a_.update_TD.data();
}

// Rows that want the argmax: never their logits.
void DecoderLm::best_of(const Pass& pass, const float* x_ND, PassOutput& out) {
  const std::vector<int32_t>& argmax_N = a_.by_want.argmax_N;
  const auto n = static_cast<int64_t>(argmax_N.size()), width = int64_t{options_.width};
  a_.allowed_N.clear();
  bool restricted = false, statistics = false;
  for (const int32_t t : argmax_N) {
    const Row& row = pass.rows[static_cast<size_t>(t)];
    a_.allowed_N.push_back(allowed_of(pass, row));
    restricted |= row.allowed.has_value();
    statistics |= row.statistics;
  }
  if (!restricted) a_.allowed_N.clear();
  for (std::vector<float>* x : {&a_.largest_N, &a_.second_N, &a_.log_sum_exp_N}) x->resize(argmax_N.size());
  a_.best_N.resize(argmax_N.size());
  HeadOutput head{.best_T = a_.best_N.data(), .largest_T = a_.largest_N.data()};
  if (statistics) {
    head.second_T = a_.second_N.data();
    head.log_sum_exp_T = a_.log_sum_exp_N.data();
    out.statistics.resize(pass.rows.size());
  }
  matmul_head(*head_matrix(), {.x_TK = x_ND, .rows = n, .ldx = width}, a_.allowed_N, head, pool_, workspace_);
  for (size_t i = 0; i < argmax_N.size(); ++i) {
    const auto t = static_cast<size_t>(argmax_N[i]);
    const TokenId best = a_.best_N[i], lowest = restricted && !a_.allowed_N[i].empty() ? a_.allowed_N[i].front() : TokenId{0};
    out.argmax[t] = best.value < 0 ? lowest : best;
    out.nan_rows += !std::isfinite(a_.largest_N[i]) || !finite(x_ND + static_cast<int64_t>(i) * width, width);
    if (pass.rows[t].statistics) out.statistics[t] = {a_.largest_N[i], a_.second_N[i], a_.log_sum_exp_N[i]};
  }
}

void DecoderLm::tap(std::string_view name, const float* x) {
  if (tap_) tap_(name, {x, count(rows_, options_.width)}, options_.width);
}

}  // namespace slip
