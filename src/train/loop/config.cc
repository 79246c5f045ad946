// SPDX-License-Identifier: Apache-2.0
// Reading the trainer's configuration; contract in config.h.
#include "train/loop/config.h"

#include <algorithm>
#include <cmath>

#include "base/json/flaws.h"
#include "train/loop/config_parts.h"

namespace slip {
namespace {

Status read_shape(const json::object& o, TrainConfig& c, const std::string& where) {
  static constexpr std::array<std::pair<std::string_view, Decay>, 4> kShapes = {
      {{"cosine", Decay::kCosine}, {"linear", Decay::kLinear}, {"exponential", Decay::kExponential}, {"sqrt", Decay::kSqrt}}};
  SLIP_TRY(const std::string kind, string_or(o, "kind", "constant", where));
  if (kind != "constant" && kind != "cosine" && kind != "linear" && kind != "wsd")
    return bad_input("{}: kind: expected \"constant\", \"cosine\", \"linear\" or \"wsd\", got \"{}\"", where, kind);
  if (kind == "constant") return {};
  const bool stable = kind == "wsd";
  for (const std::string_view key : {"shape", "decay_fraction"})
    if (!stable && o.contains(key)) return bad_input("{}: {}: expected it with kind \"wsd\", got kind \"{}\"", where, key, kind);
  SLIP_TRY(const std::string shape, string_or(o, "shape", "exponential", where));
  const auto* known =
      std::find_if(kShapes.begin(), kShapes.end(), [&](const auto& s) { return s.first == (stable ? shape : kind); });
  if (known == kShapes.end())
    return bad_input("{}: shape: expected \"cosine\", \"linear\", \"exponential\" or \"sqrt\", got \"{}\"", where, shape);
  c.schedule.decay = known->second;
  if (!stable) return {};
  SLIP_TRY(const double fraction, number_or(o, "decay_fraction", 0.2, where));
  if (!(fraction > 0 && fraction <= 1))
    return bad_input("{}: decay_fraction: expected a number in (0, 1], got {}", where, fraction);
  c.schedule.decay_fraction = fraction;
  c.schedule.set_steps(c.steps);
  return {};
}

/// Prefixes of tensors' names. The rows of the vocabulary are trained always.
Status read_frozen(const json::object& o, TrainConfig& c, const std::string& where) {
  if (!o.contains("frozen")) return {};
  SLIP_TRY(const json::array* list, get_array(o, "frozen", where));
  if (c.objective > ObjectiveKind::kGraph)
    return bad_input("{}: frozen: expected kind sasd, nld or graph, since the others train no tensor of the model's, got {}", where,
                     word_of(c.objective));
  const ParameterTable table = ParameterTable::of(c.shape);
  for (const json::value& v : *list) {
    if (!v.is_string()) return bad_input("{}: frozen: expected beginnings of tensors' names, got {}", where, json::serialize(v));
    const std::string prefix(std::string_view(v.get_string()));
    const auto runs = table.runs_of({&prefix, 1});
    const auto holds = [&](const Group& g) {
      return std::any_of(runs.begin(), runs.end(), [&](const auto& r) { return r.first <= g.offset && g.offset < r.second; });
    };
    if (runs.empty()) return bad_input("{}: frozen: expected the beginning of a tensor's name, got \"{}\"", where, prefix);
    if (holds(table.embed) || holds(table.head))
      return bad_input("{}: frozen: expected tensors beside embed_tokens and lm_head, got \"{}\"", where, prefix);
    c.adamw.frozen.push_back(prefix);
  }
  return {};
}

/// AdamW's numbers as they can be: a negative learning rate, say, walks away from what is taught.
Status check_optimizer(const TrainConfig& c, const std::string& where) {
  SLIP_TRY_(within(c.schedule.lr, 0, 1e6, "lr", where));
  for (const double beta : {c.adamw.beta1, c.adamw.beta2})
    if (!(beta >= 0 && beta < 1)) return bad_input("{}: betas: expected numbers from 0 to below 1, got {}", where, beta);
  SLIP_TRY_(within(c.adamw.epsilon, 0, 1, "epsilon", where));
  SLIP_TRY_(within(c.adamw.weight_decay, 0, 1e6, "weight_decay", where));
  return within(c.clip, 0, 1e12, "clip", where);
}

Status read_optimizer(const json::object& root, TrainConfig& c, const std::string& outer) {
  if (root.contains("optimizer")) {
    const std::string where = outer + ": optimizer";
    SLIP_TRY(const json::object* o, get_object(root, "optimizer", outer));
    SLIP_TRY_(only_keys(*o, {"lr", "betas", "epsilon", "weight_decay", "decay_all", "clip", "frozen"}, where));
    SLIP_TRY(c.schedule.lr, number_or(*o, "lr", c.schedule.lr, where));
    SLIP_TRY(const auto betas, pair_of(*o, "betas", {0.9, 0.95}, where));
    c.adamw.beta1 = betas[0];
    c.adamw.beta2 = betas[1];
    SLIP_TRY(c.adamw.epsilon, number_or(*o, "epsilon", c.adamw.epsilon, where));
    SLIP_TRY(c.adamw.weight_decay, number_or(*o, "weight_decay", c.adamw.weight_decay, where));
    SLIP_TRY(c.adamw.decay_all, bool_or(*o, "decay_all", c.adamw.decay_all, where));
    SLIP_TRY(c.clip, number_or(*o, "clip", c.clip, where));
    SLIP_TRY_(check_optimizer(c, where));
    SLIP_TRY_(read_frozen(*o, c, where));
  }
  c.schedule.steps = c.steps;
  if (!root.contains("schedule")) return {};
  const std::string where = outer + ": schedule";
  SLIP_TRY(const json::object* o, get_object(root, "schedule", outer));
  SLIP_TRY_(only_keys(*o, {"kind", "warmup", "final_fraction", "by", "decay_fraction", "shape"}, where));
  SLIP_TRY_(read_shape(*o, c, where));
  SLIP_TRY(c.schedule.warmup, int_or(*o, "warmup", 0, where));
  SLIP_TRY_(within(c.schedule.warmup, 0, kMostSteps, "warmup", where));
  SLIP_TRY(c.schedule.final_fraction, number_or(*o, "final_fraction", 0.1, where));
  SLIP_TRY_(within(c.schedule.final_fraction, 0, 1, "final_fraction", where));
  SLIP_TRY(const std::string by, string_or(*o, "by", "steps", where));
  if (by != "steps" && by != "time") return bad_input("{}: by: expected \"steps\" or \"time\", got \"{}\"", where, by);
  c.schedule.by_time = by == "time";
  if (c.schedule.by_time && !(c.max_minutes > 0))
    return bad_input("{}: by: expected max_minutes above 0 with \"time\", got {}", where, c.max_minutes);
  return {};
}

Status read_model(const json::object& root, TrainConfig& c, const std::string& where) {
  const json::value* m = root.if_contains("model");
  json::value of_target;
  if (trains_a_head(c.objective)) {
    SLIP_TRY(c.target, get_string(root, "target", where));
    if (m != nullptr)
      return bad_input("{}: model: expected the target's alone with kind \"{}\", got another", where, word_of(c.objective));
    of_target = json::string(c.target + "/config.json");
    m = &of_target;
  } else if (root.contains("target")) {
    return bad_input("{}: target: expected none with kind \"{}\", which trains no head beside a frozen model, got one", where,
                     word_of(c.objective));
  }
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
  if (c.target.empty()) c.source["model"] = c.model;
  SLIP_TRY(const int64_t shift, int_or(c.model, "diffusion_shift", 0, where + ": model"));
  c.diffusion_shift = shift == 1;
  if (!trains_a_head(c.objective)) {
    SLIP_TRY(c.shape, ModelShape::from_config(c.model, where + ": model"));
  }
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
  SLIP_TRY_(at_least(c.save_every, 0, "save_every", where));
  SLIP_TRY(c.keep, int_or(root, "keep", c.keep, where));
  SLIP_TRY_(at_least(c.keep, 0, "keep", where));
  SLIP_TRY(c.log_every, int_or(root, "log_every", c.log_every, where));
  SLIP_TRY_(at_least(c.log_every, 1, "log_every", where));
  SLIP_TRY(c.max_minutes, number_or(root, "max_minutes", 0, where));
  SLIP_TRY_(within(c.max_minutes, 0, kMostMinutes, "max_minutes", where));
  SLIP_TRY(const int64_t threads, int_or(root, "threads", 0, where));
  SLIP_TRY_(within(threads, 0, kMostThreads, "threads", where));
  c.threads = static_cast<int>(threads);
  SLIP_TRY(const int64_t data_threads, int_or(root, "data_threads", 1, where));
  SLIP_TRY_(within(data_threads, 1, kMostDataThreads, "data_threads", where));
  c.data_threads = static_cast<int>(data_threads);
  SLIP_TRY(c.shards, int_or(root, "shards", c.shards, where));
  SLIP_TRY_(within(c.shards, 1, kMostShards, "shards", where));
  if ((c.shards & (c.shards - 1)) != 0) return bad_input("{}: shards: expected a power of two, got {}", where, c.shards);
  SLIP_TRY(c.recompute, bool_or(root, "recompute", c.recompute, where));
  SLIP_TRY(c.device, string_or(root, "device", c.device, where));
  SLIP_TRY_(check_train_device(c.device, where));
  if (c.device != "cpu" && c.objective > ObjectiveKind::kGraph && c.objective != ObjectiveKind::kLoraAll)
    return unsupported("{}: device: expected cpu for kind {}, got {}", where, word_of(c.objective), c.device);
  if (c.data_threads > 1 && trains_a_head(c.objective))
    return unsupported("{}: data_threads: expected 1 for kind {}, whose samples are made one after the other, got {}", where,
                       word_of(c.objective), c.data_threads);
  return {};
}

/// What a config.json says of the task. Left out: a note to readers, and the type that a model is meant to run in.
json::object task_in(const json::object& config) {
  const json::value* v = config.if_contains("slipstream");
  json::object out = v && v->is_object() ? v->get_object() : json::object{};
  for (const char* key : {"note", "weights"}) out.erase(key);
  return out;
}

/// Samples are made for the model that `data` names, and the model that is trained would learn another's task in silence.
Status check_data_model(const json::object& data, const json::object& model, const std::string& where) {
  const json::value *named = data.if_contains("model"), *parts = data.if_contains("parts");
  if (named && named->is_string()) {
    const Result<json::value> config = read_json(std::filesystem::path(std::string(named->get_string())));
    if (config && config->is_object() && task_in(config->get_object()) != task_in(model))
      return bad_input(
          "{}: data: model: expected the task of the model that is trained (\"slipstream\" of its config.json), got that of {}",
          where, std::string_view(named->get_string()));
  }
  if (parts && parts->is_array())
    for (const json::value& part : parts->get_array())
      if (part.is_object()) SLIP_TRY_(check_data_model(part.get_object(), model, where));
  return {};
}

/// Texts have no form: a model whose config.json names a task would be taken for one that answers in its form.
Status check_data_kind(const json::object& data, const json::object& model, const std::string& where) {
  SLIP_TRY(const std::string kind, string_or(data, "kind", "", where + ": data"));
  if (kind == "texts" && !task_in(model).empty())
    return bad_input(
        "{}: data: kind: expected \"simulated\", \"records\" or \"mixed\" for a model of a form (\"slipstream\" of its "
        "config.json), "
        "got \"texts\"",
        where);
  return {};
}

Status read_validation(const json::object& root, TrainConfig& c, const std::string& outer) {
  if (!root.contains("validation")) return {};
  const std::string where = outer + ": validation";
  SLIP_TRY(const json::object* o, get_object(root, "validation", outer));
  SLIP_TRY_(only_keys(*o, {"every", "samples", "first_sample", "patience"}, where));
  ValidationRule& v = c.validation;
  SLIP_TRY(v.every, int_or(*o, "every", 100, where));
  SLIP_TRY_(within(v.every, 1, kMostSteps, "every", where));
  SLIP_TRY(v.samples, int_or(*o, "samples", v.samples, where));
  SLIP_TRY_(within(v.samples, 1, kMostBatch, "samples", where));
  SLIP_TRY(v.first_sample, get_int(*o, "first_sample", where));
  SLIP_TRY_(within(v.first_sample, 0, kMostFirst, "first_sample", where));
  SLIP_TRY(v.patience, int_or(*o, "patience", 0, where));
  return at_least(v.patience, 0, "patience", where);
}

}  // namespace

Result<TrainConfig> TrainConfig::parse(const json::object& root, const std::string& where) {
  SLIP_TRY_(only_keys(root,
                      {"kind",       "model",     "target",    "init",        "init_tokenizer", "init_deviation", "tokenizer",
                       "data",       "objective", "seed",      "rank",        "steps",          "batch",          "accumulate",
                       "optimizer",  "schedule",  "ema_decay", "precision",   "first_sample",   "store",          "out",
                       "save_every", "keep",      "log_every", "max_minutes", "threads",        "data_threads",   "validation",
                       "shards",     "recompute", "device"},
                      where));
  TrainConfig c;
  c.source = root;
  SLIP_TRY(c.objective, read_kind(root, where));
  SLIP_TRY_(read_model(root, c, where));
  SLIP_TRY(c.init, string_or(root, "init", "", where));
  SLIP_TRY(c.init_deviation, number_or(root, "init_deviation", c.init_deviation, where));
  SLIP_TRY_(within(c.init_deviation, 0, kMostDeviation, "init_deviation", where));
  SLIP_TRY(c.tokenizer, string_or(root, "tokenizer", c.target, where));
  SLIP_TRY(c.init_tokenizer, string_or(root, "init_tokenizer", "", where));
  if (!c.init_tokenizer.empty() && (c.init.empty() || c.tokenizer.empty()))
    return bad_input("{}: init_tokenizer: expected \"init\" and \"tokenizer\" with it, got no \"{}\"", where,
                     c.init.empty() ? "init" : "tokenizer");
  SLIP_TRY(const json::object* data, get_object(root, "data", where));
  c.data = *data;
  SLIP_TRY_(check_data_kind(c.data, c.model, where));
  if (!trains_a_head(c.objective) && !c.model.empty()) SLIP_TRY_(check_data_model(c.data, c.model, where));
  SLIP_TRY_(read_counts(root, c, where));
  SLIP_TRY_(read_objective(root, c, where));
  SLIP_TRY_(read_optimizer(root, c, where));
  SLIP_TRY_(read_validation(root, c, where));
  SLIP_TRY(c.ema_decay, number_or(root, "ema_decay", 0, where));
  if (c.ema_decay < 0 || c.ema_decay >= 1)
    return bad_input("{}: ema_decay: expected a number in [0, 1), got {}", where, c.ema_decay);
  SLIP_TRY(const bool bf16, is_bf16(root, "precision", where));
  c.precision = bf16 ? Precision::kBF16 : Precision::kF32;
  SLIP_TRY(const bool narrow, is_bf16(root, "store", where));
  c.store = narrow ? StoreAs::kBF16 : StoreAs::kF32;
  SLIP_TRY(const std::string out, string_or(root, "out", "", where));
  c.out = out;
  return c;
}

void TrainConfig::set_steps(int64_t n) {
  steps = n;
  schedule.set_steps(n);
  source["steps"] = n;
}

void TrainConfig::set_max_minutes(double minutes) {
  max_minutes = minutes;
  source["max_minutes"] = minutes;
  if (minutes > 0 || !schedule.by_time) return;
  schedule.by_time = false;  // no time that it could follow: a configuration that says so is refused
  source["schedule"].as_object()["by"] = "steps";
}

Result<TrainConfig> TrainConfig::load(const std::filesystem::path& file) {
  SLIP_TRY(const json::value v, read_written_json(file));
  if (!v.is_object()) return bad_input("{}: expected an object, got {}", file.string(), json::serialize(v).substr(0, 40));
  return parse(v.get_object(), file.string());
}

}  // namespace slip
