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
  std::string model, dtype = "auto";
  std::vector<std::string> images;
  int cameras = 3, width = 972, height = 1079;  // Waymo's front cameras as Fast-dDrive crops them
  int64_t max_pixels = 200704;
  int threads = 0, repeats = 3;
  bool json = false;
};
Status bench_vision(const BenchVisionOptions& o);

struct BenchAnswerOptions {
  std::string model, dtype = "auto", device = "cpu";
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
