// SPDX-License-Identifier: Apache-2.0
// slipstream::evaluate: a decoder over a record set, or over held-out scenes simulated on the way.
#include "eval/evaluate.h"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <functional>

#include "api/boundary.h"
#include "api/choice.h"
#include "api/engines.h"
#include "api/request/requests.h"
#include "api/slots.h"
#include "api/tools/evaluation_lines.h"
#include "api/tools/inputs.h"
#include "api/tools/reports.h"
#include "base/json/flaws.h"
#include "decode/draft_length/collect.h"
#include "decode/draft_length/model_file.h"
#include "decode/pass/prefix_cache.h"
#include "decode/types/usual_preset.h"
#include "kernels/kernels.h"
#include "sim/record/make.h"
#include "sim/record/shards.h"
#include "sim/world.h"
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
      SLIP_TRY_(check_seeds(out.first_seed_, out.size_));
      return out;
    }
    SLIP_TRY(out.set_, sim::RecordSet::open(o.records));
    out.size_ = o.count > 0 ? std::min(o.count, out.set_->size()) : out.set_->size();
    return out;
  }
  int64_t size() const { return size_; }
  Result<uint64_t> seed(int64_t i) const {
    if (!set_) return first_seed_ + static_cast<uint64_t>(i);
    SLIP_TRY(const sim::Labels labels, set_->labels(i));
    return labels.seed;
  }
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

/// The time of a frame as its record has it: rounded to tenths of a second.
double frame_time(int frame, double every_s) {
  return static_cast<float>(sim::kDt * static_cast<double>(std::lround(frame * every_s / sim::kDt)));
}

/// What the evaluation goes by throughout.
struct Evaluating {
  const std::string& folder;
  const slipstream::EvaluateOptions& options;
  const slipstream::Progress& progress;
  const slipstream::CancelToken& cancel;
  Engine& engine;
};

