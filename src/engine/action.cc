// SPDX-License-Identifier: Apache-2.0
// The parts of a request for models that are no drivers by text: OpenVLA and MiniVLA (instruction and picture in, one action out), and
// the ego history as a row (dino_qwen).
//
// Two ways to ask OpenVLA: over its form, where every token is one of the bins; and as free text (`--form none`), which is the
// published decoder to the letter: plain greedy decoding of as many tokens as the action has numbers, no end token, ids that are no
// bins clipped. Both end in Answer::action.
#include "engine/answering.h"

namespace slip {

Result<json::value> own_action_schema(const ActionConfig& action, const Tokenizer& t, std::string_view unnorm_key) {
  OpenVlaOptions options{.extra_tokens = action.prompt == ActionConfig::Prompt::kQwen};
  if (const auto chosen = choose_statistics(action, unnorm_key)) {
    options.dimensions = static_cast<int>((*chosen)->second.q01.size());
  } else if (!unnorm_key.empty()) {
    return chosen.error();
  }
  const ActionBins bins(action.bound, action.bins);
  if (bins.last().value >= t.size())
    return bad_input("actions: expected a tokenizer with the ids {} to {}, got {} ids", bins.first().value, bins.last().value,
                     t.size());
  json::value schema = openvla_action_schema(options);
  json::object& field = schema.at("properties").at("action").as_object();
  json::object& range = field.at("items").at("x-bins").as_object();
  range["first"] = t.token_text(bins.first());
  range["last"] = t.token_text(bins.last());
  range["count"] = action.bins;
  field["x-before"] = {action_blank(action.prompt)};
  return schema;
}

Result<Prompt> Answering::action_prompt(std::span<const PatchGrid> images) {
  if (request_.ego)
    return unsupported("{}: expected --prompt with an instruction, since its actions are a robot's, got an ego history",
                       model_.folder().string());
  if (request_.prompt.empty()) return bad_input("--prompt: expected an instruction, got nothing");
  const ActionConfig& action = *model_.config().action;
  SLIP_TRY(std::vector<TokenId> tokens, model_.prompt_tokens(openvla_prompt(action.prompt, request_.prompt)));
  // Over a form this token is the form's first.
  if (const auto blank = model_.tokenizer()->find(action_blank(action.prompt));
      request_.free_text() && blank && (tokens.empty() || tokens.back() != *blank))
    tokens.push_back(*blank);
  return model_.build_prompt(tokens, images, {}, request_.context.cancel);
}

/// A schema in memory stands in place of what `form` names.
bool Answering::asks_actions() const { return request_.form_schema.empty() && is_action_form(model_.config(), request_.form); }

Status Answering::check_statistics() const {
  const auto chosen = choose_statistics(*model_.config().action, request_.unnorm_key);
  return chosen ? Status() : Status(chosen.error());
}

Result<std::vector<double>> Answering::action_scale() const {
  std::vector<double> scale;
  if (!asks_actions()) return scale;
  SLIP_TRY(const auto* chosen, choose_statistics(*model_.config().action, request_.unnorm_key));
  const ActionStatistics& s = chosen->second;
  for (size_t i = 0; i < s.q01.size(); ++i) scale.push_back(s.mask[i] ? (s.q99[i] - s.q01[i]) / 2 : 1);
  return scale;
}

Status Answering::read_action() {
  const auto& action = model_.config().action;
  if (!action || !out_.decoded.valid) return {};
  std::vector<TokenId> tokens = out_.decoded.tokens;
  if (out_.form) {
    if (!asks_actions()) return {};
    SLIP_TRY(const auto contents, split_answer(out_.form->form, out_.decoded.tokens));
    tokens = contents.front();
  }
  SLIP_TRY(out_.action, decode_action(*action, tokens, request_.unnorm_key));
  return {};
}

std::vector<float> Answering::history_of_prompt() const {
  const auto& config = model_.config().history;
  return config && request_.ego ? history_numbers(*request_.ego, config->states) : std::vector<float>();
}

}  // namespace slip
