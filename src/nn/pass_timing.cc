// SPDX-License-Identifier: Apache-2.0
// What a whole pass costs beside its matrix products alone, measured in alternation in one process, over random weights of a real
// shape (every layer has memory of its own). Built on demand; docs/lab/0008-pass.md has results.
//
//   pass_timing SHAPE TYPE [rows,rows,...] [keys,keys,...] [seconds per cell] [layers]
//   SHAPE: 3b (Qwen2.5-VL-3B's decoder), 0.5b, demo (models/demo); TYPE: f32, bf16, int8, int4; int8+kv8, ...: with int8 keys
#include <sys/resource.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <random>
#include <sstream>

#include "base/measure.h"
#include "base/threads/threads.h"
#include "kernels/probe.h"
#include "nn/decoder.h"

namespace slip {
namespace {

struct Case {
  std::string shape, type;
  std::vector<int32_t> rows{1, 8, 32, 64}, keys{0, 2000};
  double seconds = 2;
};

DecoderOptions options_of(const std::string& shape) {
  DecoderOptions o;
  if (shape == "3b")
    o = {.vocab = 151936, .width = 2048, .layers = 36, .heads = 16, .kv_heads = 2, .head_width = 128, .mlp_width = 11008};
  if (shape == "0.5b")
    o = {.vocab = 151936, .width = 896, .layers = 24, .heads = 14, .kv_heads = 2, .head_width = 64, .mlp_width = 4864};
  if (shape == "demo") o = {.vocab = 944, .width = 224, .layers = 5, .heads = 7, .kv_heads = 1, .head_width = 32, .mlp_width = 608};
  o.name = shape;
  o.qkv_bias = o.tied_head = true;
  o.rope.width = o.head_width;
  o.rope.theta = 1e6;
  return o;
}

struct Numbers {
  std::vector<float> table = std::vector<float>(1 << 20);
  Numbers() {
    std::mt19937 engine(1);
    std::normal_distribution<float> normal(0, 0.02F);
    for (float& x : table) x = normal(engine);
  }
  PackedMatrix matrix(WeightType type, int64_t n, int64_t k, ThreadPool& pool) {
    struct From {
      const std::vector<float>& table;
      int64_t k;
    } from{table, k};
    return pack_matrix(
        type, n, k, &from,
        [](const void* context, int64_t row, float* out) {
          const auto& f = *static_cast<const From*>(context);
          const size_t at = static_cast<size_t>(row * 7919) % (f.table.size() - static_cast<size_t>(f.k));
          std::copy_n(f.table.begin() + static_cast<int64_t>(at), f.k, out);
        },
        pool);
  }
};

std::unique_ptr<DecoderLm> random_model(const DecoderOptions& o, WeightType type, std::optional<KvType> keys, int32_t slots,
                                        ThreadPool& pool) {
  Numbers numbers;
  DecoderWeights w;
  const int64_t d = o.width, q = int64_t{o.heads} * o.head_width, e = q + 2 * int64_t{o.kv_heads} * o.head_width;
  w.embedding = std::make_shared<const PackedMatrix>(numbers.matrix(type, o.vocab, d, pool));
  for (int32_t i = 0; i < o.layers; ++i) {
    LayerWeights l;
    l.attention_norm_D.assign(static_cast<size_t>(d), 1);
    l.mlp_norm_D = l.attention_norm_D;
    l.qkv_bias.assign(static_cast<size_t>(e), 0.01F);
    l.qkv = numbers.matrix(type, e, d, pool);
    l.o = numbers.matrix(type, d, q, pool);
    l.gate_up = numbers.matrix(type, 2 * int64_t{o.mlp_width}, d, pool);
    l.down = numbers.matrix(type, d, o.mlp_width, pool);
    w.layers.push_back(std::move(l));
  }
  w.final_norm_D.assign(static_cast<size_t>(d), 1);
  auto lm = DecoderLm::create(o, std::move(w), slots, pool, keys);
  if (!lm) {
    std::fprintf(stderr, "%s\n", lm.error().message.c_str());
    std::exit(1);
  }
  return std::move(*lm);
}

struct Products {
  DecoderLm& lm;
  ThreadPool& pool;
  Workspace workspace;
  std::vector<float> x, wide, gated;
  std::vector<TokenId> best;
  void run(int64_t rows, int64_t head_rows) {
    const DecoderOptions& o = lm.options();
    const int64_t d = o.width, q = int64_t{o.heads} * o.head_width, e = q + 2 * int64_t{o.kv_heads} * o.head_width, f = o.mlp_width;
    x.resize(static_cast<size_t>(rows * d), 0.3F);
    wide.resize(static_cast<size_t>(rows * e), 0.2F);
    gated.resize(static_cast<size_t>(rows * f));
    best.resize(static_cast<size_t>(rows));
    for (int32_t i = 0; i < o.layers; ++i) {
      const LayerWeights& l = lm.layer(i);
      matmul(l.qkv, x.data(), rows, d, nullptr, wide.data(), e, pool, workspace);
      matmul(l.o, wide.data(), rows, e, nullptr, x.data(), d, pool, workspace);
      for (int64_t t = 0; t < rows; t += 512)
        matmul_swiglu(l.gate_up, {.x_TK = x.data() + t * d, .rows = std::min<int64_t>(512, rows - t), .ldx = d}, nullptr,
                      gated.data() + t * f, f, pool, workspace);
      matmul(l.down, gated.data(), rows, f, nullptr, x.data(), d, pool, workspace);
    }
    matmul_argmax(*lm.head_matrix(), x.data(), head_rows, d, best.data(), nullptr, pool, workspace);
  }
};

double ms_of(const auto& f) {
  const auto begin = Clock::now();
  f();
  return ms_since(begin);
}

/// Causal rows behind `keys` cached ones (written by whatever ran before: their numbers do not matter here).
void measure(const Case& c, DecoderLm& lm, ThreadPool& pool, Products& products, int32_t rows, int32_t keys) {
  std::vector<Row> pass_rows;
  std::vector<SlotSpan> spans;
  const bool prefill = rows > 128;  // only its last row wants something
  for (int32_t i = 0; i < rows; ++i) {
    spans.push_back({0, keys + i + 1});
    pass_rows.push_back({TokenId{i % lm.info().vocab}, Position::text(keys + i), keys + i, static_cast<uint32_t>(i), 1,
                         prefill && i + 1 < rows ? Want::kNothing : Want::kArgmax});
  }
  PassOutput out;
  const auto pass = [&] {
    if (const Status s = lm.forward({pass_rows, spans}, out); !s) std::fprintf(stderr, "%s\n", s.error().message.c_str());
  };
  pass();
  products.run(rows, prefill ? 1 : rows);
  std::vector<double> whole, part, ratio;
  const auto begin = Clock::now();
  while (whole.size() < 5 || (whole.size() < 4000 && std::chrono::duration<double>(Clock::now() - begin).count() < c.seconds)) {
    part.push_back(ms_of([&] { products.run(rows, prefill ? 1 : rows); }));
    whole.push_back(ms_of(pass));
    ratio.push_back(whole.back() / part.back());
    if (whole.size() >= 3 && std::chrono::duration<double>(Clock::now() - begin).count() > 3 * c.seconds) break;
  }
  for (auto* v : {&whole, &part, &ratio}) std::sort(v->begin(), v->end());
  std::printf(
      "%5d rows %5d keys: pass min %9.3f median %9.3f ms, products %9.3f %9.3f ms, ratio of minima %.3f, median ratio %.3f, "
      "read %.0f GB/s, fork-join %.0f ns\n",
      rows, keys, whole[0], median(whole), part[0], median(part), whole[0] / part[0], median(ratio), read_bandwidth_gbps(pool),
      fork_join_ns(pool));
  std::fflush(stdout);
}

std::vector<int32_t> list_of(const char* text) {
  std::vector<int32_t> out;
  std::stringstream words(text);
  for (std::string word; std::getline(words, word, ',');) out.push_back(std::atoi(word.c_str()));
  return out;
}

int run(int argc, char** argv) {
  const std::map<std::string, WeightType> types = {
      {"f32", WeightType::kF32}, {"bf16", WeightType::kBF16}, {"int8", WeightType::kI8}, {"int4", WeightType::kI4}};
  std::string type = argc > 2 ? argv[2] : "";
  const bool int8_keys = type.ends_with("+kv8");
  if (int8_keys) type.resize(type.size() - 4);
  if (argc < 3 || !types.count(type) || options_of(argv[1]).width == 0) {
    std::fprintf(stderr, "pass_timing 3b|0.5b|demo f32|bf16|int8|int4[+kv8] [rows,...] [keys,...] [seconds] [layers]\n");
    return 2;
  }
  Case c{argv[1], argv[2]};
  if (argc > 3) c.rows = list_of(argv[3]);
  if (argc > 4) c.keys = list_of(argv[4]);
  if (argc > 5) c.seconds = std::atof(argv[5]);
  DecoderOptions o = options_of(c.shape);
  if (argc > 6) o.layers = std::atoi(argv[6]);
  ThreadPool pool(usable_threads());
  const int32_t slots =
      std::max(4096, *std::max_element(c.rows.begin(), c.rows.end()) + *std::max_element(c.keys.begin(), c.keys.end()));
  const auto keys = int8_keys ? std::optional(KvType::kI8) : std::nullopt;
  const auto lm = random_model(o, types.at(type), keys, slots, pool);
  size_t weights = lm->embedding()->bytes();
  for (int32_t i = 0; i < o.layers; ++i)
    for (const PackedMatrix* m : {&lm->layer(i).qkv, &lm->layer(i).o, &lm->layer(i).gate_up, &lm->layer(i).down})
      weights += m->bytes();
  std::printf("%s %s, %d layers, %zu MB of weights, arena %zu MB for %d slots, %d threads, %s\n", c.shape.c_str(), c.type.c_str(),
              o.layers, weights >> 20, lm->arena().bytes() >> 20, slots, pool.threads(), isa_choice().reason.c_str());
  Products products{*lm, pool, {}, {}, {}, {}, {}};
  for (const int32_t keys : c.keys)
    for (const int32_t rows : c.rows) measure(c, *lm, pool, products, rows, keys);
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  std::printf("peak memory %ld MB, %ld beside the weights\n", usage.ru_maxrss >> 10,
              (usage.ru_maxrss >> 10) - static_cast<long>(weights >> 20));
  return 0;
}

}  // namespace
}  // namespace slip

int main(int argc, char** argv) { return slip::run(argc, argv); }
