// SPDX-License-Identifier: Apache-2.0
// slipstream::evaluate: a decoder over a record set, or over held-out scenes simulated on the way.
#include "eval/evaluate.h"

#include <filesystem>

#include "api/boundary.h"
#include "api/choice.h"
#include "api/engines.h"
#include "api/requests.h"
#include "api/slots.h"
#include "api/tools/reports.h"
#include "base/file.h"
#include "decode/draft_length/collect.h"
#include "decode/draft_length/model_file.h"
#include "sim/record/make.h"
#include "sim/record/shards.h"
#include "slipstream/engine.h"

namespace slip::api {

namespace {

// Records of a set, or made from seeds.
class Records {
 public:
  static Result<Records> open(const slipstream::EvaluateOptions& o) {
    Records out;
    if (o.records.empty()) {
      out.first_seed_ = o.first_seed ? o.first_seed : kFirstHeldOutScene;
      out.size_ = o.count > 0 ? o.count : 500;
      return out;
    }
    SLIP_TRY(out.set_, sim::RecordSet::open(o.records));
    out.size_ = o.count > 0 ? std::min(o.count, out.set_->size()) : out.set_->size();
    return out;
  }
  int64_t size() const { return size_; }
  /// Frame `frame` of simulated scene i, `every_s` apart.
  Result<sim::Record> get(int64_t i, int frame, double every_s) const {
    if (frame > 0) return sim::make_frame(first_seed_ + static_cast<uint64_t>(i), {}, frame * every_s);
    if (!set_) return sim::make_record(first_seed_ + static_cast<uint64_t>(i));
    SLIP_TRY(const sim::Labels labels, set_->labels(i));
    SLIP_TRY(const auto images, set_->pictures(i));
    return sim::Record{labels, {images.begin(), images.end()}};
  }

 private:
  std::optional<sim::RecordSet> set_;
  uint64_t first_seed_ = 0;
  int64_t size_ = 0;
};

json::object record_line(const sim::Labels& labels, const Answer& a) {
  json::object out{{"seed", labels.seed},
                   {"family", sim::family_names()[labels.family]},
                   {"pre_onset", labels.pre_onset},
                   {"valid", a.decoded.valid},
                   {"fields", values_to_json(a.form->form, a.values)},
                   {"statistics", statistics_json(a)},
                   {"decoder", decoder_json(a.method, a.form.get(), &a.chosen)}};
  if (a.plan.fitted) {
    json::array points;
    for (const Waypoint& w : a.plan.fitted->points) points.push_back(json::array{w.x, w.y});
    out["plan"] = {{"rate_hz", a.plan.fitted->rate_hz}, {"points", std::move(points)}};
  }
  return out;
}

/// A line per record. A disk that fills costs the lines, not the evaluation: the first failure is kept for its end.
class Lines {
 public:
  Status open(const std::string& file) {
    SLIP_TRY(AtomicFile opened, AtomicFile::create(file));
    file_.emplace(std::move(opened));
    return {};
  }
  void add(const json::object& record) {
    if (!file_ || !status_) return;
    const std::string line = to_valid_utf8(json::serialize(record)) + "\n";
    status_ = file_->write(line.data(), line.size());
  }
  Status commit() { return file_ && status_ ? file_->commit() : status_; }

