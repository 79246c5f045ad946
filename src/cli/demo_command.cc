// SPDX-License-Identifier: Apache-2.0
// `demo`: a held-out simulated scene, answered by four decoders; the same bytes from every exact one, fewer passes each time.
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <thread>

#include "cli/output.h"
#include "cli/requests.h"
#include "eval/evaluate.h"
#include "image/image.h"
#include "sim/cot.h"
#include "sim/record/make.h"

namespace slip::cli {

namespace {

// The slow way first; the last one is shown.
std::vector<std::string_view> presets_for(Visibility visibility) {
  if (visibility == Visibility::kGraph) return {"ar", "scaffold-spec", "fields", "fields-spec"};
  return {"ar", "scaffold-ar", "section-diffusion", "scaffold-spec"};
}

// The answer for a person at a terminal, the expert's beside it; instances that say they are none are left out.
class Shown {
 public:
  void line(std::string name, std::string text) { lines_.emplace_back(std::move(name), std::move(text)); }
  void print() const {
    size_t width = 17;
    for (const auto& [name, text] : lines_) width = std::max(width, name.size());
    for (const auto& [name, text] : lines_) print_text(fmt::format("  {:<{}}  {}\n", name, width, text));
    print_text("\n");
  }

 private:
  std::vector<std::pair<std::string, std::string>> lines_;
};

void add_objects(const Answer& a, const sim::Labels& truth, Shown& shown) {
  const auto objects = objects_of(a.form->form, a.values);
  if (std::none_of(objects.begin(), objects.end(), [](const auto& x) { return x.has_value(); })) return;
  std::string yes, wrong;
  for (size_t c = 0; c < objects.size(); ++c) {
    if (objects[c].value_or(false)) yes += fmt::format("{}{}", yes.empty() ? "" : ", ", sim::kObjectClasses[c]);
    if (objects[c].value_or(false) != truth.critical[c])
      wrong += fmt::format("{}{}", wrong.empty() ? "" : ", ", sim::kObjectClasses[c]);
  }
  shown.line("critical objects", (yes.empty() ? "none" : yes) + (wrong.empty() ? "" : "   (wrong: " + wrong + ")"));
}

void show_answer(const Answer& a, const sim::Labels& truth) {
  Shown shown;
  add_objects(a, truth, shown);
  for (size_t f = 0; f < a.values.size(); ++f) {
    std::string name = a.form->form.fields()[f].name;
    const std::string* text = std::get_if<std::string>(&a.values[f]);
    if (!text || *text == sim::kCotNone || name.starts_with("critical_objects.")) continue;
    const std::string_view expert = behaviour_truth(truth, name);
    const bool lengthwise = name.ends_with(".longitudinal");
    if (lengthwise || name.ends_with(".lateral")) name = lengthwise ? "longitudinal" : "lateral";
    std::replace_if(
        name.begin(), name.end(), [](char c) { return c == '_' || c == '.'; }, ' ');
    shown.line(name, *text + (expert.empty() ? "" : fmt::format("   (expert: {})", expert)));
  }
  std::string points, expert;
  for (const Waypoint& w : a.plan.waypoints) points += fmt::format("{}({:.1f}, {:.1f})", points.empty() ? "" : " ", w.x, w.y);
  for (int t = 1; t <= 5; ++t) {
    const sim::Vec2 p = sim::future_at(truth, t);
    expert += fmt::format("{}({:.1f}, {:.1f})", t == 1 ? "" : " ", p.x, p.y);
  }
  if (!points.empty()) {
    shown.line("waypoints, m", points);
    shown.line("the expert drives", expert);
  }
  shown.print();
}

}  // namespace

Status demo(const DemoOptions& o) {
  SLIP_TRY(const sim::Record record, sim::make_record(o.seed ? o.seed : kHeldOutScene));
  SLIP_TRY(const std::unique_ptr<Engine> engine, load_engine(o.model, "auto", o.threads));
  const sim::Labels& truth = record.labels;
  if (!o.json) {
    print_text(fmt::format("Scene {} ({}), {}, {:.1f} m/s: three cameras and the ego history in, the form out.\n\n", truth.seed,
                           sim::family_names()[truth.family], words(truth.intent), truth.v0_mps));
  }
  std::vector<Answer> answers;
  json::array lines;
  std::string table =
      fmt::format("  {:<20} {:>8} {:>10} {:>8} {:>18} {:>10}\n", "decoder", "forwards", "rows", "ms", "accepted/tested", "bytes");
  const std::vector<std::string_view> presets = presets_for(engine->visibility());
  for (const std::string_view preset : presets) {
    SLIP_TRY(const Method method, method_of(preset));
    const Request request = request_of(truth, record.images, {.method = method, .context = {.cancel = CancelToken::of_process()}});
    SLIP_TRY(Answer first, engine->run(request));  // settles buffers
    SLIP_TRY(Answer a, engine->run(request));
    const std::string same = method.lossy()                                                          ? "lossy"
                             : answers.empty() || a.decoded.tokens == answers.front().decoded.tokens ? "equal"
                                                                                                     : "DIFFER";
    if (same == "DIFFER") return check_failed("demo: {}: expected the tokens of {}, got others", preset, presets[0]);
    const Statistics& s = a.decoded.statistics;
    table += fmt::format("  {:<20} {:>8} {:>10} {:>8.1f} {:>18} {:>10}\n", preset, s.forwards, s.rows, a.stages.total_ms,
                         s.tested ? fmt::format("{}/{}", s.accepted, s.tested) : "-", same);
    lines.push_back(json::object{{"decoder", decoder_json(a.method, a.form)},
                                 {"statistics", statistics_json(a)},
                                 {"equal", method.lossy() ? json::value("lossy") : json::value(true)}});
    answers.push_back(std::move(a));
  }
  if (!o.picture.empty()) {
    std::error_code ec;
    std::filesystem::create_directories(std::filesystem::path(o.picture).parent_path(), ec);
    Prepared prepared{request_of(truth, record.images, {.method = answers.back().method}), truth, true};
    SLIP_TRY_(save_png(o.picture, draw_picture(picture_of(prepared, answers.back()))));
  }
  if (o.json) {
    print_json({{"seed", truth.seed}, {"answer", answers.back().text}, {"decoders", lines}});
  } else {
    show_answer(answers.back(), truth);
    print_text(table);
    if (!o.picture.empty()) print_text(fmt::format("\n  picture: {}\n", o.picture));
  }
  return {};
}

}  // namespace slip::cli
