// SPDX-License-Identifier: Apache-2.0
// The commands of the command line as plain functions: options in, Status out. Parsing is the business of main.cc, options.cc and
// bench_options.cc, so that its heavy header is compiled nowhere else. Results go to stdout, progress and logs to stderr.
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"

namespace slip::cli {

struct InspectOptions {
  std::string model;
  bool json = false;
};
Status inspect(const InspectOptions& o);

struct TokenizeOptions {
  std::string model, text, file;
  bool has_text = false, json = false, lossy = false;
};
Status tokenize(const TokenizeOptions& o);

struct DetokenizeOptions {
  std::string model, ids, file;
  bool has_ids = false, json = false, skip_special = false;
};
Status detokenize(const DetokenizeOptions& o);

struct PreprocessOptions {
  std::string model, out, alpha = "drop";
  std::vector<std::string> images;
  bool json = false;
};
Status preprocess(const PreprocessOptions& o);

struct ForwardOptions {
  std::string model, rows, out, dtype;  // empty: f32, or what a packed folder is
  std::string device = "cpu";
  int threads = 0;
  int64_t split = 0;
  bool json = false;
};
Status forward(const ForwardOptions& o);

struct FormOptions {
  std::string form, model, unnorm_key;
  bool json = false, schema = false;
};
Status form(const FormOptions& o);

constexpr int kDefaultTokens = 256;  // of free text

struct RunOptions {
  std::string model, form = "model", prompt, prompt_file, record, ego;
  std::vector<std::string> images, videos;
  double fps = 2;
  std::string decoder, schedule, drafter, verifier, width;
  std::string visibility;  // "", "chain", "graph"
  std::string unnorm_key;
  double temperature = 0, top_p = 1, min_p = 0, repetition = 1;
  int top_k = 0, repetition_last = 64, most_rows = 0;
  bool no_activation = false, log_forced = false;
  std::vector<std::string> section_temperatures;  // "trajectory=0.5"
  uint64_t seed = 0;
  int rollouts = 1, threads = 0, slots = 0;
  std::optional<int> max_tokens;  // of free text; none: kDefaultTokens
  std::string dtype = "auto", device = "cpu", kv = "auto", fit = "paper", trace, picture;
  bool json = false, blank_images = false, has_prompt = false;
};
Status run(const RunOptions& o);

struct DemoOptions {
  std::string model, picture;
  uint64_t seed = 0;
  int threads = 0;
  bool json = false;
};
Status demo(const DemoOptions& o);

struct VerifyOptions {
  std::string model, dtype = "auto", device = "cpu", kv = "auto";
  std::string draft_model, dflash;  // folders: their presets are compared too
  int max_width = 64;
  bool json = false;
};
Status verify(const VerifyOptions& o);

struct SimulateOptions {
  uint64_t seed = 0;
  int64_t count = 0;
  std::string out, family, picture;
  int threads = 0;
  bool list_families = false, json = false;
};
Status simulate(const SimulateOptions& o);

struct QuantizeCommand {
  std::string model, type, out;
  int records = 8, threads = 0;
  bool no_compare = false, json = false;
};
Status quantize(const QuantizeCommand& o);

struct SynthesizeCommand {
  std::string like, dtype = "bf16", out;
  std::vector<std::string> tokenizer;
  uint64_t seed = 0;
  int layers = 0, threads = 0;
  bool tiny = false, json = false;
};
Status synthesize(const SynthesizeCommand& o);

struct ConvertCommand {
  std::string source, out, tokenizer;
  bool json = false;
};
Status convert(const ConvertCommand& o);

struct EvalOptions {
  std::string model, records, decoder, schedule, drafter, verifier, width, dtype = "auto", device = "cpu", require, out, calibrate;
  std::string kv = "auto";
  double every_s = 0;  // > 0: frames of each scene so many seconds apart; with drafter `previous` each starts from the one before
  int frames = 2;
  int64_t count = 0;
  uint64_t seed = 0;
  double temperature = 0;
  int threads = 0;
  bool blank_images = false, no_reuse = false, json = false;
};
Status eval(const EvalOptions& o);

struct TrainOptions {
  std::string config, resume, out;
  double max_minutes = 0;
  int64_t steps = 0;
};
Status train(const TrainOptions& o, const char* self);

struct BenchForwardOptions {
  std::string model, device = "cpu", kv = "auto";
  std::vector<std::string> dtypes = {"auto"};
  std::vector<int> widths;
  int threads = 0, keys = 256;
  double seconds = 0.3;
  bool json = false;
};
Status bench_forward(const BenchForwardOptions& o);
Status bench_prefill(const BenchForwardOptions& o);

struct BenchVisionOptions {
  std::string model, dtype = "auto";
  std::vector<std::string> images;
  int cameras = 3, width = 972, height = 1079;  // Waymo's front cameras as Fast-dDrive crops them
  int64_t max_pixels = 200704;
  int threads = 0, repeats = 3;
  bool json = false;
};
Status bench_vision(const BenchVisionOptions& o);

struct BenchAnswerOptions {
  std::string model, dtype = "auto";
  std::vector<std::string> presets = {"ar", "scaffold-ar", "scaffold-spec", "fields-spec"};
  int rows = 1440, cameras = 3, width = 972, height = 1079;
  double per_pass = 4.9;
  int every = 8, threads = 0;
  bool reuse = false, no_images = false, json = false;
};
Status bench_answer(const BenchAnswerOptions& o);

struct BenchDecodersOptions {
  RunOptions run;
  std::string draft_model, dflash;  // folders, for the presets that need one
  int repeats = 5;
  bool reuse = false;
};
Status bench_decoders(const BenchDecodersOptions& o);

}  // namespace slip::cli
