// SPDX-License-Identifier: Apache-2.0
// What a picture shows of an answer. wod-e2e has parts of its own. A reasoning in lines (drive-cot) becomes groups of lines, each object
// with what is said of it; objects that are none are left out. Texts of other forms are listed by name.
#include <algorithm>

#include "api/answers.h"
#include "api/request/requests.h"
#include "picture/picture.h"
#include "sim/cot.h"
#include "sim/world.h"

namespace slip::api {

namespace {

using Texts = std::vector<std::pair<std::string, std::string>>;

const std::string& text_of(const Texts& texts, std::string_view name) {
  static const std::string kNone;
  const auto at = std::find_if(texts.begin(), texts.end(), [&](const auto& t) { return t.first == name; });
  return at == texts.end() || at->second == sim::kCotNone ? kNone : at->second;
}

/// The things that an enumeration names.
std::vector<std::string> named_in(std::string_view text) {
  std::vector<std::string> out;
  while (!text.empty()) {
    const size_t end = std::min(text.find(';'), text.size());
    std::string_view one = text.substr(0, end);
    while (one.starts_with(' ')) one.remove_prefix(1);
    if (!one.empty()) out.emplace_back(one);
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return out;
}

PictureGroup scene_of(const Texts& texts) {
  PictureGroup out{"SCENE", "", {}};
  // What matters least goes first where there is no room; that there is no light, sign or junction goes without saying.
  const auto line = [&](std::string_view label, std::string_view field, int weight) {
    const std::string& text = text_of(texts, field);
    if (!text.empty()) out.lines.push_back({std::string(label), text, "", text.starts_with("no ") ? 3 : weight});
  };
  line("light", "lighting", 1);
  line("weather", "weather", 1);
  line("road", "road_condition", 1);
  line("road type", "road_type", 2);
  line("junction", "junction", 0);
  const std::vector<std::string> lanes = named_in(text_of(texts, "lanes"));
  for (size_t i = 0; i < lanes.size(); ++i)
    line(lanes.size() == 1 ? "lane" : fmt::format("lane, {}", lanes[i]), fmt::format("lane_{}", i + 1), 0);
  line("traffic light", "traffic_light", 0);
  line("traffic sign", "traffic_sign", 0);
  line("more rules", "additional_regulation", 0);
  if (const std::string& rule = text_of(texts, "traffic_regulation"); !rule.empty()) out.lines.push_back({"rules", rule, "", 0});
  return out;
}

PictureGroup things_of(const Texts& texts, const std::optional<sim::Labels>& labels) {
  PictureGroup out{"CRITICAL OBJECTS", "", {}};
  const std::vector<std::string> names = named_in(text_of(texts, "critical_objects"));
  for (size_t i = 0; i < names.size(); ++i) {
    const auto part = [&](std::string_view what) { return text_of(texts, fmt::format("object_{}.{}", i + 1, what)); };
    const std::string type = part("type"), position = part("position");
    out.lines.push_back({names[i], type + (type.empty() || position.empty() ? "" : "; ") + position, part("justification"), 0});
  }
  if (names.empty()) out.lines.push_back({"none", "", "", 0});
  if (const std::string& all = text_of(texts, "interactive"); !all.empty() && names.size() > 1)
    out.lines.push_back({"together", all, "", 2});
  if (!labels) return out;
  const auto truth = sim::cot_labels(labels->seed, labels->family, labels->frame_s);
  if (!truth || named_in(truth->critical_objects) == names) return out;
  out.note = "truth: " + (truth->critical_objects == sim::kCotNone ? "none" : truth->critical_objects);
  return out;
}

/// Sorts the texts of an answer into the picture's parts.
void add_texts(PictureInput& p, Texts texts, const std::optional<sim::Labels>& truth) {
  const bool lines = std::any_of(texts.begin(), texts.end(), [](const auto& t) { return t.first == "ego_behavior"; });
  if (lines) {
    p.reasoning.push_back(scene_of(texts));
    p.reasoning.push_back(things_of(texts, truth));
  }
  for (auto& [name, text] : texts) {
    if (name == "explanation" || name == "ego_behavior" || name == "cot")
      p.explanation = std::move(text);
    else if (name == "future_meta_behavior.longitudinal" || name == "meta_action.longitudinal")
      p.longitudinal = std::move(text);
    else if (name == "future_meta_behavior.lateral" || name == "meta_action.lateral")
      p.lateral = std::move(text);
    else if (!lines && !name.starts_with("critical_objects."))
      p.fields.emplace_back(name, std::move(text));
  }
}

std::string numbers_text(const std::vector<double>& numbers) {
  std::string out;
  for (const double n : numbers) out += fmt::format("{}{:.4g}", out.empty() ? "" : "  ", n);
  return out;
}

void add_answer(PictureInput& p, const std::optional<sim::Labels>& truth, const Answer& answer) {
  const auto objects = objects_of(answer.form->form, answer.values);
  for (size_t c = 0; c < objects.size(); ++c) {
    if (!objects[c]) continue;
    p.objects.emplace_back(std::string(sim::kObjectClasses[c]), *objects[c]);
    p.truth_objects.push_back(truth ? std::optional<bool>(truth->critical[c]) : std::nullopt);
  }
  Texts texts;
  for (size_t f = 0; f < answer.values.size(); ++f) {
    const std::string& name = answer.form->form.fields()[f].name;
    if (const auto* text = std::get_if<std::string>(&answer.values[f]))
      texts.emplace_back(name, *text);
    else if (const auto* numbers = std::get_if<std::vector<double>>(&answer.values[f]))
      texts.emplace_back(name, numbers_text(*numbers));
  }
  add_texts(p, std::move(texts), truth);
}

}  // namespace

namespace {

/// Are these the simulator's three cameras? The path is drawn over them.
bool simulated(const std::vector<Image>& images) {
  return images.size() == sim::kCameras && std::all_of(images.begin(), images.end(), [](const Image& x) {
           return x.width == sim::kImageWidth && x.height == sim::kImageHeight;
         });
}

void add_scene(PictureInput& p, const sim::Labels& truth) {
  for (int i = 1; i <= 20; ++i) p.truth_path.push_back(sim::future_at(truth, i / 4.0));
  if (auto moment = sim::moment_at(truth.seed, truth.family, truth.frame_s)) p.moment = std::move(*moment);
  p.title = fmt::format("Slipstream   scene {} ({})   {}", truth.seed, sim::family_names()[truth.family], words(truth.intent));
}

std::vector<std::pair<std::string, std::string>> facts_of(const Answer& answer) {
  const Statistics& s = answer.decoded.statistics;
  return {{"decoder", answer.method.preset},
          {"answer", answer.method.lossy()   ? "lossy"
                     : answer.method.exact() ? "exact"
                                             : "same law"},
          {"forward passes", fmt::format("{}", s.forwards)},
          {"tokens", fmt::format("{} ({} forced)", s.tokens, s.forced_tokens)},
          {"accepted / tested", s.tested ? fmt::format("{} / {}", s.accepted, s.tested) : "no drafts"},
          {"time", fmt::format("{:.1f} ms", answer.stages.total_ms)}};
}

}  // namespace

Result<std::string> draw_answer(const slipstream::Answer::Impl& a, FigureFormat format) {
  PictureInput p;
  p.title = "Slipstream";
  p.images = a.request.images;
  for (const Waypoint& w : a.answer.plan.waypoints) p.waypoints.push_back({w.x, w.y});
  if (a.answer.plan.fitted)
    for (const Waypoint& w : a.answer.plan.fitted->points) p.path.push_back({w.x, w.y});
  if (a.request.ego)
    for (const sim::EgoState& s : a.request.ego->history) p.history.push_back({s.x, s.y});
  std::optional<sim::Labels> truth;
  if (a.asked.truth) truth = a.asked.truth->labels;
  p.simulated_cameras = truth && simulated(p.images);
  if (truth) add_scene(p, *truth);
  if (a.answer.form) {
    add_answer(p, truth, a.answer);
  } else {
    p.explanation = a.answer.text;
  }
  p.facts = facts_of(a.answer);
  return draw_picture(p, format);
}

}  // namespace slip::api
