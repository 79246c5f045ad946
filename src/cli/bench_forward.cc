// SPDX-License-Identifier: Apache-2.0
// `bench forward`: cost of a pass by width beside what this machine can do at best, measured in the same process.
//
//   ceiling_ms = max(weight bytes / read bandwidth, 2 * weights * rows / peak of the product loop)
// over the matrices that a pass reads: decoder layers and head; attention's keys and values are left out. The bandwidth is
// that of memory: weights that fit the caches can be read faster than that, and then the share exceeds 1.
#include <algorithm>
#include <chrono>

#include "base/interrupt.h"
#include "cli/output.h"
#include "cli/requests.h"
#include "eval/verify.h"
#include "kernels/probe.h"

namespace slip::cli {

namespace {

using Clock = std::chrono::steady_clock;

constexpr std::array<int, 9> kWidths = {1, 2, 4, 8, 16, 24, 32, 48, 64};
constexpr std::array<int, 3> kTypeBytes = {4, 2, 1};
constexpr int kMostPasses = 10'000, kFewestPasses = 3;

struct Ceilings {
  double read_gbps = 0, dot_gops = 0, fork_join_ns = 0;
};

struct Cost {
  int rows = 0;
  double median_ms = 0, min_ms = 0;
};

struct Limit {
  double memory_ms = 0, dots_ms = 0;
  bool memory() const { return memory_ms >= dots_ms; }
  double ms() const { return std::max(memory_ms, dots_ms); }
};

// Numbers in the matrices of one pass; the embedding is a look-up of a row.
double weights_of(const DecoderOptions& d) {
  const double width = d.width, q = double{1} * d.heads * d.head_width, kv = double{1} * d.kv_heads * d.head_width;
  const double layer = width * (q + 2 * kv) + q * width + 3 * width * d.mlp_width;
  return d.layers * layer + width * d.vocab;
}

Limit limit_of(double weights, WeightType type, int rows, const Ceilings& c) {
  const double memory = weights * kTypeBytes[static_cast<size_t>(type)] / (c.read_gbps * 1e6);
  const double dots = 2 * weights * rows / (c.dot_gops * 1e6);
  return {memory, dots};
}

// Rows [begin, end) of a causal sequence in slots 0 ..; all want the argmax when `wanted`.
Status run_rows(Lm& lm, const Prompt& sequence, int begin, int end, bool wanted, std::vector<Row>& rows,
                std::vector<SlotSpan>& spans, PassOutput& out) {
  rows.clear();
  spans.clear();
  for (int i = begin; i < end; ++i) {
    spans.push_back({0, i + 1});
    rows.push_back({sequence.inputs[static_cast<size_t>(i)], sequence.positions[static_cast<size_t>(i)], i,
                    static_cast<uint32_t>(spans.size() - 1), 1, wanted ? Want::kArgmax : Want::kNothing});
  }
  return lm.forward({rows, spans, {}}, out);
}

Result<Cost> measure(Lm& lm, const Prompt& sequence, int keys, int width, double seconds) {
  std::vector<Row> rows;
  std::vector<SlotSpan> spans;
  PassOutput out;
  std::vector<double> ms;
  SLIP_TRY_(run_rows(lm, sequence, keys, keys + width, true, rows, spans, out));  // settles buffers
  const auto start = Clock::now();
  const auto spent = [&] { return std::chrono::duration<double>(Clock::now() - start).count(); };
  while (static_cast<int>(ms.size()) < kFewestPasses || (spent() < seconds && static_cast<int>(ms.size()) < kMostPasses)) {
    SLIP_TRY_(check_interrupt());
    const auto begin = Clock::now();
    SLIP_TRY_(run_rows(lm, sequence, keys, keys + width, true, rows, spans, out));
    ms.push_back(std::chrono::duration<double, std::milli>(Clock::now() - begin).count());
  }
  std::sort(ms.begin(), ms.end());
  return Cost{width, ms[ms.size() / 2], ms.front()};
}

void print_header(const BenchForwardOptions& o, const Model& model, std::string_view type, int threads, const Ceilings& c) {
  print_text(fmt::format(
      "{} ({}), {}, {} threads, {} cached keys\n{}\nceilings here: {:.1f} GB/s read, {:.0f} G operations/s, fork-join {:.0f} "
      "ns\n\n",
      o.model, model.config().model_type, type, threads, o.keys, isa_choice().reason, c.read_gbps, c.dot_gops, c.fork_join_ns));
  print_text(fmt::format("  {:>5} {:>10} {:>10} {:>12} {:>12} {:>7}  {}\n", "rows", "ms", "min ms", "by memory", "by compute",
                         "share", "bound"));
}

void print_cost(const BenchForwardOptions& o, const Cost& cost, const Limit& limit, const Ceilings& c, std::string_view type,
                int threads) {
  const std::string_view bound = limit.memory() ? "memory" : "compute";
  if (!o.json) {
    print_text(fmt::format("  {:>5} {:>10.3f} {:>10.3f} {:>12.3f} {:>12.3f} {:>6.0f}%  {}\n", cost.rows, cost.median_ms,
                           cost.min_ms, limit.memory_ms, limit.dots_ms, 100 * limit.ms() / cost.median_ms, bound));
    return;
  }
  print_json(json::object{{"rows", cost.rows},
                          {"type", type},
                          {"ms", cost.median_ms},
                          {"min_ms", cost.min_ms},
                          {"read_gbps", c.read_gbps},
                          {"dot_gops", c.dot_gops},
                          {"ceiling_ms", limit.ms()},
                          {"memory_ms", limit.memory_ms},
                          {"compute_ms", limit.dots_ms},
                          {"share", limit.ms() / cost.median_ms},
                          {"bound", bound},
                          {"fork_join_ns", c.fork_join_ns},
                          {"isa", word_of(isa_choice().isa)},
                          {"threads", threads}});
}

}  // namespace

Status bench_forward(const BenchForwardOptions& o) {
  const std::vector<int> widths = o.widths.empty() ? std::vector<int>(kWidths.begin(), kWidths.end()) : o.widths;
  const int widest = *std::max_element(widths.begin(), widths.end());
  SLIP_TRY(const std::unique_ptr<Engine> engine, load_engine(o.model, o.dtype, o.threads, o.keys + widest));
  Model& model = engine->model();
  Lm& lm = model.lm();
  const WeightType type = model.options().type;
  const std::string_view word = word_of(type);
  const int threads = model.pool().threads();
  const double weights = weights_of(model.lm().options());
  const Prompt sequence = random_tokens(o.keys + widest, lm.info().vocab, 11);
  if (o.keys > 0) {
    std::vector<Row> rows;
    std::vector<SlotSpan> spans;
    PassOutput out;
    SLIP_TRY_(run_rows(lm, sequence, 0, o.keys, false, rows, spans, out));
  }
  const Ceilings ceilings{read_bandwidth_gbps(model.pool()), dot_gops(type, model.pool()), fork_join_ns(model.pool())};
  if (!o.json) print_header(o, model, word, threads, ceilings);
  for (const int width : widths) {
    SLIP_TRY(const Cost cost, measure(lm, sequence, o.keys, width, o.seconds));
    print_cost(o, cost, limit_of(weights, type, width, ceilings), ceilings, word, threads);
  }
  return {};
}

}  // namespace slip::cli
