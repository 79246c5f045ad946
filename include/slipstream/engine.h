// SPDX-License-Identifier: Apache-2.0
// The engine: a loaded model that answers requests; and what is done with whole sets of them.
//
//   auto engine = slipstream::Engine::load("models/demo");
//   if (!engine) return fail(engine.error());
//   slipstream::Request request;
//   for (const char* file : {"left.jpg", "front.jpg", "right.jpg"}) {  // in the model's order
//     auto image = slipstream::read_image(file);
//     if (!image) return fail(image.error());
//     request.images.push_back(*image);
//   }
//   auto ego = slipstream::read_ego("ego.json");
//   if (!ego) return fail(ego.error());
//   request.ego = *ego;
//   auto answer = engine->answer(request);
//   if (!answer) return fail(answer.error());
//   std::puts(answer->to_json().c_str());
//
// examples/hello.cc is the whole program.
#pragma once
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "slipstream/answer.h"
#include "slipstream/error.h"
#include "slipstream/form.h"
#include "slipstream/model.h"
#include "slipstream/request.h"

namespace slipstream {

/// How a model is loaded; words as on the command line.
struct EngineOptions {
  std::string dtype = "auto";        // auto (a packed folder's, config.json's, f32 for f32, else bf16), f32, bf16, int8, int4
  std::string kv_type = "auto";      // keys and values: auto (f32 beside f32 weights, else bf16), f32, bf16, int8
  std::string device = "cpu";        // where the decoder runs: cpu, cuda:0
  int32_t threads = 0;               // 0: every core that this process may use
  std::string trajectory_head = {};  // a folder (Request::trajectory_head), loaded with the model
  int32_t slots = 0;                 // rows that the key/value cache holds; 0: 4096, of load_for more where its request needs more
};

/// A loaded model that answers one request at a time. A fork of the process has none of its threads: answer() is kUnsupported there, and its
/// destructor leaves it where it lies.
class Engine {
 public:
  /// Loads a model folder. kUsage for options out of their range, kBadInput, kUnsupported or kResource as the folder and the machine are,
  /// kCancelled by the token.
  static Result<Engine> load(const std::string& folder, const EngineOptions& options = {}, const Progress& progress = {},
                             const CancelToken& cancel = {});
  /// The same with as many slots as the request needs, and 4096 at least (where options.slots is 0); and check_request before.
  static Result<Engine> load_for(const Request& request, const std::string& folder, const EngineOptions& options = {},
                                 const Progress& progress = {}, const CancelToken& cancel = {});
  Engine(Engine&&) noexcept;
  Engine& operator=(Engine&&) noexcept;
  ~Engine();

  /// What was loaded; valid as long as the engine.
  const ModelInfo& info() const;
  /// One answer; `on_event` sees fields as they are decided. Calls from several threads take turns. kUsage and kBadInput for what the
  /// request says, kUnsupported for what this model cannot do, kResource where slots or memory do not suffice, kInternal for what on_event
  /// throws, kCancelled by the request's token.
  Result<Answer> answer(const Request& request, const OnEvent& on_event = {});

  struct Impl;
  Impl& impl() { return *impl_; }

