// SPDX-License-Identifier: Apache-2.0
// The trainer's configuration: one JSON file. Unknown keys are errors. Relative paths are relative to the working folder.
//
//   {"kind": "sasd" | "graph" | "nld" | "lora-drafter" | "lora" | "dflash" | "commit-sampler" | "blockpilot" | "trajectory",
//                                        what is trained; without it "objective" says so in its own "kind"
//    "model": "config.json" or a Hugging Face config object,      needed, but for kinds with a "target"
//    "target": "DIR",                     the frozen model that a head of the last four kinds stands on; its tokenizer is "tokenizer"
//                                         unless another is given. Their "objective" is told in train/heads/
//    "init": "DIR",                       start from this checkpoint; absent: random
//    "init_tokenizer": "DIR",             the tokenizer of `init`, where it is another one: embedding rows go by the tokens' text,
//                                         rows of tokens that it lacks are random (init_vocabulary.h); needs "tokenizer"
//    "init_deviation": 0.02,
//    "tokenizer": "DIR",                  its files are copied into every checkpoint; given to the source
//    "data": {"kind": ...},               passed to the source (source.h); needed
//    "objective": {"kind": "sasd", "minimum_noise": 0.001, "complement": true, "ar_weight": 1, "average": "batch" | "sequence",
//                  "sections": [{"name": "trajectory", "weight": 3, "beta": [2, 1]}, ...]}      a rule for each section of the data's
//                                         form, by name, in any order; without "sections": Fast-dDrive's four where a form has all four of
//                                         them (every other section: weight 1, beta [1, 1]). The form action has one, "action"
//              or {"kind": "nld", "block_size": 32, "alpha": 0.3, "minimum_noise": 0.001, "ar_weight": 1, "mask": "text" | "answer",
//                  "labels": "text" | "answer", "average": "batch" | "sequence", "ar_steps": 0,
//                  "noise": "sample" | "step"},      objective.h: NldRule
//              or {"kind": "graph", "draft_width": 12, "draft_share": 0.5, "draft_first": 0.5, "draft_narrow": 0.5, "draft_weight": 1,
//                  "weights": [{"of": "trajectory", "weight": 2}, ...]}      graph_objective.h: GraphRule; needs a model
//                                         with diffusion_shift 1 and "visibility": "graph" (task/prompt.h)
//              or {"kind": "lora", "rank": 8, "alpha": 32, "tau": 3, "eta": 0.5, "top": 200, "lk_weight": 1, "ce_weight": 1,
//                  "loss": "lk-hybrid" | "lk" | "ce", "sampled": 0, "mean": "blocks" | "positions", "width": 32},      lora.h: LoraRule; needs "init": only the draft adapter of
//                                         that model is trained, and a checkpoint holds linear_spec_lora/ in the model's place
//    "seed": 0, "rank": 0, "steps": 1000, "batch": 8, "accumulate": 1, "first_sample": 0,
//    "optimizer": {"lr": 1e-3, "betas": [0.9, 0.95], "epsilon": 1e-8, "weight_decay": 0.1, "decay_all": false, "clip": 1,
//                  "frozen": ["vision_tower."]},      parameters whose names begin so keep their values
//    "schedule": {"kind": "constant" | "cosine" | "linear" | "wsd", "warmup": 100, "final_fraction": 0.1, "by": "steps" | "time",
//                 "decay_fraction": 0.2, "shape": "exponential" | "linear" | "cosine" | "sqrt"},      the last two with "wsd"
//    "validation": {"every": 100, "samples": 32, "first_sample": N, "patience": 3},      samples from `first_sample` on are scored every so
//                                         many steps; the best values are what checkpoints publish; patience > 0: stops after so many
//                                         scores without a better one. Refused where they are beyond the data's end, or trained on (held_out.h)
//    "shards": 8,                         a step's gradient is a sum over so many parts of its samples in a fixed tree, so that 1, 2, 4 and 8
//                                         processes make the same bits (parallel/shard_sum.h); a power of two
//    "recompute": false,                  layers keep their inputs alone and run again in the backward pass: less memory, a third more time
//    "device": "cpu" | "cuda" | "cuda:N", where the model computes; the optimizer stays on the processor. Kinds sasd, nld, graph and lora
//    "ema_decay": 0,                      > 0: checkpoints hold the average, training goes on with the raw weights
//    "precision": "f32" | "bf16", "store": "f32" | "bf16",
//    "out": "DIR", "save_every": 0, "keep": 2, "log_every": 10, "max_minutes": 0, "threads": 0, "data_threads": 1}
//
// save_every 0: only at the end. keep: how many step-N folders stay (0: all). max_minutes > 0: stops then. Schedule "by" (default
// "steps"): with "time" the decay follows the larger of time (of max_minutes, which it needs) and step progress, at the price of
// reproducibility (trainer.h).
#pragma once
#include <filesystem>
#include <memory>
#include <optional>
#include <string>

