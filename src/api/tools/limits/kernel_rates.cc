// SPDX-License-Identifier: Apache-2.0
// See kernel_rates.h.
#include "api/tools/limits/kernel_rates.h"

#include <unistd.h>
#include <algorithm>
#include <cstdlib>

#include "base/measure.h"
#include "kernels/kernels.h"
#include "nn/decoder.h"

namespace slip::api {

namespace {

constexpr int32_t kRows[] = {1, 2, 4, 8, 12, 16, 24, 32, 48, 64, 96, 128};
constexpr int32_t kMostRows = 128, kMostTowerRows = 1024;
constexpr size_t kLeastBytes = 128 << 20, kMostBytes = 512 << 20;
constexpr double kPointMs = 25;  // of measuring, at least
constexpr int kLeastRuns = 5, kMostRuns = 200;
constexpr double kLongerMs = 150;  // where the least counts

/// Of weights, at most: more than the last cache holds, so that those of a large model come from memory here too.
size_t weight_bytes() {
#ifdef _SC_LEVEL3_CACHE_SIZE
  const auto l3 = static_cast<size_t>(std::max<long>(0, ::sysconf(_SC_LEVEL3_CACHE_SIZE)));
#else
  constexpr size_t l3 = 0;
#endif
  return std::clamp(l3 + l3 / 2, kLeastBytes, kMostBytes);
}

WeightType type_of(std::string_view word) {
  return word == "f32" ? WeightType::kF32 : word == "bf16" ? WeightType::kBF16 : word == "int8" ? WeightType::kI8 : WeightType::kI4;
}

/// A matrix whose bytes are one word again and again: a small number as f32, as bf16, as a scale, and any bytes as integers.
Result<PackedMatrix> some_matrix(WeightType type, int64_t n, int64_t k) {
  constexpr uint32_t kWord = 0x3a83126f;
  const size_t bytes = PackedMatrix::packed_bytes(type, n, k);
  std::shared_ptr<uint32_t> memory(static_cast<uint32_t*>(std::aligned_alloc(kPackedAlignment, bytes)),
                                   [](uint32_t* p) { std::free(p); });
  if (!memory) return resource_error("limits: expected {} bytes of memory for a matrix, got none", bytes);
  std::fill_n(memory.get(), bytes / sizeof(uint32_t), kWord);
  return PackedMatrix::view(type, n, k, {reinterpret_cast<const std::byte*>(memory.get()), bytes}, memory);
}

enum class Of : uint8_t { kMedian, kLeast };

/// Milliseconds of a call, the median or the least as what is predicted is measured; the first call grows buffers.
template <class F>
double ms_of(Of of, const F& f) {
  f();
  std::vector<double> runs;
  const auto start = Clock::now();
  while (static_cast<int>(runs.size()) < kLeastRuns ||
         (ms_since(start) < (of == Of::kLeast ? kLongerMs : kPointMs) && static_cast<int>(runs.size()) < kMostRuns)) {
    const auto before = Clock::now();
    f();
    runs.push_back(ms_since(before));
  }
  return of == Of::kMedian ? median(runs) : *std::ranges::min_element(runs);
}

/// A pass cut as DecoderLm cuts it: rows of their own for each thread of a small model, else all threads over every operation.
class Lanes {
 public:
  Lanes(ThreadPool& pool, bool small) : pool_(pool) {
    if (small && pool.threads() > 1)
      for (int i = 0; i < pool.threads(); ++i) alone_.push_back(std::make_unique<Alone>());
  }
  template <class F>  // f(first row, rows, pool, workspace)
  void run(int32_t rows, const F& f) {
    const auto threads = static_cast<int32_t>(alone_.size());
    if (threads == 0 || rows < kShareRows * threads) return f(0, rows, pool_, workspace_);
    pool_.run(threads, [&](int64_t i) {
      const auto at = static_cast<int32_t>(i);
      const int32_t first = rows * at / threads;
      f(first, rows * (at + 1) / threads - first, alone_[static_cast<size_t>(i)]->pool, alone_[static_cast<size_t>(i)]->workspace);
    });
  }

