// SPDX-License-Identifier: Apache-2.0
// `kernels_timing`: what each operation of a pass costs at the shapes of the demonstration model, by rows; for
// docs/lab. Shortest of many repeats, because a shared machine only ever adds time:
//
//   kernels_timing [threads] [rows,rows,...] [filter] [bf16|int8|int4|f32]
//
// One line per operation: microseconds per pass of a whole model (5 layers), and per row. To compare two versions, build
// both and run them in alternation.
#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <random>
#include <sstream>
#include <string>

#include "kernels/kernels.h"
#include "kernels/rope.h"

namespace slip {
namespace {

constexpr int64_t kWidth = 224, kHeads = 7, kHeadWidth = 32, kMlp = 608, kVocab = 720, kSlots = 1024;
constexpr int kLayers = 5;

std::vector<float> numbers(int64_t n, uint32_t seed) {
  std::mt19937 engine(seed);
  std::normal_distribution<float> normal;
  std::vector<float> out(static_cast<size_t>(n));
  for (float& x : out) x = normal(engine);
  return out;
}

double shortest_us(double seconds, const std::function<void()>& f) {
  using Clock = std::chrono::steady_clock;
  const auto begin = Clock::now();
  double best = 1e9;
  for (int i = 0; i < 20 || std::chrono::duration<double>(Clock::now() - begin).count() < seconds; i++) {
    const auto t = Clock::now();
    f();
    best = std::min(best, std::chrono::duration<double, std::micro>(Clock::now() - t).count());
  }
  return best;
}

/// A cache of one key/value head per layer, random numbers in slots of `width`; with int8, scales behind them.
struct Cache {
  KvType type;
  int64_t width;
  std::vector<std::byte> keys, values;
  std::vector<float> key_scales, value_scales;
  Cache(KvType type, int64_t width)
      : type(type), width(width), keys(bytes()), values(bytes()), key_scales(kLayers * kSlots), value_scales(kLayers * kSlots) {
    const auto k = numbers(kLayers * kSlots * width, 4), v = numbers(kLayers * kSlots * width, 5);
    for (int64_t s = 0; s < kLayers * kSlots; s++) {
      store(k.data() + s * width, true, keys, s, &key_scales[static_cast<size_t>(s)]);
      store(v.data() + s * width, false, values, s, &value_scales[static_cast<size_t>(s)]);
    }
  }
  size_t bytes() const { return static_cast<size_t>(kLayers * kSlots * width) * size_of(type); }
  size_t at(int64_t slot) const { return static_cast<size_t>(slot * width) * size_of(type); }

 private:
  void store(const float* x, bool key, std::vector<std::byte>& to, int64_t slot, float* scale) const {
    std::byte* out = to.data() + at(slot);
    if (type == KvType::kI8)
      to_kv_i8(x, width, key, reinterpret_cast<uint8_t*>(out), scale);
    else
      to_kv(type, x, width, out);
  }
};

/// One matrix per layer, so that weights come from where they come from in a pass.
std::vector<PackedMatrix> layers_of(WeightType type, int64_t n, int64_t k, ThreadPool& pool) {
  std::vector<PackedMatrix> out;
  const auto w = numbers(n * k, 1);
  out.reserve(kLayers);
  for (int i = 0; i < kLayers; i++) out.push_back(pack_matrix(type, n, k, w.data(), pool));
  return out;
}

struct Timing {
  ThreadPool pool;
  std::string filter;
  Workspace workspace;
  std::vector<PackedMatrix> qkv, o, gate_up, down;
  PackedMatrix head;
  std::vector<float> x, y, wide, gain, cosine, sine;
  std::vector<Cache> caches;
  RopeFrequencies rope;

  Timing(int threads, std::string only, WeightType type)
      : pool(threads),
        filter(std::move(only)),
        qkv(layers_of(type, kWidth + 2 * kHeadWidth, kWidth, pool)),
        o(layers_of(type, kWidth, kWidth, pool)),
        gate_up(layers_of(type, 2 * kMlp, kWidth, pool)),
        down(layers_of(type, kWidth, kMlp, pool)),
        head(pack_matrix(type, kVocab, kWidth, numbers(kVocab * kWidth, 2).data(), pool)),
        x(numbers(512 * 2 * kMlp, 3)),
        y(512 * 2 * kMlp),
        wide(512 * 2 * kMlp),
        gain(numbers(kWidth, 6)),
        cosine(512 * kHeadWidth / 2),
        sine(cosine),
        rope(rope_frequencies({.width = kHeadWidth, .theta = 1e4, .sections = {4, 6, 6}})) {
    for (const int64_t width : {kHeadWidth, int64_t{128}})
      for (const KvType type : {KvType::kF32, KvType::kBF16, KvType::kI8}) caches.emplace_back(type, width);
  }

  void line(const std::string& name, int64_t rows, const std::function<void()>& f) {
    if (name.find(filter) == std::string::npos) return;
    const double us = shortest_us(0.05, f);
    std::printf("%-40s %4ld rows %9.2f us %8.3f us/row\n", name.c_str(), static_cast<long>(rows), us,
                us / static_cast<double>(rows));
  }

