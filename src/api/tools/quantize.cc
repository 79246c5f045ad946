// SPDX-License-Identifier: Apache-2.0
// slipstream::quantize: a packed copy of a model folder, its error report, and for driving models how often greedy answers stay the
// same.
#include "convert/quantize.h"

#include <algorithm>
#include <cmath>

#include "api/boundary.h"
#include "api/choice.h"
#include "api/engines.h"
#include "api/request/requests.h"
#include "api/tools/reports.h"
#include "eval/evaluate.h"
#include "sim/record/make.h"
#include "slipstream/model.h"

namespace slip::api {

namespace {

struct Quantizing {
  const slipstream::QuantizeOptions& options;
  const slipstream::Progress& progress;
  const slipstream::CancelToken& cancel;
};

// The model's own decoder, greedy: every exact one answers alike (decision 0003).
Result<std::vector<Answer>> answers(const std::filesystem::path& folder, const std::string& dtype, const Quantizing& work) {
  SLIP_TRY(const std::unique_ptr<Engine> engine,
           Engine::load(folder, {.dtype = dtype, .threads = work.options.threads}, load_progress(work.progress, work.cancel)));
  SLIP_TRY(const Method method, method_from({}, {}, engine.get(), true));
  std::vector<Answer> out;
  for (int i = 0; i < work.options.records; ++i) {
    SLIP_TRY_(work.cancel.check("quantize", i, "answers"));
    SLIP_TRY(const sim::Record record, sim::make_record(kFirstHeldOutScene + static_cast<uint64_t>(i)));
    Evaluation unused;
    SLIP_TRY(Evaluated done, evaluate_record(*engine, record.labels, record.images, {.method = method}, unused));
    out.push_back(std::move(done.answer));
    if (work.progress) work.progress("answering", i + 1, work.options.records);
  }
  return out;
}

// Shares of equal answers, of fields with the same text, and of tokens at the same place.
json::object agreement(const std::vector<Answer>& a, const std::vector<Answer>& b) {
  int64_t answers = 0, fields = 0, same_fields = 0, tokens = 0, same_tokens = 0;
  double distance = 0;
  int64_t points = 0;
  for (size_t i = 0; i < a.size(); ++i) {
    answers += a[i].decoded.tokens == b[i].decoded.tokens;
    for (size_t f = 0; f < std::min(a[i].values.size(), b[i].values.size()); ++f) {
      ++fields;
      same_fields += a[i].values[f] == b[i].values[f];
    }
    const size_t n = std::min(a[i].decoded.tokens.size(), b[i].decoded.tokens.size());
    tokens += static_cast<int64_t>(std::max(a[i].decoded.tokens.size(), b[i].decoded.tokens.size()));
    for (size_t t = 0; t < n; ++t) same_tokens += a[i].decoded.tokens[t] == b[i].decoded.tokens[t];
    for (size_t w = 0; w < std::min(a[i].plan.waypoints.size(), b[i].plan.waypoints.size()); ++w, ++points)
      distance +=
          std::hypot(a[i].plan.waypoints[w].x - b[i].plan.waypoints[w].x, a[i].plan.waypoints[w].y - b[i].plan.waypoints[w].y);
  }
  const auto share = [](int64_t part, int64_t all) { return all ? static_cast<double>(part) / static_cast<double>(all) : 0.0; };
  return {{"records", a.size()},
          {"first_scene", kFirstHeldOutScene},
          {"same_answers", share(answers, static_cast<int64_t>(a.size()))},
          {"same_fields", share(same_fields, fields)},
          {"same_tokens", share(same_tokens, tokens)},
          {"waypoint_distance_m", points ? distance / static_cast<double>(points) : 0.0}};
}

// Whether the simulator's records are what the model was trained to answer.
Result<bool> answers_records(const std::string& model) {
  SLIP_TRY(const json::value config, read_json(std::filesystem::path(model) / "config.json"));
  if (!config.is_object() || !config.get_object().contains("slipstream")) return false;
  SLIP_TRY(const TaskOptions task, task_options(config.get_object(), model));
  return task.form != TaskForm::kAction;
}

Result<slipstream::Report> quantize(const std::string& model, const std::string& out, const Quantizing& work) {
  const slipstream::QuantizeOptions& o = work.options;
  const auto type = weight_type_named(o.type);
  if (!type) return usage_error("--type: expected int8, int4, bf16 or f32, got {}", o.type);
  const auto packing = [&](int64_t done, int64_t total) {
    if (work.progress) work.progress("packing", done, total);
  };
  SLIP_TRY(QuantizedFolder folder,
           QuantizedFolder::make(model, out, {.type = *type, .threads = o.threads, .compare = o.compare},
                                 {.tell = packing, .cancel = work.cancel}, load_progress(work.progress, work.cancel).tell));
  SLIP_TRY(const bool driving, answers_records(model));
  if (driving && o.records > 0 && o.compare) {
    SLIP_TRY(const std::vector<Answer> before, answers(model, "bf16", work));
    SLIP_TRY(const std::vector<Answer> after, answers(folder.path(), o.type, work));
    folder.report().agreement = agreement(before, after);
  }
  json::object report = folder.report().json();
  const std::string text = folder.report().text();
  SLIP_TRY_(folder.commit());
  return report_of(json::object{{"out", out}, {"type", o.type}, {"errors", std::move(report)}},
                   fmt::format("{} ({}): {}", out, o.type, text));
}

}  // namespace

}  // namespace slip::api

namespace slipstream {

Result<Report> quantize(const std::string& folder, const std::string& out, const QuantizeOptions& options, const Progress& progress,
                        const CancelToken& cancel) {
  return slip::api::bounded([&] { return slip::api::quantize(folder, out, {options, progress, cancel}); });
}

}  // namespace slipstream
