// SPDX-License-Identifier: Apache-2.0
// The matrix products of a decoder's pass by oneDNN (`matmul`, weights in the layout that it chooses), for comparison:
//
//   onednn_products TYPE LAYERS WIDTH KV_WIDTH MLP VOCAB ROUNDS ROWS...       TYPE: bf16 int8
//
// Per layer qkv, o, gate and up as one, down; then the head. Every layer has weights of its own, so they come from memory as in a pass.
// bf16: bf16 x bf16 -> f32. int8: u8 x s8 -> f32 with a scale per output channel. One JSON line per number of rows: the median of the
// rounds, rows taking turns.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <dnnl.hpp>
#include <map>
#include <string>
#include <vector>

using namespace dnnl;
using Clock = std::chrono::steady_clock;

namespace {

struct Shape {
  memory::dim n, k;
};

struct Bench {
  engine eng{engine::kind::cpu, 0};
  stream queue{eng};
  bool int8;
  std::vector<Shape> shapes;                  // of every product in order
  std::vector<memory> weights;                // packed for the first number of rows, which is every one's layout
  std::map<long, std::vector<matmul>> plans;  // by rows
  std::map<long, std::vector<matmul::primitive_desc>> descs;

  matmul::primitive_desc desc(const Shape& s, long rows, const memory::desc& w) {
    const auto in = int8 ? memory::data_type::u8 : memory::data_type::bf16;
    const memory::desc x({rows, s.k}, in, memory::format_tag::ab), y({rows, s.n}, memory::data_type::f32, memory::format_tag::ab);
    primitive_attr attr;
    if (int8) attr.set_output_scales(1 << 1, std::vector<float>(static_cast<size_t>(s.n), 1e-4F));
    return {matmul::desc(x, w, y), attr, eng};
  }

  void prepare(const std::vector<long>& rows) {
    const auto type = int8 ? memory::data_type::s8 : memory::data_type::bf16;
    for (const Shape& s : shapes) {
      const memory::desc any({s.k, s.n}, type, memory::format_tag::any);
      weights.emplace_back(desc(s, rows.back(), any).weights_desc(), eng);
      auto* p = static_cast<uint8_t*>(weights.back().get_data_handle());
      for (size_t i = 0; i < weights.back().get_desc().get_size(); ++i)
        p[i] = int8 ? static_cast<uint8_t>(i * 2654435761U >> 24) : static_cast<uint8_t>(i % 2 ? 0x3C : i * 2654435761U >> 24);
    }
    for (const long r : rows)
      for (size_t i = 0; i < shapes.size(); ++i) {
        descs[r].push_back(desc(shapes[i], r, weights[i].get_desc()));
        plans[r].emplace_back(descs[r].back());
      }
  }

  double run_ms(long rows, std::vector<uint8_t>& x, std::vector<float>& y) {
    const auto start = Clock::now();
    for (size_t i = 0; i < shapes.size(); ++i) {
      const auto& d = descs[rows][i];
      plans[rows][i].execute(queue, {{DNNL_ARG_SRC, memory(d.src_desc(), eng, x.data())},
                                     {DNNL_ARG_WEIGHTS, weights[i]},
                                     {DNNL_ARG_DST, memory(d.dst_desc(), eng, y.data())}});
    }
    queue.wait();
    return std::chrono::duration<double, std::milli>(Clock::now() - start).count();
  }
};

}  // namespace

int main(int argc, char** argv) {
  if (argc < 9) return std::fprintf(stderr, "onednn_products bf16|int8 LAYERS WIDTH KV_WIDTH MLP VOCAB ROUNDS ROWS...\n"), 2;
  Bench b;
  b.int8 = std::strcmp(argv[1], "int8") == 0;
  const auto number = [&](int i) { return std::atol(argv[i]); };
  const long layers = number(2), width = number(3), kv = number(4), mlp = number(5), vocab = number(6), rounds = number(7);
  for (long l = 0; l < layers; ++l)
    for (const Shape& s : {Shape{width + 2 * kv, width}, Shape{width, width}, Shape{2 * mlp, width}, Shape{width, mlp}})
      b.shapes.push_back(s);
  if (vocab > 0) b.shapes.push_back({vocab, width});
  std::vector<long> rows;
  for (int i = 8; i < argc; ++i) rows.push_back(number(i));
  std::sort(rows.begin(), rows.end());
  b.prepare(rows);
  const auto most = static_cast<size_t>(rows.back());
  std::vector<uint8_t> x(most * static_cast<size_t>(std::max(width, mlp)) * 2, 0x3C);
  std::vector<float> y(most * static_cast<size_t>(std::max({2 * mlp, vocab, width + 2 * kv})));
  std::map<long, std::vector<double>> ms;
  for (long round = -1; round < rounds; ++round)  // round -1 settles
    for (const long r : rows) {
      const double t = b.run_ms(r, x, y);
      if (round >= 0) ms[r].push_back(t);
    }
  for (const long r : rows) {
    std::sort(ms[r].begin(), ms[r].end());
    std::printf("{\"engine\": \"onednn\", \"type\": \"%s\", \"rows\": %ld, \"ms\": %.4f, \"min_ms\": %.4f}\n", argv[1], r,
                ms[r][ms[r].size() / 2], ms[r].front());
  }
}
