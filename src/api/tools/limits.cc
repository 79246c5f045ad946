// SPDX-License-Identifier: Apache-2.0
// slipstream::limits: a machine x a model's shape -> time of each operation, pass and decoder; beside what was measured here where that is
// asked for. What is fitted is said: the time of an empty pass, at one row. Everything else of a prediction comes from two ceilings.
#include <algorithm>
#include <filesystem>

#include "api/boundary.h"
#include "api/choice.h"
#include "api/engines.h"
#include "api/requests.h"
#include "api/tools/light.h"
#include "api/tools/limits_tables.h"
#include "api/tools/reports.h"
#include "base/file.h"
#include "base/measure.h"
#include "decode/types/presets.h"
#include "engine/automatic.h"
#include "forecast/automatic.h"
#include "kernels/probe.h"
#include "models/config/config.h"
#include "models/weights/packed_folder.h"
#include "slipstream/engine.h"

namespace slip::api {

namespace {

constexpr std::string_view kRatio = "predicted_over_measured";
constexpr int32_t kWidths[] = {1, 2, 4, 8, 16, 24, 32, 48, 64, 96, 128};

DecoderShape shape_of(const DecoderOptions& o) {
  return {o.width, o.layers, o.heads, o.kv_heads, o.head_width, o.mlp_width, o.vocab};
}

/// What is worked with throughout.
struct Work {
  const slipstream::LimitsOptions& options;
  const slipstream::Progress& progress;
  const slipstream::CancelToken& cancel;
  std::unique_ptr<Engine> engine;
  DecoderShape shape;
  std::string type;
  Machine machine;
  std::vector<Table> tables;

