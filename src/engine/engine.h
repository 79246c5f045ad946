// SPDX-License-Identifier: Apache-2.0
// A loaded model that answers requests, from images to plan: the stages admit, form, encode, prefill, draft, verify, commit, plan, reply.
#pragma once
#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/cancel.h"
#include "base/result.h"
#include "decode/decoder.h"
#include "decode/pass/prefix_cache.h"
#include "engine/conversation.h"
#include "engine/forms.h"
#include "engine/resources.h"
#include "engine/seat.h"
#include "engine/turns.h"
#include "form/schema/values.h"
#include "image/image.h"
#include "models/config/openvla.h"
#include "models/model.h"
#include "plan/fit.h"
#include "task/wod.h"
#include "text/chat.h"

namespace slip {

/// Room for Fast-dDrive's request at its own size: 1,440 prompt rows, 404 of the answer and their drafts.
constexpr int kDefaultSlots = 4096;

struct EngineOptions {
  std::string dtype =
      "auto";  // auto: a packed folder's type, the one that config.json says (slipstream.weights, on the processor), f32 for f32, else bf16
  int threads = 0;               // 0: every core this process may use
  int slots = kDefaultSlots;     // prompt + answer + drafts, in rows
  std::string device = "cpu";    // where the decoder runs: cpu, cuda:0
  std::string kv_type = "auto";  // of the key/value cache: auto (f32 beside f32 weights, else bf16), f32, bf16, int8
  std::string trajectory_head;   // loaded with the model, so that the first request that names it need not wait
};

/// `--dtype`'s word for a folder whose config says `stored_dtype`. kUnsupported for an unknown one.
Result<WeightType> weight_type(std::string_view word, std::string_view stored_dtype);

/// `--kv`'s word; nothing for "auto". kUnsupported for an unknown one.
Result<std::optional<KvType>> kv_type_named(std::string_view word);

struct HeadPlan;

/// Frames in order of time, at a steady rate.
struct VideoClip {
  std::vector<Image> frames;
  double fps = 2;
};

struct Request {
  /// "model": the form that the folder was trained for; a built-in's name; a JSON Schema file; empty: free text.
  std::string form = "model";
  std::string form_schema;            // a JSON Schema document in place of `form`
  std::optional<EgoInput> ego;        // the prompt is made of it, in the model's own style ...
  std::string prompt;                 // ... or, for models of actions, this instruction
  std::vector<ChatTurn> turns;        // ... or this conversation; a text alone is one user's turn
  std::vector<ChatMessage> messages;  // ... or these, whose parts say where images go
  bool raw_prompt = false;            // the text without a chat template
  std::vector<Image> images;
  std::vector<VideoClip> videos;  // behind the images; of models with Qwen2.5-VL's tower
  std::string unnorm_key;         // OpenVLA: whose statistics put actions in physical units; empty: the only ones
  Method method;
  DecodeOptions decode;   // its visibility is the model's, unless `visibility` says otherwise
  DecodeContext context;  // what the method needs and is not here, the engine loads
  std::optional<Visibility> visibility;
  std::vector<std::pair<std::string, float>> section_temperatures;
  int rollouts = 1;        // > 1: request numbers 0 .. n-1, trajectories averaged after the fit
  std::optional<Fit> fit;  // nothing: Engine::plan_fit
  /// Along a graph: decodes section `trajectory` and the fields that it needs first, for callers that may have to use an incomplete answer.
  bool plan_first = false;
  std::vector<std::string> stop;  // free text ends before the first of these
  /// Rows at the prompt's beginning that the request before had too (the same text; of images the same features) are not run again.
  /// Same answer either way; off where times of whole requests are compared.
  bool reuse_prompt = true;
  /// Folder of a trajectory head (models/draft/flow_head.h): the plan is what it reads from the keys of prompt and answer, from noise that
  /// the seed alone says, at any temperature. The answer's own stays beside it.
  std::string trajectory_head;
  bool fast_plan = false;  // it plans behind the prompt and behind every section too; of heads that were taught with "cut"
  std::function<void(const HeadPlan&)> on_plan;  // every plan of the head as soon as it is there
  bool free_text() const { return form.empty() && form_schema.empty(); }
  FormPtr compiled;              // of form or form_schema, where somebody has it already
  std::vector<PatchGrid> grids;  // of the images, likewise: then `images` are not looked at
  /// An earlier answer that drafts (drafter previous without a file); `context.previous` points to it.
  std::shared_ptr<const PreviousAnswer> previous;
};

/// Why free text ended.
enum class Finish : uint8_t { kEnd, kStop, kLength };
std::string_view word_of(Finish finish);  // "end", "stop", "length"

/// What `--decoder auto` took, and by what.
struct ChosenDecoder {
  std::string name;         // a preset with the parts that differ; empty: nothing was to be chosen
  std::string costs;        // where the prices of passes come from
  bool calibrated = false;  // acceptance from the folder's calibration; otherwise from doubt and the answers so far
  double expected_ms = 0;   // of decoding, the prompt's pass included
  std::string why;          // one line
  std::vector<std::pair<std::string, double>> considered;  // milliseconds expected
};

struct Plan {
  std::vector<Waypoint> waypoints;              // as the answer says, 1 Hz
  std::optional<Trajectory> fitted;             // after the fit, or the path of an answer in codes, 4 Hz; nothing without either
  std::vector<double> spread_m;                 // per point: root mean square distance of the rollouts from their mean
  std::vector<std::string> infeasible;          // why a car could not follow the fitted plan
  std::vector<std::vector<Waypoint>> rollouts;  // as each answer says, where there are several
  std::vector<Trajectory> fitted_rollouts;      // the same after the fit
};

/// A plan that a trajectory head has read from what was decided so far.
struct HeadPlan {
  Plan plan;
  std::string after_section;  // "prompt", or the last section that it has read
  bool final = false;         // nothing that it reads is to come
  double ms = 0;              // of the request's time when it was there
  int64_t forwards = 0;       // passes of the model before it
};

struct StageTimes {
  double encode_ms = 0, form_ms = 0, plan_ms = 0, total_ms = 0;
  double head_ms = 0;    // a trajectory head, while the answer is decoded
  double choice_ms = 0;  // what passes cost, measured or looked up, and the forecasts of `auto`
};

struct Answer {
  FormPtr form;   // null for free text
  Method method;  // as it ran
  ChosenDecoder chosen;
  /// Of rollout 0. In its statistics passes, rows, drafts and times are those of all rollouts; tokens, forced_tokens and critical_path are its own,
  /// and all_tokens are the tokens of all.
  Decoded decoded;
  std::string text;
  Finish finish = Finish::kEnd;            // of free text
  std::vector<std::string> texts;          // of every rollout; the first is `text`
  std::vector<Finish> finishes;            // of free text, likewise
  std::map<int32_t, std::string> spelled;  // bytes of the ids in decoded.top_log_probs
  std::vector<FieldValue> values;          // in the order of the form's fields
  Plan plan;
  std::optional<Plan> own_plan;         // where `plan` is a trajectory head's: what the answer itself says
  std::vector<HeadPlan> early_plans;    // Request::fast_plan
  int64_t head_forwards = 0;            // passes of a trajectory head
  std::optional<DecodedAction> action;  // of models that answer with actions (config().action)
  std::vector<std::string> remarks;
  StageTimes stages;
  int64_t prompt_rows = 0;  // of the question, images included
};

/// What an answer says of the way to go: waypoints at 1 Hz, and where it says so in codes, the path that they come from.
struct SaidPlan {
  std::vector<Waypoint> waypoints;
  std::vector<Pose> path;  // 10 Hz
};
SaidPlan said_plan(const CompiledForm& form, std::span<const FieldValue> values);

/// How waypoints become a curve, and half of the step in which a model says them, in metres.
struct PlanFit {
  Fit fit = Fit::kJmtPaperCompat;
  double rounding_m = 0;
};

/// The plan of answers that say this: `waypoints` are the first one's, `fitted` is the average of what is fitted to each one's waypoints, or
/// of their paths. Nothing of fewer than two points.
Status fit_plan(const PlanFit& fit, const std::optional<EgoInput>& ego, std::span<const SaidPlan> rollouts, Plan& plan);

class Automatic;

/// What all requests to a loaded model share: weights, forms, kept prompt, the helpers that methods name. Thread-safe: any number of
/// requests may be under way; they take turns where passes run.
class Engine {
 public:
  static Result<std::unique_ptr<Engine>> load(const std::filesystem::path& folder, const EngineOptions& options,
                                              const LoadProgress& progress = {});
  /// For those who have the engine alone, such as benchmarks: passes of theirs take no turns.
  Model& model() { return *model_; }
  const TaskOptions& task() const { return task_; }
  /// The fit that `request` names; without one kRounded where the model says waypoints in coarser steps than its form can, and the
  /// published one else.
  PlanFit plan_fit(const Request& request) const;
  const EngineOptions& options() const { return options_; }
  Engine(const Engine&) = delete;
  ~Engine();
  const std::filesystem::path& folder() const { return model_->folder(); }
  /// What the model was trained for.
  Visibility visibility() const { return task_.visibility; }
  /// Forms::named.
  Result<FormPtr> form(const std::string& name, std::string_view unnorm_key = {}) { return forms_->named(name, unnorm_key); }
  /// The form that a request is answered in.
  Result<FormPtr> form_of(const Request& request);
  /// The folder's; null where it has none.
  Result<const ChatTemplate*> chat_template() const;
  /// The prompt's rows, images encoded (the stages admit and encode). kCancelled between images as the request's token says.
  Result<Prompt> prompt(const Request& request);
  /// kBadInput / kUnsupported for what the request asks, kCancelled by its token.
  Result<Answer> run(const Request& request);
  /// The same from a seat, on the one thread that runs all requests with seats; nobody else runs any meanwhile.
  Result<Answer> run(const Request& request, Seat& seat);
  /// What passes cost here behind so many keys, measured now and used by every draft length `measured` from now on.
  Result<CostTable> measure(int32_t visible, const CancelToken& cancel = {});
  /// The same with costs that somebody knows already.
  void use_costs(const CostTable& costs);

