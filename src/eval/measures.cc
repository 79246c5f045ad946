// SPDX-License-Identifier: Apache-2.0
// See measures.h.
#include "eval/measures.h"

#include <algorithm>
#include <cmath>

#include "plan/baselines.h"
#include "plan/feasibility.h"
#include "plan/meta_actions.h"
#include "plan/misses.h"
#include "plan/rollouts.h"
#include "sim/cot.h"
#include "task/action.h"
#include "task/wod.h"

namespace slip {

namespace {

constexpr size_t kPoints = 20, kThree = 12;  // 5 s and 3 s at 4 Hz
constexpr size_t kFarPoints = 25;            // the last point at 4 Hz within 6.4 s

/// What is measured of a plan; nothing of one that ends before. A path of codes goes on to 6.4 s.
std::optional<Trajectory> first_5s(const Trajectory& t) {
  if (t.points.size() < kPoints) return std::nullopt;
  return Trajectory{t.rate_hz, {t.points.begin(), t.points.begin() + kPoints}};
}

double mean_distance(std::span<const Waypoint> a, std::span<const Waypoint> b, size_t n) {
  double sum = 0;
  for (size_t i = 0; i < n; ++i) sum += distance_m(a[i], b[i]);
  return sum / static_cast<double>(n);
}

const std::string* text_value(const Answer& a, size_t f) {
  return f < a.values.size() ? std::get_if<std::string>(&a.values[f]) : nullptr;
}

void measure_labels(const Answer& a, const sim::Labels& labels, RecordMeasures& out) {
  const auto objects = objects_of(a.form->form, a.values);
  const bool know_objects = (labels.unknown & sim::kUnknownObjects) == 0;
  for (size_t c = 0; c < objects.size(); ++c)
    if (objects[c] && know_objects) out.objects[c] = {*objects[c], labels.critical[c]};
  out.judged = (labels.unknown & sim::kUnknownBehaviour) == 0;
  if (!out.judged) return;
  for (size_t f = 0; f < a.form->form.fields().size(); ++f) {
    const std::string_view name = a.form->form.fields()[f].name;
    const std::string_view truth = behaviour_truth(labels, name);
    if (truth.empty()) continue;
    const std::string* said = text_value(a, f);
    (name.ends_with(".lateral") ? out.lateral_right : out.longitudinal_right) |= said && *said == truth;
  }
}

/// Texts that the scene has a truth for: the fields of drive-cot.
Status measure_texts(const Answer& a, const sim::Labels& labels, const Tokenizer& tokenizer, RecordMeasures& out) {
  const auto fields = a.form->form.fields();
  const sim::CotLabels names;
  if (std::none_of(fields.begin(), fields.end(), [&](const Field& f) { return names.find(f.name) != nullptr; })) return {};
  SLIP_TRY(const std::vector<FieldValue> truth, truth_values(labels, *a.form, tokenizer));
  for (size_t f = 0; f < fields.size(); ++f) {
    if (!names.find(fields[f].name)) continue;
    const auto* want = std::get_if<std::string>(&truth[f]);  // none: absent
    const std::string* said = text_value(a, f);
    out.texts.push_back({fields[f].name, want ? said && *said == *want : !said, std::string(want ? *want : sim::kCotNone)});
  }
  return {};
}

/// Numbers in bins are an action for the next moment, no plan whose displacement could be told.
const BinsMeaning* bins_of(const Answer& a, size_t* field) {
  for (size_t f = 0; f < a.form->meanings.size(); ++f)
    if (const auto* bins = std::get_if<BinsMeaning>(&a.form->meanings[f])) return *field = f, bins;
  return nullptr;
}

void measure_displacement(const std::string& prefix, const Trajectory& plan, std::span<const Waypoint> truth, RecordMeasures& out) {
  out.set(prefix + "ade_3s", mean_distance(plan.points, truth, kThree));
  out.set(prefix + "ade_5s", mean_distance(plan.points, truth, kPoints));
  out.set(prefix + "fde_5s", distance_m(plan.points[kPoints - 1], truth[kPoints - 1]));
}

void measure_nuscenes(const Trajectory& plan, std::span<const Waypoint> truth, RecordMeasures& out) {
  NuscenesL2::Six p, t;
  for (size_t i = 0; i < 6; ++i) p[i] = plan.points[2 * i + 1], t[i] = truth[2 * i + 1];
  NuscenesL2 l2;
  const NuscenesL2::Row row = l2.add(p, t, {true, true, true, true, true, true});
  for (size_t k = 0; k < 3; ++k) {
    out.set(fmt::format("nuscenes_uniad_{}s", k + 1), row.uniad[k]);
    out.set(fmt::format("nuscenes_stp3_{}s", k + 1), (*row.stp3)[k]);
  }
}

void measure_misses(std::span<const std::vector<Waypoint>> plans, std::span<const Waypoint> truth, double v0, RecordMeasures& out) {
  const Misses m = misses_of(plans, truth, headings_of(truth), v0, 4);
  out.set("miss_argoverse", m.argoverse);
  out.set("miss_nuscenes", m.nuscenes);
  for (size_t h = 0; h < 2; ++h) {
    const char* at = h == 0 ? "3s" : "5s";
    if (m.waymo[h]) out.set(fmt::format("miss_waymo_{}", at), *m.waymo[h]);
    if (m.nuplan[h]) out.set(fmt::format("miss_nuplan_{}", at), *m.nuplan[h]);
  }
}

void measure_meta_actions(const sim::Labels& labels, const Trajectory& plan, Waypoint v0, RecordMeasures& out) {
  Trajectory expert{10, {}};
  for (const sim::FutureState& f : labels.future) expert.points.push_back({f.x, f.y});
  const size_t known = sim::known_future_steps(labels);
  const auto truth = meta_actions_of(expert, labels.v0_mps, known);
  const auto of = [&](const Trajectory& t) {
    const auto iou = meta_action_iou(meta_actions_of(t, labels.v0_mps, known), truth);
    return iou ? *iou : 0.0;
  };
  out.set("meta_action_iou", of(plan));
  out.set("meta_action_iou_cv", of(constant_velocity(v0)));
}

void measure_rating(const Trajectory& plan, Waypoint v0, std::span<const Waypoint> truth, const RatedFrame& rated,
                    RecordMeasures& out) {
  const auto of = [&](std::vector<Waypoint> points) {
    const std::vector<std::vector<Waypoint>> proposals{std::move(points)};
    const std::vector<double> one{1.0};
    const auto score = rater_feedback_score(proposals, one, rated);
    return score ? score->score : 0.0;
  };
  out.set("rfs", of(plan.points));
  out.set("rfs_cv", of(constant_velocity(v0).points));
  out.set("rfs_standing", of(stay().points));
  out.set("rfs_expert", of({truth.begin(), truth.end()}));
}

constexpr Fit kFits[] = {Fit::kJmtPaperCompat, Fit::kMinJerkV0, Fit::kLinear};

/// The answer's own waypoints under the fits that know nothing of the model.
void measure_fits(const sim::Labels& labels, const Answer& a, std::span<const Waypoint> truth, RecordMeasures& out) {
  if (a.plan.waypoints.size() != 5) return;
  const Waypoint v0{labels.history.back().vx, labels.history.back().vy};
  for (const Fit fit : kFits) {
    const auto map = FitMap::make({.fit = fit});
    const auto t = map ? map->apply(a.plan.waypoints, v0) : Result<Trajectory>(map.error());
    if (!t || t->points.size() != kPoints) continue;
    out.set(fmt::format("fit_{}_ade_5s", name_of(fit)), mean_distance(t->points, truth, kPoints));
    out.set(fmt::format("fit_{}_infeasible", name_of(fit)), kinematics_of(*t).feasible() ? 0 : 1);
  }
}

void measure_counts(const Answer& a, RecordMeasures& out) {
  const Statistics& s = a.decoded.statistics;
  const auto count = [&](const char* name, int64_t n) { out.set(name, static_cast<double>(n)); };
  count("forwards", s.forwards), count("draft_forwards", s.draft_forwards), count("rows", s.rows), count("tokens", s.tokens);
  count("rounds", s.rounds), count("proposed", s.proposed), count("tested", s.tested), count("accepted", s.accepted);
  count("critical_path", s.critical_path);
  out.set("ms_decode", s.ms.total), out.set("ms_prefill", s.ms.prefill), out.set("ms_draft", s.ms.draft);
  out.set("ms_verify", s.ms.verify), out.set("ms_encode", a.stages.encode_ms), out.set("ms_total", a.stages.total_ms);
}

}  // namespace

std::vector<std::string> measure_names() {
  static constexpr const char* kNames[] = {"infeasible",
                                           "miss_argoverse",
                                           "miss_nuscenes",
                                           "miss_waymo_3s",
                                           "miss_waymo_5s",
                                           "miss_nuplan_3s",
                                           "miss_nuplan_5s",
                                           "meta_action_iou",
                                           "meta_action_iou_cv",
                                           "rfs",
                                           "rfs_cv",
                                           "rfs_standing",
                                           "rfs_expert",
                                           "min_ade_5s",
                                           "mean_ade_5s",
                                           "ade_5s_of_average",
                                           "spread_m",
                                           "ade_6_4s",
                                           "cv_ade_6_4s",
                                           "action_l1",
                                           "action_rms",
                                           "action_largest",
                                           "action_bins_right",
                                           "forwards",
                                           "draft_forwards",
                                           "rows",
                                           "tokens",
                                           "rounds",
                                           "proposed",
                                           "tested",
                                           "accepted",
                                           "critical_path",
                                           "ms_decode",
                                           "ms_prefill",
                                           "ms_draft",
                                           "ms_verify",
                                           "ms_encode",
                                           "ms_total",
                                           "ms_reasoning",
                                           "ms_trajectory"};
  std::vector<std::string> out(std::begin(kNames), std::end(kNames));
  for (const char* plan : {"", "cv_", "standing_"})
    for (const char* error : {"ade_3s", "ade_5s", "fde_5s"}) out.push_back(fmt::format("{}{}", plan, error));
  for (const char* convention : {"uniad", "stp3"})
    for (int s = 1; s <= 3; ++s) out.push_back(fmt::format("nuscenes_{}_{}s", convention, s));
  for (const Fit fit : kFits)
    for (const char* of : {"ade_5s", "infeasible"}) out.push_back(fmt::format("fit_{}_{}", name_of(fit), of));
  return out;
}

std::vector<Waypoint> truth_points(const sim::Labels& labels, size_t points) {
  std::vector<Waypoint> out;
  for (size_t i = 1; i <= points; ++i) {
    const sim::Vec2 p = sim::future_at(labels, static_cast<double>(i) / 4);
    out.push_back({p.x, p.y});
  }
  return out;
}

void measure_plan(const sim::Labels& labels, const Trajectory& plan, std::span<const std::vector<Waypoint>> rollouts,
                  const std::optional<RatedFrame>& rated, RecordMeasures& out) {
  out.set("infeasible", kinematics_of(plan).feasible() ? 0 : 1);
  if ((labels.unknown & sim::kUnknownFuture) != 0) return;
  const std::vector<Waypoint> truth = truth_points(labels);
  const Waypoint v0{labels.history.back().vx, labels.history.back().vy};
  measure_displacement("", plan, truth, out);
  measure_displacement("cv_", constant_velocity(v0), truth, out);
  measure_displacement("standing_", stay(), truth, out);
  measure_nuscenes(plan, truth, out);
  const std::vector<std::vector<Waypoint>> alone{plan.points};
  measure_misses(rollouts.empty() ? std::span(alone) : rollouts, truth, labels.v0_mps, out);
  measure_meta_actions(labels, plan, v0, out);
  if (rated) measure_rating(plan, v0, truth, *rated, out);
  if (rollouts.size() < 2) return;
  if (const auto e = rollout_errors(rollouts, truth, kPoints)) {
    out.set("min_ade_5s", e->min_ade.back());
    out.set("mean_ade_5s", e->mean_ade);
    out.set("ade_5s_of_average", e->ade_of_average);
    out.set("spread_m", e->spread_rms);
  }
}

void measure_far(const sim::Labels& labels, const Trajectory& plan, RecordMeasures& out) {
  if (plan.rate_hz != 4 || plan.points.size() < kFarPoints || sim::known_future_steps(labels) < labels.future.size()) return;
  const std::vector<Waypoint> truth = truth_points(labels, kFarPoints);
  const Waypoint v0{labels.history.back().vx, labels.history.back().vy};
  std::vector<Waypoint> steady;
  for (size_t i = 1; i <= kFarPoints; ++i) steady.push_back({v0.x * static_cast<double>(i) / 4, v0.y * static_cast<double>(i) / 4});
  out.set("ade_6_4s", mean_distance(plan.points, truth, kFarPoints));
  out.set("cv_ade_6_4s", mean_distance(steady, truth, kFarPoints));
}

void measure_action(std::span<const double> said, std::span<const double> truth, RecordMeasures& out) {
  const size_t n = std::min(said.size(), truth.size());
  if (n == 0) return;
  double sum = 0, squares = 0, largest = 0;
  for (size_t i = 0; i < n; ++i) {
    const double e = std::fabs(said[i] - truth[i]);
    sum += e, squares += e * e, largest = std::max(largest, e);
  }
  out.set("action_l1", sum / static_cast<double>(n));
  out.set("action_rms", std::sqrt(squares / static_cast<double>(n)));
  out.set("action_largest", largest);
}

Result<RecordMeasures> measure_record(const sim::Labels& labels, const Answer& answer, const Tokenizer& tokenizer) {
  RecordMeasures out;
  out.seed = labels.seed;
  out.family = sim::family_names()[labels.family];
  out.frame_s = labels.frame_s;
  out.pre_onset = labels.pre_onset;
  out.valid = answer.decoded.valid;
  out.chosen = answer.chosen.name;
  measure_labels(answer, labels, out);
  SLIP_TRY_(measure_texts(answer, labels, tokenizer, out));
  size_t field = 0;
  if (const BinsMeaning* bins = answer.form->codebook ? nullptr : bins_of(answer, &field)) {
    const auto* said = field < answer.values.size() ? std::get_if<std::vector<double>>(&answer.values[field]) : nullptr;
    std::vector<double> truth = action_of(labels, bins->count);
    for (double& a : truth) a = std::clamp(a, bins->low, bins->high);
    // An answer that is none counts as no acceleration at all.
    const std::vector<double> numbers = said ? *said : std::vector<double>(truth.size());
    measure_action(numbers, truth, out);
    int right = 0;
    for (size_t i = 0; i < std::min(numbers.size(), truth.size()); ++i)
      right += bins->number && bins->bin_holding(numbers[i]) == bins->bin_holding(truth[i]);
    if (bins->number && !truth.empty())
      out.set("action_bins_right", static_cast<double>(right) / static_cast<double>(truth.size()));
  } else {
    // An answer without a plan counts as standing still: leaving it out would reward not answering.
    std::vector<std::vector<Waypoint>> rollouts;
    for (const Trajectory& t : answer.plan.fitted_rollouts)
      if (const auto five = first_5s(t)) rollouts.push_back(five->points);
    const auto plan = answer.plan.fitted ? first_5s(*answer.plan.fitted) : std::nullopt;
    measure_plan(labels, plan.value_or(stay()), rollouts, rate_scene(labels), out);
    if (answer.plan.fitted) measure_far(labels, *answer.plan.fitted, out);
    if ((labels.unknown & sim::kUnknownFuture) == 0) measure_fits(labels, answer, truth_points(labels), out);
  }
  measure_counts(answer, out);
  return out;
}

}  // namespace slip
