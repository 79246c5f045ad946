// SPDX-License-Identifier: Apache-2.0
// Reading "kind" and "objective" of the trainer's configuration; contract in config.h.
#include <algorithm>
#include <array>

#include "train/loop/config_parts.h"

namespace slip {
namespace {

// A width beyond this makes more rows of masks than any answer has tokens.
constexpr int64_t kMostDraftLength = 4096;

Status read_graph(const json::object& o, TrainConfig& c, const std::string& where) {
  SLIP_TRY_(only_keys(o, {"kind", "draft_width", "draft_share", "draft_first", "draft_narrow", "draft_weight", "weights"}, where));
  SLIP_TRY(const int64_t shift, int_or(c.model, "diffusion_shift", 0, where));
  if (shift != 1) return bad_input("{}: expected a model with diffusion_shift 1 for \"graph\", got {}", where, shift);
  GraphRule& g = c.graph_rule;
  SLIP_TRY(const int64_t width, int_or(o, "draft_width", g.draft_length, where));
  SLIP_TRY_(within(width, 2, kMostDraftLength, "draft_width", where));
  g.draft_length = static_cast<int32_t>(width);
  for (const auto& [key, value] :
       {std::pair{"draft_share", &g.draft_share}, {"draft_first", &g.draft_first}, {"draft_narrow", &g.draft_narrow}}) {
    SLIP_TRY(*value, number_or(o, key, *value, where));
    if (!(*value >= 0 && *value <= 1)) return bad_input("{}: {}: expected a number in [0, 1], got {}", where, key, *value);
  }
  SLIP_TRY(g.draft_weight, number_or(o, "draft_weight", g.draft_weight, where));
  if (!(g.draft_weight >= 0)) return bad_input("{}: draft_weight: expected at least 0, got {}", where, g.draft_weight);
  if (!o.contains("weights")) return {};
  SLIP_TRY(const json::array* weights, get_array(o, "weights", where));
  for (const json::value& v : *weights) {
    if (!v.is_object()) return bad_input("{}: weights: expected objects, got {}", where, json::serialize(v));
    SLIP_TRY_(only_keys(v.get_object(), {"of", "weight"}, where + ": weights"));
    GraphWeight rule;
    SLIP_TRY(rule.of, get_string(v.get_object(), "of", where + ": weights"));
    SLIP_TRY(rule.weight, get_number(v.get_object(), "weight", where + ": weights"));
    if (!(rule.weight >= 0)) return bad_input("{}: weights: {}: expected at least 0, got {}", where, rule.of, rule.weight);
    g.weights.push_back(std::move(rule));
  }
  return {};
}

Status read_lk(const json::object& o, LkRule& lk, const std::string& where) {
  for (const auto& [key, value] : {std::pair{"tau", &lk.tau},
                                   {"eta", &lk.eta},
                                   {"lk_weight", &lk.lk_weight},
                                   {"ce_weight", &lk.ce_weight},
                                   {"scale", &lk.scale}}) {
    SLIP_TRY(*value, number_or(o, key, *value, where));
    if (!(*value >= 0)) return bad_input("{}: {}: expected at least 0, got {}", where, key, *value);
  }
  if (!(lk.tau > 0)) return bad_input("{}: tau: expected above 0, got {}", where, lk.tau);
  SLIP_TRY(const int64_t top, int_or(o, "top", lk.top, where));
  SLIP_TRY_(within(top, 1, kMostSteps, "top", where));
  lk.top = static_cast<int32_t>(top);
  return {};
}

Status read_lora(const json::object& root, const json::object& o, TrainConfig& c, const std::string& where) {
  SLIP_TRY_(only_keys(
      o, {"kind", "rank", "alpha", "tau", "eta", "top", "lk_weight", "ce_weight", "mean", "width", "sampled", "loss", "scale"},
      where));
  if (!root.contains("init")) return bad_input("{}: expected \"init\", the model that drafts, with \"lora\", got none", where);
  if (c.shape.mask_token < 0) return bad_input("{}: expected a model with a mask_token_id for \"lora\", got none", where);
  SLIP_TRY(const std::string context, string_or(c.model, "context_mask", "causal", where));
  if (context != "causal") return bad_input("{}: expected a model with context_mask causal for \"lora\", got {}", where, context);
  LoraRule& r = c.lora_rule;
  constexpr int64_t kMostRank = 1 << 14;  // what the engine reads (models/adapter.cc)
  SLIP_TRY(const int64_t rank, int_or(o, "rank", r.rank, where));
  SLIP_TRY_(within(rank, 1, kMostRank, "rank", where));
  r.rank = static_cast<int32_t>(rank);
  SLIP_TRY(r.alpha, number_or(o, "alpha", r.alpha, where));
  if (!(r.alpha > 0)) return bad_input("{}: alpha: expected above 0, got {}", where, r.alpha);
  SLIP_TRY(const std::string loss, string_or(o, "loss", "lk-hybrid", where));
  if (loss != "lk-hybrid" && loss != "lk" && loss != "ce")
    return bad_input("{}: loss: expected \"lk-hybrid\", \"lk\" or \"ce\", got \"{}\"", where, loss);
  if (loss == "ce") r.lk.lk_weight = 0;
  if (loss == "lk") r.lk.ce_weight = 0;
  SLIP_TRY_(read_lk(o, r.lk, where));
  SLIP_TRY(r.sampled, number_or(o, "sampled", 0, where));
  if (!(r.sampled >= 0 && r.sampled <= 1)) return bad_input("{}: sampled: expected a number in [0, 1], got {}", where, r.sampled);
  SLIP_TRY(const std::string mean, string_or(o, "mean", "blocks", where));
  if (mean != "blocks" && mean != "positions")
    return bad_input("{}: mean: expected \"blocks\" or \"positions\", got \"{}\"", where, mean);
  r.by_blocks = mean == "blocks";
  SLIP_TRY(const int64_t width, int_or(o, "width", r.width, where));
  SLIP_TRY_(within(width, 2, kMostDraftLength, "width", where));
  r.width = static_cast<int32_t>(width);
  return {};
}

constexpr std::array<std::pair<std::string_view, ObjectiveKind>, 9> kKinds = {{{"sasd", ObjectiveKind::kSasd},
                                                                               {"graph", ObjectiveKind::kGraph},
                                                                               {"nld", ObjectiveKind::kNld},
                                                                               {"lora-drafter", ObjectiveKind::kLora},
                                                                               {"lora", ObjectiveKind::kLoraAll},
                                                                               {"dflash", ObjectiveKind::kDflash},
                                                                               {"commit-sampler", ObjectiveKind::kCommitSampler},
                                                                               {"blockpilot", ObjectiveKind::kBlockPilot},
                                                                               {"trajectory", ObjectiveKind::kTrajectory}}};

/// One of two words.
Result<bool> second_word(const json::object& o, std::string_view key, std::string_view first, std::string_view second,
                         const std::string& where) {
  SLIP_TRY(const std::string word, string_or(o, key, std::string(first), where));
  if (word != first && word != second)
    return bad_input("{}: {}: expected \"{}\" or \"{}\", got \"{}\"", where, key, first, second, word);
  return word == second;
}

Status read_nld(const json::object& o, TrainConfig& c, const std::string& where) {
  SLIP_TRY_(only_keys(
      o, {"kind", "minimum_noise", "block_size", "alpha", "ar_weight", "mask", "labels", "average", "ar_steps", "noise"}, where));
  NldRule& r = c.nld_rule;
  r.minimum_noise = c.minimum_noise;
  SLIP_TRY(const int64_t block, int_or(o, "block_size", r.block_size, where));
  SLIP_TRY_(within(block, 1, kMostDraftLength, "block_size", where));
  r.block_size = static_cast<int32_t>(block);
  for (const auto& [key, value] : {std::pair{"alpha", &r.alpha}, {"ar_weight", &r.ar_weight}}) {
    SLIP_TRY(*value, number_or(o, key, *value, where));
    if (!(*value >= 0)) return bad_input("{}: {}: expected at least 0, got {}", where, key, *value);
  }
  if (r.alpha == 0 && r.ar_weight == 0) return bad_input("{}: expected alpha or ar_weight above 0, got neither", where);
  SLIP_TRY(r.answers_masked, second_word(o, "mask", "text", "answer", where));
  SLIP_TRY(r.answers_predicted, second_word(o, "labels", "text", "answer", where));
  SLIP_TRY(r.by_sequence, second_word(o, "average", "batch", "sequence", where));
  SLIP_TRY(r.noise_of_step, second_word(o, "noise", "sample", "step", where));
  SLIP_TRY(r.ar_steps, int_or(o, "ar_steps", 0, where));
  SLIP_TRY_(within(r.ar_steps, 0, kMostSteps, "ar_steps", where));
  if (r.ar_steps > 0 && r.ar_weight == 0) return bad_input("{}: ar_steps: expected ar_weight above 0 with it, got 0", where);
  return {};
}

Status read_sections(const json::object& o, TrainConfig& c, const std::string& where) {
  SLIP_TRY_(
      only_keys(o, {"kind", "minimum_noise", "sections", "block_size", "alpha", "complement", "ar_weight", "average"}, where));
  SasdRule& rule = c.sasd_rule;
  SLIP_TRY(rule.complement, bool_or(o, "complement", true, where));
  SLIP_TRY(rule.ar_weight, number_or(o, "ar_weight", 1, where));
  if (!(rule.ar_weight >= 0)) return bad_input("{}: ar_weight: expected at least 0, got {}", where, rule.ar_weight);
  SLIP_TRY(rule.by_sequence, second_word(o, "average", "batch", "sequence", where));
  if (!o.contains("sections")) return {};
  SLIP_TRY(const json::array* sections, get_array(o, "sections", where));
  c.sections.emplace();
  for (const json::value& v : *sections) {
    if (!v.is_object()) return bad_input("{}: sections: expected objects, got {}", where, json::serialize(v));
    const json::object& s = v.get_object();
    SectionRule rule;
    SLIP_TRY_(only_keys(s, {"name", "weight", "beta"}, where + ": sections"));
    SLIP_TRY(rule.name, get_string(s, "name", where + ": sections"));
    SLIP_TRY(rule.weight, number_or(s, "weight", 1, where));
    if (!(rule.weight >= 0))
      return bad_input("{}: sections: {}: weight: expected at least 0, got {}", where, rule.name, rule.weight);
    SLIP_TRY(const auto beta, pair_of(s, "beta", {1, 1}, where));
    if (beta[0] <= 0 || beta[1] <= 0)
      return bad_input("{}: beta: expected positive numbers, got {} and {}", where, beta[0], beta[1]);
    rule.beta_a = beta[0];
    rule.beta_b = beta[1];
    c.sections->push_back(std::move(rule));
  }
  return {};
}

}  // namespace

std::string_view word_of(ObjectiveKind kind) {
  return std::find_if(kKinds.begin(), kKinds.end(), [&](const auto& k) { return k.second == kind; })->first;
}

/// The top's "kind", or the objective's, where "lora" has always been the draft adapter. Both may stand there if they agree.
Result<ObjectiveKind> read_kind(const json::object& root, const std::string& where) {
  const json::value* objective = root.if_contains("objective");
  std::string inner;
  if (objective != nullptr && objective->is_object()) {
    SLIP_TRY(inner, string_or(objective->get_object(), "kind", "", where + ": objective"));
  }
  SLIP_TRY(std::string name, string_or(root, "kind", "", where));
  if (name.empty()) name = inner.empty() ? "sasd" : inner == "lora" ? "lora-drafter" : inner;
  const auto* known = std::find_if(kKinds.begin(), kKinds.end(), [&](const auto& k) { return k.first == name; });
  if (known == kKinds.end()) {
    std::string all;
    for (const auto& [word, kind] : kKinds) all += fmt::format("{}\"{}\"", all.empty() ? "" : ", ", word);
    return bad_input("{}: kind: expected one of {}, got \"{}\"", where, all, name);
  }
  if (!inner.empty() && inner != name && !(inner == "lora" && name == "lora-drafter"))
    return bad_input("{}: objective: kind: expected \"{}\" as the configuration's own, got \"{}\"", where, name, inner);
  return known->second;
}

Status read_objective(const json::object& root, TrainConfig& c, const std::string& outer) {
  const std::string where = outer + ": objective";
  json::object none;
  const json::object* o = &none;
  if (root.contains("objective")) {
    SLIP_TRY(o, get_object(root, "objective", outer));
  }
  if (trains_a_head(c.objective) || c.objective == ObjectiveKind::kLoraAll) {
    c.head = *o;
    return {};
  }
  if (c.objective == ObjectiveKind::kLora) return read_lora(root, *o, c, where);
  if (c.objective == ObjectiveKind::kGraph) return read_graph(*o, c, where);
  SLIP_TRY(c.minimum_noise, number_or(*o, "minimum_noise", c.minimum_noise, where));
  SLIP_TRY_(within(c.minimum_noise, 0, 1, "minimum_noise", where));
  if (c.objective == ObjectiveKind::kNld) return read_nld(*o, c, where);
  return read_sections(*o, c, where);
}

}  // namespace slip
