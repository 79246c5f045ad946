// SPDX-License-Identifier: Apache-2.0
// `eval`: a decoder over a record set, or over held-out scenes simulated on the way.
#include "base/file.h"
#include "base/interrupt.h"
#include "base/progress.h"
#include "cli/output.h"
#include "cli/requests.h"
#include "decode/width_collect.h"
#include "eval/evaluate.h"

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

/// All frames of all records. With drafter `previous` a scene's first frame only makes the answer that the next one starts from.
Status evaluate(Engine& engine, const Records& records, const EvalOptions& o, EvalSettings settings, WidthCollector* collector,
                Evaluation& sums, std::string& lines) {
  const int frames = o.every_s > 0 ? o.frames : 1;
  const bool from_previous = std::holds_alternative<PreviousDrafter>(settings.method.drafter);
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
      settings.previous = warm ? nullptr : &previous;
      settings.width_observer = warm ? nullptr : collector;
      if (collector) collector->begin(i);
      SLIP_TRY(const Answer answer, evaluate_record(engine, r.labels, r.images, warm ? first : settings, warm ? aside : sums));
      if (collector && !warm) collector->answered(answer.decoded);
      previous = {answer.form->form.name(), answer.decoded.fields, answer.decoded.tokens};
      if (!o.out.empty() && !warm) lines += json::serialize(record_line(r.labels, answer)) + "\n";
    }
    progress.update(i + 1);
  }
  progress.finish();
  return {};
}

Status write_calibration(Engine& engine, const WidthCollector& collector, const Method& method, const EvalOptions& o) {
  SLIP_TRY(Calibration found, collector.finish());
  SLIP_TRY(const CompiledForm* form, engine.form("model"));
  SLIP_TRY(CostTable cost, measure_costs(engine.model().lm(), {.visible = 512}));
  WidthModel w = WidthModel::uninformed(std::move(cost), &form->form);
  w.model = std::filesystem::path(o.model).filename().string();
  w.drafter = words_of(method).drafter;
  w.machine = isa_choice().reason;
  w.visible = 512;
  w.survival = std::move(found.survival);
  w.lengths = std::move(found.lengths);
  w.ece = found.ece;
  w.most_draws = method.width.kind == Width::Kind::kFixed ? method.width.tokens : 32;
  fmt::print(stderr, "calibration: {} drafts tested, expected calibration error {:.3f} on {} held out\n", found.tested, found.ece,
             found.held_out);
  return write_width_model(w, o.calibrate);
}

}  // namespace

Status eval(const EvalOptions& o) {
  if (o.drafter.starts_with("previous:"))
    return usage_error("eval: --drafter: expected previous without more (each scene's own earlier frame), got {}", o.drafter);
  const bool previous = o.drafter == "previous";
  if (previous && (!o.records.empty() || o.every_s <= 0))
    return usage_error("eval: --drafter previous: expected simulated scenes and --every, got a set or no interval");
  if (o.every_s > 0 && !o.records.empty()) return usage_error("eval: --every: expected simulated scenes, got a record set");
  if (o.every_s * (o.frames - 1) > sim::kMostFrameS)
    return usage_error("eval: --every: expected the last frame within {} s, got {}", sim::kMostFrameS, o.every_s * (o.frames - 1));
  const MethodFlags flags{o.decoder, o.schedule, previous ? "previous:frame before" : std::string_view(o.drafter), o.verifier,
                          o.width};
  SLIP_TRY_(check_words(flags));
  json::value limits;
  if (!o.require.empty()) {
    SLIP_TRY(limits, read_json(o.require));
    if (!limits.is_object()) return bad_input("{}: expected an object, got another type", o.require);
  }
  SLIP_TRY(const Records records, Records::open(o));
  SLIP_TRY(const std::unique_ptr<Engine> engine, load_engine(o.model, o.dtype, o.threads, kDefaultSlots, o.device, o.kv));
  SLIP_TRY(const Method method, method_from(flags, engine.get(), true));
  Evaluation sums;
  std::string lines;
  const EvalSettings settings{.method = method,
                              .temperature = static_cast<float>(o.temperature),
                              .seed = o.seed,
                              .blank_images = o.blank_images,
                              .reuse_prompt = !o.no_reuse};
  std::optional<WidthCollector> collector;
  if (!o.calibrate.empty()) {
    SLIP_TRY(const CompiledForm* form, engine->form("model"));
    collector.emplace(&form->form);
  }
  SLIP_TRY_(evaluate(*engine, records, o, settings, collector ? &*collector : nullptr, sums, lines));
  if (collector) SLIP_TRY_(write_calibration(*engine, *collector, method, o));
  if (!o.out.empty()) SLIP_TRY_(write_file(o.out, lines));
  json::object result = sums.to_json();
  result["decoder"] = decoder_json(method);
  result["blank_images"] = o.blank_images;
  result["model"] = o.model;
  if (o.json) {
    print_json(result);
  } else {
    print_text(evaluation_table(sums, &method));
  }
  if (!o.require.empty()) return check_limits(result, limits.get_object(), o.require);
  return {};
}

}  // namespace slip::cli
