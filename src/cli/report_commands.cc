// SPDX-License-Identifier: Apache-2.0
// The commands that are one call of the library and a report: inspect, preprocess, forward, form, demo, verify, simulate, codebook, import, export,
// quantize, convert, synthesize, eval, drive, reach.
#include <charconv>
#include <filesystem>

#include "base/file.h"
#include "base/json/shown.h"
#include "cli/bars.h"
#include "cli/commands.h"
#include "cli/output.h"

namespace slip::cli {

namespace {

Status print(const Result<slipstream::Report>& report, bool json) {
  return report ? print_report(*report, json) : Status(report.error());
}

/// `call(progress, cancel)` with bars on stderr, which end before its report is printed.
template <class Call>
Status print_with_bars(bool json, Call&& call) {
  Bars bars;
  const Result<slipstream::Report> report = call(bars.progress(), slipstream::CancelToken::of_process());
  bars.finish();
  return print(report, json);
}

/// "I/N".
Status take_shard(const std::string& text, slipstream::EvaluateOptions& options) {
  if (text.empty()) return {};
  const size_t slash = text.find('/');
  const auto number = [](std::string_view digits, int32_t& out) {
    const auto [stop, error] = std::from_chars(digits.data(), digits.data() + digits.size(), out);
    return error == std::errc{} && stop == digits.data() + digits.size() && out >= 0;
  };
  const std::string_view all = text;
  if (slash != std::string::npos && number(all.substr(0, slash), options.shard) && number(all.substr(slash + 1), options.shards) &&
      options.shards > 0 && options.shard < options.shards)
    return {};
  return usage_error("--shard: expected I/N with I from 0 to N - 1, got {}", text);
}

/// "SECTION=T".
Status take_section_temperature(const std::string& text, std::vector<std::pair<std::string, double>>& to) {
  const size_t equals = text.find('=');
  double value = 0;
  const char* const end = text.data() + text.size();
  if (equals != std::string::npos && equals > 0) {
    const auto [stop, error] = std::from_chars(text.data() + equals + 1, end, value);
    if (error == std::errc{} && stop == end && value >= 0 && value <= 100) {
      to.emplace_back(text.substr(0, equals), value);
      return {};
    }
  }
  return usage_error("--section-temperature: expected SECTION=T with T from 0 to 100, got {}", text);
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

Status form(FormOptions& o) {
  if (is_stream(o.form)) {
    const std::string name = name_of_input(o.form);
    SLIP_TRY(o.form, read_piped(o.form, kMostSchemaBytes));
    if (o.form.starts_with("\xEF\xBB\xBF")) return bad_input("{}: expected JSON without a byte order mark, got one", name);
    const size_t first = o.form.find_first_not_of(" \t\r\n");
    if (first == std::string::npos || (o.form[first] != '{' && o.form[first] != '['))
      return bad_input("{}: expected a JSON Schema, an object, got '{}'", name, shown(o.form.substr(0, 40)));
  }
  if (o.check) return print(slipstream::check_form(o.form, o.model), o.json);
  if (!o.schema) return print(slipstream::explain_form(o.form, o.model, o.unnorm_key), o.json);
  SLIP_TRY(const std::string schema, slipstream::form_schema(o.form, o.model, o.unnorm_key, !o.json));
  print_text(o.json ? schema + "\n" : schema);
  return {};
}

Status demo(const DemoOptions& o) {
  if (o.grow > 0) return demo_grown(o);
  return print_with_bars(o.json,
                         [&](auto progress, auto cancel) { return slipstream::demonstrate(o.model, o.options, progress, cancel); });
}

Status verify(const VerifyCommand& o) {
  return print_with_bars(o.json,
                         [&](auto progress, auto cancel) { return slipstream::verify(o.model, o.options, progress, cancel); });
}

Status simulate(const SimulateCommand& o) {
  if (o.list_families) {
    for (const std::string& name : slipstream::scene_families()) print_text(name + "\n");
    return {};
  }
  if (!o.picture.empty())  // labels are JSON for people as well
    return print(slipstream::draw_scene(o.picture, o.options.first_seed, o.options.family), false);
  return print_with_bars(o.json,
                         [&](auto progress, auto cancel) { return slipstream::simulate(o.out, o.options, progress, cancel); });
}

Status codebook(const CodebookCommand& o) {
  return print_with_bars(o.json, [&](auto progress, auto cancel) {
    return o.measure.empty() ? slipstream::make_codebook(o.out, o.options, progress, cancel)
                             : slipstream::measure_codebook(o.measure, o.options, progress, cancel);
  });
}

Status import_set(const ImportCommand& o) {
  return print_with_bars(
      o.json, [&](auto progress, auto cancel) { return slipstream::import_records(o.out, o.options, progress, cancel); });
}

Status export_set(const ExportCommand& o) {
  return print_with_bars(
      o.json, [&](auto progress, auto cancel) { return slipstream::export_records(o.out, o.options, progress, cancel); });
}

Status quantize(const QuantizeCommand& o) {
  return print_with_bars(
      o.json, [&](auto progress, auto cancel) { return slipstream::quantize(o.model, o.out, o.options, progress, cancel); });
}

Status convert(const ConvertCommand& o) {
  return print_with_bars(o.json, [&](auto progress, auto cancel) {
    return slipstream::convert_prismatic(o.source, o.tokenizer, o.out, progress, cancel);
  });
}

Status synthesize(const SynthesizeCommand& o) {
  return print_with_bars(o.json,
                         [&](auto progress, auto cancel) { return slipstream::synthesize(o.out, o.options, progress, cancel); });
}

Status limits(const LimitsCommand& o) {
  return print_with_bars(o.json,
                         [&](auto progress, auto cancel) { return slipstream::limits(o.model, o.options, progress, cancel); });
}

Status eval(const EvalCommand& o) {
  slipstream::EvaluateOptions options = o.options;
  const bool answers =
      !(o.model.empty() && options.records.empty() && options.out.empty() && options.require.empty() && options.calibrate.empty() &&
        options.decoders.empty() && options.decoder.preset.empty() && !options.resume);
  if (!o.merge.empty() && answers)
    return usage_error("--merge: expected --csv and --json alone beside it, got options of an evaluation");
  if (!o.merge.empty()) return print(slipstream::merge_evaluations(o.merge, o.options.csv), o.json);
  options.first_seed = options.seed = o.seed;
  SLIP_TRY_(take_shard(o.shard, options));
  if (!o.shard.empty()) options.reuse_prompt = false;  // an array of one task as well
  for (const std::string& text : o.section_temperatures) SLIP_TRY_(take_section_temperature(text, options.section_temperatures));
  return print_with_bars(
      o.json, [&](auto progress, auto cancel) { return slipstream::evaluate(o.model, o.engine, options, progress, cancel); });
}

Status drive(const DriveCommand& o) {
  slipstream::DriveOptions options = o.options;
  for (const std::string& text : o.section_temperatures) SLIP_TRY_(take_section_temperature(text, options.section_temperatures));
  return print_with_bars(
      o.json, [&](auto progress, auto cancel) { return slipstream::drive(o.model, o.engine, options, progress, cancel); });
}

Status reach(const ReachCommand& o) {
  return print_with_bars(
      o.json, [&](auto progress, auto cancel) { return slipstream::reach(o.model, o.engine, o.options, progress, cancel); });
}

}  // namespace slip::cli
