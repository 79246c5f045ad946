// SPDX-License-Identifier: Apache-2.0
// What is asked: images, ego history or text, a form, and how to decode. One request is one answer.
#pragma once
#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "slipstream/error.h"

namespace slipstream {

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
/// A folder of image files, by name.
Result<Video> read_video(const std::string& folder, double fps = 2);

/// The car in the frame of its newest state: x forward, y left, metres; t in seconds, the newest at 0.
struct EgoState {
  float t_s = 0, x = 0, y = 0, vx = 0, vy = 0, ax = 0, ay = 0;
};
struct Ego {
  std::string intent = "GO_STRAIGHT";      // GO_STRAIGHT, GO_LEFT, GO_RIGHT
  std::array<EgoState, 16> history_4hz{};  // t = -3.75 .. 0 s, oldest first
};
/// {"intent": "...", "history": [[t, x, y, vx, vy, ax, ay] x 16]}: the file of `run --ego`.
Result<Ego> read_ego(const std::string& file);
Result<Ego> parse_ego(std::string_view json, std::string_view name = "ego");

/// The parts of a decoder as the command line's words; an empty word leaves the preset's (or the model's) choice.
/// preset: ar, scaffold-ar, section-diffusion, self-spec, self-spec-quadratic, scaffold-spec, fields, fields-spec, draft-model, dflash.
struct DecoderChoice {
  std::string preset;
  std::string schedule;  // text, chain, sections, fields
  std::string drafter;   // none, diffusion[:lora|:ahead], quadratic, lookup[:N], previous:FILE, model:DIR, coupled:DIR, dflash:DIR
  std::string verifier;  // exact, rejection, relaxed:R, ensemble:L, confidence:T, sampler:DIR
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

struct Request {
  /// "model": the form that the folder was trained for; a built-in's name; a JSON Schema file; "none": free text.
  std::string form = "model";
  std::string form_schema;  // a JSON Schema document, in place of `form`
  std::optional<Ego> ego;   // the prompt is made of it, in the style that the model was trained on ...
  std::string prompt;       // ... or this text; "<image>" marks where images and videos go (else: in front)
  std::vector<Image> images;
  std::vector<Video> videos;
  DecoderChoice decoder;
  Sampling sampling;
  std::string visibility;     // "chain", "graph"; empty: what the model was trained for
  std::string unnorm_key;     // models of actions: whose statistics put actions in physical units
  std::string fit = "paper";  // 5 waypoints to 20 points: paper (jerk-minimising, as published), minjerk, linear
  uint64_t seed = 0;
  int32_t rollouts = 1;       // sampled trajectories, averaged after the fit
  int32_t max_tokens = 256;   // of free text
  int32_t max_rows = 0;       // graph visibility: rows of a pass at most; 0: no limit
  bool activation = true;     // graph visibility: children may start on their parents' drafts
  bool log_forced = false;    // tell where the model would not have drawn the form's own tokens
  bool trace = false;         // keep every round: Answer::trace_json
  bool blank_images = false;  // grey in place of the images: how much the cameras matter
  bool reuse_prompt = true;   // rows of the prompt that the request before had too are not run again; same answer either way
  CancelToken cancel;
  std::shared_ptr<const RecordTruth> truth;  // of request_of_record and request_of_scene
};

/// A request made of record `SET:index` (a record set's folder or shard, and a number), with the truth kept for pictures.
Result<Request> request_of_record(std::string_view set_and_index);
/// The same of a simulated scene; frame_s: seconds behind its start.
Result<Request> request_of_scene(uint64_t seed, double frame_s = 0);

}  // namespace slipstream
