// SPDX-License-Identifier: Apache-2.0
// The subcommands of `bench` as plain functions. They may look behind the public headers: they measure what is there.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "cli/commands.h"

namespace slip::cli {

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
  std::string model, dtype = "auto", device = "cpu";
  std::vector<std::string> images;
  int cameras = 3, width = 972, height = 1079;  // Waymo's front cameras as Fast-dDrive crops them
  int64_t max_pixels = 200704;
  int threads = 0, repeats = 3;
  bool json = false;
};
Status bench_vision(const BenchVisionOptions& o);

struct BenchAnswerOptions {
  std::string model, dtype = "auto", device = "cpu", acceptance;
  std::vector<std::string> presets;  // none: those of the kind of answer
  std::vector<std::string> images;   // none: made ones
  int rows = 1440, cameras = 3, width = 972, height = 1079;
  double per_pass = 4.9;
  int every = 8, threads = 0;
  uint64_t scene = 0;  // of an own answer; 0: a held-out one
  int repeats = 5;     // likewise
  bool recorded = false, reuse = false, no_images = false, json = false;
  std::string of_own;  // an option that was given and says something of own answers alone
};
Status bench_answer(const BenchAnswerOptions& o);

struct BenchTextOptions {
  std::string model;
  std::vector<std::string> decoders = {"ar", "self-spec", "self-spec-quadratic", "text-diffusion",
                                       "text-diffusion/confidence:0.99"};
  std::string prompts =
      "questions";        // whose answers are known; scenes: of driving, without a form; else a file of {"prompt": TEXT} a line
  std::string calibrate;  // text.width.json to write, of one decoder that drafts
  int64_t first_seed = 900000000, count = 0;  // 0: 100, or every line of a file
  int max_tokens = 128, threads = 0;
  bool json = false;
};
Status bench_text(const BenchTextOptions& o);

struct BenchTrajectoryOptions {
  std::string model, head;  // head: a folder; empty: MODEL/trajectory
  std::string decoder = "scaffold-spec";
  int64_t first_seed = 900000000, count = 20;
  int threads = 0;
  bool json = false;
};
Status bench_trajectory(const BenchTrajectoryOptions& o);

struct BenchDecodersOptions {
  RunOptions run;
  std::string draft_model, dflash;  // folders, for the presets that need one
  std::string sampler, blockpilot;  // a commit sampler and a block pilot, for one contender each
  int repeats = 5;
  bool reuse = false;
};
Status bench_decoders(const BenchDecodersOptions& o);

struct BenchServeOptions {
  std::string model, dtype = "auto";
  std::string url, key;               // of a server that runs, http://HOST:PORT, in place of a model in this process; and its key
  std::vector<std::string> decoders;  // none: auto and the presets of the model's visibility
  std::vector<int> clients = {1, 2, 4, 8, 16, 32, 64};
  std::vector<double> rates;  // requests a second, in place of clients
  double hz = 0;              // > 0: each client is a car that asks so often, and whose newest frame wins
  double seconds = 4, deadline_ms = 0, temperature = 0;
  int scenes = 32, turns = 3, threads = 0;
  bool reuse = false, json = false;
};
Status bench_serve(const BenchServeOptions& o);

}  // namespace slip::cli
