// SPDX-License-Identifier: Apache-2.0
// slipstream::make_codebook and measure_codebook: the codes that a model may answer its trajectories in, out of how cars drive in records.
#include <algorithm>
#include <filesystem>

#include "api/boundary.h"
#include "api/tools/reports.h"
#include "base/file.h"
#include "sim/record/make.h"
#include "sim/record/shards.h"
#include "slipstream/model.h"
#include "task/codes.h"
#include "task/task_tokenizer.h"

namespace slip::api {

namespace {

constexpr int32_t kMostLength = 64;
using Futures = std::vector<std::vector<Pose>>;

/// Futures of records that know all of theirs: behind 5 s an imported one has a stand-in, which codes would be made of and measured on.
Result<Futures> futures_of(const slipstream::CodebookOptions& o, const slipstream::Progress& progress,
                           const slipstream::CancelToken& cancel, std::string& remarks) {
  Futures out;
  std::optional<sim::RecordSet> set;
  if (!o.records.empty()) {
    SLIP_TRY(set, sim::RecordSet::open(o.records));
  }
  constexpr int64_t kSimulated = 10000;
  const int64_t count = set ? (o.count > 0 ? std::min(o.count, set->size()) : set->size()) : o.count > 0 ? o.count : kSimulated;
  for (int64_t i = 0; i < count; ++i) {
    SLIP_TRY_(cancel.check("reading", i, "records"));
    sim::Labels labels;
    if (set) {
      SLIP_TRY(labels, set->labels(i));
    } else {
      SLIP_TRY(sim::Record r, sim::make_record(o.first_seed + static_cast<uint64_t>(i), {}, false));
      labels = std::move(r.labels);
    }
    if (sim::known_future_steps(labels) == labels.future.size()) out.push_back(future_poses(labels));
    if (progress) progress("reading", i + 1, count);
  }
  if (out.empty())
    return bad_input(
        "{}: expected records that know 6.4 s of their future, as simulated ones do (imported ones know 5 s), got none",
        set ? o.records : "codebook");
  if (const int64_t less = count - static_cast<int64_t>(out.size()); less > 0)
    remarks = fmt::format("records: {} of {} know less than 6.4 s of their future and are left out\n", less, count);
  return out;
}

Status check_length(int32_t length, int32_t steps) {
  if (length < 1 || length > kMostLength || length * steps < kMostLength || (length - 1) * steps >= kMostLength)
    return usage_error("--length: expected as many codes as 6.4 s take ({} of {:.1f} s), got {}", (kMostLength + steps - 1) / steps,
                       steps * TrajectoryCodebook::kStepS, length);
  return {};
}

json::object error_json(const CodebookError& e) {
  const auto at = [](const CodebookError::At& a) {
    return json::object{{"mean", a.mean_m}, {"p99", a.p99_m}, {"ade_mean", a.ade_mean_m}, {"ade_p99", a.ade_p99_m}};
  };
  return {{"paths", e.paths}, {"3s", at(e.at_3s)}, {"6.4s", at(e.at_6_4s)}};
}

std::string error_text(const CodebookError& e) {
  std::string out = fmt::format("error of {} paths that were put through it, metres:\n", e.paths);
  out += "         mean, 99 % at that time   mean, 99 % of the average up to it\n";
  for (const auto& [name, at] : {std::pair{"3 s", e.at_3s}, std::pair{"6.4 s", e.at_6_4s}})
    out += fmt::format("  {:<6} {:5.2f}  {:5.2f}              {:5.2f}  {:5.2f}\n", name, at.mean_m, at.p99_m, at.ade_mean_m,
                       at.ade_p99_m);
  return out;
}

Result<slipstream::Report> make(const std::string& out, const slipstream::CodebookOptions& o, const slipstream::Progress& progress,
                                const slipstream::CancelToken& cancel) {
  if (o.steps < 1 || o.steps > kMostLength) return usage_error("--steps: expected 1 to {}, got {}", kMostLength, o.steps);
  const int32_t length = o.length > 0 ? o.length : (kMostLength + o.steps - 1) / o.steps;
  SLIP_TRY_(check_length(length, o.steps));
  std::error_code ec;
  if (const auto folder = std::filesystem::path(out).parent_path(); !folder.empty())
    std::filesystem::create_directories(folder, ec);
  if (ec) return bad_input("{}: expected a place for the codebook, got: {}", out, ec.message());
  std::string remarks;
  SLIP_TRY(const Futures all, futures_of(o, progress, cancel, remarks));
  // Every tenth path is not learned from: its error is that of a path that the book has not seen.
  Futures seen, held_out;
  for (size_t i = 0; i < all.size(); ++i) (i % 10 == 0 ? held_out : seen).push_back(all[i]);
  TrajectoryCodebook::MakeOptions options{.codes = o.codes, .steps = o.steps, .iterations = o.iterations, .seed = o.seed};
  options.told = [&](int32_t done, double) -> Status {
    SLIP_TRY_(cancel.check("clusters", done, "rounds"));
    if (progress) progress("clusters", done + 1, o.iterations);
    return {};
  };
  SLIP_TRY(const TrajectoryCodebook book, TrajectoryCodebook::make(seen, options));
  const CodebookError error = codebook_error(book, held_out, length);
  const json::object document = book.to_json();
  SLIP_TRY_(write_file(out, json::serialize(document) + "\n"));
  if (!o.tokenizer.empty())
    SLIP_TRY_(add_code_tokens(o.tokenizer, std::filesystem::path(out).parent_path(), {.codes = length, .code_values = o.codes}));
  slipstream::Report report =
      report_of(json::object{{"out", out},
                             {"codes", book.codes()},
                             {"steps", book.steps()},
                             {"length", length},
                             {"records", all.size()},
                             {"error_m", error_json(error)}},
                fmt::format("{}: {} codes of {:.1f} s out of {} paths; {} are a trajectory of 6.4 s\n{}", out, book.codes(),
                            book.steps() * TrajectoryCodebook::kStepS, seen.size(), length, error_text(error)));
  report.remarks = std::move(remarks);
  return report;
}

Result<slipstream::Report> measure(const std::string& file, const slipstream::CodebookOptions& o,
                                   const slipstream::Progress& progress, const slipstream::CancelToken& cancel) {
  SLIP_TRY(const CodebookPtr book, TrajectoryCodebook::load(file));
  const int32_t length = o.length > 0 ? o.length : (kMostLength + book->steps() - 1) / book->steps();
  SLIP_TRY_(check_length(length, book->steps()));
  std::string remarks;
  SLIP_TRY(const Futures all, futures_of(o, progress, cancel, remarks));
  const CodebookError error = codebook_error(*book, all, length);
  slipstream::Report report =
      report_of(json::object{{"codebook", file},
                             {"codes", book->codes()},
                             {"steps", book->steps()},
                             {"length", length},
                             {"error_m", error_json(error)}},
                fmt::format("{}: {} codes of {:.1f} s; {} are a trajectory of 6.4 s\n{}", file, book->codes(),
                            book->steps() * TrajectoryCodebook::kStepS, length, error_text(error)));
  report.remarks = std::move(remarks);
  return report;
}

}  // namespace

}  // namespace slip::api

namespace slipstream {

namespace api = slip::api;

Result<Report> make_codebook(const std::string& out, const CodebookOptions& options, const Progress& progress,
                             const CancelToken& cancel) {
  return api::bounded([&] { return api::make(out, options, progress, cancel); });
}

Result<Report> measure_codebook(const std::string& file, const CodebookOptions& options, const Progress& progress,
                                const CancelToken& cancel) {
  return api::bounded([&] { return api::measure(file, options, progress, cancel); });
}

}  // namespace slipstream