  void products(int64_t rows) {
    const auto each = [&](const char* name, const std::vector<PackedMatrix>& w) {
      line(name, rows, [&] {
        for (const PackedMatrix& m : w) matmul(m, x.data(), rows, m.k(), nullptr, y.data(), m.n(), pool, workspace);
      });
    };
    each("matmul qkv", qkv);
    each("matmul o", o);
    each("matmul gate_up", gate_up);
    each("matmul down", down);
    line("matmul all, as in a pass", rows, [&] {
      for (size_t i = 0; i < qkv.size(); i++)
        for (const PackedMatrix* m : {&qkv[i], &o[i], &gate_up[i], &down[i]})
          matmul(*m, x.data(), rows, m->k(), nullptr, y.data(), m->n(), pool, workspace);
    });
    std::vector<TokenId> best(static_cast<size_t>(rows));
    line("head argmax", rows, [&] { matmul_argmax(head, x.data(), rows, kWidth, best.data(), nullptr, pool, workspace); });
  }

  void rowwise(int64_t rows) {
    const auto five = [&](const char* name, const std::function<void()>& f) {
      line(name, rows, [&] {
        for (int i = 0; i < kLayers; i++) f();
      });
    };
    five("rms_norm x2", [&] {
      for (int i = 0; i < 2; i++) rms_norm(x.data(), rows, kWidth, gain.data(), 1e-6F, y.data(), pool);
    });
    five("add x2", [&] {
      for (int i = 0; i < 2; i++) add(y.data(), x.data(), rows, kWidth, pool);
    });
    five("swiglu", [&] { swiglu(x.data(), x.data() + kMlp, rows, kMlp, 2 * kMlp, y.data(), pool); });
    five("rotate q and k", [&] {
      rotate(wide.data(), rows, kWidth, kHeads, kHeadWidth, kHeadWidth / 2, cosine.data(), sine.data(), pool);
      rotate(wide.data(), rows, kHeadWidth, 1, kHeadWidth, kHeadWidth / 2, cosine.data(), sine.data(), pool);
    });
    std::vector<Position> positions;
    positions.reserve(static_cast<size_t>(rows));
    for (int32_t t = 0; t < rows; t++) positions.push_back({400 + t, 400 + t, 400 + t});
    line("rope tables", rows, [&] { rope_tables(rope, positions, cosine.data(), sine.data()); });
  }

  void attend(const std::string& name, const std::vector<std::vector<SlotSpan>>& lists) {
    std::vector<RowSpans> row_spans;
    std::vector<SlotSpan> flat;
    for (const auto& list : lists) {
      row_spans.push_back({static_cast<uint32_t>(flat.size()), static_cast<uint32_t>(list.size())});
      flat.insert(flat.end(), list.begin(), list.end());
    }
    const auto rows = static_cast<int64_t>(lists.size());
    for (const Cache& cache : caches) {
      const auto pass = [&] {
        for (int64_t layer = 0; layer < kLayers; layer++)
          attention({.q_THK = x.data(),
                     .kv_type = cache.type,
                     .keys_SGK = cache.keys.data() + cache.at(layer * kSlots),
                     .values_SGK = cache.values.data() + cache.at(layer * kSlots),
                     .key_scales_SG = cache.key_scales.data() + layer * kSlots,
                     .value_scales_SG = cache.value_scales.data() + layer * kSlots,
                     .out_THK = y.data(),
                     .rows = rows,
                     .heads = kHeads,
                     .kv_heads = 1,
                     .head_width = static_cast<int32_t>(cache.width),
                     .scale = 1 / std::sqrt(static_cast<float>(cache.width)),
                     .row_spans = row_spans,
                     .spans = flat},
                    pool, workspace);
      };
      const char* types[] = {"f32", "bf16", "i8"};
      line(fmt::format("attention {} x {}, {}", types[static_cast<int>(cache.type)], cache.width, name), rows, pass);
    }
  }

  void attentions(int64_t rows) {
    std::vector<std::vector<SlotSpan>> same, causal, short_same, graph;
    std::mt19937 engine(7);
    const auto short_spans = [&] {  // a prompt, then 30 spans of 1 to 15 slots in ascending order
      std::vector<SlotSpan> list{{0, 220}};
      int32_t at = 221;
      for (int i = 0; i < 30; i++) {
        const int32_t begin = at + static_cast<int32_t>(engine() % 3), end = begin + 1 + static_cast<int32_t>(engine() % 15);
        list.push_back({begin, end});
        at = end + 1;
      }
      return list;
    };
    const auto shared = short_spans();
    for (int32_t t = 0; t < rows; t++) {
      same.push_back({{0, 450}});
      causal.push_back({{0, 450 + t + 1}});
      short_same.push_back(shared);
      graph.push_back(short_spans());
    }
    attend("450 shared", same);
    attend("450 causal", causal);
    attend("short spans equal", short_same);
    attend("short spans differ", graph);
  }
};

}  // namespace
}  // namespace slip

int main(int argc, char** argv) {
  const int threads = argc > 1 ? std::atoi(argv[1]) : 1;
  std::stringstream rows_list(argc > 2 ? argv[2] : "1,4,8,16,32,64");
  constexpr std::string_view kTypes[] = {"f32", "bf16", "int8", "int4"};
  const auto type = std::ranges::find(kTypes, argc > 4 ? std::string_view(argv[4]) : "bf16");
  if (type == std::end(kTypes)) return std::fprintf(stderr, "expected f32, bf16, int8 or int4, got %s\n", argv[4]), 2;
  slip::Timing timing(threads, argc > 3 ? argv[3] : "", static_cast<slip::WeightType>(type - std::begin(kTypes)));
  for (std::string word; std::getline(rows_list, word, ',');) {
    const int64_t rows = std::clamp<int64_t>(std::atoll(word.c_str()), 1, 512);
    timing.products(rows);
    timing.rowwise(rows);
    timing.attentions(rows);
  }
}
