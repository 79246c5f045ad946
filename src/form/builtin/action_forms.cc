// SPDX-License-Identifier: Apache-2.0
// Forms whose answers are ids rather than text [docs/notes/checkpoints.md#openvla, docs/notes/driving.md#alpamayo].
// A form has a fixed token before every field, and actions stand side by side: the seven numbers are one field of seven tokens,
// index = dimension, and the token that the published prompts end in is the form's first. So prompts are given without it.
#include "form/builtin/builtin.h"

namespace slip {
namespace {

// Alpamayo-R1, table 1: at most one decision per channel, or none.
json::object decisions(json::array words) {
  words.push_back("none");
  return {{"enum", std::move(words)}};
}

json::object meta_action() {
  json::object longitudinal = decisions({"set speed tracking", "lead obstacle following", "speed adaptation", "gap-searching",
                                         "acceleration for passing/overtaking", "yield", "stop for static constraints"});
  json::object lateral = decisions({"lane keeping & centering", "merge/split", "out-of-lane nudge", "in-lane nudge", "lane change",
                                    "pull-over/curb approach", "turn", "lateral maneuver abort"});
  lateral["x-before"] = {","};
  lateral["x-space"] = true;
  return {{"type", "object"},
          {"x-section", "meta_action"},
          {"x-parents", {"cot"}},
          {"x-before", {"<|meta_action_start|>"}},
          {"x-after", {"<|meta_action_end|>"}},
          {"properties", {{"longitudinal", std::move(longitudinal)}, {"lateral", std::move(lateral)}}}};
}

}  // namespace

json::value openvla_action_schema(const OpenVlaOptions& options) {
  // 256 bins over -1 .. 1, the largest value on the smallest id: the last ids of Llama 2's vocabulary, or 256 extra ones
  // (docs/notes/checkpoints.md#openvla).
  const bool mini = options.extra_tokens;
  const json::object bins{{"first", mini ? "<|extra_0|>" : "\u5fe0"},
                          {"last", mini ? "<|extra_255|>" : "\u7ed9"},
                          {"count", 256},
                          {"descending", true},
                          {"low", -1.0},
                          {"high", 1.0}};
  // What the prompt ends in: the blank that Llama's tokenizer leaves behind "Out:", or the line break of the chat template.
  const json::object action{{"type", "array"},
                            {"minItems", options.dimensions},
                            {"maxItems", options.dimensions},
                            {"x-before", {mini ? "\u010a" : "\u2581"}},
                            {"items", json::object{{"type", "number"}, {"x-bins", bins}}}};
  return json::object{{"title", mini ? "minivla-action" : "openvla-action"},
                      {"type", "object"},
                      {"x-layout", "tokens"},
                      {"x-block-size", options.dimensions},
                      {"properties", json::object{{"action", action}}}};
}

json::value alpamayo_coc_schema(const AlpamayoOptions& options) {
  const json::object cot{{"type", "string"},
                         {"x-section", "cot"},
                         {"x-parents", json::array{}},
                         {"x-budget", options.cot_budget},
                         {"x-before", {"<|cot_start|>"}},
                         {"x-after", {"<|cot_end|>"}}};
  const json::object bins{
      {"first", "<i0>"}, {"last", fmt::format("<i{}>", options.trajectory_vocab - 1)}, {"count", options.trajectory_vocab}};
  const json::object trajectory{{"type", "array"},
                                {"x-section", "trajectory"},
                                {"x-parents", {"meta_action"}},
                                {"x-before", {"<|traj_future_start|>"}},
                                {"x-after", {"<|traj_future_end|>"}},
                                {"minItems", options.trajectory_ids},
                                {"maxItems", options.trajectory_ids},
                                {"items", json::object{{"type", "integer"}, {"x-bins", bins}}}};
  return json::object{{"title", "alpamayo-coc"},
                      {"type", "object"},
                      {"x-layout", "tokens"},
                      {"x-block-size", options.block_size},
                      {"properties", json::object{{"cot", cot}, {"meta_action", meta_action()}, {"trajectory", trajectory}}}};
}

Result<CompiledForm> openvla_action_form(const FormTokens& tokens, const OpenVlaOptions& options) {
  return compile_schema(openvla_action_schema(options), options.extra_tokens ? "minivla-action" : "openvla-action", tokens);
}

Result<CompiledForm> alpamayo_coc_form(const FormTokens& tokens, const AlpamayoOptions& options) {
  return compile_schema(alpamayo_coc_schema(options), "alpamayo-coc", tokens);
}

}  // namespace slip