#include "train/loop/optimizer.h"
#include "train/model/model_shape.h"
#include "train/model/model_torch.h"
#include "train/model/weights.h"
#include "train/objective/graph_objective.h"
#include "train/objective/lora.h"
#include "train/objective/objective.h"
#include "train/parallel/processes.h"
#include "train/parallel/shard_sum.h"

namespace slip {

/// kLora: the draft adapter; kLoraAll: adapters on all linear layers. From kDflash on: heads over a frozen target (train/heads).
enum class ObjectiveKind : uint8_t { kSasd, kNld, kGraph, kLora, kLoraAll, kDflash, kCommitSampler, kBlockPilot, kTrajectory };
/// The word of the configuration's "kind".
std::string_view word_of(ObjectiveKind kind);
inline bool trains_a_head(ObjectiveKind kind) { return kind >= ObjectiveKind::kDflash; }

struct ValidationRule {
  int64_t every = 0, samples = 32, first_sample = 0, patience = 0;  // every 0: none
};

struct TrainConfig {
  json::object source;  // as read, model resolved, with what the setters below changed: what trainer.json keeps
  json::object model;
  ModelShape shape;
  std::string init, init_tokenizer, tokenizer;
  double init_deviation = 0.02;
  json::object data;
  ObjectiveKind objective = ObjectiveKind::kSasd;
  std::string target;  // of a head
  json::object head;   // a head's "objective", read by whoever trains it
  NldRule nld_rule;
  GraphRule graph_rule;
  LoraRule lora_rule;
  bool diffusion_shift = false;  // of the model: the row before a mask predicts it
  double minimum_noise = 1e-3;
  std::optional<std::vector<SectionRule>> sections;  // as asked for; rules_of_sections puts them in the data's order
  SasdRule sasd_rule;
  uint64_t seed = 0;
  uint32_t rank = 0;
  int64_t steps = 1000, batch = 8, accumulate = 1, first_sample = 0;
  AdamWOptions adamw{.decay_all = false};
  double clip = 1;
  RateSchedule schedule;
  ValidationRule validation;
  double ema_decay = 0;
  Precision precision = Precision::kF32;
  StoreAs store = StoreAs::kF32;
  std::filesystem::path out;
  int64_t save_every = 0, keep = 2, log_every = 10;
  double max_minutes = 0;
  int threads = 0;  // 0: all usable cores
  /// That read samples and lay out rows, each with a source of its own: for devices, which are quicker than one.
  int data_threads = 1;
  int64_t shards = 8;
  bool recompute = false;
  std::string device = "cpu";
  std::shared_ptr<Processes> processes = alone();  // not read: who trains together is for the program to say
  /// This process's part of each step; whoever starts has checked that there is one.
  ShardRange range() const { return *shards_of(shards, processes->rank(), processes->size()); }

  /// In place of what was read: a run that goes on from a checkpoint has the same end and the same schedule. 0 minutes: no limit, and a schedule
  /// by time becomes one by steps.
  void set_steps(int64_t n);
  void set_max_minutes(double minutes);

  static Result<TrainConfig> parse(const json::object& config, const std::string& where);
  static Result<TrainConfig> load(const std::filesystem::path& file);
};

}  // namespace slip
