// SPDX-License-Identifier: Apache-2.0
// FastDriveCoT's template [FastDriveCoT, section 3]: ten fields that depend on the images alone, lanes and
// objects in two stages, summaries, the ego's behaviour; then meta-actions and the trajectory. Differs from the paper: its
// trajectory is six codebook tokens or a flow head, here five waypoints as wod-e2e writes them, their numbers side by side, or, where a
// model has a codebook, its codes one after another; the words of the meta-actions are wod-e2e's. Field names, order and words are data of a trained checkpoint.
#include "form/builtin/builtin.h"

namespace slip {
namespace {

json::object text(int32_t budget, json::array parents) {
  return {{"type", "string"}, {"x-budget", budget}, {"x-parents", std::move(parents)}};
}

json::object enumeration(int32_t budget, int32_t instances, bool absent) {
  json::object o = text(budget, {});
  o["x-instances"] = instances;
  o["x-instance-separator"] = ";";
  o["x-placeholder"] = "N/A";
  if (absent) o["x-unused"] = "absent";
  return o;
}

void as_instance(json::object& o, std::string_view of, int32_t instance) {
  o["x-instance-of"] = of;
  o["x-instance"] = instance;
}

/// "{prefix}1{suffix}" .. "{prefix}n{suffix}"
json::array numbered(std::string_view prefix, int32_t n, std::string_view suffix) {
  json::array names;
  for (int32_t i = 1; i <= n; ++i) names.push_back(json::string(fmt::format("{}{}{}", prefix, i, suffix)));
  return names;
}

json::object object(const DriveCotOptions& options, int32_t number) {
  const std::string name = fmt::format("object_{}", number);
  json::object o{
      {"type", "object"},
      {"properties",
       {{"position", text(options.position_budget, {"critical_objects"})},
        {"type", text(options.type_budget, {"critical_objects"})},
        {"justification", text(options.justification_budget, {json::string(name + ".position"), json::string(name + ".type")})}}}};
  as_instance(o, "critical_objects", number - 1);
  return o;
}

void reasoning(const DriveCotOptions& options, json::object& out) {
  for (const char* name : {"lighting", "road_condition", "weather", "junction", "road_type"})
    out[name] = text(options.condition_budget, {});
  out["lighting"].as_object()["x-section"] = "cot";
  out["lanes"] = enumeration(options.lanes_budget, options.lanes, options.absent);
  for (int32_t i = 1; i <= options.lanes; ++i) {
    json::object lane = text(options.lane_budget, {"lanes"});
    as_instance(lane, "lanes", i - 1);
    out[fmt::format("lane_{}", i)] = std::move(lane);
  }
  out["critical_objects"] = enumeration(options.objects_budget, options.objects, options.absent);
  for (int32_t i = 1; i <= options.objects; ++i) out[fmt::format("object_{}", i)] = object(options, i);
  for (const char* name : {"traffic_light", "traffic_sign", "additional_regulation"})
    out[name] = text(options.regulation_budget, {});
  out["traffic_regulation"] = text(options.summary_budget, {"junction", "traffic_light", "traffic_sign", "additional_regulation"});
  json::array scene{"lighting", "road_condition", "weather", "road_type"};
  for (const json::value& lane : numbered("lane_", options.lanes, "")) scene.push_back(lane);
  out["non_interactive"] = text(options.summary_budget, std::move(scene));
  out["interactive"] = text(options.summary_budget, numbered("object_", options.objects, ".justification"));
  out["ego_behavior"] = text(options.ego_behavior_budget, {"traffic_regulation", "non_interactive", "interactive"});
}

json::object meta_action(json::array parents) {
  return {{"type", "object"},
          {"x-section", "meta_action"},
          {"x-parents", std::move(parents)},
          {"properties",
           {{"longitudinal", json::object{{"enum", {"keep speed", "speed up", "slow down", "come to stop"}}}},
            {"lateral",
             json::object{{"enum", {"go straight", "lane follow", "turn left", "turn right", "change left", "change right"}}}}}}};
}

/// One field: a code goes on from where the ones before it end.
json::object codes(const DriveCotOptions& options) {
  const json::object range{
      {"first", code_token(options, 0)}, {"last", code_token(options, options.code_values - 1)}, {"count", options.code_values}};
  return {{"type", "array"},
          {"x-section", "trajectory"},
          {"x-parents", {"meta_action"}},
          {"items", json::object{{"type", "integer"}, {"x-bins", range}}},
          {"minItems", options.codes},
          {"maxItems", options.codes}};
}

json::object trajectory(const DriveCotOptions& options) {
  if (options.codes > 0) return codes(options);
  const json::object number{{"type", "number"}, {"x-format", " +000.00"}};
  const json::object point{{"type", "array"}, {"items", number},    {"minItems", 2},
                           {"maxItems", 2},   {"x-separator", ","}, {"x-independent", true}};
  return {{"type", "array"}, {"x-section", "trajectory"},     {"x-parents", {"meta_action"}}, {"x-independent", true},
          {"items", point},  {"minItems", options.waypoints}, {"maxItems", options.waypoints}};
}

}  // namespace

std::string code_token(const DriveCotOptions& options, int32_t code) { return fmt::format("<|{}_{}|>", options.code_tokens, code); }

json::value drive_cot_schema(const DriveCotOptions& options) {
  json::object properties;
  if (options.reasoning) reasoning(options, properties);
  properties["meta_action"] = meta_action(options.reasoning ? json::array{"ego_behavior"} : json::array{});
  properties["trajectory"] = trajectory(options);
  return json::object{{"title", "drive-cot"},
                      {"type", "object"},
                      {"x-layout", "lines"},
                      {"x-block-size", options.block_size},
                      {"properties", std::move(properties)}};
}

Result<CompiledForm> drive_cot_form(const FormTokens& tokens, const DriveCotOptions& options) {
  return compile_schema(drive_cot_schema(options), "drive-cot", tokens);
}

}  // namespace slip
