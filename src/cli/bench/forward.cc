// SPDX-License-Identifier: Apache-2.0
// `bench forward` and `bench prefill`: cost of a pass by width beside what this machine can do at best, measured in the same process.
//
//   ceiling_ms = max(weight bytes / read bandwidth, 2 * weights * rows / peak of the product loop)
// over the matrices that a pass reads: decoder layers and head. Two times stand beside it: the matrix products alone, and the whole
// pass with attention over `keys` cached keys. The bandwidth is that of memory: weights that fit the caches can be read faster, and
// then the share exceeds 1. Widths take turns in rounds, so that what the machine does to one it does to all; a sample in another
// bandwidth state than most of the run's is left out, and ratios between widths are medians over rounds.
#include <algorithm>
#include <optional>

#include "base/interrupt.h"
#include "base/measure.h"
#include "cli/bench/measure.h"
#include "cli/output.h"
#include "eval/verify.h"
#include "models/device.h"
#include "models/weights/packed_folder.h"

namespace slip::cli {

namespace {

constexpr std::array<int, 9> kWidths = {1, 2, 4, 8, 16, 24, 32, 48, 64};
constexpr std::array<int, 4> kPrefillWidths = {128, 512, 1440, 3000};  // 1440: Fast-dDrive's prompt; 3000: a long one
constexpr int kFewestRounds = 3, kMostRounds = 200;
constexpr double kSampleMs = 3;  // a sample repeats what is shorter

struct Sample {
  double pass_ms = 0, products_ms = 0;
  MachineState state;
};

struct Line {
  int rows = 0;
  std::vector<Sample> samples;  // one per round
};

// What holds for all widths of one type.
struct Run {
  const BenchForwardOptions& o;
  Model& model;
  bool prefill;
  std::string_view type;
  double dot_gops = 0, fork_join_ns = 0, usual_gbps = 0;
  std::vector<Line> lines;
  int wanted(int rows) const { return prefill ? 1 : rows; }
  bool counts(const Sample& s) const { return s.state.steady() && s.state.like(usual_gbps); }
};

struct Limit {
  double memory_ms = 0, dots_ms = 0;
  bool memory() const { return memory_ms >= dots_ms; }
  double ms() const { return std::max(memory_ms, dots_ms); }
};

Limit limit_of(const Products& p, int rows, int head_rows, double read_gbps, double dot_gops) {
  return {p.bytes(head_rows > 0) / (read_gbps * 1e6),
          2 * (p.layer_weights() * rows + p.head_weights() * head_rows) / (dot_gops * 1e6)};
}

template <class F>
Result<double> timed(int times, const F& f) {
  const auto start = Clock::now();
  for (int i = 0; i < times; ++i) SLIP_TRY_(f());
  return ms_since(start) / times;
}

class Measuring {
 public:
  Measuring(Run& run, int widest)
      : run_(run),
        lm_(run.model.lm()),
        sequence_(random_tokens(run.o.keys + widest, lm_.info().vocab, 11)),
        products_(*run.model.decoder(), widest, run.model.pool()),
        watch_(run.model.pool()) {}
  const Products& products() const { return products_; }

  Status go() {
    if (run_.o.keys > 0) SLIP_TRY_(rows_.fill(lm_, sequence_, run_.o.keys));
    std::vector<int> times;
    for (const Line& line : run_.lines) {  // settles buffers
      SLIP_TRY(const double ms, timed(1, [&] { return pass(line.rows); }));
      times.push_back(std::max(1, static_cast<int>(kSampleMs / std::max(ms, 1e-3))));
    }
    const double budget = 1000 * run_.o.seconds * static_cast<double>(run_.lines.size());
    const auto start = Clock::now();
    for (int round = 0; round < kFewestRounds || (ms_since(start) < budget && round < kMostRounds); ++round) {
      run_.dot_gops = std::max(run_.dot_gops, dot_gops(run_.model.options().type, run_.model.pool()));
      if (round == 0) run_.fork_join_ns = fork_join_ns(run_.model.pool());
      watch_.next();
      for (size_t i = 0; i < run_.lines.size(); ++i) {
        SLIP_TRY_(check_interrupt());
        SLIP_TRY(const Sample s, sample(run_.lines[i].rows, times[i]));
        run_.lines[i].samples.push_back(s);
      }
    }
    std::vector<double> bandwidths;
    for (const Line& line : run_.lines)
      for (const Sample& s : line.samples) bandwidths.push_back(s.state.read_gbps);
    run_.usual_gbps = median(std::move(bandwidths));
    return {};
  }

