// SPDX-License-Identifier: Apache-2.0
// slipstream::limits: a machine x a model's shape -> time of each operation, stage, pass and decoder; beside what was measured here where
// that is asked for. What is fitted is said: the time of an empty pass, at one row. Everything else of a prediction comes from what reading
// takes and what arithmetic takes: by peaks, or by what the kernels reach at the model's shapes (limits/kernel_rates.h).
// Shapes come from config.json (limits/case.h); weights are loaded for what is run alone.
#include <algorithm>
#include <cmath>
#include <filesystem>

#include "api/boundary.h"
#include "api/engines.h"
#include "api/tools/asked.h"
#include "api/tools/light.h"
#include "api/tools/limits/decoders.h"
#include "api/tools/limits/figures.h"
#include "api/tools/limits/measure.h"
#include "api/tools/reports.h"
#include "base/file.h"
#include "base/measure.h"
#include "slipstream/engine.h"

namespace slip::api {

namespace {

/// What was measured of this very tower; null: nothing.
const KernelRates* rates_of_tower(const Machine& m, const TowerShape& tower, size_t i) {
  if (i >= m.tower_kernels.size() || m.tower_kernels[i].empty()) return nullptr;
  const KernelRates& k = m.tower_kernels[i];
  return (k.width == 0 || k.width == tower.width) && (k.ffn == 0 || k.ffn == tower.mlp_width) ? &k : nullptr;
}

}  // namespace

Result<PassTime> tower_of(const LimitsWork& w, const LimitsCase& c, const Machine& of) {
  PassTime out;
  if (c.pictures.count == 0) return out;
  const std::vector<TowerGrid> pictures(static_cast<size_t>(c.pictures.count), c.pictures.grid);
  for (size_t i = 0; i < c.towers.size(); ++i) {
    Machine machine = of;
    const KernelRates* const known = rates_of_tower(of, c.towers[i], i);
    machine.kernels = known ? *known : KernelRates{};
    SLIP_TRY(PassTime tower, tower_pass(c.towers[i], machine, pictures, c.tower_type, w.activation_bytes()));
    for (Operation& o : tower.operations) out.add(std::move(o));
  }
  return out;
}

Result<PassTime> prompt_of(const LimitsWork& w, const LimitsCase& c, const Machine& machine, int32_t scaffold_rows) {
  return plain_pass(c.shape, machine, w.pass_of(c, c.prompt_rows + scaffold_rows, 0, 1));
}

Result<CostTable> roofline_costs(const LimitsWork& w, const LimitsCase& c, const Machine& machine) {
  std::vector<int32_t> rows;
  std::vector<double> ms;
  for (const int32_t n : {1, 2, 4, 8, 16, 24, 32, 48, 64, 96, 128, 256, 512, 1024, 2048}) {
    SLIP_TRY(const PassTime t, plain_pass(c.shape, machine, w.pass_of(c, n, w.keys(), n)));
    rows.push_back(n);
    ms.push_back(t.total_ms);
  }
  return CostTable::make(std::move(rows), std::move(ms), "limits");
}

void note_foreign_rates(LimitsWork& w, const LimitsCase& c) {
  const KernelRates& k = w.machine.kernels;
  if (k.empty() || w.pool()) return;
  const auto note = [&](std::string words) {
    w.model.notes.push_back(fmt::format("{}, for {}: {}", w.machine.name, c.folder.filename().string(), words));
  };
  if (!w.machine.knows(c.type))
    note(fmt::format("its kernels were measured with {} weights; for {} its peaks count, which no kernel reaches", k.type, c.type));
  else if ((k.width > 0 && k.width != c.shape.hidden) || (k.ffn > 0 && k.ffn != c.shape.ffn))
    note(fmt::format("its kernels were measured at a width of {} and {} numbers in the MLP; for {} and {} their rates are a guess",
                     k.width, k.ffn, c.shape.hidden, c.shape.ffn));
  if (c.pictures.count == 0) return;
  for (size_t i = 0; i < c.towers.size(); ++i)
    if (!rates_of_tower(w.machine, c.towers[i], i))
      return note("no such vision tower was measured there; its peaks count, which no kernel reaches");
}

Result<Machine> machine_for(LimitsWork& w, const LimitsCase& c) {
  Machine out = w.machine;
  // What was fitted to the model's pass; a time that somebody gives is that of any pass.
  if (out.measured)
    out.pass_us *= static_cast<double>(c.shape.layers) / static_cast<double>(std::max<int64_t>(1, w.model.shape.layers));
  if (ThreadPool* const pool = w.pool()) SLIP_TRY_(measure_kernels(w, c, *pool, out));
  return out;
}

namespace {

constexpr int32_t kWidths[] = {1, 2, 4, 8, 16, 24, 32, 48, 64, 96, 128};

Status predict_passes(LimitsWork& w, const CostTable* measured) {
  const auto pass = [&](int64_t n) { return plain_pass(w.model.shape, w.machine, w.pass_of(w.model, n, w.keys(), n)); };
  std::vector<std::pair<std::string, PassTime>> passes;
  for (const int64_t n : {int64_t{1}, int64_t{8}, int64_t{32}}) {
    SLIP_TRY(PassTime t, pass(n));
    passes.emplace_back(n == 1 ? "1 row" : fmt::format("{} rows", n), std::move(t));
  }
  w.tables.push_back(operations_table(passes));
  Table t{.name = "passes",
          .title = fmt::format("Passes behind {} keys, all rows asked:", w.keys()),
          .columns = {"rows", "predicted_ms", "ms_a_row", "over_one_row", "measured_ms", std::string(kPredictedOverMeasured)},
          .rows = {}};
  double one = 0;
  for (const int32_t n : kWidths) {
    SLIP_TRY(const PassTime p, pass(n));
    if (n == 1) one = p.total_ms;
    json::array row{n, p.total_ms, p.total_ms / n, p.total_ms / one};
    row.push_back(measured ? json::value(measured->ms(n)) : json::value(nullptr));
    row.push_back(measured ? json::value(p.total_ms / measured->ms(n)) : json::value(nullptr));
    t.rows.push_back(std::move(row));
  }
  w.tables.push_back(std::move(t));
  return {};
}

std::string tower_words(const LimitsCase& c) {
  const PictureCase& p = c.pictures;
  return fmt::format("{} of {} x {} pixels, {} patches each", p.count == 1 ? "a picture" : fmt::format("{} pictures", p.count),
                     p.width, p.height, p.grid.patches());
}

std::string prompt_title(const LimitsWork& w) {
  const std::string prompt = fmt::format("Prompt of {} rows ({})", w.model.prompt_rows, w.model.prompt_words);
  return w.scaffold_rows > 0 ? fmt::format("{}, and {} of the form's scaffold in its pass:", prompt, w.scaffold_rows)
                             : prompt + ":";
}

/// Vision towers and the prompt's pass: their operations, and a line for each stage beside what was measured.
Status predict_stages(LimitsWork& w, AnswerStages& stages, std::vector<Table>& out) {
  SLIP_TRY(const PassTime tower, tower_of(w, w.model, w.machine));
  SLIP_TRY(w.scaffold_rows, scaffold_rows_of(w));
  SLIP_TRY(const PassTime prompt, prompt_of(w, w.model, w.machine, w.scaffold_rows));
  stages.tower_ms = tower.total_ms;
  stages.prompt_ms = prompt.total_ms;
  if (!tower.operations.empty())
    out.push_back(stage_table("tower", fmt::format("Vision tower over {}:", tower_words(w.model)), tower));
  out.push_back(stage_table("prompt", prompt_title(w), prompt));
  return {};
}

Status stage_lines(LimitsWork& w, const AnswerStages& stages, std::optional<double> tower) {
  Table t{.name = "stages",
          .title = "Stages before decoding:",
          .columns = {"stage", "rows", "predicted_ms", "measured_ms", std::string(kPredictedOverMeasured)},
          .rows = {}};
  const auto add = [&](std::string_view stage, int64_t rows, double ms, std::optional<double> measured) {
    t.rows.push_back({json::string(stage), rows, ms, measured ? json::value(*measured) : json::value(nullptr),
                      measured ? json::value(ms / *measured) : json::value(nullptr)});
  };
  if (stages.tower_ms > 0) add("vision tower", w.model.pictures.count * w.model.pictures.rows, stages.tower_ms, tower);
  add("prompt", w.model.prompt_rows + w.scaffold_rows, stages.prompt_ms, stages.measured_prompt_ms);
  w.tables.push_back(std::move(t));
  return {};
}

/// How far off predictions were, of a table that ends with their ratios to measurements.
std::vector<double> errors_of(const Table& t) {
  std::vector<double> errors;
  if (t.columns.back() != kPredictedOverMeasured) return errors;
  for (const json::array& row : t.rows)
    if (!row.back().is_null()) errors.push_back(std::abs(row.back().to_number<double>() - 1));
  return errors;
}

Status check_figure(std::string_view option, const std::string& file, bool model) {
  if (file.empty()) return {};
  const std::string ending = std::filesystem::path(file).extension().string();
  if (ending != ".png" && ending != ".svg")
    return usage_error("{}: expected a name that ends in .png or .svg, got {}", option, file);
  if (!model) return usage_error("{}: expected a model (--model), got none", option);
  return check_figure_target(file);
}

/// What is of a model has no effect without one.
Status check_without_model(const slipstream::LimitsOptions& o) {
  const slipstream::LimitsOptions usual;
  for (const auto& [option, given] : {std::pair{"--measure", o.measure},
                                      {"--speed-of-light", o.light > 0},
                                      {"--draft-model", !o.draft_model.empty()},
                                      {"--acceptance", o.acceptance >= 0},
                                      {"--keys", o.keys > 0},
                                      {"--prompt-rows", o.prompt_rows > 0},
                                      {"--images", o.images >= 0},
                                      {"--image-width", o.image_width > 0},
                                      {"--image-height", o.image_height > 0},
                                      {"--answer-tokens", o.answer_tokens != usual.answer_tokens},
                                      {"--dtype", o.dtype != usual.dtype}})
    if (given) return usage_error("{}: expected a model (--model), got none", option);
  return {};
}

Status check(const slipstream::LimitsOptions& o, const std::string& model) {
  if (model.empty()) SLIP_TRY_(check_without_model(o));
  if (o.measure && !o.machine.empty()) return usage_error("--measure: expected this machine (no --machine), got {}", o.machine);
  if (o.measure && (o.prompt_rows > 0 || o.images >= 0 || o.image_width > 0 || o.image_height > 0))
    return usage_error("--measure: expected the prompts and pictures of its scenes, got --prompt-rows or --images beside it");
  if (o.light == 0 && !o.records.empty()) return usage_error("--records: expected --speed-of-light beside it, got none");
  if (o.acceptance > 1) return usage_error("--acceptance: expected 0 to 1, got {}", o.acceptance);
  if (!o.out.empty()) SLIP_TRY_(check_writable(std::filesystem::path(o.out) / "limits.json"));
  SLIP_TRY_(check_outputs({{"--figure", o.figure}, {"--decoder-figure", o.decoder_figure}}));
  SLIP_TRY_(check_figure("--figure", o.figure, !model.empty()));
  return check_figure("--decoder-figure", o.decoder_figure, !model.empty());
}

/// No row stands behind more keys than the model has positions. Of pictures with Qwen2.5-VL's tower several rows share one.
Status check_positions(LimitsWork& w) {
  const slipstream::LimitsOptions& o = w.options;
  const int64_t positions = w.model.config.max_positions;
  if (positions <= 0) return {};
  const bool a_row_each = !w.model.config.vision;
  const int64_t most_keys = o.measure ? std::max<int64_t>(0, positions - kMostMeasuredRows) : positions;
  if (o.keys > most_keys && (o.measure || a_row_each))
    return usage_error("--keys: expected at most {}{}, since the model has {} positions, got {}", most_keys,
                       o.measure ? " beside --measure" : "", positions, o.keys);
  if (o.prompt_rows > positions && a_row_each)
    return usage_error("--prompt-rows: expected at most {}, the model's positions, got {}", positions, o.prompt_rows);
  const int64_t reached = int64_t{w.model.prompt_rows} + (w.model.form ? kAnswerKeys : o.answer_tokens);
  if (reached > positions && a_row_each)
    w.model.notes.push_back(fmt::format(
        "the prompt and its answer take {} positions, and the model has {}: no answer ends so far on", reached, positions));
  return {};
}

/// What is run needs weights; predictions do not.
Status load_engine_for_runs(LimitsWork& w) {
  const slipstream::LimitsOptions& o = w.options;
  if (!o.measure && o.light == 0) return {};
  SLIP_TRY_(w.model.need_weights(o.measure ? "--measure" : "--speed-of-light"));
  if (o.measure && !o.draft_model.empty()) {
    SLIP_TRY(const LimitsCase draft, LimitsCase::load(o.draft_model, o));
    SLIP_TRY_(draft.need_weights("--measure with --draft-model"));
  }
  SLIP_TRY(w.engine,
           Engine::load(w.model.folder, {.dtype = o.dtype, .threads = o.threads, .slots = std::max(kDefaultSlots, w.keys() + 512)},
                        load_progress(w.progress, w.cancel)));
  return {};
}

Status model_tables(LimitsWork& w, const std::optional<Measured>& measured, json::object& head, std::string& text) {
  if (measured) {
    text += fmt::format("  an empty pass, fitted at one row: {:.1f} us\n  measured: the least of {} rounds\n", w.machine.pass_us,
                        measured->rounds);
    head["rounds"] = measured->rounds;
  }
  SLIP_TRY_(predict_passes(w, measured ? &measured->passes : nullptr));
  AnswerStages stages;
  SLIP_TRY_(predict_stages(w, stages, w.tables));
  SLIP_TRY(const std::string profile, predict_decoders(w, measured ? &*measured : nullptr, stages));
  SLIP_TRY_(stage_lines(w, stages, measured ? measured->tower_ms : std::nullopt));
  if (w.options.light > 0) {
    SLIP_TRY(std::vector<Request> requests, limits_scenes(w, w.options.light, w.options.records));
    SLIP_TRY(Table light, speed_of_light_table(*w.engine, std::move(requests),
                                               [&](int64_t done, int64_t total) { w.tell("searching", done, total); }));
    w.tables.push_back(std::move(light));
  }
  head["type"] = w.model.type;
  head["weights"] = w.model.shape.weights();
  head["keys"] = w.keys();
  head["acceptance"] = profile;
  json::array notes;
  for (const std::string& note : w.model.notes) {
    text += fmt::format("  {}\n", note);
    notes.emplace_back(note);
  }
  head["notes"] = std::move(notes);
  return {};
}

const Table* find_table(const LimitsWork& w, std::string_view name) {
  const auto at = std::ranges::find_if(w.tables, [&](const Table& t) { return t.name == name; });
  return at == w.tables.end() ? nullptr : &*at;
}

std::string name_of(const LimitsCase& c, const std::string& asked) {
  if (c.lone) return std::filesystem::path(asked).stem().string();
  std::error_code ec;
  return std::filesystem::weakly_canonical(c.folder, ec).filename().string();
}

Status write_tables(const LimitsWork& w, const json::object& head) {
  if (w.options.out.empty()) return {};
  const std::filesystem::path out = w.options.out;
  for (const Table& t : w.tables) SLIP_TRY_(write_file(out / (t.name + ".csv"), t.to_csv()));
  SLIP_TRY_(write_file(out / "limits.json", pretty(head)));
  if (w.machine.measured) SLIP_TRY_(write_file(out / "machine.json", pretty(machine_json(w.machine))));
  return {};
}

Status draw_figures(const LimitsWork& w, const std::string& model) {
  if (model.empty()) return {};
  const std::string of = fmt::format("{}, {}, {}", name_of(w.model, model), w.model.type, w.machine.name);
  const Table *passes = find_table(w, "passes"), *decoders = find_table(w, "decoders");
  if (passes && !w.options.figure.empty()) SLIP_TRY_(draw_chart(passes_chart(*passes, "Passes: " + of), w.options.figure));
  if (decoders && !w.options.decoder_figure.empty())
    SLIP_TRY_(draw_chart(decoders_chart(*decoders, "Decoders: " + of), w.options.decoder_figure));
  return {};
}

/// A file that cannot be written costs the file, not the numbers.
slipstream::Report finish(const LimitsWork& w, const std::string& model, json::object head, std::string text) {
  std::vector<double> all;
  const auto tell = [&](const std::string& key, std::string_view of, const std::vector<double>& errors) {
    if (errors.empty()) return;
    head[key] = median(errors);
    text += fmt::format("  median of |predicted / measured - 1|{}: {:.2f}\n", of, median(errors));
  };
  for (const Table& t : w.tables) {
    head[t.name] = t.to_json();
    text += "\n" + t.to_text();
    const std::vector<double> errors = errors_of(t);
    all.insert(all.end(), errors.begin(), errors.end());
    tell(t.name + "_median_error", "", errors);
    if (t.name == "stages") tell("median_error", " of all lines", all);
  }
  Status written = write_tables(w, head);
  if (written) written = draw_figures(w, model);
  return report_of(head, std::move(text), std::move(written));
}

Result<slipstream::Report> limits(const std::string& model, const slipstream::LimitsOptions& o,
                                  const slipstream::Progress& progress, const slipstream::CancelToken& cancel) {
  SLIP_TRY_(check(o, model));
  LimitsWork w{.options = o, .progress = progress, .cancel = cancel, .model = {}, .machine = {}};
  if (!o.machine.empty()) {
    SLIP_TRY(w.machine, machine_named(o.machine));
  }
  const bool machine_known = !o.machine.empty() || !model.empty();
  json::object head;
  std::string text;
  if (!model.empty()) {
    SLIP_TRY(w.model, LimitsCase::load(model, o));
    if (o.images > 0 && w.model.towers.empty())
      return usage_error("--images: expected a model with a vision tower, got {}, which has none", model);
    note_foreign_rates(w, w.model);
    SLIP_TRY_(check_positions(w));
    SLIP_TRY_(load_engine_for_runs(w));
    if (o.machine.empty()) {
      if (!w.engine) w.own_pool.emplace(o.threads > 0 ? o.threads : usable_threads());
      SLIP_TRY(w.machine, measured_machine(w, *w.pool()));
      if (!o.measure) SLIP_TRY_(measure_kernels(w, w.model, *w.pool(), w.machine));
    }
  }
  std::optional<Measured> measured;  // its rounds better the machine's figures, too
  if (o.measure) {
    SLIP_TRY(measured, measure_here(w));
  }
  if (machine_known) {
    text = machine_words(w.machine);
    w.tables.push_back(machine_table(w.machine));
  }
  if (!model.empty()) {
    SLIP_TRY_(model_tables(w, measured, head, text));
    head["model"] = model;
  }
  if (machine_known) head["machine"] = machine_json(w.machine);
  for (Table& t : algebra_tables()) w.tables.push_back(std::move(t));
  w.tables.push_back(report_table());
  return finish(w, model, std::move(head), std::move(text));
}

}  // namespace

}  // namespace slip::api

namespace slipstream {

Result<Report> limits(const std::string& folder, const LimitsOptions& options, const Progress& progress,
                      const CancelToken& cancel) {
  return slip::api::bounded([&] { return slip::api::limits(folder, options, progress, cancel); });
}

}  // namespace slipstream
