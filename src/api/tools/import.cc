// SPDX-License-Identifier: Apache-2.0
// slipstream::import_records and export_records: public data as record sets, record sets as other tools' files.
#include "import/import.h"

#include "api/boundary.h"
#include "api/tools/asked.h"
#include "api/tools/inputs.h"
#include "api/tools/reports.h"
#include "slipstream/engine.h"

namespace slip::api {

namespace {

Result<slipstream::Report> import_set(const std::string& out, const slipstream::ImportOptions& o,
                                      const slipstream::Progress& progress, const slipstream::CancelToken& cancel) {
  SLIP_TRY(const ImportFormat format, import_format(o.format));
  SLIP_TRY_(check_inputs_kept({{"SOURCE", o.source}, {"--pictures", o.pictures}}, {{"--out", out}}));
  const ImportOptions options{.format = format,
                              .source = o.source,
                              .out = out,
                              .pictures = o.pictures,
                              .version = o.version,
                              .every_s = o.every_s,
                              .least_history_s = o.least_history_s,
                              .limit = o.limit,
                              .with_pictures = o.with_pictures};
  SLIP_TRY(const ImportCounts counts, slip::import_records(options, progress, cancel));
  json::object json = counts.to_json();
  json["format"] = words(format);
  json["out"] = out;
  std::string text;
  if (format == ImportFormat::kConversations)
    text = fmt::format("{} conversations with {} pictures in {}\n", counts.records, counts.pictures, out);
  else
    text =
        fmt::format("{} records in {}: {} with pictures, {} without 5 s of future; {} moments without enough history passed over\n",
                    counts.records, out, counts.pictures, counts.without_future, counts.without_history);
  if (counts.holes > 0)
    text += fmt::format("holes in the times of the poses, over which nothing is continued: {}; moments in them passed over: {}\n",
                        counts.holes, counts.in_holes);
  return report_of(json, text);
}

Result<slipstream::Report> export_set(const std::string& out, const slipstream::ExportOptions& o,
                                      const slipstream::Progress& progress, const slipstream::CancelToken& cancel) {
  int64_t records = 0;
  SLIP_TRY_(check_not_in_set(out, o.records));
  SLIP_TRY_(check_inputs_kept({{"--records", o.records}, {"--answers", o.answers}}, {{"--out", out}}));
  if (o.format == "mcap") {
    const std::pair<std::string_view, const std::string*> others[] = {
        {"--answers", &o.answers}, {"--account", &o.account}, {"--method", &o.method}, {"--parameters", &o.parameters}};
    for (const auto& [name, value] : others)
      if (!value->empty()) return usage_error("export mcap: expected no {}, which belongs to wod-submission, got {}", name, *value);
    SLIP_TRY(records, export_mcap(o.records, out, progress, cancel));
  } else if (o.format == "wod-submission") {
    if (o.answers.empty()) return usage_error("export: expected --answers with wod-submission, got none");
    for (const auto& [name, value] :
         {std::pair<std::string_view, const std::string&>{"--account", o.account}, {"--method", o.method}})
      if (value.empty()) return usage_error("export wod-submission: expected {}, which every submission names, got none", name);
    SLIP_TRY(records, export_wod_submission({.records = o.records,
                                             .answers = o.answers,
                                             .out = out,
                                             .account_name = o.account,
                                             .method_name = o.method,
                                             .parameters = o.parameters,
                                             .authors = o.authors,
                                             .pretraining = o.pretraining}));
  } else {
    return usage_error("export: expected a format of mcap or wod-submission, got {}", o.format);
  }
  return report_of(json::object{{"records", records}, {"format", o.format}, {"out", out}},
                   fmt::format("{} records in {}\n", records, out));
}

}  // namespace

}  // namespace slip::api

namespace slipstream {

namespace api = slip::api;

Result<Report> import_records(const std::string& out, const ImportOptions& options, const Progress& progress,
                              const CancelToken& cancel) {
  return api::bounded([&] { return api::import_set(out, options, progress, cancel); });
}

Result<Report> export_records(const std::string& out, const ExportOptions& options, const Progress& progress,
                              const CancelToken& cancel) {
  return api::bounded([&] { return api::export_set(out, options, progress, cancel); });
}

}  // namespace slipstream
