// SPDX-License-Identifier: Apache-2.0
// What is asked: images, ego history or text, a form, and how to decode. One request is one answer.
#pragma once
#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "slipstream/error.h"

namespace slipstream {

class Answer;
struct RecordTruth;  // what a record's scene was really like; opaque, for pictures and evaluation

/// 8-bit pixels, rows from top to bottom, channels interleaved: pixels[y * row_bytes + x * channels + channel]. The memory belongs to
/// `owner`, or, where that is empty, to the caller, who keeps it until the call that takes the request returns.
struct Image {
  const uint8_t* pixels = nullptr;
  int32_t width = 0, height = 0;
  int32_t channels = 3;   // 1: grey, 3: RGB, 4: RGBA (alpha is dropped, as the Hugging Face processors do)
  int64_t row_bytes = 0;  // 0: width * channels
  std::shared_ptr<const void> owner;
};
/// JPEG, PNG, WebP or PPM. kBadInput names the file, what was expected and what was found. At least 28 pixels a side, at most
/// 16,384, and an aspect ratio of at most 200.
Result<Image> read_image(const std::string& file);
/// The same from bytes in memory; `name` opens error messages.
Result<Image> decode_image(std::string_view bytes, std::string_view name);

/// Frames in order of time, at a steady rate.
struct Video {
  std::vector<Image> frames;
  double fps = 2;
};
/// A folder of image files, by name. kCancelled between two of them by `cancel`.
Result<Video> read_video(const std::string& folder, double fps = 2, const CancelToken& cancel = {});

/// The car in the frame of its newest state: x forward, y left, metres; t in seconds, the newest at 0.
struct EgoState {
  float t_s = 0, x = 0, y = 0, vx = 0, vy = 0, ax = 0, ay = 0;
};
using EgoHistory = std::array<EgoState, 16>;  // at 4 Hz, t = -3.75 .. 0 s, oldest first
/// Of a car that has stood still all the while: every time set, every other number 0.
constexpr EgoHistory history_at_rest() {
  constexpr float kRateHz = 4;
  EgoHistory out{};
  for (std::size_t i = 0; i < out.size(); ++i) out[i].t_s = (static_cast<float>(i) - static_cast<float>(out.size() - 1)) / kRateHz;
  return out;
}
/// Where the route goes, and where the car has been: at rest and going straight on, where nobody says.
struct Ego {
  std::string intent = "GO_STRAIGHT";  // GO_STRAIGHT, GO_LEFT, GO_RIGHT
  EgoHistory history_4hz = history_at_rest();
};
/// {"intent": "...", "history": [[t, x, y, vx, vy, ax, ay], ...]}, oldest first, in the frame of the last state, whose t is 0: the file of
/// `run --ego` (docs/guide/inputs.md). States at another rate than 4 Hz are resampled. kBadInput for unknown keys, times that do not end at 0
/// or reach back less than 3.75 s, and for what no car does.
Result<Ego> read_ego(const std::string& file);
/// The same from text; `name` opens error messages.
Result<Ego> parse_ego(std::string_view json, std::string_view name = "ego");

/// A turn of a conversation. "<image>" in the text marks where the next image goes, "<video>" the next video; in `parts`, where there are
/// any, texts are what they say and no text is a mark. A conversation is of one kind throughout.
struct Message {
  struct Part {
    std::string text;
    bool image = false;  // the next image, in place of a text
  };
  std::string role;  // system, user, assistant
  std::string text;
  std::vector<Part> parts = {};  // ... or these
};
/// [{"role": "user", "content": "..."}, ...] as chat interfaces write it; `content` may be an array of {"type": "text", "text": "..."} and
/// {"type": "image"} or {"type": "video"}. The first may be the system's; the last is a user's.
Result<std::vector<Message>> parse_messages(std::string_view json, std::string_view name = "messages");

/// The parts of a decoder as the command line's words; an empty word leaves the preset's (or the model's) choice.
/// preset: auto (the default where no part is named: the quickest exact one for model, form and machine), ar, scaffold-ar,
/// section-diffusion, text-diffusion, self-spec, self-spec-quadratic, scaffold-spec, fields, fields-spec, draft-model, dflash.
struct DecoderChoice {
  std::string preset;
  std::string schedule;  // text, chain, sections, fields
  std::string drafter;  // none, diffusion[:lora|:ahead], quadratic, lookup[:N], previous:FILE, model:DIR, coupled:DIR, dflash[:DIR]
  std::string verifier;  // exact, rejection, relaxed:R (bins) or relaxed:Xu (physical units), ensemble:L, confidence:T, sampler:DIR
  std::string width;     // how many tokens a round drafts: fixed:N, blocks, measured[:FILE], blockpilot:FILE
};

/// What may stand for a part, for help texts: "preset", "schedule", "drafter", "verifier", "width"; empty for another word.
std::string decoder_words(std::string_view part);

/// Temperature 0 is greedy. Randomness is keyed by (seed, request number, field, index): every exact decoder gives the same answer.
struct Sampling {
  double temperature = 0;
  int32_t top_k = 0;  // > 0: the k largest
  double top_p = 1;   // < 1: the fewest largest whose probabilities reach p
  double min_p = 0;   // > 0: ids of at least min_p times the largest probability
  double repetition_penalty = 1;
  int32_t repetition_last = 64;                                      // tokens of the field that the penalty looks back on
  std::vector<std::pair<std::string, double>> section_temperatures;  // by the form's sections, overriding
};

/// Copies are cheap: pixels are shared.
struct Request {
  /// "model": the form that the folder was trained for; a built-in's name; a JSON Schema file; "none": free text.
  std::string form = "model";
  std::string form_schema;  // a JSON Schema document, in place of `form`
  std::optional<Ego> ego;   // the prompt is made of it, in the style that the model was trained on ...
  /// ... or this text. "<image>": one mark takes all images and videos, several take one image each ("<video>" likewise); without marks they
  /// stand in front. kBadInput where there are other numbers of marks than images.
  std::string prompt;
  std::string system;             // said in the system's turn, before the prompt; of models with a chat template
  std::vector<Message> messages;  // a conversation in place of prompt and system
  bool raw_prompt = false;        // the prompt as it is, without a chat template
  std::vector<Image> images;      // in the model's order; driving models here: front left, front, front right
  std::vector<Video> videos;
  DecoderChoice decoder;
  /// Answer::to_json() of an earlier answer in the same form, such as the frame before: it drafts in place of the preset's drafter, which
  /// takes over where it misses. As `decoder.drafter = "previous:FILE"`, without the file.
  std::string previous_answer;
  Sampling sampling;
  std::string visibility;  // "chain", "graph"; empty: what the model was trained for
  std::string unnorm_key;  // models of actions: whose statistics put actions in physical units
  /// Folder of a trajectory head: the plan is the one that it reads from the model's keys of prompt and answer. Its noise is keyed by `seed`
  /// alone, at temperature 0 too: the same request has the same plan. The answer's own stays beside it (Answer::own_trajectory).
  std::string trajectory_head;
  /// With a head that was taught with "cut": it plans behind the prompt and behind every section too (Event::kPlan, Answer::early_plans).
  bool fast_plan = false;
  /// Waypoints to points at 4 Hz: paper (jerk-minimising, as published), minjerk (least squared jerk from the measured speed), rounded (a
  /// smooth one of all whose waypoints round to these), linear; auto: rounded where the model says waypoints in steps above 5 cm
  /// (config.json: slipstream.waypoint_step_m), else paper. Without an ego's speed minjerk and rounded leave it free.
  std::string fit = "auto";
  uint64_t seed = 0;
  int32_t rollouts = 1;           // sampled trajectories, averaged after the fit
  int32_t max_tokens = 256;       // of free text
  std::vector<std::string> stop;  // free text ends before the first of these
  int32_t max_rows = 0;           // graph visibility: rows of a pass at most; 0: no limit
  bool activation = true;         // graph visibility: children may start on their parents' drafts
  bool log_forced = false;        // tell where the model would not have drawn the form's own tokens
  bool log_probs = false;         // tell how likely the model found what it answered: Answer::log_probs; of exact decoders
  int32_t top_log_probs = 0;      // with log_probs: so many of the likeliest tokens at every place (LogProbs::top), at most 20
  bool trace = false;             // keep every round: Answer::trace_json
  bool blank_images = false;      // grey in place of the images: how much the cameras matter
  bool reuse_prompt = true;       // rows of the prompt that the request before had too are not run again; same answer either way
  CancelToken cancel;             // copies of a request share it: a frame with a deadline of its own wants a new one
  /// What may draft where it is an answer in the same form (and neither the decoder nor `previous_answer` says what drafts): an earlier answer,
  /// or a text. The bytes are the same; what is no such answer is passed over.
  std::shared_ptr<const Answer> previous;
  std::string prediction;
  std::shared_ptr<const RecordTruth> truth;  // of request_of_record and request_of_scene
};

/// A setting of a request by its name: `run --top-k 5`, "top_k": 5 in a JSON document and top_k=5 in Python are one row of one table
/// (src/api/request/request_options.cc).
struct RequestOption {
  enum class Kind : uint8_t { kText, kWhole, kNumber, kFlag, kTexts };  // kTexts: several, one at a time
  std::string_view name;                                                // "top_k"
  std::string_view flag;  // on the command line, without "--"; empty: spelled elsewhere
  Kind kind = Kind::kText;
  std::string_view group;          // heading of help texts
  std::string help, range;         // range: "0 to 100"; empty: any
  std::vector<std::string> words;  // what a text may be; empty: any
  std::string initial;             // as a text, where nobody says
};
/// All rows of the table, in the order of help texts.
const std::vector<RequestOption>& request_options();
/// Puts a value, as a command line spells it ("5", "true"), into the request; of kTexts one more. kUsage: "<where>: expected ..., got ...".
Status set_option(Request& request, std::string_view name, std::string_view value, std::string_view where);
/// All of the table's settings of a request, and its schema, as a JSON object: what an answer goes by beside its inputs.
std::string settings_of(const Request& request);

/// A request made of record `SET:INDEX` (a record set's folder or one of its shards, and a number), with the truth kept for pictures.
Result<Request> request_of_record(std::string_view set_and_index);
/// How many records a set (a folder or a shard) has.
Result<int64_t> count_records(const std::string& set);
/// The same of a simulated scene; frame_s: seconds behind its start, 0 to 1.5.
Result<Request> request_of_scene(uint64_t seed, double frame_s = 0);

}  // namespace slipstream
