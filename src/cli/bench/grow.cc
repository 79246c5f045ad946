// SPDX-License-Identifier: Apache-2.0
// `grow` and `demo --grow`: measuring shapes (convert/grow.h), and what they show: what a pass and its rows cost, and the speed-up that
// passes and rows predict at these prices beside the one by the clock. Behind the public headers as benchmarks are: a grown model is for nothing
// but measuring.
#include <fmt/ranges.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <utility>

#include "api/choice.h"
#include "api/request/requests.h"
#include "api/slots.h"
#include "base/interrupt.h"
#include "base/measure.h"
#include "base/progress.h"
#include "cli/bench/measure.h"
#include "cli/commands.h"
#include "cli/output.h"
#include "convert/grow.h"
#include "decode/draft_length/costs.h"
#include "decode/types/presets.h"
#include "decode/types/usual_preset.h"

namespace slip::cli {

namespace {

Result<Grown> grow_with_bar(const std::string& model, const std::filesystem::path& out, GrowOptions options) {
  Progress progress("growing", 0);
  options.cancel = CancelToken::of_process();
  return slip::grow(model, out, options, [&](int64_t done, int64_t) { progress.update(done >> 20, "MB"); });
}

/// A grown model in the system's folder for temporary files; removed with this.
class GrownFolder {
 public:
  GrownFolder() : path_(std::filesystem::temp_directory_path(error_) / fmt::format("slipstream-grown-{}", ::getpid())) {}
  GrownFolder(const GrownFolder&) = delete;
  GrownFolder& operator=(const GrownFolder&) = delete;
  ~GrownFolder() { std::filesystem::remove_all(path_, error_); }
  const std::filesystem::path& path() const { return path_; }

