// SPDX-License-Identifier: Apache-2.0
// The commands that are one call of the library and a report: inspect, preprocess, forward, form, demo, verify, simulate, import, export,
// quantize, convert, synthesize, eval, drive.
#include <filesystem>

#include "base/file.h"
#include "cli/bars.h"
#include "cli/commands.h"
#include "cli/output.h"

namespace slip::cli {

namespace {

Status print(const Result<slipstream::Report>& report, bool json) {
  return report ? print_report(*report, json) : Status(report.error());
}

}  // namespace

Status inspect(const InspectOptions& o) { return print(slipstream::inspect(o.model), o.json); }

Status preprocess(const PreprocessOptions& o) {
  return print(slipstream::preprocess(o.model, o.images, o.out, o.alpha == "white"), o.json);
}

// "-" is standard input; its images start where the program runs.
Status forward(const ForwardCommand& o) {
  constexpr size_t kMostBytes = size_t{256} << 20;
  SLIP_TRY(const std::string rows, o.rows == "-" ? read_input(o.rows) : read_file(o.rows, kMostBytes));
  const std::string name = o.rows == "-" ? "standard input" : o.rows;
  const std::string folder = o.rows == "-" ? "" : std::filesystem::path(o.rows).parent_path().string();
  return print(slipstream::forward(o.model, rows, name, folder, o.out, o.options, slipstream::CancelToken::of_process()), o.json);
}

Status form(const FormOptions& o) {
  if (!o.schema) return print(slipstream::explain_form(o.form, o.model, o.unnorm_key), o.json);
  SLIP_TRY(const std::string schema, slipstream::form_schema(o.form, o.model, o.unnorm_key, !o.json));
  print_text(o.json ? schema + "\n" : schema);
  return {};
}

Status demo(const DemoOptions& o) {
  Bars bars;
  return print(slipstream::demonstrate(o.model, o.options, bars.progress(), slipstream::CancelToken::of_process()), o.json);
}

Status verify(const VerifyCommand& o) {
  Bars bars;
  const auto report = slipstream::verify(o.model, o.options, bars.progress(), slipstream::CancelToken::of_process());
  bars.finish();
  return print(report, o.json);
}

Status simulate(const SimulateCommand& o) {
  if (o.list_families) {
    for (const std::string& name : slipstream::scene_families()) print_text(name + "\n");
    return {};
  }
  if (!o.picture.empty())  // labels are JSON for people as well
    return print(slipstream::draw_scene(o.picture, o.options.first_seed, o.options.family), false);
  Bars bars;
  const auto report = slipstream::simulate(o.out, o.options, bars.progress(), slipstream::CancelToken::of_process());
  bars.finish();
  return print(report, o.json);
}

Status import_set(const ImportCommand& o) {
  Bars bars;
  const auto report = slipstream::import_records(o.out, o.options, bars.progress(), slipstream::CancelToken::of_process());
  bars.finish();
  return print(report, o.json);
}

Status export_set(const ExportCommand& o) {
  Bars bars;
  const auto report = slipstream::export_records(o.out, o.options, bars.progress(), slipstream::CancelToken::of_process());
  bars.finish();
  return print(report, o.json);
}

Status quantize(const QuantizeCommand& o) {
  Bars bars;
  const auto report = slipstream::quantize(o.model, o.out, o.options, bars.progress(), slipstream::CancelToken::of_process());
  bars.finish();
  return print(report, o.json);
}

Status convert(const ConvertCommand& o) { return print(slipstream::convert_prismatic(o.source, o.tokenizer, o.out), o.json); }

Status synthesize(const SynthesizeCommand& o) {
  Bars bars;
  const auto report = slipstream::synthesize(o.out, o.options, bars.progress(), slipstream::CancelToken::of_process());
  bars.finish();
  return print(report, o.json);
}

Status limits(const LimitsCommand& o) {
  Bars bars;
  const auto report = slipstream::limits(o.model, o.options, bars.progress(), slipstream::CancelToken::of_process());
  bars.finish();
  return print(report, o.json);
}

Status eval(const EvalCommand& o) {
  slipstream::EvaluateOptions options = o.options;
  options.first_seed = options.seed = o.seed;
  Bars bars;
  const auto report = slipstream::evaluate(o.model, o.engine, options, bars.progress(), slipstream::CancelToken::of_process());
  bars.finish();
  return print(report, o.json);
}

Status drive(const DriveCommand& o) {
  Bars bars;
  const auto report = slipstream::drive(o.model, o.engine, o.options, bars.progress(), slipstream::CancelToken::of_process());
  bars.finish();
  return print(report, o.json);
}

}  // namespace slip::cli
