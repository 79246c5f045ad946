// SPDX-License-Identifier: Apache-2.0
// `bench forward|prefill --device`: passes on a device beside its own ceilings, measured in the same process (cuda/probe.h).
//
//   floor_ms = max(bytes of weights / read bandwidth, 2 * weights * rows / peak of the matrix instruction)
// over the matrices that a pass reads, two bytes a weight of bf16 and one of int8 and int4: decoder layers and head. Times are the host's, from the call of a pass to its results.
// In JSON the floor is `ceiling_ms` too, as on the processor (forward.cc), and `fork_join_ns` is null: no threads join.
#include <algorithm>

#include "base/interrupt.h"
#include "base/measure.h"
#include "cli/bench/measure.h"
#include "cli/output.h"
#include "eval/verify.h"
#include "models/device.h"
#include "models/weights/packed_folder.h"

namespace slip::cli {
namespace {

constexpr int kFewestRounds = 5, kMostRounds = 1000;

struct Line {
  int rows = 0, wanted = 0;
  std::vector<double> ms;  // one per round
};

struct Weights {
  double layers = 0, head = 0;  // numbers
};

Weights weights_of(const DecoderOptions& d) {
  const double width = d.width, heads = double(d.heads) * d.head_width, kv = 2.0 * d.kv_heads * d.head_width;
  return {d.layers * (width * (heads + kv) + heads * width + 3 * width * d.mlp_width), width * d.vocab};
}

struct Floor {
  double memory_ms = 0, dots_ms = 0;
  double ms() const { return std::max(memory_ms, dots_ms); }
};

Floor floor_of(const Weights& w, WeightType type, const DeviceCeilings& c, const Line& line) {
  const double bytes = (type == WeightType::kBF16 ? 2 : 1) * (w.layers + w.head);
  return {bytes / (c.read_gbps * 1e6), 2 * (w.layers * line.rows + w.head * line.wanted) / (c.dot_gops * 1e6)};
}

Status measure(const BenchForwardOptions& o, Lm& lm, const Prompt& sequence, std::vector<Line>& lines) {
  CausalRows rows;
  if (o.keys > 0) SLIP_TRY_(rows.fill(lm, sequence, o.keys));
  const auto pass = [&](const Line& line) { return rows.run(lm, sequence, o.keys, o.keys + line.rows, line.wanted); };
  for (const Line& line : lines)
    for (int before = 0; before < 2; ++before) SLIP_TRY_(pass(line));  // settles buffers; the second is captured
  const auto start = Clock::now();
  const double budget = 1000 * o.seconds * static_cast<double>(lines.size());
  for (int round = 0; round < kFewestRounds || (ms_since(start) < budget && round < kMostRounds); ++round)
    for (Line& line : lines) {
      SLIP_TRY_(check_interrupt());
      const auto begin = Clock::now();
      SLIP_TRY_(pass(line));
      line.ms.push_back(ms_since(begin));
    }
  return {};
}

}  // namespace

Status bench_on_device(const BenchForwardOptions& o, bool prefill, const std::string& dtype, const std::vector<int>& widths) {
  SLIP_TRY(const DeviceName name, parse_device(o.device));
  const int widest = *std::max_element(widths.begin(), widths.end());
  SLIP_TRY(const std::unique_ptr<Engine> engine, load_engine(o.model, dtype, o.threads, o.keys + widest, o.device, o.kv));
  SLIP_TRY(const DeviceCeilings ceilings, device_ceilings(name));
  Model& model = engine->model();
  std::vector<Line> lines;
  lines.reserve(widths.size());
  for (const int width : widths) lines.push_back({width, prefill ? 1 : width, {}});
  SLIP_TRY_(measure(o, model.lm(), random_tokens(o.keys + widest, model.lm().info().vocab, 11), lines));

  const Weights weights = weights_of(model.config().decoder);
  const std::string_view type = word_of_type(model.options().type);
  if (!o.json)
    print_text(
        fmt::format("{} ({}, {} layers), {}, {} ({}), {} cached keys\nceilings here: {:.1f} GB/s read, {:.0f} G operations/s\n\n"
                    "  {:>5} {:>10} {:>10} {:>10} {:>8}  {}\n",
                    o.model, model.config().model_type, model.config().decoder.layers, type, name.text(), ceilings.name, o.keys,
                    ceilings.read_gbps, ceilings.dot_gops, "rows", "pass ms", "min ms", "floor", "/floor", "bound"));
  for (const Line& line : lines) {
    const Floor floor = floor_of(weights, model.options().type, ceilings, line);
    const double ms = median(line.ms), least = *std::min_element(line.ms.begin(), line.ms.end());
    const std::string_view bound = floor.memory_ms >= floor.dots_ms ? "memory" : "compute";
    if (!o.json) {
      print_text(fmt::format("  {:>5} {:>10.3f} {:>10.3f} {:>10.3f} {:>8.2f}  {}\n", line.rows, ms, least, floor.ms(),
                             ms / floor.ms(), bound));
      continue;
    }
    print_json(json::object{{"bench", prefill ? "prefill" : "forward"},
                            {"model", o.model},
                            {"layers", model.config().decoder.layers},
                            {"device", name.text()},
                            {"device_name", ceilings.name},
                            {"type", type},
                            {"rows", line.rows},
                            {"keys", o.keys},
                            {"ms", ms},
                            {"min_ms", least},
                            {"samples", line.ms.size()},
                            {"read_gbps", ceilings.read_gbps},
                            {"dot_gops", ceilings.dot_gops},
                            {"memory_ms", floor.memory_ms},
                            {"compute_ms", floor.dots_ms},
                            {"ceiling_ms", floor.ms()},
                            {"share", floor.ms() / ms},
                            {"fork_join_ns", nullptr},
                            {"floor_ms", floor.ms()},
                            {"over_floor", ms / floor.ms()},
                            {"bound", bound}});
  }
  return {};
}

}  // namespace slip::cli