 private:
  std::error_code error_;
  std::filesystem::path path_;
};

/// A pass of n rows takes c + n r: least squares over the measured table, by relative error (else the widest pass decided alone).
struct PassPrice {
  double c_ms = 0, r_ms = 0;
  double ratio() const { return r_ms > 0 ? c_ms / r_ms : 0; }
};
PassPrice price_of(const CostTable& table) {
  double w = 0, wx = 0, wy = 0, wxx = 0, wxy = 0;
  for (size_t i = 0; i < table.rows().size(); ++i) {
    const double x = table.rows()[i], y = table.measured_ms()[i], weight = 1 / (y * y);
    w += weight, wx += weight * x, wy += weight * y, wxx += weight * x * x, wxy += weight * x * y;
  }
  const double det = w * wxx - wx * wx;
  if (!(det > 0)) return {table.empty() ? 0 : table.measured_ms()[0], 0};
  return {std::max(0.0, (wy * wxx - wx * wxy) / det), std::max(0.0, (w * wxy - wx * wy) / det)};
}

struct GrownContender {
  std::string preset;
  Answer answer;
  std::vector<double> decode_ms;  // what follows the prompt's pass
  double passes() const { return static_cast<double>(std::max<int64_t>(0, answer.decoded.statistics.forwards - 1)); }
  double rows() const {
    const Statistics& s = answer.decoded.statistics;
    return static_cast<double>(std::max<int64_t>(0, s.rows - (answer.prompt_rows - s.reused_rows)));
  }
  double predicted_ms(const PassPrice& p) const { return passes() * p.c_ms + rows() * p.r_ms; }
};

Result<std::vector<GrownContender>> answer_with_all(Engine& engine, Request& request) {
  constexpr int kRounds = 3;
  const bool graph = engine.visibility() == Visibility::kGraph;
  std::vector<GrownContender> out;
  for (const std::string_view preset :
       {std::string_view("ar"), usual_preset(true, graph, false), usual_preset(true, graph, true), kAutomatic})
    out.push_back({std::string(preset), {}, {}});
  Progress progress("answering", kRounds + 1);
  for (int round = 0; round <= kRounds; ++round) {  // the first settles buffers
    for (GrownContender& c : out) {
      SLIP_TRY_(check_interrupt());
      SLIP_TRY(request.method, api::method_from({.preset = c.preset}, {}, &engine, true));
      SLIP_TRY(c.answer, engine.run(request));
      const Statistics& s = c.answer.decoded.statistics;
      if (round > 0) c.decode_ms.push_back(s.ms.draft + s.ms.verify);
      if (c.answer.decoded.tokens != out.front().answer.decoded.tokens)
        return check_failed("demo --grow: {}: expected the tokens of ar, got others", c.preset);
    }
    progress.update(round + 1);
  }
  return out;
}

json::object json_of(const DemoOptions& o, const Grown& grown, const PassPrice& price, const std::vector<GrownContender>& all) {
  json::array lines;
  for (const GrownContender& c : all)
    lines.push_back(json::object{{"preset", c.preset},
                                 {"passes", c.passes()},
                                 {"rows", c.rows()},
                                 {"decode_ms", median(c.decode_ms)},
                                 {"predicted", all.front().predicted_ms(price) / c.predicted_ms(price)},
                                 {"measured", median(all.front().decode_ms) / median(c.decode_ms)}});
  return json::object{{"model", o.model},   {"times", o.grow},           {"parameters", grown.parameters}, {"c_ms", price.c_ms},
                      {"r_ms", price.r_ms}, {"c_over_r", price.ratio()}, {"decoders", std::move(lines)}};
}

void print_grown(const DemoOptions& o, const Grown& grown, const PassPrice& price, const std::vector<GrownContender>& all) {
  print_text(
      fmt::format("{}, grown {} times to {:.1f} million parameters; the answer is the small model's\n"
                  "a pass of n rows takes c + n r: c {:.3f} ms, r {:.4f} ms, c / r {:.1f} rows\n\n"
                  "  {:<16} {:>7} {:>7} {:>10} {:>10} {:>10}\n",
                  o.model, o.grow, static_cast<double>(grown.parameters) * 1e-6, price.c_ms, price.r_ms, price.ratio(),
                  "behind the prompt", "passes", "rows", "ms", "predicted", "measured"));
  for (const GrownContender& c : all)
    print_text(fmt::format("  {:<17} {:>7} {:>7} {:>10.2f} {:>10.2f} {:>10.2f}\n", c.preset, c.passes(), c.rows(),
                           median(c.decode_ms), all.front().predicted_ms(price) / c.predicted_ms(price),
                           median(all.front().decode_ms) / median(c.decode_ms)));
}

}  // namespace

Status grow(const GrowCommand& o) {
  SLIP_TRY(const Grown made, grow_with_bar(o.model, o.out, {.times = o.times, .mlp = o.mlp, .layers = o.layers}));
  if (o.json) {
    print_json(json::object{{"out", o.out},
                            {"from", o.model},
                            {"parameters", made.parameters},
                            {"parameters_before", made.parameters_before},
                            {"tensors", made.tensors},
                            {"bytes", made.bytes},
                            {"left_behind", json::value_from(made.left_behind)},
                            {"same_bits", {{"avx2", made.same_bits_avx2}, {"avx512", made.same_bits_avx512}}}});
    return {};
  }
  const auto bits = [](bool same) { return same ? "bit for bit" : "to rounding"; };
  print_text(
      fmt::format("{}: {:.1f} million parameters in place of {:.1f}, the same answers: {} (AVX-512: {}), int4 where every width is "
                  "a multiple of 32\n",
                  o.out, static_cast<double>(made.parameters) * 1e-6, static_cast<double>(made.parameters_before) * 1e-6,
                  bits(made.same_bits_avx2), bits(made.same_bits_avx512)));
  if (!made.left_behind.empty())
    print_text(fmt::format("left behind, since they are heads of the small model: {}\n", fmt::join(made.left_behind, ", ")));
  return {};
}

Status demo_grown(const DemoOptions& o) {
  const GrownFolder folder;
  SLIP_TRY(const Grown grown, grow_with_bar(o.model, folder.path(), {.times = o.grow}));
  const slipstream::DemonstrateOptions& d = o.options;
  SLIP_TRY(const slipstream::Request asked, slipstream::request_of_scene(d.seed ? d.seed : api::kHeldOutScene));
  SLIP_TRY(Request request, api::engine_request(asked));
  SLIP_TRY(const int slots, api::slots_for(asked, folder.path().string()));
  SLIP_TRY(const std::unique_ptr<Engine> engine, load_engine(folder.path().string(), d.dtype, d.threads, slots, d.device));
  SLIP_TRY(const std::vector<GrownContender> all, answer_with_all(*engine, request));
  constexpr int32_t kMostRows = 32;
  const auto visible = static_cast<int32_t>(
      std::clamp<int64_t>(all.front().answer.prompt_rows, 1, std::max(1, engine->model().lm().info().slots - kMostRows)));
  SLIP_TRY(const CostTable table,
           measure_costs(engine->model().lm(),
                         {.visible = visible, .most_rows = kMostRows, .budget_ms = 400, .cancel = CancelToken::of_process()}));
  const PassPrice price = price_of(table);
  if (o.json)
    print_json(json_of(o, grown, price, all));
  else
    print_grown(o, grown, price, all);
  return {};
}

}  // namespace slip::cli
