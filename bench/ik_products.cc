// SPDX-License-Identifier: Apache-2.0
// The matrix products of a decoder's pass by ik_llama.cpp's ggml, for comparison; weights repacked by rows as its -rtr 1 does, or as
// they lie in a file:
//
//   ik_products TYPE REPACK LAYERS WIDTH KV_WIDTH MLP VOCAB ROUNDS THREADS ROWS...       TYPE: bf16 int8 (Q8_0) int4 (Q4_0); REPACK: 0 1
//
// Per layer qkv, o, gate and up as one, down; then the head. Every layer has weights of its own, so they come from memory as in a pass;
// activations are f32 and converted in the product, as there. One JSON line per number of rows: the median of the rounds, rows
// taking turns. compare.sh builds it where IK_LLAMA names a built checkout.
#include <ggml.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <random>
#include <string>
#include <vector>

extern "C" void iqk_repack_tensor(ggml_tensor* tensor);  // of its ggml/src/iqk

using Clock = std::chrono::steady_clock;

namespace {

struct Shape {
  int64_t n, k;
};

struct Bench {
  ggml_type type;
  bool repack;
  ggml_context* context = ggml_init({size_t{64} << 20, nullptr, true});  // tensors without their numbers
  std::vector<ggml_tensor*> weights;
  std::vector<std::vector<uint8_t>> blobs;
  std::vector<uint8_t> work;
  std::vector<float> x, y;
  std::map<int64_t, ggml_cgraph*> graphs;

  // Blocks of a few random rows repeated: the arithmetic does not look at the numbers.
  void add_weights(const Shape& s) {
    constexpr int64_t kSample = 64;
    std::mt19937 engine(static_cast<uint32_t>(weights.size()));
    std::normal_distribution<float> normal(0, 0.02F);
    std::vector<float> rows(static_cast<size_t>(kSample * s.k));
    for (float& v : rows) v = normal(engine);
    const size_t line = ggml_row_size(type, s.k);
    std::vector<uint8_t> sample(line * kSample);
    if (type == GGML_TYPE_BF16)
      ggml_fp32_to_bf16_row(rows.data(), reinterpret_cast<ggml_bf16_t*>(sample.data()), kSample * s.k);
    else
      ggml_quantize_chunk(type, rows.data(), sample.data(), 0, kSample, s.k, nullptr, nullptr);
    std::vector<uint8_t>& blob = blobs.emplace_back(line * static_cast<size_t>(s.n) + 64);
    uint8_t* at = blob.data() + (64 - reinterpret_cast<uintptr_t>(blob.data()) % 64) % 64;
    for (int64_t r = 0; r < s.n; r += kSample)
      std::memcpy(at + static_cast<size_t>(r) * line, sample.data(), line * static_cast<size_t>(std::min(kSample, s.n - r)));
    ggml_tensor* w = ggml_new_tensor_2d(context, type, s.k, s.n);
    w->data = at;
    if (repack) iqk_repack_tensor(w);
    weights.push_back(w);
  }

  void plan(int64_t rows) {
    ggml_cgraph* graph = ggml_new_graph_custom(context, 2 * weights.size() + 8, false);
    for (ggml_tensor* w : weights) {
      ggml_tensor* in = ggml_new_tensor_2d(context, GGML_TYPE_F32, w->ne[0], rows);
      in->data = x.data();
      ggml_tensor* out = ggml_mul_mat(context, w, in);
      out->data = y.data();
      ggml_build_forward_expand(graph, out);
    }
    graphs[rows] = graph;
  }

  double run_ms(int64_t rows, int threads) {
    ggml_cplan plan = ggml_graph_plan(graphs[rows], threads);
    if (work.size() < plan.work_size) work.resize(plan.work_size);
    plan.work_data = work.data();
    const auto start = Clock::now();
    ggml_graph_compute(graphs[rows], &plan);
    return std::chrono::duration<double, std::milli>(Clock::now() - start).count();
  }
};

}  // namespace

int main(int argc, char** argv) {
  if (argc < 11)
    return std::fprintf(stderr, "ik_products bf16|int8|int4 REPACK LAYERS WIDTH KV_WIDTH MLP VOCAB ROUNDS THREADS ROWS...\n"), 2;
  const std::string type = argv[1];
  Bench b{.type = type == "bf16" ? GGML_TYPE_BF16 : type == "int8" ? GGML_TYPE_Q8_0 : GGML_TYPE_Q4_0, .repack = argv[2][0] == '1'};
  const auto number = [&](int i) { return std::atol(argv[i]); };
  const int64_t layers = number(3), width = number(4), kv = number(5), mlp = number(6), vocab = number(7), rounds = number(8);
  const int threads = static_cast<int>(number(9));
  std::vector<int64_t> rows;
  for (int i = 10; i < argc; ++i) rows.push_back(number(i));
  std::sort(rows.begin(), rows.end());
  for (int64_t l = 0; l < layers; ++l)
    for (const Shape& s : {Shape{width + 2 * kv, width}, Shape{width, width}, Shape{2 * mlp, width}, Shape{width, mlp}})
      b.add_weights(s);
  if (vocab > 0) b.add_weights({vocab, width});
  b.x.assign(static_cast<size_t>(rows.back() * std::max(width, mlp)), 0.01F);
  b.y.resize(static_cast<size_t>(rows.back() * std::max({2 * mlp, vocab, width + 2 * kv})));
  for (const int64_t r : rows) b.plan(r);
  std::map<int64_t, std::vector<double>> ms;
  for (int64_t round = -1; round < rounds; ++round)  // round -1 settles
    for (const int64_t r : rows) {
      const double t = b.run_ms(r, threads);
      if (round >= 0) ms[r].push_back(t);
    }
  for (const int64_t r : rows) {
    std::sort(ms[r].begin(), ms[r].end());
    std::printf("{\"engine\": \"%s\", \"type\": \"%s\", \"rows\": %ld, \"ms\": %.4f, \"min_ms\": %.4f}\n",
                b.repack ? "ik repacked" : "ik", argv[1], r, ms[r][ms[r].size() / 2], ms[r].front());
  }
}
