// SPDX-License-Identifier: Apache-2.0
// What slipstream::limits works with before any weight is read: a model by its config.json, and by what else of its folder is there
// (tokenizer, chat template, preprocessor, calibration, draft head, draft adapter).
#pragma once
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "decode/draft_length/model.h"
#include "form/schema/schema.h"
#include "limits/draft_head.h"
#include "limits/tower.h"
#include "models/config/config.h"
#include "models/model.h"
#include "slipstream/engine.h"
#include "task/prompt.h"

namespace slip::api {

/// A draft head's sizes, by the config.json of its folder.
struct HeadCase {
  std::string folder;
  DraftHeadShape shape;
  int32_t block = 16;
  bool image_context = true;
};

/// The pictures that a tower reads: what they are to it, and the rows that they become.
struct PictureCase {
  int64_t count = 0;
  int32_t width = 0, height = 0;  // pixels, before preprocessing
  TowerGrid grid;                 // of each
  int64_t rows = 0;               // of each, in the prompt
};

struct LimitsCase {
  std::filesystem::path folder;  // of config.json
  bool lone = false;             // a configuration under another name: nothing beside it is the model's
  ModelConfig config;
  TaskOptions task;
  DecoderShape shape;
  std::string type;                   // of the weights
  std::string head_type, tower_type;  // of those of the head and of the vision towers, which are never int4
  LmInfo info;
  std::shared_ptr<const Tokenizer> tokenizer;  // null: none
  std::optional<CompiledForm> form;            // none: free text
  std::vector<TowerShape> towers;
  PictureCase pictures;
  int32_t prompt_rows = 0;
  std::string prompt_words;  // what that number is
  std::optional<HeadCase> head;
  std::string adapter;             // the draft adapter's folder; empty: none
  std::vector<std::string> notes;  // what could not be told of this folder, and what stands for it

  /// kBadInput for a file that is none; errors of config.json name their key.
  static Result<LimitsCase> load(const std::string& folder_or_config, const slipstream::LimitsOptions& options);
  const Form* plain_form() const { return form ? &form->form : nullptr; }
  /// kBadInput unless there are weights beside config.json; `what` needs them.
  Status need_weights(std::string_view what) const;
};

DecoderShape decoder_shape_of(const DecoderOptions& options);
/// Qwen2.5-VL's tower, and plain ViTs whose projector stands with the last one.
TowerShape tower_shape_of(const VisionConfig& config);
std::vector<TowerShape> tower_shapes_of(const ModelConfig& config);

}  // namespace slip::api
