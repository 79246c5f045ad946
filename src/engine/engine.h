// SPDX-License-Identifier: Apache-2.0
// One request from images to plan: a loaded model, its forms, and the stages admit, encode, form, prefill, draft, verify,
// commit, plan, reply.
#pragma once
#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "decode/decoder.h"
#include "decode/pass/prefix_cache.h"
#include "engine/resources.h"
#include "form/schema/values.h"
#include "image/image.h"
#include "models/config/openvla.h"
#include "models/model.h"
#include "models/video_prompt.h"
#include "plan/fit.h"
#include "task/wod.h"
#include "text/chat.h"

namespace slip {

/// Room for Fast-dDrive's request at its own size: 1,440 prompt rows, 404 of the answer and their drafts.
constexpr int kDefaultSlots = 4096;

struct EngineOptions {
  std::string dtype =
      "auto";       // auto: as stored (a packed folder's type; f32 stays f32, anything else is bf16); f32, bf16, int8, int4
  int threads = 0;  // 0: every core this process may use
  int slots = kDefaultSlots;     // prompt + answer + drafts, in rows
  std::string device = "cpu";    // where the decoder runs: cpu, cuda:0
  std::string kv_type = "auto";  // of the key/value cache: auto (f32 beside f32 weights, else bf16), f32, bf16, int8
};

/// `--dtype`'s word for a folder whose config says `stored_dtype`. kUnsupported for an unknown one.
Result<WeightType> weight_type(std::string_view word, std::string_view stored_dtype);

/// `--kv`'s word; nothing for "auto". kUnsupported for an unknown one.
Result<std::optional<KvType>> kv_type_named(std::string_view word);

/// Frames in order of time, at a steady rate.
struct VideoClip {
  std::vector<Image> frames;
  double fps = 2;
};

struct Request {
  /// "model": the form that the folder was trained for; a built-in's name; a JSON Schema file; empty: free text.
  std::string form = "model";
  std::optional<EgoInput> ego;  // the prompt is made of it, in the model's own style ...
  std::string prompt;           // ... or this text; "<image>" marks where all images and videos go (else: in front)
  std::vector<Image> images;
  std::vector<VideoClip> videos;  // behind the images; of models with Qwen2.5-VL's tower
  std::string unnorm_key;         // OpenVLA: whose statistics put actions in physical units; empty: the only ones
  Method method;
  DecodeOptions decode;   // its visibility is the model's, unless `visibility` says otherwise
  DecodeContext context;  // what the method needs and is not here, the engine loads
  std::optional<Visibility> visibility;
  std::vector<std::pair<std::string, float>> section_temperatures;
  int rollouts = 1;  // > 1: request numbers 0 .. n-1, trajectories averaged after the fit
  Fit fit = Fit::kJmtPaperCompat;
  /// Rows at the prompt's beginning that the request before had too (the same text; of images the same features) are not run again.
  /// Same answer either way; off where times of whole requests are compared.
  bool reuse_prompt = true;
};

struct Plan {
  std::vector<Waypoint> waypoints;   // as the answer says, 1 Hz
  std::optional<Trajectory> fitted;  // after the fit, 4 Hz; nothing without five waypoints
  std::vector<double> spread_m;      // per point: root mean square distance of the rollouts from their mean
};

struct StageTimes {
  double encode_ms = 0, form_ms = 0, plan_ms = 0, total_ms = 0;
};

struct Answer {
  const CompiledForm* form = nullptr;  // lives as long as the engine; null for free text
  Method method;
  Decoded decoded;  // of rollout 0; its statistics are those of all rollouts
  std::string text;
  std::vector<FieldValue> values;  // in the order of the form's fields
  Plan plan;
  std::optional<DecodedAction> action;  // of models that answer with actions (config().action)
  StageTimes stages;
};

class Engine {
 public:
  static Result<std::unique_ptr<Engine>> load(const std::filesystem::path& folder, const EngineOptions& options,
                                              const LoadProgress& progress = {});
  Model& model() { return *model_; }
  const TaskOptions& task() const { return task_; }
  const EngineOptions& options() const { return options_; }
  const std::filesystem::path& folder() const { return model_->folder(); }
  /// What the model was trained for.
  Visibility visibility() const { return task_.visibility; }
  /// Compiled once per name. kBadInput for an unknown name or a schema that this tokenizer cannot meet.
  /// A model of actions has its own form under the names model, openvla-action and minivla-action, with as many dimensions as the
  /// statistics of `unnorm_key`.
  Result<const CompiledForm*> form(const std::string& name, std::string_view unnorm_key = {});
  /// The prompt's rows, images encoded (the stages admit and encode). kCancelled between images as the request's `context` says.
  Result<Prompt> prompt(const Request& request);
  /// kBadInput / kUnsupported for what the request asks, kCancelled after Ctrl-C or a deadline.
  Result<Answer> run(const Request& request);

 private:
  Engine() = default;
  Result<std::string> user_text(const Request& request) const;
  Status preprocess(std::span<const Image> images, const CancelToken& cancel, std::vector<PatchGrid>& grids);
  Result<std::vector<VideoPatches>> preprocess(std::span<const VideoClip> clips, const CancelToken& cancel) const;
  bool is_action_form(std::string_view name) const;
  Result<Prompt> action_prompt(const Request& request, std::span<const PatchGrid> images);
  std::vector<float> history_numbers(const Request& request) const;
  Status check_statistics(const Request& request) const;
  Status read_action(const Request& request, Answer& answer) const;
  /// Physical units per normalised one, by dimension, of an action form's numbers; empty for other forms.
  Result<std::vector<double>> action_scale(const Request& request) const;
  Status decode_rollouts(const Request& request, const Prompt& prompt, Answer& answer);
  Result<DecodeOptions> decode_options(const Request& request, const CompiledForm* form);
  Result<DecodeContext> decode_context(const Request& request, const CompiledForm* form);
  std::unique_ptr<Model> model_;
  TaskOptions task_;
  std::map<std::string, std::unique_ptr<CompiledForm>> forms_;
  std::optional<ChatTemplate> chat_;  // the folder's, read with the first prompt
  bool chat_known_ = false;
  EngineOptions options_;
  Resources resources_;
  PrefixCache prefix_cache_;
};

/// The form of a model of actions, with its own bins as its vocabulary spells them, and as many numbers as the statistics of
/// `unnorm_key` have (7 where the key is empty and there are several). kUsage for an unknown key, kBadInput when the tokenizer has
/// not all the ids.
Result<json::value> own_action_schema(const ActionConfig& action, const Tokenizer& tokenizer, std::string_view unnorm_key);

/// The method as it will run: relaxed bins get the form's ids, and a radius per number in physical units. `scale`: how many of those a
/// unit of the form's numbers is, by dimension (empty: 1). kUnsupported where the form has no bins.
Status resolve_method(Method& method, const CompiledForm* form, std::span<const double> scale = {});

/// The parts and the whole of the result object of the command line's contract. `relaxed` is told per dimension for a form with bins.
json::object decoder_json(const Method& method, const CompiledForm* form = nullptr);
json::object statistics_json(const Answer& answer);
json::object answer_json(const Engine& engine, const Answer& answer, const Request& request, std::string_view model);

}  // namespace slip