 private:
  Status pass(int rows) { return rows_.run(lm_, sequence_, run_.o.keys, run_.o.keys + rows, run_.wanted(rows)); }
  Result<Sample> sample(int rows, int times) {
    Sample s;
    SLIP_TRY(s.products_ms, timed(times, [&] {
               products_.run(rows, run_.wanted(rows));
               return Status{};
             }));
    SLIP_TRY(s.pass_ms, timed(times, [&] { return pass(rows); }));
    s.state = watch_.next();
    return s;
  }

  Run& run_;
  Lm& lm_;
  Prompt sequence_;
  Products products_;
  StateWatch watch_;
  CausalRows rows_;
};

// Medians over the samples that count; over all, and said to be unsteady, where none does.
struct Summary {
  bool steady = true;
  size_t samples = 0;
  double ms = 0, min_ms = 0, products_ms = 0, products_min_ms = 0, ratio = 0, read_gbps = 0, share = 0, products_share = 0;
  Limit limit;
  std::optional<double> over_first, products_over_first;  // against the first width's, round by round
};

Summary summary_of(const Run& run, const Products& p, size_t index) {
  const Line &line = run.lines[index], &first = run.lines.front();
  Summary out;
  out.steady = std::any_of(line.samples.begin(), line.samples.end(), [&](const Sample& s) { return run.counts(s); });
  std::vector<double> ms, products, ratio, gbps, products_share, over, products_over;
  for (size_t r = 0; r < line.samples.size(); ++r) {
    const Sample& s = line.samples[r];
    if (out.steady && !run.counts(s)) continue;
    const Limit limit = limit_of(p, line.rows, run.wanted(line.rows), s.state.read_gbps, run.dot_gops);
    ms.push_back(s.pass_ms);
    products.push_back(s.products_ms);
    ratio.push_back(s.pass_ms / s.products_ms);
    gbps.push_back(s.state.read_gbps);
    products_share.push_back(limit.ms() / s.products_ms);
    if (!run.counts(first.samples[r])) continue;
    over.push_back(s.pass_ms / first.samples[r].pass_ms);
    products_over.push_back(s.products_ms / first.samples[r].products_ms);
  }
  out.samples = ms.size();
  out.min_ms = *std::min_element(ms.begin(), ms.end());
  out.products_min_ms = *std::min_element(products.begin(), products.end());
  if (!over.empty()) out.over_first = median(over), out.products_over_first = median(products_over);
  out.ms = median(std::move(ms));
  out.products_ms = median(std::move(products));
  out.ratio = median(std::move(ratio));
  out.read_gbps = median(std::move(gbps));
  out.products_share = median(std::move(products_share));
  out.limit = limit_of(p, line.rows, run.wanted(line.rows), out.read_gbps, run.dot_gops);
  out.share = out.limit.ms() / out.ms;
  return out;
}

json::object json_of(const Run& run, int rows, const Summary& s) {
  json::object out{{"rows", rows},
                   {"type", run.type},
                   {"ms", s.ms},
                   {"min_ms", s.min_ms},
                   {"read_gbps", s.read_gbps},
                   {"dot_gops", run.dot_gops},
                   {"ceiling_ms", s.limit.ms()},
                   {"memory_ms", s.limit.memory_ms},
                   {"compute_ms", s.limit.dots_ms},
                   {"share", s.share},
                   {"bound", s.limit.memory() ? "memory" : "compute"},
                   {"fork_join_ns", run.fork_join_ns},
                   {"isa", slip::word_of(isa_choice().isa)},
                   {"threads", run.model.pool().threads()},
                   {"bench", run.prefill ? "prefill" : "forward"},
                   {"model", run.o.model},
                   {"layers", run.model.config().decoder.layers},
                   {"keys", run.o.keys},
                   {"products_ms", s.products_ms},
                   {"products_min_ms", s.products_min_ms},
                   {"products_share", s.products_share},
                   {"pass_over_products", s.ratio},
                   {"samples", s.samples},
                   {"steady", s.steady},
                   {"over_first", nullptr},  // no round has a steady sample of both widths
                   {"products_over_first", nullptr}};
  if (s.over_first) out["over_first"] = *s.over_first, out["products_over_first"] = *s.products_over_first;
  return out;
}

void print_text_of(const Run& run, const std::vector<Summary>& lines) {
  print_text(fmt::format(
      "{} ({}, {} layers), {}, {} threads, {} cached keys\n{}\nceilings here: {:.1f} GB/s read, {:.0f} G operations/s, fork-join "
      "{:.0f} ns\n\n",
      run.o.model, run.model.config().model_type, run.model.config().decoder.layers, run.type, run.model.pool().threads(),
      run.o.keys, isa_choice().reason, run.usual_gbps, run.dot_gops, run.fork_join_ns));
  print_text(fmt::format("  {:>5} {:>10} {:>10} {:>11} {:>8} {:>10} {:>8} {:>10} {:>10}  {}\n", "rows", "pass ms", "products",
                         "ceiling", "GB/s", "share", "of pass", "pass/prod", "/1st row", "bound"));
  for (size_t i = 0; i < lines.size(); ++i) {
    const Summary& s = lines[i];
    print_text(fmt::format("  {:>5} {:>10.3f} {:>10.3f} {:>11.3f} {:>8.1f} {:>9.0f}% {:>7.0f}% {:>10.3f} {:>10}  {}{}\n",
                           run.lines[i].rows, s.ms, s.products_ms, s.limit.ms(), s.read_gbps, 100 * s.products_share, 100 * s.share,
                           s.ratio, s.products_over_first ? fmt::format("{:.2f}", *s.products_over_first) : "-",
                           s.limit.memory() ? "memory" : "compute", s.steady ? "" : ", unsteady: the bandwidth changed"));
  }
  print_text("\n");
}

Status bench_type(const BenchForwardOptions& o, bool prefill, const std::string& dtype) {
  std::vector<int> widths = o.widths;
  if (widths.empty() && prefill) widths.assign(kPrefillWidths.begin(), kPrefillWidths.end());
  if (widths.empty()) widths.assign(kWidths.begin(), kWidths.end());
  SLIP_TRY(const DeviceName device, parse_device(o.device));
  if (!device.cpu()) return bench_on_device(o, prefill, dtype, widths);
  const int widest = *std::max_element(widths.begin(), widths.end());
  SLIP_TRY(const std::unique_ptr<Engine> engine, load_engine(o.model, dtype, o.threads, o.keys + widest, "cpu", o.kv));
  Run run{o, engine->model(), prefill, word_of_type(engine->model().options().type)};
  for (const int width : widths) run.lines.push_back({width, {}});
  Measuring measuring(run, widest);
  SLIP_TRY_(measuring.go());
  std::vector<Summary> lines;
  for (size_t i = 0; i < run.lines.size(); ++i) lines.push_back(summary_of(run, measuring.products(), i));
  if (!o.json) print_text_of(run, lines);
  for (size_t i = 0; o.json && i < lines.size(); ++i) print_json(json_of(run, run.lines[i].rows, lines[i]));
  return {};
}

}  // namespace

Status bench_forward(const BenchForwardOptions& o) {
  for (const std::string& dtype : o.dtypes) SLIP_TRY_(bench_type(o, false, dtype));
  return {};
}

Status bench_prefill(const BenchForwardOptions& o) {
  for (const std::string& dtype : o.dtypes) SLIP_TRY_(bench_type(o, true, dtype));
  return {};
}

}  // namespace slip::cli
