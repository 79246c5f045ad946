// SPDX-License-Identifier: Apache-2.0
// `eval`: a decoder over a record set, or over held-out scenes simulated on the way.
#include "base/file.h"
#include "base/interrupt.h"
#include "base/progress.h"
#include "base/standard_streams.h"
#include "cli/output.h"
#include "cli/requests.h"
#include "decode/draft_length/collect.h"
#include "eval/evaluate.h"
#include "sim/record/make.h"
#include "sim/record/shards.h"
#include "text/tokenizer.h"

namespace slip::cli {

namespace {

// Records of a set, or made from seeds.
class Records {
 public:
  static Result<Records> open(const EvalOptions& o) {
    Records out;
    if (o.records.empty()) {
      out.first_seed_ = o.seed ? o.seed : kFirstHeldOutScene;
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
  return {{"seed", labels.seed},
          {"family", sim::family_names()[labels.family]},
          {"pre_onset", labels.pre_onset},
          {"valid", a.decoded.valid},
          {"fields", values_to_json(a.form->form, a.values)},
          {"statistics", statistics_json(a)},
          {"decoder", decoder_json(a.method, a.form)}};
}

}  // namespace

namespace {

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

/// All frames of all records. With drafter `previous` a scene's first frame only makes the answer that the next one starts from.
Status evaluate(Engine& engine, const Records& records, const EvalOptions& o, EvalSettings settings,
                DraftLengthCollector* collector, Evaluation& sums, Lines& lines) {
  const int frames = o.every_s > 0 ? o.frames : 1;
  const bool from_previous = std::holds_alternative<PreviousSpec>(settings.method.drafter);
  EvalSettings first = settings;
  if (from_previous) {
    SLIP_TRY(first.method, method_from(MethodFlags{}, &engine, true));
  }
  PreviousAnswer previous;
  Progress progress("evaluating", records.size());
  for (int64_t i = 0; i < records.size(); ++i) {
    for (int frame = 0; frame < frames; ++frame) {
      SLIP_TRY_(check_interrupt());
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
    progress.update(i + 1);
  }
  progress.finish();
  return {};
}

Status write_calibration(Engine& engine, const DraftLengthCollector& collector, const Method& method, const EvalOptions& o) {
  SLIP_TRY(Calibration found, collector.finish());
  SLIP_TRY(const CompiledForm* form, engine.form("model"));
  SLIP_TRY(CostTable cost, measure_costs(engine.model().lm(), {.visible = 512, .cancel = CancelToken::of_process()}));
  DraftLengthModel w = DraftLengthModel::uninformed(std::move(cost), &form->form);
  w.model = to_valid_utf8(std::filesystem::path(o.model).filename().string());
  w.drafter = to_valid_utf8(words_of(method).drafter);
  w.machine = isa_choice().reason;
  w.visible = 512;
  w.survival = std::move(found.survival);
  w.lengths = std::move(found.lengths);
  w.ece = found.ece;
  w.most_drafts = method.width.kind == DraftLengthSpec::Kind::kFixed ? method.width.tokens : 32;
  say(fmt::format("calibration: {} drafts tested, expected calibration error {:.3f} on {} held out\n", found.tested, found.ece,
                  found.held_out));
  return write_draft_length_model(w, o.calibrate);
}

Status check_options(const EvalOptions& o, const MethodFlags& flags) {
  if (o.drafter.starts_with("previous:"))
    return usage_error("eval: --drafter: expected previous without more (each scene's own earlier frame), got {}", o.drafter);
  if (o.drafter == "previous" && (!o.records.empty() || o.every_s <= 0))
    return usage_error("eval: --drafter previous: expected simulated scenes and --every, got a set or no interval");
  if (o.every_s > 0 && !o.records.empty()) return usage_error("eval: --every: expected simulated scenes, got a record set");
  if (o.every_s * (o.frames - 1) > sim::kMostFrameS)
    return usage_error("eval: --every: expected the last frame within {} s, got {}", sim::kMostFrameS, o.every_s * (o.frames - 1));
  return check_words(flags);
}

/// What the command line names beside the records. Hours of evaluation may lie between opening and use: what is wrong is said before.
struct Files {
  json::object limits;
  Lines lines;
};

Result<Files> open_files(const EvalOptions& o) {
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
Status conclude(Engine& engine, const std::optional<DraftLengthCollector>& collector, const Method& method, const EvalOptions& o,
                const json::object& result, Files& files) {
  SLIP_TRY_(files.lines.commit());
  if (collector) SLIP_TRY_(write_calibration(engine, *collector, method, o));
  return check_limits(result, files.limits, o.require);
}

}  // namespace

Status eval(const EvalOptions& o) {
  const MethodFlags flags{o.decoder, o.schedule, o.drafter == "previous" ? "previous:frame before" : std::string_view(o.drafter),
                          o.verifier, o.width};
  SLIP_TRY_(check_options(o, flags));
  SLIP_TRY(Files files, open_files(o));
  SLIP_TRY(const Records records, Records::open(o));
  SLIP_TRY(const std::unique_ptr<Engine> engine,
           load_engine(o.model, o.dtype, o.threads, slots_for(flags, o.model), o.device, o.kv));
  SLIP_TRY(const Method method, method_from(flags, engine.get(), true));
  const EvalSettings settings{.method = method,
                              .temperature = static_cast<float>(o.temperature),
                              .seed = o.seed,
                              .context = {.cancel = CancelToken::of_process()},
                              .blank_images = o.blank_images,
                              .reuse_prompt = !o.no_reuse};
  std::optional<DraftLengthCollector> collector;
  if (!o.calibrate.empty()) {
    if (std::holds_alternative<NoDraftSpec>(method.drafter))
      return usage_error("eval: --calibrate: expected a decoder that drafts, got {} without drafts", method.preset);
    SLIP_TRY(const CompiledForm* form, engine->form("model"));
    collector.emplace(&form->form);
  }
  Evaluation sums;
  SLIP_TRY_(evaluate(*engine, records, o, settings, collector ? &*collector : nullptr, sums, files.lines));
  json::object result = sums.to_json();
  result["decoder"] = decoder_json(method);
  result["blank_images"] = o.blank_images;
  result["model"] = o.model;
  if (!o.json) print_text(evaluation_table(sums, &method));
  Status done = conclude(*engine, collector, method, o, result, files);
  return o.json ? print_result(std::move(result), std::move(done)) : done;
}

}  // namespace slip::cli
