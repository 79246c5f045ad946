// SPDX-License-Identifier: Apache-2.0
// Reading the trainer's configuration; contract in config.h.
#include "train/loop/config.h"

#include <algorithm>
#include <initializer_list>

namespace slip {
namespace {

Status only(const json::object& o, std::initializer_list<std::string_view> known, const std::string& where) {
  for (const auto& [key, value] : o) {
    const std::string_view name(key.data(), key.size());
    if (std::find(known.begin(), known.end(), name) == known.end())
      return bad_input("{}: expected a known key, got \"{}\"", where, name);
  }
  return {};
}

Status at_least(int64_t value, int64_t least, std::string_view key, const std::string& where) {
  if (value < least) return bad_input("{}: {}: expected at least {}, got {}", where, key, least, value);
  return {};
}

Status within(int64_t value, int64_t least, int64_t most, std::string_view key, const std::string& where) {
  SLIP_TRY_(at_least(value, least, key, where));
  if (value > most) return bad_input("{}: {}: expected at most {}, got {}", where, key, most, value);
  return {};
}

// Sample numbers are first_sample + steps * batch * accumulate: with these bounds below 2^62. Steps fit the noise key's 32 bits.
constexpr int64_t kMostSteps = (int64_t{1} << 31) - 1, kMostBatch = int64_t{1} << 15, kMostFirst = int64_t{1} << 61;
constexpr int64_t kMostThreads = 4096;

Result<std::array<double, 2>> pair_of(const json::object& o, std::string_view key, std::array<double, 2> other,
                                      const std::string& where) {
  if (!o.contains(key)) return other;
  SLIP_TRY(const json::array* a, get_array(o, key, where));
  if (a->size() != 2 || !(*a)[0].is_number() || !(*a)[1].is_number())
    return bad_input("{}: {}: expected two numbers, got {}", where, key, json::serialize(*a));
  return std::array<double, 2>{(*a)[0].to_number<double>(), (*a)[1].to_number<double>()};
}

// A width beyond this makes more rows of masks than any answer has tokens.
constexpr int64_t kMostDraftLength = 4096;

Status read_graph(const json::object& o, TrainConfig& c, const std::string& where) {
  SLIP_TRY_(only(o, {"kind", "draft_width", "draft_share", "draft_first", "draft_narrow", "draft_weight", "weights"}, where));
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
    SLIP_TRY_(only(v.get_object(), {"of", "weight"}, where + ": weights"));
    GraphWeight rule;
    SLIP_TRY(rule.of, get_string(v.get_object(), "of", where + ": weights"));
    SLIP_TRY(rule.weight, get_number(v.get_object(), "weight", where + ": weights"));
    if (!(rule.weight >= 0)) return bad_input("{}: weights: {}: expected at least 0, got {}", where, rule.of, rule.weight);
    g.weights.push_back(std::move(rule));
  }
  return {};
}

Status read_lk(const json::object& o, LkRule& lk, const std::string& where) {
  for (const auto& [key, value] :
       {std::pair{"tau", &lk.tau}, {"eta", &lk.eta}, {"lk_weight", &lk.lk_weight}, {"ce_weight", &lk.ce_weight}}) {
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
  SLIP_TRY_(only(o, {"kind", "rank", "alpha", "tau", "eta", "top", "lk_weight", "ce_weight", "mean", "width"}, where));
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
  SLIP_TRY_(read_lk(o, r.lk, where));
  SLIP_TRY(const std::string mean, string_or(o, "mean", "blocks", where));
  if (mean != "blocks" && mean != "positions")
    return bad_input("{}: mean: expected \"blocks\" or \"positions\", got \"{}\"", where, mean);
  r.by_blocks = mean == "blocks";
  SLIP_TRY(const int64_t width, int_or(o, "width", r.width, where));
  SLIP_TRY_(within(width, 2, kMostDraftLength, "width", where));
  r.width = static_cast<int32_t>(width);
  return {};
}

Status read_objective(const json::object& root, TrainConfig& c, const std::string& outer) {
  if (!root.contains("objective")) return {};
  const std::string where = outer + ": objective";
  SLIP_TRY(const json::object* o, get_object(root, "objective", outer));
  SLIP_TRY(const std::string kind, string_or(*o, "kind", "sasd", where));
  if (kind != "sasd" && kind != "nld" && kind != "graph" && kind != "lora")
    return bad_input("{}: kind: expected \"sasd\", \"nld\", \"graph\" or \"lora\", got \"{}\"", where, kind);
  c.objective = kind == "nld"     ? ObjectiveKind::kNld
                : kind == "graph" ? ObjectiveKind::kGraph
                : kind == "lora"  ? ObjectiveKind::kLora
                                  : ObjectiveKind::kSasd;
  if (c.objective == ObjectiveKind::kLora) return read_lora(root, *o, c, where);
  if (c.objective == ObjectiveKind::kGraph) return read_graph(*o, c, where);
  SLIP_TRY_(only(*o, {"kind", "minimum_noise", "sections", "block_size", "alpha"}, where));
  SLIP_TRY(c.minimum_noise, number_or(*o, "minimum_noise", c.minimum_noise, where));
  SLIP_TRY(const int64_t block, int_or(*o, "block_size", 32, where));
  SLIP_TRY_(at_least(block, 1, "block_size", where));
  SLIP_TRY(const double alpha, number_or(*o, "alpha", 0.3, where));
  c.nld_rule = {static_cast<int32_t>(block), alpha, c.minimum_noise};
  if (!o->contains("sections")) return {};
  SLIP_TRY(const json::array* sections, get_array(*o, "sections", where));
  c.sections.clear();
  for (const json::value& v : *sections) {
    if (!v.is_object()) return bad_input("{}: sections: expected objects, got {}", where, json::serialize(v));
    const json::object& s = v.get_object();
    SectionRule rule;
    SLIP_TRY_(only(s, {"name", "weight", "beta"}, where + ": sections"));
    SLIP_TRY(rule.name, string_or(s, "name", "", where));
    SLIP_TRY(rule.weight, number_or(s, "weight", 1, where));
    SLIP_TRY(const auto beta, pair_of(s, "beta", {1, 1}, where));
    if (beta[0] <= 0 || beta[1] <= 0)
      return bad_input("{}: beta: expected positive numbers, got {} and {}", where, beta[0], beta[1]);
    rule.beta_a = beta[0];
    rule.beta_b = beta[1];
    c.sections.push_back(std::move(rule));
  }
  return {};
}

Status read_optimizer(const json::object& root, TrainConfig& c, const std::string& outer) {
  if (root.contains("optimizer")) {
    const std::string where = outer + ": optimizer";
    SLIP_TRY(const json::object* o, get_object(root, "optimizer", outer));
    SLIP_TRY_(only(*o, {"lr", "betas", "epsilon", "weight_decay", "decay_all", "clip"}, where));
    SLIP_TRY(c.schedule.lr, number_or(*o, "lr", c.schedule.lr, where));
    SLIP_TRY(const auto betas, pair_of(*o, "betas", {0.9, 0.95}, where));
    c.adamw.beta1 = betas[0];
    c.adamw.beta2 = betas[1];
    SLIP_TRY(c.adamw.epsilon, number_or(*o, "epsilon", c.adamw.epsilon, where));
    SLIP_TRY(c.adamw.weight_decay, number_or(*o, "weight_decay", c.adamw.weight_decay, where));
    SLIP_TRY(c.adamw.decay_all, bool_or(*o, "decay_all", c.adamw.decay_all, where));
    SLIP_TRY(c.clip, number_or(*o, "clip", c.clip, where));
  }
  c.schedule.steps = c.steps;
  if (!root.contains("schedule")) return {};
  const std::string where = outer + ": schedule";
  SLIP_TRY(const json::object* o, get_object(root, "schedule", outer));
  SLIP_TRY_(only(*o, {"kind", "warmup", "final_fraction", "by"}, where));
  SLIP_TRY(const std::string kind, string_or(*o, "kind", "constant", where));
  if (kind != "constant" && kind != "cosine" && kind != "linear")
    return bad_input("{}: kind: expected \"constant\", \"cosine\" or \"linear\", got \"{}\"", where, kind);
  c.schedule.decay = kind == "constant" ? Decay::kConstant : kind == "cosine" ? Decay::kCosine : Decay::kLinear;
  SLIP_TRY(c.schedule.warmup, int_or(*o, "warmup", 0, where));
  SLIP_TRY(c.schedule.final_fraction, number_or(*o, "final_fraction", 0.1, where));
  SLIP_TRY(const std::string by, string_or(*o, "by", "steps", where));
  if (by != "steps" && by != "time") return bad_input("{}: by: expected \"steps\" or \"time\", got \"{}\"", where, by);
  c.schedule.by_time = by == "time";
  if (c.schedule.by_time && !(c.max_minutes > 0))
    return bad_input("{}: by: expected max_minutes above 0 with \"time\", got {}", where, c.max_minutes);
  return {};
}

Status read_model(const json::object& root, TrainConfig& c, const std::string& where) {
  const json::value* m = root.if_contains("model");
  if (m == nullptr) return bad_input("{}: model: expected a config object or a file's name, got nothing", where);
  if (m->is_string()) {
    SLIP_TRY(const json::value read, read_json(std::string(m->get_string().c_str())));
    if (!read.is_object())
      return bad_input("{}: expected an object, got {}", m->get_string().c_str(), json::serialize(read).substr(0, 40));
    c.model = read.get_object();
  } else if (m->is_object()) {
    c.model = m->get_object();
  } else {
    return bad_input("{}: model: expected a config object or a file's name, got {}", where, json::serialize(*m));
  }
  c.source["model"] = c.model;
  SLIP_TRY(const int64_t shift, int_or(c.model, "diffusion_shift", 0, where + ": model"));
  c.diffusion_shift = shift == 1;
  SLIP_TRY(c.shape, ModelShape::from_config(c.model, where + ": model"));
  return {};
}

Result<bool> is_bf16(const json::object& root, std::string_view key, const std::string& where) {
  SLIP_TRY(const std::string name, string_or(root, key, "f32", where));
  if (name != "f32" && name != "bf16") return bad_input("{}: {}: expected \"f32\" or \"bf16\", got \"{}\"", where, key, name);
  return name == "bf16";
}

Status read_counts(const json::object& root, TrainConfig& c, const std::string& where) {
  SLIP_TRY(const int64_t seed, int_or(root, "seed", 0, where));
  c.seed = static_cast<uint64_t>(seed);
  SLIP_TRY(const int64_t rank, int_or(root, "rank", 0, where));
  SLIP_TRY_(within(rank, 0, kMostSteps, "rank", where));
  c.rank = static_cast<uint32_t>(rank);
  SLIP_TRY(c.steps, int_or(root, "steps", c.steps, where));
  SLIP_TRY_(within(c.steps, 1, kMostSteps, "steps", where));
  SLIP_TRY(c.batch, int_or(root, "batch", c.batch, where));
  SLIP_TRY_(within(c.batch, 1, kMostBatch, "batch", where));
  SLIP_TRY(c.accumulate, int_or(root, "accumulate", c.accumulate, where));
  SLIP_TRY_(within(c.accumulate, 1, kMostBatch, "accumulate", where));
  SLIP_TRY(c.first_sample, int_or(root, "first_sample", 0, where));
  SLIP_TRY_(within(c.first_sample, 0, kMostFirst, "first_sample", where));
  SLIP_TRY(c.save_every, int_or(root, "save_every", c.save_every, where));
  SLIP_TRY(c.keep, int_or(root, "keep", c.keep, where));
  SLIP_TRY(c.log_every, int_or(root, "log_every", c.log_every, where));
  SLIP_TRY_(at_least(c.log_every, 1, "log_every", where));
  SLIP_TRY(c.max_minutes, number_or(root, "max_minutes", 0, where));
  SLIP_TRY(const int64_t threads, int_or(root, "threads", 0, where));
  SLIP_TRY_(within(threads, 0, kMostThreads, "threads", where));
  c.threads = static_cast<int>(threads);
  return {};
}

}  // namespace

Result<TrainConfig> TrainConfig::parse(const json::object& root, const std::string& where) {
  SLIP_TRY_(only(root, {"model",        "init",       "init_tokenizer", "init_deviation", "tokenizer",   "data",
                        "objective",    "seed",       "rank",           "steps",          "batch",       "accumulate",
                        "first_sample", "optimizer",  "schedule",       "ema_decay",      "precision",   "store",
                        "out",          "save_every", "keep",           "log_every",      "max_minutes", "threads"},
                 where));
  TrainConfig c;
  c.source = root;
  SLIP_TRY_(read_model(root, c, where));
  SLIP_TRY(c.init, string_or(root, "init", "", where));
  SLIP_TRY(c.init_deviation, number_or(root, "init_deviation", c.init_deviation, where));
  SLIP_TRY(c.tokenizer, string_or(root, "tokenizer", "", where));
  SLIP_TRY(c.init_tokenizer, string_or(root, "init_tokenizer", "", where));
  if (!c.init_tokenizer.empty() && (c.init.empty() || c.tokenizer.empty()))
    return bad_input("{}: init_tokenizer: expected \"init\" and \"tokenizer\" with it, got no \"{}\"", where,
                     c.init.empty() ? "init" : "tokenizer");
  SLIP_TRY(const json::object* data, get_object(root, "data", where));
  c.data = *data;
  SLIP_TRY_(read_counts(root, c, where));
  SLIP_TRY_(read_objective(root, c, where));
  SLIP_TRY_(read_optimizer(root, c, where));
  SLIP_TRY(c.ema_decay, number_or(root, "ema_decay", 0, where));
  if (c.ema_decay < 0 || c.ema_decay >= 1)
    return bad_input("{}: ema_decay: expected a number in [0, 1), got {}", where, c.ema_decay);
  SLIP_TRY(const bool bf16, is_bf16(root, "precision", where));
  c.precision = bf16 ? Precision::kBF16 : Precision::kF32;
  SLIP_TRY(const bool narrow, is_bf16(root, "store", where));
  c.store = narrow ? StoreAs::kBF16 : StoreAs::kF32;
  SLIP_TRY(const std::string out, get_string(root, "out", where));
  c.out = out;
  return c;
}

Result<TrainConfig> TrainConfig::load(const std::filesystem::path& file) {
  SLIP_TRY(const json::value v, read_json(file));
  if (!v.is_object()) return bad_input("{}: expected an object, got {}", file.string(), json::serialize(v).substr(0, 40));
  return parse(v.get_object(), file.string());
}

}  // namespace slip