 private:
  struct Alone {
    ThreadPool pool{1};
    Workspace workspace;
  };
  ThreadPool& pool_;
  Workspace workspace_;
  std::vector<std::unique_ptr<Alone>> alone_;
};

/// The first half of an MLP: [norm,] gate and up, or up alone, and the function behind it.
struct Mlp {
  WeightType type;
  int64_t width, ffn;
  bool gated;
  int64_t layers;  // of a model; as many as fit kMostBytes are made
};

class Products {
 public:
  static Result<Products> of(Mlp mlp, int32_t most_rows) {
    // Of a layer that is wider than that, as many columns as fit: the rate is that of a column.
    const auto most_bytes = static_cast<double>(weight_bytes());
    const double whole = bytes_of(mlp);
    if (whole > most_bytes)
      mlp.ffn = std::max<int64_t>(kColumns,
                                  static_cast<int64_t>(static_cast<double>(mlp.ffn) * most_bytes / whole) / kColumns * kColumns);
    Products p(mlp, most_rows);
    const int64_t columns = mlp.gated ? 2 * mlp.ffn : mlp.ffn;
    const auto most = static_cast<int64_t>(most_bytes / std::max(bytes_of(mlp), 1.0));
    for (int64_t i = 0; i < std::clamp<int64_t>(most, 1, mlp.layers); ++i) {
      SLIP_TRY(PackedMatrix m, some_matrix(mlp.type, columns, mlp.width));
      p.layers_.push_back(std::move(m));
    }
    return p;
  }
  double flops_per_ms(int32_t rows, Lanes& lanes, Of of) {
    const double ms = ms_of(of, [&] {
      lanes.run(rows, [&](int64_t first, int64_t n, ThreadPool& pool, Workspace& workspace) {
        for (const PackedMatrix& m : layers_) one(m, first, n, pool, workspace);
      });
    });
    return (mlp_.gated ? 4.0 : 2.0) * rows * static_cast<double>(mlp_.width * mlp_.ffn) * static_cast<double>(layers_.size()) / ms;
  }

 private:
  static constexpr int64_t kColumns = 64;  // of a block
  static double bytes_of(const Mlp& m) {   // of a layer
    return static_cast<double>(PackedMatrix::packed_bytes(m.type, m.gated ? 2 * m.ffn : m.ffn, m.width));
  }
  Products(const Mlp& mlp, int32_t most_rows)
      : mlp_(mlp),
        x_TD_(static_cast<size_t>(most_rows * mlp.width), 0.5F),
        gain_D_(static_cast<size_t>(mlp.width), 1),
        out_TF_(static_cast<size_t>(most_rows * mlp.ffn)) {
    for (size_t i = 0; i < x_TD_.size(); i += 3) x_TD_[i] = -0.25F;
  }
  void one(const PackedMatrix& m, int64_t first, int64_t n, ThreadPool& pool, Workspace& workspace) {
    const ProductInput x{x_TD_.data() + first * mlp_.width, n, mlp_.width, gain_D_.data(), 1e-6F};
    float* out = out_TF_.data() + first * mlp_.ffn;
    if (mlp_.gated) return matmul_swiglu(m, x, nullptr, out, mlp_.ffn, pool, workspace);
    matmul(m, x, {.out_TN = out, .ldo = mlp_.ffn}, pool, workspace);
    gelu(out, n, mlp_.ffn, false, pool);
  }

