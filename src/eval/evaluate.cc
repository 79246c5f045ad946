// SPDX-License-Identifier: Apache-2.0
// See evaluate.h.
#include "eval/evaluate.h"

#include <algorithm>
#include <cmath>

#include "base/check.h"
#include "plan/baselines.h"
#include "plan/feasibility.h"
#include "plan/metrics.h"
#include "sim/cot.h"

namespace slip {

namespace {

constexpr size_t kPoints = 20;  // 5 s at 4 Hz

double mean_distance(std::span<const Waypoint> a, std::span<const Waypoint> b, size_t n) {
  double sum = 0;
  for (size_t i = 0; i < n; ++i) sum += distance_m(a[i], b[i]);
  return sum / static_cast<double>(n);
}

const std::string* text_value(const Answer& a, size_t f) {
  return f < a.values.size() ? std::get_if<std::string>(&a.values[f]) : nullptr;
}

void add_labels(const Answer& a, const sim::Labels& labels, Evaluation& sums) {
  const auto objects = objects_of(a.form->form, a.values);
  const bool know_objects = (labels.unknown & sim::kUnknownObjects) == 0;
  for (size_t c = 0; c < objects.size(); ++c)
    if (objects[c] && know_objects) sums.objects[c].add(*objects[c], labels.critical[c]);
  if ((labels.unknown & sim::kUnknownBehaviour) != 0) return;
  ++sums.judged;
  for (size_t f = 0; f < a.form->form.fields().size(); ++f) {
    const std::string_view name = a.form->form.fields()[f].name;
    const std::string_view truth = behaviour_truth(labels, name);
    if (truth.empty()) continue;
    const std::string* said = text_value(a, f);
    (name.ends_with(".lateral") ? sums.lateral_right : sums.longitudinal_right) += said && *said == truth;
  }
}

/// Texts that the scene has a truth for: the fields of drive-cot.
Status add_texts(const Answer& a, const sim::Labels& labels, const Tokenizer& tokenizer, Evaluation& sums) {
  const auto fields = a.form->form.fields();
  const sim::CotLabels names;
  if (std::none_of(fields.begin(), fields.end(), [&](const Field& f) { return names.find(f.name) != nullptr; })) return {};
  SLIP_TRY(const std::vector<FieldValue> truth, truth_values(labels, *a.form, tokenizer));
  for (size_t f = 0; f < fields.size(); ++f) {
    if (!names.find(fields[f].name)) continue;
    const auto known = [&](const auto& t) { return t.first == fields[f].name; };
    auto at = std::find_if(sums.texts.begin(), sums.texts.end(), known);
    if (at == sums.texts.end()) at = sums.texts.insert(at, {fields[f].name, {}});
    at->second.add(text_value(a, f), std::get<std::string>(truth[f]));
  }
  return {};
}

/// Numbers in bins are an action for the next moment, no plan whose displacement could be told.
bool answers_with_action(const Answer& a) {
  return std::any_of(a.form->meanings.begin(), a.form->meanings.end(),
                     [](const FieldMeaning& m) { return std::holds_alternative<BinsMeaning>(m); });
}

void add_plan(const Answer& a, const sim::Labels& labels, Evaluation& sums) {
  if (answers_with_action(a)) return;
  const std::vector<Waypoint> truth = truth_points(labels);
  const Waypoint v0{labels.history.back().vx, labels.history.back().vy};
  // An answer without a plan counts as standing still: leaving it out would reward not answering.
  const Trajectory plan = a.plan.fitted && a.plan.fitted->points.size() == kPoints ? *a.plan.fitted : stay();
  sums.infeasible += !kinematics_of(plan).feasible();
  if ((labels.unknown & sim::kUnknownFuture) != 0) return;
  for (Subset* s : {&sums.all, labels.pre_onset ? &sums.pre_onset : nullptr}) {
    if (!s) continue;
    s->model.add(plan.points, truth);
    s->constant_velocity.add(constant_velocity(v0).points, truth);
    s->standing.add(stay().points, truth);
  }
}

}  // namespace

void TextAgreement::add(const std::string* answer, const std::string& truth) {
  ++count_;
  equal_ += answer && *answer == truth;
  ++truths_[truth];
}

double TextAgreement::agreement() const { return count_ ? static_cast<double>(equal_) / static_cast<double>(count_) : 0; }

double TextAgreement::prior() const {
  int64_t most = 0;
  for (const auto& [text, n] : truths_) most = std::max(most, n);
  return count_ ? static_cast<double>(most) / static_cast<double>(count_) : 0;
}

namespace {
double mean_over_texts(const Evaluation& e, double (TextAgreement::*of)() const) {
  double sum = 0;
  for (const auto& [name, t] : e.texts) sum += (t.*of)();
  return e.texts.empty() ? 0 : sum / static_cast<double>(e.texts.size());
}
}  // namespace

double Evaluation::text_agreement() const { return mean_over_texts(*this, &TextAgreement::agreement); }
double Evaluation::text_prior() const { return mean_over_texts(*this, &TextAgreement::prior); }

void DisplacementSums::add(std::span<const Waypoint> prediction, std::span<const Waypoint> truth) {
  ade_3s_ += mean_distance(prediction, truth, 12);
  ade_5s_ += mean_distance(prediction, truth, kPoints);
  fde_5s_ += distance_m(prediction[kPoints - 1], truth[kPoints - 1]);
  ++count_;
}

json::object DisplacementSums::to_json() const { return {{"ade_3s", ade_3s()}, {"ade_5s", ade_5s()}, {"fde_5s", fde_5s()}}; }

std::vector<Waypoint> truth_points(const sim::Labels& labels) {
  std::vector<Waypoint> out;
  for (size_t i = 1; i <= kPoints; ++i) {
    const sim::Vec2 p = sim::future_at(labels, static_cast<double>(i) / 4);
    out.push_back({p.x, p.y});
  }
  return out;
}

Request request_of(const sim::Labels& labels, std::span<const uint8_t> images, const EvalSettings& settings) {
  Request r;
  r.ego = ego_of(labels);
  r.images = camera_images(images, settings.blank_images);
  r.method = settings.method;
  r.decode.temperature = settings.temperature;
  r.decode.seed = settings.seed;
  r.context = settings.context;
  r.reuse_prompt = settings.reuse_prompt;
  return r;
}

Result<Answer> evaluate_record(Engine& engine, const sim::Labels& labels, std::span<const uint8_t> images,
                               const EvalSettings& settings, Evaluation& sums) {
  if (images.size() != sim::kCameras * sim::kImageBytes)
    return bad_input("record of seed {}: expected {} bytes of pictures, got {}", labels.seed, sim::kCameras * sim::kImageBytes,
                     images.size());
  SLIP_TRY(Answer answer, engine.run(request_of(labels, images, settings)));
  ++sums.records;
  sums.valid += answer.decoded.valid;
  add_labels(answer, labels, sums);
  SLIP_TRY_(add_texts(answer, labels, *engine.model().tokenizer(), sums));
  add_plan(answer, labels, sums);
  const Statistics& s = answer.decoded.statistics;
  sums.forwards += s.forwards;
  sums.tokens += s.tokens;
  sums.proposed += s.proposed;
  sums.tested += s.tested;
  sums.accepted += s.accepted;
  sums.decode_ms += s.ms.total;
  sums.encode_ms += answer.stages.encode_ms;
  sums.prefill_ms += s.ms.prefill;
  sums.draft_ms += s.ms.draft;
  sums.verify_ms += s.ms.verify;
  sums.total_ms += answer.stages.total_ms;
  if (!answer.chosen.name.empty()) ++sums.chosen[answer.chosen.name];
  return answer;
}

namespace {

json::object subset_json(const Subset& s) {
  const double cv = s.constant_velocity.ade_5s();
  return {{"records", s.model.count()},
          {"model", s.model.to_json()},
          {"constant_velocity", s.constant_velocity.to_json()},
          {"standing", s.standing.to_json()},
          {"ade_5s_below_constant_velocity", cv > 0 ? 1 - s.model.ade_5s() / cv : 0.0}};
}

double share(int64_t part, int64_t whole) { return whole ? static_cast<double>(part) / static_cast<double>(whole) : 0; }

}  // namespace

namespace {

bool has_objects(const Evaluation& e) {
  return std::any_of(e.objects.begin(), e.objects.end(), [](const YesNoCounts& n) { return n.total() > 0; });
}

void put_objects(const Evaluation& e, json::object& out) {
  json::object classes;
  bool above_prior = true;
  for (size_t c = 0; c < e.objects.size(); ++c) {
    const YesNoCounts& n = e.objects[c];
    classes[sim::kObjectClasses[c]] = {{"f1", n.f1()},
                                       {"precision", n.precision()},
                                       {"recall", n.recall()},
                                       {"prior", n.prior()},
                                       {"always_yes_f1", n.always_yes_f1()}};
    above_prior = above_prior && n.f1() > n.always_yes_f1();
  }
  out["macro_f1"] = macro_f1(e.objects);
  out["macro_always_yes_f1"] = macro_always_yes_f1(e.objects);
  out["every_class_above_prior"] = above_prior;
  out["classes"] = std::move(classes);
}

void put_texts(const Evaluation& e, json::object& out) {
  json::object fields;
  for (const auto& [name, t] : e.texts) fields[name] = {{"agreement", t.agreement()}, {"prior", t.prior()}};
  out["text_agreement"] = e.text_agreement();
  out["text_prior"] = e.text_prior();
  out["texts"] = std::move(fields);
}

}  // namespace

json::object Evaluation::to_json() const {
  json::object out{{"records", records}, {"valid", share(valid, records)}};
  if (!chosen.empty()) out["chosen"] = json::value_from(chosen);
  if (has_objects(*this) || texts.empty()) put_objects(*this, out);
  if (!texts.empty()) put_texts(*this, out);
  const auto per_record = [&](double ms) { return records ? ms / static_cast<double>(records) : 0.0; };
  const json::object rest{{"longitudinal_accuracy", share(longitudinal_right, judged)},
                          {"lateral_accuracy", share(lateral_right, judged)},
                          {"all", subset_json(all)},
                          {"pre_onset", subset_json(pre_onset)},
                          {"infeasible", share(infeasible, records)},
                          {"forwards_per_answer", share(forwards, records)},
                          {"tokens_per_answer", share(tokens, records)},
                          {"acceptance", share(accepted, tested)},
                          {"decode_ms_per_answer", per_record(decode_ms)},
                          {"total_ms_per_answer", per_record(total_ms)},
                          {"stage_ms_per_answer",
                           {{"encode", per_record(encode_ms)},
                            {"prefill", per_record(prefill_ms)},
                            {"draft", per_record(draft_ms)},
                            {"verify", per_record(verify_ms)}}}};
  out.insert(rest.begin(), rest.end());
  return out;
}

namespace {

const json::value* at_path(const json::object& o, std::string_view path) {
  if (const json::value* v = o.if_contains(path)) return v;
  // Names of fields have dots themselves: every dot may be the one.
  for (size_t dot = path.find('.'); dot != std::string_view::npos; dot = path.find('.', dot + 1)) {
    const json::value* v = o.if_contains(path.substr(0, dot));
    const json::value* found = v && v->is_object() ? at_path(v->get_object(), path.substr(dot + 1)) : nullptr;
    if (found) return found;
  }
  return nullptr;
}

}  // namespace

Status check_limit_shapes(const json::value& limits, std::string_view where) {
  if (!limits.is_object()) return bad_input("{}: expected an object, got another type", where);
  for (const auto& [path, limit] : limits.get_object()) {
    const std::string_view name(path);
    if (!limit.is_object() || limit.get_object().empty())
      return bad_input("{}: {}: expected {{\"min\": x}} or {{\"max\": x}}, got {}", where, name,
                       limit.is_object() ? "neither" : "another type");
    for (const auto& [kind, bound] : limit.get_object())
      if ((kind != "min" && kind != "max") || !bound.is_number())
        return bad_input("{}: {}: expected min or max with a number, got {}", where, name, std::string_view(kind));
  }
  return {};
}

Status check_limits(const json::object& result, const json::object& limits, std::string_view where) {
  SLIP_TRY_(check_limit_shapes(limits, where));
  std::string missed;
  for (const auto& [path, limit] : limits) {
    const json::value* v = at_path(result, path);
    if (!v || !(v->is_number() || v->is_bool()))
      return bad_input("{}: {}: expected the path of a number in the result, got another", where, std::string_view(path));
    const double got = v->is_bool() ? v->get_bool() : v->to_number<double>();
    for (const auto& [kind, bound] : limit.get_object()) {
      const double b = bound.to_number<double>();
      if (kind == "min" ? !(got >= b) : !(got <= b))
        missed += fmt::format("{}{}: expected {} {}, got {:.4g}", missed.empty() ? "" : "; ", std::string_view(path),
                              kind == "min" ? "at least" : "at most", b, got);
    }
  }
  if (missed.empty()) return {};
  return check_failed("eval: {}", missed);
}

namespace {

// "decoder auto (took fields 3, fields-spec --width measured 1)".
std::string automatic_line(const Evaluation& e) {
  std::string took;
  for (const auto& [name, answers] : e.chosen) took += fmt::format("{}{} {}", took.empty() ? "" : ", ", name, answers);
  return fmt::format("decoder auto (took {})\n", took);
}

std::string decoder_line(const Method& m) {
  const MethodWords w = words_of(m);
  return fmt::format("decoder {} ({} x {} x {}, width {}){}\n", m.preset, w.schedule, w.drafter, w.verifier, w.width,
                     m.lossy() ? " (lossy)" : "");
}

std::string objects_table(const Evaluation& e) {
  std::string out = fmt::format("{:<22} {:>6} {:>9} {:>9} {:>7} {:>14}\n", "critical object", "F1", "precision", "recall", "prior",
                                "always-yes F1");
  for (size_t c = 0; c < e.objects.size(); ++c) {
    const YesNoCounts& n = e.objects[c];
    out += fmt::format("{:<22} {:>6.3f} {:>9.3f} {:>9.3f} {:>7.3f} {:>14.3f}\n", sim::kObjectClasses[c], n.f1(), n.precision(),
                       n.recall(), n.prior(), n.always_yes_f1());
  }
  return out;
}

std::string texts_table(const Evaluation& e) {
  std::string out = fmt::format("{:<26} {:>9} {:>7}\n", "text equals the truth", "agreement", "prior");
  const auto line = [&](std::string_view name, double agreement, double prior) {
    out += fmt::format("{:<26} {:>9.3f} {:>7.3f}\n", name, agreement, prior);
  };
  for (const auto& [name, t] : e.texts) line(name, t.agreement(), t.prior());
  line("mean", e.text_agreement(), e.text_prior());
  return out;
}

}  // namespace

std::string evaluation_table(const Evaluation& e, const Method* method) {
  const bool objects = has_objects(e) || e.texts.empty();
  std::string out = method ? method->automatic ? automatic_line(e) : decoder_line(*method) : "";
  out += fmt::format("records {}   valid answers {:.1f} %", e.records, 100 * share(e.valid, e.records));
  if (objects) out += fmt::format("   macro F1 {:.3f} (always yes {:.3f})", macro_f1(e.objects), macro_always_yes_f1(e.objects));
  out += "\n\n";
  if (objects) out += objects_table(e);
  if (objects && !e.texts.empty()) out += "\n";
  if (!e.texts.empty()) out += texts_table(e);
  out += fmt::format("\nbehaviour: longitudinal {:.1f} %, lateral {:.1f} % right\n\n", 100 * share(e.longitudinal_right, e.judged),
                     100 * share(e.lateral_right, e.judged));
  out += fmt::format("{:<34} {:>8} {:>8} {:>8}   (metres, against the expert's future)\n", "plan", "ADE@3s", "ADE@5s", "FDE@5s");
  for (const auto& [name, s] :
       {std::pair<std::string, const Subset*>{"all", &e.all}, {"manoeuvre starts after t0", &e.pre_onset}}) {
    const auto line = [&](std::string_view who, const DisplacementSums& d) {
      out +=
          fmt::format("{:<34} {:>8.3f} {:>8.3f} {:>8.3f}\n", fmt::format("{}: {}", name, who), d.ade_3s(), d.ade_5s(), d.fde_5s());
    };
    line(fmt::format("model ({})", s->model.count()), s->model);
    line("constant velocity", s->constant_velocity);
    line("standing still", s->standing);
  }
  out += fmt::format(
      "\nforward passes per answer {:.1f}, tokens {:.1f}, accepted/tested {:.3f}, {:.1f} ms per answer ({:.1f} ms decoding)\n",
      share(e.forwards, e.records), share(e.tokens, e.records), share(e.accepted, e.tested),
      e.total_ms / static_cast<double>(std::max<int64_t>(e.records, 1)),
      e.decode_ms / static_cast<double>(std::max<int64_t>(e.records, 1)));
  return out;
}

}  // namespace slip
