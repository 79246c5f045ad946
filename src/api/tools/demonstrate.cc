// SPDX-License-Identifier: Apache-2.0
// slipstream::demonstrate: a held-out simulated scene, answered by several decoders; the same bytes from every exact one, fewer passes each
// time.
#include <algorithm>
#include <array>
#include <filesystem>

#include "api/answers.h"
#include "api/boundary.h"
#include "api/engines.h"
#include "api/request/requests.h"
#include "api/tools/asked.h"
#include "api/tools/reports.h"
#include "base/file.h"
#include "decode/types/method.h"
#include "decode/types/presets.h"
#include "sim/cot.h"
#include "sim/record/make.h"
#include "task/wod.h"

namespace slip::api {

namespace {

// The slow way first; the last one is shown.
constexpr std::array kShownOfGraph{preset("ar"), preset("scaffold-spec"), preset("fields"), preset("fields-spec"), kAutomatic};
constexpr std::array kShownOfChain{preset("ar"), preset("scaffold-ar"), preset("section-diffusion"), preset("scaffold-spec"),
                                   kAutomatic};

// The answer for a person at a terminal, the expert's beside it; instances that say they are none are left out.
class Shown {
 public:
  void line(std::string name, std::string text) { lines_.emplace_back(std::move(name), std::move(text)); }
  std::string text() const {
    size_t width = 17;
    for (const auto& [name, text] : lines_) width = std::max(width, name.size());
    std::string out;
    for (const auto& [name, text] : lines_) out += fmt::format("  {:<{}}  {}\n", name, width, text);
    return out + "\n";
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

std::string shown_answer(const Answer& a, const sim::Labels& truth) {
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
  return shown.text();
}

struct Shows {
  std::vector<slipstream::Answer> answers;
  json::array lines;
  std::string table =
      fmt::format("  {:<20} {:>8} {:>10} {:>8} {:>18} {:>10}\n", "decoder", "forwards", "rows", "ms", "accepted/tested", "bytes");
};

Status show_preset(slipstream::Engine& engine, slipstream::Request& request, std::string_view preset, Shows& shows) {
  request.decoder.preset = preset;
  SLIP_TRY([[maybe_unused]] const slipstream::Answer first, engine.answer(request));  // settles buffers
  SLIP_TRY(slipstream::Answer a, engine.answer(request));
  const bool lossy = a.decoder.lossy;
  if (!lossy && !shows.answers.empty() && a.tokens != shows.answers.front().tokens)
    return check_failed("demo: {}: expected the tokens of {}, got others", preset, shows.answers.front().decoder.preset);
  const slipstream::Statistics& s = a.statistics;
  shows.table += fmt::format("  {:<20} {:>8} {:>10} {:>8.1f} {:>18} {:>10}\n", preset, s.forwards, s.rows, s.total_ms,
                             s.tested ? fmt::format("{}/{}", s.accepted, s.tested) : "-", lossy ? "lossy" : "equal");
  const Answer& inside = a.impl->answer;
  shows.lines.push_back(json::object{{"decoder", decoder_json(inside.method, inside.form.get(), &inside.chosen)},
                                     {"statistics", statistics_json(inside)},
                                     {"equal", lossy ? json::value("lossy") : json::value(true)}});
  shows.answers.push_back(std::move(a));
  return {};
}

// From the first answer on the scene's line is told, whatever becomes of the rest.
Status show(const std::string& folder, const slipstream::DemonstrateOptions& o, const slipstream::Progress& progress,
            const slipstream::CancelToken& cancel, slipstream::Report& out) {
  SLIP_TRY_(check_figure_target(o.png));
  SLIP_TRY(slipstream::Request request, slipstream::request_of_scene(o.seed ? o.seed : kHeldOutScene));
  request.cancel = cancel;
  SLIP_TRY(slipstream::Engine engine,
           slipstream::Engine::load(folder, {.dtype = o.dtype, .device = o.device, .threads = o.threads}, progress, cancel));
  const sim::Labels& truth = request.truth->labels;
  Shows shows;
  const bool graph = engine.impl().engine->visibility() == Visibility::kGraph;
  for (const std::string_view name : graph ? kShownOfGraph : kShownOfChain) {
    SLIP_TRY_(show_preset(engine, request, name, shows));
    if (!out.text.empty()) continue;
    out.text = fmt::format("Scene {} ({}), {}, {:.1f} m/s: three cameras and the ego history in, the form out.\n\n", truth.seed,
                           sim::family_names()[truth.family], words(truth.intent), truth.v0_mps);
  }
  const slipstream::Answer& last = shows.answers.back();
  if (!o.png.empty()) {
    std::error_code ec;
    std::filesystem::create_directories(std::filesystem::path(o.png).parent_path(), ec);
    const bool svg = std::filesystem::path(o.png).extension() == ".svg";
    SLIP_TRY(const std::string picture, svg ? last.to_svg() : last.to_png());
    SLIP_TRY_(write_file(o.png, picture));
  }
  out.json = line_of(json::object{
      {"seed", truth.seed}, {"dtype", engine.info().dtype}, {"answer", last.text}, {"decoders", std::move(shows.lines)}});
  out.text += shown_answer(last.impl->answer, truth) + shows.table;
  out.text += fmt::format("\n  auto: {}\n", last.impl->answer.chosen.why);
  if (!o.png.empty()) out.text += fmt::format("\n  picture: {}\n", o.png);
  return {};
}

}  // namespace

}  // namespace slip::api

namespace slipstream {

Result<Report> demonstrate(const std::string& folder, const DemonstrateOptions& options, const Progress& progress,
                           const CancelToken& cancel) {
  return slip::api::bounded([&]() -> Result<Report> {
    Report out;
    Status shown = slip::api::show(folder, options, progress, cancel, out);
    if (!shown && out.text.empty()) return shown.error();
    out.outcome = std::move(shown);
    return out;
  });
}

}  // namespace slipstream
