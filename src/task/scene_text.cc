// SPDX-License-Identifier: Apache-2.0
// See scene_text.h.
#include "task/scene_text.h"

#include <fmt/format.h>

#include <vector>

#include "base/philox.h"
#include "sim/record/make.h"

namespace slip {
namespace {

constexpr uint64_t kRequestSeed = 0x7e47;  // the key of requests: any, but no other stream's

std::string words_of(std::string_view name) {
  std::string out(name);
  for (char& c : out)
    if (c == '_') c = ' ';
  return out;
}

std::vector<std::string> named(const std::array<bool, 12>& which) {
  std::vector<std::string> out;
  for (size_t i = 0; i < which.size(); ++i)
    if (which[i]) out.push_back(words_of(sim::kObjectClasses[i]));
  return out;
}

std::string joined(const std::vector<std::string>& parts, std::string_view between, std::string_view around = "") {
  std::string out;
  for (const std::string& p : parts) out += fmt::format("{}{}{}{}", out.empty() ? "" : between, around, p, around);
  return out;
}

/// "a, b and c".
std::string listed(const std::vector<std::string>& parts) {
  if (parts.size() < 2) return joined(parts, "");
  const std::vector<std::string> front(parts.begin(), parts.end() - 1);
  return joined(front, ", ") + " and " + parts.back();
}

std::string_view intent_of(const sim::Labels& l) {
  return l.intent == sim::Intent::kGoLeft ? "left" : l.intent == sim::Intent::kGoRight ? "right" : "straight";
}

struct Facts {
  std::string speed, intent, longitudinal, lateral;
  std::vector<std::string> seen, critical;
};

Facts facts_of(const sim::Labels& l) {
  Facts f;
  f.speed = fmt::format("{:.1f}", static_cast<double>(l.v0_mps));
  f.intent = intent_of(l);
  f.longitudinal = sim::words(l.longitudinal);
  f.lateral = sim::words(l.lateral);
  std::array<bool, 12> seen = l.visible;  // what matters is seen, too
  for (size_t i = 0; i < seen.size(); ++i) seen[i] = seen[i] || l.critical[i];
  f.seen = named(seen);
  f.critical = named(l.critical);
  return f;
}

std::string describe(const Facts& f) {
  std::string out = fmt::format("The car drives at {} m/s and shall go {}. ", f.speed, f.intent);
  out += f.seen.empty() ? "Nothing is seen. " : fmt::format("It sees {}. ", listed(f.seen));
  if (!f.seen.empty()) out += f.critical.empty() ? "Nothing is critical. " : fmt::format("Critical: {}. ", listed(f.critical));
  return out + fmt::format("It will {} and {}.", f.longitudinal, f.lateral);
}

std::string is_critical(const sim::Labels& l, uint32_t object) {
  const std::string name = words_of(sim::kObjectClasses[object]);
  if (l.critical[object]) return fmt::format("Yes, {} is critical.", name);
  if (l.visible[object]) return fmt::format("No, {} is seen but not critical.", name);
  return fmt::format("No, {} is not seen.", name);
}

std::string json_of(const Facts& f) {
  return fmt::format(R"({{"speed": {}, "intent": "{}", "seen": [{}], "critical": [{}], "plan": ["{}", "{}"]}})", f.speed, f.intent,
                     joined(f.seen, ", ", "\""), joined(f.critical, ", ", "\""), f.longitudinal, f.lateral);
}

std::string code_of(const Facts& f) {
  std::string out = fmt::format("car = Car(speed={}, intent=\"{}\")\n", f.speed, f.intent);
  for (const std::string& object : f.critical) out += fmt::format("car.watch(\"{}\")\n", object);
  return out + fmt::format("car.plan(\"{}\", \"{}\")", f.longitudinal, f.lateral);
}

std::string record_of(const Facts& f) {
  return fmt::format("speed {} m/s\nintent {}\nseen {}\ncritical {}\nplan {}, {}\n", f.speed, f.intent,
                     f.seen.empty() ? "nothing" : joined(f.seen, ", "), f.critical.empty() ? "nothing" : joined(f.critical, ", "),
                     f.longitudinal, f.lateral);
}

}  // namespace

SceneText scene_text(const sim::Labels& l, SceneRequest request, uint32_t object) {
  const Facts f = facts_of(l);
  const std::string record = record_of(f);
  switch (request) {
    case SceneRequest::kDescribe:
      return {request, record + "Describe the scene.", describe(f)};
    case SceneRequest::kPlan:
      return {request, record + "What is next?", fmt::format("It will {} and {}.", f.longitudinal, f.lateral)};
    case SceneRequest::kCritical:
      return {request, record + fmt::format("Is {} critical?", words_of(sim::kObjectClasses[object])), is_critical(l, object)};
    case SceneRequest::kCount:
      return {request, record + "How many are seen?",
              f.seen.empty() ? "0." : fmt::format("{}: {}.", f.seen.size(), joined(f.seen, ", "))};
    case SceneRequest::kJson:
      return {request, record + "As JSON.", json_of(f)};
    case SceneRequest::kCode:
      break;
  }
  return {SceneRequest::kCode, record + "As code.", code_of(f)};
}

Result<SceneText> scene_text_at(uint64_t first_seed, int64_t index) {
  SLIP_TRY(const sim::Record record, sim::make_record(first_seed + static_cast<uint64_t>(index), {}, false));
  PhiloxStream draw(kRequestSeed, first_seed + static_cast<uint64_t>(index));
  const auto request = static_cast<SceneRequest>(draw.below(kSceneRequests));
  // Half of the questions are about what is there: a class drawn among all is absent nine times in ten.
  uint32_t object = draw.below(12);
  if (draw.uniform() < 0.5)
    for (uint32_t i = 0; i < 12 && !record.labels.visible[object]; ++i) object = (object + 1) % 12;
  return scene_text(record.labels, request, object);
}

}  // namespace slip
