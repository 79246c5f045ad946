// SPDX-License-Identifier: Apache-2.0
// The trainer's configuration: one JSON file. Unknown keys are errors. Relative paths are relative to the working folder.
//
//   {"model": "config.json" or a Hugging Face config object,      needed
//    "init": "DIR",                       start from this checkpoint; absent: random
//    "init_tokenizer": "DIR",             the tokenizer of `init`, where it is another one: embedding rows go by the tokens' text,
//                                         rows of tokens that it lacks are random (init_vocabulary.h); needs "tokenizer"
//    "init_deviation": 0.02,
//    "tokenizer": "DIR",                  its files are copied into every checkpoint; given to the source
//    "data": {"kind": ...},               passed to the source (source.h); needed
//    "objective": {"kind": "sasd", "minimum_noise": 0.001,
//                  "sections": [{"name": "trajectory", "weight": 3, "beta": [2, 1]}, ...]}      default: Fast-dDrive's four
//              or {"kind": "nld", "block_size": 32, "alpha": 0.3, "minimum_noise": 0.001},
//              or {"kind": "graph", "draft_width": 12, "draft_share": 0.5, "draft_first": 0.5, "draft_narrow": 0.5, "draft_weight": 1,
//                  "weights": [{"of": "trajectory", "weight": 2}, ...]}      graph_objective.h: GraphRule; needs a model
//                                         with diffusion_shift 1 and "law": "graph" (task/prompt.h)
//              or {"kind": "lora", "rank": 8, "alpha": 32, "tau": 3, "eta": 0.5, "top": 200, "lk_weight": 1, "ce_weight": 1,
//                  "mean": "blocks" | "positions", "width": 32},      lora.h: LoraRule; needs "init": only the draft adapter of
//                                         that model is trained, and a checkpoint holds linear_spec_lora/ in the model's place
//    "seed": 0, "rank": 0, "steps": 1000, "batch": 8, "accumulate": 1, "first_sample": 0,
//    "optimizer": {"lr": 1e-3, "betas": [0.9, 0.95], "epsilon": 1e-8, "weight_decay": 0.1, "decay_all": false, "clip": 1},
//    "schedule": {"kind": "constant" | "cosine" | "linear", "warmup": 100, "final_fraction": 0.1, "by": "steps" | "time"},
//    "ema_decay": 0,                      > 0: checkpoints hold the average, training goes on with the raw weights
//    "precision": "f32" | "bf16", "store": "f32" | "bf16",
//    "out": "DIR", "save_every": 0, "keep": 2, "log_every": 10, "max_minutes": 0, "threads": 0}
//
// save_every 0: only at the end. keep: how many step-N folders stay (0: all). max_minutes > 0: stops then. Schedule "by" (default
// "steps"): with "time" the decay follows the larger of time (of max_minutes, which it needs) and step progress, at the price of
// reproducibility (trainer.h).
#pragma once
#include <filesystem>
#include <string>

#include "train/loop/optimizer.h"
#include "train/model/model_shape.h"
#include "train/model/model_torch.h"
#include "train/model/weights.h"
#include "train/objective/graph_objective.h"
#include "train/objective/lora.h"
#include "train/objective/objective.h"

namespace slip {

enum class ObjectiveKind : uint8_t { kSasd, kNld, kGraph, kLora };

struct TrainConfig {
  json::object source;  // as read, model resolved: what trainer.json keeps
  json::object model;
  ModelShape shape;
  std::string init, init_tokenizer, tokenizer;
  double init_deviation = 0.02;
  json::object data;
  ObjectiveKind objective = ObjectiveKind::kSasd;
  NldRule nld_rule;
  GraphRule graph_rule;
  LoraRule lora_rule;
  bool diffusion_shift = false;  // of the model: the row before a mask predicts it
  double minimum_noise = 1e-3;
  std::vector<SectionRule> sections = fast_ddrive_sections();
  uint64_t seed = 0;
  uint32_t rank = 0;
  int64_t steps = 1000, batch = 8, accumulate = 1, first_sample = 0;
  AdamWOptions adamw{.decay_all = false};
  double clip = 1;
  RateSchedule schedule;
  double ema_decay = 0;
  Precision precision = Precision::kF32;
  StoreAs store = StoreAs::kF32;
  std::filesystem::path out;
  int64_t save_every = 0, keep = 2, log_every = 10;
  double max_minutes = 0;
  int threads = 0;  // 0: all usable cores

  static Result<TrainConfig> parse(const json::object& config, const std::string& where);
  static Result<TrainConfig> load(const std::filesystem::path& file);
};

}  // namespace slip