  Mlp mlp_;
  std::vector<PackedMatrix> layers_;
  std::vector<float> x_TD_, gain_D_, out_TF_;
};

/// Rows that see `keys` keys, and in a decoder the rows before them and themselves; every layer has keys of its own.
struct Heads {
  KvType type;
  int64_t heads, kv_heads, head_dim, layers;
  bool causal;
};

class Attention {
 public:
  Attention(const Attention&) = delete;  // it knows where its own memory begins
  Attention(const Heads& heads, int32_t keys, int32_t most_rows)
      : h_(heads),
        keys_(keys),
        layer_bytes_((static_cast<size_t>((keys + most_rows) * h_.kv_heads * h_.head_dim) * size_of(h_.type) + kLine - 1) / kLine *
                     kLine) {
    constexpr std::byte kQuiet{0x3c};  // as f32 and as bf16 a number near 0.01
    // At a line's beginning, as a model's are: a matrix unit is slower over numbers that straddle lines.
    cache_.assign(static_cast<size_t>(2 * h_.layers) * layer_bytes_ + kLine, kQuiet);
    void* first = cache_.data();
    size_t room = cache_.size();
    keys_at_ = static_cast<const std::byte*>(std::align(kLine, kLine, first, room));
    q_TE_.assign(static_cast<size_t>(most_rows * line()), 0.1F);
    out_TE_.resize(q_TE_.size());
    for (int32_t t = 0; t < most_rows; ++t) {
      row_spans_.push_back({h_.causal ? static_cast<uint32_t>(t) : 0, 1});
      spans_.push_back({0, h_.causal ? keys + t + 1 : keys});
    }
  }
  double flops_per_ms(int32_t rows, Lanes& lanes, Of of) {
    const double ms = ms_of(of, [&] {
      lanes.run(rows, [&](int64_t first, int64_t n, ThreadPool& pool, Workspace& workspace) {
        for (int64_t layer = 0; layer < h_.layers; ++layer) attend(layer, first, n, pool, workspace);
      });
    });
    return 4.0 * static_cast<double>(line() * h_.layers) * rows * (keys_ + (h_.causal ? (rows + 1) / 2.0 : 0)) / ms;
  }

 private:
  int64_t line() const { return h_.heads * h_.head_dim; }
  void attend(int64_t layer, int64_t first, int64_t n, ThreadPool& pool, Workspace& workspace) {
    const std::byte* at = keys_at_ + static_cast<size_t>(2 * layer) * layer_bytes_;
    AttentionArgs a;
    a.q_THK = q_TE_.data() + first * line();
    a.kv_type = h_.type;
    a.keys_SGK = at;
    a.values_SGK = at + layer_bytes_;
    a.out_THK = out_TE_.data() + first * line();
    a.rows = n;
    a.heads = static_cast<int32_t>(h_.heads), a.kv_heads = static_cast<int32_t>(h_.kv_heads);
    a.head_width = static_cast<int32_t>(h_.head_dim);
    a.scale = 0.125F;
    a.row_spans = std::span(row_spans_).subspan(static_cast<size_t>(first), static_cast<size_t>(n));
    a.spans = spans_;
    attention(a, pool, workspace);
  }

