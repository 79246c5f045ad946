// SPDX-License-Identifier: Apache-2.0
// `kernels_products`: the matrix products of a pass at the shape of Qwen2.5-VL-3B's text decoder, against what the machine gives in the
// same run; for docs/lab. Weights are random, of `layers` different layers and a head, several times larger than the caches.
//
//   kernels_products [bf16|int8|int4|f32] [rows,rows,...] [rounds] [layers] [threads]
//
// A round measures, one right after another, the plain reading of the layers' blobs, the dot-product peak, fork-join, and every row
// count; lines give medians over rounds of the ratios inside a round, because a shared machine changes its bandwidth by 1.6 between
// one second and the next (and then says so by fork-join: under 100 ns the cores are close and the bandwidth is low).
#include <sys/mman.h>

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <sstream>
#include <string>

#include "base/large_pages.h"
#include "base/measure.h"
#include "kernels/isa/ops.h"
#include "kernels/kernels.h"
#include "kernels/probe.h"

namespace slip {
namespace {

constexpr int64_t kWidth = 2048, kQkv = 2560, kMlp = 11008, kVocab = 151936, kAllLayers = 36;

template <class F>
double seconds_of(const F& f) {
  const auto begin = Clock::now();
  f();
  return std::chrono::duration<double>(Clock::now() - begin).count();
}

/// A blob of random numbers that are neither NaN nor subnormal; scales are 1e-3.
PackedMatrix random_matrix(WeightType type, int64_t n, int64_t k, ThreadPool& pool) {
  const size_t bytes = PackedMatrix::packed_bytes(type, n, k), huge = 2 << 20, rounded = (bytes + huge - 1) / huge * huge;
  std::shared_ptr<uint64_t> memory(static_cast<uint64_t*>(std::aligned_alloc(huge, rounded)), [](uint64_t* p) { std::free(p); });
  if (std::getenv("SLIP_SMALL_PAGES") == nullptr) ::madvise(memory.get(), rounded, MADV_HUGEPAGE);
  const int64_t words = static_cast<int64_t>(bytes / 8), piece = 1 << 16;
  pool.run((words + piece - 1) / piece, [&](int64_t i) {
    uint64_t state = 0x9e3779b97f4a7c15u * static_cast<uint64_t>(i + 1);
    for (int64_t w = i * piece; w < std::min(words, (i + 1) * piece); w++) {
      state ^= state << 13, state ^= state >> 7, state ^= state << 17;
      if (type == WeightType::kF32) memory.get()[w] = (state & 0x807fffff807fffffu) | 0x3c0000003c000000u;
      if (type == WeightType::kBF16) memory.get()[w] = (state & 0x807f807f807f807fu) | 0x3c003c003c003c00u;
      if (type == WeightType::kI8 || type == WeightType::kI4) memory.get()[w] = state;
    }
  });
  if (type == WeightType::kI8 || type == WeightType::kI4) {
    const size_t columns = static_cast<size_t>((n + kBlockColumns - 1) / kBlockColumns * kBlockColumns);
    float* scales = reinterpret_cast<float*>(reinterpret_cast<char*>(memory.get()) + bytes) - columns;
    std::fill_n(scales, columns, 1e-3F);
  }
  return std::move(*PackedMatrix::view(type, n, k, {reinterpret_cast<const std::byte*>(memory.get()), bytes}, memory));
}

struct Layer {
  PackedMatrix qkv, o, gate_up, down;
};

struct Bench {
  WeightType type;
  ThreadPool pool;
  Workspace workspace;
  std::vector<Layer> layers;
  PackedMatrix head;
  std::unique_ptr<float, decltype(&std::free)> x, y;  // where a pass keeps its activations, in pages as large

  static auto numbers(int64_t n) {
    return std::unique_ptr<float, decltype(&std::free)>(
        static_cast<float*>(allocate_numbers(static_cast<size_t>(n) * sizeof(float))), std::free);
  }
  Bench(WeightType type, int count, int threads, int64_t most)
      : type(type), pool(threads), x(numbers(most * kMlp)), y(numbers(most * 2 * kMlp)) {
    for (int i = 0; i < count; i++)
      layers.push_back({random_matrix(type, kQkv, kWidth, pool), random_matrix(type, kWidth, kWidth, pool),
                        random_matrix(type, 2 * kMlp, kWidth, pool), random_matrix(type, kWidth, kMlp, pool)});
    head = random_matrix(type, kVocab, kWidth, pool);
    for (size_t i = 0; i < static_cast<size_t>(most * kMlp); i++)
      x.get()[i] = static_cast<float>(static_cast<int>(i * 2654435761u % 2001) - 1000) * 1e-3F;
  }
  size_t layer_bytes() const {
    const Layer& l = layers.front();
    return l.qkv.bytes() + l.o.bytes() + l.gate_up.bytes() + l.down.bytes();
  }

