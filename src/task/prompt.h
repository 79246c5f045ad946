// SPDX-License-Identifier: Apache-2.0
// The driving task as a prompt: three front cameras, the route's intent and the ego history (Fast-dDrive's inputs; facts:
// docs/notes/block-diffusion.md#prompt, docs/notes/driving.md#wod-e2e). The wording is ours. Two styles: `full` explains the tasks
// of the answer's form and gives seven states at 2 Hz; `compact` gives three states and no explanation, for small models whose
// prompt is a large part of their work; `intent` gives no state at all, for models that take the history as a row of its own (dino_qwen).
#pragma once
#include <array>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"
#include "base/result.h"
#include "form/builtin/builtin.h"
#include "image/image.h"
#include "lm/visibility.h"
#include "sim/record.h"

namespace slip {

/// What the car knows of itself: 16 states at 4 Hz, oldest first, t = -3.75 .. 0 s, ego frame of t = 0 (m, m/s, m/s^2).
struct EgoInput {
  sim::Intent intent{};
  std::array<sim::EgoState, 16> history{};
};
/// At rest for the whole history, going straight on: what is said of a car of which nothing is known.
EgoInput standing_ego();
EgoInput ego_of(const sim::Labels& labels);
/// The same car as if it had come straight here at the velocity that it has now: r(t) = v t, no acceleration. What is left of its past is how
/// fast it goes.
EgoInput steady(EgoInput ego);
/// The newest `states` of the history as numbers, oldest first, of each x, y, vx, vy, ax, ay (HistoryConfig). The oldest one stands for
/// those before it where more are asked for than are known.
std::vector<float> history_numbers(const EgoInput& ego, int32_t states);
/// {"intent": "GO_STRAIGHT|GO_LEFT|GO_RIGHT", "history": [[t, x, y, vx, vy, ax, ay], ...]}: states oldest first in the frame of the last one,
/// t in seconds, the last one's 0, the first one's at most -3.75 (docs/guide/inputs.md). Sixteen at 4 Hz are taken as they are; others are
/// resampled (task/ego.cc). kBadInput for unknown keys, keys that stand twice, other times and for what no car does.
Result<EgoInput> read_ego(const std::filesystem::path& file);
Result<EgoInput> parse_ego_text(std::string_view text, std::string_view where);
Result<EgoInput> parse_ego(const json::value& v, std::string_view where);
/// Is it a car's history, in the frame of its last state, at the times of EgoInput? kBadInput says which state is not.
Status check_ego(const EgoInput& ego, std::string_view where);

/// A record's pictures (kCameras * kImageBytes: an invariant, RecordSet::pictures checks files) as images, front left first; all one
/// grey when `blank`: the ablation that shows how much the cameras matter.
std::vector<Image> camera_images(std::span<const uint8_t> pictures, bool blank = false);

std::string_view words(sim::Intent v);  // "GO_STRAIGHT", ...
/// kBadInput for a word that is none; `where` opens the message.
Result<sim::Intent> intent_named(std::string_view word, std::string_view where);

enum class PromptStyle { kFull, kCompact, kIntent };

/// The answers that the task can be given in (form/builtin/builtin.h), and what the fields of an answer see: everything before them, or the
/// prompt, the scaffold and their ancestors in the field graph.
enum class TaskForm : uint8_t { kWodE2e, kDriveCot, kAction };
std::string_view words(TaskForm v);  // "wod-e2e", "drive-cot", "action"

/// Whose actions a model of the form `action` gives: a car's accelerations, or the steps of the arm of sim/reach/reach.h.
enum class Body : uint8_t { kCar, kArm };
std::string_view words(Body v);  // "a car", "an arm"

/// An answer of one action (task/action.h). Its bins are the tokens <|NAME_0|> .. <|NAME_255|>, neighbours in the vocabulary.
struct ActionOptions {
  int dimensions = 7;
  int bins = 256;
  std::string tokens = "action";  // NAME
  bool descending = true;         // OpenVLA: the largest value has the smallest id
  double low = -6, high = 6;      // m/s^2; of an arm -1 and 1
};

/// How a model folder was trained for the task: object "slipstream" of its config.json,
/// {"form": "wod-e2e", "visibility": "chain", "prompt": "full|compact|intent", "explanation_budget": 192, "behaviour_budget": 3, "block_size": 32}
/// {"form": "drive-cot", "visibility": "graph", "prompt": "full|compact|intent", "budgets": {"condition": 16, ...}, "block_size": 32, "reasoning": true}
///   with "codes": {"count": 6, "values": 512, "tokens": "code", "book": "codebook.json"} a trajectory of so many codes (task/codes.h)
/// {"form": "action", "prompt": "compact", "cameras": false, "action": {"dimensions": 7, "bins": 256, "tokens": "action",
///                                                                      "descending": true, "low": -6, "high": 6}}
///   with "body": "arm" seven numbers of an arm's step in -1 .. 1, asked for by task/arm_prompt.h and never by an ego history
/// Without cameras (any form) a record's pictures are not shown to the model. `budgets` names fields of DriveCotOptions without
/// their "_budget". Visibility is the form's own where none is given; "law" is its old name.
struct TaskOptions {
  PromptStyle prompt = PromptStyle::kFull;
  int explanation_budget = 192;
  int behaviour_budget = 3;
  int block_size = 32;
  TaskForm form = TaskForm::kWodE2e;
  Body body = Body::kCar;
  Visibility visibility = Visibility::kChain;
  bool cameras = true;
  std::string weights;            // the type that the model is meant to run in (`--dtype auto`); empty: as stored
  double waypoint_step_m = 0.01;  // in which the model was taught to say waypoints
  ActionOptions action;
  // Room for every text of sim/cot.h in the vocabulary of make_task_tokenizer; a byte-level vocabulary needs more.
  DriveCotOptions drive_cot{.condition_budget = 16,
                            .lanes_budget = 20,
                            .lane_budget = 8,
                            .objects_budget = 16,
                            .position_budget = 8,
                            .type_budget = 8,
                            .justification_budget = 12,
                            .regulation_budget = 12,
                            .summary_budget = 24,
                            .ego_behavior_budget = 20};
  std::string codebook = "codebook.json";  // a file of the model's folder; of forms with codes
};
/// The defaults where config.json has no such object; kBadInput names the key that is wrong.
Result<TaskOptions> task_options(const json::object& config, std::string_view where);

/// User text around the images.
struct PromptText {
  std::string before_images, after_images;
};
PromptText prompt_text(PromptStyle style, const EgoInput& ego, TaskForm form = TaskForm::kWodE2e, bool codes = false);
/// The one that a model was trained with.
PromptText prompt_text(const TaskOptions& task, const EgoInput& ego);

}  // namespace slip
