// SPDX-License-Identifier: Apache-2.0
// See evaluate.h.
#include "eval/evaluate.h"

#include <algorithm>
#include <cmath>

#include "base/measure.h"
#include "base/words/near_word.h"
#include "task/wod.h"

namespace slip {

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

void DisplacementSums::add(double ade_3s, double ade_5s, double fde_5s) {
  ade_3s_ += ade_3s;
  ade_5s_ += ade_5s;
  fde_5s_ += fde_5s;
  ++count_;
}

json::object DisplacementSums::to_json() const {
  if (count_ == 0) return {{"ade_3s", nullptr}, {"ade_5s", nullptr}, {"fde_5s", nullptr}};
  return {{"ade_3s", ade_3s()}, {"ade_5s", ade_5s()}, {"fde_5s", fde_5s()}};
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
  r.rollouts = settings.rollouts;
  r.trajectory_head = settings.trajectory_head;
  r.section_temperatures = settings.section_temperatures;
  return r;
}

Result<Evaluated> evaluate_record(Engine& engine, const sim::Labels& labels, std::span<const uint8_t> images,
                                  const EvalSettings& settings, Evaluation& sums) {
  if (images.size() != sim::kCameras * sim::kImageBytes)
    return bad_input("record of seed {}: expected {} bytes of pictures, got {}", labels.seed, sim::kCameras * sim::kImageBytes,
                     images.size());
  Request request = request_of(labels, images, settings);
  SLIP_TRY(const FormPtr form, engine.form_of(request));
  // When the last field outside the trajectory is decided, reasoning is over. An action model's numbers are all of its answer.
  const bool plans = std::ranges::any_of(form->form.sections(), [](const Section& s) { return s.name == "trajectory"; });
  const auto start = Clock::now();
  double reasoning_ms = 0;
  request.context.on_field = [&](int32_t field, std::span<const TokenId>, int64_t) {
    const Field& f = form->form.fields()[static_cast<size_t>(field)];
    if (form->form.sections()[static_cast<size_t>(f.section)].name != "trajectory") reasoning_ms = ms_since(start);
  };
  SLIP_TRY(Answer answer, engine.run(request));
  SLIP_TRY(RecordMeasures m, measure_record(labels, answer, *engine.model().tokenizer()));
  m.decoder = settings.label.empty() ? settings.method.preset : settings.label;
  if (plans && reasoning_ms > 0) {
    const double before =
        answer.stages.encode_ms + answer.stages.form_ms + answer.stages.choice_ms + answer.decoded.statistics.ms.prefill;
    m.set("ms_reasoning", std::max(0.0, reasoning_ms - before));
    m.set("ms_trajectory", std::max(0.0, answer.stages.total_ms - answer.stages.plan_ms - reasoning_ms));
  }
  sums.add(m);
  return Evaluated{std::move(answer), std::move(m)};
}

void Evaluation::add(const RecordMeasures& m) {
  ++records;
  valid += m.valid;
  for (size_t c = 0; c < m.objects.size(); ++c)
    if (m.objects[c]) objects[c].add(m.objects[c]->said, m.objects[c]->truth);
  for (const RecordMeasures::Text& t : m.texts) {
    auto at = std::find_if(texts.begin(), texts.end(), [&](const auto& known) { return known.first == t.field; });
    if (at == texts.end()) at = texts.insert(at, {t.field, {}});
    const std::string other = t.truth + " not";
    at->second.add(t.equal ? &t.truth : &other, t.truth);
  }
  judged += m.judged;
  if (!m.chosen.empty()) ++chosen[m.chosen];
  longitudinal_right += m.longitudinal_right;
  lateral_right += m.lateral_right;
  const auto number = [&](const std::string& name) { return m.get(name).value_or(0); };
  for (Subset* s : {&all, m.pre_onset ? &pre_onset : nullptr}) {
    if (!s || !m.get("ade_5s")) continue;
    s->model.add(number("ade_3s"), number("ade_5s"), number("fde_5s"));
    s->constant_velocity.add(number("cv_ade_3s"), number("cv_ade_5s"), number("cv_fde_5s"));
    s->standing.add(number("standing_ade_3s"), number("standing_ade_5s"), number("standing_fde_5s"));
  }
  infeasible += number("infeasible") != 0;
  const auto count = [&](const char* name) { return static_cast<int64_t>(number(name)); };
  forwards += count("forwards"), tokens += count("tokens"), proposed += count("proposed"), tested += count("tested");
  accepted += count("accepted");
  decode_ms += number("ms_decode"), total_ms += number("ms_total"), encode_ms += number("ms_encode");
  prefill_ms += number("ms_prefill"), draft_ms += number("ms_draft"), verify_ms += number("ms_verify");
  for (const auto& [name, value] : m.numbers) {
    Mean& mean = measures[name];
    mean.sum += value;
    ++mean.count;
  }
}

std::optional<double> Evaluation::measure(const std::string& name) const {
  const auto at = measures.find(name);
  return at == measures.end() ? std::nullopt : std::optional(at->second.value());
}

namespace {

json::object subset_json(const Subset& s) {
  const double cv = s.constant_velocity.ade_5s();
  return {{"records", s.model.count()},
          {"model", s.model.to_json()},
          {"constant_velocity", s.constant_velocity.to_json()},
          {"standing", s.standing.to_json()},
          {"ade_5s_below_constant_velocity", cv > 0 ? json::value(1 - s.model.ade_5s() / cv) : json::value()}};
}

double share(int64_t part, int64_t whole) { return whole ? static_cast<double>(part) / static_cast<double>(whole) : 0; }
/// The same where `whole` may be nothing, of which nothing can be said.
json::value share_known(int64_t part, int64_t whole) { return whole ? json::value(share(part, whole)) : json::value(); }
std::string share_text(int64_t part, int64_t whole, double factor, int decimals) {
  return whole ? fmt::format("{:.{}f}", factor * share(part, whole), decimals) : "-";
}

}  // namespace

namespace {

bool has_objects(const Evaluation& e) {
  return std::any_of(e.objects.begin(), e.objects.end(), [](const YesNoCounts& n) { return n.total() > 0; });
}

/// Did the records ask for actions of the next moment, which have no objects, no behaviour and no plan?
bool of_actions(const Evaluation& e) { return e.measure("action_l1").has_value(); }

/// Classes without a yes on either side have no F1, and count nowhere; null and "-" stand where no record knows its objects.
void put_objects(const Evaluation& e, json::object& out) {
  json::object classes;
  json::array below;
  for (size_t c = 0; c < e.objects.size(); ++c) {
    const YesNoCounts& n = e.objects[c];
    classes[sim::kObjectClasses[c]] = nullptr;
    if (n.total() == 0) continue;
    classes[sim::kObjectClasses[c]] = {{"f1", n.f1()},
                                       {"precision", n.precision()},
                                       {"recall", n.recall()},
                                       {"prior", n.prior()},
                                       {"always_yes_f1", n.always_yes_f1()}};
    if (n.has_yes() && !(n.f1() > n.always_yes_f1())) below.emplace_back(sim::kObjectClasses[c]);
  }
  const bool known = has_objects(e);
  out["macro_f1"] = known ? json::value(macro_f1(e.objects)) : json::value();
  out["macro_always_yes_f1"] = known ? json::value(macro_always_yes_f1(e.objects)) : json::value();
  out["every_class_above_prior"] = known ? json::value(below.empty()) : json::value();
  out["classes_not_above_prior"] = std::move(below);
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
  if (has_objects(*this) || (texts.empty() && !of_actions(*this))) put_objects(*this, out);
  if (!texts.empty()) put_texts(*this, out);
  const auto per_record = [&](double ms) { return records ? ms / static_cast<double>(records) : 0.0; };
  if (!of_actions(*this)) {
    out["longitudinal_accuracy"] = share_known(longitudinal_right, judged);
    out["lateral_accuracy"] = share_known(lateral_right, judged);
    out["all"] = subset_json(all);
    out["pre_onset"] = subset_json(pre_onset);
    out["infeasible"] = share(infeasible, records);
  }
  const json::object rest{{"forwards_per_answer", share(forwards, records)},
                          {"tokens_per_answer", share(tokens, records)},
                          {"acceptance", share_known(accepted, tested)},
                          {"decode_ms_per_answer", per_record(decode_ms)},
                          {"total_ms_per_answer", per_record(total_ms)},
                          {"stage_ms_per_answer",
                           {{"encode", per_record(encode_ms)},
                            {"prefill", per_record(prefill_ms)},
                            {"draft", per_record(draft_ms)},
                            {"verify", per_record(verify_ms)}}}};
  out.insert(rest.begin(), rest.end());
  json::object means;
  for (const auto& [name, mean] : measures) means[name] = mean.value();
  out["measures"] = std::move(means);
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

namespace {

/// What stands in some result: one with objects, texts and choices of `auto`.
std::vector<std::string> names_of_results() {
  Evaluation e;
  e.objects[0].add(true, true);
  e.texts.emplace_back("field", TextAgreement{});
  e.chosen["ar"] = 1;
  std::vector<std::string> out;
  for (const auto& member : e.to_json()) out.emplace_back(member.key());
  return out;
}

}  // namespace

Status check_limit_names(const json::object& limits, bool several, std::string_view where) {
  const std::vector<std::string> names = names_of_results();
  for (const auto& [path, limit] : limits) {
    const std::string whole(path), name = whole.substr(0, whole.find('.'));
    if (several && name != "by_decoder")
      return bad_input("{}: {}: expected by_decoder.NAME.{} beside --decoders, got no decoder's name", where, whole, whole);
    if (several || std::ranges::find(names, name) != names.end()) continue;
    const std::string near = near_word(name, names);
    return bad_input("{}: {}: expected the path of a number in the result of --json, got {}{}", where, whole, name,
                     near.empty() ? "" : fmt::format(" (did you mean {}?)", near));
  }
  return {};
}

Status check_limits(const json::object& result, const json::object& limits, std::string_view where) {
  SLIP_TRY_(check_limit_shapes(limits, where));
  std::string missed;
  for (const auto& [path, limit] : limits) {
    const json::value* v = at_path(result, path);
    if (v && v->is_null()) {
      missed +=
          fmt::format("{}{}: expected a number, got none: no record knows it", missed.empty() ? "" : "; ", std::string_view(path));
      continue;
    }
    if (!v || !(v->is_number() || v->is_bool()))
      return bad_input("{}: {}: expected the path of a number in the result, got {}", where, std::string_view(path),
                       v ? "one of something else" : "one where nothing stands");
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
  return fmt::format("decoder {} ({} x {} x {}, width {}){}\n", m.preset, w.schedule, w.drafter, w.verifier, w.draft_length,
                     m.lossy() ? " (lossy)" : "");
}

std::string objects_table(const Evaluation& e) {
  std::string out = fmt::format("{:<22} {:>6} {:>9} {:>9} {:>7} {:>14}\n", "critical object", "F1", "precision", "recall", "prior",
                                "always-yes F1");
  for (size_t c = 0; c < e.objects.size(); ++c) {
    const YesNoCounts& n = e.objects[c];
    if (n.total() == 0) {
      out += fmt::format("{:<22} {:>6} {:>9} {:>9} {:>7} {:>14}\n", sim::kObjectClasses[c], "-", "-", "-", "-", "-");
      continue;
    }
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

namespace {

/// What else there is, a line a kind.
std::string measures_lines(const Evaluation& e) {
  std::string out;
  const auto line = [&](std::string_view title, std::initializer_list<std::pair<const char*, const char*>> names) {
    std::string parts;
    for (const auto& [name, word] : names)
      if (const auto v = e.measure(name)) parts += fmt::format("{}{} {:.3f}", parts.empty() ? "" : ", ", word, *v);
    if (!parts.empty()) out += fmt::format("{:<34} {}\n", title, parts);
  };
  line("Rater Feedback Score",
       {{"rfs", "model"}, {"rfs_cv", "constant velocity"}, {"rfs_standing", "standing"}, {"rfs_expert", "expert"}});
  line("nuScenes L2, UniAD (m)", {{"nuscenes_uniad_1s", "1 s"}, {"nuscenes_uniad_2s", "2 s"}, {"nuscenes_uniad_3s", "3 s"}});
  line("nuScenes L2, ST-P3 (m)", {{"nuscenes_stp3_1s", "1 s"}, {"nuscenes_stp3_2s", "2 s"}, {"nuscenes_stp3_3s", "3 s"}});
  line("ADE@6.4s (m)", {{"ade_6_4s", "model"}, {"cv_ade_6_4s", "constant velocity"}});
  line("meta-action IoU", {{"meta_action_iou", "model"}, {"meta_action_iou_cv", "constant velocity"}});
  line("miss rate", {{"miss_waymo_3s", "Waymo 3 s"},
                     {"miss_waymo_5s", "5 s"},
                     {"miss_argoverse", "Argoverse"},
                     {"miss_nuscenes", "nuScenes"},
                     {"miss_nuplan_3s", "nuPlan 3 s"},
                     {"miss_nuplan_5s", "5 s"}});
  line("rollouts, ADE@5s (m)",
       {{"min_ade_5s", "least"}, {"mean_ade_5s", "mean"}, {"ade_5s_of_average", "of the average"}, {"spread_m", "spread"}});
  line("fits, ADE@5s (m)",
       {{"fit_jmt-paper_ade_5s", "as published"}, {"fit_minjerk-v0_ade_5s", "least jerk"}, {"fit_linear_ade_5s", "linear"}});
  line("no car could follow", {{"infeasible", "the plan"},
                               {"fit_jmt-paper_infeasible", "as published"},
                               {"fit_minjerk-v0_infeasible", "least jerk"},
                               {"fit_linear_infeasible", "linear"}});
  line("action error (m/s^2)", {{"action_l1", "mean"},
                                {"action_rms", "root mean square"},
                                {"action_largest", "largest"},
                                {"action_bins_right", "bins right"}});
  line("milliseconds",
       {{"ms_encode", "encode"}, {"ms_prefill", "prefill"}, {"ms_reasoning", "reasoning"}, {"ms_trajectory", "trajectory"}});
  return out.empty() ? out : "\n" + out;
}

/// Columns of the comparison: title, and what stands there for an evaluation.
struct ComparisonColumn {
  const char* title;
  std::optional<double> (*value)(const Evaluation&);
  int decimals;
};

template <const char* Name>
std::optional<double> of_measure(const Evaluation& e) {
  return e.measure(Name);
}
constexpr char kRfs[] = "rfs", kRfsCv[] = "rfs_cv", kMinAde[] = "min_ade_5s", kRows[] = "rows", kCritical[] = "critical_path",
               kIou[] = "meta_action_iou", kUniad[] = "nuscenes_uniad_3s", kStp3[] = "nuscenes_stp3_3s", kAction[] = "action_l1",
               kFar[] = "ade_6_4s", kReasoning[] = "ms_reasoning";

constexpr ComparisonColumn kComparison[] = {
    {"records", [](const Evaluation& e) { return std::optional(static_cast<double>(e.records)); }, 0},
    {"valid", [](const Evaluation& e) { return std::optional(share(e.valid, e.records)); }, 3},
    {"ms", [](const Evaluation& e) { return std::optional(e.records ? e.total_ms / static_cast<double>(e.records) : 0.0); }, 1},
    {"ms reasoning", of_measure<kReasoning>, 1},
    {"passes", [](const Evaluation& e) { return std::optional(share(e.forwards, e.records)); }, 1},
    {"rows", of_measure<kRows>, 0},
    {"critical path", of_measure<kCritical>, 1},
    {"tokens/pass", [](const Evaluation& e) { return std::optional(share(e.tokens, e.forwards)); }, 2},
    {"accepted", [](const Evaluation& e) { return e.tested ? std::optional(share(e.accepted, e.tested)) : std::nullopt; }, 3},
    {"ADE@3s", [](const Evaluation& e) { return e.all.model.count() ? std::optional(e.all.model.ade_3s()) : std::nullopt; }, 3},
    {"ADE@5s", [](const Evaluation& e) { return e.all.model.count() ? std::optional(e.all.model.ade_5s()) : std::nullopt; }, 3},
    {"ADE@6.4s", of_measure<kFar>, 3},
    {"minADE@5s", of_measure<kMinAde>, 3},
    {"RFS", of_measure<kRfs>, 3},
    {"RFS of constant velocity", of_measure<kRfsCv>, 3},
    {"L2@3s UniAD", of_measure<kUniad>, 3},
    {"L2@3s ST-P3", of_measure<kStp3>, 3},
    {"meta-action IoU", of_measure<kIou>, 3},
    {"action error", of_measure<kAction>, 3},
};

/// Columns that some evaluation has.
std::vector<const ComparisonColumn*> columns_of(const Evaluations& all) {
  std::vector<const ComparisonColumn*> out;
  for (const ComparisonColumn& c : kComparison)
    if (std::any_of(all.begin(), all.end(), [&](const auto& e) { return c.value(e.second).has_value(); })) out.push_back(&c);
  return out;
}

}  // namespace

std::string comparison_table(const Evaluations& all) {
  const auto columns = columns_of(all);
  std::string out = "| decoder |", rule = "|---|";
  for (const ComparisonColumn* c : columns) out += fmt::format(" {} |", c->title), rule += "--:|";
  out += "\n" + rule + "\n";
  for (const auto& [name, e] : all) {
    out += fmt::format("| {} |", name);
    for (const ComparisonColumn* c : columns) {
      const auto v = c->value(e);
      out += v ? fmt::format(" {:.{}f} |", *v, c->decimals) : " |";
    }
    out += "\n";
  }
  return out;
}

std::string comparison_csv(const Evaluations& all) {
  const auto columns = columns_of(all);
  std::string out = "decoder";
  for (const ComparisonColumn* c : columns) out += fmt::format(",{}", c->title);
  out += "\n";
  for (const auto& [name, e] : all) {
    out += fmt::format("\"{}\"", name);
    for (const ComparisonColumn* c : columns) {
      const auto v = c->value(e);
      out += v ? fmt::format(",{:.6f}", *v) : ",";
    }
    out += "\n";
  }
  return out;
}

namespace {

std::string plan_table(const Evaluation& e) {
  std::string out = fmt::format("\nbehaviour: longitudinal {} %, lateral {} % right\n\n",
                                share_text(e.longitudinal_right, e.judged, 100, 1), share_text(e.lateral_right, e.judged, 100, 1));
  out += fmt::format("{:<34} {:>8} {:>8} {:>8}   (metres, against the expert's future)\n", "plan", "ADE@3s", "ADE@5s", "FDE@5s");
  for (const auto& [name, s] :
       {std::pair<std::string, const Subset*>{"all", &e.all}, {"manoeuvre starts after t0", &e.pre_onset}}) {
    const auto line = [&out, &name = name](std::string_view who, const DisplacementSums& d) {
      const std::string title = fmt::format("{}: {}", name, who);
      if (d.count() == 0) {
        out += fmt::format("{:<34} {:>8} {:>8} {:>8}\n", title, "-", "-", "-");
        return;
      }
      out += fmt::format("{:<34} {:>8.3f} {:>8.3f} {:>8.3f}\n", title, d.ade_3s(), d.ade_5s(), d.fde_5s());
    };
    line(fmt::format("model ({})", s->model.count()), s->model);
    line("constant velocity", s->constant_velocity);
    line("standing still", s->standing);
  }
  return out;
}

}  // namespace

std::string evaluation_table(const Evaluation& e, const Method* method) {
  const bool objects = has_objects(e) || (e.texts.empty() && !of_actions(e));
  std::string out = method ? method->automatic ? automatic_line(e) : decoder_line(*method) : "";
  out += fmt::format("records {}   valid answers {:.1f} %", e.records, 100 * share(e.valid, e.records));
  if (has_objects(e))
    out += fmt::format("   macro F1 {:.3f} (always yes {:.3f})", macro_f1(e.objects), macro_always_yes_f1(e.objects));
  else if (objects)
    out += "   macro F1 - (no record knows its objects)";
  out += "\n\n";
  if (objects) out += objects_table(e);
  if (objects && !e.texts.empty()) out += "\n";
  if (!e.texts.empty()) out += texts_table(e);
  if (!of_actions(e)) out += plan_table(e);
  out += measures_lines(e);
  out += fmt::format(
      "\nforward passes per answer {:.1f}, tokens {:.1f}, accepted/tested {}, {:.1f} ms per answer ({:.1f} ms decoding)\n",
      share(e.forwards, e.records), share(e.tokens, e.records), share_text(e.accepted, e.tested, 1, 3),
      e.total_ms / static_cast<double>(std::max<int64_t>(e.records, 1)),
      e.decode_ms / static_cast<double>(std::max<int64_t>(e.records, 1)));
  return out;
}

}  // namespace slip