  void product(const PackedMatrix& w, int64_t rows) { matmul(w, x.get(), rows, w.k(), nullptr, y.get(), w.n(), pool, workspace); }
  double time_layers(int64_t rows) {
    return seconds_of([&] {
      for (const Layer& l : layers)
        for (const PackedMatrix* w : {&l.qkv, &l.o, &l.gate_up, &l.down}) product(*w, rows);
    });
  }
  double time_head(int64_t rows) {
    std::vector<TokenId> ids(static_cast<size_t>(rows));
    return seconds_of([&] { matmul_argmax(head, x.get(), rows, kWidth, ids.data(), nullptr, pool, workspace); });
  }
  double time_read() {
    constexpr int64_t kPiece = 1 << 16;  // words
    std::atomic<uint32_t> keep{0};
    return seconds_of([&] {
      for (const Layer& l : layers)
        for (const PackedMatrix* w : {&l.qkv, &l.o, &l.gate_up, &l.down})
          pool.run(static_cast<int64_t>(w->bytes() / 4 / kPiece),
                   [&](int64_t i) { keep += ops().fold(static_cast<const Word*>(w->data()) + i * kPiece, kPiece); });
    });
  }
};

struct Samples {
  std::vector<double> ms, against_read, against_one, of_peak;
};

void run(WeightType type, const std::vector<int64_t>& rows_list, int rounds, int layers, int threads) {
  const int64_t most = *std::max_element(rows_list.begin(), rows_list.end());
  Bench bench(type, layers, threads, most);
  const double numbers = static_cast<double>(layers) * (kQkv * kWidth + kWidth * kWidth + 3 * kMlp * kWidth);
  const double head_numbers = static_cast<double>(kVocab) * kWidth;
  std::vector<Samples> layer_samples(rows_list.size()), pass_samples(rows_list.size());
  std::vector<double> gbps, gops, join, each[4];
  for (int64_t rows : rows_list) bench.time_layers(rows);
  for (int round = 0; round < rounds; round++) {
    const double peak = dot_gops(type, bench.pool) * 1e9, join_ns = fork_join_ns(bench.pool);
    double one = 0, one_pass = 0;
    for (size_t i = 0; i < rows_list.size(); i++) {
      const int64_t rows = rows_list[i];
      const double read = bench.time_read(), bytes = static_cast<double>(bench.layer_bytes() * bench.layers.size());
      const double t = bench.time_layers(rows), head = bench.time_head(std::min<int64_t>(rows, 64));
      const double pass = t * kAllLayers / layers + (rows <= 64 ? head : 0);
      const double pass_read = read * (kAllLayers * numbers / layers + (rows <= 64 ? head_numbers : 0)) / numbers;
      const double pass_numbers = kAllLayers * numbers / layers + (rows <= 64 ? head_numbers : 0);
      if (i == 0) one = t, one_pass = pass;
      const auto note = [&](Samples& s, double time, double reading, double first, double operations) {
        s.ms.push_back(time * 1e3);
        s.against_read.push_back(reading / time);
        s.against_one.push_back(time / first);
        s.of_peak.push_back(operations / time / peak);
      };
      note(layer_samples[i], t, read, one, 2 * numbers * static_cast<double>(rows));
      note(pass_samples[i], pass, pass_read, one_pass, 2 * pass_numbers * static_cast<double>(rows));
      gbps.push_back(bytes / read * 1e-9);
    }
    gops.push_back(peak * 1e-9);
    join.push_back(join_ns);
  }
  std::sort(gbps.begin(), gbps.end());
  std::printf("%s, %d layers, %d threads: read %.1f GB/s (%.1f to %.1f), dot peak %.0f G/s, fork-join %.0f ns, %zu MB per layer\n",
              isa_choice().reason.c_str(), layers, bench.pool.threads(), median(gbps), gbps.front(), gbps.back(), median(gops),
              median(join), bench.layer_bytes() / 1000000);
  std::printf("%6s | %10s %10s %9s %9s | pass: %10s %9s %9s %9s\n", "rows", "layers ms", "of read", "of 1 row", "of peak", "ms",
              "of read", "of 1 row", "of peak");
  for (size_t i = 0; i < rows_list.size(); i++) {
    const Samples &a = layer_samples[i], &b = pass_samples[i];
    std::printf("%6ld | %10.3f %10.3f %9.3f %9.3f | %16.2f %9.3f %9.3f %9.3f\n", static_cast<long>(rows_list[i]), median(a.ms),
                median(a.against_read), median(a.against_one), median(a.of_peak), median(b.ms), median(b.against_read),
                median(b.against_one), median(b.of_peak));
  }
  std::fflush(stdout);
}

}  // namespace
}  // namespace slip

int main(int argc, char** argv) {
  const std::string word = argc > 1 ? argv[1] : "bf16";
  const slip::WeightType type = word == "f32"    ? slip::WeightType::kF32
                                : word == "int8" ? slip::WeightType::kI8
                                : word == "int4" ? slip::WeightType::kI4
                                                 : slip::WeightType::kBF16;
  std::stringstream list(argc > 2 ? argv[2] : "1,2,4,8,16,32,64");
  std::vector<int64_t> rows;
  for (std::string one; std::getline(list, one, ',');) rows.push_back(std::clamp<int64_t>(std::atoll(one.c_str()), 1, 1024));
  slip::run(type, rows, argc > 3 ? std::atoi(argv[3]) : 9, argc > 4 ? std::atoi(argv[4]) : 4, argc > 5 ? std::atoi(argv[5]) : 2);
}
