// SPDX-License-Identifier: Apache-2.0
// See evaluate.h.
#include "eval/evaluate.h"

#include <cmath>

#include "base/check.h"
#include "plan/baselines.h"
#include "plan/feasibility.h"
#include "plan/metrics.h"

namespace slip {

namespace {

constexpr size_t kPoints = 20;  // 5 s at 4 Hz

double mean_distance(std::span<const Waypoint> a, std::span<const Waypoint> b, size_t n) {
  double sum = 0;
  for (size_t i = 0; i < n; ++i) sum += distance_m(a[i], b[i]);
  return sum / static_cast<double>(n);
}

const std::string* text_value(const CompiledForm& form, std::span<const FieldValue> values, std::string_view name) {
  for (size_t f = 0; f < values.size(); ++f)
    if (form.form.fields()[f].name == name) return std::get_if<std::string>(&values[f]);
  return nullptr;
}

void add_labels(const Answer& a, const sim::Labels& labels, Evaluation& sums) {
  const auto objects = objects_of(a.form->form, a.values);
  for (size_t c = 0; c < objects.size(); ++c)
    if (objects[c]) sums.objects[c].add(*objects[c], labels.critical[c]);
  const std::string* longitudinal = text_value(*a.form, a.values, "future_meta_behavior.longitudinal");
  const std::string* lateral = text_value(*a.form, a.values, "future_meta_behavior.lateral");
  sums.longitudinal_right += longitudinal && *longitudinal == words(labels.longitudinal);
  sums.lateral_right += lateral && *lateral == words(labels.lateral);
}

void add_plan(const Answer& a, const sim::Labels& labels, Evaluation& sums) {
  const std::vector<Waypoint> truth = truth_points(labels);
  const Waypoint v0{labels.history.back().vx, labels.history.back().vy};
  // An answer without a plan counts as standing still: leaving it out would reward not answering.
  const Trajectory plan = a.plan.fitted && a.plan.fitted->points.size() == kPoints ? *a.plan.fitted : stay();
  sums.infeasible += !kinematics_of(plan).feasible();
  for (Subset* s : {&sums.all, labels.pre_onset ? &sums.pre_onset : nullptr}) {
    if (!s) continue;
    s->model.add(plan.points, truth);
    s->constant_velocity.add(constant_velocity(v0).points, truth);
    s->standing.add(stay().points, truth);
  }
}

}  // namespace

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
  add_plan(answer, labels, sums);
  const Statistics& s = answer.decoded.statistics;
  sums.forwards += s.forwards;
  sums.tokens += s.tokens;
  sums.proposed += s.proposed;
  sums.tested += s.tested;
  sums.accepted += s.accepted;
  sums.decode_ms += s.ms.total;
  sums.total_ms += answer.stages.total_ms;
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

json::object Evaluation::to_json() const {
  json::object classes;
  bool above_prior = true;
  for (size_t c = 0; c < objects.size(); ++c) {
    const YesNoCounts& n = objects[c];
    classes[sim::kObjectClasses[c]] = {{"f1", n.f1()},
                                       {"precision", n.precision()},
                                       {"recall", n.recall()},
                                       {"prior", n.prior()},
                                       {"always_yes_f1", n.always_yes_f1()}};
    above_prior = above_prior && n.f1() > n.always_yes_f1();
  }
  return {{"records", records},
          {"valid", share(valid, records)},
          {"macro_f1", macro_f1(objects)},
          {"macro_always_yes_f1", macro_always_yes_f1(objects)},
          {"every_class_above_prior", above_prior},
          {"classes", std::move(classes)},
          {"longitudinal_accuracy", share(longitudinal_right, records)},
          {"lateral_accuracy", share(lateral_right, records)},
          {"all", subset_json(all)},
          {"pre_onset", subset_json(pre_onset)},
          {"infeasible", share(infeasible, records)},
          {"forwards_per_answer", share(forwards, records)},
          {"tokens_per_answer", share(tokens, records)},
          {"acceptance", share(accepted, tested)},
          {"decode_ms_per_answer", records ? decode_ms / static_cast<double>(records) : 0},
          {"total_ms_per_answer", records ? total_ms / static_cast<double>(records) : 0}};
}

namespace {

const json::value* at_path(const json::object& o, std::string_view path) {
  const size_t dot = path.find('.');
  const json::value* v = o.if_contains(path.substr(0, dot));
  if (!v || dot == std::string_view::npos) return v;
  return v->is_object() ? at_path(v->get_object(), path.substr(dot + 1)) : nullptr;
}

}  // namespace

Status check_limits(const json::object& result, const json::object& limits, std::string_view where) {
  std::string missed;
  for (const auto& [path, limit] : limits) {
    const json::value* v = at_path(result, path);
    if (!v || !(v->is_number() || v->is_bool()))
      return bad_input("{}: {}: expected the path of a number in the result, got another", where, std::string_view(path));
    if (!limit.is_object())
      return bad_input("{}: {}: expected {{\"min\": x}} or {{\"max\": x}}, got another type", where, std::string_view(path));
    const double got = v->is_bool() ? v->get_bool() : v->to_number<double>();
    for (const auto& [kind, bound] : limit.get_object()) {
      if ((kind != "min" && kind != "max") || !bound.is_number())
        return bad_input("{}: {}: expected min or max with a number, got {}", where, std::string_view(path),
                         std::string_view(kind));
      const double b = bound.to_number<double>();
      if (kind == "min" ? !(got >= b) : !(got <= b))
        missed += fmt::format("{}{}: expected {} {}, got {:.4g}", missed.empty() ? "" : "; ", std::string_view(path),
                              kind == "min" ? "at least" : "at most", b, got);
    }
  }
  if (missed.empty()) return {};
  return check_failed("eval: {}", missed);
}

std::string evaluation_table(const Evaluation& e) {
  std::string out = fmt::format("records {}   valid answers {:.1f} %   macro F1 {:.3f} (always yes {:.3f})\n\n", e.records,
                                100 * share(e.valid, e.records), macro_f1(e.objects), macro_always_yes_f1(e.objects));
  out += fmt::format("{:<22} {:>6} {:>9} {:>9} {:>7} {:>14}\n", "critical object", "F1", "precision", "recall", "prior",
                     "always-yes F1");
  for (size_t c = 0; c < e.objects.size(); ++c) {
    const YesNoCounts& n = e.objects[c];
    out += fmt::format("{:<22} {:>6.3f} {:>9.3f} {:>9.3f} {:>7.3f} {:>14.3f}\n", sim::kObjectClasses[c], n.f1(), n.precision(),
                       n.recall(), n.prior(), n.always_yes_f1());
  }
  out += fmt::format("\nbehaviour: longitudinal {:.1f} %, lateral {:.1f} % right\n\n", 100 * share(e.longitudinal_right, e.records),
                     100 * share(e.lateral_right, e.records));
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
