// SPDX-License-Identifier: Apache-2.0
// Wording of the driving prompt.
#include "task/prompt.h"

#include <algorithm>
#include <cmath>

#include "base/check.h"
#include "base/json/shown.h"
#include "sim/cot.h"
#include "sim/reach/reach.h"
#include "task/action.h"

namespace slip {

namespace {

constexpr std::string_view kRole =
    "You are the planner of a car. You see what its three front cameras see now, where the route leads, and how the car "
    "has moved.\n";
constexpr std::string_view kBehaviours =
    "name the behaviour: longitudinal (keep speed, speed up, slow down, come to stop) and lateral (go straight, "
    "lane follow, turn left, turn right, change left, change right).\n";
constexpr std::string_view kWaypoints = "give five waypoints in metres, one per second, x forward and y to the left.\n";
constexpr std::string_view kCodes = "give the path of the next seconds in codes, one piece of it behind the other.\n";
constexpr std::string_view kInput = "Input:\n- front left, front and front right camera: ";

constexpr std::string_view kWodTasks =
    "Task 1: for each class of critical object say yes or no: nearby_vehicle, pedestrian, cyclist, construction, "
    "traffic_element, weather_condition, road_hazard, emergency_vehicle, animal, special_vehicle, conflicting_vehicle, "
    "door_opening_vehicle.\n"
    "Task 2: explain in a few sentences what decides the next three seconds.\n";
constexpr std::string_view kCotTasks =
    "Task 1: describe light, road, weather, junction and kind of road, each on its line.\n"
    "Task 2: divide the next six seconds by what our lane does, and describe each part.\n"
    "Task 3: name the critical objects, the most important first, and of each its position, its type and why it matters.\n"
    "Task 4: name traffic light, traffic sign and further rules, then sum up rules, surroundings and other road users, and say "
    "what the car does and why.\n";

std::string tasks(TaskForm form, bool codes) {
  if (form == TaskForm::kAction)
    return fmt::format("{}Task: give the mean acceleration in each of the next half seconds, in m/s².\n{}", kRole, kInput);
  const bool wod = form == TaskForm::kWodE2e;
  return fmt::format("{}{}Task {}: {}Task {}: {}{}", kRole, wod ? kWodTasks : kCotTasks, wod ? 3 : 5, kBehaviours, wod ? 4 : 6,
                     codes ? kCodes : kWaypoints, kInput);
}

// -0.04 rounds to "-0.0" with one decimal: a sign without a meaning, and one more spelling for a model to learn.
std::string number(float v, int decimals) {
  std::string s = fmt::format("{:.{}f}", v, decimals);
  if (s.front() == '-' && s.find_first_not_of("-0.") == std::string::npos) s.erase(0, 1);
  return s;
}

std::string full_history(const EgoInput& ego) {
  std::string out;
  for (size_t i = 3; i < ego.history.size(); i += 2) {  // t = -3.0, -2.5, ... 0
    const sim::EgoState& s = ego.history[i];
    out += fmt::format("(t{}{}s) [{}, {}], Velocity: X {}, Y {} m/s, Acceleration: X {}, Y {} m/s²\n", s.t_s < 0 ? "" : "-",
                       number(s.t_s, 1), number(s.x, 2), number(s.y, 2), number(s.vx, 2), number(s.vy, 2), number(s.ax, 2),
                       number(s.ay, 2));
  }
  return out;
}

// Three states, one second apart: position says how the car came, velocity and acceleration where it is going.
std::string compact_history(const EgoInput& ego) {
  std::string out;
  for (const size_t i : {size_t{7}, size_t{11}, size_t{15}}) {  // t = -2, -1, 0
    const sim::EgoState& s = ego.history[i];
    out +=
        fmt::format("x {} y {} v {} {} a {}\n", number(s.x, 1), number(s.y, 1), number(s.vx, 1), number(s.vy, 1), number(s.ax, 1));
  }
  return out;
}

}  // namespace

std::string_view words(sim::Intent v) {
  switch (v) {
    case sim::Intent::kGoStraight:
      return "GO_STRAIGHT";
    case sim::Intent::kGoLeft:
      return "GO_LEFT";
    case sim::Intent::kGoRight:
      return "GO_RIGHT";
  }
  return "?";
}

EgoInput standing_ego() {
  EgoInput out;
  for (size_t i = 0; i < out.history.size(); ++i) out.history[i].t_s = (static_cast<float>(i) - 15) / 4;
  return out;
}

std::vector<Image> camera_images(std::span<const uint8_t> pictures, bool blank) {
  SLIP_CHECK(pictures.size() == sim::kCameras * sim::kImageBytes, "callers check that there are pictures");
  std::vector<Image> out;
  for (size_t c = 0; c < sim::kCameras; ++c) {
    const auto pixels = pictures.subspan(c * sim::kImageBytes, sim::kImageBytes);
    out.push_back({sim::kImageWidth, sim::kImageHeight, {pixels.begin(), pixels.end()}});
    if (blank) std::fill(out.back().rgb.begin(), out.back().rgb.end(), uint8_t{128});
  }
  return out;
}

EgoInput ego_of(const sim::Labels& labels) { return {labels.intent, labels.history}; }

EgoInput steady(EgoInput ego) {
  const sim::EgoState now = ego.history.back();
  for (sim::EgoState& s : ego.history) s = {s.t_s, now.vx * s.t_s, now.vy * s.t_s, now.vx, now.vy, 0, 0};
  return ego;
}

std::vector<float> history_numbers(const EgoInput& ego, int32_t states) {
  const auto& known = ego.history;
  std::vector<float> out;
  for (int32_t i = 0; i < states; ++i) {
    const auto before = static_cast<size_t>(states - 1 - i);
    const sim::EgoState& s = before < known.size() ? known[known.size() - 1 - before] : known.front();
    out.insert(out.end(), {s.x, s.y, s.vx, s.vy, s.ax, s.ay});
  }
  return out;
}

Result<sim::Intent> intent_named(std::string_view word, std::string_view where) {
  for (const auto candidate : {sim::Intent::kGoStraight, sim::Intent::kGoLeft, sim::Intent::kGoRight})
    if (word == words(candidate)) return candidate;
  return bad_input("{}: intent: expected GO_STRAIGHT, GO_LEFT or GO_RIGHT, got {}", where, shown(word));
}

namespace {
constexpr std::array<std::string_view, 3> kForms = {"wod-e2e", "drive-cot", "action"};  // in the order of TaskForm
}
std::string_view words(Body v) { return v == Body::kArm ? "an arm" : "a car"; }
std::string_view words(TaskForm v) { return kForms[static_cast<size_t>(v)]; }

namespace {

Result<int> bounded(const json::object& o, std::string_view key, int other, int64_t high, std::string_view where) {
  SLIP_TRY(const int64_t n, int_or(o, key, other, where));
  if (n < 1 || n > high) return bad_input("{}: {}: expected 1 to {}, got {}", where, key, high, n);
  return static_cast<int>(n);
}

Status read_budgets(const json::object& slipstream, std::string_view where, DriveCotOptions& out) {
  if (!slipstream.contains("budgets")) return {};
  SLIP_TRY(const json::object* o, get_object(slipstream, "budgets", where));
  const std::pair<std::string_view, int32_t*> known[] = {
      {"condition", &out.condition_budget},      {"lanes", &out.lanes_budget},       {"lane", &out.lane_budget},
      {"objects", &out.objects_budget},          {"position", &out.position_budget}, {"type", &out.type_budget},
      {"regulation", &out.regulation_budget},    {"summary", &out.summary_budget},   {"justification", &out.justification_budget},
      {"ego_behavior", &out.ego_behavior_budget}};
  const std::string at = fmt::format("{}.budgets", where);
  for (const auto& member : *o)
    if (std::none_of(std::begin(known), std::end(known), [&](const auto& k) { return k.first == std::string_view(member.key()); }))
      return bad_input("{}: expected the name of a budget, got {}", at, shown(member.key()));
  for (const auto& [key, budget] : known) {
    SLIP_TRY(*budget, bounded(*o, key, *budget, 4096, at));
  }
  return {};
}

/// {"lanes": 3, "objects": 4, "unused": "placeholder"}: how many of each may be named, and what becomes of the rest.
Status read_instances(const json::object& slipstream, std::string_view where, TaskForm form, DriveCotOptions& out) {
  if (!slipstream.contains("instances")) return {};
  if (form != TaskForm::kDriveCot)
    return unsupported("{}: instances: expected form drive-cot beside them, got {}", where, words(form));
  SLIP_TRY(const json::object* o, get_object(slipstream, "instances", where));
  const std::string at = fmt::format("{}.instances", where);
  static constexpr std::array<std::string_view, 3> kKeys = {"lanes", "objects", "unused"};
  for (const auto& member : *o)
    if (std::find(kKeys.begin(), kKeys.end(), shown(member.key())) == kKeys.end())
      return bad_input("{}: expected lanes, objects or unused, got {}", at, shown(member.key()));
  SLIP_TRY(out.lanes, bounded(*o, "lanes", out.lanes, 64, at));
  SLIP_TRY(out.objects, bounded(*o, "objects", out.objects, 64, at));
  // Records name so many, and an enumeration is not cut.
  if (out.lanes < static_cast<int32_t>(sim::kCotLanes) || out.objects < static_cast<int32_t>(sim::kCotObjects))
    return bad_input("{}: expected at least {} lanes and {} objects, as many as records name, got {} and {}", at, sim::kCotLanes,
                     sim::kCotObjects, out.lanes, out.objects);
  SLIP_TRY(const std::string unused, string_or(*o, "unused", "placeholder", at));
  if (unused != "placeholder" && unused != "absent")
    return bad_input("{}: unused: expected placeholder or absent, got {}", at, shown(unused));
  out.absent = unused == "absent";
  return {};
}

Status read_codes(const json::object& slipstream, std::string_view where, TaskOptions& out) {
  if (!slipstream.contains("codes")) return {};
  if (out.form != TaskForm::kDriveCot)
    return unsupported("{}: codes: expected form drive-cot beside them, got {}", where, words(out.form));
  SLIP_TRY(const json::object* o, get_object(slipstream, "codes", where));
  const std::string at = fmt::format("{}.codes", where);
  static constexpr std::array<std::string_view, 4> kKeys = {"count", "values", "tokens", "book"};
  for (const auto& member : *o)
    if (std::find(kKeys.begin(), kKeys.end(), shown(member.key())) == kKeys.end())
      return bad_input("{}: expected count, values, tokens or book, got {}", at, shown(member.key()));
  for (const char* needed : {"count", "values"}) SLIP_TRY_(get_int(*o, needed, at));
  SLIP_TRY(out.drive_cot.codes, bounded(*o, "count", 0, 64, at));
  SLIP_TRY(out.drive_cot.code_values, bounded(*o, "values", 0, 65536, at));
  if (out.drive_cot.code_values < 2) return bad_input("{}: values: expected 2 to 65536, got {}", at, out.drive_cot.code_values);
  SLIP_TRY(out.drive_cot.code_tokens, string_or(*o, "tokens", out.drive_cot.code_tokens, at));
  SLIP_TRY(out.codebook, string_or(*o, "book", out.codebook, at));
  // What a folder names lies in it.
  if (out.codebook.empty() || out.codebook.find_first_of(std::string_view("/\\\0", 3)) != std::string::npos ||
      out.codebook.front() == '.')
    return bad_input("{}: book: expected the name of a file in the model's folder, got {}", at, shown(out.codebook));
  return {};
}

Status read_action(const json::object& slipstream, std::string_view where, ActionOptions& out) {
  if (!slipstream.contains("action")) return {};
  SLIP_TRY(const json::object* o, get_object(slipstream, "action", where));
  const std::string at = fmt::format("{}.action", where);
  static constexpr std::array<std::string_view, 6> kKeys = {"dimensions", "bins", "tokens", "descending", "low", "high"};
  for (const auto& member : *o)
    if (std::find(kKeys.begin(), kKeys.end(), shown(member.key())) == kKeys.end())
      return bad_input("{}: expected dimensions, bins, tokens, descending, low or high, got {}", at, shown(member.key()));
  SLIP_TRY(out.dimensions, bounded(*o, "dimensions", out.dimensions, kMostActionSteps, at));
  SLIP_TRY(out.bins, bounded(*o, "bins", out.bins, 65536, at));
  SLIP_TRY(out.tokens, string_or(*o, "tokens", out.tokens, at));
  SLIP_TRY(out.descending, bool_or(*o, "descending", out.descending, at));
  SLIP_TRY(out.low, number_or(*o, "low", out.low, at));
  SLIP_TRY(out.high, number_or(*o, "high", out.high, at));
  return {};
}

Status read_body(const json::object& slipstream, std::string_view where, TaskOptions& out) {
  SLIP_TRY(const std::string body, string_or(slipstream, "body", "car", where));
  if (body == "car") return {};
  if (body != "arm") return bad_input("{}: body: expected car or arm, got \"{}\"", where, shown(body));
  out.body = Body::kArm;
  const auto refuse = [&](std::string_view expected, auto got) {
    return unsupported("{}: body: expected {} beside arm, got {}", where, expected, got);
  };
  if (out.form != TaskForm::kAction) return refuse("form action", words(out.form));
  if (out.cameras) return refuse("\"cameras\": false", "cameras");
  if (out.action.dimensions != sim::kArmNumbers) return refuse("an action of 7 dimensions", out.action.dimensions);
  if (out.action.low != -1 || out.action.high != 1)
    return refuse("an action from -1 to 1", fmt::format("{} to {}", out.action.low, out.action.high));
  return {};
}

}  // namespace

Result<TaskOptions> task_options(const json::object& config, std::string_view file) {
  TaskOptions out;
  const json::value* v = config.if_contains("slipstream");
  if (!v) return out;
  if (!v->is_object()) return bad_input("{}: key \"slipstream\": expected an object, got another type", file);
  const json::object& o = v->get_object();
  const std::string where = fmt::format("{}: slipstream", file);
  SLIP_TRY(const std::string form, string_or(o, "form", "wod-e2e", where));
  const auto* known = std::find(kForms.begin(), kForms.end(), form);
  if (known == kForms.end()) return unsupported("{}: form: expected wod-e2e, drive-cot or action, got {}", where, shown(form));
  out.form = static_cast<TaskForm>(known - kForms.begin());
  const char* const key = o.contains("visibility") ? "visibility" : "law";  // its old name
  SLIP_TRY(const std::string visibility, string_or(o, key, out.form == TaskForm::kDriveCot ? "graph" : "chain", where));
  if (visibility != "chain" && visibility != "graph")
    return bad_input("{}: {}: expected chain or graph, got {}", where, key, shown(visibility));
  out.visibility = visibility == "chain" ? Visibility::kChain : Visibility::kGraph;
  SLIP_TRY(const std::string style, string_or(o, "prompt", "full", where));
  if (style != "full" && style != "compact" && style != "intent")
    return bad_input("{}: prompt: expected full, compact or intent, got {}", where, shown(style));
  out.prompt = style == "full" ? PromptStyle::kFull : style == "compact" ? PromptStyle::kCompact : PromptStyle::kIntent;
  SLIP_TRY(out.explanation_budget, bounded(o, "explanation_budget", out.explanation_budget, 4096, where));
  SLIP_TRY(out.behaviour_budget, bounded(o, "behaviour_budget", out.behaviour_budget, 64, where));
  SLIP_TRY(out.block_size, bounded(o, "block_size", out.block_size, 1024, where));
  SLIP_TRY(out.weights, string_or(o, "weights", "", where));
  if (o.contains("weights") && out.weights != "f32" && out.weights != "bf16" && out.weights != "int8" && out.weights != "int4")
    return bad_input("{}: weights: expected f32, bf16, int8 or int4, got {}", where, shown(out.weights));
  SLIP_TRY(out.waypoint_step_m, number_or(o, "waypoint_step_m", out.waypoint_step_m, where));
  if (!(out.waypoint_step_m >= 0.01 && out.waypoint_step_m <= 10))
    return bad_input("{}: waypoint_step_m: expected 0.01 to 10, got {}", where, out.waypoint_step_m);
  SLIP_TRY(out.cameras, bool_or(o, "cameras", out.cameras, where));
  SLIP_TRY_(read_budgets(o, where, out.drive_cot));
  SLIP_TRY_(read_instances(o, where, out.form, out.drive_cot));
  if (out.drive_cot.absent && out.visibility == Visibility::kChain)
    return unsupported("{}.instances: unused: expected graph visibility beside absent, got chain", where);
  SLIP_TRY(out.drive_cot.reasoning, bool_or(o, "reasoning", true, where));
  SLIP_TRY_(read_codes(o, where, out));
  SLIP_TRY_(read_action(o, where, out.action));
  SLIP_TRY_(read_body(o, where, out));
  out.drive_cot.block_size = out.block_size;
  return out;
}

PromptText prompt_text(const TaskOptions& task, const EgoInput& ego) {
  return prompt_text(task.prompt, ego, task.form, task.form == TaskForm::kDriveCot && task.drive_cot.codes > 0);
}

PromptText prompt_text(PromptStyle style, const EgoInput& ego, TaskForm form, bool codes) {
  if (style == PromptStyle::kIntent) return {"", std::string(words(ego.intent))};
  if (style == PromptStyle::kCompact) return {"", fmt::format("{}\n{}", words(ego.intent), compact_history(ego))};
  return {tasks(form, codes),
          fmt::format("\n- navigation command: {}\n- ego states:\n{}Output:", words(ego.intent), full_history(ego))};
}

}  // namespace slip
