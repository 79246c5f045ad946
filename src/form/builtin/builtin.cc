// SPDX-License-Identifier: Apache-2.0
// Key order, words and number format are data of the trained checkpoint: changing one makes another form.
#include "form/builtin/builtin.h"

#include <array>

namespace slip {
namespace {

constexpr std::array<std::string_view, 5> kNames = {"wod-e2e", "drive-cot", "openvla-action", "minivla-action", "alpamayo-coc"};
constexpr std::array<std::string_view, 12> kObjects = {
    "nearby_vehicle", "pedestrian",        "cyclist", "construction",    "traffic_element",     "weather_condition",
    "road_hazard",    "emergency_vehicle", "animal",  "special_vehicle", "conflicting_vehicle", "door_opening_vehicle"};

json::object critical_objects() {
  json::object properties;
  for (const std::string_view name : kObjects) properties[name] = json::object{{"enum", {"yes", "no"}}};
  return {
      {"type", "object"}, {"x-section", "critical_objects"}, {"x-parents", json::array{}}, {"properties", std::move(properties)}};
}

json::object behaviour(const WodE2eOptions& options) {
  // The aliases are the words of the prompt and of other label sets for the same manoeuvres.
  json::object longitudinal{
      {"enum", {"keep speed", "speed up", "slow down", "come to stop"}},
      {"x-budget", options.behaviour_budget},
      {"x-null-pad", true},
      {"x-aliases", {{"keep", "keep speed"}, {"accelerate", "speed up"}, {"decelerate", "slow down"}, {"stop", "come to stop"}}}};
  json::object lateral{{"enum", {"go straight", "lane follow", "turn left", "turn right", "change left", "change right"}},
                       {"x-budget", options.behaviour_budget},
                       {"x-null-pad", true},
                       {"x-aliases",
                        {{"straight", "go straight"},
                         {"lane_follow", "lane follow"},
                         {"left_turn", "turn left"},
                         {"left turn", "turn left"},
                         {"right_turn", "turn right"},
                         {"right turn", "turn right"},
                         {"lane_change_left", "change left"},
                         {"lane_change_right", "change right"}}}};
  return {{"type", "object"},
          {"x-section", "future_meta_behavior"},
          {"x-parents", {"explanation"}},
          {"properties", {{"longitudinal", std::move(longitudinal)}, {"lateral", std::move(lateral)}}}};
}

json::object trajectory(const WodE2eOptions& options) {
  // "[[ +014.70, -000.04], [ +029.55, ...": the space before the sign belongs to the number, it stops merges with the bracket.
  const json::object number{{"type", "number"}, {"x-format", " +000.00"}};
  const json::object point{{"type", "array"}, {"items", number}, {"minItems", 2}, {"maxItems", 2}, {"x-separator", ","}};
  const json::object points{{"type", "array"}, {"items", point}, {"minItems", options.waypoints}, {"maxItems", options.waypoints}};
  return {{"type", "string"}, {"x-section", "trajectory"}, {"x-parents", {"future_meta_behavior"}}, {"x-content", points}};
}

}  // namespace

json::value wod_e2e_schema(const WodE2eOptions& options) {
  return json::object{{"title", "wod-e2e"},
                      {"type", "object"},
                      {"x-block-size", options.block_size},
                      {"properties", json::object{{"critical_objects", critical_objects()},
                                                  {"explanation", json::object{{"type", "string"},
                                                                               {"x-section", "explanation"},
                                                                               {"x-parents", {"critical_objects"}},
                                                                               {"x-budget", options.explanation_budget},
                                                                               {"x-null-pad", true}}},
                                                  {"future_meta_behavior", behaviour(options)},
                                                  {"trajectory", trajectory(options)}}}};
}

std::span<const std::string_view> builtin_forms() { return kNames; }

std::optional<json::value> builtin_schema(std::string_view name) {
  if (name == kNames[0]) return wod_e2e_schema();
  if (name == kNames[1]) return drive_cot_schema();
  if (name == kNames[2]) return openvla_action_schema();
  if (name == kNames[3]) return openvla_action_schema({.extra_tokens = true});
  if (name == kNames[4]) return alpamayo_coc_schema();
  return std::nullopt;
}

Result<CompiledForm> wod_e2e_form(const FormTokens& tokens, const WodE2eOptions& options) {
  return compile_schema(wod_e2e_schema(options), "wod-e2e", tokens);
}

}  // namespace slip