/// All frames of all records, with no row kept from before: what a decoder counts does not go by who was evaluated first. With drafter `previous` a scene's first frame only makes the answer that the next one starts from.
Status evaluate_all(Evaluating& work, const Records& records, EvalSettings settings, DraftLengthCollector* collector,
                    Evaluation& sums, EvaluationLines& lines) {
  const slipstream::EvaluateOptions& o = work.options;
  Engine& engine = work.engine;
  const int frames = o.every_s > 0 ? o.frames : 1;
  const bool from_previous = std::holds_alternative<PreviousSpec>(settings.method.drafter);
  PrefixCache kept;
  if (settings.reuse_prompt) settings.context.prefix_cache = &kept;
  EvalSettings first = settings;
  if (from_previous) {
    SLIP_TRY(first.method, method_from({}, {}, &engine, true));
  }
  PreviousAnswer previous;
  for (int64_t i = o.shard; i < records.size(); i += o.shards) {
    for (int frame = 0; frame < frames; ++frame) {
      SLIP_TRY_(work.cancel.check("evaluate", i, "records"));
      SLIP_TRY(const uint64_t seed, records.seed(i));
      const LineKey key{settings.label, seed, frame_time(frame, o.every_s), o.records.empty() ? -1 : i};
      if (const RecordMeasures* known = from_previous ? nullptr : lines.known(key)) {
        sums.add(*known);
        continue;
      }
      SLIP_TRY(const sim::Record r, records.get(i, frame, o.every_s));
      const bool warm = from_previous && frame == 0;
      Evaluation aside;
      settings.context.previous = from_previous && !warm ? &previous : nullptr;  // another scene's answer is none of this one's
      settings.context.draft_length_observer = warm ? nullptr : collector;
      if (collector) collector->begin(i);
      SLIP_TRY(const Evaluated done, evaluate_record(engine, r.labels, r.images, warm ? first : settings, warm ? aside : sums));
      const Answer& answer = done.answer;
      if (collector && !warm) collector->answered(answer.decoded);
      previous = {answer.form->form.name(), answer.decoded.fields, answer.decoded.tokens};
      if (warm) continue;
      json::object line = record_line(done, lines.asked.of(settings.label));
      if (!o.records.empty()) line["record"] = i;
      line["bits"] = engine.options().device == "cpu" ? bits_of(isa_choice().isa) : std::string_view("cuda");
      SLIP_TRY_(lines.add(line));
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
  remarks += fmt::format("calibration: {} drafts tested, expected calibration error {:.3f} on {} held out\n", found.tested,
                         found.ece, found.held_out);
  DraftLengthModel w = model_of(std::move(found), std::move(cost), &form->form, method);
  std::error_code ec;
  w.model = to_valid_utf8(std::filesystem::weakly_canonical(work.folder, ec).filename().string());
  w.drafter = to_valid_utf8(std::move(w.drafter));
  w.machine = isa_choice().reason;
  w.visible = 512;
  return write_draft_length_model(w, work.options.calibrate);
}

Status check_kept(const slipstream::EvaluateOptions& o, const slipstream::DecoderChoice& decoder) {
  FilesByOption inputs = files_of_choice(decoder);
  inputs.insert(inputs.end(), {{"--require", o.require}, {"--records", o.records}, {"--trajectory-head", o.trajectory_head}});
  return check_inputs_kept(inputs, {{"--out", o.out}, {"--csv", o.csv}, {"--calibrate", o.calibrate}});
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
  const bool draws = o.temperature > 0 || std::ranges::any_of(o.section_temperatures, [](const auto& s) { return s.second > 0; });
  if (o.rollouts > 1 && !draws)
    return usage_error(
        "eval: --rollouts: expected --temperature or --section-temperature beside it, got none: greedy answers are all the same");
  if (o.resume && o.out.empty()) return usage_error("eval: --resume: expected --out beside it, got none");
  SLIP_TRY_(check_outputs({{"--out", o.out}, {"--csv", o.csv}, {"--calibrate", o.calibrate}}));
  SLIP_TRY_(check_kept(o, decoder));
  if (o.resume && o.decoder.drafter == "previous")
    return usage_error("eval: --resume: expected answers that do not go by the frame before, got --drafter previous");
  if (!o.calibrate.empty() && (o.resume || o.shards > 1))
    return usage_error("eval: --calibrate: expected one run over all records, got {}: lines do not keep how drafts held",
                       o.resume ? "--resume" : "--shard");
  if (!o.records.empty())
    for (const std::string* file : {&o.out, &o.csv, &o.calibrate}) SLIP_TRY_(check_not_in_set(*file, o.records));
  if (!o.decoders.empty() && !o.calibrate.empty()) return usage_error("eval: --calibrate: expected one decoder, got --decoders");
  if (o.shards < 1 || o.shard < 0 || o.shard >= o.shards)
    return usage_error("eval: --shard: expected I/N with I from 0 to N - 1, got {}/{}", o.shard, o.shards);
  for (size_t i = 0; i < o.decoders.size(); ++i)
    if (std::find(o.decoders.begin(), o.decoders.begin() + static_cast<std::ptrdiff_t>(i), o.decoders[i]) !=
        o.decoders.begin() + static_cast<std::ptrdiff_t>(i))
      return usage_error("eval: --decoders: expected each once, got {} twice", o.decoders[i]);
  for (const std::string& preset : o.decoders) {
    slipstream::DecoderChoice one;
    one.preset = preset;
    SLIP_TRY_(check_words(one));
  }
  return check_words(decoder);
}

/// What the options name beside the records. Hours of evaluation may lie between opening and use: what is wrong is said before.
struct Files {
  json::object limits;
  EvaluationLines lines;
};

Result<Files> open_files(const slipstream::EvaluateOptions& o, AskedOfAll asked) {
  Files files;
  files.lines.asked = std::move(asked);
  if (!o.require.empty()) {
    SLIP_TRY(json::value limits, read_written_json(o.require));
    SLIP_TRY_(check_limit_shapes(limits, o.require));
    SLIP_TRY_(check_limit_names(limits.get_object(), !o.decoders.empty(), o.require));
    files.limits = std::move(limits.get_object());
  }
  if (!o.out.empty()) SLIP_TRY_(o.resume ? files.lines.resume(o.out) : files.lines.open(o.out));
  for (const std::string* later : {&o.calibrate, &o.csv}) SLIP_TRY_(check_writable(*later));
  return files;
}

/// What is left to do once the numbers are there; the first that fails is the error. A limit that is missed comes last: the files say by how much.
Status conclude(Evaluating& work, const std::optional<DraftLengthCollector>& collector, const Method& method,
                const json::object& result, const Evaluations& sums, Files& files, std::string& remarks) {
  SLIP_TRY_(files.lines.commit());
  if (collector) SLIP_TRY_(write_calibration(work, *collector, method, remarks));
  if (!work.options.csv.empty()) SLIP_TRY_(write_file(work.options.csv, comparison_csv(sums)));
  return check_limits(result, files.limits, work.options.require);
}

EvalSettings settings_of(const Evaluating& work, const Method& method) {
  const slipstream::EvaluateOptions& o = work.options;
  EvalSettings out{.method = method,
                   .label = method.preset + head_words(o.trajectory_head),
                   .rollouts = o.rollouts,
                   .temperature = static_cast<float>(o.temperature),
                   .seed = o.seed,
                   .context = {.cancel = work.cancel},
                   .blank_images = o.blank_images,
                   .reuse_prompt = o.reuse_prompt && !o.resume && o.shards == 1,  // rows do not depend on who asked before
                   .trajectory_head = o.trajectory_head};
  for (const auto& [section, temperature] : o.section_temperatures)
    out.section_temperatures.emplace_back(section, static_cast<float>(temperature));
  return out;
}

/// All decoders over the same records.
Result<slipstream::Report> compare(Evaluating& work, const Records& records, Files& files) {
  const slipstream::EvaluateOptions& o = work.options;
  Evaluations all;
  for (const std::string& preset : o.decoders) {
    slipstream::DecoderChoice choice;
    choice.preset = preset;
    SLIP_TRY(const Method method, method_from(choice, {}, &work.engine, true));
    all.emplace_back(preset, Evaluation{});
    SLIP_TRY_(evaluate_all(work, records, settings_of(work, method), nullptr, all.back().second, files.lines));
  }
  slipstream::Report out = comparison(all, {{"model", work.folder}, {"blank_images", o.blank_images}, {"rollouts", o.rollouts}});
  out.outcome = files.lines.commit();
  if (out.outcome && !o.csv.empty()) out.outcome = write_file(o.csv, comparison_csv(all));
  if (out.outcome) {
    SLIP_TRY(const json::value result, parse_json(out.json, "result"));
    out.outcome = check_limits(result.get_object(), files.limits, o.require);
  }
  return out;
}

Result<slipstream::Report> report(Evaluating& work, const slipstream::DecoderChoice& decoder, const Records& records,
                                  Files& files) {
  const slipstream::EvaluateOptions& o = work.options;
  if (!o.decoders.empty()) return compare(work, records, files);
  SLIP_TRY(const Method method, method_from(decoder, {}, &work.engine, true));
  const EvalSettings settings = settings_of(work, method);
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
  Status done = conclude(work, collector, method, result, {{settings.label, sums}}, files, remarks);
  slipstream::Report out = report_of(result, evaluation_table(sums, &method), std::move(done));
  out.remarks = std::move(remarks);
  return out;
}

/// Room for every decoder's answer, and for the answers of all rollouts.
int slots_of(const slipstream::EvaluateOptions& o, const slipstream::DecoderChoice& decoder, const std::string& folder) {
  int most = slots_for(decoder, folder);
  for (const std::string& preset : o.decoders) {
    slipstream::DecoderChoice one;
    one.preset = preset;
    most = std::max(most, slots_for(one, folder));
  }
  constexpr int kAnswer = 1024;  // an answer's rows with drafts, of the driving forms
  return std::min(kMostSlots, most + (o.rollouts - 1) * kAnswer);
}

Result<slipstream::Report> evaluate(const std::string& folder, const slipstream::EngineOptions& how,
                                    const slipstream::EvaluateOptions& o, const slipstream::Progress& progress,
                                    const slipstream::CancelToken& cancel) {
  slipstream::DecoderChoice decoder = o.decoder;
  if (decoder.drafter == "previous") decoder.drafter = "previous:frame before";
  const bool any = decoder.preset.empty() && decoder.drafter.empty() && decoder.schedule.empty() && decoder.width.empty();
  if (!o.calibrate.empty() && any)  // what is calibrated is how drafts hold, with windows that see the most
    decoder.preset = usual_preset(true, visibility_of_folder(folder) == Visibility::kGraph, true);
  SLIP_TRY_(check_options(o, decoder));
  AskedOfAll asked = AskedOfAll::of(o, how, folder);
  for (const std::string& preset : o.decoders) asked.choice_of[preset + head_words(o.trajectory_head)] = preset;
  if (o.decoders.empty()) {
    SLIP_TRY(const Method method, method_from(decoder, visibility_of_folder(folder), nullptr, true));
    asked.choice_of[method.preset + head_words(o.trajectory_head)] = choice_line(decoder);
  }
  SLIP_TRY(Files files, open_files(o, std::move(asked)));
  SLIP_TRY(const Records records, Records::open(o));
  if (o.shard >= records.size())
    return usage_error("eval: --shard: expected a shard that has a record, of {} records, got {}/{}", records.size(), o.shard,
                       o.shards);
  const EngineOptions options{.dtype = how.dtype,
                              .threads = how.threads,
                              .slots = how.slots > 0 ? how.slots : slots_of(o, decoder, folder),
                              .device = how.device,
                              .kv_type = how.kv_type};
  SLIP_TRY(const std::unique_ptr<Engine> engine, Engine::load(folder, options, load_progress(progress, cancel)));
  Evaluating work{folder, o, progress, cancel, *engine};
  auto out = report(work, decoder, records, files);
  const bool lost = !o.out.empty() && !o.resume && !out && out.error().kind == ErrorKind::kCancelled;
  if (lost)
    return Error{ErrorKind::kCancelled,
                 out.error().message + "; the answers so far are not kept (a run begun with --resume keeps them)"};
  return out;
}

}  // namespace

}  // namespace slip::api

namespace slipstream {

std::vector<std::string> evaluation_measures() { return slip::measure_names(); }

Result<Report> evaluate(const std::string& folder, const EngineOptions& engine, const EvaluateOptions& options,
                        const Progress& progress, const CancelToken& cancel) {
  return slip::api::bounded([&] { return slip::api::evaluate(folder, engine, options, progress, cancel); });
}

}  // namespace slipstream