 private:
  friend class Answering;
  friend class Automatic;
  Engine();
  std::unique_ptr<Model> model_;
  TaskOptions task_;
  std::unique_ptr<Forms> forms_;
  bool has_chat_template_ = false;
  bool warned_of_visibility_ = false;  // of the request whose turn it is
  EngineOptions options_;
  Turns turns_;
  Resources resources_;                   // of the request whose turn it is
  std::unique_ptr<Automatic> automatic_;  // likewise
  PrefixCache prefix_cache_;              // likewise
};

/// The form of a model of actions, with its own bins as its vocabulary spells them, and as many numbers as the statistics of
/// `unnorm_key` have (7 where the key is empty and there are several). kUsage for an unknown key, kBadInput when the tokenizer has
/// not all the ids.
Result<json::value> own_action_schema(const ActionConfig& action, const Tokenizer& tokenizer, std::string_view unnorm_key);

/// The method as it will run: relaxed bins get the form's ids, and a radius per number in physical units. `scale`: how many of those a
/// unit of the form's numbers is, by dimension (empty: 1). kUnsupported where the form has no bins.
Status resolve_method(Method& method, const CompiledForm* form, std::span<const double> scale = {});

/// The parts and the whole of the result object that `run --json` prints. `relaxed` is told per dimension for a form with bins.
json::object decoder_json(const Method& method, const CompiledForm* form = nullptr, const ChosenDecoder* chosen = nullptr);
json::object statistics_json(const Answer& answer);
json::object answer_json(const Answer& answer, const Request& request, std::string_view model);

}  // namespace slip