 private:
  std::optional<AtomicFile> file_;
  Status status_;
};

/// What the evaluation goes by throughout.
struct Evaluating {
  const std::string& folder;
  const slipstream::EvaluateOptions& options;
  const slipstream::Progress& progress;
  const slipstream::CancelToken& cancel;
  Engine& engine;
};

/// All frames of all records. With drafter `previous` a scene's first frame only makes the answer that the next one starts from.
Status evaluate_all(Evaluating& work, const Records& records, EvalSettings settings, DraftLengthCollector* collector,
                    Evaluation& sums, Lines& lines) {
  const slipstream::EvaluateOptions& o = work.options;
  Engine& engine = work.engine;
  const int frames = o.every_s > 0 ? o.frames : 1;
  const bool from_previous = std::holds_alternative<PreviousSpec>(settings.method.drafter);
  EvalSettings first = settings;
  if (from_previous) {
    SLIP_TRY(first.method, method_from({}, {}, &engine, true));
  }
  PreviousAnswer previous;
  for (int64_t i = 0; i < records.size(); ++i) {
    for (int frame = 0; frame < frames; ++frame) {
      SLIP_TRY_(work.cancel.check("evaluate", i, "records"));
      SLIP_TRY(const sim::Record r, records.get(i, frame, o.every_s));
      const bool warm = from_previous && frame == 0;
      Evaluation aside;
      settings.context.previous = warm ? nullptr : &previous;
      settings.context.draft_length_observer = warm ? nullptr : collector;
      if (collector) collector->begin(i);
      SLIP_TRY(const Answer answer, evaluate_record(engine, r.labels, r.images, warm ? first : settings, warm ? aside : sums));
      if (collector && !warm) collector->answered(answer.decoded);
      previous = {answer.form->form.name(), answer.decoded.fields, answer.decoded.tokens};
      if (!warm) lines.add(record_line(r.labels, answer));
    }
    if (work.progress) work.progress("evaluating", i + 1, records.size());
  }
  return {};
}

Status write_calibration(Evaluating& work, const DraftLengthCollector& collector, const Method& method, std::string& remarks) {
  Engine& engine = work.engine;
  SLIP_TRY(Calibration found, collector.finish());
  SLIP_TRY(const FormPtr form, engine.form("model"));
  SLIP_TRY(CostTable cost, measure_costs(engine.model().lm(), {.visible = 512, .cancel = work.cancel}));
  DraftLengthModel w = DraftLengthModel::uninformed(std::move(cost), &form->form);
  w.model = to_valid_utf8(std::filesystem::path(work.folder).filename().string());
  w.drafter = to_valid_utf8(words_of(method).drafter);
  w.machine = isa_choice().reason;
  w.visible = 512;
  w.survival = std::move(found.survival);
  w.lengths = std::move(found.lengths);
  w.ece = found.ece;
  w.most_drafts = method.width.kind == DraftLengthSpec::Kind::kFixed ? method.width.tokens : 32;
  remarks += fmt::format("calibration: {} drafts tested, expected calibration error {:.3f} on {} held out\n", found.tested,
                         found.ece, found.held_out);
  return write_draft_length_model(w, work.options.calibrate);
}

Status check_options(const slipstream::EvaluateOptions& o, const slipstream::DecoderChoice& decoder) {
  if (o.decoder.drafter.starts_with("previous:"))
    return usage_error("eval: --drafter: expected previous without more (each scene's own earlier frame), got {}",
                       o.decoder.drafter);
  if (o.decoder.drafter == "previous" && (!o.records.empty() || o.every_s <= 0))
    return usage_error("eval: --drafter previous: expected simulated scenes and --every, got a set or no interval");
  if (o.every_s > 0 && !o.records.empty()) return usage_error("eval: --every: expected simulated scenes, got a record set");
  if (o.every_s * (o.frames - 1) > sim::kMostFrameS)
    return usage_error("eval: --every: expected the last frame within {} s, got {}", sim::kMostFrameS, o.every_s * (o.frames - 1));
  return check_words(decoder);
}

/// What the options name beside the records. Hours of evaluation may lie between opening and use: what is wrong is said before.
struct Files {
  json::object limits;
  Lines lines;
};

Result<Files> open_files(const slipstream::EvaluateOptions& o) {
  Files files;
  if (!o.require.empty()) {
    SLIP_TRY(json::value limits, read_json(o.require));
    SLIP_TRY_(check_limit_shapes(limits, o.require));
    files.limits = std::move(limits.get_object());
  }
  if (!o.out.empty()) SLIP_TRY_(files.lines.open(o.out));
  // Written by another hand later: can it be? (A pipe that is opened and closed here would be at its end for its reader.)
  std::error_code ec;
  if (!o.calibrate.empty() && !std::filesystem::is_fifo(o.calibrate, ec)) {
    SLIP_TRY(const AtomicFile trial, AtomicFile::create(o.calibrate));
  }
  return files;
}

/// What is left to do once the numbers are there; the first that fails is the error.
Status conclude(Evaluating& work, const std::optional<DraftLengthCollector>& collector, const Method& method,
                const json::object& result, Files& files, std::string& remarks) {
  SLIP_TRY_(files.lines.commit());
  if (collector) SLIP_TRY_(write_calibration(work, *collector, method, remarks));
  return check_limits(result, files.limits, work.options.require);
}

Result<slipstream::Report> report(Evaluating& work, const slipstream::DecoderChoice& decoder, const Records& records,
                                  Files& files) {
  const slipstream::EvaluateOptions& o = work.options;
  SLIP_TRY(const Method method, method_from(decoder, {}, &work.engine, true));
  const EvalSettings settings{.method = method,
                              .temperature = static_cast<float>(o.temperature),
                              .seed = o.seed,
                              .context = {.cancel = work.cancel},
                              .blank_images = o.blank_images,
                              .reuse_prompt = o.reuse_prompt};
  FormPtr form;
  std::optional<DraftLengthCollector> collector;
  if (!o.calibrate.empty()) {
    if (std::holds_alternative<NoDraftSpec>(method.drafter))
      return usage_error("eval: --calibrate: expected a decoder that drafts, got {} without drafts", method.preset);
    SLIP_TRY(form, work.engine.form("model"));
    collector.emplace(&form->form);
  }
  Evaluation sums;
  SLIP_TRY_(evaluate_all(work, records, settings, collector ? &*collector : nullptr, sums, files.lines));
  json::object result = sums.to_json();
  result["decoder"] = decoder_json(method);
  result["blank_images"] = o.blank_images;
  result["model"] = work.folder;
  std::string remarks;
  if (o.count > records.size())
    remarks = fmt::format("records: {} are asked for, and {} evaluated, which is all of {}\n", o.count, records.size(), o.records);
  Status done = conclude(work, collector, method, result, files, remarks);
  slipstream::Report out = report_of(result, evaluation_table(sums, &method), std::move(done));
  out.remarks = std::move(remarks);
  return out;
}

Result<slipstream::Report> evaluate(const std::string& folder, const slipstream::EngineOptions& how,
                                    const slipstream::EvaluateOptions& o, const slipstream::Progress& progress,
                                    const slipstream::CancelToken& cancel) {
  slipstream::DecoderChoice decoder = o.decoder;
  if (decoder.drafter == "previous") decoder.drafter = "previous:frame before";
  const bool any = decoder.preset.empty() && decoder.drafter.empty() && decoder.schedule.empty() && decoder.width.empty();
  if (!o.calibrate.empty() && any)  // what is calibrated is how drafts hold, with windows that see the most
    decoder.preset = visibility_of_folder(folder) == Visibility::kGraph ? "fields-spec" : "scaffold-spec";
  SLIP_TRY_(check_options(o, decoder));
  SLIP_TRY(Files files, open_files(o));
  SLIP_TRY(const Records records, Records::open(o));
  const EngineOptions options{.dtype = how.dtype,
                              .threads = how.threads,
                              .slots = how.slots > 0 ? how.slots : slots_for(decoder, folder),
                              .device = how.device,
                              .kv_type = how.kv_type};
  SLIP_TRY(const std::unique_ptr<Engine> engine, Engine::load(folder, options, load_progress(progress, cancel)));
  Evaluating work{folder, o, progress, cancel, *engine};
  return report(work, decoder, records, files);
}

}  // namespace

}  // namespace slip::api

namespace slipstream {

Result<Report> evaluate(const std::string& folder, const EngineOptions& engine, const EvaluateOptions& options,
                        const Progress& progress, const CancelToken& cancel) {
  return slip::api::bounded([&] { return slip::api::evaluate(folder, engine, options, progress, cancel); });
}

}  // namespace slipstream