  Heads h_;
  int32_t keys_;
  size_t layer_bytes_;
  static constexpr size_t kLine = 64;
  std::vector<std::byte> cache_;  // of all layers: keys, then values
  const std::byte* keys_at_ = nullptr;
  std::vector<float> q_TE_, out_TE_;
  std::vector<RowSpans> row_spans_;
  std::vector<SlotSpan> spans_;
};

constexpr int32_t kMostKeys = 4096;  // more keys take as long each

/// As many layers as have room for their keys.
int64_t layers_for(const DecoderShape& s, int32_t keys) {
  const int64_t layer = 2 * (int64_t{keys} + kMostRows) * s.kv_heads * s.head_dim * int64_t{sizeof(float)};
  return std::clamp<int64_t>(static_cast<int64_t>(kLeastBytes) / std::max<int64_t>(layer, 1), 1, s.layers);
}

/// Heads that the engine's attention takes; a configuration that is only read may have others.
bool usual_heads(int64_t heads, int64_t kv_heads, int64_t head_dim) {
  return kv_heads > 0 && heads > 0 && heads % kv_heads == 0 && head_dim > 0 && head_dim % 2 == 0 && head_dim <= kMaxHeadWidth;
}

/// A pass of more rows is taken to take no less: what was disturbed at fewer rows cannot have taken more. `work`: of n rows, in any unit.
template <class F>
void level(std::vector<double>& rates, const std::vector<double>& rows, const F& work) {
  for (size_t i = rates.size() - 1; i-- > 0;) rates[i] = std::max(rates[i], work(rows[i]) * rates[i + 1] / work(rows[i + 1]));
}

KvType keys_of(std::string_view type) { return type == "f32" ? KvType::kF32 : KvType::kBF16; }

}  // namespace

Result<KernelRates> measured_kernels(const LimitsCase& model, int32_t keys, ThreadPool& pool, const CancelToken& cancel,
                                     const std::function<void(int64_t widths)>& tell) {
  const DecoderShape& s = model.shape;
  const double bytes = static_cast<double>(s.weights() - s.hidden * s.vocab) * bytes_of(model.type).value_or(2);
  Lanes lanes(pool, bytes <= static_cast<double>(kCachedBytes));
  KernelRates out;
  auto made = Products::of({type_of(model.type), s.hidden, s.ffn, true, s.layers}, kMostRows);
  if (!usual_heads(s.heads, s.kv_heads, s.head_dim) || (!made && made.error().kind == ErrorKind::kBadInput)) return out;
  SLIP_TRY(Products products, std::move(made));
  const int32_t behind = std::min(keys, kMostKeys);
  Attention attention({keys_of(model.type), s.heads, s.kv_heads, s.head_dim, layers_for(s, behind), true}, behind, kMostRows);
  for (const int32_t rows : kRows) {
    SLIP_TRY_(cancel.check("limits", static_cast<int64_t>(out.rows.size()), "widths"));
    tell(static_cast<int64_t>(out.rows.size()));
    out.rows.push_back(rows);
    out.product.push_back(products.flops_per_ms(rows, lanes, Of::kMedian));
    out.attention.push_back(attention.flops_per_ms(rows, lanes, Of::kMedian));
  }
  level(out.product, out.rows, [](double n) { return n; });
  level(out.attention, out.rows, [&](double n) { return n * (behind + (n + 1) / 2); });
  out.type = model.type;
  out.width = s.hidden, out.ffn = s.ffn;
  return out;
}

Result<KernelRates> measured_kernels(const TowerShape& s, std::string_view type, const TowerGrid& grid, ThreadPool& pool,
                                     const CancelToken& cancel) {
  const auto patches = static_cast<int32_t>(grid.rows * grid.columns + s.prefix_rows);
  if (patches <= 0 || s.heads <= 0 || !usual_heads(s.heads, s.heads, s.width / s.heads)) return KernelRates{};
  const int32_t rows = std::min(patches, kMostTowerRows), seen = std::min(patches, kMostKeys);
  Lanes lanes(pool, false);
  auto made = Products::of({type_of(type), s.width, s.mlp_width, s.gated, s.depth}, rows);
  if (!made && made.error().kind == ErrorKind::kBadInput) return KernelRates{};
  SLIP_TRY(Products products, std::move(made));
  SLIP_TRY_(cancel.check("limits", 0, "widths"));
  Attention attention({keys_of(type), s.heads, s.heads, s.width / s.heads, 1, false}, seen, rows);
  const double product = products.flops_per_ms(rows, lanes, Of::kLeast);
  SLIP_TRY_(cancel.check("limits", 1, "widths"));
  return KernelRates{{1}, {product}, {attention.flops_per_ms(rows, lanes, Of::kLeast)}, std::string(type), s.width, s.mlp_width};
}

}  // namespace slip::api
