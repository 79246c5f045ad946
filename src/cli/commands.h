// SPDX-License-Identifier: Apache-2.0
// The commands of the command line as plain functions: options in, Status out. Parsing is the business of main.cc, options.cc and
// bench/options.cc, so that its heavy header is compiled nowhere else. Results go to stdout, progress and logs to stderr. All but `bench`
// and `train` stand on the public headers: they read what the options name, call one function of the library and print.
#pragma once
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "slipstream/engine.h"

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

struct ForwardCommand {
  std::string model, rows, out;
  slipstream::ForwardOptions options;
  bool json = false;
};
Status forward(const ForwardCommand& o);

struct FormOptions {
  std::string form, model, unnorm_key;
  bool json = false, schema = false, check = false;
};
Status form(FormOptions& o);

/// What the options of `run` say. Most of them are the request's own; the rest names files to read into it.
struct LimitsCommand {
  std::string model;
  slipstream::LimitsOptions options;
  bool json = false;
};
Status limits(const LimitsCommand& o);

struct RunOptions {
  std::string model;
  slipstream::Request request;
  slipstream::EngineOptions engine;
  std::string prompt_file, messages, record, ego;
  std::vector<std::string> images, videos;
  double fps = 2;
  std::string trace, picture;
  std::string records, batch, out;  // many answers: a record set, or a file of OpenAI's batch format
  std::string name;                 // of the model to the requests of that file
  int64_t first = 0, count = 0;
  int32_t at_once = 16;
  bool json = false, has_prompt = false, max_tokens_given = false, stream = false, verbose = false;
};
Status run(const RunOptions& o);
/// The request with what the options name read into it. kUsage for options that cannot act.
Result<slipstream::Request> request_from(const RunOptions& o);

struct DemoOptions {
  std::string model;
  slipstream::DemonstrateOptions options;
  int grow = 0;  // > 0: over the model grown so many times
  bool json = false;
};
Status demo(const DemoOptions& o);
Status demo_grown(const DemoOptions& o);  // bench/grow.cc

struct VerifyCommand {
  std::string model;
  slipstream::VerifyOptions options;
  bool json = false;
};
Status verify(const VerifyCommand& o);

struct SimulateCommand {
  slipstream::SimulateOptions options;
  std::string out, picture;
  bool list_families = false, json = false;
};
Status simulate(const SimulateCommand& o);

struct CodebookCommand {
  std::string out, measure;
  slipstream::CodebookOptions options;
  bool json = false;
};
Status codebook(const CodebookCommand& o);

struct ImportCommand {
  slipstream::ImportOptions options;
  std::string out;
  bool json = false;
};
Status import_set(const ImportCommand& o);

struct ExportCommand {
  slipstream::ExportOptions options;
  std::string out;
  bool json = false;
};
Status export_set(const ExportCommand& o);

struct QuantizeCommand {
  std::string model, out;
  slipstream::QuantizeOptions options;
  bool json = false;
};
Status quantize(const QuantizeCommand& o);

struct SynthesizeCommand {
  std::string out;
  slipstream::SynthesizeOptions options;
  bool json = false;
};
Status synthesize(const SynthesizeCommand& o);

struct GrowCommand {
  std::string model, out;
  int times = 4, mlp = 1, layers = 1;
  bool json = false;
};
Status grow(const GrowCommand& o);  // bench/grow.cc

struct ConvertCommand {
  std::string source, out, tokenizer;
  bool json = false;
};
Status convert(const ConvertCommand& o);

struct EvalCommand {
  std::string model;
  slipstream::EngineOptions engine;
  slipstream::EvaluateOptions options;
  std::vector<std::string> merge, section_temperatures;
  std::string shard;  // I/N
  uint64_t seed = 0;
  bool json = false;
};
Status eval(const EvalCommand& o);

struct DriveCommand {
  std::string model;
  slipstream::EngineOptions engine;
  slipstream::DriveOptions options;
  std::vector<std::string> section_temperatures;
  bool json = false;
};
Status drive(const DriveCommand& o);

struct ReachCommand {
  std::string model;
  slipstream::EngineOptions engine;
  slipstream::ReachOptions options;
  bool json = false;
};
Status reach(const ReachCommand& o);

struct TrainOptions {
  std::string config, resume, out;
  double max_minutes = -1;  // below 0: the configuration's
  int64_t steps = 0;
};
Status train(const TrainOptions& o, const char* self);

struct StudyOptions {
  std::string file, out;
  bool json = false;
};
Status study(const StudyOptions& o, const char* self);
/// The folder of the running binary, whatever argv[0] says: slipstream-train stands there.
std::filesystem::path own_folder(const char* self);

}  // namespace slip::cli