 private:
  explicit Engine(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

/// What form "model" stands for in a model folder: the one that it was trained for, "openvla-action" or "minivla-action", or "none" (free
/// text) where its config.json says nothing of one. Empty where that cannot be read: check_request and loading say why.
std::string own_form(const std::string& folder);

/// Bounds of a Service: requests, time of a shared pass, memory of kept features.
struct ServiceOptions {
  int32_t most_running = 64, most_waiting = 256;  // requests: at least 1, and at least 0
  double pass_budget_ms = 50;  // above 0: a pass that many share takes about so long at most: prompts are cut to what is left of it
  int64_t feature_bytes = int64_t{256} << 20;  // features of images, kept by content; 0: none
  /// Pictures of requests that wait, made ready for the tower: with more of them a further request with pictures is refused as by a full queue.
  int64_t picture_bytes = int64_t{2} << 30;
};

/// What a caller wants of a service beside the answer.
struct Terms {
  std::string key;         // who asks: keys share the machine evenly
  bool batch = false;      // on what interactive requests leave
  double deadline_ms = 0;  // from now; 0: none; below 0: kUsage
  /// What is complete when the deadline comes is wanted, and told by events: such a request is not refused for its deadline while any of it
  /// can be kept, and where the whole may not be in time, the plan and what it needs come before the rest.
  bool partial = false;
};

/// How a request of a Service ended.
enum class Fate : uint8_t {
  kAnswered,
  kFailed,     // the error says why
  kFull,       // refused: too many wait
  kTooLate,    // refused: its deadline would not be kept
  kLate,       // its deadline passed while it waited or ran
  kCancelled,  // by its token
};

/// What a request of a Service met beside its answer.
struct Served {
  Fate fate = Fate::kAnswered;
  double queue_ms = 0, run_ms = 0;
  double predicted_ms = 0;   // at admission, to its end, of refused ones too; 0: nothing was known of its kind
  double retry_after_s = 0;  // of refusals
  int64_t prompt_rows = 0,
          kept_rows = 0;  // of its prompt, images included, and of these that were kept from another's; 0: it did not come so far
};

/// One pass that several requests shared.
struct PassShared {
  int64_t rows = 0, prompt_rows = 0;
  int32_t requests = 0;
  double ms = 0;
  bool draft = false;
};

/// What a Service holds now, and what it has counted since its start.
struct ServiceLoad {
  int32_t running = 0, waiting = 0, room = 0;         // room: that may run or wait in all
  int32_t pages = 0, pages_held = 0, pages_kept = 0;  // of the key/value cache, 16 rows each
  int64_t prompt_rows = 0, prompt_rows_found = 0;     // looked for among kept prompts, found there
  int64_t images = 0, images_found = 0;               // among kept features
  int64_t passes = 0;
};

/// Many requests under way on one model, one pass for all of them: each answer has the bytes that Engine::answer gives. Thread-safe. What `on_done`
/// or `on_pass` throws is logged. In a fork submit(), answer() and most_tokens() are kUnsupported, as an Engine's answer is, outlook() says
/// Fate::kFailed, and load() has no room. The tokenizer works there too.
class Service {
 public:
  /// Takes the engine over and measures what passes cost here. kUsage names an option that makes no sense.
  static Result<Service> start(Engine engine, const ServiceOptions& options = {}, const CancelToken& cancel = {});
  Service(Service&&) noexcept;
  Service& operator=(Service&&) noexcept;
  /// Ends what is under way.
  ~Service();

  /// What was loaded; valid as long as the service.
  const ModelInfo& info() const;
  /// Within one fingerprint equal requests get equal bytes: of weights, types, instruction set and version.
  const std::string& fingerprint() const;
  using OnDone = std::function<void(Result<Answer>, const Served&)>;
  /// Reads the request's words, compiles its form and prepares its images on the calling thread, then returns. `on_done` is called once,
  /// here or on the service's thread, after the last `on_event`. The pixels may go when this returns.
  void submit(const Request& request, const Terms& terms, OnEvent on_event, OnDone on_done);
  /// The same, waiting for it; kUsage in a callback of this service, which would wait for itself.
  Result<Answer> answer(const Request& request, const Terms& terms = {}, const OnEvent& on_event = {}, Served* served = nullptr);
  /// Would such a request be refused now? Before its images are read: of Request::images their number counts. Fate::kFailed for terms that
  /// submit() refuses.
  Served outlook(const Request& request, const Terms& terms) const;
  /// Tokens that an answer in the request's form has at most; 0: free text. Compiles it.
  Result<int64_t> most_tokens(const Request& request);
  /// The model's own tokenizer. kBadInput for text that is not valid UTF-8, and for ids that are none.
  Result<std::vector<int32_t>> tokenize(std::string_view text) const;
  Result<std::string> detokenize(const std::vector<int32_t>& ids) const;
  /// The bytes of one token, which may be a part of a character; empty for padding, which no text shows.
  std::string token_bytes(int32_t id) const;
  /// The numbers of this moment.
  ServiceLoad load() const;
  /// Told of every pass on the service's thread. Before the first request.
  void on_pass(std::function<void(const PassShared&)> told);

  struct Impl;

 private:
  explicit Service(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

/// Are the request's words and combinations possible for this model folder? What Engine::answer refuses before anything is loaded: settings, the
/// decoder's parts with form and visibility, a schema that cannot be one, and what is asked, of a request that asks something already (an ego, a
/// text, pictures). Left to the loaded model: whether it can draft, and with what (adapters, heads and second models, files of earlier answers),
/// whether a form suits its tokens and the prompt its positions, what its statistics and its chat template say, the pixels of pictures, and room.
Status check_request(const Request& request, const std::string& folder);
/// Is there a request that this decoder could answer with this model folder, with a form or without one, under the visibility that the model was trained
/// for? kUsage for words that are none, kUnsupported where no request could be answered, as Engine::answer has it.
Status check_decoder(const DecoderChoice& decoder, const std::string& folder);

/// What verify compares, and how wide.
struct VerifyOptions {
  std::string dtype = "auto", device = "cpu", kv_type = "auto";
  std::string draft_model, dflash;  // folders: their presets are compared too
  int32_t max_width = 64;
};
/// Proves on this machine that all widths, thread counts, cache layouts and exact decoders give the same bytes, and compares with the
/// folder's golden.json. Report::outcome is kCheckFailed where they do not.
Result<Report> verify(const std::string& folder, const VerifyOptions& options = {}, const Progress& progress = {},
                      const CancelToken& cancel = {});

/// Which scenes simulate writes: `count` from `first_seed` on.
struct SimulateOptions {
  uint64_t first_seed = 0;
  int64_t count = 0;
  std::string family;    // empty: all
  double perturbed = 0;  // share of records that start where the expert would not be; the future is his way back
  int32_t threads = 0;
  // Above 0: `count` records from drives of 12 s that are disturbed on purpose, about so many frames of each seed's, with what the expert does
  // from there. Seeds are used in turn until there are enough.
  int32_t driven = 0;
  std::string driver;  // with `driven`: the model that leads the drives astray, by its own plans; empty: made-up wrong plans
  double ensemble_s =
      0;  // with `driver`: its plans are averaged with those of so many seconds before, as by DriveOptions::ensemble_s
  bool careful = false;  // with `ensemble_s`, as DriveOptions::careful
};
/// Names that SimulateOptions::family takes.
std::vector<std::string> scene_families();
/// A record set of procedural scenes: three cameras, ego history, ground truth. The same bytes from the same seeds on any machine.
Result<Report> simulate(const std::string& out, const SimulateOptions& options, const Progress& progress = {},
                        const CancelToken& cancel = {});
/// One scene's cameras as a PNG; the report tells its labels.
Result<Report> draw_scene(const std::string& png, uint64_t seed, const std::string& family = "");
/// A scene as tools draw it: Report::json has the cameras' pictures as data URLs, the cameras, the ego state that a request takes, and in
/// metres of the ego frame roads, agents, where the ego has been and what the expert drove (4 Hz, 5 s).
Result<Report> describe_scene(uint64_t seed, double frame_s = 0);

/// What import_records reads.
struct ImportOptions {
  std::string format, source;     // conversations, wod-e2e, nuscenes, comma2k19, mcap
  std::string pictures, version;  // folder of pictures; nuScenes: of the tables. Empty: found beside the source
  double every_s = 1;             // where recordings have no moments of their own
  double least_history_s = 3.75;  // behind a begin or a hole in the times; what is missing of 3.75 s is continued straight back
  int64_t limit = 0;              // records; 0: all
  bool with_pictures = true;
};
/// Public data as a record set (conversations: a conversation set), which train, evaluate and read_record take.
Result<Report> import_records(const std::string& out, const ImportOptions& options, const Progress& progress = {},
                              const CancelToken& cancel = {});
/// What export_records writes.
struct ExportOptions {
  std::string format, records;  // mcap, wod-submission
  std::string answers;          // wod-submission: the lines that evaluate wrote (EvaluateOptions::out) over these records
  std::string account, method, parameters;
  std::vector<std::string> authors, pretraining;
};
/// Records as an MCAP file, or their answers as the WOD-E2E challenge's submission.
Result<Report> export_records(const std::string& out, const ExportOptions& options, const Progress& progress = {},
                              const CancelToken& cancel = {});

/// What evaluate answers, how, and where its lines go.
struct EvaluateOptions {
  std::string records;      // a record set; empty: scenes are simulated
  uint64_t first_seed = 0;  // of simulated ones; 0: the held-out seeds
  int64_t count = 0;        // 0: the whole set, or 500
  double every_s = 0;  // > 0: frames of each simulated scene, so many seconds apart; drafter "previous" goes by the frame before
  int32_t frames = 2;
  DecoderChoice decoder;
  std::vector<std::string> decoders;  // presets: all of them over the same records, one table
  double temperature = 0;
  std::vector<std::pair<std::string, double>> section_temperatures;
  int32_t rollouts = 1;           // sampled plans a record: the least error, their average's, their spread
  int32_t shard = 0, shards = 1;  // only records shard, shard + shards, ...
  uint64_t seed = 0;
  bool blank_images = false, reuse_prompt = true;
  std::string trajectory_head;  // whose plans are measured, in place of the answers' own (Request::trajectory_head)
  std::string require;          // JSON file of limits: Report::outcome is kCheckFailed where one is missed
  std::string out;              // JSON lines, one a record and decoder
  bool resume = false;          // what `out` has already is not answered again
  std::string csv;              // the table as CSV
  std::string calibrate;        // width.json to write: how often drafts held, how long fields were, what passes cost
};
/// Metrics of a decoder over records.
Result<Report> evaluate(const std::string& folder, const EngineOptions& engine, const EvaluateOptions& options,
                        const Progress& progress = {}, const CancelToken& cancel = {});
/// The same from lines that evaluations wrote (`out`), such as those of shards. A record that comes twice under one decoder is kBadInput.
Result<Report> merge_evaluations(const std::vector<std::string>& files, const std::string& csv = "");
/// Names that an evaluation's result may have under "measures".
std::vector<std::string> evaluation_measures();
/// 16 hex digits that tell a model's folder, a record set (a folder with an index.json) or a single file from others of its shape wherever it lies: over
/// the names, the sizes and pieces of its files, a set's shards among them. Not a checksum: a change between the pieces is not seen.
std::string folder_mark(const std::string& path);
/// Marks of the files and folders that the choice's words name (`measured:FILE`, `model:DIR`), a space behind each; those that are not there have none.
std::string parts_mark(const DecoderChoice& choice);

/// Who drives in drive, in which scenes, how late, and what is written.
struct DriveOptions {
  std::vector<std::string> decoders;  // presets, each driving by itself; empty: `decoder` alone
  DecoderChoice decoder;
  std::vector<std::string> verifiers, widths;  // in place of decoder's: every pair drives
  std::vector<std::string> baselines;          // drive_baselines(): without a model's latency they answer at once
  std::vector<std::string> families;           // scene families; empty: the 12 critical and the 2 held-out ones
  uint64_t first_seed = 900'100'000;           // of every family; training seeds lie below 100 million
  int64_t count = 1;                           // seeds of every family
  std::string mode = "async";                  // sync, async, async+ahead, stream
  std::string latency;                         // latency.json: answers take what their own counted passes and rows cost
  std::vector<int64_t> delays_ms;              // everybody's answers take these times, one after another
  bool reactive = true;                        // vehicles re-time their speed towards the ego
  int32_t rollouts = 1;                        // answers that are drawn for every decision; the car follows their plans' average
  std::vector<std::pair<std::string, double>> section_temperatures;  // what they are drawn at
  double ensemble_s =
      0;  // > 0: a model's plan is averaged with those of its answers in so many seconds before; newer ones count more
  bool careful = false;         // with ensemble_s: plans that would go further than both of the two newest count less
  std::string trajectory_head;  // whose plans are driven, in place of the answers' own (Request::trajectory_head)
  std::string out;              // JSON lines, one a drive; lines that are there are not driven again
  std::string csv;              // the table as CSV
  std::string replay, video,
      picture;                  // one drive to look at: JSON of every tenth of a second; a folder of PNGs or a .mcap; from above
  std::string figure;           // score over latency, .png or .svg
  std::string measure_latency;  // latency.json to write; nobody drives
};
/// Names that DriveOptions::baselines takes.
std::vector<std::string> drive_baselines();
/// The closed loop: 12 s of each scene with 20 Hz control, scored by NC DAC TLC (5 EP + 5 TTC + 2 C) / 12 beside the expert's run. No wall
/// clock: the same files give the same bytes. Without latencies everybody answers at once. `folder` may be empty: baselines alone.
Result<Report> drive(const std::string& folder, const EngineOptions& engine, const DriveOptions& options,
                     const Progress& progress = {}, const CancelToken& cancel = {});

/// Who reaches in reach, how often, and what is written.
struct ReachOptions {
  std::string draft_model;  // folder of a second model that drafts
  /// Presets. Empty: draft-model with a draft model, else scaffold-spec. scaffold-ar comes first in any case.
  std::vector<std::string> decoders;
  std::vector<int64_t> radii;         // bins by which a kept draft may be off; 0: exact. Empty: exact alone
  std::vector<int64_t> drafts;        // of a round. Empty: 4
  uint64_t first_seed = 900'300'000;  // of the episodes; training seeds lie below 100 million
  int64_t episodes = 20;
  std::string csv;     // the table as CSV
  std::string replay;  // one episode as JSON: every step's state, action and passes
};
/// An arm reaches for an object, grasps and lifts it by a model's actions: success by decoder, radius and number of drafts, with passes, the
/// acceptance of drafts, measured milliseconds, and what formulas of speculative decoding say of them. `folder`: a model whose config.json
/// says "body": "arm". Success and counts depend on no clock; milliseconds are this machine's.
Result<Report> reach(const std::string& folder, const EngineOptions& engine, const ReachOptions& options,
                     const Progress& progress = {}, const CancelToken& cancel = {});

/// The machine and the case that limits computes.
struct LimitsOptions {
  std::string machine;  // h100, h100-nvl, h200, a100, thor, orin or a JSON file; empty: this machine, its ceilings measured now
  std::string dtype = "auto";
  int32_t threads = 0;
  int32_t keys = 0;         // that a pass stands behind; 0: the prompt's and 128 of the answer, of free text half of it
  int32_t prompt_rows = 0;  // 0: the task's prompt, or 512 where the folder does not tell it, and its pictures
  int32_t images = -1;      // that the vision tower reads; below 0: the task's
  int32_t image_width = 0, image_height = 0;  // of each, pixels; 0: the task's pictures
  int32_t answer_tokens = 48;                 // of an answer in free text
  std::string draft_model;                    // folder or config.json of a second model, for decoder draft-model
  double acceptance = -1;                     // of tested drafts; below 0: the folder's width.json
  bool measure = false;                       // run what this machine can run, and put it beside the prediction
  int64_t scenes = 2;                         // with `measure`: held-out scenes that each decoder answers in every round
  int64_t light = 0;                          // answers whose blocks are searched for the fewest passes that diffusion could take
  std::string records;                        // with `light`: the set whose first records are answered; empty: held-out scenes
  std::string out;                            // folder for the tables as CSV and limits.json; empty: none
  std::string figure, decoder_figure;         // .png or .svg: passes by their rows; decoders
};
/// What a machine could do at best with a model (empty: tables that need none): each operation, stage, pass and decoder by max(arithmetic,
/// bytes), break-even acceptance, the landscape of (alpha, gamma, c), answers of finite length, a published report's table. `folder`: a
/// model folder or a config.json; only `measure` and `light` need weights (kBadInput without them).
Result<Report> limits(const std::string& folder, const LimitsOptions& options = {}, const Progress& progress = {},
                      const CancelToken& cancel = {});

/// The scene and the picture of demonstrate.
struct DemonstrateOptions {
  uint64_t seed = 0;  // which scene; 0: a chosen one
  std::string png;    // where to draw; empty: nowhere
  int32_t threads = 0;
  std::string device = "cpu";  // or cuda, cuda:N: passes there
  std::string dtype = "auto";  // of weights, as EngineOptions has it
};
/// A held-out scene answered by several decoders, auto last; Report::outcome is kCheckFailed where exact ones differ.
Result<Report> demonstrate(const std::string& folder, const DemonstrateOptions& options = {}, const Progress& progress = {},
                           const CancelToken& cancel = {});

}  // namespace slipstream