  void tell(std::string_view stage, int64_t done, int64_t total) const {
    if (progress) progress(stage, done, total);
  }
};

PassShape pass_of(const Work& w, int64_t rows, int64_t answers) {
  PassShape p{.rows = rows, .keys = w.options.keys, .answers = answers, .type = w.type};
  if (w.machine.measured) {  // this engine's activations are f32, keys as they are kept
    p.activation_bytes = 4;
    p.key_bytes = w.type == "f32" ? 4 : 2;
  }
  return p;
}

/// GB/s of reading so many bytes again and again, from whichever cache or memory holds them.
double read_gbps(ThreadPool& pool, size_t bytes) {
  const size_t words = std::max<size_t>(bytes / sizeof(uint64_t), 4096);
  std::vector<uint64_t> memory(words, 1);
  std::vector<uint64_t> sums(static_cast<size_t>(pool.threads()), 0);
  double best = 0;
  const auto start = Clock::now();
  while (ms_since(start) < 60) {
    const auto before = Clock::now();
    pool.run(pool.threads(), [&](int64_t t) {
      const size_t part = words / static_cast<size_t>(pool.threads()), first = static_cast<size_t>(t) * part;
      uint64_t a = 0, b = 0, c = 0, d = 0;
      for (size_t i = first; i + 4 <= first + part; i += 4) {
        a += memory[i];
        b ^= memory[i + 1];
        c += memory[i + 2];
        d ^= memory[i + 3];
      }
      sums[static_cast<size_t>(t)] += a + b + c + d;
    });
    best = std::max(best, static_cast<double>(words * sizeof(uint64_t)) / (ms_since(before) * 1e6));
  }
  return sums.front() == 0 ? 0 : best;  // the sums keep the loop from being left out
}

/// The ceilings of this machine for this model's type and size.
Machine this_machine(Work& w) {
  ThreadPool& pool = w.engine->model().pool();
  const auto bytes = static_cast<double>(w.shape.weights()) * bytes_of(w.type).value_or(2);
  constexpr double kFarBeyondCaches = 256e6;
  Machine m{.name = "this machine", .source = fmt::format("measured now: {}, {} threads", isa_choice().reason, pool.threads())};
  m.gb_per_s = bytes > kFarBeyondCaches ? read_bandwidth_gbps(pool) : read_gbps(pool, static_cast<size_t>(bytes));
  m.bf16_tflops = dot_gops(WeightType::kBF16, pool) * 1e-3;
  m.f32_tflops = dot_gops(WeightType::kF32, pool) * 1e-3;
  m.int8_tops = dot_gops(WeightType::kI8, pool) * 1e-3;
  m.measured = true;
  return m;
}

Result<CostTable> roofline_costs(const Work& w) {
  std::vector<int32_t> rows;
  std::vector<double> ms;
  for (const int32_t n : {1, 2, 4, 8, 16, 24, 32, 48, 64, 96, 128, 256, 512, 1024, 2048}) {
    SLIP_TRY(const PassTime t, plain_pass(w.shape, w.machine, pass_of(w, n, n)));
    rows.push_back(n);
    ms.push_back(t.total_ms);
  }
  return CostTable::make(std::move(rows), std::move(ms), "limits");
}

Status predict_passes(Work& w, const CostTable* measured) {
  std::vector<std::pair<std::string, PassTime>> passes;
  for (const int64_t n : {int64_t{1}, int64_t{8}, int64_t{32}, int64_t{w.options.prompt_rows}}) {
    SLIP_TRY(PassTime t, plain_pass(w.shape, w.machine, pass_of(w, n, n == w.options.prompt_rows ? 1 : n)));
    passes.emplace_back(n == 1 ? "1 row" : fmt::format("{} rows", n), std::move(t));
  }
  w.tables.push_back(operations_table(passes));
  Table t{.name = "passes",
          .title = fmt::format("Passes behind {} keys, all rows asked:", w.options.keys),
          .columns = {"rows", "predicted_ms", "ms_a_row", "over_one_row", "measured_ms", std::string(kRatio)},
          .rows = {}};
  double one = 0;
  for (const int32_t n : kWidths) {
    SLIP_TRY(const PassTime p, plain_pass(w.shape, w.machine, pass_of(w, n, n)));
    if (n == 1) one = p.total_ms;
    json::array row{n, p.total_ms, p.total_ms / n, p.total_ms / one};
    row.push_back(measured ? json::value(measured->ms(n)) : json::value(nullptr));
    row.push_back(measured ? json::value(p.total_ms / measured->ms(n)) : json::value(nullptr));
    t.rows.push_back(std::move(row));
  }
  w.tables.push_back(std::move(t));
  return {};
}

/// Odds that were asked for, the folder's calibration, or doubt.
Result<DraftLengthModel> acceptance(Work& w, const Form* form, CostTable costs, std::string& profile) {
  bool calibrated = false;
  DraftLengthModel m = known_acceptance(*w.engine, form, std::move(costs), calibrated);
  profile = calibrated ? "the folder's width.json" : "even odds: nothing was calibrated (eval --calibrate)";
  if (w.options.acceptance < 0) return m;
  profile = fmt::format("{:.3g} of tested drafts hold", w.options.acceptance);
  constexpr int64_t kMany = 10'000'000;
  DraftLengthModel given = DraftLengthModel::uninformed(m.pass, form);
  given.lengths = m.lengths;
  given.survival = Survival(given.survival.fields());  // nothing else is known: every cell leans on these
  for (int32_t top = 0; top < Survival::kTop; ++top)
    given.survival.add({.top = top}, {static_cast<int64_t>(std::lround(w.options.acceptance * kMany)), kMany});
  given.survival.fit();
  return given;
}

std::vector<Candidate> decoders(const Work& w, const Form* form) {
  std::vector<Candidate> all =
      exact_candidates(w.engine->model().lm().info(), form != nullptr, w.engine->visibility(), false, nullptr);
  if (!form) return all;
  Candidate ar{.method = *method_of("ar"), .name = "ar", .expected = {}};
  all.insert(all.begin(), std::move(ar));
  return all;
}

struct MeasuredDecoder {
  double ms = 0, forwards = 0;  // behind the prompt; of all passes; means over scenes
};

/// The scenes answered by one decoder here, behind the prompt.
Result<MeasuredDecoder> measure_decoder(Work& w, const Method& method, const std::vector<Request>& scenes,
                                        const DraftLengthModel& model) {
  MeasuredDecoder out;
  std::vector<double> ms;
  for (const Request& scene : scenes) {
    SLIP_TRY_(w.cancel.check("limits", static_cast<int64_t>(ms.size()), "answers"));
    Request request = scene;
    request.method = method;
    request.context.draft_length_model = &model;
    SLIP_TRY(const Answer settles, w.engine->run(request));
    SLIP_TRY(const Answer a, w.engine->run(request));
    const Statistics& s = a.decoded.statistics;
    const double share = 1.0 / static_cast<double>(scenes.size());
    ms.push_back(std::min(settles.decoded.statistics.ms.total - settles.decoded.statistics.ms.prefill, s.ms.total - s.ms.prefill));
    out.forwards += share * static_cast<double>(s.forwards);
  }
  for (const double x : ms) out.ms += x / static_cast<double>(ms.size());
  return out;
}

constexpr int32_t kTextTokens = 48;  // of free text at most

/// A model that was trained for no form.
bool is_text(const Work& w) { return slipstream::own_form(w.engine->folder().string()) == "none"; }

/// Of a set of records, or held-out scenes; free text for models of text.
Result<std::vector<Request>> scenes_of(Work& w, int64_t count, const std::string& records = {}) {
  std::vector<Request> out;
  const bool text = is_text(w);
  if (text && !records.empty()) return unsupported("--records: expected a model that was trained for a form, got one of text");
  for (int64_t i = 0; text && i < count; ++i) {
    slipstream::Request asked;
    asked.form = "none";
    asked.prompt = fmt::format("Tell what stands on road number {} and how to drive there.", i + 1);
    asked.max_tokens = kTextTokens;
    asked.cancel = w.cancel;
    SLIP_TRY(Request request, engine_request(asked));
    request.reuse_prompt = false;
    out.push_back(std::move(request));
  }
  for (int64_t i = 0; !text && i < count; ++i) {
    SLIP_TRY(slipstream::Request scene, records.empty()
                                            ? slipstream::request_of_scene(kFirstHeldOutScene + static_cast<uint64_t>(i))
                                            : slipstream::request_of_record(fmt::format("{}:{}", records, i)));
    if (!w.engine->task().cameras) scene.images.clear();
    scene.cancel = w.cancel;
    SLIP_TRY(Request request, engine_request(scene));
    request.reuse_prompt = false;
    out.push_back(std::move(request));
  }
  return out;
}

/// How long the texts are that are to be answered here: what is foreseen is foreseen for these.
Result<int32_t> text_tokens(Work& w, const std::vector<Request>& scenes) {
  if (scenes.empty()) return kTextTokens;
  size_t tokens = 0;
  for (Request scene : scenes) {
    SLIP_TRY(scene.method, method_of("ar"));
    SLIP_TRY(const Answer a, w.engine->run(scene));
    tokens += a.decoded.tokens.size();
  }
  return std::max(1, static_cast<int32_t>((tokens + scenes.size() / 2) / scenes.size()));
}

/// What the table of decoders is made of.
struct DecoderRows {
  ForecastSettings settings;               // by the roofline's costs
  const DraftLengthModel* here = nullptr;  // at the prices that were measured here
  std::vector<Request> scenes;             // to be answered here
  double first_ms = 0;                     // of the first row
};

Result<json::array> decoder_row(Work& w, const Candidate& c, DecoderRows& rows) {
  const auto behind_prompt = [&](const Forecast& x, const CostTable& costs) { return x.ms - costs.ms(rows.settings.prompt_rows); };
  SLIP_TRY(const Forecast x, forecast(c.method, rows.settings));
  const double ms = behind_prompt(x, rows.settings.model->pass);
  if (rows.first_ms == 0) rows.first_ms = ms;
  json::array row{json::string(c.name),
                  x.forwards,
                  x.rows - rows.settings.prompt_rows,
                  ms,
                  rows.first_ms / ms,
                  nullptr,
                  nullptr,
                  nullptr,
                  nullptr};
  if (!rows.here) return row;
  ForecastSettings priced = rows.settings;
  priced.model = rows.here;
  SLIP_TRY(const Forecast y, forecast(c.method, priced));
  const double at_measured_costs = behind_prompt(y, rows.here->pass);
  row[5] = at_measured_costs;
  if (rows.scenes.empty()) return row;
  SLIP_TRY(const MeasuredDecoder m, measure_decoder(w, c.method, rows.scenes, *rows.here));
  row[6] = m.forwards;
  row[7] = m.ms;
  row[8] = at_measured_costs / m.ms;
  return row;
}

Status predict_decoders(Work& w, const CostTable& costs, const CostTable* measured, std::string& profile) {
  FormPtr form;
  if (!is_text(w)) {
    SLIP_TRY(form, w.engine->form("model"));
  }
  const Form* f = form ? &form->form : nullptr;
  SLIP_TRY(const DraftLengthModel predicted, acceptance(w, f, costs, profile));
  std::optional<DraftLengthModel> here;
  DecoderRows rows;
  if (measured) {
    SLIP_TRY(here, acceptance(w, f, *measured, profile));
    rows.here = &*here;
  }
  if (measured) {
    SLIP_TRY(rows.scenes, scenes_of(w, w.options.scenes));
  }
  rows.settings = {.info = w.engine->model().lm().info(),
                   .form = f,
                   .options = {.visibility = w.engine->visibility()},
                   .prompt_rows = w.options.prompt_rows,
                   .model = &predicted,
                   .cancel = w.cancel};
  if (!f) {
    SLIP_TRY(rows.settings.text_tokens, text_tokens(w, rows.scenes));
  }
  Table t{.name = "decoders",
          .title = fmt::format("Decoders over {}, behind a prompt of {} rows; {}:",
                               f ? f->name() : fmt::format("free text of {} tokens", rows.settings.text_tokens),
                               w.options.prompt_rows, profile),
          .columns = {"decoder", "passes", "rows", "predicted_ms", "speed_up", "at_measured_costs_ms", "measured_passes",
                      "measured_ms", std::string(kRatio)},
          .rows = {}};
  const std::vector<Candidate> all = decoders(w, f);
  for (size_t i = 0; i < all.size(); ++i) {
    w.tell("predicting", static_cast<int64_t>(i), static_cast<int64_t>(all.size()));
    SLIP_TRY(json::array row, decoder_row(w, all[i], rows));
    t.rows.push_back(std::move(row));
  }
  w.tables.push_back(std::move(t));
  return {};
}

/// How far off predictions were, of a table that ends with their ratios to measurements.
std::optional<double> median_error(const Table& t) {
  if (t.columns.back() != kRatio) return std::nullopt;
  std::vector<double> errors;
  for (const json::array& row : t.rows)
    if (!row.back().is_null()) errors.push_back(std::abs(row.back().to_number<double>() - 1));
  return errors.empty() ? std::nullopt : std::optional(median(errors));
}

Status check(const slipstream::LimitsOptions& o, const std::string& folder) {
  if (o.measure && folder.empty()) return usage_error("--measure: expected a model (--model), got none");
  if (o.measure && !o.machine.empty()) return usage_error("--measure: expected this machine (no --machine), got {}", o.machine);
  if (o.light > 0 && folder.empty()) return usage_error("--speed-of-light: expected a model (--model), got none");
  if (o.light == 0 && !o.records.empty()) return usage_error("--records: expected --speed-of-light beside it, got none");
  if (o.acceptance > 1) return usage_error("--acceptance: expected 0 to 1, got {}", o.acceptance);
  return {};
}

Status load(Work& w, const std::string& folder) {
  const slipstream::LimitsOptions& o = w.options;
  SLIP_TRY(w.engine, Engine::load(folder, {.dtype = o.dtype, .threads = o.threads, .slots = std::max(kDefaultSlots, o.keys + 512)},
                                  load_progress(w.progress, w.cancel)));
  w.shape = shape_of(w.engine->model().config().decoder);
  w.type = word_of_type(w.engine->model().options().type);
  return {};
}

Result<slipstream::Report> finish(Work& w, json::object head, std::string text) {
  for (const Table& t : w.tables) {
    head[t.name] = t.to_json();
    text += "\n" + t.to_text();
    if (const auto error = median_error(t)) {
      head[t.name + "_median_error"] = *error;
      text += fmt::format("  median of |predicted / measured - 1|: {:.2f}\n", *error);
    }
  }
  if (!w.options.out.empty()) {
    for (const Table& t : w.tables) SLIP_TRY_(write_file(std::filesystem::path(w.options.out) / (t.name + ".csv"), t.to_csv()));
    SLIP_TRY_(write_file(std::filesystem::path(w.options.out) / "limits.json", pretty(head)));
  }
  return report_of(head, std::move(text));
}

Status model_tables(Work& w, json::object& head, std::string& text) {
  std::optional<CostTable> measured;
  if (w.options.measure) {
    w.tell("measuring", 0, 0);
    const CostSettings settings{.visible = w.options.keys, .most_rows = 128, .budget_ms = 600, .cancel = w.cancel};
    SLIP_TRY(measured, measure_costs(w.engine->model().lm(), settings));
    SLIP_TRY(const PassTime one, plain_pass(w.shape, w.machine, pass_of(w, 1, 1)));
    w.machine.pass_us = std::max(0.0, (measured->ms(1) - one.total_ms) * 1e3);
    text += fmt::format("  an empty pass, fitted at one row: {:.1f} us\n", w.machine.pass_us);
  }
  SLIP_TRY_(predict_passes(w, measured ? &*measured : nullptr));
  SLIP_TRY(const CostTable costs, roofline_costs(w));
  std::string profile;
  SLIP_TRY_(predict_decoders(w, costs, measured ? &*measured : nullptr, profile));
  if (w.options.light > 0) {
    SLIP_TRY(std::vector<Request> requests, scenes_of(w, w.options.light, w.options.records));
    SLIP_TRY(Table light, speed_of_light_table(*w.engine, std::move(requests),
                                               [&](int64_t done, int64_t total) { w.tell("searching", done, total); }));
    w.tables.push_back(std::move(light));
  }
  head["type"] = w.type;
  head["weights"] = w.shape.weights();
  head["acceptance"] = profile;
  return {};
}

Result<slipstream::Report> limits(const std::string& folder, const slipstream::LimitsOptions& o,
                                  const slipstream::Progress& progress, const slipstream::CancelToken& cancel) {
  SLIP_TRY_(check(o, folder));
  Work w{.options = o,
         .progress = progress,
         .cancel = cancel,
         .engine = nullptr,
         .shape = {},
         .type = "bf16",
         .machine = {},
         .tables = {}};
  if (!o.machine.empty()) {
    SLIP_TRY(w.machine, machine_named(o.machine));
  }
  json::object head;
  std::string text;
  if (!folder.empty()) {
    SLIP_TRY_(load(w, folder));
    if (o.machine.empty()) w.machine = this_machine(w);
    text = fmt::format("{}: {}\n  {:.4g} GB/s, {:.4g} bf16 TFLOP/s, {:.4g} f32, {:.4g} int8 TOP/s\n", w.machine.name,
                       w.machine.source, w.machine.gb_per_s, w.machine.bf16_tflops, w.machine.f32_tflops, w.machine.int8_tops);
    SLIP_TRY_(model_tables(w, head, text));
    head["machine"] = machine_json(w.machine);
    head["model"] = folder;
  }
  for (Table& t : algebra_tables()) w.tables.push_back(std::move(t));
  w.tables.push_back(report_table());
  return finish(w, std::move(head), std::move(text));
}

}  // namespace

}  // namespace slip::api

namespace slipstream {

Result<Report> limits(const std::string& folder, const LimitsOptions& options, const Progress& progress,
                      const CancelToken& cancel) {
  return slip::api::bounded([&] { return slip::api::limits(folder, options, progress, cancel); });
}

}  // namespace slipstream
